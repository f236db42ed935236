"""A log folded line by line for the list says what the whole reading says, whatever stands in it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from tests.rivumi_cases import CASES, DATA

from refold.core.rivumi.events import read_log
from refold.core.rivumi.events_state import events_state
from refold.core.rivumi.log_facts import LogFacts
from refold.core.rivumi.snapshot import RESUME_LIMIT, Part
from refold.core.rivumi.summary import Found, Parts, summary
from refold.core.status import STATUSES
from refold.core.summary import summary_json

LINES = sorted(
    {
        line
        for case in CASES
        if (DATA / case / "events.jsonl").exists()
        for line in (DATA / case / "events.jsonl").read_bytes().split(b"\n")
        if 0 < len(line) < 4000
    }
)
MANIFESTS = [
    (DATA / case / "session.json").read_bytes() for case in CASES if (DATA / case / "session.json").exists()
]


@st.composite
def broken(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes of which a piece may be cut out, doubled or replaced."""
    data = draw(whole)
    if draw(st.booleans()) or not data:
        return data
    at = draw(st.integers(0, len(data) - 1))
    length = draw(st.integers(0, 40))
    new = draw(
        st.one_of(
            st.just(b""), st.binary(max_size=8), st.sampled_from([b"\0" * 20, b"\xef\xbb\xbf", b"9" * 30])
        )
    )
    return data[:at] + new + data[at + length :]


def of(data: bytes) -> LogFacts:
    log = LogFacts()
    *whole, rest = data.split(b"\n")
    for line in whole:
        log.feed(line)
    if rest:
        log.feed(rest, ended=False)
    return log


@given(st.lists(broken(st.sampled_from(LINES)), max_size=8), st.sampled_from([b"", b"\n", b"\n\n", b"\n \n"]))
def test_line_by_line_is_as_good_as_whole(lines: list[bytes], end: bytes) -> None:
    data = b"\n".join(lines) + end
    log, whole = of(data), read_log(data)
    state = events_state(whole.events)
    assert log.events == len(whole.events)
    assert log.torn == (whole.torn is not None)
    assert (log.last_sequence, log.tail) == (state.last_sequence, state.tail)
    assert sorted(log.open_calls()) == sorted(call.name or call.id for call in state.open_calls)
    assert log.tokens == state.tokens.total
    odd = sum(bool(event.odd) for event in whole.events)
    for code in {bad.code for bad in whole.bad} - {"E_BOM"}:
        counted = sum(bad.code == code for bad in whole.bad)
        assert log.codes[code] == counted + (odd if code == "E_BAD_RECORD" else 0)


@given(
    broken(st.sampled_from([*MANIFESTS, b"", b"{}", b"[]", b"null", b'{"phase":7,"messages":{}}'])),
    st.lists(broken(st.sampled_from(LINES)), max_size=4),
    st.sampled_from(["read", "missing", "link", "not_permitted"]),
)
def test_a_row_comes_of_anything(manifest: bytes, lines: list[bytes], state: str) -> None:
    data = b"\n".join(lines)
    part = Part("session.json", state, manifest if state == "read" else b"", detail="why")  # type: ignore[arg-type]
    parts = Parts(part, Part("request.json", "read", manifest), Part("events.jsonl", "read", size=len(data)))
    row = summary(Found("run", "/runs/run", 1.0, 2), parts, of(data))
    assert row.status in STATUSES
    assert row.rule
    json.dumps(summary_json(row))


def test_a_log_that_its_own_program_does_not_read_bars_a_resume() -> None:
    name = "03-running-clean"
    manifest, request = (
        Part(each, "read", data, len(data))
        for each in ("session.json", "request.json")
        for data in ((DATA / name / each).read_bytes(),)
    )
    log = of((DATA / name / "events.jsonl").read_bytes())
    for size, words in ((RESUME_LIMIT, ""), (RESUME_LIMIT + 1, "events.jsonl has 16.8 MB; its own program")):
        parts = Parts(manifest, request, Part("events.jsonl", "read", b"", size))
        row = summary(Found(name, name, 0.0, size), parts, log)
        assert row.barred.startswith(words)
        assert bool(row.barred) == bool(words)
