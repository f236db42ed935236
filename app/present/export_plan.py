"""The dialog before an export: which format, which file, and what would be hidden, as lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from refold.app.exporting import FORMATS, Format
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
    yield from flow((Cell(Safe(label), "dim"), cell(str(plan.target), "strong", 1000)), width, 11)
    if len(plan.runs) > 1:
        said = f"a file for each, RUN.{plan.format.ending}"
        yield (Cell(Safe(" " * 11)), cell(said, "dim"))
    yield BLANK
    yield from flow((Cell(Safe("redaction  "), "dim"), *_redaction(plan)), width, 11)
    if plan.said:
        yield BLANK
        yield from flow((cell(plan.said, plan.role, 2000),), width)


def _redaction(plan: ExportPlan) -> Iterator[Cell]:
    total = plan.hidden.total()
    kinds = ", ".join(f"{count:,} × {kind}" for kind, count in plan.hidden.most_common())
    so_far = f", {plan.looked_at:.0%} looked at" if plan.looked_at < 1 else ""
    if plan.redact:
        yield cell("on", "good")
        found = (
            f"{plural(total, 'secret')} will be hidden: {kinds}" if total else "nothing looks like a secret"
        )
        yield cell(f"   {found}{so_far}", "text", 1000)
    else:
        yield cell("off", "problem")
        found = (
            f"{plural(total, 'secret')} go with it: {kinds}" if total else "whatever is secret goes with it"
        )
        yield cell(f"   {found}{so_far}", "problem", 1000)


def file_of(plan: ExportPlan, run_id: str, taken: set[Path]) -> Path:
    """Give the file of one run; of two that are called the same, the second gets a number."""
    if len(plan.runs) == 1:
        return plan.target
    name, number = plan.target / f"{run_id}.{plan.format.ending}", 2
    while name in taken:
        name = plan.target / f"{run_id}-{number}.{plan.format.ending}"
        number += 1
    return name
