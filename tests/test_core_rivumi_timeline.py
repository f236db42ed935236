"""The index of an event log: what holds after an event is a cut, and equals the fold of the events so far."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rivumi_cases import CASES, DATA, canonical

from refold.core.formats.rivumi import EventDecoder
from refold.core.rivumi.events import read_log
from refold.core.rivumi.events_state import EventsState, events_state
from refold.core.rivumi.kinds import KNOWN
from refold.core.rivumi.log_facts import LogFacts
from refold.core.rivumi.timeline import EventTimeline
from refold.core.rivumi.timeline_builder import EventBuilder
from refold.core.store.reader import RunReader
from refold.core.timeline import Timeline

RUN = "r"


def line(seq: int, kind: str, at: float = 0.0, /, **data: object) -> bytes:
    event = {
        "created_at": f"2026-11-30T18:33:{at:09.6f}Z",
        "data": data,
        "event_id": f"e{seq}",
        "event_type": kind,
        "run_id": RUN,
        "sequence": seq,
        "task_id": "t",
    }
    return canonical(event)


def built(data: bytes) -> EventTimeline:
    builder = EventBuilder(EventDecoder())
    *ended, rest = data.split(b"\n")
    offset = 0
    for number, text in enumerate(ended, 1):
        builder.feed(text, offset, number)
        offset += len(text) + 1
    if rest:
        builder.feed_tail(rest, offset, len(ended) + 1)
    return builder.timeline


def without_arguments(state: EventsState) -> EventsState:
    """The index holds no payload."""
    calls = tuple(msgspec.structs.replace(call, arguments=None) for call in state.calls)
    return msgspec.structs.replace(state, calls=calls)


def assert_every_cut_is_the_fold(data: bytes) -> None:
    timeline = built(data)
    log = read_log(data)
    events = {event.start: at for at, event in enumerate(log.events, 1)}
    seen = 0
    for item in range(timeline.items):
        seen = max(seen, events.get(timeline.columns.offset[item], 0))
        assert timeline.state_at(item) == without_arguments(events_state(log.events[:seen])), item


@pytest.mark.parametrize("case", CASES)
def test_each_prefix_of_a_fixture(case: str) -> None:
    log = DATA / case / "events.jsonl"
    if log.exists():
        assert_every_cut_is_the_fold(log.read_bytes())


ids = st.sampled_from(["a", "b"])
effects = st.sampled_from(["read", "modify"])


@st.composite
def events(draw: st.DrawFn) -> tuple[str, dict[str, object]]:
    call, name = draw(ids), draw(st.sampled_from(["x", "y"]))
    effect, ok = draw(effects), draw(st.booleans())
    tool: dict[str, object] = {"tool_call_id": call, "name": name, "effect": effect}
    ask: dict[str, object] = {"request_id": f"q{call}", "action_id": call, "effect": effect}
    made: list[tuple[str, dict[str, object]]] = [
        ("tool.requested", {**tool, "arguments": {"path": "p"}}),
        ("approval.requested", ask),
        ("approval.resolved", {**ask, "decision": draw(st.sampled_from(["allow_once", "deny", "cancel"]))}),
        ("approval.reused", ask),
        ("approval.abandoned", ask),
        ("tool.started", tool),
        ("tool.completed", {**tool, "ok": ok, "error": None if ok else "no"}),
        ("tool.completed", {**tool, "ok": ok, "decision": {"choice": "done"}}),
        ("verification.started", {"name": name}),
        ("verification.completed", {"name": name, "ok": ok, "exit_code": 1 - ok}),
        ("verification.reused", {"name": name, "ok": ok}),
        ("subagents.transaction_started", {"id": "s", "tool_call_id": call}),
        ("subagents.transaction_completed", {"id": "s", "tool_call_id": call, "ok": ok}),
        ("model.requested", {"step": draw(st.integers(0, 9))}),
        ("model.completed", {"usage": {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 3}}),
        ("run.completed", {"terminal_reason": "verified"}),
        ("run.failed", {"terminal_reason": "max_steps_exceeded"}),
        ("session.resumed", {"provider": name, "model": "m", "base_sha": "s"}),
        ("session.continued", {}),
        ("hook.completed", {}),
        ("something.new", {"deep": [1]}),
    ]
    return draw(st.sampled_from(made))


@settings(max_examples=150, deadline=None)
@given(st.lists(events(), max_size=25), st.data())
def test_every_cut_is_the_fold_of_its_prefix(
    made: list[tuple[str, dict[str, object]]], data: st.DataObject
) -> None:
    rows = [line(data.draw(st.integers(0, 3)) + at, kind, **values) for at, (kind, values) in enumerate(made)]
    torn: bool = data.draw(st.booleans())
    if rows and torn:
        rows[data.draw(st.integers(0, len(rows) - 1))] = b'{"torn'
    end: bytes = data.draw(st.sampled_from([b"", b"\n"]))
    whole = b"\n".join(rows) + end
    assert_every_cut_is_the_fold(whole)


@settings(max_examples=60, deadline=None)
@given(st.lists(events(), min_size=1, max_size=15), st.data())
def test_a_tail_that_grows_ends_in_what_reading_at_once_gives(
    made: list[tuple[str, dict[str, object]]], data: st.DataObject
) -> None:
    rows = [line(at, kind, at / 10, **values) for at, (kind, values) in enumerate(made)]
    builder = EventBuilder(EventDecoder())
    offset = 0
    for number, row in enumerate(rows, 1):
        for cut in data.draw(st.lists(st.integers(1, len(row)), max_size=2)):
            builder.feed_tail(row[:cut], offset, number)
            builder.take_back()
        builder.feed(row, offset, number)
        offset += len(row) + 1
    grown, at_once = builder.timeline, built(b"\n".join(rows) + b"\n")
    assert grown.columns.arrays() == at_once.columns.arrays()
    assert grown.findings == at_once.findings
    assert [grown.state_at(item) for item in range(len(rows))] == [
        at_once.state_at(item) for item in range(len(rows))
    ]
    assert grown.problem_items() == at_once.problem_items()


@given(st.lists(events(), min_size=1, max_size=25), st.data())
def test_a_kept_index_goes_on_as_one_that_was_never_kept(
    drawn: list[tuple[str, dict[str, object]]], data: st.DataObject
) -> None:
    rows = [line(seq, kind, seq / 10, **fields) for seq, (kind, fields) in enumerate(drawn)]
    cut = data.draw(st.integers(0, len(rows)))
    first = EventBuilder(EventDecoder())
    offset = 0
    for number, text in enumerate(rows[:cut], 1):
        first.feed(text, offset, number)
        offset += len(text) + 1
    kept = first.snapshot()
    assert kept is not None
    again = EventBuilder(EventDecoder())
    for _ in again.restoring(kept):
        pass
    for number, text in enumerate(rows[cut:], cut + 1):
        again.feed(text, offset, number)
        offset += len(text) + 1
    whole = built(b"\n".join([*rows, b""]))
    timeline = again.timeline
    assert timeline.columns.arrays() == whole.columns.arrays() or _with_nan(timeline) == _with_nan(whole)
    assert timeline.names == whole.names
    assert timeline.types == whole.types
    assert timeline.findings == whole.findings
    assert timeline.problem_items() == whole.problem_items()
    for item in range(whole.items):
        assert timeline.state_at(item) == whole.state_at(item)
        assert timeline.history.life_of(item) == whole.history.life_of(item)
        assert timeline.link(item) == whole.link(item)


def _with_nan(timeline: Timeline) -> list[bytes]:
    return [column.tobytes() for column in timeline.columns.arrays()]


def _big(directory: Path, count: int = 600) -> Path:
    run = directory / "big"
    run.mkdir()
    rows = [line(0, "run.created")]
    for seq in range(1, count):
        kind = ("tool.requested", "tool.started", "tool.completed")[seq % 3]
        call = {"tool_call_id": f"c{(seq - seq % 3) // 3}", "name": "read_file", "effect": "read"}
        rows.append(
            line(seq, kind, seq % 60, **call, ok=True, preview="x" * 2000, arguments={"n": "y" * 900})
        )
    (run / "events.jsonl").write_bytes(b"\n".join([*rows, b""]))
    os.utime(run / "events.jsonl", (1_700_000_000, 1_700_000_000))
    return run


def test_a_big_log_that_did_not_change_is_not_read_again(tmp_path: Path) -> None:
    run, cache = _big(tmp_path), tmp_path / "cache"
    with RunReader.open(run) as reader:
        first = reader.index_all()
        assert reader.keep_index(cache)
    with RunReader.open(run, cache=cache) as reader:
        again = reader.index_all()
        assert reader.bytes_read < 200_000 < reader.size
        assert _with_nan(again) == _with_nan(first)
        assert again.tool_names() == ("read_file",)
    with (run / "events.jsonl").open("ab") as log:
        log.write(line(600, "run.completed", terminal_reason="verified") + b"\n")
    with RunReader.open(run, cache=cache) as grown, RunReader.open(run) as fresh:
        assert _with_nan(grown.index_all()) == _with_nan(fresh.index_all())
        assert grown.bytes_read < 200_000


@pytest.mark.parametrize("what", ["rewritten", "torn entry", "damaged", "torn tail"])
def test_an_index_that_does_not_fit_is_not_used(tmp_path: Path, what: str) -> None:
    run, cache = _big(tmp_path), tmp_path / "cache"
    log = run / "events.jsonl"
    if what in {"damaged", "torn tail"}:
        log.write_bytes(log.read_bytes() + (b"bad\n" if what == "damaged" else b'{"seq'))
        os.utime(log, (1_700_000_000, 1_700_000_000))
    with RunReader.open(run) as reader:
        reader.index_all()
        assert reader.keep_index(cache) == (what in {"rewritten", "torn entry"})
    if what == "rewritten":
        log.write_bytes(log.read_bytes().replace(b"read_file", b"list_file"))
    for file in (cache / "index").iterdir() if what == "torn entry" else ():
        raw = file.read_bytes()
        file.write_bytes(raw[:-3000] + b"\xc1" * 3000)
    with RunReader.open(run, cache=cache) as stale, RunReader.open(run) as fresh:
        assert _with_nan(stale.index_all()) == _with_nan(fresh.index_all())
        assert stale.timeline.tool_names() == fresh.timeline.tool_names()


def test_an_index_that_is_packed_while_a_line_is_fed_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history has taken the event in, and the columns have not: the thread sees just that moment."""
    run, cache = _big(tmp_path), tmp_path / "cache"
    kept: list[bool] = []
    appended = EventBuilder._append

    def pack_first(builder: EventBuilder, *values: object) -> None:
        kept.append(keep())
        appended(builder, *values)  # type: ignore[arg-type]

    with RunReader.open(run) as reader:
        reader.index_all()
        work = reader.keeping(cache)
        assert work is not None
        keep = work
        with (run / "events.jsonl").open("ab") as log:
            log.write(line(600, "tool.started", tool_call_id="new", name="read_file") + b"\n")
        monkeypatch.setattr(EventBuilder, "_append", pack_first)
        reader.index_all()
        assert kept == [False]
        assert not (cache / "index").exists()
        assert not keep()


def test_calls_are_joined_by_id_in_a_parallel_batch() -> None:
    rows = [
        line(0, "tool.requested", 0, tool_call_id="a", name="x", effect="modify"),
        line(1, "tool.requested", 0, tool_call_id="b", name="y", effect="read"),
        line(2, "tool.started", 1, tool_call_id="a", name="x", effect="modify"),
        line(3, "tool.started", 1, tool_call_id="b", name="y", effect="read"),
        line(4, "hook.completed", 2),
        line(5, "tool.completed", 4, tool_call_id="b", name="y", ok=True),
        line(6, "hook.completed", 5),
    ]
    timeline = built(b"\n".join(rows) + b"\n")
    assert [timeline.open_calls(item) for item in range(7)] == [0, 0, 1, 2, 2, 1, 1]
    assert timeline.link(1) == 5
    assert timeline.link(5) == 1
    assert timeline.link(0) is None
    assert timeline.tool_name(5) == "y"
    assert [call.id for call in timeline.state_at(6).open_calls] == ["a"]
    # What was started and has no end is a problem where it was started, however many events follow.
    assert timeline.problem_items() == [2]
    life = timeline.life(5)
    assert life is not None
    assert timeline.between(life.started(), 5) == 3.0


def test_a_sequence_that_stands_twice_is_a_conflict_in_the_order_of_the_file() -> None:
    timeline = built((DATA / "18-duplicate-sequence" / "events.jsonl").read_bytes())
    assert [timeline.seq(item) for item in range(timeline.items)] == [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9]
    assert [(finding.code, finding.line) for finding in timeline.findings] == [("E_SEQ_DUP", 7)]
    assert timeline.item_at(5) == 5
    assert timeline.item_at(9) == 10
    assert timeline.legal_fork(10) == 5


@pytest.mark.parametrize(
    ("sequences", "codes"),
    [
        ([0, 1, 2], []),
        ([1, 2], ["E_SEQ_GAP"]),
        ([0, 2, 1], ["E_SEQ_GAP", "E_SEQ_BACK"]),
        ([0, 2, 1, 1], ["E_SEQ_GAP", "E_SEQ_BACK", "E_SEQ_DUP"]),
        ([0, 0, 1], ["E_SEQ_DUP"]),
    ],
)
def test_order(sequences: list[int], codes: list[str]) -> None:
    timeline = built(b"".join(line(seq, "hook.completed") + b"\n" for seq in sequences))
    assert [finding.code for finding in timeline.findings] == codes
    # The file's order counts: nothing is sorted.
    assert [timeline.seq(item) for item in range(timeline.items)] == sequences
    for seq in sequences:
        assert timeline.item_at(seq) == sequences.index(seq)


def test_times_are_taken_as_they_stand_and_a_step_of_the_clock_is_seen() -> None:
    timeline = built(
        b"".join(line(at, "hook.completed", when) + b"\n" for at, when in enumerate([5, 9, 2, 3]))
    )
    assert [timeline.gap(item) for item in range(4)] == [None, 4.0, -7.0, 1.0]
    assert [timeline.seconds(item) for item in range(4)] == [0.0, 4.0, -3.0, -2.0]


def test_lines_glued_together_are_taken_apart() -> None:
    whole = [line(at, "hook.completed", data={"created_at": 1}) for at in range(3)]
    timeline = built(
        whole[0] + b"\n" + whole[1][:40] + whole[1] + whole[2] + b"\n" + line(3, "hook.completed")
    )
    assert [timeline.kind(item) for item in range(timeline.items)] == [
        "event",
        "damage",
        "event",
        "event",
        "event",
    ]
    assert [timeline.is_recovered(item) for item in range(timeline.items)] == [
        False,
        False,
        True,
        True,
        False,
    ]
    assert [finding.code for finding in timeline.findings if finding.line == 2] == ["E_GLUED"]
    assert timeline.legal_fork(timeline.items - 1) == 0


@pytest.mark.parametrize("kind", [*sorted(KNOWN), "a.new_type", "älter"])
def test_any_type_is_a_row_of_its_own(kind: str) -> None:
    timeline = built(line(0, kind) + b"\n")
    assert timeline.items == timeline.rows == 1
    assert timeline.type_of(0) == kind
    assert not timeline.findings


def test_tokens_run_along() -> None:
    usage = {"input_tokens": 1000, "cached_input_tokens": 100, "output_tokens": 40, "total_tokens": 1040}
    rows = [line(0, "model.requested", step=1), line(1, "model.completed", usage=usage, content="hi")]
    timeline = built(b"\n".join([*rows, line(2, "model.completed", usage=usage)]) + b"\n")
    counters = timeline.counters(2)
    assert (counters.in_tokens, counters.cache_read_tokens, counters.out_tokens) == (1800, 200, 80)
    assert [timeline.turn(item) for item in range(3)] == [0, 1, 2]
    assert timeline.next_turn(0, 1) == 1
    assert timeline.next_turn(1, 1) == 2
    assert timeline.next_turn(2, 1) is None
    assert timeline.next_turn(2, -1) == 1
    assert timeline.next_turn(1, -1) is None


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_beyond_64_bits_stop_at_their_edge(sign: int) -> None:
    most = sign * (2**63 - 1)
    usage = {"input_tokens": most, "output_tokens": most, "reasoning_tokens": most}
    other = {"input_tokens": most, "cached_input_tokens": -most, "output_tokens": most}
    rows = [line(seq, "model.completed", usage=(usage, other)[seq % 2]) for seq in range(4)]
    data = b"\n".join([*rows, b""])
    assert_every_cut_is_the_fold(data)
    timeline = built(data)
    counters = timeline.counters(3)
    assert counters.out_tokens == most
    assert abs(counters.in_tokens) < 2**63 > abs(counters.cache_read_tokens)
    state = timeline.state_at(3)
    assert (state.tokens.input, state.tokens.total) == (most, most)
    first, again = EventBuilder(EventDecoder()), EventBuilder(EventDecoder())
    first.feed_all([text + b"\n" for text in rows], 0, 1)
    kept = first.snapshot()
    assert kept is not None
    assert [*again.restoring(kept)]
    assert again.timeline.state_at(3) == state
    facts = LogFacts()
    assert all(facts.feed(text) for text in rows)
    assert (facts.tokens, facts.spent[1]) == (most, most)
    assert all(abs(sum_) < 2**63 for sum_ in facts.spent)


def test_a_time_beyond_every_float_is_none() -> None:
    timeline = built(line(0, "run.created")[:-1] + b',"created_at":' + b"9" * 400 + b"}\n")
    assert timeline.items == 1
    assert timeline.columns.seconds[0] != timeline.columns.seconds[0]


def test_an_end_that_was_continued_is_no_end() -> None:
    rows = [
        line(0, "run.failed", terminal_reason="x"),
        line(1, "session.continued"),
        line(2, "run.completed"),
    ]
    timeline = built(b"\n".join(rows) + b"\n")
    assert [timeline.terminal(item) for item in range(3)] == [(0, "failed"), None, (2, "completed")]
    assert timeline.is_error(0)


def test_a_log_of_another_program(tmp_path: Path) -> None:
    timeline = built((DATA / "37-external-cli-run" / "events.jsonl").read_bytes())
    assert timeline.external
    assert [timeline.kind(item) for item in range(3)] == ["event", "assistant", "terminal"]
    assert timeline.terminal(2) == (2, "completed")
    assert not timeline.findings
    assert not timeline.is_legal(1)


def test_what_the_catalog_of_types_calls_a_problem() -> None:
    data = (DATA / "36-event-catalog" / "events.jsonl").read_bytes()
    timeline = built(data)
    kinds = [json.loads(row)["event_type"] for row in data.split(b"\n") if row]
    assert {kinds[item] for item in timeline.problem_items()} == {
        "model.failed",
        "role_lane.failed",
        "run.error",
        "run.failed",
    }
