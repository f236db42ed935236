"""What is read of a run before a resume, and how one begins: lock, fold, decide."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.scripted import Step, World, agent, begin, call_id, on_disk, resume

from refold.core.errors import CorruptJournal, RunLocked, RunNotFound, UnsupportedVersion
from refold.core.formats.journal import FISK_AI, NATIVE
from refold.core.journal_text import fold_bytes
from refold.core.records import (
    AssistantRecord,
    Decision,
    Fingerprint,
    Json,
    Message,
    MetaRecord,
    Resumed,
    TerminalRecord,
    ToolResultRecord,
    UserRecord,
)
from refold.core.repair import PlanOutdated, TornTail
from refold.core.resume import ResumeRefused, ResumeRequest, plan_resume
from refold.core.store import resume as resume_module
from refold.core.store.journal import JournalStore
from refold.core.store.lock import RunLock
from refold.core.store.notes import NotedResume, Notes
from refold.core.store.reader import RunReader
from refold.core.store.resume import hand_over, last_fingerprint, open_to_resume, read_facts

FIRST = Fingerprint("opus", "5" * 64, "7" * 64, "off", 1000, 10, "anthropic")


@pytest.fixture
def store(tmp_path: Path) -> JournalStore:
    return JournalStore(tmp_path / "runs")


@pytest.fixture
def suspended(store: JournalStore) -> Path:
    """A run whose model was asked once, and whose write has no result."""
    made = agent([Step(("read", "write")), Step()], World())
    asyncio.run(begin(store, made))
    path = store.path_of("run")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    return path


def made() -> Any:
    return agent([Step(("read", "write")), Step()], World())


def other(model: str) -> Fingerprint:
    return msgspec.structs.replace(FIRST, model=model)


# reading


def test_facts_are_read_without_a_trace(suspended: Path) -> None:
    before = (suspended.read_bytes(), suspended.stat(), sorted(suspended.parent.iterdir()))
    facts = read_facts(suspended, now=FIRST, effects={"do_write": "write"})
    assert (suspended.read_bytes(), sorted(suspended.parent.iterdir())) == (before[0], before[2])
    assert suspended.stat().st_mtime_ns == before[1].st_mtime_ns
    plan = plan_resume(facts)
    assert (facts.run_id, facts.native, facts.error, facts.repair, facts.holder) == (
        *("run", True, None, None, ""),
    )
    assert {call.id: call.verdict for call in plan.calls} == {
        call_id(0, 0): "reused",
        call_id(0, 1): "unknown",
    }


def test_a_holder_is_named(suspended: Path) -> None:
    lock = RunLock.take(suspended.with_suffix(".lock"))
    facts = read_facts(suspended)
    lock.release()
    assert facts.holder.startswith("process ")
    assert facts.lock_known
    assert plan_resume(facts).reasons[0].code == "locked"


def test_where_the_system_tells_nothing_the_lock_is_unsure(
    suspended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume_module, "locked_inodes", lambda: None)
    assert not read_facts(suspended).lock_known


@pytest.mark.parametrize(
    ("tail", "code"),
    [(b'{"seq":4,"pro', "E_TORN_TAIL"), (b"\0" * 9, "E_TORN_TAIL"), (None, "E_NO_FINAL_NL")],
)
def test_what_the_end_needs_is_planned(suspended: Path, tail: bytes | None, code: str) -> None:
    data = suspended.read_bytes()
    suspended.write_bytes(data[:-1] if tail is None else data + tail)
    facts = read_facts(suspended)
    assert facts.repair is not None
    assert facts.repair.code == code
    assert facts.state is not None
    assert "torn_tail" in [reason.code for reason in plan_resume(facts).reasons]


def test_deeper_damage_has_no_repair_and_no_state(suspended: Path) -> None:
    lines = suspended.read_bytes().splitlines(keepends=True)
    suspended.write_bytes(lines[0] + b"garbage\n" + lines[1])
    facts = read_facts(suspended)
    assert (facts.state, facts.repair) == (None, None)
    assert isinstance(facts.error, CorruptJournal)
    suspended.write_bytes(lines[0] + lines[1] + b"garbage\n" * 2)
    assert read_facts(suspended).repair is None


def test_what_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound):
        read_facts(tmp_path / "missing.json")


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_every_recorded_journal_has_a_plan(version: str, journals: Path) -> None:
    expected = json.loads((journals / version / "expected.json").read_text())
    for name in sorted(set(expected) - {"_defaults"}):
        path = journals / version / f"{name}.json"
        facts = read_facts(path, hint="fisk-ai")
        plan = plan_resume(facts)
        folded = facts.error is None
        assert folded == (facts.state is not None), name
        assert (plan.outcome == "refuse") or folded, name
        if folded and facts.state is not None and facts.state.completed:
            assert [reason.code for reason in plan.reasons] == ["completed"], name
        if folded:
            state = fold_bytes(path.read_bytes(), hint="fisk-ai")
            assert (plan.last_seq, plan.next_iteration) == (state.last_seq, state.next_iteration), name
            assert facts.saved == state.fingerprint


@pytest.mark.parametrize(
    ("records", "stopped"),
    [
        ([TerminalRecord("budget")], "budget"),
        ([TerminalRecord("budget"), TerminalRecord("suspended")], "suspended"),
        ([TerminalRecord("budget"), UserRecord(Message("user", ()))], ""),
        ([], ""),
    ],
)
def test_a_stop_counts_while_nothing_follows_it(
    records: list[Any], stopped: str, store: JournalStore
) -> None:
    with store.create("run", MetaRecord(fingerprint=FIRST)) as journal:
        for record in records:
            journal.append(record)
    path = store.path_of("run")
    assert read_facts(path).stopped == stopped
    with path.open("ab") as file:
        file.write(b'{"torn')
    assert read_facts(path).stopped == stopped


def test_nothing_is_known_of_an_empty_run(store: JournalStore, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(b"")
    facts = read_facts(path)
    assert (facts.stopped, facts.saved, facts.state) == ("", Fingerprint(), None)
    assert [reason.code for reason in plan_resume(facts).reasons] == ["empty"]


# the fingerprint that counts


def test_the_last_recorded_fingerprint_counts(store: JournalStore) -> None:
    with store.create("run", MetaRecord(fingerprint=FIRST)) as journal:
        assert read_facts(journal.path).saved == FIRST
        for model in ("one", "two"):
            journal.append(UserRecord(Message("user", ()), resumed=Resumed(True, "why", other(model))))
            journal.append(UserRecord(Message("user", ({"type": "text", "text": 'says "resumed": no'},))))
        call: Json = {"type": "tool_use", "id": "a", "name": "t", "input": {"resumed": {"forced": True}}}
        journal.append(AssistantRecord(Message("assistant", (call,))))
        journal.append(ToolResultRecord("a", None, resumed=Resumed(False, "", None)))
        assert read_facts(journal.path).saved == other("two")
        noted = Notes(resumes=(NotedResume(fingerprint=other("x")),))
        assert read_facts(journal.path, notes=noted).saved == other("two")


def test_it_is_found_however_far_back_and_across_pieces(
    store: JournalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.create("run", MetaRecord(fingerprint=FIRST)) as journal:
        journal.append(TerminalRecord("suspended", resumed=Resumed(True, "why", other("one"))))
        for number in range(20):
            journal.append(UserRecord(Message("user", ({"type": "text", "text": "x" * (90 + number)},))))
    with RunReader.open(store.path_of("run")) as reader:
        reader.index_all()
        for piece in (16, 17, 64, 100, 257, 4096):
            monkeypatch.setattr(resume_module, "_PIECE", piece)
            assert last_fingerprint(reader) == other("one")


def test_a_damaged_line_says_nothing(store: JournalStore) -> None:
    with store.create("run", MetaRecord(fingerprint=FIRST)) as journal:
        journal.append(TerminalRecord("suspended"))
        path = journal.path
    good = NATIVE.encode(TerminalRecord("suspended", seq=3, resumed=Resumed(True, "", other("x"))))
    path.write_bytes(path.read_bytes() + b'{"resumed"' + good)
    assert read_facts(path).saved == FIRST
    path.write_bytes(b'"resumed" first\n' + path.read_bytes())
    assert read_facts(path).saved == FIRST


def test_what_another_tool_was_resumed_with_is_in_the_notes(journals: Path) -> None:
    path = journals / "v3" / "suspended-at-boundary.json"
    noted = Notes(resumes=(NotedResume(fingerprint=other("x")), NotedResume(forced=True)))
    assert read_facts(path, notes=noted, hint="fisk-ai").saved == other("x")
    assert read_facts(path, hint="fisk-ai").saved != other("x")


# opening


def test_the_lock_is_taken_before_the_fold_and_kept(suspended: Path, store: JournalStore) -> None:
    request = ResumeRequest(decisions={call_id(0, 1): Decision("rerun")})
    with open_to_resume(store, "run", made(), request=request) as opened:
        assert opened.plan.outcome == "accept"
        assert [record.seq for record in opened.records()] == [1, 2, 3]
        with pytest.raises(RunLocked, match="locked by process"):
            open_to_resume(store, "run", made(), request=request)
    assert opened.journal.closed
    open_to_resume(store, "run", made(), request=request).close()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, ResumeRefused),
        ({"expected": 7}, PlanOutdated),
        ({"expected": 3}, ResumeRefused),
    ],
)
def test_a_run_that_may_not_go_on_is_let_go_of(
    options: dict[str, Any], error: type[Exception], suspended: Path, store: JournalStore
) -> None:
    before = suspended.read_bytes()
    with pytest.raises(error):
        open_to_resume(store, "run", made(), **options)
    assert suspended.read_bytes() == before
    RunLock.take(suspended.with_suffix(".lock")).release()


def test_the_plan_that_was_shown_is_not_carried_out_on_another_end(store: JournalStore) -> None:
    world = World()
    script = [Step(("read",)), Step()]
    asyncio.run(begin(store, agent(script, world)))
    path = store.path_of("run")
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))
    shown = plan_resume(read_facts(path, now=agent(script, world).fingerprint(), effects={"do_read": "read"}))
    assert (shown.outcome, shown.last_seq) == ("accept", 2)
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
    with pytest.raises(PlanOutdated, match="the run ends at seq 3, not at 2"):
        open_to_resume(store, "run", agent(script, world), expected=shown.last_seq)


def test_a_torn_end_is_repaired_when_agreed_to(suspended: Path, store: JournalStore) -> None:
    data = suspended.read_bytes()
    suspended.write_bytes(data + b'{"seq":4')
    decided = {call_id(0, 1): Decision("failed")}
    with pytest.raises(TornTail) as torn:
        open_to_resume(store, "run", made(), request=ResumeRequest(decisions=decided))
    assert suspended.read_bytes() == data + b'{"seq":4'
    agreed = ResumeRequest(decisions=decided, repair=True)
    stale = msgspec.structs.replace(torn.value.plan, keep=1)
    with pytest.raises(PlanOutdated):
        open_to_resume(store, "run", made(), request=agreed, repair=stale)
    with open_to_resume(store, "run", made(), request=agreed, repair=torn.value.plan) as opened:
        assert opened.journal.repaired == torn.value.plan
    suspended.write_bytes(data + b'{"seq":4')
    with open_to_resume(store, "run", made(), request=agreed) as opened:
        assert opened.journal.repaired is not None
    assert suspended.read_bytes() == data
    assert len(list(suspended.parent.glob("*.torn"))) == 1


def test_a_run_of_a_newer_version_is_not_opened(store: JournalStore) -> None:
    store.create("run", MetaRecord(fingerprint=FIRST)).close()
    path = store.path_of("run")
    path.write_bytes(path.read_bytes().replace(b'"version":2', b'"version":3'))
    with pytest.raises(UnsupportedVersion):
        open_to_resume(store, "run", made())


def test_a_copy_elsewhere_goes_on_as_the_original(
    suspended: Path, store: JournalStore, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "other" / "home" / "runs"
    shutil.copytree(suspended.parent, elsewhere)
    request = ResumeRequest(decisions={call_id(0, 1): Decision("done", "it is there")})
    ends = []
    for place in (store, JournalStore(elsewhere)):
        outcome = asyncio.run(resume(place, made(), request))
        assert outcome.reason == "completed"
        ends.append([msgspec.structs.replace(record, time=None) for record in on_disk(place)])
    assert ends[0] == ends[1]


def test_a_forced_resume_is_recorded_and_compared_with_next_time(store: JournalStore) -> None:
    script = [Step(("read",)), Step(("read",)), Step()]
    asyncio.run(begin(store, agent(script, World(), system="old")))
    path = store.path_of("run")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]))
    changed = agent(script, World(), system="new")
    with pytest.raises(ResumeRefused, match="system prompt: changed"):
        asyncio.run(resume(store, changed))
    asyncio.run(resume(store, changed, ResumeRequest(force=True, reason="a typo")))
    (_, _, _, first, *rest) = on_disk(store)
    assert isinstance(first, AssistantRecord)
    assert first.resumed == Resumed(True, "a typo", changed.fingerprint())
    assert all(getattr(record, "resumed", None) is None for record in rest)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:5]))
    facts = read_facts(path, now=changed.fingerprint(), effects=changed.effects())
    assert plan_resume(facts).outcome == "accept"
    asyncio.run(resume(store, changed))
    again = [record.resumed for record in on_disk(store) if isinstance(record, AssistantRecord)]
    assert again[-1] == Resumed(False, "", changed.fingerprint())


# runs of other tools


@pytest.fixture
def foreign(tmp_path: Path, journals: Path) -> Any:
    def copy(version: str, name: str) -> Path:
        path = tmp_path / f"{name}.json"
        shutil.copy(journals / version / path.name, path)
        return path

    return copy


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_decided_results_are_written_as_their_tool_reads_them(version: str, foreign: Any) -> None:
    path = foreign(version, "crashed-mid-tool-batch")
    before = path.read_bytes()
    facts = read_facts(path, hint="fisk-ai")
    unknown = [call.id for call in plan_resume(facts).calls if call.verdict == "unknown"]
    assert unknown
    with pytest.raises(ResumeRefused, match="outcome unknown"):
        hand_over(path)
    assert path.read_bytes() == before
    decisions = {call: Decision("done", f"did <{call}>") for call in unknown[1:]}
    decisions[unknown[0]] = Decision("failed")
    plan = hand_over(path, request=ResumeRequest(decisions=decisions), expected=facts.state.last_seq)  # type: ignore[union-attr]
    assert plan.outcome == "accept"
    assert path.read_bytes().startswith(before)
    assert fold_bytes(path.read_bytes(), hint="fisk-ai").pending is None
    decoder = FISK_AI.decoder(before)
    added = [decoder.record(line) for line in path.read_bytes()[len(before) : -1].split(b"\n")]
    first = next(r for r in added if isinstance(r, ToolResultRecord) and r.tool_use_id == unknown[0])
    said = "outcome unknown: recorded as failed"
    neutral = {"tool_use_id": unknown[0], "content": said, "is_error": True}
    wire = {
        "tool_use_id": unknown[0],
        "is_error": True,
        "content": [{"text": said, "type": "text"}],
        "type": "tool_result",
    }
    assert first.result == (neutral if version == "v3" else wire)
    RunLock.take(path.with_suffix(".lock")).release()


def test_a_call_that_is_to_run_again_is_left_to_its_tool(foreign: Any) -> None:
    path = foreign("v3", "crashed-mid-tool-batch")
    before = path.read_bytes()
    unknown = [call.id for call in plan_resume(read_facts(path)).calls if call.verdict == "unknown"]
    request = ResumeRequest(decisions={call: Decision("rerun") for call in unknown})
    assert hand_over(path, request=request).outcome == "accept"
    assert path.read_bytes() == before


def test_a_torn_end_is_mended_before_another_tool_appends(foreign: Any) -> None:
    path = foreign("v3", "suspended-at-boundary")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"seq"')
    with pytest.raises(TornTail):
        hand_over(path)
    hand_over(path, request=ResumeRequest(repair=True))
    assert path.read_bytes() == whole


def test_a_held_run_is_not_handed_over(foreign: Any) -> None:
    path = foreign("v3", "suspended-at-boundary")
    lock = RunLock.take(path.with_suffix(".lock"))
    with pytest.raises(RunLocked):
        hand_over(path)
    lock.release()
    with pytest.raises(PlanOutdated):
        hand_over(path, expected=1)
    assert hand_over(path, now=None).outcome == "accept"
