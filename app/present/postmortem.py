"""A run that stopped, top to bottom: verdict, calls in flight, last records, damage, what can be done."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from refold.app import safe
from refold.app.lines import Cell, Line, Role
from refold.app.present import units
from refold.app.present.effects import EFFECTS
from refold.app.present.landing import Landing
from refold.app.present.layout import BLANK, cell, fit, flow, paragraph, span, spread
from refold.app.present.raw import RawRows
from refold.app.present.rows import TimelineRows, argument_cells
from refold.app.present.status import status_cell
from refold.app.safe import Safe
from refold.core.findings import LEFT_BY_A_CRASH
from refold.core.patterns import Pattern, Patterns
from refold.core.postmortem import Action, ActionName, Damage, InFlight, Postmortem
from refold.core.records import Json
from refold.core.timeline import Timeline

Target: TypeAlias = Landing | ActionName | None
"""Where Enter leads from a line: to a record, to an action, or nowhere."""

_TEXT: Final = 2000
_ARGUMENTS: Final = 8
_ROWS: Final = 40
"""Lines of one argument."""
_CALLS: Final = 20
_PLACES: Final = 20
_DEEP: Final = 4
_ACTIONS: Final[dict[ActionName, tuple[str, str]]] = {
    "resume": ("postmortem.resume", "Resume"),
    "fork": ("postmortem.fork", "Fork before the trouble"),
    "salvage": ("postmortem.salvage", "Salvage into a new run"),
    "repair": ("postmortem.repair", "Repair the end"),
    "nothing": ("postmortem.back", "Leave it as it is"),
}
_TOOLS: Final = 3
"""So many tools are named of which nobody says what they do."""
_BRIEFLY: Final[Mapping[ActionName, str]] = {
    "resume": "resume",
    "fork": "fork",
    "salvage": "salvage into a new run",
    "repair": "repair the end",
}
_USUAL_KEYS: Final[Mapping[str, str]] = {
    "r": "postmortem.resume",
    "f": "postmortem.fork",
    "s": "postmortem.salvage",
    "m": "postmortem.repair",
}
_KEY: Final = re.compile(r"\(([rfsm])(?=\)|, or )")
KEY_IDS: Final = tuple(key for key, _ in _ACTIONS.values())
"""The keys that are named on the screen."""
_LOOKS: Final[dict[str, Role]] = {"completed": "good", "running": "good", "ready": "fork"}


class Drawn(NamedTuple):
    """The lines of the screen, and where each of them leads."""

    lines: tuple[Line, ...]
    targets: tuple[Target, ...]

    def first(self, target: Target) -> int:
        """Give the first line that leads somewhere; the first of all where none does."""
        return self.targets.index(target) if target in self.targets else 0


class _Page:
    """Lines that are being written."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._lines: list[Line] = []
        self._targets: list[Target] = []

    def add(self, lines: Iterable[Line], target: Target = None) -> None:
        for line in lines:
            self._lines.append(line)
            self._targets.append(target)

    def heading(self, text: str, beside: str = "") -> None:
        right = (cell(beside, "dim"),) if beside else ()
        self.add((BLANK, spread((Cell(Safe(text), "strong"),), right, self.width)))

    def text(self, words: str, role: Role = "text", target: Target = None, *, indent: int = 2) -> None:
        self.add(paragraph(safe.line(words, _TEXT), self.width, role, indent=indent), target)

    @property
    def drawn(self) -> Drawn:
        return Drawn(tuple(self._lines), tuple(self._targets))


def postmortem_lines(
    post: Postmortem,
    rows: TimelineRows,
    width: int,
    shown_keys: Mapping[str, str],
    patterns: Patterns | None = None,
    commands: Mapping[ActionName, str] | None = None,
) -> Drawn:
    """Give everything that is said about a run.

    Args:
        post: What was found.
        rows: The rows of its timeline, for the last of them.
        width: The cells of a line.
        shown_keys: What is printed on the keys of the actions, by the id of the key.
        patterns: What keeps happening; None while it is looked for.
        commands: What does the same on the command line, where no key can be pressed.
    """
    page = _Page(width)
    broken = any(each.finding.severity == "error" for each in post.damage)
    role = "problem" if broken else _LOOKS.get(post.status.name, "problem")
    page.text(post.verdict.happened, role, indent=0)
    page.text(_with_keys(post.verdict.safe, shown_keys), "strong", indent=0)
    _at_once(page, post.actions, shown_keys)
    # Of a run directory the events say what a tool does.
    _flying(page, post.in_flight, may_be_said=not post.position.claims)
    if post.in_flight and post.workplace:
        page.text(f"its agent works in {post.workplace}: relative paths begin there", "dim")
    _last(page, post, rows)
    _damage(page, post)
    _left_out(page, post)
    page.heading("Lock, lease and manifest" if post.position.claims else "Lock")
    page.text(post.position.sentence, "warn" if post.position.holder or not post.position.known else "text")
    for claim in post.position.claims:
        page.text(claim)
    _patterns(page, patterns, rows.timeline)
    _resuming(page, post)
    page.heading("What you can do")
    for action in post.actions:
        _action(page, action, shown_keys, trouble=bool(post.in_flight or broken))
        if commands is not None and action.possible and action.name in commands:
            # In one piece, however long: it is there to be copied.
            page.add(((Cell(Safe("       ")), cell(commands[action.name], "key")),), action.name)
    return page.drawn


def _only_torn(post: Postmortem) -> bool:
    """Say whether nothing is wrong but what a crash leaves: it is named, and not counted as damage."""
    return bool(post.damage) and all(each.finding.code in LEFT_BY_A_CRASH for each in post.damage)


def _at_once(page: _Page, actions: tuple[Action, ...], shown_keys: Mapping[str, str]) -> None:
    """Name what can be done now, a line each: all that is said of it stands far below."""
    for action in actions:
        if not action.possible or action.aside or action.name == "nothing":
            continue
        cells = [_key(action, shown_keys), cell(action.instead or _BRIEFLY[action.name])]
        if action.first:
            cells.append(cell(f", but first: {action.first}", "warn", _TEXT))
        elif action.at is not None:
            cells.append(cell(f" after seq {action.at:,}", "dim"))
        page.add((fit(cells, page.width),), action.name)


def _key(action: Action, shown_keys: Mapping[str, str]) -> Cell:
    """Give the key of an action, in the room that all of them take."""
    shown = safe.line(f"  {shown_keys.get(_ACTIONS[action.name][0], '')}", 12)
    return Cell(safe.fit(shown, 7), "key" if action.possible else "dim")


def _with_keys(sentence: str, shown_keys: Mapping[str, str]) -> str:
    """Name in a verdict the keys as they are here: it says the usual ones."""

    def here(found: re.Match[str]) -> str:
        return f"({shown_keys.get(_USUAL_KEYS[found[1]], found[1])}"

    return _KEY.sub(here, sentence)


def top(post: Postmortem | None, run_id: str, progress: float) -> tuple[Line, Line]:
    """Give both ends of the first row."""
    left = (Cell(Safe("post-mortem "), "accent"), cell(run_id, "strong", 60))
    if post is None:
        doing = f"reading the run {progress:.0%}" if progress < 1 else "judging what was read"
        return left, (Cell(Safe(doing), "dim"),)
    return left, (status_cell(post.status.name),)


def _flying(page: _Page, flying: tuple[InFlight, ...], *, may_be_said: bool) -> None:
    if not flying:
        page.heading("In flight")
        page.text("nothing: no call waits for a result", "dim")
        return
    here = not flying[0].elsewhere
    page.heading("In flight" if here else "Pending", units.plural(len(flying), "call"))
    for each in flying[:_CALLS]:
        target = Landing(each.seq)
        _call(page, each.call.name, each.call.input, EFFECTS[each.effect], target)
        page.text(
            each.outcome,
            "dim" if each.said or each.withheld or each.effect in ("read", "idempotent") else "problem",
            target,
            indent=4,
        )
    if len(flying) > _CALLS:
        page.text(f"and {units.plural(len(flying) - _CALLS, 'call')} more", "dim")
    unsaid = list(dict.fromkeys(each.call.name for each in flying if each.effect == "unknown"))
    if unsaid and may_be_said:
        said = ", ".join(f'{name} = "read"' for name in unsaid[:_TOOLS])
        page.text(
            "what nobody says is treated as one that writes; [agents.NAME] in config.toml can say it: "
            f"effects = {{ {said} }}, or idempotent, or write",
            "dim",
        )


def _call(page: _Page, name: str, given: Json, effect: tuple[str, Role], target: Target) -> None:
    """Show a call: its name and what it does, and its arguments beside it or below."""
    named = [Cell(Safe("  ")), cell(name, "call", 60)]
    right = (cell(f"  {effect[0]}", effect[1]),)
    beside = [*named, Cell(Safe("  ")), *argument_cells(given, _TEXT)]
    below = isinstance(given, dict) and (len(given) > 1 or span((*beside, *right)) > page.width)
    page.add((spread(named if below else beside, right, page.width),), target)
    if below:
        page.add(_arguments(given, page.width), target)


def _arguments(given: Json, width: int) -> Iterator[Line]:
    if not isinstance(given, dict):
        return
    for name, value in list(given.items())[:_ARGUMENTS]:
        label = (Cell(Safe("    ")), cell(f"{name} ", "dim", 30))
        if isinstance(value, str) and "\n" in value.strip():
            yield label
            yield from _text(value, width)
        else:
            yield from flow((*label, *argument_cells({"": value}, _TEXT)), width, 6)
    if len(given) > _ARGUMENTS:
        yield fit((cell(f"    and {len(given) - _ARGUMENTS:,} more", "dim"),), width)


def _text(value: str, width: int) -> Iterator[Line]:
    """Give a text of several lines as it was written; of a very long one the record shows the rest."""
    rows = value.removesuffix("\n").split("\n")
    for row in rows[:_ROWS]:
        yield from paragraph(safe.line(row, _TEXT), width, "text", indent=6)
    if len(rows) > _ROWS:
        yield fit((cell(f"      and {len(rows) - _ROWS:,} more lines: its record shows them", "dim"),), width)


def _last(page: _Page, post: Postmortem, rows: TimelineRows) -> None:
    page.heading("What happened last")
    for row in post.last_rows:
        item = rows.timeline.row(row).item
        page.add((fit(rows.line(row, page.width), page.width),), _landing(rows.timeline, item))
    if not post.last_rows:
        page.text("nothing was recorded", "dim")


def _landing(timeline: Timeline, item: int) -> Landing:
    return Landing(timeline.seq(item), timeline.span(item).line or None)


def _damage(page: _Page, post: Postmortem) -> None:
    remarks = f"{units.plural(post.remarks, 'remark')} beside" if post.remarks else ""
    page.heading("Left by the crash" if _only_torn(post) else "Damage", remarks)
    if not post.damage:
        page.text("none that reading noticed; 'refold verify' decodes every record", "dim")
    for number, each in enumerate(post.damage):
        _damaged(page, each, peeks=number < _DEEP)
    if post.more_damage:
        page.text(f"and {units.plural(post.more_damage, 'place')} more", "dim")


def _damaged(page: _Page, each: Damage, *, peeks: bool) -> None:
    finding = each.finding
    in_log = finding.file in {"", "events.jsonl"}
    target = Landing(finding.seq, finding.line) if finding.line and in_log else None
    where = f"line {finding.line:,}, {units.place(finding.start, finding.end)}  " if finding.line else ""
    role: Role = "problem" if finding.severity == "error" else "warn"
    cells = (Cell(Safe("  ")), cell(where, "dim"), cell(finding.message, role, _TEXT))
    page.add(flow(cells, page.width, 4), target)
    if peeks and each.peek:
        data = each.peek
        raw = RawRows(
            lambda start, size: data[start : start + size],
            len(data),
            each.peek_at,
            page.width - 4,
            as_hex=True,
        )
        for index in range(len(raw)):
            page.add((fit((Cell(Safe("    ")), *raw.line(index, page.width - 4)), page.width),), target)
    page.text(finding.remedy, "dim", target, indent=4)


def _left_out(page: _Page, post: Postmortem) -> None:
    """Give the report of the salvage that made the run; it is kept in the notes."""
    if not post.left_out:
        return
    page.heading("Left out when it was salvaged", units.plural(len(post.left_out), "place"))
    for each in post.left_out[:_PLACES]:
        page.text(each, "warn")
    if len(post.left_out) > _PLACES:
        page.text(f"and {len(post.left_out) - _PLACES:,} more", "dim")


def _resuming(page: _Page, post: Postmortem) -> None:
    """Say what a resume of a run directory meets; of a journal the dialog proves it."""
    if not post.against and not post.notes:
        return
    page.heading("A resume")
    for reason in post.against:
        page.text(reason, "warn")
    for note in post.notes:
        page.text(note, "dim")


def _patterns(page: _Page, patterns: Patterns | None, timeline: Timeline) -> None:
    page.heading("Patterns", "" if patterns is None else patterns.looked)
    if patterns is None:
        page.text("looking through the calls", "dim")
    elif not patterns.found:
        page.text("no loop, no streak of errors, no silence before the end", "dim")
    else:
        for pattern in patterns.found:
            _pattern(page, pattern, timeline)


def _pattern(page: _Page, pattern: Pattern, timeline: Timeline) -> None:
    target = Landing(pattern.seqs[-1]) if pattern.seqs else None
    shown = pattern.seqs[-8:]
    dots = "… " if len(shown) < len(pattern.seqs) else ""
    where = f"  seq {dots}{', '.join(str(seq) for seq in shown)}" if shown else ""
    page.add(
        flow((Cell(Safe("  ")), cell(pattern.sentence, "warn", _TEXT), cell(where, "dim")), page.width, 4),
        target,
    )


def _action(page: _Page, action: Action, shown_keys: Mapping[str, str], *, trouble: bool) -> None:
    _, title = _ACTIONS[action.name]
    if action.name == "fork" and not trouble:
        title = "Fork"
    title = f"{action.instead[:1].upper()}{action.instead[1:]}" or title
    role: Role = "text" if action.possible else "dim"
    if action.possible:
        said = action.writes if action.name == "nothing" else f"writes: {action.writes}"
        beside = [cell(said, "dim", _TEXT)]
        if action.first:
            beside.insert(0, cell(f"first: {action.first}; ", "warn", _TEXT))
    else:
        beside = [cell(f"not possible: {action.why_not}", "dim", _TEXT)]
    page.add(
        flow((_key(action, shown_keys), Cell(Safe(f"{title}  "), role), *beside), page.width, 7), action.name
    )
