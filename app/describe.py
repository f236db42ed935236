"""Says what a native agent is, as JSON: a process of its own, so that no agent runs inside the screen."""

from __future__ import annotations

import os
import sys

import msgspec

from refold.core.agent import load_agent
from refold.core.errors import RefoldError


def main(factory: str) -> int:
    """Print fingerprint and effects of the agent that a factory gives, as the last line."""
    # What the agent's own modules print must not mix with the answer.
    answer = os.dup(1)
    os.dup2(2, 1)
    try:
        agent = load_agent(factory)
        said = {"fingerprint": agent.fingerprint(), "effects": agent.effects()}
    except RefoldError as error:
        remedy = f" ({error.remedy})" if error.remedy else ""
        sys.stderr.write(f"{error}{remedy}\n")
        return 1
    os.write(answer, msgspec.json.encode(said) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
