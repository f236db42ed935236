"""The dialog before an export: which format, which file, and what would be hidden, as lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from refold.app.exporting import FORMATS, Format, ending_of
from refold.app.lines import Cell, Line, Role
from refold.app.present.layout import BLANK, cell, flow
from refold.app.present.units import plural
from refold.app.safe import Safe


class ExportPlan(NamedTuple):
    """What is chosen so far."""

    runs: tuple[str, ...]
    """The ids."""
    format: Format
    target: Path
    """The file; of several runs the directory."""
    redact: bool
    hidden: Counter[str]
    """What was found so far."""
    looked_at: float
    """How much of the runs that is, from 0 to 1."""
    said: str = ""
    """What came of it, or what is asked."""
    role: Role = "dim"
    unread: tuple[str, ...] = ()
    """What could not be looked at, and why: a sentence for each run."""
    unwritten: tuple[str, ...] = ()
    """What could not be written, and why: a sentence for each run."""


def plan_lines(plan: ExportPlan, width: int) -> Iterator[Line]:
    """Give the lines."""
    formats = [Cell(Safe("format     "), "dim")]
    for each in FORMATS:
        chosen = each is plan.format
        formats += [Cell(Safe(f" {each.name} "), "brand" if chosen else "text"), Cell(Safe(" "))]
    yield from flow(formats, width, 11)
    yield (Cell(Safe(" " * 11)), cell(plan.format.what, "dim"))
    yield BLANK
    label = "file       " if len(plan.runs) == 1 else "directory  "
    yield from flow(
        (Cell(Safe(label), "dim"), cell(str(plan.target) if plan.target != Path() else "…", "strong", 1000)),
        width,
        11,
    )
    if len(plan.runs) > 1:
        said = f"a file for each, RUN.{plan.format.ending}"
        yield (Cell(Safe(" " * 11)), cell(said, "dim"))
    yield BLANK
    yield from flow((Cell(Safe("redaction  "), "dim"), *_redaction(plan)), width, 11)
    if plan.unread and not plan.unwritten:
        yield BLANK
        if len(plan.runs) > 1:
            said = f"{len(plan.unread)} of {len(plan.runs)} could not be looked at:"
            yield (cell(said, "problem"),)
        yield from _sentences(plan.unread, width)
    if plan.said:
        yield BLANK
        yield from flow((cell(plan.said, plan.role, 2000),), width)
    yield from _sentences(plan.unwritten, width)


def _sentences(said: Iterable[str], width: int) -> Iterator[Line]:
    for each in said:
        yield from flow((cell(each, "problem", 2000),), width, 2)


def _redaction(plan: ExportPlan) -> Iterator[Cell]:
    total = plan.hidden.total()
    kinds = ", ".join(f"{count:,} × {kind}" for kind, count in plan.hidden.most_common())
    so_far = f", {int(plan.looked_at * 100)}% looked at" if plan.looked_at < 1 else ""
    if plan.redact:
        yield cell("on", "good")
        found = f"{plural(total, 'secret')} will be hidden: {kinds}" if total else _none(plan)
        yield cell(f"   {found}{so_far}", "text", 1000)
    else:
        yield cell("off", "problem")
        found = (
            f"{plural(total, 'secret')} go with it: {kinds}" if total else "whatever is secret goes with it"
        )
        yield cell(f"   {found}{so_far}", "problem", 1000)


def _none(plan: ExportPlan) -> str:
    """Say that nothing was found, and of what that is true."""
    if plan.looked_at < 1:
        return "none found so far"
    return "none found in what could be looked at" if plan.unread else "nothing looks like a secret"


def in_format(plan: ExportPlan) -> ExportPlan:
    """Give a file that was named by hand the ending of the format, or say that it keeps its own."""
    found = ending_of(plan.target)
    if found is None:
        said = f"{plan.target.name} keeps its name; what is in it will be {plan.format.name}"
        return plan._replace(said=said, role="warn")
    if found[0] is plan.format:
        return plan
    stem = plan.target.name.removesuffix(found[1])
    return plan._replace(target=plan.target.with_name(f"{stem}.{plan.format.ending}"))


def file_of(plan: ExportPlan, run_id: str, taken: set[Path]) -> Path:
    """Give the file of one run; of two that are called the same, the second gets a number."""
    if len(plan.runs) == 1:
        return plan.target
    name, number = plan.target / f"{run_id}.{plan.format.ending}", 2
    while name in taken:
        name = plan.target / f"{run_id}-{number}.{plan.format.ending}"
        number += 1
    return name
