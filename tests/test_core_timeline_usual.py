"""Lines taken many at once make the Timeline that lines taken one by one make."""

from __future__ import annotations

import datetime as dt
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import generate
from tests.damage import KINDS, damage
from tests.generate import STYLES, Style

from refold.core.formats.registry import format_of
from refold.core.timeline_builder import Builder
from refold.core.timeline_fold import Clock, posix


def built(data: bytes, at_once: int) -> Builder:
    """Index complete lines, so many at once; 0 for one by one."""
    lines = data.splitlines(keepends=True) if b"\r" not in data else [p + b"\n" for p in data.split(b"\n")]
    lines = [line for line in lines if line.endswith(b"\n")]
    starts = [0, *accumulate(map(len, lines))]
    builder = Builder(format_of(data, hint="fisk-ai").decoder(data))
    for first in range(0, len(lines), at_once or 1):
        if at_once:
            builder.feed_all(lines[first : first + at_once], starts[first], first + 1)
        else:
            builder.feed(lines[first][:-1], starts[first], first + 1)
    return builder


def known(builder: Builder) -> list[object]:
    """Everything that the builder knows, as values to compare."""
    t = builder.timeline
    arrays = [column.tobytes() for column in t.columns.arrays()]
    error = t.fold_error and (t.fold_error[0], str(t.fold_error[1]))
    return [
        arrays,
        t.call_names.tobytes(),
        t.names,
        t.loose_ids,
        t.iterations.tobytes(),
        t.stop_reasons.tobytes(),
        t.reasons,
        t.marks,
        error,
        t.bad_line,
        t.last_line_mark,
        t.first_seconds,
        builder._fold,
    ]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("at_once", [1, 7, 64])
def test_a_whole_run(style: Style, at_once: int) -> None:
    data = b"".join(generate.journal(records=300, style=style, ending="in-flight"))

    assert known(built(data, at_once)) == known(built(data, 0))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_damaged_run(style: Style, kind: str) -> None:
    whole = b"".join(generate.journal(records=24, seed=4, style=style))
    for seed in range(2):
        data = damage(kind, seed, whole)

        assert known(built(data, 16)) == known(built(data, 0)), seed


def test_most_lines_of_a_run_are_usual() -> None:
    for style in STYLES:
        lines = list(generate.journal(records=200, style=style, ending="crashed"))
        builder = Builder(format_of(lines[0], hint="fisk-ai").decoder(lines[0]))
        builder.feed(lines[0][:-1], 0, 1)
        taken = builder._usual.take(builder._fold, builder.decoder.usual, lines[1:], len(lines[0]), 2)  # type: ignore[arg-type]

        assert taken == len(lines) - 1


_TIMES = st.datetimes(timezones=st.just(dt.UTC)).map(lambda moment: moment.isoformat().replace("+00:00", "Z"))
_ODD = st.sampled_from(
    [
        "",
        "Z",
        "no minute30.1Z",
        "2026-03-04T09:15:60.1Z",
        "2026-03-04T09:15:3\u0660.1Z",
        "2026-03-04T09:15:30.1",
        "2026-03-04T09:15:30.1z",
        "2026-13-04T09:15:30.1Z",
        "2026-03-04 09:15:30.123Z",
        "2026-03-04T09:15:30Z",
        "2026-03-04T09:15:30.Z",
        "2026-03-04T09:15:30.1234567Z",
        "2026-03-04T09:15:30.123456+02:00",
    ]
)


@given(st.lists(st.one_of(_TIMES, _ODD, st.text(max_size=30)), max_size=12))
def test_times_are_read_alike(texts: list[str]) -> None:
    clock = Clock()
    read = [clock.read(text) for text in texts for _ in range(2)]

    assert list(map(repr, read)) == [repr(posix(text)) for text in texts for _ in range(2)]
