"""One event rendered for reading: whose call it is, what was asked and answered, long parts folded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from refold.app.lines import Line, Role
from refold.app.present import units
from refold.app.present.json_text import json_lines
from refold.app.present.layout import BLANK, cell, flow
from refold.app.present.record import (
    Subject,
    bytes_lines,
    finding_lines,
    heading_lines,
    text_lines,
)
from refold.app.present.session_rows import DECISIONS, Glimpse, outcome, settled
from refold.app.present.view import View
from refold.core.records import Json
from refold.core.rivumi.calls import CallLife
from refold.core.rivumi.kinds import KNOWN
from refold.core.rivumi.snapshot import Part
from refold.core.rivumi.timeline import EventTimeline, Life

_FOLDED: Final = 40
_PATCH_ROWS: Final = 200
_LABEL: Final = 22
_TEXTS: Final = ("content", "preview", "error", "text", "message", "reason", "summary")
"""Members that hold text for a reader, and are shown as such."""
_DIFF: Final[dict[str, Role]] = {"+": "added", "-": "removed", "@": "accent"}


def event_lines(
    subject: Subject,
    timeline: EventTimeline,
    seen: Glimpse,
    width: int,
    view: View,
    *,
    patch: Part | None = None,
) -> Iterator[Line]:
    """Give the lines of an event, one after the other, for a pane of this width.

    Args:
        subject: The row, with what the timeline knows about it.
        timeline: The rows of the run.
        seen: What the event says, as far as it was read.
        width: Cells of a line.
        view: What the reader has unfolded.
        patch: The recorded changes, at the end of a run.
    """
    item = subject.row.item
    yield from heading_lines(subject, width, view)
    kind = timeline.type_of(item)
    if not kind:
        yield from finding_lines(subject, width)
        yield BLANK
        yield from bytes_lines(subject.head, width, view)
        return
    known = kind in KNOWN or timeline.external
    yield from flow(
        (cell(kind, "accent", 200), cell("" if known else "  not a type that is known", "dim")), width, 2
    )
    yield from _clock(timeline, item, width)
    yield from finding_lines(subject, width)
    life = timeline.life(item)
    if life is not None:
        yield BLANK
        yield from _life(timeline, life, item, width)
    yield BLANK
    if seen.text:
        yield from text_lines(seen.text, width, "text", 0 if view.unfolded else _FOLDED, view.unfold_key)
    yield from data_lines(seen.data, width, view)
    if not seen.data and not seen.text:
        yield (cell("no data", "dim"),)
    if subject.hidden:
        yield BLANK
        text = f"⋯ {units.size(subject.hidden)} of this event not shown here; Raw shows all of it"
        yield from flow((cell(text, "warn"),), width, 2)
    if patch is not None and patch.size:
        yield BLANK
        yield from flow((cell("changes.patch", "strong"), cell(f"  {units.size(patch.size)}", "dim")), width)
        if patch.data:
            yield from patch_lines(patch.data, width, view)
        else:
            yield from flow((cell(f"not shown: {patch.detail}", "warn", 1000),), width, 2)


def _clock(timeline: EventTimeline, item: int, width: int) -> Iterator[Line]:
    since, gap = timeline.seconds(item), timeline.gap(item)
    if since is None:
        return
    parts = [cell(f"{units.since_start(since)} after the first event", "dim")]
    if gap is not None and gap < 0:
        parts.append(
            cell(f"  the clock was set back {units.duration(-gap)}: the file's order counts", "warn")
        )
    elif gap is not None:
        parts.append(cell(f"  {units.duration(gap)} after the one before", "dim"))
    yield from flow(parts, width, 2)


def _life(timeline: EventTimeline, life: Life, here: int, width: int) -> Iterator[Line]:
    """Say how a call or check came along, wherever its events stand."""
    now = life.now
    what = "check " if now.is_check else "call "
    word, role = outcome(now)
    yield from flow(
        (
            cell(what, "call"),
            cell(now.name or "unnamed", "strong", 120),
            cell(f"  {now.effect}" if now.effect else "", "dim", 40),
            cell(f"  {word}", role),
            cell(f"  {now.id}", "dim", 200),
        ),
        width,
        2,
    )
    before: int | None = None
    last: CallLife | None = None
    for item, past in life.moments:
        taken = timeline.between(before, item)
        waited = f"  after {units.duration(taken)}" if taken is not None and taken >= 0 else ""
        mark = "▸" if item == here else " "
        text, text_role = _moment(past, last)
        yield from flow(
            (
                cell(f"{mark} ", "accent"),
                cell(f"seq {timeline.seq(item)}  ", "dim"),
                cell(text, text_role, 400),
                cell(waited, "dim"),
            ),
            width,
            4,
        )
        before, last = item, past
    if now.open:
        said = "outcome unknown" if now.uncertain else "it reads only"
        yield from flow((cell(f"  no end is recorded: {said}", "warn"),), width, 2)


def _moment(life: CallLife, before: CallLife | None) -> tuple[str, Role]:
    past = before or CallLife(life.id)
    if life.ended is not None and past.ended is None:
        code = f", exit {life.exit_code}" if life.exit_code is not None else ""
        if life.outcome_unknown:
            return settled(life), "warn"
        failed = life.ok is False
        return (f"failed{code}" if failed else f"completed{code}"), "problem" if failed else "good"
    if life.started is not None and life.started != past.started:
        return "started", "call"
    if life.abandoned is not None and past.abandoned is None:
        return "abandoned: it was not answered before its process ended", "warn"
    if life.decided is not None and life.decided != past.decided:
        return DECISIONS.get(life.decision, (life.decision or "answered", "warn"))
    if life.asked is not None and life.asked != past.asked:
        return "asked whether it may run", "warn"
    return "requested", "text"


def data_lines(data: dict[str, Json], width: int, view: View) -> Iterator[Line]:
    """Give the data of an event: short values named, texts as text, the rest as JSON."""
    long: list[str] = []
    label = min(_LABEL, max(map(len, data), default=0)) + 1
    for name, value in data.items():
        if _is_long(name, value, width):
            long.append(name)
        else:
            yield from flow(
                (cell(f"{name:<{label - 1}} ", "dim", 120), cell(_short(value), "text", 2000)), width, label
            )
    for name in sorted(long, key=lambda name: name not in _TEXTS):
        value = data[name]
        yield BLANK
        yield from flow((cell(name, "dim", 200),), width)
        if isinstance(value, str):
            if not value:
                yield (cell("(empty)", "dim"),)
                continue
            role: Role = "problem" if name == "error" else "text"
            yield from text_lines(value, width, role, 0 if view.unfolded else _FOLDED, view.unfold_key)
        else:
            yield from json_lines(value, width, indent=2)


def _is_long(name: str, value: Json, width: int) -> bool:
    if isinstance(value, str):
        return name in _TEXTS or "\n" in value or len(value) > width
    return isinstance(value, dict | list) and bool(value)


def _short(value: Json) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or isinstance(value, dict | list):
        return "none"
    return str(value)


def patch_lines(patch: bytes, width: int, view: View) -> Iterator[Line]:
    """Give the recorded changes as a diff."""
    rows = patch.decode("utf-8", "backslashreplace").removesuffix("\n").split("\n")
    shown = rows if view.unfolded else rows[:_PATCH_ROWS]
    for row in shown:
        head = row.startswith(("+++", "---", "diff "))
        role: Role = "strong" if head else _DIFF.get(row[:1], "text")
        yield from text_lines(row or " ", width, role, 0, "")
    if len(shown) < len(rows):
        more = units.plural(len(rows) - len(shown), "more line")
        yield from flow((cell(f"⋯ {more}  ({view.unfold_key} shows them)", "accent"),), width, 2)
