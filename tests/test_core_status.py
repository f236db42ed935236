"""The status table of contracts.md, line by line, and the row of the list as scripts see it."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.status import STATUSES, Facts, derive
from refold.core.summary import RunSummary, rfc3339, summary_json

GOOD = Facts(has_meta=True, version=3, supported=3, last_seq=5)


def changed(**fields: object) -> Facts:
    return msgspec.structs.replace(GOOD, **fields)


@pytest.mark.parametrize(
    ("facts", "held", "name", "word"),
    [
        (GOOD, True, "running", "holding its lock"),
        (changed(terminal="completed"), True, "running", "lock"),
        (Facts(blank=True), True, "running", "lock"),
        (changed(forked_at=5), False, "ready", "forked at seq 5"),
        (changed(forked_at=5, terminal="suspended"), False, "ready", "nothing was appended"),
        (changed(forked_at=4), False, "crashed", "without a terminal record"),
        (changed(terminal="suspended"), False, "suspended", "suspended"),
        (changed(terminal="suspended", torn=True), False, "suspended", "a torn record follows"),
        (changed(terminal="suspended", after_terminal=1), False, "crashed", "1 record follows the last"),
        (changed(terminal="error", after_terminal=3), False, "crashed", "3 records follow the last"),
        (GOOD, False, "crashed", "no process is seen holding it"),
        (changed(torn=True), False, "crashed", "a torn record follows; no process is seen"),
        (changed(terminal="completed"), False, "completed", "completed"),
        (changed(terminal="completed", after_terminal=2), False, "completed", "2 records follow it"),
        (changed(terminal="error"), False, "failed", "error"),
        (changed(terminal="cancelled"), False, "cancelled", "cancelled"),
        (changed(terminal="budget"), False, "budget", "budget"),
        (changed(terminal="max_iterations"), False, "max-iterations", "iterations"),
        (changed(terminal="out of cheese"), False, "failed", "“out of cheese”"),
        (changed(terminal=""), False, "failed", "“”"),
        (changed(terminal="x" * 5000), False, "failed", "…"),
        (Facts(blank=True), False, "empty", "no records"),
        (Facts(), False, "unreadable", "first record"),
        (Facts(note="line 1 is cut off"), False, "unreadable", "line 1 is cut off"),
        (Facts(opened=False, note="it is a directory"), True, "unreadable", "it is a directory"),
        (changed(version=4), False, "newer", "version 4; this build reads up to version 3"),
        (changed(version=99, terminal="completed"), False, "newer", "version 99"),
        (changed(version=-1), False, "crashed", "no process is seen"),
    ],
)
def test_each_line_of_the_table(facts: Facts, held: bool, name: str, word: str) -> None:
    status = derive(facts, held=held)
    assert status.name == name
    assert word in status.rule
    assert len(status.rule) < 160


@given(
    st.builds(
        Facts,
        has_meta=st.booleans(),
        blank=st.booleans(),
        version=st.integers(-2, 5),
        supported=st.just(3),
        terminal=st.none() | st.text(max_size=20) | st.sampled_from(["completed", "suspended", "error"]),
        after_terminal=st.integers(0, 3),
        torn=st.booleans(),
        forked_at=st.none() | st.integers(0, 5),
        last_seq=st.integers(0, 5),
        opened=st.booleans(),
    ),
    st.booleans(),
)
def test_every_run_has_a_status_of_the_closed_set_and_a_rule(facts: Facts, held: bool) -> None:
    status = derive(facts, held=held)
    assert status.name in STATUSES
    assert status.rule


def test_the_json_of_a_row_has_exactly_the_promised_keys() -> None:
    row = RunSummary(
        id="a",
        path="/r/a.json",
        format="fisk-ai",
        status="crashed",
        updated=1784884530.5,
        problems=("E_GLUED",),
    )
    line = summary_json(row)
    assert list(line) == (
        [
            "id",
            "link",
            "path",
            "format",
            "status",
            "rule",
            "model",
            "created",
            "updated",
            "turns",
            "calls",
            "errors",
            "tokens",
            "prompt",
            "problems",
            "star",
            "tags",
            "name",
            "note",
            "noted_records",
        ]
    )
    assert line["updated"] == "2026-07-24T09:15:30.500000Z"
    assert line["problems"] == ["E_GLUED"]
    assert json.loads(json.dumps(line)) == line


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e30, -1e30])
def test_a_time_that_no_calendar_reaches_is_null(seconds: float) -> None:
    assert rfc3339(seconds) is None


def test_a_whole_second_is_written_without_a_fraction() -> None:
    assert rfc3339(0) == "1970-01-01T00:00:00Z"


def test_a_row_survives_the_cache_encoding() -> None:
    row = RunSummary(
        id="a", path="/r/a.json", tools=("x", "y"), in_flight=("z",), updated=1.25, complete=False
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(row), type=RunSummary) == row
