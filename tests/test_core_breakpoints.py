"""Breakpoints and watched fields: what is found in the columns is what folding every prefix would find."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import run_story as story
from tests.at_once import at_once
from tests.test_core_rivumi_timeline import events as log_events
from tests.test_core_rivumi_timeline import line as log_line
from tests.test_core_timeline import lines as odd_lines

from refold.core.blocks import read_blocks
from refold.core.breakpoints import KEYS, Condition, first_stop, parse_breakpoints
from refold.core.columns import TERMINAL
from refold.core.errors import BadRecord
from refold.core.fields import NUMBERS, WATCHED
from refold.core.filter_terms import FilterError
from refold.core.journal_text import fold_bytes
from refold.core.moves import next_call
from refold.core.named_files import names_file
from refold.core.records import AssistantRecord, Json
from refold.core.rivumi.events import read_log
from refold.core.rivumi.events_state import events_state
from refold.core.seek import Change, Changes, Seeking, Watched, next_change, next_stop
from refold.core.store.reader import RunReader
from refold.core.store.session_reader import SessionReader
from refold.core.store.touching import TouchReader
from refold.core.touches import Touches

Run = Callable[[list[bytes]], Path]


class Texts:
    """The records of an open run."""

    def __init__(self, reader: RunReader) -> None:
        self.reader = reader
        self.raw_part = reader.raw_part

    def calls(self, item: int) -> Sequence[tuple[str, Json]]:
        if isinstance(self.reader, SessionReader):
            data = self.reader.event(item).data
            return [(str(data.get("name")), data.get("arguments"))]
        try:
            record = self.reader.record(item)
        except BadRecord:
            return ()
        found = isinstance(record, AssistantRecord)
        return [(block.name, block.input) for block in read_blocks(record.message.content)] if found else ()  # type: ignore[union-attr]


def ends(seeking: Seeking[Condition | None] | Changes) -> int | None:
    for _ in seeking.steps():
        pass
    return seeking.found


def stops(reader: RunReader, text: str) -> list[int]:
    """Every item at which a replay stops."""
    conditions = parse_breakpoints(text, 0.0)
    return [
        item
        for item in range(reader.timeline.items)
        if at_once(first_stop(conditions, reader.timeline, Texts(reader), item)) is not None
    ]


class Seen(NamedTuple):
    """What a naive reader knows after a prefix."""

    numbers: dict[str, float]
    phase: str
    record: dict[str, Any]
    tools: tuple[str, ...]
    files: str
    error: bool


def naive(lines: list[bytes]) -> Iterator[Seen]:
    """Fold every prefix, and read its last record."""
    names: dict[str, str] = {}
    calls = errors = 0
    for count in range(1, len(lines) + 1):
        state = fold_bytes(b"".join(lines[:count]), hint="refold")
        record = json.loads(lines[count - 1])
        kind = record["protocol"].rpartition(".")[2]
        tools: tuple[str, ...] = ()
        files, error = "", False
        if kind == "assistant":
            used = [each for each in record[kind]["message"]["content"] if each["type"] == "tool_use"]
            names = {each["id"]: each["name"] for each in used}
            tools, calls = tuple(names.values()), calls + len(used)
            files = "\n".join(str(each["input"].get("path", "")) for each in used)
        elif kind == "tool_result":
            tools = (names[record[kind]["tool_use_id"]],)
            error = record[kind]["result"]["is_error"]
            errors += error
        pending = len(state.pending.unanswered) if state.pending else 0
        phase = "calls" if pending else "answered" if kind == "assistant" else "model"
        yield Seen(
            {
                "tokens": state.counters.tokens,
                "pending": pending,
                "turns": state.counters.llm_calls,
                "calls": calls,
                "errors": errors,
                "seq": state.last_seq,
                "size": len(lines[count - 1]) - 1,
            },
            record["terminal"]["reason"] if kind == "terminal" else phase,
            record,
            tools,
            files.casefold(),
            error or (kind == "terminal" and record[kind]["reason"] == "error"),
        )


TOOLS = ("bash", "Bash_2", "read_file", "edit", "write_file")
FILES = ("src/Auth.py", "auth_test.py", "README.md")


@st.composite
def runs(draw: st.DrawFn) -> list[bytes]:
    """A run as an agent writes it, cut anywhere."""
    lines = [story.meta(1, "made", "do it", time=story.at(0))]
    clock, number = 0.0, 0
    for turn in range(draw(st.integers(0, 5))):
        clock += draw(st.sampled_from([0.0, 0.5, 30.0]))
        made = [(f"c{number + at}", draw(st.sampled_from(TOOLS))) for at in range(draw(st.integers(0, 3)))]
        number += len(made)
        blocks = [
            story.text(draw(st.sampled_from(["Fine.", "no such file", "TIMEOUT \u00e9"]))),
            *(story.call(each, name, path=draw(st.sampled_from(FILES)), text="x") for each, name in made),
        ]
        tokens = draw(st.sampled_from([0, 900, 60_000]))
        lines.append(story.assistant(len(lines) + 1, turn, *blocks, time=story.at(clock), tokens=tokens))
        for each, _ in draw(st.permutations(made)):
            clock += 0.25
            said = draw(st.sampled_from(["done", "no such file: x", "timeout"]))
            failed = draw(st.booleans())
            lines.append(story.result(len(lines) + 1, each, said, time=story.at(clock), error=failed))
        more = draw(st.sampled_from(["", "", "user", "terminal"]))
        if more == "user":
            said_too = {"message": {"role": "user", "content": [story.text("Go on")]}}
            lines.append(story.native(len(lines) + 1, "user", said_too, time=story.at(clock)))
        elif more:
            reason = draw(st.sampled_from(["suspended", "error"]))
            lines.append(story.native(len(lines) + 1, "terminal", {"reason": reason}))
    return lines[: draw(st.integers(1, len(lines)))]


CONDITIONS: dict[str, tuple[bool, Callable[[Seen], bool]]] = {
    "tokens>100k": (True, lambda seen: seen.numbers["tokens"] > 100_000),
    "tokens<=1k": (True, lambda seen: seen.numbers["tokens"] <= 1000),
    "pending>0": (True, lambda seen: seen.numbers["pending"] > 0),
    "-pending=0": (True, lambda seen: seen.numbers["pending"] != 0),
    "pending>=2 turns>1": (True, lambda seen: seen.numbers["pending"] >= 2 and seen.numbers["turns"] > 1),
    "errors>1": (True, lambda seen: seen.numbers["errors"] > 1),
    "calls>3": (True, lambda seen: seen.numbers["calls"] > 3),
    "seq=4": (True, lambda seen: seen.numbers["seq"] == 4),
    "phase:model": (True, lambda seen: seen.phase == "model"),
    "phase:suspended,error": (True, lambda seen: seen.phase in {"suspended", "error"}),
    "tool:bash": (False, lambda seen: any("bash" in tool.casefold() for tool in seen.tools)),
    "tool:bash error:yes": (
        False,
        lambda seen: seen.error and any("bash" in tool.casefold() for tool in seen.tools),
    ),
    "-tool:bash,edit kind:result": (
        False,
        lambda seen: (
            "tool_result" in seen.record
            and not any(name in tool.casefold() for tool in seen.tools for name in ("bash", "edit"))
        ),
    ),
    "error:yes tokens>50k": (False, lambda seen: seen.error and seen.numbers["tokens"] > 50_000),
    "kind:call": (False, lambda seen: "assistant" in seen.record and bool(seen.tools)),
    "kind:user,meta": (False, lambda seen: "user" in seen.record or "meta" in seen.record),
    "size>300": (False, lambda seen: seen.numbers["size"] > 300),
    "file:auth.py": (False, lambda seen: "auth.py" in seen.files),
    "-file:auth tool:edit": (False, lambda seen: "auth" not in seen.files and "edit" in seen.tools),
    '"no such"': (False, lambda seen: "no such" in json.dumps(seen.record)),
    "text:timeout,done": (
        False,
        lambda seen: any(word in json.dumps(seen.record).casefold() for word in ("timeout", "done")),
    ),
    "timeout \u00c9": (False, lambda seen: "TIMEOUT \\u00e9" in json.dumps(seen.record)),
}


def expected(text: str, seen: list[Seen]) -> list[int]:
    """The items at which a condition stops, one prefix after the other."""
    of_state, holds = CONDITIONS[text]
    found = [holds(each) for each in seen]
    return [item for item, now in enumerate(found) if now and not (of_state and item > 0 and found[item - 1])]


@settings(max_examples=60, deadline=None)
@given(lines=runs(), data=st.data())
def test_breakpoints_are_those_of_every_folded_prefix(
    lines: list[bytes], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = story.write(tmp_path_factory.mktemp("stops") / "made.json", lines)
    seen = list(naive(lines))
    with RunReader.open(path) as reader:
        timeline = reader.index_all()
        for text in CONDITIONS:
            wanted = expected(text, seen)
            assert stops(reader, text) == wanted, text
        chosen = data.draw(st.lists(st.sampled_from(sorted(CONDITIONS)), min_size=1, max_size=3))
        wanted = sorted({item for text in chosen for item in expected(text, seen)})
        conditions = parse_breakpoints(";".join(chosen), 0.0)
        for start in range(len(lines)):
            later = next_stop(conditions, timeline, Texts(reader), start, 1)
            assert ends(later) == next((item for item in wanted if item > start), None)
            earlier = next_stop(conditions, timeline, Texts(reader), start, -1)
            assert ends(earlier) == next((item for item in reversed(wanted) if item < start), None)


def changes_of_file(name: str, seen: list[Seen]) -> list[int]:
    """The results of calls that wrote a file, and the calls that were to and have none; else who names it."""
    waiting: dict[str, int] = {}
    changes = []
    for item, each in enumerate(seen):
        if "assistant" in each.record:
            waiting = {
                block["id"]: item
                for block in each.record["assistant"]["message"]["content"]
                if block["type"] == "tool_use"
                and block["name"] == "write_file"
                and name in block["input"]["path"].casefold()
            }
        elif "tool_result" in each.record:
            called = waiting.pop(each.record["tool_result"]["tool_use_id"], None)
            if called is not None and not each.error:
                changes.append(item)
    changes.extend(sorted(set(waiting.values())))
    return sorted(changes) or [item for item, each in enumerate(seen) if name in each.files]


@settings(max_examples=60, deadline=None)
@given(lines=runs())
def test_changes_of_what_is_watched_are_those_of_every_folded_prefix(
    lines: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = story.write(tmp_path_factory.mktemp("watched") / "made.json", lines)
    seen = list(naive(lines))
    with RunReader.open(path) as reader:
        timeline = reader.index_all()
        for name in (*WATCHED, "Auth.py", "auth", "nowhere.py"):
            if name in WATCHED:
                values = [each.phase if name == "phase" else each.numbers[name] for each in seen]
                changes = [item for item in range(1, len(values)) if values[item] != values[item - 1]]
            else:
                changes = changes_of_file(name.casefold(), seen)
            touching = TouchReader(reader)
            for start in range(len(lines)):
                back = next_change(Watched(name), timeline, Texts(reader), touching, start, -1)
                assert ends(back) == next((item for item in reversed(changes) if item < start), None), name
                on = next_change(Watched(name), timeline, Texts(reader), touching, start, 1)
                assert ends(on) == next((item for item in changes if item > start), None), name


@pytest.mark.parametrize(
    ("name", "start", "found", "how"),
    [
        ("a.py", 6, 2, Change.KNOWN),
        ("a.py", 1, None, Change.KNOWN),
        ("b.py", 6, 5, Change.UNKNOWN),
        ("c.py", 6, 3, Change.NAMED),
        ("d.py", 6, None, None),
    ],
)
def test_a_watched_file_changes_where_a_call_wrote_it_not_where_one_named_it(
    name: str, start: int, found: int | None, how: Change | None, tmp_path: Path
) -> None:
    """A write that is done, one without a result, a file that is only read, and one that nobody knows of."""
    lines = [
        story.meta(1, "made", "do it"),
        story.assistant(2, 0, story.call("c0", "write_file", path="a.py", text="1")),
        story.result(3, "c0", "done"),
        story.assistant(4, 1, story.call("c1", "read_file", path="a.py c.py")),
        story.result(5, "c1", "1"),
        story.assistant(6, 2, story.call("c2", "write_file", path="b.py", text="1")),
        story.native(7, "terminal", {"reason": "error"}),
    ]
    with RunReader.open(story.write(tmp_path / "made.json", lines)) as reader:
        timeline = reader.index_all()
        look = next_change(Watched(name), timeline, Texts(reader), TouchReader(reader), start, -1)
        assert (ends(look), look.answer) == (found, how)


@settings(max_examples=80, deadline=None)
@given(made=odd_lines())
def test_the_fields_of_an_odd_run_are_those_of_its_state(
    made: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Repeated ids, results that answer nothing, sums that go round: wherever the prefix folds at all."""
    path = story.write(tmp_path_factory.mktemp("odd") / "odd.json", [line + b"\n" for line in made])
    with RunReader.open(path, hint="fisk-ai") as reader:
        timeline = reader.index_all()
        for item in range(timeline.items):
            if timeline.error_at(item) is not None or timeline.strict_item(item) != item:
                continue
            state = reader.state_at(item)
            assert NUMBERS["tokens"].of(timeline, item) == state.counters.tokens
            assert NUMBERS["turns"].of(timeline, item) == state.counters.llm_calls
            pending = len(state.pending.unanswered) if state.pending is not None else 0
            assert NUMBERS["pending"].of(timeline, item) == pending
            assert (timeline.phase(item) == "calls") == (
                pending > 0 and timeline.columns.kind[item] != TERMINAL
            )


@settings(max_examples=60, deadline=None)
@given(made=st.lists(log_events(), min_size=1, max_size=20))
def test_the_fields_of_a_log_are_those_of_its_folded_prefixes(
    made: list[tuple[str, dict[str, object]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("log") / "run"
    directory.mkdir()
    lines = [log_line(at, kind, **values) + b"\n" for at, (kind, values) in enumerate(made)]
    (directory / "events.jsonl").write_bytes(b"".join(lines))
    (directory / "session.json").write_bytes(b"{}")
    with RunReader.open(directory) as reader:
        timeline = reader.index_all()
        for item in range(len(lines)):
            state = events_state(read_log(b"".join(lines[: item + 1])).events)
            assert timeline.phase(item) == state.phase
            assert NUMBERS["pending"].of(timeline, item) == len(state.open_calls)
            assert NUMBERS["tokens"].of(timeline, item) == state.tokens.total
            assert NUMBERS["turns"].of(timeline, item) == sum(
                kind == "model.completed" for kind, _ in made[: item + 1]
            )
        named = [item for item, (kind, _) in enumerate(made) if kind == "tool.requested"]
        assert stops(reader, "file:P") == named
        assert stops(reader, "tool:x kind:call") == [item for item in named if made[item][1]["name"] == "x"]
        for item in range(len(lines)):
            assert next_call(timeline, item, 1) == next((at for at in named if at > item), None)
            assert next_call(timeline, item, -1) == next((at for at in reversed(named) if at < item), None)


@settings(max_examples=60, deadline=None)
@given(lines=runs())
def test_from_call_to_call(lines: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = story.write(tmp_path_factory.mktemp("calls") / "made.json", lines)
    with RunReader.open(path) as reader:
        timeline = reader.index_all()
        calls = [row for row in range(timeline.rows) if timeline.row(row).kind == "call"]
        for row in range(timeline.rows):
            assert next_call(timeline, row, 1) == next((at for at in calls if at > row), None)
            assert next_call(timeline, row, -1) == next((at for at in reversed(calls) if at < row), None)


def test_a_stop_at_problems_remembers_no_other_run(tmp_path: Path) -> None:
    (condition,) = parse_breakpoints("problem:nul", 0.0)

    def found(reader: RunReader) -> list[int]:
        timeline = reader.timeline
        return [at for at in range(timeline.items) if at_once(condition.stops(timeline, Texts(reader), at))]

    with RunReader.open(story.write(tmp_path / "b.json", story.damaged())) as reader:
        timeline = reader.index_all()
        assert found(reader) == [4]
        # As if another run of as many findings lay where this one lies.
        timeline.marks[:] = [mark._replace(item=(mark.item + 1) % timeline.items) for mark in timeline.marks]
        timeline.changed()
        assert found(reader) == [5]


def test_gaps_and_times_and_problems(tmp_path: Path) -> None:
    with RunReader.open(story.write(tmp_path / "a.json", story.fix_add())) as reader:
        reader.index_all()
        assert stops(reader, "gap>60") == [7]
        assert stops(reader, "gap>1.5m") == [7]
        assert stops(reader, "gap>2s -gap>1m") == [3, 8]
        assert stops(reader, "after:2026-07-24T09:15:03.5Z") == [5]
        assert stops(reader, "before:2026-07-24T09:15:01Z") == [0]
        assert stops(reader, "problem:yes") == []
    with RunReader.open(story.write(tmp_path / "b.json", story.damaged())) as reader:
        timeline = reader.index_all()
        bad = [
            item
            for item in range(timeline.items)
            if any(finding.severity != "info" for finding in timeline.findings_at(item))
        ]
        assert stops(reader, "problem:yes") == bad
        assert stops(reader, "-problem:no") == bad
        assert stops(reader, "problem:nul") == [4]
        assert stops(reader, "problem:torn") == [timeline.items - 1]
        assert stops(reader, "kind:damage") == [
            item for item in range(timeline.items) if timeline.kind(item) == "damage"
        ]


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("colour:red", 0, "there is no key colour:"),
        ("tool:bash; status:crashed", 11, "status: has no meaning here"),
        ("tokens:100", 0, "tokens is a number"),
        ("tokenz>100", 0, "there is no number tokenz"),
        ("tool>3", 0, "there is no number tool"),
        ("x; tokens>many", 10, "“many” is no number"),
        ("gap>soon", 4, "“soon” is no length of time"),
        ("tokens>", 0, "tokens> needs a value"),
        ("tool:", 0, "tool: needs a value"),
        ('a; text:"open', 8, "this quote is not closed"),
        ("kind:sock", 5, "no kind of record begins with “sock”"),
        ("error:perhaps", 6, "error: is yes or no, not “perhaps”"),
        ("after:soon", 6, "“soon” is no date or time"),
        ("a;b; -", 5, "nothing to look for here"),
    ],
)
def test_says_what_is_wrong_and_where(text: str, position: int, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_breakpoints(text, 0.0)
    assert (str(caught.value), caught.value.position) == (message, position)
    assert caught.value.remedy


def test_semicolons_part_conditions_but_not_in_quotes() -> None:
    found = parse_breakpoints(' tool:bash error:yes ;; "a; b" ; tokens>1.5M ', 0.0)
    assert [each.source for each in found] == ["tool:bash error:yes", '"a; b"', "tokens>1.5M"]
    assert [each.of_state for each in found] == [False, False, True]
    assert parse_breakpoints(" ; ", 0.0) == ()


def test_every_example_of_a_key_is_a_condition() -> None:
    for examples in KEYS.values():
        for example in examples.split(" or "):
            assert len(parse_breakpoints(example, 0.0)) == 1


@given(st.text(max_size=40))
def test_any_text_is_conditions_or_an_error_inside_it(text: str) -> None:
    fault, found = understood(text)
    assert fault is None or 0 <= fault.position < fault.position + fault.length <= len(text)
    assert all(each.source for each in found)


def understood(text: str) -> tuple[FilterError | None, tuple[Condition, ...]]:
    try:
        return None, parse_breakpoints(text, 0.0)
    except FilterError as fault:
        return fault, ()


def test_a_pattern_that_would_never_end_is_only_text(tmp_path: Path) -> None:
    """There are no patterns in the language: what looks like one is looked for as it stands."""
    lines = [
        story.meta(1, "a", "a" * 5000),
        story.native(2, "terminal", {"reason": "error", "message": "(a+)+$"}),
    ]
    with RunReader.open(story.write(tmp_path / "a.json", lines)) as reader:
        reader.index_all()
        assert stops(reader, '"(a+)+$"') == [1]


def test_a_huge_record_is_read_piece_by_piece(tmp_path: Path) -> None:
    call = story.call("c1", "write", path="big/auth.py", content="x" * 3_000_000 + "needle")
    lines = [story.meta(1, "a", "p"), story.assistant(2, 0, call), story.result(3, "c1", "y" * 3_000_000)]
    with RunReader.open(story.write(tmp_path / "a.json", lines)) as reader:
        timeline = reader.index_all()
        steps = 0
        for text, wanted in (("needle", 1), ("nowhere", None), ("file:auth.py", 1)):
            seeking = next_stop(parse_breakpoints(text, 0.0), timeline, Texts(reader), 0, 1)
            asked = reader.bytes_read
            for _ in seeking.steps():
                assert reader.bytes_read - asked < 2 * 140_000, (
                    "the rest of one record, and the first piece of the next"
                )
                asked = reader.bytes_read
                steps += 1
            assert seeking.found == wanted
        assert steps > 40


def test_looking_tells_how_far_it_is_and_stops_between_steps(tmp_path: Path) -> None:
    lines = [story.meta(1, "a", "p"), *(story.assistant(seq, seq, stop="end_turn") for seq in range(2, 3000))]
    with RunReader.open(story.write(tmp_path / "a.json", lines)) as reader:
        timeline = reader.index_all()
        seeking = next_stop(parse_breakpoints("errors>0", 0.0), timeline, Texts(reader), 0, 1)
        told = [seeking.progress for _ in seeking.steps()]
        assert len(told) > 8
        assert told == sorted(told)
        assert seeking.progress == 1.0
        assert seeking.found is None


PATCH = "*** Begin Patch\n*** Update File: src/auth.py\n@@\n-a\n+user.py\n*** End Patch\n"


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("write_file", {"uri": "file:///src/auth.py", "content": "user.py"}),
        ("move_file", {"src": "src/auth.py", "dst": "b.py"}),
        ("move_file", {"src": "b.py", "dst": "src/auth.py"}),
        ("apply_patch", {"input": PATCH}),
        ("apply_patch", PATCH),
        ("shell", {"command": ["apply_patch", PATCH]}),
        ("write_file", {"targetFile": "src/auth.py", "content": "user.py"}),
        ("run", {"command": "python src/auth.py"}),
        ("look", {"src": "src/auth.py", "query": "user.py"}),
    ],
)
def test_a_stop_at_a_file_sees_what_the_changes_see(tmp_path: Path, tool: str, given: Json) -> None:
    block: dict[str, object] = {"type": "tool_use", "id": "c1", "name": tool, "input": given}
    records = [story.meta(1, "files", "Edit."), story.assistant(2, 0, block), story.result(3, "c1", "ok")]
    with RunReader.open(story.write(tmp_path / "files.json", records)) as reader:
        reader.index_all()
        assert stops(reader, "file:AUTH.py") == [1]
        assert stops(reader, "file:user.py") == []


def test_a_long_patch_is_looked_through_in_small_steps() -> None:
    rows = "\n".join(("-x", "+y")[at % 2] for at in range(19_000))
    patch = f"--- a/src/auth.py\n+++ b/src/auth.py\n@@ -1,20000 +1,20000 @@\n{rows}"
    steps = names_file("apply_patch", {"patch": patch}, "AUTH")
    assert sum(1 for _ in steps) >= 18
    assert at_once(names_file("apply_patch", {"patch": patch}, "AUTH"))
    assert not at_once(names_file("apply_patch", {"patch": patch}, "parser"))
    assert at_once(names_file("shell", {"command": ["cat", "src/auth.py"]}, "auth.py"))


class _Known:
    """Touches that are known from the first."""

    def __init__(self, touches: Touches) -> None:
        self.touches = touches

    def extend(self, upto: int) -> Iterator[None]:
        del upto
        yield from ()


@contextmanager
def folds_counted() -> Iterator[Callable[[], int]]:
    """Count how often a text is case-folded; each question gives what came since the one before."""
    folded = 0

    def seen(_: FrameType, event: str, function: object) -> None:
        nonlocal folded
        folded += event == "c_call" and getattr(function, "__name__", "") == "casefold"

    def since() -> int:
        nonlocal folded
        found, folded = folded, 0
        return found

    sys.setprofile(seen)
    try:
        yield since
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize(("name", "how"), [("file-19999.py", Change.UNKNOWN), ("nowhere", None)])
def test_a_file_is_looked_for_among_many_in_small_steps_and_each_path_once(
    name: str, how: Change | None, tmp_path: Path
) -> None:
    """A call is to change the last of the files and stands open; others changed the rest before it."""
    calls = [story.call(f"c{at}", "write_file", path="a.py", text="1") for at in range(3)]
    lines = [story.meta(1, "made", "do it"), story.assistant(2, 0, *calls)]
    lines += [story.result(seq, f"c{seq}", "done") for seq in range(3, 1000)]
    touches = Touches()
    for ordinal in range(20):
        patch = "".join(f"*** Add File: src/file-{ordinal * 1000 + at}.py\n+1\n" for at in range(1000))
        at_once(touches.ask(ordinal, 1, ordinal, "apply_patch", f"*** Begin Patch\n{patch}*** End Patch\n"))
        if ordinal < 19:
            touches.end(ordinal, 2, ok=True)
    assert len(touches.paths) == 20_000
    with RunReader.open(story.write(tmp_path / "made.json", lines)) as reader:
        timeline = reader.index_all()
        look = next_change(Watched(name), timeline, Texts(reader), _Known(touches), 5, -1)
        total = 0
        with folds_counted() as folded:
            for _ in look.steps():
                now = folded()
                assert now <= 1024
                total += now
            total += folded()
        assert look.answer is how
        assert 20_000 <= total < 21_000
