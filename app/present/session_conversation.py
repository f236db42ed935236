"""The conversation of a run directory: what its manifest keeps of it, which is the latest state only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from refold.app.lines import Cell, Line, Role
from refold.app.present import units
from refold.app.present.conversation import earlier_line, unrecorded_lines
from refold.app.present.json_text import json_lines
from refold.app.present.layout import BLANK, cell, fit, flow, span
from refold.app.present.record import text_lines
from refold.app.present.view import View
from refold.app.safe import Safe
from refold.core.records import Json
from refold.core.rivumi.manifest import Manifest, Request, dangling
from refold.core.rivumi.members import Members

_FOLDED: Final = 40
_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant", "system": "meta"}


def session_conversation_lines(
    manifest: Manifest | None,
    problem: str,
    request: Request | None,
    width: int,
    view: View,
    window: int,
    *,
    at_end: bool,
    started: Collection[str] = (),
    kept: int | None = None,
) -> Iterator[Line | None]:
    """Give the lines of the pane, and None where work was done but no line is ready.

    Args:
        manifest: Where the messages stand.
        problem: Why there is none.
        request: What the run was asked to do.
        width: Cells of a line.
        view: What the reader has unfolded.
        window: So many lines are laid out before the reader asks for earlier messages.
        at_end: The cursor stands on the last event.
        started: The calls that were started and never ended.
        kept: So many messages there are by now, where those of `manifest` are cut back to the cursor.
    """
    first = manifest.messages[0] if manifest is not None and manifest.messages else None
    system = isinstance(first, dict) and first.get("role") == "system"
    yield from unrecorded_lines("", width, system=not system)
    if request is not None and request.instruction:
        yield _rule((cell("request ", "user"), cell("request.json", "dim")), width)
        yield from text_lines(
            request.instruction, width, "text", 0 if view.unfolded else _FOLDED, view.unfold_key
        )
        yield BLANK
    if manifest is None:
        yield from flow((cell(f"no messages are kept: {problem}", "warn", 1000),), width, 2)
        return
    note = "The manifest keeps one conversation, that of its latest state"
    if kept is not None:
        note += f": cut back to the cursor, {len(manifest.messages):,} of {kept:,} messages."
    else:
        note += "." if at_end else ": it is not the one at the cursor."
    yield from flow((cell(note, "dim" if at_end or kept is not None else "warn"),), width)
    yield BLANK
    pending = "" if manifest.pending is None else manifest.pending.action_id
    lost = {call.id: _what_of(call.id, pending, started) for call in dangling(manifest)}
    ready: list[list[Line]] = []
    made, number = 0, len(manifest.messages)
    while number > 0 and made < window:
        item = manifest.messages[number - 1]
        lines = list(_item(number, item, lost, width, view))
        ready.append(lines)
        made += len(lines)
        number -= 1
        yield None
    if number:
        yield from earlier_line(number, width, view.unfold_key)
    for lines in reversed(ready):
        yield from lines
    if not manifest.messages:
        yield (cell("no messages", "dim"),)
    for call in dangling(manifest):
        name = cell(call.name or "unnamed tool", "call", 120)
        yield from flow(
            (cell("⚠ ", "warn"), name, cell(f"  {lost[call.id]}", "warn")),
            width,
            2,
        )


def _item(number: int, item: Json, lost: Mapping[str, str], width: int, view: View) -> Iterator[Line]:
    title = cell(f"{units.grouped(number)} ", "dim")
    if not isinstance(item, dict):
        yield _rule((title, cell("no message", "warn")), width)
        yield from json_lines(item, width)
        yield BLANK
        return
    own, limit = Members(item), 0 if view.unfolded else _FOLDED
    if "ok" in item:
        ok = own.flag("ok")
        mark, role = ("✗ ", "problem") if ok is False else ("✓ ", "good")
        name = cell(own.text("name") or "unnamed tool", "result", 120)
        yield _rule((title, Cell(Safe(mark), _role(role)), name), width)
        text = own.text("error") or own.text("content")
    else:
        role = own.text("role") or own.text("item_type") or "no role"
        source = own.text("source")
        yield _rule(
            (
                title,
                cell(role, _ROLES.get(role, "text"), 40),
                cell(f"  {source}" if source else "", "dim", 80),
            ),
            width,
        )
        text = own.text("content")
    if text:
        yield from text_lines(text, width, "text", limit, view.unfold_key)
    for call in own.many("tool_calls"):
        if isinstance(call, dict):
            yield from _call(Members(call), lost, width)
    yield BLANK


def _call(own: Members, lost: Mapping[str, str], width: int) -> Iterator[Line]:
    call_id = own.text("tool_call_id")
    cells = [cell("call ", "call"), cell(own.text("name") or "unnamed tool", "strong", 120)]
    if call_id in lost:
        cells.append(cell(f"  ⚠ {lost[call_id]}", "warn"))
    yield from flow((*cells, cell(f"  {call_id}", "dim", 120)), width, 2)
    yield from json_lines(own.raw.get("arguments"), width, indent=2)


def _what_of(call: str, pending: str, started: Collection[str]) -> str:
    """Say why a call has no result."""
    if call in started:
        return "was started, and no end is recorded"
    return "waits for an answer" if call == pending else "has no result: a resume would show the model none"


def _role(name: str) -> Role:
    return "problem" if name == "problem" else "good"


def _rule(title: tuple[Cell, ...], width: int) -> Line:
    line = (Cell(Safe("── "), "dim"), *title, Cell(Safe(" "), "dim"))
    return fit((*line, Cell(Safe("─" * max(0, width - span(line))), "dim")), width)
