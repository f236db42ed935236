"""Lines, manifests and requests of Rivumi runs: what is read, kept and named."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rivumi_cases import CASES, DATA, canonical, expected

from refold.core.errors import BadRecord
from refold.core.rivumi import schema
from refold.core.rivumi.events import BadLine, Event, json_object, read_log
from refold.core.rivumi.kinds import ENDS, KNOWN, STARTS
from refold.core.rivumi.manifest import (
    FIRST_FIELDS,
    OLD_PROMPT,
    Tokens,
    calls_of,
    dangling,
    read_list,
    read_manifest,
    read_request,
    tokens_of,
)
from refold.core.rivumi.replay import MAX_LINE, MAX_TEXT, ReplayRefused, raw_events, replay, replay_bytes


def row(**fields: object) -> bytes:
    return canonical({"sequence": 0, "event_type": "x", "run_id": "r", **fields})


def test_every_type_of_the_catalogue_is_known() -> None:
    events = read_log((DATA / "36-event-catalog" / "events.jsonl").read_bytes()).events
    assert {event.event_type for event in events} == set(KNOWN)
    assert len(KNOWN) == 61
    assert STARTS | set(ENDS) < set(KNOWN)


@pytest.mark.parametrize("case", CASES)
def test_every_line_keeps_its_place(case: str) -> None:
    path = DATA / case / "events.jsonl"
    if not path.exists():
        return
    data = path.read_bytes()
    log = read_log(data)
    assert log.size == len(data)
    for event in log.events:
        value = json.loads(data[event.start : event.end])
        assert event.line == data.count(b"\n", 0, event.start) + 1
        assert (event.sequence, event.event_type) == (value["sequence"], value["event_type"])
        assert event.data == value["data"]
        assert event.text == value.get("text")
        assert not event.odd
        assert not event.extra


def test_lines_end_at_newlines_and_nowhere_else() -> None:
    data = row(data={"t": "a\u2028b\u0085c\x0bd"}) + b"\r\n\n  \n" + row(sequence=1)
    log = read_log(data)
    assert [(event.line, event.data) for event in log.events] == [(1, {"t": "a\u2028b\u0085c\x0bd"}), (4, {})]
    assert log.unterminated
    assert log.last is log.events[-1]
    assert read_log(b"").last is None


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", "E_BAD_JSON"),
        (b"[1]", "E_BAD_RECORD"),
        (b"null", "E_BAD_RECORD"),
        (b'{"sequence":0}', "E_BAD_RECORD"),
        (row(sequence="0"), "E_BAD_RECORD"),
        (row(sequence=True), "E_BAD_RECORD"),
        (row(sequence=-1), "E_BAD_RECORD"),
        (row(sequence=2**63), "E_BAD_RECORD"),
        (row(sequence=1.0), "E_BAD_RECORD"),
        (row(event_type=" "), "E_BAD_RECORD"),
        (row(data=[]), "E_BAD_RECORD"),
        (row(data={"a": float("nan")}), "E_NONFINITE"),
        (b'{"a":' + b"[" * 300 + b"]" * 300 + b"}", "E_TOO_DEEP"),
        (b"\xff", "E_BAD_UTF8"),
    ],
)
def test_a_line_that_is_no_event(line: bytes, code: str) -> None:
    log = read_log(row() + b"\n" + line + b"\n" + row(sequence=1) + b"\n")
    assert [event.sequence for event in log.events] == [0, 1]
    assert [(bad.line, bad.code) for bad in log.bad] == [(2, code)]
    assert log.torn is None
    torn = read_log(row() + b"\n" + line)
    assert torn.torn is not None
    assert (torn.torn.line, torn.bad, torn.unterminated) == (2, (), False)


@pytest.mark.parametrize(
    ("fields", "odd"),
    [
        ({"event_type": " x "}, "blanks around the event type"),
        ({"data": None}, "data is null"),
        ({"run_id": 3}, "run_id is no text"),
        ({"created_at": []}, "created_at is no time"),
        ({"more": 1}, "a key 'more' that the format does not know"),
        ({"text": "hello"}, "a key 'text' that the format does not know"),
    ],
)
def test_what_an_original_refuses_is_read_and_named(fields: dict[str, Any], odd: str) -> None:
    event = read_log(row(**fields) + b"\n").events[0]
    assert event.odd == (odd,)
    assert event.event_type == "x"


def test_bytes_that_are_not_utf8_and_half_pairs_are_read() -> None:
    log = read_log(row(data={"t": "?"}).replace(b"?", b"\xff") + b"\n" + b'\xef\xbb\xbf{"sequence":1}\n')
    assert log.events[0].data == {"t": "\ufffd"}
    assert log.events[0].odd == ("bytes that are not UTF-8",)
    assert [bad.line for bad in log.bad] == [2]
    assert not log.bom
    first = read_log(b"\xef\xbb\xbf" + row(data={"t": "?"}).replace(b"?", b"\\ud800") + b"\n")
    assert first.bom
    assert first.events[0].data == {"t": "\ufffd"}


@given(st.binary(max_size=300), st.sampled_from([b"", row() + b"\n", row()]))
def test_no_bytes_break_the_reader(noise: bytes, before: bytes) -> None:
    log = read_log(before + noise)
    places: list[Event | BadLine] = [*log.events, *log.bad, *([log.torn] if log.torn else [])]
    assert len({place.line for place in places}) == len(places)
    assert all(0 <= place.start < place.end <= log.size for place in places)
    with contextlib.suppress(ReplayRefused):
        replay_bytes(before + noise)


def test_generations_are_told_by_their_keys() -> None:
    third = json.loads((DATA / "03-running-clean" / "session.json").read_bytes())
    second = {key: value for key, value in third.items() if key != "verified_workspace_fingerprint"}
    first = {key: value for key, value in second.items() if key != "model_usage"}
    plain = json.loads(json.dumps(first))
    for message in plain["messages"]:
        message.pop("provider_metadata", None)
    for made, generation in ((third, "G3"), (second, "G2"), (first, "G2"), (plain, "G1")):
        assert read_manifest(canonical(made)).generation == generation
    assert set(plain) == set(FIRST_FIELDS)
    assert len(FIRST_FIELDS) == 27
    del plain["prompt_version"]
    assert read_manifest(canonical(plain)).prompt_version == OLD_PROMPT
    assert not isinstance(schema.taken("manifest", plain), schema.Refusal)
    injected = {"item_type": "injected_context", "source": "s", "content": "c"}
    plain["messages"].append(injected)
    assert read_manifest(canonical(plain)).generation == "G2"
    assert not isinstance(schema.taken("manifest", plain), schema.Refusal)


def test_a_manifest_keeps_what_nobody_knows() -> None:
    made = read_manifest((DATA / "32-extra-manifest-field" / "session.json").read_bytes())
    assert made.unknown == ("surprise",)
    assert made.raw["surprise"] == 1
    assert made.run_id == "32-extra-manifest-field"


def test_a_manifest_of_wrong_shapes_is_still_read() -> None:
    made = read_manifest(
        canonical(
            {
                "run_id": 1,
                "step": "2",
                "terminal": "yes",
                "messages": {},
                "usage": [],
                "active_wall_time_seconds": "long",
                "last_event_sequence": 2**70,
                "pending_action": {"action_id": "a", "command": {"name": "check-1"}},
            }
        )
    )
    assert len(made.odd) == 7
    assert (made.run_id, made.step, made.terminal, made.last_event_sequence) == ("", 0, False, -1)
    assert made.pending is not None
    assert (made.pending.action_id, made.pending.name) == ("a", "check-1")
    for data in (b"", b"[]", b"{", b"nul"):
        with pytest.raises(BadRecord):
            read_manifest(data)


@pytest.mark.parametrize("case", CASES)
def test_dangling_calls_are_those_the_fixtures_name(case: str) -> None:
    answer = expected(case)["resume_with_workspace"]
    if answer["ok"]:
        manifest = read_manifest((DATA / case / "session.json").read_bytes())
        assert [call.id for call in dangling(manifest)] == answer["dangling_tool_call_ids"]
        pending = manifest.pending.action_id if manifest.pending is not None else None
        assert (manifest.phase, manifest.step, pending) == (
            answer["phase"],
            answer["step"],
            answer["pending_action"],
        )


def test_calls_of_odd_messages() -> None:
    messages = [1, {"role": "user"}, {"role": "assistant", "tool_calls": [1, {"tool_call_id": "c"}]}]
    manifest = read_manifest(canonical({"messages": messages}))
    assert [call.id for call in calls_of(manifest)] == ["c"]


def test_requests_and_lists() -> None:
    request = read_request((DATA / "03-running-clean" / "request.json").read_bytes())
    assert (request.repository, request.wall_time_seconds, request.max_steps) == ("/home/dev/calc", 900.0, 12)
    assert read_request(b'{"limits":{"max_steps":"x"},"task_id":1}').odd == (
        "task_id is no text",
        "max_steps is no whole number",
    )
    outcomes = read_list((DATA / "12-terminal-completed" / "verification.json").read_bytes())
    assert len(outcomes) == 1
    with pytest.raises(BadRecord):
        read_list(b"{}")
    assert json_object(b' {"a":1} ') == {"a": 1}
    usage = json.loads((DATA / "12-terminal-completed" / "session.json").read_bytes())["usage"]
    assert tokens_of(usage) == Tokens(3006, 120, 300, 15, 3126)
    assert tokens_of({"input_tokens": 2, "output_tokens": 3}).total == 5
    assert tokens_of(None) == Tokens()


MANIFEST: dict[str, Any] = json.loads((DATA / "16-pending-approval" / "session.json").read_bytes())
REQUEST: dict[str, Any] = json.loads((DATA / "16-pending-approval" / "request.json").read_bytes())


def _pending(**fields: object) -> dict[str, object]:
    return {"pending_action": {**MANIFEST["pending_action"], **fields}}


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"run_id": " "}, "run_id"),
        ({"step": -1}, "step"),
        ({"phase": "asleep"}, "phase"),
        ({"base_sha": "x"}, "base_sha"),
        ({"terminal": True}, ""),
        ({"pending_action": None}, ""),
        (_pending(run_id="other"), ""),
        (_pending(effect="destroy"), "pending_action.effect"),
        (_pending(tool_call=None), "pending_action"),
        (_pending(reason="final_verification"), "pending_action"),
        ({"messages": [{"role": "user"}]}, "messages.0"),
        ({"messages": [{"role": "assistant"}]}, "messages.0"),
        ({"messages": [{"tool_call_id": "c", "name": "n", "ok": True, "error": "e"}]}, "messages.0"),
        ({"messages": [{"tool_call_id": "c", "name": "n", "ok": False}]}, "messages.0"),
        ({"messages": [{"source": "s", "content": "a\0"}]}, "messages.0"),
        ({"granted_effects": ["fly"]}, "granted_effects"),
        ({"active_started_at": "yesterday"}, "active_started_at"),
    ],
)
def test_a_manifest_that_the_original_refuses(fields: dict[str, Any], where: str) -> None:
    assert not isinstance(schema.taken("manifest", MANIFEST), schema.Refusal)
    refusal = schema.taken("manifest", {**MANIFEST, **fields})
    assert isinstance(refusal, schema.Refusal)
    assert refusal.where.startswith(where)
    assert not refusal.extra


@pytest.mark.parametrize(
    "fields",
    [
        {"allowed_paths": []},
        {"allowed_paths": ["/etc"]},
        {"allowed_paths": ["a/../b"]},
        {"allowed_paths": ["a", " a"]},
        {"instruction": " "},
        {"base_sha": " "},
        {"enabled_skills": ["-"]},
        {"enabled_skills": ["a", "a "]},
        {"verification": []},
        {"verification": [{"name": "c", "argv": [""]}]},
        {"limits": {"max_steps": 0}},
    ],
)
def test_a_request_that_the_original_refuses(fields: dict[str, Any]) -> None:
    assert not isinstance(schema.taken("request", REQUEST), schema.Refusal)
    assert not isinstance(schema.taken("request", {**REQUEST, "enabled_skills": ["lint"]}), schema.Refusal)
    assert isinstance(schema.taken("request", {**REQUEST, **fields}), schema.Refusal)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"sequence": None}, "sequence"),
        ({"event_type": 1}, "event_type"),
        ({"run_id": ""}, "run_id"),
        ({"turn_id": 1}, "turn_id"),
        ({"data": []}, "data"),
        ({"model": 1}, "field"),
        ({"text": "a\0"}, "nul"),
        ({"data": {"text": "a\0"}}, "nul"),
    ],
)
def test_an_event_that_the_replay_refuses(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(ReplayRefused) as refused:
        replay([{"sequence": 0, "event_type": "x", **fields}])
    assert refused.value.code == code


def test_turns_texts_and_details_of_a_conversation() -> None:
    events: list[dict[str, object]] = [
        {"sequence": 4, "event_type": "turn.completed", "turn_id": "t1", "conversation_id": " c "},
        {"sequence": 1, "event_type": "user.message", "turn_id": "t1", "text": "x" * (MAX_TEXT + 1)},
        {
            "sequence": 2,
            "event_type": " turn_started ",
            "turn_id": "t2",
            "summary": "top",
            "data": {"name": "n"},
        },
        {"sequence": 9, "event_type": "turn_completed", "turn_id": "t1", "data": {"text": "in"}},
    ]
    state = replay(events)
    assert state == replay(reversed(events))
    assert (state.active_turn_id, state.completed_turn_ids) == ("t2", ("t1",))
    assert (state.terminal_event_type, state.conversation_id) == ("turn_completed", "c")
    assert (state.first_sequence, state.last_sequence, state.event_count) == (1, 9, 4)
    assert state.timeline[0].text == "x" * MAX_TEXT
    assert state.timeline[1].detail == "top"
    assert state.timeline[3].text == "in"
    other = [*events, {"sequence": 11, "event_type": "x", "conversation_id": "d"}]
    with pytest.raises(ReplayRefused, match="multiple conversation_id"):
        replay(other)
    closed = replay([*events, {"sequence": 12, "event_type": "turn.failed", "turn_id": "t2"}])
    assert (closed.active_turn_id, closed.completed_turn_ids) == (None, ("t1", "t2"))


def test_the_longest_line_is_counted_without_its_end() -> None:
    frame = len(canonical({"a": "", "event_type": "x", "sequence": 0}))
    fits = canonical({"a": "y" * (MAX_LINE - frame), "event_type": "x", "sequence": 0})
    assert len(fits) == MAX_LINE
    assert replay_bytes(fits + b"\n").event_count == 1
    with pytest.raises(ReplayRefused, match="line 2 exceeds 131072 bytes"):
        list(raw_events(b"\n" + fits.replace(b"y", b"yy", 1) + b"\n"))


@given(
    st.lists(st.tuples(st.integers(0, 50), st.sampled_from(sorted(KNOWN)), st.text(max_size=5)), max_size=12),
    st.randoms(use_true_random=False),
)
def test_the_order_of_lines_and_keys_does_not_matter(rows: list[tuple[int, str, str]], random: Any) -> None:
    unique = {
        seq: {"sequence": seq, "event_type": kind, "name": text.replace("\0", "")} for seq, kind, text in rows
    }
    events: list[dict[str, object]] = [dict(sorted(value.items())) for value in unique.values()]
    wanted = replay(events).canonical()
    random.shuffle(events)
    assert replay([dict(reversed(event.items())) for event in events]).canonical() == wanted
