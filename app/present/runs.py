"""What the list of runs says: its columns for a width, each row, and the bar above it."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final, Literal, NamedTuple

from refold.app import safe
from refold.app.lines import Cell, Column, Line, Role
from refold.app.present.kept import NOTED, STAR, has_note
from refold.app.present.layout import cell, marked
from refold.app.present.marks import MARK
from refold.app.present.money import Prices
from refold.app.present.run_list import RunList, meant
from refold.app.present.status import status_cell
from refold.app.present.units import ago, plural, short, size
from refold.app.safe import Safe
from refold.core.prices import amount
from refold.core.store.roots import RootReport
from refold.core.summary import RunSummary, bill_of

_READ: Final = 400
"""Characters of a prompt that a row can show."""
_WHOLE_ID: Final = 30
"""Cells in which the ids that agents make can be read whole, with the mark of a fork."""
_NAMES_PARENT: Final = 48
"""Cells of a prompt from which on it names the parent of a fork."""
_PARENT: Final = 20
_BESIDE: Final = 24
"""Cells that hold an id and what is in flight; where the column is narrower the prompt says it."""
_SAID_BY_STATUS: Final[Mapping[str, frozenset[str]]] = {
    "empty": frozenset({"E_EMPTY"}),
    "newer": frozenset({"E_NEWER_VERSION"}),
    "unreadable": frozenset({"E_NO_META", "E_NOT_REGULAR", "E_PERM"}),
}
"""Codes that say no more than the status does: they are not counted beside it."""
_BLIND: Final = frozenset({"unreadable", "empty", "newer"})
"""Statuses of runs that have no counters."""


class Field(NamedTuple):
    """One column that the list can have."""

    key: str
    label: Safe
    widths: tuple[int, int, int]
    """In a narrow, a usual and a wide terminal."""
    align: Literal["left", "right"] = "left"
    gap: int = 1
    meaning: str = ""


FIELDS: Final[tuple[Field, ...]] = (
    Field("status", Safe("Status"), (16, 16, 16), meaning="how it stands, and damage"),
    Field("id", Safe("Run"), (14, 18, 30), meaning="its name or id, ψ marks a fork"),
    Field("agent", Safe("Agent"), (7, 8, 8), meaning="the program whose format it is in"),
    Field("model", Safe("Model"), (12, 15, 22), meaning="the model it was started with"),
    Field("turns", Safe("Turns"), (6, 6, 6), "right", meaning="replies of the model"),
    Field("calls", Safe("Calls"), (6, 6, 6), "right", meaning="calls that the model asked for"),
    Field("errors", Safe("Err"), (4, 4, 4), "right", meaning="results that say error"),
    Field("tokens", Safe("Tokens"), (7, 7, 7), "right", meaning="of all four kinds"),
    Field("cost", Safe("Cost"), (9, 9, 12), "right", meaning="by the prices of the configuration"),
    Field("size", Safe("Size"), (8, 8, 8), "right", 2, meaning="of the file"),
    Field("created", Safe("Created"), (10, 10, 16), "left", meaning="as the run records it"),
    Field("updated", Safe("Updated"), (10, 10, 10), "right", 2, meaning="when its file changed"),
    Field("star", Safe("Star"), (4, 4, 4), meaning="what you starred"),
    Field("tags", Safe("Tags"), (8, 12, 18), meaning="the tags that you gave it"),
    Field("directory", Safe("Directory"), (16, 24, 40), meaning="where its file lies"),
    Field("prompt", Safe("Prompt"), (14, 18, 18), meaning="what it was asked to do"),
)
KEYS: Final = tuple(field.key for field in FIELDS)
USUAL: Final = ("status", "id", "agent", "model", "turns", "calls", "errors", "tokens", "updated", "prompt")
"""What is shown while nobody chose."""

_DROPPED_FIRST: Final = (
    "directory",
    "created",
    "size",
    "tags",
    "star",
    "cost",
    "agent",
    "calls",
    "tokens",
    "model",
    "errors",
    "turns",
)
"""The order in which columns make room in a terminal that is too narrow for all."""


def chosen(keys: Iterable[str]) -> tuple[str, ...]:
    """Give the known ones among the keys of columns, each once; the usual columns where there is none."""
    return tuple(key for key in dict.fromkeys(keys) if key in KEYS) or USUAL


def columns(keys: Sequence[str], width: int) -> tuple[Column, ...]:
    """Lay out columns for a width: those that do not fit are left out, id and prompt take what is left."""
    step = 0 if width < 90 else 1 if width < 150 else 2
    fields = {field.key: field for field in FIELDS if field.key in keys}
    order = [fields[key] for key in keys if key in fields]
    for dropped in _DROPPED_FIRST:
        if _span(order, step) <= width:
            break
        if dropped in fields and len(order) > 1:
            order.remove(fields[dropped])
    left = width - _span(order, step)
    laid = {f.key: Column(f.key, f.label, f.widths[step], f.align, f.gap) for f in order}
    if "id" in laid and len(laid) > 1:
        more = max(0, min(left // 2, _WHOLE_ID - laid["id"].width))
        laid["id"] = laid["id"]._replace(width=laid["id"].width + more)
        left -= more
    last = order[-1].key
    widest = "prompt" if "prompt" in laid else last
    laid[widest] = laid[widest]._replace(width=max(1, laid[widest].width + left))
    laid[last] = laid[last]._replace(gap=0)
    return tuple(laid.values())


def _span(fields: Sequence[Field], step: int) -> int:
    return sum(field.widths[step] + field.gap for field in fields) - fields[-1].gap


class Difference(NamedTuple):
    """What is another between two states of the rows."""

    changed: tuple[int, ...]
    """Rows of the same run that say something else."""
    moved_from: int | None
    """From this row on other runs may stand; None where the order is the same."""


class RunRows:
    """The rows of the list as they stand now; the columns are laid out anew where the width is another."""

    def __init__(
        self,
        runs: RunList,
        keys: Sequence[str],
        now: Callable[[], float],
        zone: tzinfo | None = None,
        prices: Prices | None = None,
    ) -> None:
        self.marked: Container[str] = ()
        """The paths of the runs that are marked."""
        self._runs = runs.shown()
        self._keys = tuple(keys)
        self._now = now
        self._prices = prices or {}
        self._zone = zone
        self._width = -1
        self._columns: tuple[Column, ...] = ()
        self._beside_id = True
        """What is in flight stands beside the id, not before the prompt."""
        self._sort = runs.sort
        self._filter = runs.filter
        words = sorted(runs.filter.words, key=len, reverse=True)
        self._words = re.compile("|".join(map(re.escape, words)), re.IGNORECASE) if words else None

    def __len__(self) -> int:
        return len(self._runs)

    def columns(self, width: int) -> tuple[Column, ...]:
        """Give the columns for a width."""
        if width != self._width:
            self._width = width
            self._columns = columns(self._keys, width)
            wide = {column.key: column.width for column in self._columns}
            self._beside_id = "prompt" not in wide or wide.get("id", 0) >= _BESIDE
        return self._columns

    def line(self, index: int, width: int) -> Line:
        """Give the row of a run."""
        run = self._runs[index]
        drawn: list[Cell] = []
        for column in self.columns(width):
            drawn += self._field(run, column)
            if column.gap:
                drawn.append(Cell(Safe(" " * column.gap)))
        return tuple(drawn)

    def fits(self, runs: RunList, keys: Sequence[str]) -> bool:
        """Say whether these are the rows of the same order, filter and columns."""
        return (self._sort, self._filter, self._keys) == (runs.sort, runs.filter, tuple(keys))

    def update(self, runs: RunList) -> Difference:
        """Take over the runs as they stand now; say which rows are others."""
        before, now = self._runs, runs.shown()
        self._runs = now
        changed: list[int] = []
        for index, (old, new) in enumerate(zip(before, now, strict=False)):
            if old is not new:
                if old.path != new.path:
                    return Difference(tuple(changed), index)
                changed.append(index)
        same = min(len(before), len(now))
        return Difference(tuple(changed), None if len(before) == len(now) else same)

    def run(self, index: int) -> RunSummary | None:
        """Give the run that a row shows."""
        return self._runs[index] if 0 <= index < len(self._runs) else None

    def updated(self, index: int) -> str:
        """Give what the row says about its time: it must be drawn again when this is another."""
        return updated(self._runs[index], self._now(), self._zone)

    def _field(self, run: RunSummary, column: Column) -> Line:
        key, width = column.key, column.width
        match key:
            case "status":
                return _status(run, width)
            case "id":
                pending = _pending(run) if self._beside_id else None
                if run.path in self.marked:
                    return (MARK, *marked(_id(run, width - safe.width(MARK.text), pending), self._words))
                return marked(_id(run, width, pending), self._words)
            case "prompt":
                pending = None if self._beside_id else _pending(run)
                return marked(_prompt(run, width, pending), self._words)
            case "updated":
                text = Safe(updated(run, self._now(), self._zone))
                return (Cell(safe.fit(text, width, "right"), "dim"),)
            case "star":
                return (Cell(safe.fit(Safe(STAR if run.kept.star else ""), width), "accent"),)
            case "tags":
                tags = safe.line(", ".join(run.kept.tags), _READ)
                return marked((Cell(safe.fit(tags, width), "accent"),), self._words)
            case "errors" if run.errors:
                return (Cell(safe.fit(Safe(short(run.errors)), width, "right"), "problem"),)
            case "turns" | "calls" | "errors" | "tokens":
                return _number(run, key, width)
            case "cost":
                return _cost(run, width, self._prices)
            case "size":
                return (Cell(safe.fit(Safe(size(run.size)), width, "right"), "dim"),)
            case "created":
                return (Cell(safe.fit(created(run.created, self._zone), width), "dim"),)
            case "directory":
                folder = safe.line(run.path.rpartition("/")[0])
                return (Cell(_keep_end(folder, width), "dim"),)
            case "model":
                return (Cell(safe.fit(safe.line(run.model, 2 * width) or Safe("–"), width), "text"),)
            case _:
                return (Cell(safe.fit(safe.line(run.format, 2 * width), width), "dim"),)


def _status(run: RunSummary, width: int) -> Line:
    shown = status_cell(run.status)
    damaged = damaged_places(run)
    if not damaged:
        return _glyph_and_word(safe.fit(shown.text, width), shown.role)
    badge = Safe(f" ⚠ {short(damaged)}")
    room = width - safe.width(badge)
    if room < 1:
        return (Cell(safe.fit(Safe(badge[1:]), width), "problem"),)
    word = safe.fit(shown.text, min(room, safe.width(shown.text)))
    return (
        *_glyph_and_word(word, shown.role),
        Cell(badge, "problem"),
        Cell(Safe(" " * (room - safe.width(word)))),
    )


def _glyph_and_word(text: Safe, role: Role) -> Line:
    """Draw the glyph apart: where the font lacks it, the word keeps its own spacing in exported pictures."""
    return (Cell(Safe(text[:1]), role), Cell(Safe(text[1:2])), Cell(Safe(text[2:]), role))


def damaged_places(run: RunSummary) -> int:
    """Count what is damaged, without what the status says already."""
    said = _SAID_BY_STATUS.get(run.status, frozenset())
    return max(0, run.damaged - len(said.intersection(run.problems)))


def _pending(run: RunSummary) -> Cell | None:
    """Say how many calls are without a result: in a run that crashed they are the first thing to know."""
    if not run.in_flight:
        return None
    # Nothing runs in a fork that nobody has gone on with.
    word = "withheld" if run.withheld else "pending" if run.status == "ready" else "in flight"
    return Cell(Safe(f"{len(run.in_flight)} {word}"), "warn" if run.status == "crashed" else "dim")


def _id(run: RunSummary, width: int, pending: Cell | None) -> Line:
    whole = width
    # An id can be told by its ends; that something is in flight cannot be told otherwise.
    beside = Safe(f" {pending.text}" if pending is not None and width > len(pending.text) + len(" …") else "")
    width -= len(beside)
    fork = Safe(" ψ" if run.parent and width > len(" ψ") else "")
    star = Safe(f"{STAR} " if run.kept.star and width > len(f"{STAR} …") + len(fork) else "")
    marked_ones = f" {NOTED}{run.kept.records or ''}" if has_note(run.kept) else ""
    noted = Safe(marked_ones if width > len(star) + len(fork) + len(f"{marked_ones}…") else "")
    name = middle(safe.line(run.kept.name or run.id), width - len(star) - len(fork) - len(noted))
    taken = len(star) + safe.width(name) + len(noted) + len(fork) + len(beside)
    return (
        Cell(star, "accent"),
        Cell(name, "strong"),
        Cell(noted, "accent"),
        Cell(fork, "fork"),
        Cell(beside, "dim" if pending is None else pending.role),
        Cell(Safe(" " * (whole - taken))),
    )


def _prompt(run: RunSummary, width: int, pending: Cell | None) -> Line:
    if run.note or run.status in _BLIND:
        why = safe.line(run.note or run.rule, _READ)
        role: Role = "problem" if run.status == "unreadable" else "dim"
        return (Cell(safe.fit(why, width), role),)
    lead: list[Cell] = []
    if pending is not None:
        lead.append(Cell(safe.fit(pending.text, min(width, len(pending.text))), pending.role))
        lead.append(Cell(safe.fit(Safe(" · "), min(len(" · "), width - len(lead[0].text))), "dim"))
    prompt = safe.line(run.prompt.strip(), _READ)
    if run.parent and width >= _NAMES_PARENT:
        # A fork has the prompt of its parent: what tells both apart comes first.
        parent = Safe(f"ψ of {middle(safe.line(run.parent, _READ), _PARENT)} · ")
        lead.append(Cell(parent, "fork"))
    left = width - sum(safe.width(each.text) for each in lead)
    return (*lead, Cell(safe.fit(prompt, left), "text"))


def _number(run: RunSummary, key: str, width: int) -> Line:
    if not run.complete:
        return (Cell(safe.fit(Safe("⋯"), width, "right"), "dim"),)
    if run.status in _BLIND:
        return (Cell(safe.fit(Safe("–"), width, "right"), "dim"),)
    number = {"turns": run.turns, "calls": run.calls, "errors": run.errors, "tokens": run.tokens}[key]
    if not number and key == "errors":
        return (Cell(safe.fit(Safe("·"), width, "right"), "dim"),)
    return (Cell(safe.fit(Safe(short(number)), width, "right"), "number"),)


def _cost(run: RunSummary, width: int, prices: Prices) -> Line:
    if not run.complete or run.status in _BLIND:
        return _number(run, "turns", width)
    found, _ = bill_of(run, prices)
    role: Role = "number" if found.amount is not None else "dim"
    return (Cell(safe.fit(safe.line(amount(found)), width, "right"), role),)


def updated(run: RunSummary, now: float, zone: tzinfo | None = None) -> str:
    """Say when the file changed: how long ago, or the moment itself where our clock is behind it."""
    if run.updated <= now + 1:
        return ago(now - run.updated)
    moment = _moment(run.updated, zone)
    if moment is None:
        return "far ahead"
    today = _moment(now, zone)
    same_day = today is not None and today.date() == moment.date()
    return moment.strftime("%H:%M:%S" if same_day else "%Y-%m-%d")


def moment(seconds: float, zone: tzinfo | None = None) -> str:
    """Write a time as date and clock, with its zone."""
    found = _moment(seconds, zone)
    return "beyond any calendar" if found is None else found.strftime("%Y-%m-%d %H:%M:%S %Z")


def _moment(seconds: float, zone: tzinfo | None) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return None


def created(recorded: str, zone: tzinfo | None = None) -> Safe:
    """Write a recorded time as date and clock; as it is recorded where it is no time."""
    try:
        # A fraction of nine digits is what the formats write; datetime takes six.
        trimmed = re.sub(r"(\.\d{6})\d+", r"\1", recorded[:64])
        return Safe(datetime.fromisoformat(trimmed).astimezone(zone).strftime("%Y-%m-%d %H:%M"))
    except (ValueError, OverflowError, OSError):
        return safe.line(recorded, 64) or Safe("–")


def middle(text: Safe, width: int) -> Safe:
    """Give text in at most so many cells; what is cut is cut from its middle, where ids differ least."""
    if safe.width(text) <= width:
        return text
    if width < 2:
        return safe.fit(text, max(0, width))
    head = safe.cut(text, width // 2)[0]
    return Safe(f"{head}…{_tail(text, width - 1 - safe.width(head))}")


def _keep_end(text: Safe, width: int) -> Safe:
    if safe.width(text) <= width:
        return safe.fit(text, width)
    return safe.fit(Safe(f"…{_tail(text, width - 1)}"), width)


def _tail(text: Safe, width: int) -> Safe:
    """The longest end that fits and begins with a character of its own."""
    start = len(text)
    taken = 0
    for place in range(len(text) - 1, -1, -1):
        cells = safe.width(text[place])
        taken += cells
        if taken > width:
            break
        if cells:
            start = place
    return Safe(text[start:])


class Loading(NamedTuple):
    """How far the reading of the directories is."""

    done: int = 0
    total: int = 0
    finished: bool = False


def top_left(total: int, directories: int, loading: Loading, mode: str, zone: str = "") -> Line:
    """Say how many runs there are, how they are kept up to date, and in which zone their times are."""
    counts = f"{plural(total, 'run')} · {plural(directories, 'directory', 'directories')}"
    counts += f" · {zone}" if zone else ""
    line = [Cell(Safe(counts)), Cell(Safe("   "))]
    if not loading.finished:
        far = f" {loading.done:,} of {loading.total:,}" if loading.total else ""
        return (*line, Cell(Safe(f"reading{far} …"), "accent"))
    if mode == "polling":
        return (*line, Cell(Safe("⚠ polling"), "warn"))
    if mode == "watching":
        return (*line, Cell(Safe("● watching"), "good"))
    return tuple(line)


def top_right(runs: RunList, searched: str = "", room: int = 60) -> Line:
    """Repeat the filter, in so many cells, and count what it hides; nothing where all is shown."""
    if not runs.filter:
        return ()
    source = safe.line(runs.filter.source.strip(), _READ)
    said = f"{searched} · {counted(runs)}" if searched else counted(runs)
    least = len("status:…")
    shown = safe.fit(source, max(least, min(safe.width(source), room - len(said) - len("/   "))))
    return (Cell(Safe("/ "), "dim"), Cell(shown, "accent"), Cell(Safe("  ")), Cell(Safe(said)))


def counted(runs: RunList) -> str:
    """Count the shown and the hidden runs, and ask what was meant where a word hides them all."""
    return f"{len(runs):,} of {runs.total:,} · {runs.hidden:,} hidden{meant(runs)}"


def nothing_matches(runs: RunList, searched: str = "") -> list[Line]:
    """Say that the filter hides every run, and how they come back."""
    said = f"No run matches so far: {searched}." if searched else "No run matches."
    return [
        (
            Cell(Safe(said), "strong"),
            Cell(Safe(f" {plural(runs.hidden, 'run')} hidden by the filter{meant(runs)}"), "dim"),
        ),
        (),
        (
            Cell(Safe("esc"), "key"),
            Cell(Safe(" shows all runs   "), "dim"),
            Cell(Safe("/"), "key"),
            Cell(Safe(" changes the filter"), "dim"),
        ),
    ]


def nothing_there(reports: Sequence[RootReport]) -> list[Line]:
    """Say which directories are watched, why each gives no run, and how there could be some."""
    lines: list[Line] = [(Cell(Safe("No runs yet."), "strong"),), ()]
    if reports:
        lines += [(Cell(Safe("A run is listed the moment it appears in one of these directories:")),), ()]
    else:
        lines += [(Cell(Safe("No directory is looked at.")),), ()]
    for report in reports:
        role: Role = "dim" if report.state in {"missing", "empty", "same", "unseen"} else "problem"
        origin = "" if report.root.origin == "default" else f"  ({report.root.origin})"
        lines.append((cell(f"  {report.root.path}", "text"), cell(origin, "dim")))
        lines.append((cell(f"    {report.detail or 'not looked at yet'}", role),))
    lines += [
        (),
        (
            Cell(Safe("refold demo"), "key"),
            Cell(Safe("        makes runs in every state and opens them"), "dim"),
        ),
        (Cell(Safe("refold --root DIR"), "key"), Cell(Safe("  looks in another directory too"), "dim")),
    ]
    return lines
