"""What the model would be sent at the cursor, last message last; an open turn stands apart below it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from refold.app.lines import Cell, Line, Role
from refold.app.present import units
from refold.app.present.layout import BLANK, cell, fit, flow, span
from refold.app.present.record import View, block_lines
from refold.app.present.rows import argument_cells
from refold.app.present.state import PendingCall, verdict
from refold.app.present.view import WINDOW as WINDOW
from refold.app.safe import Safe
from refold.core.blocks import read_blocks
from refold.core.records import Message

_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant"}


class Sent(NamedTuple):
    """One message and where it stands."""

    number: int
    """1-based."""
    message: Message
    shortened: bool = False
    """A record of it was too long to be read whole."""


def message_lines(sent: Sent, width: int, view: View) -> Iterator[Line]:
    """Give the lines of one committed message."""
    role = sent.message.role or "no role"
    yield _rule(
        (cell(f"{units.grouped(sent.number)} ", "dim"), cell(role, _ROLES.get(role, "text"), 40)), width
    )
    yield from block_lines(read_blocks(sent.message.content), width, view)
    if sent.shortened:
        yield from flow((cell("⋯ shortened here; Record and Raw show more", "warn"),), width, 2)
    yield BLANK


def unrecorded_lines(hashes: str, width: int, *, system: bool = True) -> Iterator[Line]:
    """Say what the model is sent before all messages and no file records, the system prompt or only tools."""
    what = "a system prompt and its tools" if system else "its tools"
    said = f"First the model is sent {what}: they are not recorded{hashes}."
    yield from flow((cell(said, "dim"),), width)
    yield BLANK


def earlier_line(count: int, width: int, key: str) -> Iterator[Line]:
    """Say how many messages stand before the first one shown."""
    yield from flow(
        (cell(f"⋯ {units.plural(count, 'earlier message')}  ({key} shows more)", "accent"),), width, 2
    )
    yield BLANK


def open_turn_lines(
    turn: Message, calls: tuple[PendingCall, ...], width: int, view: View, *, waits: bool = False
) -> Iterator[Line]:
    """Give the turn that waits for results: it is sent only when all its calls are answered."""
    yield _rule((cell("open turn ", "warn"), cell("not part of the conversation yet", "dim")), width)
    shown = tuple(block for block in read_blocks(turn.content) if block.kind != "call")
    if shown:
        yield from block_lines(shown, width, view)
    for call in calls:
        mark, note, role = verdict(call, held=waits)
        cells = (cell(f"{mark} ", role), cell(call.name or "unnamed tool", "call", 80), cell("  "))
        yield from flow((*cells, *argument_cells(call.input)[:1], cell(f"  {note}", role)), width, 4)


def empty_line() -> Line:
    """Say that nothing would be sent."""
    return (cell("no messages", "dim"),)


def _rule(title: tuple[Cell, ...], width: int) -> Line:
    line = (Cell(Safe("── "), "dim"), *title, Cell(Safe(" "), "dim"))
    return fit((*line, Cell(Safe("─" * max(0, width - span(line))), "dim")), width)
