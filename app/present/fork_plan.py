"""A fork before it is made: what comes along, what stays, what will be pending, what is not restored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from refold.app.lines import Cell, Line
from refold.app.present import units
from refold.app.present.layout import BLANK, cell, fit, flow
from refold.app.present.rows import argument_cells
from refold.app.safe import Safe
from refold.core.fork import ForkPlan, Point
from refold.core.formats.names import is_own

if TYPE_CHECKING:
    from refold.app.forking import AnyForkPlan
    from refold.core.rivumi.fork import SessionForkPlan

_LABEL: Final = 14
_TEXT: Final = 2000
_SHOWN_CALLS: Final = 12

POINTS: Final[dict[Point, Safe]] = {
    "between": Safe("between turns"),
    "inside": Safe("inside a batch of calls"),
}
"""Where a legal point lies, in words."""


class ForkDraft(NamedTuple):
    """What the dialog shows: a point, and the plan for it or why there is none."""

    parent: str
    seq: int | None
    """The sequence of the chosen record; None where it has none."""
    line: int
    """The line of the file it stands on."""
    child: str
    prompt: str = ""
    reason: str = ""
    plan: AnyForkPlan | None = None
    bare: AnyForkPlan | None = None
    """The plan without the prompt, where that alone cannot stand here."""
    refusal: str = ""
    remedy: str = ""
    """What can be done about it."""
    directory: str = ""
    """Where the new run will lie."""
    proposed: str = ""
    """Why this point is proposed, or which one would be and why; empty for the end of a sound run."""

    @property
    def point(self) -> str:
        """The chosen record in words."""
        return f"seq {self.seq}" if self.seq is not None else f"line {self.line}"


def title(draft: ForkDraft) -> Line:
    """Give the first row of the dialog."""
    return (
        Cell(Safe("ψ Fork "), "fork"),
        cell(draft.parent, "strong", 60),
        *((cell(f" after {draft.point}", "text"),) if draft.line else ()),
    )


def verdict(draft: ForkDraft) -> Line:
    """Say in one row whether the fork can be made."""
    if draft.plan is not None:
        return (Cell(Safe("✓ legal  "), "good"), Cell(POINTS[draft.plan.point], "dim"))
    return (Cell(Safe("✗ no fork here  "), "problem"), cell(draft.refusal, "text", _TEXT))


def fork_lines(draft: ForkDraft, width: int) -> list[Line]:
    """Give everything the dialog says about a point."""
    lines = list(_point(draft, width))
    lines += _field("New run", draft.child, "", width)
    lines += _field("Prompt", draft.prompt, "none: it goes on as it stands", width)
    lines += _field("Reason", draft.reason, "none", width)
    shown = draft.plan or draft.bare
    if shown is not None:
        lines += [*_moved(shown, width), *_pending(shown, width)]
    if draft.plan is not None:
        lines += _writes(draft, draft.plan, width)
    return lines


def _point(draft: ForkDraft, width: int) -> Iterator[Line]:
    plan = draft.plan
    if plan is None:
        yield from flow((Cell(Safe("✗ "), "problem"), cell(draft.refusal, "text", _TEXT)), width, 2)
        if draft.remedy:
            yield from flow((cell("→ ", "dim"), cell(draft.remedy, "text", _TEXT)), width, 2)
        yield BLANK
        return
    where = cell(f"  {POINTS[plan.point]}", "dim")
    yield from _labelled("After", (cell(f"seq {plan.at}"), where), width)
    if draft.proposed:
        yield from _labelled("", (cell(draft.proposed, "dim"),), width)


def _field(label: str, value: str, empty: str, width: int) -> Iterator[Line]:
    said = cell(value, "strong", _TEXT) if value else cell(empty, "dim")
    yield from _labelled(label, (said,), width)


def _moved(plan: AnyForkPlan, width: int) -> Iterator[Line]:
    yield BLANK
    size = units.size(plan.size)
    comes = (
        f"{units.plural(plan.comes, 'record')}, {size}: "
        f"{units.plural(plan.turns, 'turn')}, {units.plural(plan.messages, 'message')}"
    )
    yield from _labelled("Comes along", (cell(comes),), width)
    stays = units.plural(plan.stays, "record") if plan.stays else "nothing"
    yield from _labelled("Stays behind", (cell(stays), cell(f"  in {plan.parent}", "dim")), width)
    for number, note in enumerate(plan.notes):
        yield from _labelled("Mind" if number == 0 else "", (cell(note, "warn", _TEXT),), width)


def _pending(plan: AnyForkPlan, width: int) -> Iterator[Line]:
    if not plan.pending:
        return
    yield BLANK
    count = units.plural(len(plan.pending), "call")
    yield from flow((cell(f"Pending in the new run: {count}", "strong"),), width)
    for call in plan.pending[:_SHOWN_CALLS]:
        name = cell(f"  {call.name or 'unnamed tool'}", "call", 60)
        yield fit((name, cell("  "), *argument_cells(call.input, 120)), width)
    if len(plan.pending) > _SHOWN_CALLS:
        yield (cell(f"  ⋯ {units.plural(len(plan.pending) - _SHOWN_CALLS, 'more call')}", "dim"),)
    told = "they have no result yet: a resume asks about each that writes, or whose effect is unknown"
    if not isinstance(plan, ForkPlan):
        told = "they have no result and are not run; the model is to ask again"
    yield from flow(
        (cell(f"  {told}", "dim"),),
        width,
        2,
    )


def _writes(draft: ForkDraft, plan: AnyForkPlan, width: int) -> Iterator[Line]:
    yield BLANK
    yield (cell("What will be written", "strong"),)
    if not isinstance(plan, ForkPlan):
        yield from _directory(draft, plan, width)
        return
    first = (
        f"{draft.directory}/{plan.child}.json: a new first line, then the bytes of {plan.parent} as they are"
    )
    yield from flow((cell("  "), cell(first, "text", _TEXT)), width, 2)
    if plan.prompt:
        yield from flow((cell("  "), cell(f"the prompt, as seq {plan.at + 1}")), width, 2)
    if not is_own(plan.format):
        yield from flow((cell("  where it comes from, in Refold's own notes on it"),), width, 2)
    yield from flow((cell(f"  {plan.parent} stays as it is, byte for byte", "dim", _TEXT),), width, 2)


def _directory(draft: ForkDraft, plan: SessionForkPlan, width: int) -> Iterator[Line]:
    """What a new run directory consists of."""
    messages = units.plural(plan.messages, "message")
    clone = f"workspace: a clone of {plan.repository} at {plan.base_sha[:12]}"
    said = [
        f"{draft.directory}/{plan.child}: its task, a manifest with {messages}, one event",
        f"{clone}, then changes.patch" if plan.patch else clone,
        *(["the prompt, as the last message"] if plan.prompt else []),
        "where it comes from, in Refold's own notes on it too",
    ]
    for text in said:
        yield from flow((cell("  "), cell(text, "text", _TEXT)), width, 2)
    yield from flow((cell(f"  {plan.parent} stays as it is, byte for byte", "dim", _TEXT),), width, 2)


def _labelled(label: str, said: tuple[Cell, ...], width: int) -> Iterator[Line]:
    yield from flow((cell(f"{label:{_LABEL}}", "dim"), *said), width, _LABEL)
