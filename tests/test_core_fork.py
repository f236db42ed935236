"""A fork at every point of every fixture: legal ones are exact, the others say why not."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import generate
from tests.damage import KINDS, damage

from refold.core.errors import RunExists, RunNotFound
from refold.core.fork import ForkPlan, NoForkHere, legal_points, next_legal, plan_json
from refold.core.formats.journal import FISK_AI, NATIVE
from refold.core.journal_text import fold_bytes
from refold.core.records import AssistantRecord, Json, Message, MetaRecord, TerminalRecord, ToolResultRecord
from refold.core.repair import PlanOutdated
from refold.core.state_json import state_json
from refold.core.store import new_run
from refold.core.store.catalog import Catalog, Root
from refold.core.store.fork import carry_out, plan_at
from refold.core.store.journal import JournalStore
from refold.core.store.notes import NotesStore
from refold.core.store.reader import RunReader
from refold.core.summary import RunSummary

DATA = Path(__file__).parent / "data" / "fisk-ai"
JOURNALS = [path for path in sorted(DATA.glob("v?/*.json")) if path.name != "expected.json"]
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A power failure is for tests/faults: here nothing has to reach the disk."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


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
            if not timeline.is_legal(item):
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
        assert [timeline.is_legal(item) for item in range(5)] == [True, True, True, True, False]
        assert next_legal(timeline, 4, -1) == 3
        assert next_legal(timeline, 3, 1) is None
        assert next_legal(timeline, 0, 1) == 1
        with pytest.raises(NoForkHere, match="completed") as refused:
            planned(reader, 4)
        assert refused.value.nearest == 4
        with pytest.raises(NoForkHere, match="calls are open"):
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


def run_of(path: Path, style: generate.Style, records: int, ending: generate.Ending = "crashed") -> Path:
    generate.write(path, generate.journal(records=records, style=style, run_id=path.stem, ending=ending))
    return path


@pytest.mark.parametrize("style", generate.STYLES)
def test_forks_of_forks_stay_prefixes(tmp_path: Path, style: generate.Style) -> None:
    """At every legal point of a run, then of the fork made there, five levels deep."""
    first = run_of(tmp_path / "level-0.json", style, 30)
    original = first.read_bytes().split(b"\n")
    rng = random.Random(style)
    forks = 0
    with RunReader.open(first) as reader:
        starts = list(legal_points(reader.index_all()))
    for start in starts:
        path, item = first, start
        for level in range(1, 6):
            with RunReader.open(path) as reader:
                timeline = reader.index_all()
                made = carry_out(planned(reader, item, child=f"level-{level}-of-{start}"))
                state = state_json(reader.state_at(item))
            lines = made.path.read_bytes().split(b"\n")
            assert lines[1 : item + 1] == original[1 : item + 1]
            assert lines[item + 1 :] == [b""]
            assert without_identity(state_json(fold_bytes(made.path.read_bytes()))) == without_identity(state)
            assert made.path.parent == path.parent
            forks += 1
            path, item = made.path, rng.choice(list(legal_points(timeline, last=item)))
    assert forks >= 5 * 25


@pytest.mark.parametrize("name", ["v2/chat-suspended", "v3/completed-simple"])
def test_the_meta_line_of_a_foreign_fork_differs_in_two_values_only(tmp_path: Path, name: str) -> None:
    path = DATA / f"{name}.json"
    with RunReader.open(path, hint="fisk-ai") as reader:
        reader.index_all()
        made = carry_out(planned(reader, 0), directory=tmp_path, now=lambda: NOW.replace(microsecond=120_000))
    old, new = path.read_bytes().split(b"\n")[0], made.path.read_bytes().split(b"\n")[0]
    created = re.compile(rb'"created":"[^"]*"')
    assert created.findall(new) == [b'"created":"2026-11-30T12:00:00.12Z"']
    renamed = old.replace(b'"run_id":"%s"' % path.stem.encode(), b'"run_id":"the-child"')
    assert created.sub(b"", new) == created.sub(b"", renamed)


META = (
    b'{"seq":1,"protocol":"refold.v1.session.meta","time":"2026-01-01T00:00:00Z","meta":{"version":2,'
    b'"run_id":"parent","created":"2026-01-01T00:00:00Z","fingerprint":{"model":"m","max_tokens":1},"prompt":"p"}}'
)


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (META, True),
        (META.replace(b'"prompt"', b'"more":{"a":[1.50,1e5,"\\u00e9"]},"prompt"'), True),
        (META.replace(b'"max_tokens":1', b'"effort":"high","max_tokens":1'), True),
        (META.replace(b'{"seq"', b'{ "x" : "\xff" , "seq"'), True),
        (META + b"  \r", True),
        (META.replace(b'"meta":', b'"meta":null,"x":7,"meta":'), False),
        (META.replace(b'"run_id":"parent"', b'"run_id":"a","run_id":"parent","x":7'), False),
        (META.replace(b'"run_id":"parent"', b'"Run_ID":"parent","x":7'), True),
        (META.replace(b'"run_id":"parent","created":"2026-01-01T00:00:00Z",', b""), True),
        (META.replace(b'"prompt":"p"', b'"prompt":"p","forked_from":{"run_id":"g","seq":1}'), True),
        (META.replace(b'"prompt":"p"', b'"prompt":"p","forked_from":null'), True),
    ],
)
def test_what_a_meta_record_holds_beyond_ours_comes_along(tmp_path: Path, line: bytes, kept: bool) -> None:
    path = tmp_path / "parent.json"
    path.write_bytes(line + b"\n")
    with RunReader.open(path) as reader:
        reader.index_all()
        plan = planned(reader, 0)
        assert any("not carried over" in note and "x" in note for note in plan.notes) is not kept
        made = carry_out(plan)
        parent = reader.meta
    head = made.path.read_bytes()
    record = NATIVE.decoder(head).record(head[:-1])
    assert isinstance(record, MetaRecord)
    assert parent is not None
    assert (record.run_id, record.prompt, record.fingerprint) == ("the-child", "p", parent.fingerprint)
    assert record.time == parent.time
    assert record.forked_from is not None
    assert record.forked_from.run_id == "parent"
    if kept:
        assert without_names(head) == without_names(line)
    for spelling in (b'"more":{"a":[1.50,1e5,"\\u00e9"]}', b'"effort":"high"', b'{ "x" : "\xff" ,'):
        assert (spelling in head) == (spelling in line)


def without_names(line: bytes) -> dict[str, Json]:
    """Give what a meta line says apart from what a fork changes."""
    found: dict[str, Json] = json.loads(line.decode("latin-1"))
    meta = found["meta"]
    assert isinstance(meta, dict)
    found["meta"] = {
        key: meta[key] for key in meta if key.lower() not in {"run_id", "created", "forked_from"}
    }
    return found


def test_a_prompt_where_there_is_no_place_for_one(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    data = (DATA / "v2" / "completed-simple.json").read_bytes()
    path.write_bytes(data.replace(b'"version":2', b'"version":1'))
    with RunReader.open(path) as reader:
        reader.index_all()
        with pytest.raises(NoForkHere, match="version 1") as refused:
            planned(reader, 0, prompt="more")
        assert refused.value.code == "prompt_version"
        assert any("only the fisk-ai that wrote it" in note for note in planned(reader, 0).notes)
        with pytest.raises(NoForkHere, match="an id of its own"):
            plan_at(reader, 0, child=reader.run_id)


def test_a_number_that_stands_twice_is_its_first_record(tmp_path: Path) -> None:
    path = tmp_path / "twice.json"
    path.write_bytes((DATA / "v3" / "seq-decreasing.json").read_bytes())
    with RunReader.open(path) as reader:
        timeline = reader.index_all()
        assert timeline.item_at(3) is not None
        for item in range(timeline.items):
            assert timeline.is_legal(item) == (timeline.error_at(item) is None)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_legal_in_damaged_runs(tmp_path: Path, kind: str) -> None:
    """Legal is what the contract says, whichever way it is asked; after damage nothing is."""
    good = b"".join(generate.journal(records=14, style="fisk-ai-v3", run_id="run"))
    for seed in range(3):
        path = tmp_path / f"{seed}.json"
        path.write_bytes(damage(kind, seed, good))
        with RunReader.open(path, hint="fisk-ai") as reader:
            timeline = reader.index_all()
            legal = [item for item in range(timeline.items) if timeline.is_legal(item)]
            assert list(legal_points(timeline)) == legal
            for item in range(timeline.items):
                before = [each for each in legal if each < item]
                after = [each for each in legal if each > item]
                assert next_legal(timeline, item, -1) == (before[-1] if before else None)
                assert next_legal(timeline, item, 1) == (after[0] if after else None)
                assert (timeline.error_at(item) is None) >= (item in legal)
            for item in legal:
                prefix = path.read_bytes()[: timeline.span(item).end]
                state = fold_bytes(prefix, hint="fisk-ai")
                assert timeline.kind(item) != "terminal" or not state.completed
                plan = planned(reader, item, child=f"{seed}-{item}")
                assert plan.point == ("inside" if state.pending is not None else "between")
                made = carry_out(plan)
                assert without_identity(state_json(fold_bytes(made.path.read_bytes()))) == without_identity(
                    state_json(state)
                )


def test_damage_behind_the_point_does_not_matter_and_a_newer_version_always_does(tmp_path: Path) -> None:
    good = b"".join(generate.journal(records=10, style="native", run_id="run"))
    path = tmp_path / "run.json"
    path.write_bytes(good + b"\0\0garbage\n" + b"{}\n" * 3)
    with RunReader.open(path) as reader:
        timeline = reader.index_all()
        assert timeline.strict_error is not None
        assert carry_out(planned(reader, 4)).path.read_bytes().split(b"\n")[1:] == [
            *good.split(b"\n")[1:5],
            b"",
        ]
    path.write_bytes(good.replace(b'"version":2', b'"version":99', 1))
    with RunReader.open(path) as reader:
        reader.index_all()
        with pytest.raises(NoForkHere, match="snapshot version 99") as refused:
            planned(reader, 0)
        assert (refused.value.code, refused.value.nearest) == ("newer", None)


def test_a_plan_is_for_the_bytes_it_was_made_from(tmp_path: Path) -> None:
    path = run_of(tmp_path / "parent.json", "native", 12)
    data = path.read_bytes()
    with RunReader.open(path) as reader:
        reader.index_all()
        plan = planned(reader, 8)
    stop = plan.end
    changes = {
        "cut": data[: stop - 2],
        "another last record": data[: stop - 20] + b"x" * 19 + data[stop - 1 :],
        "another meta record": data.replace(b'"prompt":"', b'"prompt":"!', 1)[: len(data)],
    }
    for changed in changes.values():
        with path.open("r+b") as file:
            file.truncate(0)
            file.write(changed)
        with pytest.raises(PlanOutdated):
            carry_out(plan)
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(data + b"more\n")
    assert carry_out(plan).path.read_bytes().endswith(data[:stop][-100:])
    other = tmp_path / "parent.new"
    other.write_bytes(data)
    other.rename(path)
    with pytest.raises(PlanOutdated, match="replaced"):
        carry_out(msgspec.structs.replace(plan, child="second"))
    path.unlink()
    with pytest.raises(RunNotFound):
        carry_out(msgspec.structs.replace(plan, child="second"))
    assert [file.name for file in tmp_path.iterdir()] == ["the-child.json"]


def test_a_last_line_that_goes_on_is_another_record(tmp_path: Path) -> None:
    path = native_run(tmp_path)
    data = path.read_bytes()
    lines = data.split(b"\n")
    path.write_bytes(b"\n".join(lines[:4]))
    with RunReader.open(path) as reader:
        reader.index_all()
        plan = planned(reader, 3)
    with path.open("ab") as file:
        file.write(lines[4] + b"\n")
    with pytest.raises(PlanOutdated):
        carry_out(plan)
    with path.open("r+b") as file:
        file.write(data)
    path.write_bytes(data)
    assert carry_out(plan).path.read_bytes().split(b"\n")[1:] == [*lines[1:4], b""]


def test_a_parent_rewritten_while_it_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run_of(tmp_path / "parent.json", "fisk-ai-v3", 12)
    with RunReader.open(path) as reader:
        reader.index_all()
        plan = planned(reader, 8)
    real = new_run.copy

    def copy(source: int, target: int, start: int, end: int) -> None:
        with path.open("r+b") as file:
            file.seek(start + 40)
            file.write(b"@")
        real(source, target, start, end)

    monkeypatch.setattr("refold.core.store.fork.copy", copy)
    notes = NotesStore(tmp_path / "notes")
    with pytest.raises(PlanOutdated, match="rewritten while it was forked"):
        carry_out(plan, notes=notes)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["parent.json"]


@pytest.mark.parametrize("answers", ["short", "refused", "missing"])
def test_copying_without_help_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: str
) -> None:
    if answers == "missing":
        monkeypatch.delattr(os, "copy_file_range", raising=False)
    else:
        real = getattr(os, "copy_file_range", None)
        if real is None:
            pytest.skip("there is no such call here")

        def copy_file_range(source: int, target: int, count: int, **places: int) -> int:
            if answers == "refused":
                raise OSError(18, "Invalid cross-device link")
            copied: int = real(source, target, min(count, 700), **places)
            return copied

        monkeypatch.setattr(os, "copy_file_range", copy_file_range)
    path = run_of(tmp_path / "parent.json", "native", 12)
    with RunReader.open(path) as reader:
        reader.index_all()
        made = carry_out(planned(reader, 9))
    assert made.path.read_bytes().split(b"\n")[1:-1] == path.read_bytes().split(b"\n")[1:10]


def test_the_lineage_of_a_foreign_fork_is_noted(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    path = run_of(tmp_path / "runs" / "parent.json", "fisk-ai-v3", 12)
    notes = NotesStore(tmp_path / "notes")
    with RunReader.open(path) as reader:
        reader.index_all()
        made = carry_out(planned(reader, 5), notes=notes)
        noted = notes.read(made.path)
        assert noted.forked_from is not None
        assert (noted.forked_from.run_id, noted.forked_from.seq) == ("parent", 6)
        assert noted.forked_from.prefix_sha256 == made.prefix_sha256
        assert noted.path == str(made.path)
        assert b"forked_from" not in made.path.read_bytes()
        assert len(list((tmp_path / "notes").iterdir())) == 1

        (tmp_path / "file").touch()
        other = carry_out(planned(reader, 5, child="other"), notes=NotesStore(tmp_path / "file" / "notes"))
        assert not other.noted
        assert other.path.exists()

        with pytest.raises(RunExists):
            carry_out(planned(reader, 5), notes=notes)
    assert len(list((tmp_path / "notes").iterdir())) == 1


def status_of(path: Path) -> str:
    catalog = Catalog([Root(path.parent, "refold", "test")], cache=None)
    rows = {row.id: row.status for row in catalog.scan() if isinstance(row, RunSummary)}
    catalog.close()
    return rows[path.stem]


def test_a_fork_is_ready_until_something_is_appended(tmp_path: Path) -> None:
    path = native_run(tmp_path)
    with RunReader.open(path) as reader:
        reader.index_all()
        plain = carry_out(planned(reader, 2, child="plain"))
        prompted = carry_out(planned(reader, 3, child="prompted", prompt="and now?"))
        pending = carry_out(planned(reader, 1, child="pending"))
    assert {status_of(made.path) for made in (plain, prompted, pending)} == {"ready"}
    for made in (plain, prompted):
        with JournalStore(tmp_path).open(made.run_id) as journal:
            journal.append(AssistantRecord(message=Message("assistant", ()), iteration=2))
        assert status_of(made.path) == "crashed"


def test_points_are_found_quickly_in_a_long_run(tmp_path: Path) -> None:
    """A key press asks for the next point; a row of the screen asks whether it is one."""
    path = tmp_path / "long.json"
    user = b'{"seq":%d,"protocol":"refold.v1.session.user","user":{"message":{"content":[],"role":"user"}}}\n'
    with path.open("wb") as file:
        file.write(META + b"\n")
        file.writelines(user % seq for seq in range(2, 100))
        file.write(b"damage\n")
        file.writelines(user % seq for seq in range(100, 150_000))
    with RunReader.open(path) as reader:
        timeline = reader.index_all()

    def quickest(ask: object) -> float:
        assert callable(ask)
        times = []
        for _ in range(5):
            begun = time.perf_counter()
            ask()
            times.append(time.perf_counter() - begun)
        return min(times)

    last = timeline.items - 1
    assert next_legal(timeline, last, -1) == 97 + 1
    assert quickest(lambda: next_legal(timeline, last, -1)) < 0.002
    assert quickest(lambda: next_legal(timeline, 50, 1)) < 0.002
    assert quickest(lambda: next_legal(timeline, last // 2, 1)) < 0.002
    assert quickest(lambda: [timeline.is_legal(item) for item in range(last - 100, last)]) < 0.002


@settings(max_examples=100)
@given(st.data())
def test_any_fork_folds_to_the_state_at_its_point(data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 3))
    style = data.draw(st.sampled_from(generate.STYLES))
    ending = data.draw(st.sampled_from(generate.ENDINGS))
    directory = Path(os.environ["HOME"]) / "forks"
    directory.mkdir(exist_ok=True)
    path = directory / f"run-{seed}.json"
    generate.write(path, generate.journal(seed=seed, records=9, style=style, run_id=path.stem, ending=ending))
    with RunReader.open(path) as reader:
        timeline = reader.index_all()
        item = data.draw(st.sampled_from(list(legal_points(timeline))))
        prompt = "" if timeline.open_calls(item) else data.draw(st.text(max_size=20))
        made = carry_out(planned(reader, item, child=f"fork-{seed}", prompt=prompt))
    try:
        state = fold_bytes(made.path.read_bytes())
        prefix = fold_bytes(path.read_bytes()[: timeline.span(item).end])
        assert state.counters == prefix.counters
        assert state.pending == prefix.pending
        assert state.last_seq == prefix.last_seq + bool(prompt)
        assert json.loads(made.path.read_bytes().split(b"\n")[0])["meta"]["run_id"] == f"fork-{seed}"
    finally:
        made.path.unlink()
        path.unlink()
