"""What is said of the trash: the plan before runs are moved there, what lies there, and the way back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final

from refold.app import safe
from refold.app.lines import Cell, Line, Role
from refold.app.present import units
from refold.app.present.layout import BLANK, cell, fit, flow
from refold.app.safe import EMPTY, Safe, line
from refold.app.trashing import Moved, Moving
from refold.core.prune import Spared
from refold.core.store.trash_list import Entry, closed
from refold.core.trash import bytes_of

_TEXT: Final = 2000
_NAMED: Final = 100
_WIDE: Final = 100
_FEW: Final = 3
"""So many runs are told with every file that is moved."""

_BACK: Final = "X shows the trash; u there puts a run back."

Said = tuple[Safe, Role]


def title(movings: Sequence[Moving]) -> Safe:
    """Name what is to be moved: of several runs those that can be."""
    if len(movings) == 1:
        return line(f"Move {_name(movings[0])} to the trash", 80)
    going = sum(not moving.plan.refused for moving in movings)
    return Safe(f"Move {units.plural(going or len(movings), 'run')} to the trash")


def plan_said(movings: Sequence[Moving], spared: Sequence[Spared] = ()) -> list[Said]:
    """Say what would be moved and where to, what stays and why, as paragraphs of a dialog."""
    going = [moving.plan for moving in movings if not moving.plan.refused]
    said: list[Said] = []
    if going:
        count, size = units.plural(len(going), "run"), units.size(bytes_of(going))
        stay = len(movings) - len(going) + len(spared)
        rest = f" {units.plural(stay, 'run')} would stay." if stay else ""
        said.append((Safe(f"{count}, {size}.{rest} Nothing is deleted: {_BACK}"), "text"))
        places = sorted({plan.target.rpartition("/")[0] for plan in going})
        said += [(line(f"to {place}", _TEXT), "dim") for place in places[:_FEW]]
        if len(places) > _FEW:
            said.append((Safe(f"and {len(places) - _FEW:,} more directories"), "dim"))
    else:
        said.append((Safe("Nothing would be moved."), "warn"))
    said.append((EMPTY, "text"))
    for moving in movings[:_NAMED]:
        said += _one(moving, whole=len(movings) <= _FEW)
    if len(movings) > _NAMED:
        said.append((Safe(f"and {len(movings) - _NAMED:,} more"), "dim"))
    for each in spared[:_NAMED]:
        said.append((line(f"{each.run.kept.name or each.run.id} stays: {each.why}", _TEXT), "dim"))
    if len(spared) > _NAMED:
        said.append((Safe(f"and {len(spared) - _NAMED:,} more stay"), "dim"))
    return said


def _one(moving: Moving, *, whole: bool) -> Iterator[Said]:
    plan, run = moving.plan, moving.run
    if plan.refused:
        yield line(plan.sentence, _TEXT), "problem"
        for reason in plan.found.against:
            if reason.remedy:
                yield line(f"  → {reason.remedy}", _TEXT), "dim"
        return
    yield line(f"{_name(moving)}  {run.status}  {units.size(plan.found.bytes)}", _TEXT), "strong"
    for part in plan.found.parts if whole else ():
        what = {"run": "the run", "side": "what a repair cut off", "lock": "its lock"}[part.kind]
        size = plan.found.bytes if plan.found.directory else part.size
        yield line(f"  {part.name}  {units.size(size)}  {what}", _TEXT), "dim"
    for remark in plan.remarks:
        yield line(f"  {remark}", _TEXT), "warn"


def _name(moving: Moving) -> str:
    return moving.run.kept.name or moving.run.id


def result_said(results: Sequence[Moved], *, stopped: int = 0) -> str:
    """Say what came of a plan, of which so many runs were not looked at because it was stopped."""
    stayed = [moved for moved in results if moved.error is not None]
    count = len(results) - len(stayed)
    said = "Nothing was moved."
    if count:
        said = f"{units.plural(count, 'run')} moved to the trash: {_BACK}"
    if not all(moved.durable for moved in results):
        said += " The disk has not confirmed it."
    if stopped:
        said += f" Stopped: {units.plural(stopped, 'run')} not moved."
    if stayed:
        said += f" {units.plural(len(stayed), 'run')} stayed; {_name(stayed[0].moving)}: {stayed[0].error}"
    return said


class TrashRows:
    """The rows of the trash."""

    def __init__(self, entries: Sequence[Entry], said: Sequence[tuple[str, Role]], now: float) -> None:
        """Show entries, each with a few words about what can be done with it."""
        self.entries = entries
        self._said = said
        self._now = now

    def __len__(self) -> int:
        return len(self.entries)

    def line(self, index: int, width: int) -> Line:
        """Give the row of an entry."""
        entry = self.entries[index]
        words, role = self._said[index]
        name, status = _widths(width)
        return fit(
            (
                Cell(_padded(entry.called or entry.id, name), "strong"),
                Cell(_padded(entry.status, status), "dim"),
                cell(f"{units.size(entry.bytes):>9}  ", "number"),
                cell(f"{_ago(entry, self._now):>8}  ", "dim"),
                Cell(_padded(words, 22), role),
                cell(entry.prompt, "text", 200),
            ),
            width,
        )


def heading(width: int) -> Line:
    """Give the names of the columns."""
    name, status = _widths(width)
    names = f"{'Run':{name}}{'Status':{status}}{'Size':>9}  {'Moved':>8}  {'':22}Prompt"
    return fit((Cell(Safe(names), "dim"),), width)


def _widths(width: int) -> tuple[int, int]:
    """Give the widths of name and status: until when an entry is kept is told at any width."""
    return (30, 16) if width >= _WIDE else (20, 12)


def words_of(entry: Entry, until: datetime | None, *, due: bool) -> tuple[str, Role]:
    """Say in a few words what can be done with an entry."""
    match entry.state:
        case "part":
            return "a part never left", "warn"
        case "unknown":
            return "manifest unreadable", "warn"
        case "newer":
            return "of a newer Refold", "warn"
        case "deleting":
            return "half deleted", "warn"
        case "closed":
            return "may not be read", "warn"
    if due:
        return "may be deleted", "accent"
    return ("", "dim") if until is None else (f"kept until {until:%Y-%m-%d}", "dim")


def entry_lines(entry: Entry, width: int, zone: tzinfo | None) -> list[Line]:
    """Say what is put back and where to, before it is asked for."""
    lines: list[Line] = []
    if entry.state == "newer":
        lines += flow((cell("A newer Refold put this here: update, then put it back.", "warn"),), width)
    elif entry.state == "closed":
        words = f"This cannot be looked into: {closed(entry).remedy}, then look again."
        lines += flow((cell(words, "warn"),), width)
    elif entry.state == "deleting":
        lines += flow((cell("Its deletion was cut short. D goes on with it.", "warn"),), width)
    else:
        lead = (Cell(Safe("u"), "key"), cell(" puts it back to ", "dim"))
        lines += flow((*lead, cell(entry.home, "text", _TEXT)), width, 2)
        names = ", ".join(part.name for part in entry.parts)
        lines += flow((cell(names, "dim", _TEXT), cell(" with their modes and times", "dim")), width, 2)
    if entry.state == "unknown":
        lines += flow((cell("What lay where is not recorded: everything here is put back.", "warn"),), width)
    lines.append(BLANK)
    moved = _moment(entry)
    when = "" if moved is None else f"moved {moved.astimezone(zone):%Y-%m-%d %H:%M}{_said(zone)} · "
    lines += flow((cell(f"{when}{entry.path}", "dim", _TEXT),), width, 2)
    if entry.prompt:
        lines += flow((cell(entry.prompt, "text", _TEXT),), width, 2)
    return lines


def top(entries: Sequence[Entry], days: int) -> tuple[Line, Line]:
    """Say how much lies in the trash, and for how long."""
    size = units.size(sum(entry.bytes for entry in entries))
    left = (cell("trash  ", "strong"), cell(f"{units.plural(len(entries), 'run')} · {size}"))
    right = (cell(f"nothing is deleted by itself; a prune may, after {units.plural(days, 'day')}", "dim"),)
    return left, right


def nothing() -> list[Line]:
    """Say that the trash is empty, and how something gets there."""
    return [
        (cell("The trash is empty.", "strong"),),
        (),
        (Cell(Safe("x"), "key"), cell(" in the list of runs moves one here", "dim")),
    ]


def _padded(text: str, width: int) -> Safe:
    return Safe(f"{safe.fit(line(text, 200), width - 1)} ")


def _moment(entry: Entry) -> datetime | None:
    try:
        return datetime.fromisoformat(entry.time[:40])
    except ValueError:
        return None


def _said(zone: tzinfo | None) -> str:
    return " UTC" if zone is UTC else ""


def _ago(entry: Entry, now: float) -> str:
    moved = _moment(entry)
    try:
        return "" if moved is None else units.ago(max(0.0, now - moved.timestamp()))
    except (OverflowError, OSError):
        return ""
