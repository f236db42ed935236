"""Says what a native agent is, as JSON: a process of its own, so that no agent runs inside the screen."""

from __future__ import annotations

import json
import os
import sys

import msgspec

from refold.core.agent import load_agent
from refold.core.errors import RefoldError


def main(factory: str) -> int:
    """Print as the last line what the agent of a factory is, or why there is none."""
    # What the agent's own modules print must not mix with the answer.
    answer = os.dup(1)
    os.dup2(2, 1)
    said: dict[str, object]
    try:
        agent = load_agent(factory)
        said = {"fingerprint": msgspec.to_builtins(agent.fingerprint()), "effects": agent.effects()}
    except RefoldError as error:
        said = {"problem": f"{error} ({error.remedy})" if error.remedy else str(error)}
    os.write(answer, json.dumps(said).encode() + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
