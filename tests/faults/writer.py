"""A child to be killed: writes a run in one of three ways and says on standard output what was acknowledged.

    writer.py SCENARIO DIRECTORY [CALL NUMBER]

Each line is out at once: `ack N` after the journal gave the sequence N back, `open N` after opening found N
records, `failed TEXT` when something was refused. With CALL it kills itself before that call of that number
on a file of the directory; number 0 only counts, and says `count N` at the end.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from refold.core.errors import JournalClosed, StoreError, WriteFailed
from refold.core.records import (
    AssistantRecord,
    Json,
    Message,
    MetaRecord,
    Record,
    TerminalRecord,
    ToolResultRecord,
    UserRecord,
)
from refold.core.repair import TornTail
from refold.core.store.journal import Journal, JournalStore

RUN_ID = "run"
TEXT = "é" * 40


def record_at(seq: int) -> Record:
    """Give the record that belongs at a sequence: always the same one, so that a reader can check it."""
    match seq % 4:
        case 0:
            return UserRecord(Message("user", ({"type": "text", "text": f"{TEXT} {seq}"},)))
        case 1:
            return TerminalRecord("suspended", f"{TEXT} {seq}")
        case 2:
            call: Json = {"type": "tool_use", "id": f"t{seq}", "name": "run", "input": {"text": TEXT}}
            return AssistantRecord(Message("assistant", (call,)), stop_reason="tool_use", in_tokens=seq)
        case _:
            result: Json = {"tool_use_id": f"t{seq - 1}", "content": [{"type": "text", "text": TEXT}]}
            return ToolResultRecord(f"t{seq - 1}", result)


def say(text: str) -> None:
    """Write a line that is out before the next system call on the run."""
    os.write(1, text.encode() + b"\n")


def open_repaired(store: JournalStore) -> Journal:
    """Open the run as the native runner does: a torn tail is repaired by its plan."""
    try:
        return store.open(RUN_ID)
    except TornTail as torn:
        return store.open(RUN_ID, repair=torn.plan)


def append(journal: Journal, count: int, say: Callable[[str], None] = say) -> None:
    """Append so many records and acknowledge each."""
    for _ in range(count):
        record = MetaRecord(prompt=TEXT) if journal.last_seq == 0 else record_at(journal.last_seq + 1)
        say(f"ack {journal.append(record)}")


def reopened(store: JournalStore) -> Journal:
    """Open anew, and once more where that fails."""
    try:
        journal = open_repaired(store)
    except StoreError as error:
        say(f"failed {error}")
        journal = open_repaired(store)
    say(f"open {journal.last_seq}")
    return journal


def create(store: JournalStore) -> None:
    """Begin a run."""
    with store.create(RUN_ID, MetaRecord(prompt=TEXT)) as journal:
        say("ack 1")
        append(journal, 2)


def resume(store: JournalStore) -> None:
    """Go on with a run."""
    with open_repaired(store) as journal:
        say(f"open {journal.last_seq}")
        append(journal, 2)


def stubborn(store: JournalStore) -> None:
    """Go on through a failure: try the closed journal again, open anew, take up what is on disk."""
    journal = reopened(store)
    for _ in range(4):
        try:
            append(journal, 1)
        except WriteFailed as error:
            say(f"failed {error}")
            try:
                journal.append(record_at(journal.last_seq + 1))
            except JournalClosed:
                journal = reopened(store)
    journal.close()


def die_before(name: str, number: int, directory: Path) -> list[int]:
    """Kill this process before the call of that number; gives the counter, in a list of one."""
    real: Callable[..., Any] = getattr(os, name)
    counter = [0]

    def counting(target: object, *arguments: object, **options: object) -> Any:
        if isinstance(target, int):
            target_path = Path("/dev/fd") / str(target)
            ours = target > 2 and directory in (target_path.resolve(), *target_path.resolve().parents)
        else:
            ours = directory in (Path(os.fsdecode(target)), *Path(os.fsdecode(target)).parents)  # type: ignore[arg-type]
        if ours:
            counter[0] += 1
            if counter[0] == number:
                os.kill(os.getpid(), signal.SIGKILL)
        return real(target, *arguments, **options)

    setattr(os, name, counting)
    return counter


def main(scenario: str, directory: str, call: str = "", number: str = "0") -> None:
    """Run the scenario of this name."""
    counter = die_before(call, int(number), Path(directory)) if call else [0]
    {"create": create, "resume": resume, "stubborn": stubborn}[scenario](JournalStore(Path(directory)))
    if call:
        say(f"count {counter[0]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
