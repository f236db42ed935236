"""What is written into a run directory, as values: canonical JSON, manifest, request, line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rivumi_cases import BASE, CASES, DATA
from tests.rivumi_cases import canonical as rewritten
from tests.session_story import FIRST

from refold.core.errors import BadRecord
from refold.core.records import Json
from refold.core.rivumi import schema
from refold.core.rivumi.canonical import canonical, one_line, preview, time_text
from refold.core.rivumi.draft import SessionManifest
from refold.core.rivumi.event_line import event_line
from refold.core.rivumi.events import read_log
from refold.core.rivumi.items import message, observation
from refold.core.rivumi.manifest import read_manifest
from refold.core.rivumi.replay import replay_bytes
from refold.core.rivumi.task import Check, Task

NOW = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
TASK = Task(repository="/r", instruction="do", base_sha=BASE, checks=(Check("c", ("true",)),), task_id="t")
READABLE = [case for case in CASES if (DATA / case / "session.json").exists()]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=5)
MESSAGES = st.builds(message, st.sampled_from(["user", "system"]), TEXT)
ITEMS = MESSAGES | st.builds(observation, st.text("abc", min_size=1), st.just("tool"), TEXT)
CHANGES = st.lists(st.tuples(st.integers(0, 50), st.lists(ITEMS, max_size=3), TEXT), max_size=6)
LEASE = {"active_writer_token", "writer_claimed_at", "writer_heartbeat_at", "updated_at"}


def new() -> SessionManifest:
    return SessionManifest.new(
        run_id="run", task_id="t", provider="p", model="m", protocol="scripted", base_sha=BASE
    ).claimed("a" * 32, NOW)


def line(event_type: str = "hook.completed", data: dict[str, Json] | None = None, sequence: int = 0) -> bytes:
    return event_line(event_type, data or {}, run_id="run", task_id="t", sequence=sequence, now=NOW)


class TestCanonical:
    @given(VALUES)
    @settings(max_examples=150)
    def test_it_is_what_the_original_writes(self, value: Json) -> None:
        assert canonical(value) == rewritten(value)
        assert json.loads(canonical(value)) == value

    @given(OBJECTS)
    @settings(max_examples=100)
    def test_a_line_is_one_line_for_every_reader(self, value: dict[str, Json]) -> None:
        made = one_line(value)
        assert len(made.decode().splitlines()) == 1
        assert json.loads(made) == value

    @pytest.mark.parametrize("value", ["\ud800", float("nan"), float("inf"), {"a": b"bytes"}, {"a": {1}}])
    def test_what_is_no_json_is_refused(self, value: Any) -> None:
        with pytest.raises(BadRecord):
            canonical(value)

    @pytest.mark.parametrize("depth", [201, 100_000])
    def test_what_nobody_could_read_back_is_refused(self, depth: int) -> None:
        value: Json = 0
        for _ in range(depth):
            value = [value]
        with pytest.raises(BadRecord):
            canonical(value)

    def test_times(self) -> None:
        assert time_text(NOW) == "2026-03-01T12:00:00.250000Z"
        assert time_text(NOW.replace(microsecond=0)) == "2026-03-01T12:00:00Z"
        assert time_text(NOW.astimezone(timezone(timedelta(hours=5)))) == "2026-03-01T12:00:00.250000Z"

    @given(st.text(), st.integers(20, 200))
    def test_a_preview_is_bounded(self, text: str, limit: int) -> None:
        cut = preview(text, limit)
        assert len(cut.encode()) <= limit
        if len(text.encode("utf-8", "replace")) > limit:
            assert "[cut]" in cut


class TestManifest:
    def test_a_new_one_has_exactly_the_keys_of_the_first_generation(self) -> None:
        written = json.loads(new().encode())
        assert set(written) == FIRST
        assert len(FIRST) == 27
        assert read_manifest(new().encode()).generation == "G1"
        assert not isinstance(schema.taken("manifest", written), schema.Refusal)

    @pytest.mark.parametrize("case", READABLE)
    def test_rewriting_keeps_every_key_and_value(self, case: str) -> None:
        data = (DATA / case / "session.json").read_bytes()
        kept = SessionManifest.read(data)
        assert json.loads(kept.encode()) == json.loads(data)
        assert kept.encode() == rewritten(json.loads(data))
        claimed = json.loads(kept.claimed("b" * 32, NOW).at(7).encode())
        assert claimed["active_writer_token"] == "b" * 32
        before = json.loads(data)
        assert set(claimed) == set(before)
        different = {name for name in before if claimed[name] != before[name]}
        assert different <= {*LEASE, "last_event_sequence"}

    @pytest.mark.parametrize("drop", [(), ("verified_workspace_fingerprint",)])
    def test_numbers_and_unknown_keys_stay_as_they_are(self, drop: tuple[str, ...]) -> None:
        value = json.loads((DATA / "16-pending-approval" / "session.json").read_bytes())
        value |= {"of_tomorrow": {"big": 10**40, "float": 1e300, "text": "\u2028\x7f"}}
        for name in drop:
            del value[name]
        kept = SessionManifest.read(rewritten(value)).changed(
            {"step": 9}, add={"messages": [message("user", "x")]}
        )
        written = json.loads(kept.encode())
        assert set(written) == set(value)
        assert written["of_tomorrow"] == value["of_tomorrow"]
        assert written["messages"] == [*value["messages"], message("user", "x")]

    @given(CHANGES)
    @settings(max_examples=60)
    def test_added_bytes_are_those_of_the_whole(self, changes: list[tuple[int, list[Json], str]]) -> None:
        manifest, items = new(), list[Json]()
        for step, added, summary in changes:
            manifest = manifest.changed({"step": step, "final_summary": summary}, add={"messages": added})
            items += added
            assert manifest.encode() == rewritten(json.loads(manifest.encode()))
        assert json.loads(manifest.encode())["messages"] == items
        assert list(manifest.messages) == items

    @pytest.mark.parametrize(
        ("state", "said"),
        [
            ({"run_id": "other"}, "not for the agent"),
            ({"last_event_sequence": 9}, "not for the agent"),
            ({"active_writer_token": "x"}, "not for the agent"),
            ({"active_started_at": "2026-03-01T12:00:00Z"}, "not for the agent"),
            ({"model_usage": []}, "has no model_usage"),
            ({"of_tomorrow": 1}, "has no of_tomorrow"),
            ({"phase": "asleep"}, "phase"),
            ({"phase": None}, "phase"),
            ({"phase": "waiting_approval"}, "none is pending"),
            ({"step": -1}, "step"),
            ({"usage": {"total_tokens": 1}}, "usage"),
            ({"messages": [{"role": "user", "content": None}]}, "messages"),
            ({"granted_effects": ["modify_execute"]}, "G3"),
            ({"messages": [{"role": "user", "content": "x", "provider_metadata": {}}]}, "G2"),
            ({"messages": [{"item_type": "injected_context", "source": "s", "content": "c"}]}, "G2"),
        ],
    )
    def test_what_an_original_would_not_read_is_refused(self, state: dict[str, Json], said: str) -> None:
        with pytest.raises(BadRecord, match=said):
            new().changed(state)

    def test_the_terminal_flag_goes_with_the_phase(self) -> None:
        ended = new().changed({"phase": "failed"})
        assert ended["terminal"] is True
        assert ended.changed({"phase": "running"})["terminal"] is False

    def test_grants_have_one_order(self) -> None:
        grants: Json = ["modify", "execute", "modify"]
        assert new().changed({"granted_effects": grants})["granted_effects"] == ["execute", "modify"]

    def test_the_clock_runs_while_it_works_and_not_while_it_waits(self) -> None:
        working = new().changed({"phase": "running"}).timed(NOW)
        assert working["active_started_at"] == time_text(NOW)
        assert working.timed(NOW + timedelta(seconds=9))["active_started_at"] == time_text(NOW)
        stopped = working.changed({"phase": "paused"}).timed(NOW + timedelta(seconds=5))
        assert (stopped["active_started_at"], stopped["active_wall_time_seconds"]) == (None, 5.0)

    def test_the_time_of_a_dead_process_is_not_counted(self) -> None:
        working = new().changed({"phase": "running"}).timed(NOW).beating(NOW + timedelta(seconds=30))
        stopped = working.without_dead_time()
        assert (stopped["active_started_at"], stopped["active_wall_time_seconds"]) == (None, 30.0)
        assert stopped.without_dead_time() is stopped

    @pytest.mark.parametrize(
        "data", [b"", b"[]", b"{", b'{"a":NaN}', b"\xff{}", b'{"a":' + b"9" * 5000 + b"}"]
    )
    def test_what_is_no_manifest_is_refused(self, data: bytes) -> None:
        with pytest.raises(BadRecord):
            SessionManifest.read(data)


class TestTask:
    def test_the_request_is_what_every_generation_takes(self) -> None:
        request = json.loads(TASK.request())
        assert TASK.request() == rewritten(request)
        assert set(request) == {
            "repository", "instruction", "allowed_paths", "verification", "limits", "task_id", "base_sha"
        }  # fmt: skip
        assert set(request["limits"]) == {
            "max_steps", "wall_time_seconds", "max_tool_output_bytes", "max_patch_bytes"
        }  # fmt: skip
        assert not isinstance(schema.taken("request", request), schema.Refusal)

    @pytest.mark.parametrize(
        "change", [{"checks": ()}, {"allowed_paths": ("../x",)}, {"allowed_paths": ()}, {"instruction": " "}]
    )
    def test_what_they_would_not_take_is_refused(self, change: dict[str, Any]) -> None:
        with pytest.raises(BadRecord, match="task: "):
            Task(**{name: getattr(TASK, name) for name in TASK.__struct_fields__} | change).request()


class TestLine:
    @given(OBJECTS, TEXT, st.integers(0, 2**40))
    @settings(max_examples=150)
    def test_a_line_that_is_given_is_read_by_all(self, data: dict[str, Json], kind: str, at: int) -> None:
        try:
            made = line(kind, data, at)
        except BadRecord:
            return
        (event,) = read_log(made).events
        assert (event.event_type, event.sequence, event.data, event.odd) == (kind, at, data, ())
        assert schema.event_taken(made.decode()) is not None
        assert replay_bytes(made).event_count == 1

    def test_an_ordinary_line(self) -> None:
        made = json.loads(line("model.requested", {"step": 1}, 4))
        assert (len(made.pop("event_id")), made) == (
            32,
            {
                "created_at": "2026-03-01T12:00:00.250000Z",
                "data": {"step": 1},
                "event_type": "model.requested",
                "run_id": "run",
                "sequence": 4,
                "task_id": "t",
            },
        )

    @pytest.mark.parametrize(
        ("kind", "data"),
        [
            ("", {}),
            (" x", {}),
            ("x", {"text": "a\0b"}),
            ("x", {"text": "\udc80"}),
            ("x", {"n": float("nan")}),
            ("x", {"text": "é" * 70_000}),
        ],
    )
    def test_what_a_reader_would_not_take_is_refused(self, kind: str, data: dict[str, Json]) -> None:
        with pytest.raises(BadRecord):
            line(kind, data)

    def test_line_ends_of_unicode_do_not_end_a_line(self) -> None:
        made = line(data={"text": "a\u2028b\u2029c\x85d\x0b\x0c\x1ce"})
        assert made.count(b"\n") == 1
        assert len(made.decode().splitlines()) == 1
        assert json.loads(made)["data"]["text"] == "a\u2028b\u2029c\x85d\x0b\x0c\x1ce"
