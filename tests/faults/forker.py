"""A child to be killed: makes a fork, salvages a run, repairs one, or takes a repair back.

    forker.py SCENARIO DIRECTORY

It says `made` and what was made, or `failed` and the reason. Names that are random otherwise are always the
same, so that a tracer can be told which files to look at.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from refold.core.errors import RefoldError
from refold.core.store import fork, repair, salvage
from refold.core.store.notes import NotesStore
from refold.core.store.reader import RunReader

HEX = "0123456789abcdef"
AT = 6
"""The item after which is forked."""


def say(text: str) -> None:
    """Write a line that is out before the next system call."""
    os.write(1, text.encode() + b"\n")


def main(scenario: str, directory: Path) -> None:
    """Do what the scenario names to the run in a directory."""
    os.urandom = lambda size: bytes.fromhex(HEX)[:size] if size == 8 else random.randbytes(size)
    path = directory / "runs" / "parent.json"
    notes = NotesStore(directory / "notes")
    with RunReader.open(path) as reader:
        reader.index_all()
        if scenario == "fork":
            plan = fork.plan_at(reader, AT, child="child", reason="why")
            say("begin")
            made = fork.carry_out(plan, notes=notes)
            say(f"made {made.durable} {made.noted}")
        elif scenario == "salvage":
            salvage_plan = salvage.salvage_of(reader, child="child")
            say("begin")
            made = salvage.carry_out(salvage_plan, notes=notes)
            say(f"made {made.durable} {made.noted}")
        elif scenario == "repair":
            repair_plan = repair.plan_for(reader)
            assert repair_plan is not None
            say("begin")
            say(f"made {repair.repair(repair_plan, reader.format.name, notes=notes)}")
        else:
            say("begin")
            say(f"made {repair.undo(path, notes=notes).side_file}")


if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]))
    except RefoldError as error:
        say(f"failed {error}")
