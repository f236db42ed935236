"""A child to be killed: moves a run to the trash, puts it back, or deletes it for good.

    trasher.py SCENARIO DIRECTORY

It says `made`, or `failed` and the reason. Names that are random otherwise are always the same.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from refold.core.errors import RefoldError
from refold.core.store.trash import carry_out, plan_for
from refold.core.store.trash_list import delete, entries, restore

HEX = "0123456789abcdef"


def say(text: str) -> None:
    """Write a line that is out before the next system call."""
    os.write(1, text.encode() + b"\n")


def main(scenario: str, directory: Path) -> None:
    """Do what the scenario names to the run in a directory."""
    os.urandom = lambda size: bytes.fromhex(HEX)[:size]
    runs = directory / "runs"
    if scenario.startswith("trash"):
        plan = plan_for(runs / ("session" if scenario == "trash-directory" else "a.json"))
        say("begin")
        carry_out(plan)
    else:
        (entry,) = entries([runs])
        say("begin")
        if scenario.startswith("restore"):
            restore(entry)
        else:
            delete(entry)
    say("made")


if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]))
    except RefoldError as error:
        say(f"failed {error}")
