"""A last record cut at every byte, and everything that is done with such a run (design/safety.md 5, G3).

The rules of the writers that are read here lose the next acknowledged record at nearly every one of these
places (design/safety.md 0.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.faults.goals import Goal, Share, carry_out, shuffled
from tests.faults.victims import scratch

from refold.core.fork import legal_points
from refold.core.formats.journal import NATIVE
from refold.core.journal_text import fold_bytes
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
from refold.core.store import fork, repair
from refold.core.store.catalog import Catalog, Root
from refold.core.store.examining import examine
from refold.core.store.journal import JournalStore
from refold.core.store.reader import RunReader
from refold.core.summary import RunSummary

STRIDE: dict[Share, int] = {"ci": 41, "quick": 3, "long": 1}
CALL: Json = {"type": "tool_use", "id": "t1", "name": "run", "input": {"path": "ü/\u2028", "n": 1.5}}
RESULT: Json = {"tool_use_id": "t1", "is_error": True, "content": [{"text": "é\n\\", "type": "text"}]}
TEXT: Json = {"type": "text", "text": "naïve “text” \u2028 \t"}
LAST: dict[str, tuple[Record, ...]] = {
    "meta": (),
    "user": (UserRecord(Message("user", (TEXT,))),),
    "assistant": (AssistantRecord(Message("assistant", (TEXT,)), 0, "end_turn", 5, 6, 7, 8),),
    "call": (AssistantRecord(Message("assistant", (TEXT, CALL)), 0, "tool_use", 5, 6, 7, 8),),
    "result": (
        AssistantRecord(Message("assistant", (CALL,)), 0, "tool_use", 5, 6, 7, 8),
        ToolResultRecord("t1", RESULT),
    ),
    "terminal": (TerminalRecord("suspended", "by “hand”"),),
}
"""The kinds of the last record, each behind what has to stand before it."""


def measure(share: Share, seed: int, seconds: float) -> Iterator[Goal]:
    """Cut, and look, list, fork, repair and go on."""
    with scratch() as directory:

        def cuts(goal: Goal) -> None:
            wholes = {kind: _whole(directory / "whole", kind) for kind in LAST}
            for kind, cut, newline in shuffled(_places(wholes, STRIDE[share], seed), seed):
                if goal.over:
                    break
                whole = wholes[kind]
                _try(goal, directory, kind, whole, _start(whole), whole[:cut] + newline)

        goal = Goal(
            "G3", "a last record cut at every byte, with and without a newline", seed=seed, asked=15_000
        )
        yield from carry_out([(goal, cuts)], seconds)


def _start(whole: bytes) -> int:
    """Give where the last record begins."""
    return whole.rindex(b"\n", 0, -1) + 1 if whole.count(b"\n") > 1 else 0


def _places(wholes: dict[str, bytes], stride: int, seed: int) -> list[tuple[str, int, bytes]]:
    """Give where each run is cut, and what stands there then."""
    found = []
    for kind, whole in wholes.items():
        places = [
            (kind, cut, newline)
            for cut in range(_start(whole) + 1, len(whole) + 1)
            for newline in (b"", b"\n")
            if not (newline and cut == len(whole))
        ]
        found += places[-seed % stride :: stride]
    return found


def _whole(directory: Path, kind: str) -> bytes:
    store = JournalStore(directory / kind)
    with store.create("run", MetaRecord(prompt="go “on”")) as journal:
        for record in LAST[kind]:
            journal.append(record)
    return store.path_of("run").read_bytes()


def _try(goal: Goal, directory: Path, kind: str, whole: bytes, start: int, data: bytes) -> None:
    """Do everything with one cut."""
    before = whole.count(b"\n", 0, start)
    is_whole = data.rstrip(b"\n") == whole.rstrip(b"\n")
    records = before + is_whole
    place = f"{kind}: {len(data)} of {len(whole)} bytes, ends {data[-1:]!r}"
    path = directory / "runs" / "run.json"
    path.parent.mkdir(exist_ok=True)
    for file in path.parent.iterdir():
        file.unlink()
    path.write_bytes(data)
    path.chmod(0o600)
    with goal.attempt(f"view {place}"), RunReader.open(path) as reader:
        timeline = reader.index_all()
        kinds = [timeline.kind(item) for item in range(timeline.items)]
        assert len([each for each in kinds if each != "damage"]) == records
        assert all(reader.record(item).seq == item + 1 for item in range(records))
    with goal.attempt(f"verify {place}"), RunReader.open(path) as reader:
        codes = {finding.code for finding in examine(reader)}
        wanted = {"E_TORN_TAIL"} if not is_whole else {"E_NO_FINAL_NL"} if data[-1:] != b"\n" else set()
        assert codes - {"E_EMPTY", "E_UNCERTAIN_EFFECT"} == wanted, codes
    with goal.attempt(f"list {place}"):
        catalog = Catalog([Root(path.parent, "refold", "test")], cache=None)
        rows = {row.id: row for row in catalog.scan() if isinstance(row, RunSummary)}
        catalog.close()
        assert rows["run"].torn == (not is_whole)
        assert rows["run"].last_seq == records or not records
    with goal.attempt(f"fork {place}"), RunReader.open(path) as reader:
        points = list(legal_points(reader.index_all()))
        assert len(points) == records
        if points:
            child = fork.carry_out(fork.plan_at(reader, points[-1], child="child")).path.read_bytes()
            assert fold_bytes(child).last_seq == records
        assert path.read_bytes() == data
    with goal.attempt(f"repair {place}"):
        _repair(path, data, is_whole=is_whole)
    with goal.attempt(f"go on {place}"):
        _go_on(path, records)


def _repair(path: Path, data: bytes, *, is_whole: bool) -> None:
    """Repair the end and take that back where anything was cut."""
    with RunReader.open(path) as reader:
        plan = repair.plan_for(reader)
    assert (plan is None) == (is_whole and data[-1:] == b"\n")
    if plan is None:
        return
    assert repair.repair(plan, "refold")
    if is_whole:
        assert path.read_bytes() == data + b"\n"
    else:
        assert path.read_bytes() == data[: plan.keep]
        assert repair.undo(path).torn_bytes == len(data) - plan.keep
        assert path.read_bytes() == data
    path.write_bytes(data)


def _go_on(path: Path, records: int) -> None:
    """Append twice, as whoever goes on with the run; nothing may be lost."""
    store = JournalStore(path.parent)
    try:
        journal = store.open("run")
    except TornTail as torn:
        journal = store.open("run", repair=torn.plan)
    with journal:
        assert journal.last_seq == records
        if not records:
            journal.append(MetaRecord(prompt="again"))
        journal.append(UserRecord(Message("user", (TEXT,))))
        last = journal.append(TerminalRecord("suspended"))
    data = path.read_bytes()
    decoder = NATIVE.decoder(data)
    assert [decoder.record(line).seq for line in data[:-1].split(b"\n")] == list(range(1, last + 1))
    assert fold_bytes(data).last_seq == last == max(records, 1) + 2
