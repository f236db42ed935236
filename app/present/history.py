"""What the screens of conversations say: the list, a preview, the turns of one, a fork before a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Final

from refold.app import safe
from refold.app.lines import Cell, Column, Line, Role
from refold.app.present.layout import cell, fit
from refold.app.present.runs import created
from refold.app.present.units import ago, plural
from refold.app.safe import Safe
from refold.core.rivumi.conversation import Conversation, Turn
from refold.core.rivumi.conversation_fork import ConversationFork
from refold.core.store.conversations import Listed

_LABEL: Final = 12
_READ: Final = 400
_TEXT: Final = 16_000
_ENDS: Final[dict[str, tuple[str, Role]]] = {
    "completed": ("✓ completed", "good"),
    "failed": ("✗ failed", "problem"),
    "cancelled": ("■ cancelled", "dim"),
    "interrupted": ("▮ interrupted", "warn"),
    "": ("⋯ open", "warn"),
}


def columns(width: int) -> tuple[Column, ...]:
    """Lay out the columns for a width: the title takes what is left."""
    wide = width >= 100
    fixed = [
        Column("runtime", Safe("Runtime"), 14 if wide else 12, "left", 1),
        Column("turns", Safe("Turns"), 5, "right", 2),
        Column("updated", Safe("Updated"), 9, "left", 1),
        Column("id", Safe("Id"), 32 if wide else 12, "left", 0),
    ]
    left = width - sum(column.width + column.gap for column in fixed) - 1
    return (Column("title", Safe("Conversation"), max(8, left), "left", 1), *fixed)


class HistoryRows:
    """The rows of the list, a conversation each."""

    def __init__(
        self, listed: Sequence[Listed], now: Callable[[], float], zone: tzinfo | None = None
    ) -> None:
        self._listed = tuple(listed)
        self._now = now
        self._zone = zone

    def __len__(self) -> int:
        return len(self._listed)

    def at(self, index: int) -> Listed | None:
        """Give the conversation of a row."""
        return self._listed[index] if 0 <= index < len(self._listed) else None

    def line(self, index: int, width: int) -> Line:
        """Give the row of a conversation."""
        one = self._listed[index]
        drawn: list[Cell] = []
        for column in columns(width):
            drawn += [*self._field(one, column), Cell(Safe(" " * column.gap))]
        return fit(drawn, width)

    def _field(self, one: Listed, column: Column) -> Line:
        found, width = one.conversation, column.width
        match column.key:
            case "title":
                return _title(one, width)
            case "runtime":
                return (Cell(safe.fit(safe.line(found.runtime, _READ) or Safe("–"), width), "text"),)
            case "turns":
                return (Cell(safe.fit(Safe(str(len(found.turns))), width, "right"), "number"),)
            case "updated":
                return (Cell(safe.fit(Safe(_ago(one.updated, self._now(), self._zone)), width), "dim"),)
            case _:
                return (Cell(safe.fit(safe.line(found.name, _READ), width), "dim"),)


def _title(one: Listed, width: int) -> Line:
    found = one.conversation
    mark = Cell(Safe("  "))
    if found.refusal:
        mark = Cell(Safe("⚠ "), "problem")
    elif one.held:
        mark = Cell(Safe("● "), "good")
    elif found.open_turn is not None:
        mark = Cell(Safe("⋯ "), "warn")
    prompt = "" if not found.turns else f"  {found.turns[0].prompt.strip()}"
    name = safe.line(found.label, _READ)
    shown = safe.fit(name, min(width - 2, safe.width(name)))
    rest = max(0, width - 2 - safe.width(shown))
    return (
        mark,
        Cell(shown, "strong"),
        Cell(safe.fit(safe.line(prompt, _READ), rest), "dim"),
    )


def top(shown: int, total: int, loading: bool) -> tuple[Line, Line]:  # noqa: FBT001 - a state, said at once
    """Say how many conversations there are, and how many of them a filter hides."""
    left: list[Cell] = [Cell(Safe(plural(total, "conversation")))]
    if loading:
        left.append(Cell(Safe("   reading …"), "accent"))
    hidden = total - shown
    right = (Cell(Safe(f"{shown:,} of {total:,} · {hidden:,} hidden"), "dim"),) if hidden else ()
    return tuple(left), right


def preview(one: Listed, width: int, height: int, now: float, *, zone: tzinfo | None = None) -> list[Line]:
    """Say of a conversation what its row cannot hold: its last turns, and how it goes on."""
    found = one.conversation
    head = [*_standing(one, width)]
    foot = [
        _labelled(
            "Go on",
            [Cell(Safe(f"start {program(found, one.path)} and type "), "text"), cell(goes_on(found), "key")],
            width,
        ),
        _labelled("Id", [cell(found.name, "strong"), *_facts(one, now, zone)], width),
    ]
    turns: list[Line] = []
    for turn in found.turns[-max(1, height - len(head) - len(foot)) :]:
        mark, role = _ENDS[turn.end]
        said = [*_apart(Safe(f"{mark}  "), role), cell(turn.prompt.strip(), "user", _READ)]
        if turn.reply:
            said += [Cell(Safe(" → "), "dim"), cell(turn.reply.strip(), "assistant", _READ)]
        turns.append(_labelled(f"Turn {turn.number}", said, width))
    return [*head, *turns, *foot]


def _facts(one: Listed, now: float, zone: tzinfo | None) -> list[Cell]:
    found = one.conversation
    said = [
        found.runtime,
        found.model,
        f"created {created(found.created_at, zone)}" if found.created_at else "",
    ]
    said.append(f"changed {_ago(one.updated, now, zone)}")
    return [cell(f" · {part}", "text", _READ) for part in said if part]


def _standing(one: Listed, width: int) -> Iterator[Line]:
    found = one.conversation
    if found.refusal:
        said = f"⚠ its own program would not load it: {found.refusal}"
        yield fit(_apart(safe.line(said, _TEXT), "problem"), width)
    elif one.held:
        yield fit(_apart(Safe("● a process is seen holding its lock"), "good"), width)
    elif found.open_turn is not None:
        said = f"⋯ turn {found.open_turn.number} never ended: a resume closes it as interrupted"
        yield fit(_apart(Safe(said), "warn"), width)
    elif found.ahead:
        yield fit(_apart(Safe("⋯ its log is one event ahead: a resume puts that right"), "warn"), width)


def program(conversation: Conversation, path: str) -> str:
    """Name the program that a conversation belongs to."""
    theirs = conversation.runtime == "looplane-agent" or "looplane" in Path(path).parts
    return "looplane" if theirs else "rivumi"


def goes_on(conversation: Conversation) -> str:
    """Give what is typed in its own program to go on with a conversation.

    Pictures stand for what would command the terminal that it is pasted into: no program makes such a name.
    """
    name = conversation.name
    return f"/resume {name if name.isprintable() else safe.line(name)}"


class TurnRows:
    """The turns of one conversation, a row each."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = tuple(turns)

    def __len__(self) -> int:
        return len(self._turns)

    def line(self, index: int, width: int) -> Line:
        """Give the row of a turn."""
        turn = self._turns[index]
        mark, role = _ENDS[turn.end]
        number = Safe(f"{turn.number:>4}  ")
        return fit(
            [
                Cell(number, "dim"),
                *_apart(safe.fit(Safe(mark), 15), role),
                cell(turn.prompt.strip(), "user", _READ),
            ],
            width,
        )


def turn_lines(turn: Turn, width: int) -> list[Line]:
    """Write out a turn: prompt, reply, and how it ended."""
    lines: list[Line] = [(Cell(Safe(f"Prompt of turn {turn.number}"), "dim"),)]
    lines += _block(turn.prompt, width, "user")
    lines += [(), (Cell(Safe("Reply"), "dim"),)]
    lines += _block(turn.reply, width, "assistant") if turn.reply else [(Cell(Safe("none recorded"), "dim"),)]
    mark, role = _ENDS[turn.end]
    end = _apart(Safe(mark), role)
    if turn.why:
        end.append(cell(f"  {turn.why}", "problem", _READ))
    return [*lines, (), fit(end, width)]


def _block(text: str, width: int, role: Role) -> list[Line]:
    rows: list[Line] = []
    for line in safe.block(text, limit=_TEXT):
        rows += [(Cell(row, role),) for row in safe.wrap(line, max(8, width))] or [()]
    return rows


def fork_lines(plan: ConversationFork, width: int) -> list[Line]:
    """Say what a fork of a conversation would be."""
    took = f"{plural(plan.turns, 'turn')}, {plural(plan.events, 'event')}"
    prompt = cell(plan.turn.prompt.strip(), "user", _READ)
    rows = [
        _labelled("Takes", [cell(took), Cell(Safe(f" of {plan.source[:12]}"), "dim")], width),
        _labelled("Ends before", [cell(f"turn {plan.turn.number}: "), prompt], width),
        _labelled("New id", [cell(plan.conversation_id, "strong")], width),
        _labelled("Written", [cell("a directory beside it, for you alone (0700, 0600)")], width),
        _labelled("Not touched", [cell(f"{plan.source[:12]}: no byte of it changes")], width),
    ]
    return [*rows, (), fit([cell("Say the prompt anew in the fork: it is not in it.", "dim")], width)]


def nothing(places: Sequence[tuple[str, str]]) -> list[Line]:
    """Say where conversations are looked for, and that there are none."""
    lines: list[Line] = [(Cell(Safe("No conversations yet."), "strong"),), ()]
    lines += [(Cell(Safe("They are looked for in these directories:")),), ()]
    for path, origin in places:
        said = "" if origin == "default" else f"  ({origin})"
        lines.append((cell(f"  {path}", "text"), cell(said, "dim")))
    return lines


def nothing_matches(hidden: int) -> list[Line]:
    """Say that the words hide every conversation."""
    return [
        (Cell(Safe("No conversation matches."), "strong"), Cell(Safe(f" {hidden:,} hidden"), "dim")),
        (),
        (Cell(Safe("esc"), "key"), Cell(Safe(" shows all"), "dim")),
    ]


def _apart(text: Safe, role: Role) -> list[Cell]:
    """Draw the glyph apart: where the font lacks it, the words keep their spacing in exported pictures."""
    return [Cell(Safe(text[:1]), role), Cell(Safe(text[1:2])), Cell(Safe(text[2:]), role)]


def _labelled(label: str, said: Sequence[Cell], width: int) -> Line:
    return fit([Cell(safe.fit(Safe(label), _LABEL), "dim"), *said], width)


def _ago(seconds: float, now: float, zone: tzinfo | None) -> str:
    if seconds <= now + 1:
        return ago(now - seconds)
    try:
        return datetime.fromtimestamp(seconds, UTC).astimezone(zone).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):
        return "far ahead"
