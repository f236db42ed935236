"""A fork at every point of every fixture: legal ones are exact, the others say why not."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from refold.core.errors import RunExists
from refold.core.fork import ForkPlan, NoForkHere, next_legal, plan_json, why_not
from refold.core.formats.journal import FISK_AI, NATIVE
from refold.core.journal_text import fold_bytes
from refold.core.records import AssistantRecord, Json, Message, MetaRecord, TerminalRecord, ToolResultRecord
from refold.core.repair import PlanOutdated
from refold.core.state_json import state_json
from refold.core.store.fork import carry_out, plan_at
from refold.core.store.journal import JournalStore
from refold.core.store.reader import RunReader

DATA = Path(__file__).parent / "data" / "fisk-ai"
JOURNALS = [path for path in sorted(DATA.glob("v?/*.json")) if path.name != "expected.json"]
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def planned(reader: RunReader, item: int, *, child: str = "the-child", prompt: str = "") -> ForkPlan:
    return plan_at(reader, item, child=child, prompt=prompt, reason="try again")


def without_identity(state: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in state.items() if key not in {"run_id", "created"}}


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_point_of_every_fixture(path: Path, tmp_path: Path) -> None:
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    with RunReader.open(path, hint="fisk-ai") as reader:
        timeline = reader.index_all()
        for item in range(timeline.items):
            refusal = why_not(timeline, item)
            if refusal is not None:
                with pytest.raises(NoForkHere, match=r"no fork after (seq|line) \d+: "):
                    planned(reader, item)
                continue
            plan = planned(reader, item, child=f"child-{item}")
            made = carry_out(plan, FISK_AI, tmp_path, now=lambda: NOW)
            child = made.path.read_bytes()
            head, _, rest = child.partition(b"\n")
            prefix = before[0][: timeline.span(item).end]
            assert rest == prefix.partition(b"\n")[2] + (b"\n" if item else b"")
            assert made.prefix_sha256 == hashlib.sha256(prefix + b"\n").hexdigest()
            meta = FISK_AI.decoder(head).record(head)
            assert isinstance(meta, MetaRecord)
            assert (meta.run_id, meta.version, meta.seq) == (plan.child, plan.version, timeline.seq(0))
            assert without_identity(state_json(fold_bytes(child))) == without_identity(
                state_json(reader.state_at(item))
            )
            assert oct(made.path.stat().st_mode & 0o777) == "0o600"
            pending = reader.state_at(item).pending
            assert plan.pending == (() if pending is None else pending.unanswered)
            assert plan.comes + plan.stays == timeline.items
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert not [*tmp_path.glob(".*")]


def native_run(directory: Path) -> Path:
    with JournalStore(directory, NATIVE).create("parent", MetaRecord(prompt="do it")) as journal:
        call: Json = {"type": "tool_use", "id": "c1", "name": "bash", "input": {}}
        journal.append(
            AssistantRecord(message=Message("assistant", (call,)), stop_reason="tool_use", in_tokens=5)
        )
        journal.append(ToolResultRecord("c1", {"type": "tool_result", "tool_use_id": "c1", "content": []}))
        journal.append(
            AssistantRecord(message=Message("assistant", ({"type": "text", "text": "ok"},)), iteration=1)
        )
        journal.append(TerminalRecord("completed"))
        return journal.path


def test_a_native_fork_names_its_parent_and_takes_a_prompt(tmp_path: Path) -> None:
    path = native_run(tmp_path)
    with RunReader.open(path) as reader:
        reader.index_all()
        plan = planned(reader, 2, prompt="and now?")
        made = carry_out(plan, NATIVE, tmp_path, now=lambda: NOW)
    state = JournalStore(tmp_path, NATIVE).load("the-child")
    assert state.messages[-1].content == (
        {"type": "tool_result", "tool_use_id": "c1", "content": []},
        {"type": "text", "text": "and now?"},
    )
    with RunReader.open(made.path) as child:
        child.index_all()
        assert child.meta is not None
        origin = child.meta.forked_from
        assert origin is not None
        assert (origin.run_id, origin.seq, origin.reason) == ("parent", 3, "try again")
        assert (
            origin.prefix_sha256
            == hashlib.sha256(b"".join(path.read_bytes().splitlines(keepends=True)[:3])).hexdigest()
        )
    with JournalStore(tmp_path, NATIVE).open("the-child") as journal:
        assert journal.append(TerminalRecord("suspended")) == 5


def test_points_that_are_not_legal(tmp_path: Path) -> None:
    path = native_run(tmp_path)
    with RunReader.open(path) as reader:
        timeline = reader.index_all()
        assert [why_not(timeline, item) is None for item in range(5)] == [True, True, True, True, False]
        assert "completed" in str(why_not(timeline, 4))
        assert next_legal(timeline, 4, -1) == 3
        assert next_legal(timeline, 3, 1) is None
        assert next_legal(timeline, 0, 1) == 1
        with pytest.raises(NoForkHere) as refused:
            planned(reader, 4)
        assert refused.value.nearest == 4
        with pytest.raises(NoForkHere, match="must be answered first"):
            planned(reader, 1, prompt="hm")
        inside = planned(reader, 1)
        assert inside.point == "inside"
        assert [call.name for call in inside.pending] == ["bash"]
        assert plan_json(inside)["pending"] == [{"id": "c1", "name": "bash"}]


def test_a_fork_clobbers_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = native_run(tmp_path)
    with RunReader.open(path) as reader:
        reader.index_all()
        plan = planned(reader, 2)
        carry_out(plan, NATIVE, tmp_path)
        taken = (tmp_path / "the-child.json").read_bytes()
        with pytest.raises(RunExists):
            carry_out(plan, NATIVE, tmp_path)
        assert (tmp_path / "the-child.json").read_bytes() == taken
        other = msgspec.structs.replace(plan, child="other", inode=plan.inode + 1)
        with pytest.raises(PlanOutdated):
            carry_out(other, NATIVE, tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "parent.json",
        "parent.lock",
        "the-child.json",
    ]


def test_a_parent_without_its_last_newline(tmp_path: Path) -> None:
    path = native_run(tmp_path)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:4])[:-1])
    with RunReader.open(path) as reader:
        reader.index_all()
        made = carry_out(planned(reader, 3), NATIVE, tmp_path)
    assert made.path.read_bytes().endswith(b"}\n")
    assert fold_bytes(made.path.read_bytes()).last_seq == 4
