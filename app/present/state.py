"""The folded state after a record, and what that record changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from refold.app.lines import Cell, Line, Role
from refold.app.present import units
from refold.app.present.layout import BLANK, cell, fit, flow, spread
from refold.app.present.record import field_lines, fingerprint_lines
from refold.app.present.rows import argument_cells
from refold.app.safe import Safe
from refold.core.errors import CorruptJournal, FoldError, UnsupportedVersion
from refold.core.records import Fingerprint, Json
from refold.core.since import Since
from refold.core.state import Counters, RunState, Terminal

_LABEL: Final = 13
_BAR: Final = 20
_MOST_CALLS: Final = 200


class PendingCall(NamedTuple):
    """A call of the open turn."""

    id: str
    name: str
    input: Json
    answered: bool
    later: int | None = None
    """The sequence at which its result comes later in the run; None where none ever does."""


class Moment(NamedTuple):
    """What the pane says about the run after one record."""

    counters: Counters
    next_iteration: int
    messages: int
    last_role: str
    stop_reason: str
    calls: tuple[PendingCall, ...] | None
    """The calls of the open turn; None where no turn is open."""
    terminal: Terminal | None
    interactive: bool
    fingerprint: Fingerprint


class StateView(NamedTuple):
    """The pane: where it stands, what holds there, what held one record before."""

    seq: int | None
    now: Moment | None
    before: Moment | None = None
    error: FoldError | None = None
    """Why the strict fold does not reach this far; the moment is a best effort then."""
    ending: str = ""
    """What is said about the end of the run where the cursor stands on it."""
    held: bool = False
    """A process is seen holding the lock: a result may still come."""
    since: Since = Since()
    """For each line the sequence since which it stands as it does."""


_ENDINGS: Final[Mapping[str, Role]] = {"✗": "problem", "ψ": "fork", "▮": "warn"}


def ending_cell(said: str) -> Cell:
    """Give in its role what is said of the end of a run: its mark tells how bad that is."""
    return cell(said, _ENDINGS.get(said[:1], "text"), 400)


def moment(state: RunState, calls: tuple[PendingCall, ...] | None, last_role: str) -> Moment:
    """Take from a state what the pane shows."""
    return Moment(
        counters=state.counters,
        next_iteration=state.next_iteration,
        messages=len(state.messages),
        last_role=last_role,
        stop_reason=state.last_stop_reason,
        calls=calls,
        terminal=state.terminal,
        interactive=state.interactive,
        fingerprint=state.fingerprint,
    )


def state_lines(view: StateView, width: int) -> Iterator[Line]:
    """Give the lines that say all of a state, for a width."""
    yield from now_lines(view, width)
    if view.now is not None:
        yield from print_lines(view.now, width)


def now_lines(view: StateView, width: int) -> Iterator[Line]:
    """Give the lines of what changes from record to record."""
    where = "before the first record" if view.seq is None else f"after seq {view.seq}"
    yield from flow((cell("State ", "strong"), cell(where, "strong")), width)
    if view.error is not None:
        yield from error_lines(view.error, width, has_state=view.now is not None)
    if view.ending:
        yield from flow((ending_cell(view.ending),), width, 2)
    yield BLANK
    if view.now is None:
        return
    yield from _numbers(view.now, view.before, view.since, width)
    yield BLANK
    yield from _calls(view.now, view.before, view.since, width, held=view.held)


def print_lines(now: Moment, width: int) -> Iterator[Line]:
    """Give the lines of what the run was begun with."""
    yield BLANK
    yield (cell("Fingerprint", "strong"),)
    yield from fingerprint_lines(now.fingerprint, width)
    yield from field_lines("interactive", "yes" if now.interactive else "no", width)


def error_lines(error: FoldError, width: int, *, has_state: bool) -> Iterator[Line]:
    """Say why the strict fold does not reach this far, and what is shown instead."""
    if isinstance(error, CorruptJournal) and has_state:
        what = f"line {error.line:,} could not be read" if error.line is not None else error.detail
        yield from flow((cell(f"⚠ reconstructed: {what}", "problem", 1000),), width, 2)
        note = "A best effort over the readable records. No resume is ever made from it."
        yield from flow((cell(note, "dim"),), width)
        return
    yield from flow((cell(f"⚠ {error}", "problem", 1000),), width, 2)
    if isinstance(error, UnsupportedVersion):
        yield from flow(
            (cell("Written by a newer version: its records are shown, not folded.", "warn"),), width
        )
    if error.remedy:
        yield from flow((cell(f"→ {error.remedy}", "dim"),), width, 2)


def _numbers(now: Moment, before: Moment | None, since: Since, width: int) -> Iterator[Line]:
    counters = now.counters
    past = before.counters if before is not None else None
    yield _row(
        "turn",
        (cell(units.grouped(counters.llm_calls)),),
        width,
        _grown(counters.llm_calls, None if past is None else past.llm_calls),
        since.turn,
    )
    yield _row(
        "next",
        (cell("turn ", "dim"), cell(units.grouped(now.next_iteration + 1))),
        width,
        _was(now.next_iteration + 1, None if before is None else before.next_iteration + 1),
        since.turn,
    )
    last = (cell("   last ", "dim"), cell(now.last_role, _role(now.last_role))) if now.last_role else ()
    yield _row(
        "messages",
        (cell(units.grouped(now.messages)), *last),
        width,
        _grown(now.messages, None if before is None else before.messages),
        since.messages,
    )
    yield _row(
        "tool calls",
        _tool_calls(counters),
        width,
        _grown(counters.tool_calls, None if past is None else past.tool_calls),
        since.tool_calls,
    )
    yield _row(
        "stop reason",
        (cell(now.stop_reason or "–", "text", 80),),
        width,
        _was(now.stop_reason, None if before is None else before.stop_reason),
        since.turn,
    )
    ended = now.terminal
    text = "–" if ended is None else f"{ended.reason}  {ended.message}"
    role: Role = "dim" if ended is None else "good" if ended.reason == "completed" else "warn"
    yield _row(
        "terminal",
        (cell(text, role, 400),),
        width,
        "here" if before is not None and before.terminal != ended else "",
        since.terminal,
    )
    yield BLANK
    grown = (
        ""
        if past is None or past.tokens == counters.tokens
        else f"+{units.short(counters.tokens - past.tokens)}"
    )
    yield _row("tokens", (cell(units.grouped(counters.tokens)),), width, grown, since.tokens)
    old = past or Counters()
    for name, value, was, at in (
        ("in", counters.in_tokens, old.in_tokens, since.in_tokens),
        ("out", counters.out_tokens, old.out_tokens, since.out_tokens),
        ("cache read", counters.cache_read_tokens, old.cache_read_tokens, since.cache_read),
        ("cache write", counters.cache_create_tokens, old.cache_create_tokens, since.cache_create),
    ):
        if value:
            change = "" if past is None else _grown(value, was)
            yield _row(name, (cell(f"{value:>12,}"),), width, change, at, nested=True)
    yield from _limits(now, width)


def _limits(now: Moment, width: int) -> Iterator[Line]:
    print_ = now.fingerprint
    if print_.max_tokens > 0:
        unit = f"of {units.short(print_.max_tokens)} tokens"
        yield _row("budget", _bar(now.counters.tokens, print_.max_tokens, unit, width), width, "")
    if print_.max_iterations > 0:
        unit = f"of {units.plural(print_.max_iterations, 'turn')}"
        yield _row("limit", _bar(now.next_iteration, print_.max_iterations, unit, width), width, "")


def _bar(used: int, limit: int, unit: str, width: int) -> tuple[Cell, ...]:
    share = max(0.0, used / limit)
    columns = min(_BAR, max(4, width - _LABEL - 24))
    filled = min(columns, round(share * columns))
    role: Role = "problem" if share >= 1 else "warn" if share >= 0.8 else "accent"
    percent = "<1%" if 0 < share < 0.01 else f"{share:.0%}" if share < 100 else "over 9999%"
    return (
        Cell(Safe("━" * filled), role),
        Cell(Safe("─" * (columns - filled)), "dim"),
        cell(f" {percent:>4} ", role),
        cell(unit, "dim"),
    )


def _calls(now: Moment, before: Moment | None, since: Since, width: int, *, held: bool) -> Iterator[Line]:
    if now.calls is None:
        closed = before is not None and before.calls is not None
        text = "no turn is open" if not closed else "the turn is closed: all its calls are answered"
        yield _row("pending", (cell(text, "dim"),), width, "here" if closed else "", since.pending)
        return
    waiting = [call for call in now.calls if not call.answered]
    lost = not held and any(call.later is None for call in waiting)
    stand = ": outcome unknown" if lost else " so far"
    summary = f"{len(waiting):,} of {units.plural(len(now.calls), 'call')}{stand}"
    same = before is None or before.calls == now.calls
    role: Role = "warn" if lost else "text"
    yield _row("pending", (cell(summary, role),), width, "" if same else "mark", since.pending)
    known = {call.id: call.answered for call in (before.calls or ())} if before is not None else None
    for call in now.calls[:_MOST_CALLS]:
        changed = known is not None and known.get(call.id) != call.answered
        yield _call_row(call, width, changed=changed, held=held)
    if len(now.calls) > _MOST_CALLS:
        yield (cell(f"    ⋯ {units.plural(len(now.calls) - _MOST_CALLS, 'more call')}", "dim"),)


def _call_row(call: PendingCall, width: int, *, changed: bool, held: bool) -> Line:
    mark, word, role = verdict(call, held=held)
    edge = Cell(Safe("▸ " if changed else "  "), "accent")
    name = cell(call.name or "unnamed tool", "call", 80)
    left = (edge, cell(f"  {mark} ", role), name, cell("  "), *argument_cells(call.input, 120)[:1])
    return spread(left, (cell(f"  {word}", role),), width, least=16)


def verdict(call: PendingCall, *, held: bool = False) -> tuple[str, str, Role]:
    """Give the mark, the words and the role for how a call of an open turn stands."""
    if call.answered:
        return "✓", "answered", "good"
    if call.later is not None:
        return "·", f"result at seq {call.later}", "dim"
    return ("·", "no result yet", "text") if held else ("?", "no result", "warn")


def _tool_calls(counters: Counters) -> tuple[Cell, ...]:
    noun = " result" if counters.tool_calls == 1 else " results"
    cells = (cell(units.grouped(counters.tool_calls)), cell(noun, "dim"))
    if counters.remote_tool_calls:
        return (*cells, cell(f", {units.grouped(counters.remote_tool_calls)} remote", "dim"))
    return cells


def _role(name: str) -> Role:
    return "assistant" if name == "assistant" else "user" if name == "user" else "text"


def _grown(value: int, old: int | None) -> str:
    if old is None or value == old:
        return ""
    return f"+{units.grouped(value - old)}" if value > old else f"was {units.grouped(old)}"


def _was(value: object, old: object) -> str:
    if old is None or value == old:
        return ""
    return f"was {old}" if old != "" else "here"


def _row(
    name: str,
    value: tuple[Cell, ...],
    width: int,
    change: str,
    since: int | None = None,
    *,
    nested: bool = False,
) -> Line:
    indent = 2 if nested else 0
    label = cell(f"{'':{indent}}{name:<{_LABEL - indent}} ", "dim")
    return changed_line((label, *value), width, change, since)


def changed_line(cells: Iterable[Cell], width: int, change: str, since: int | None = None) -> Line:
    """Give a line with a mark at its edge where this record changed it; else since when it holds."""
    if not change:
        right = () if since is None else (cell(f" seq {since}", "dim"),)
        return spread((Cell(Safe("  "), "text"), *cells), right, width, least=16)
    if change == "mark":
        return fit((Cell(Safe("▸ "), "accent"), *cells), width)
    note = "changed here" if change == "here" else f"{change} here"
    return spread((Cell(Safe("▸ "), "accent"), *cells), (cell(f" {note}", "accent", 40),), width, least=16)
