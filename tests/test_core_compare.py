"""Two runs side by side: where they part, byte for byte, and what stands for what behind it."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import damage, rivumi_cases, run_story

from refold.core.compare import Face, align, face_of, fingerprint_fields, state_fields
from refold.core.errors import RunNotFound, StoreError
from refold.core.records import Fingerprint, ForkOrigin, MetaRecord, Record
from refold.core.state import RunState
from refold.core.store.compare import (
    Comparison,
    Parting,
    common_messages,
    compare,
    parent_of,
    parting,
    standing_at,
)
from refold.core.store.notes import Notes, NotesStore
from refold.core.store.reader import RunReader
from refold.core.store.roots import Root

KINDS = ("assistant", "result", "user", "event", "terminal", "damage", "meta")
FACES = st.lists(
    st.builds(
        Face,
        st.sampled_from(KINDS),
        st.sampled_from([b"x", b"y", b"z"]),
        st.lists(st.sampled_from([b"p", b"q"]), max_size=2).map(tuple),
    ),
    max_size=40,
)


def compared(a: Path, b: Path, at_a: int | None = None, at_b: int | None = None) -> Comparison:
    """Compare two runs, each up to a sequence."""
    with RunReader.open(a) as mine, RunReader.open(b) as theirs:
        stops: list[int | None] = []
        for reader, at in ((mine, at_a), (theirs, at_b)):
            item = None if at is None else reader.index_all().item_at(at)
            stops.append(None if item is None else item + 1)
        *_, found = compare(mine, theirs, *stops)
        assert isinstance(found, Comparison)
        return found


def parted(a: Path, b: Path) -> Parting:
    """Only find where two runs part."""
    with RunReader.open(a) as mine, RunReader.open(b) as theirs:
        *_, found = parting(mine, theirs)
        assert found is not None
        return found


def fork(lines: Sequence[bytes], taken: int, *own: bytes) -> list[bytes]:
    """Take the first records of a run behind a meta record of its own."""
    first = run_story.meta(
        1,
        "fork",
        "Fix add() so the test passes.",
        forked_from={"run_id": "fix-add", "seq": taken, "prefix_sha256": "0" * 64},
    )
    return [first, *lines[1:taken], *own]


# The alignment.


@given(FACES, FACES)
def test_every_record_stands_once_and_in_order(a: list[Face], b: list[Face]) -> None:
    pairs = list(align(a, b))

    assert [pair.a for pair in pairs if pair.a is not None] == [*range(len(a))]
    assert [pair.b for pair in pairs if pair.b is not None] == [*range(len(b))]
    assert all(pair != (None, None) for pair in pairs)
    for pair in pairs:
        if pair.a is not None and pair.b is not None:
            assert a[pair.a].kind == b[pair.b].kind


@given(FACES)
def test_a_run_is_aligned_with_itself(faces: list[Face]) -> None:
    assert list(align(faces, faces)) == [(place, place) for place in range(len(faces))]


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 30))
def test_turns_put_in_between_leave_the_others_beside_each_other(before: int, put: int, after: int) -> None:
    def turn(name: str) -> list[Face]:
        return [Face("assistant", name.encode(), (b"c",)), Face("result", b"r" + name.encode())]

    a = [face for number in range(before + after) for face in turn(str(number))]
    b = [*a[: 2 * before], *itertools.chain(*(turn(f"new {n}") for n in range(put))), *a[2 * before :]]

    alike = [pair for pair in align(a, b) if pair.a is not None and pair.b is not None]
    assert [(a[pair.a], b[pair.b]) for pair in alike if pair.a is not None and pair.b is not None] == [
        (face, face) for face in a
    ]


def test_a_long_run_of_equal_records_is_aligned_in_little_time() -> None:
    a = [Face("assistant", b"same")] * 60_000
    b = [Face("assistant", b"other"), *a[:50_000], Face("assistant", b"end")]

    assert len(list(align(a, b))) == 60_000


def test_a_face_forgets_numbers_times_and_ids() -> None:
    def face(line: bytes, kind: str = "assistant") -> Face | None:
        return face_of(kind, decoded(line))

    call = run_story.call("c1", "read_file", path="a")
    again = run_story.call("toolu_9", "read_file", path="a")
    other = run_story.call("c1", "read_file", path="b")
    first = face(run_story.assistant(2, 0, run_story.text("Hm."), call, time=run_story.at(1)))
    assert first == face(run_story.assistant(9, 4, run_story.text("Hm."), again, tokens=5))
    assert first != face(run_story.assistant(2, 0, run_story.text("Hm."), other))
    assert first != face(run_story.assistant(2, 0, run_story.text("Ha."), call))
    assert first is not None
    changed = face(run_story.assistant(2, 0, run_story.text("Hm."), other))
    assert changed is not None
    assert changed.said == first.said
    result = face(run_story.result(3, "c1", "text"), "result")
    assert result == face(run_story.result(7, "toolu_9", "text"), "result")
    assert result != face(run_story.result(3, "c1", "text", error=True), "result")
    assert result != face(run_story.result(3, "c1", "texts"), "result")


def decoded(line: bytes) -> Record:
    from refold.core.formats.journal import NATIVE

    return NATIVE.decoder(run_story.meta(1, "x", "p")).record(line.rstrip(b"\n"))


def test_two_calls_that_are_answered_alike_are_not_the_same(tmp_path: Path) -> None:
    def run(name: str, *calls: dict[str, object]) -> Path:
        return run_story.write(
            tmp_path / name,
            [
                run_story.meta(1, name, f"Go, {name}."),
                run_story.assistant(2, 0, run_story.text("Now."), *calls),
                *(run_story.result(3 + n, f"c{n}", "1 place changed") for n in range(len(calls))),
            ],
        )

    one = run("one.json", run_story.call("c0", "edit", path="a"), run_story.call("c1", "edit", path="b"))
    two = run("two.json", run_story.call("c0", "edit", path="a"), run_story.call("c1", "edit", path="c"))
    far = run("far.json", run_story.call("c0", "make", path="a"), run_story.call("c1", "edit", path="b"))

    assert [match.said for match in compared(one, two).pairs] == [False, True, True, False]
    assert [match.said for match in compared(one, far).pairs] == [False, True, False, True]


@pytest.mark.parametrize("other", ["read_file other.py", "list_files calc.py"])
def test_what_tells_of_another_call_of_a_run_directory_is_not_the_same(tmp_path: Path, other: str) -> None:
    tool, path = other.split()
    one = rivumi_cases.make("12-terminal-completed", tmp_path / "a")
    two = rivumi_cases.make("12-terminal-completed", tmp_path / "b")
    rows = [json.loads(row) for row in rivumi_cases.lines(two)]
    at = next(n for n, row in enumerate(rows) if row["event_type"] == "tool.requested")
    call = rows[at]["data"]["tool_call_id"]
    rows[at]["data"] |= {"name": tool, "arguments": {"path": path}}
    rivumi_cases.write_lines(two, [rivumi_cases.canonical(row) for row in rows])

    alike = {match.a for match in compared(one, two).pairs if match.same}
    about = {
        n
        for n, row in enumerate(rows)
        if call in (row["data"].get("tool_call_id"), row["data"].get("action_id"))
    }
    assert len(about) > 2
    assert about.isdisjoint(alike)
    assert {match.a for match in compared(one, one).pairs} == set()


# The parting.


def test_a_fork_parts_behind_what_it_took(tmp_path: Path) -> None:
    lines = run_story.fix_add()
    a = run_story.write(tmp_path / "fix-add.json", lines)
    own = run_story.assistant(7, 2, run_story.text("Another way."), stop="end_turn")
    b = run_story.write(tmp_path / "fork.json", fork(lines, 6, own))

    found = compared(a, b)
    assert (found.common, found.common_a, found.common_b, found.same) == (6, 6, 6, False)
    assert parted(a, b).seq == 6
    assert [(match.a, match.b) for match in found.pairs] == [(6, None), (7, None), (8, 6)]
    assert not any(match.same for match in found.pairs)
    assert compared(b, a).common == 6


def test_the_same_attempt_with_other_times_and_ids_differs_by_bytes_and_is_aligned(tmp_path: Path) -> None:
    lines = run_story.fix_add()
    a = run_story.write(tmp_path / "a.json", lines)
    again = [
        line.replace(b'"time":"2026-07-24T09', b'"time":"2026-07-25T10').replace(b'"c2"', b'"d2"')
        for line in lines
    ]
    b = run_story.write(tmp_path / "b.json", again)

    found = compared(a, b)
    assert (found.common, found.same) == (1, False)
    assert [match.same for match in found.pairs] == [True] * 8
    assert [(match.a, match.b) for match in found.pairs] == [(n, n) for n in range(1, 9)]


@pytest.mark.parametrize(
    ("changed", "common"),
    [({"prompt": "Do something else."}, None), ({"model": "gpt-6"}, None), ({"run_id": "other"}, 9)],
)
def test_of_the_first_record_prompt_and_fingerprint_count(
    tmp_path: Path, changed: dict[str, str], common: int | None
) -> None:
    lines = run_story.fix_add()
    record = json.loads(lines[0])
    for key, value in changed.items():
        (record["meta"]["fingerprint"] if key == "model" else record["meta"])[key] = value
    a = run_story.write(tmp_path / "a.json", lines)
    b = run_story.write(tmp_path / "b.json", [json.dumps(record).encode() + b"\n", *lines[1:]])

    found = compared(a, b)
    assert found.common == common
    assert found.same == (common is not None)
    if common is None:
        assert [match.same for match in found.pairs] == [False, *[True] * 8]


def test_a_run_against_itself_at_two_points(tmp_path: Path) -> None:
    a = run_story.write(tmp_path / "a.json", run_story.fix_add())

    found = compared(a, a, 4, 8)
    assert (found.common, found.stop_a, found.stop_b) == (4, 4, 8)
    assert [(match.a, match.b) for match in found.pairs] == [(None, 4), (None, 5), (None, 6), (None, 7)]
    assert compared(a, a, 8, 4).common == 4
    assert compared(a, a, 4, 4).same
    assert compared(a, a).same


def test_a_missing_last_newline_is_no_difference_and_a_torn_record_is(tmp_path: Path) -> None:
    lines = run_story.fix_add()
    whole = b"".join(lines)
    a = tmp_path / "a.json"
    a.write_bytes(whole)
    b = tmp_path / "b.json"
    b.write_bytes(whole[:-1])
    assert compared(a, b).same
    assert compared(b, a).same
    a.write_bytes(whole + run_story.native(10, "terminal", {"reason": "suspended"}))
    found = compared(b, a)
    assert (found.common, found.common_a, found.common_b) == (9, 9, 9)
    b.write_bytes(whole[:-20])
    found = compared(a, b)
    assert (found.common, found.common_b, found.stop_b) == (8, 8, 9)
    assert [(match.a, match.b) for match in found.pairs if match.b is not None] == [(None, 8)]


@pytest.mark.parametrize("data", [b"", b"\n\n \n", b"\0" * 50, b"{", b"nonsense\nmore\n"])
def test_empty_and_unreadable_runs_are_compared_too(tmp_path: Path, data: bytes) -> None:
    a = run_story.write(tmp_path / "a.json", run_story.fix_add())
    b = tmp_path / "b.json"
    b.write_bytes(data)

    assert compared(b, b).same
    for found in (compared(a, b), compared(b, a)):
        assert (found.common, found.common_a, found.same) == (None, 0, False)
    with RunReader.open(b) as reader:
        reader.index_all()
        assert standing_at(reader, -1).state is None
        assert reader.timeline.items == 0 or standing_at(reader, 0).error is not None


@pytest.mark.parametrize("kind", damage.KINDS)
def test_damage_on_one_side_or_on_both_is_compared(tmp_path: Path, kind: str) -> None:
    good = b"".join(run_story.fix_add())
    a, b, c = tmp_path / "a.json", tmp_path / "b.json", tmp_path / "c.json"
    a.write_bytes(good)
    b.write_bytes(damage.damage(kind, 1, good))
    c.write_bytes(damage.damage(kind, 2, good))

    for one, other in ((a, b), (b, a), (b, c)):
        found = compared(one, other)
        assert found.same == (not found.pairs)
        assert [match.a for match in found.pairs if match.a is not None] == [
            *range(found.common_a, found.stop_a)
        ]
        assert [match.b for match in found.pairs if match.b is not None] == [
            *range(found.common_b, found.stop_b)
        ]
        with RunReader.open(one) as mine, RunReader.open(other) as theirs:
            mine.index_all()
            theirs.index_all()
            states = standing_at(mine, found.stop_a - 1).state, standing_at(theirs, found.stop_b - 1).state
            if states[0] is not None and states[1] is not None:
                assert state_fields(states[0], states[1], common_messages(mine, found))
    assert compared(b, b).same


def test_runs_of_two_formats_are_aligned_by_what_they_say(tmp_path: Path, journals: Path) -> None:
    a, b = journals / "v2" / "completed-two-tools.json", journals / "v3" / "completed-two-tools.json"

    found = compared(a, b)
    assert found.common is None
    assert [(match.a, match.b) for match in found.pairs] == [(n, n) for n in range(found.stop_a)]
    assert [match.said for match in found.pairs[1:]] == [True] * (found.stop_a - 1)


LINES = st.lists(st.sampled_from([b"", b"{}", b"x", b"yy", b'{"a":"b"}', b"x" * 300]), max_size=8)


@given(LINES, LINES, LINES, st.booleans(), st.booleans())
def test_the_parting_is_that_of_the_lines(
    tmp_path_factory: pytest.TempPathFactory,
    shared: list[bytes],
    mine: list[bytes],
    theirs: list[bytes],
    ended_a: bool,
    ended_b: bool,
) -> None:
    directory = tmp_path_factory.mktemp("parting")
    start = b'{"first":1}'
    sides: list[bytes] = []
    for name, own, ended in (("a", mine, ended_a), ("b", theirs, ended_b)):
        data = b"\n".join([start, *shared, *own]) + (b"\n" if ended else b"")
        (directory / name).write_bytes(data)
        sides.append(data)
    lines_a, lines_b = (list(data.removesuffix(b"\n").split(b"\n")) for data in sides)
    count = 0
    for one, other in zip(lines_a, lines_b, strict=False):
        if one != other:
            break
        count += 1

    found = parted(directory / "a", directory / "b")
    for at, data, lines in ((found.a, sides[0], lines_a), (found.b, sides[1], lines_b)):
        # Blank lines and the newline behind the last record are no records.
        assert [line for line in data[:at].split(b"\n") if line] == [line for line in lines[:count] if line]


def test_the_parting_of_large_runs_takes_the_memory_of_two_blocks(tmp_path: Path) -> None:
    line = run_story.assistant(2, 0, run_story.text("x" * 4000), stop="end_turn")
    start = run_story.meta(1, "a", "p")
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    a.write_bytes(start + line * 5000 + b'{"one":1}\n')
    b.write_bytes(start.replace(b'"run_id":"a"', b'"run_id":"long-name"') + line * 5000 + b'{"other":1}\n')

    tracemalloc.start()
    try:
        found = parted(a, b)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (found.a, found.seq) == (len(start) + 5000 * len(line), 2)
    assert found.b - found.a == len("long-name") - 1
    assert peak < 6 << 20


def test_a_huge_record_is_told_from_another_by_its_bytes(tmp_path: Path) -> None:
    lines = run_story.fix_add()[:3]
    a = run_story.write(tmp_path / "a.json", [*lines, run_story.result(4, "c9", "x" * 700_000 + "a")])
    b = run_story.write(tmp_path / "b.json", [*lines, run_story.result(4, "c9", "x" * 700_000 + "b")])
    c = run_story.write(tmp_path / "c.json", [*lines, run_story.result(4, "c9", "x" * 700_000 + "a")])

    found = compared(a, b)
    assert (found.common, [match.same for match in found.pairs]) == (3, [False])
    assert compared(a, c).same


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound):
        compared(tmp_path / "no.json", tmp_path / "no.json")
    (tmp_path / "d.json").mkdir()
    with pytest.raises(StoreError):
        compared(tmp_path / "d.json", tmp_path / "d.json")


# States and parents.


def test_states_differ_by_what_they_hold_not_by_how_much(tmp_path: Path) -> None:
    lines = run_story.fix_add()
    a = run_story.write(tmp_path / "a.json", lines)
    other = [*lines[:8], run_story.assistant(9, 2, run_story.text("Done."), stop="end_turn")]
    b = run_story.write(tmp_path / "b.json", other)
    c = run_story.write(tmp_path / "c.json", [*lines[:8], other[8].replace(b"Done.", b"Gone.")])

    def fields(one: Path, two: Path) -> dict[str, bool]:
        found = compared(one, two)
        with RunReader.open(one) as mine, RunReader.open(two) as theirs:
            states = [standing_at(r, r.index_all().items - 1).state for r in (mine, theirs)]
            assert states[0] is not None
            assert states[1] is not None
            return {f.name: f.same for f in state_fields(states[0], states[1], common_messages(mine, found))}

    assert all(fields(a, a).values())
    assert {name for name, same in fields(a, b).items() if not same} == {
        "messages", "last_stop_reason", "pending",
    }  # fmt: skip
    assert {name for name, same in fields(b, c).items() if not same} == {"messages"}


def test_an_open_turn_that_was_answered_in_two_ways_is_no_common_message(tmp_path: Path) -> None:
    lines = run_story.fix_add()
    a = run_story.write(tmp_path / "a.json", lines[:6])
    b = run_story.write(tmp_path / "b.json", [*lines[:5], run_story.result(6, "c3", "all is well")])

    found = compared(a, b)
    with RunReader.open(a) as mine, RunReader.open(b) as theirs:
        one, two = (standing_at(r, r.index_all().items - 1).state for r in (mine, theirs))
        assert isinstance(one, RunState)
        assert isinstance(two, RunState)
        assert len(one.messages) == len(two.messages) == 5
        same = {field.name: field.same for field in state_fields(one, two, common_messages(mine, found))}
    assert not same["messages"]


def test_fingerprints_are_compared_field_by_field() -> None:
    fields = fingerprint_fields(Fingerprint(model="a", max_tokens=5), Fingerprint(model="b", max_tokens=5))
    assert {field.name for field in fields if not field.same} == {"model"}
    assert len(fields) == 7


def test_a_parent_is_found_beside_its_fork_then_elsewhere_and_in_the_notes(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    child = run_story.write(here / "child.json", run_story.fix_add())
    roots = (Root(there, "refold", "--root"),)

    def of(run_id: str, notes: NotesStore | None = None) -> Path | None:
        meta = MetaRecord(forked_from=ForkOrigin(run_id, 3) if run_id else None)
        return parent_of(child, meta, roots, notes)

    assert of("parent") is None
    far = run_story.write(there / "parent.json", run_story.fix_add())
    assert of("parent") == far
    near = run_story.write(here / "parent.json", run_story.fix_add())
    assert of("parent") == near
    assert of("") is None
    for hostile in ("child", "../here/parent", "\0", "x" * 400, "-a", "\x1b[2J"):
        assert of(hostile) is None
    notes = NotesStore(tmp_path / "notes")
    notes.update(child, lambda _: Notes(forked_from=ForkOrigin("parent", 2)))
    assert of("", notes) == near
