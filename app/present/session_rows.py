"""The rows of a run directory: one line an event, each call with its life from the request to its end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from refold.app import safe
from refold.app.lines import Cell, Role
from refold.app.present import units
from refold.app.present.layout import cell
from refold.app.present.peek import completed
from refold.app.present.rows import GLANCE, TimelineRows, argument_cells, first_line
from refold.app.safe import Safe
from refold.core.columns import Row
from refold.core.errors import BadRecord
from refold.core.formats.rivumi import EventDecoder
from refold.core.records import Json
from refold.core.rivumi.calls import CallLife
from refold.core.rivumi.events import json_object
from refold.core.rivumi.kinds import ENDS
from refold.core.rivumi.members import Members
from refold.core.rivumi.timeline import EventTimeline, Life
from refold.core.rivumi.told import sentence
from refold.core.subagents import Stretch

_KEPT: Final = 1024
_LONG_GAP: Final = 1.0
"""Seconds without an event that are worth a word."""
_BACK: Final = -0.001
"""Seconds by which the clock must go back to be called set back."""
_TEXT: Final = 400

_LOOKS: Final[Mapping[str, tuple[str, str, Role]]] = {
    "run.created": ("created", "◇", "meta"),
    "run.forked": ("forked", "ψ", "fork"),
    "workspace.prepared": ("workspace", "▸", "dim"),
    "session.resumed": ("resumed", "●", "user"),
    "session.continued": ("continued", "●", "user"),
    "model.requested": ("model", "·", "dim"),
    "model.completed": ("assistant", "◆", "assistant"),
    "model.retry": ("retry", "▸", "warn"),
    "model.fallback": ("fallback", "▸", "warn"),
    "model.failed": ("model", "✗", "problem"),
    "tool.requested": ("call", "├", "call"),
    "approval.requested": ("asks", "│", "warn"),
    "approval.resolved": ("answer", "│", "user"),
    "approval.reused": ("answer", "│", "user"),
    "approval.abandoned": ("abandoned", "│", "warn"),
    "tool.started": ("started", "│", "call"),
    "tool.completed": ("result", "└", "result"),
    "verification.started": ("check", "├", "call"),
    "verification.completed": ("checked", "└", "result"),
    "verification.reused": ("checked", "└", "result"),
    "context_pressure.summary_fallback_applied": ("compacted", "▾", "accent"),
    "role_lane.requested": ("lane", "▸", "dim"),
    "role_lane.completed": ("lane", "◆", "assistant"),
    "role_lane.failed": ("lane", "✗", "problem"),
    "run.error": ("error", "✗", "problem"),
    "run.completed": ("end", "✓", "good"),
    "run.failed": ("end", "✗", "problem"),
    "run.cancelled": ("end", "■", "warn"),
    "hook.denied": ("hook", "✗", "warn"),
    "message": ("message", "◆", "assistant"),
    "result": ("end", "■", "terminal"),
}
"""The word, the glyph and the role of the types that a reader looks for; any other has its own name."""

_AREAS: Final[Mapping[str, str]] = {
    "context_pressure": "context",
    "context_provider": "context",
    "project_context": "context",
    "instructions": "context",
    "role_lane": "lane",
    "subagents": "agents",
    "workspace": "workspace",
}
"""Words for types that would not fit in their column."""

DECISIONS: Final[Mapping[str, tuple[str, Role]]] = {
    "allow_once": ("allowed once", "good"),
    "allow_session": ("allowed from now on", "good"),
    "deny": ("denied", "warn"),
    "cancel": ("cancelled", "warn"),
    "reused": ("allowed before", "good"),
    "abandoned": ("abandoned", "warn"),
}


class Glimpse(NamedTuple):
    """What the first bytes of an event say."""

    data: dict[str, Json]
    text: str
    whole: bool
    """The first bytes are the whole event."""


class SessionRows(TimelineRows):
    """The lines of the timeline list of a run directory."""

    def __init__(
        self,
        timeline: EventTimeline,
        raw: Callable[[int, int | None], bytes],
        decoder: EventDecoder,
        *,
        prompt: str = "",
        partial: bool = False,
    ) -> None:
        """Show a timeline.

        Args:
            timeline: The rows.
            raw: Gives the first bytes of an item.
            decoder: Reads events.
            prompt: What the run was asked to do.
            partial: The timeline is a window on the end of the run.
        """
        super().__init__(timeline, raw, decoder, partial=partial)
        self._timeline = timeline
        self._events = decoder
        self._prompt = prompt
        self._seen: OrderedDict[int, tuple[int, Glimpse]] = OrderedDict()
        self.lanes: Callable[[], Sequence[Stretch]] = tuple
        """Tells while which items agents of its own were at work."""
        self._lanes: tuple[int, Sequence[Stretch]] = (-1, ())

    def forget(self) -> None:
        """Read everything again."""
        super().forget()
        self._seen.clear()

    def glimpse(self, item: int) -> Glimpse:
        """Give what the first bytes of an event say; kept for a while."""
        span = self.timeline.span(item)
        length = span.end - span.start
        kept = self._seen.get(item)
        if kept is not None and kept[0] == length:
            self._seen.move_to_end(item)
            return kept[1]
        found = glimpse(self._raw(item, GLANCE), length, self._events)
        self._seen[item] = (length, found)
        while len(self._seen) > _KEPT:
            self._seen.popitem(last=False)
        return found

    def _word(self, row: Row) -> str:
        if row.kind == "damage":
            return "damage"
        if self.timeline.is_recovered(row.item):
            return "recovered"
        return _look(self._timeline.type_of(row.item))[0]

    def _mark(self, index: int, row: Row) -> tuple[str, Role]:
        if row.kind == "damage":
            return super()._mark(index, row)
        _, glyph, role = _look(self._timeline.type_of(row.item))
        if self.timeline.is_error(row.item):
            role = "problem"
        return glyph, role

    def _columns(self, row: Row) -> tuple[Cell, ...]:
        cells = super()._columns(row)
        if self._is_set_back(row.item):
            return (*cells[:-1], Cell(cells[-1].text, "warn"))
        return cells

    def _is_set_back(self, item: int) -> bool:
        gap = self._timeline.gap(item)
        return gap is not None and gap < _BACK

    def _body(self, index: int, row: Row) -> tuple[Sequence[Cell], tuple[str, Role]]:
        item = row.item
        if row.kind == "damage":
            return self._damage(item)
        glimpsed = self.glimpse(item)
        cells, right = self._say(item, self._timeline.type_of(item), glimpsed)
        gap = self._timeline.gap(item)
        if gap is not None and gap < _BACK:
            cells = (cell(f"clock set back {units.duration(-gap)}  ", "warn"), *cells)
        elif gap is not None and gap >= _LONG_GAP and not right[0]:
            right = (f"+{units.duration(gap)}", "dim")
        if not glimpsed.whole and not right[0]:
            right = self._size(item)
        if self._is_inside(item):
            cells = (Cell(Safe("│ "), "meta"), *cells)
        return cells, right

    def _is_inside(self, item: int) -> bool:
        """Say whether an agent of its own was at work when an event came."""
        items = self._timeline.items
        if self._lanes[0] != items:
            self._lanes = (items, self.lanes())
        return any(lane.first < item < lane.last for lane in self._lanes[1])

    def _say(self, item: int, kind: str, seen: Glimpse) -> tuple[Sequence[Cell], tuple[str, Role]]:
        own = Members(seen.data)
        match kind:
            case "run.created":
                model = f"{own.text('provider')} {own.text('model')}".strip()
                asked = first_line(self._prompt)
                return (*asked, cell(f"  {model}" if asked else model, "dim", 120)), ("", "dim")
            case "run.forked":
                source, at = own.text("source_run_id"), own.whole("fork_point_sequence", -1)
                return (cell(f"fork of {source} at {at}", "fork", 120),), ("", "dim")
            case "workspace.prepared":
                words = f"{own.text('workspace') or 'a clone'} at {own.text('base_sha')[:12] or 'no commit'}"
                return (cell(words, "dim", 120),), ("", "dim")
            case "session.resumed" | "session.continued":
                words = f"by {own.text('provider')} {own.text('model')}".strip()
                step = (
                    f", {own.whole('resumed_step', 0)} turns were made" if "resumed_step" in seen.data else ""
                )
                return (cell(words + step, "text", 200),), ("", "dim")
            case "context_pressure.summary_fallback_applied":
                first, last = own.whole("source_start_index", 0), own.whole("source_end_index", 0)
                kept = own.whole("retained_messages", 0)
                return (cell(f"messages {first} to {last} summed up, {kept} kept"),), ("", "dim")
            case "model.requested":
                return (cell(f"turn {own.whole('step', 0)} is asked for", "dim"),), ("", "dim")
            case "model.completed":
                return self._reply(item, own)
            case "tool.requested":
                called = (cell(own.text("name") or "unnamed tool", "call", 80), cell("  "))
                arguments = argument_cells(seen.data.get("arguments"))
                return (*called, *arguments), self._outcome(item)
            case "approval.requested" | "approval.resolved" | "approval.reused" | "approval.abandoned":
                return self._approval(item, kind, own)
            case "tool.started" | "verification.started":
                name = own.text("name") or "unnamed"
                argv = " ".join(str(word) for word in own.many("argv"))
                began = "starts " if kind == "tool.started" else ""
                cells = (cell(began, "dim"), cell(name, "call", 80), cell(f"  {argv}", "dim", _TEXT))
                return cells, self._open(item)
            case "tool.completed" | "verification.completed" | "verification.reused":
                return self._ended(item, own)
            case "message" | "system" if seen.text:
                return first_line(seen.text), ("", "dim")
            case "run.error" | "model.failed" | "role_lane.failed":
                what = own.text("error_type") or own.text("kind") or own.text("role")
                return (cell(f"{what}  ", "problem", 80), *first_line(own.text("error"))), ("", "dim")
            case _ if kind in ENDS or (kind == "result" and self._timeline.external):
                return self._end(kind, own)
        named = () if kind in _LOOKS else (cell(f"{kind}  ", "text", 80),)
        telling: Json = {name: value for name, value in seen.data.items() if value not in (None, "", [], {})}
        words = seen.text or sentence(kind, seen.data)
        text = first_line(words) if words else argument_cells(telling)
        return (*named, *text), ("", "dim")

    def _reply(self, item: int, own: Members) -> tuple[Sequence[Cell], tuple[str, Role]]:
        words = first_line(own.text("content"))
        names = [str(name) for name in own.many("tool_calls")]
        if not words:
            text = f"no text, calls {', '.join(names)}" if names else "no text"
            words = (cell(text, "dim", 120),)
        reason = own.text("finish_reason")
        if reason not in {"", "stop", "tool_calls", "end_turn", "tool_use"}:
            words = (*words, cell(f"  stopped: {reason}", "warn", 80))
        return words, (f"{units.short(self.timeline.own_tokens(item))} tok", "dim")

    def _approval(self, item: int, kind: str, own: Members) -> tuple[Sequence[Cell], tuple[str, Role]]:
        life = self._timeline.life(item)
        name = (life.now.name if life is not None else "") or own.text("action_id")
        effect = cell(f"  {own.text('effect')}", "dim", 40)
        if kind == "approval.requested":
            shown = " ".join(own.text("preview").split())
            cells = (
                cell("may it? ", "warn"),
                cell(name, "call", 80),
                effect,
                cell(f"  {shown}", "dim", _TEXT),
            )
            return cells, self._waits(item, life)
        decision = own.text("decision") or kind.removeprefix("approval.")
        word, role = DECISIONS.get(decision, (decision, "warn"))
        waited = None
        if life is not None and kind == "approval.resolved":
            before = [at for at, past in life.moments if at < item and past.asked is not None]
            waited = self._timeline.between(before[-1] if before else None, item)
        return (cell(f"{word}  ", role), cell(name, "call", 80), effect), _lasted(waited)

    def _waits(self, item: int, life: Life | None) -> tuple[str, Role]:
        if life is None or self._partial:
            return "", "dim"
        answered = any(at > item and past.decided is not None for at, past in life.moments)
        return ("", "dim") if answered or life.now.abandoned is not None else ("no answer", "warn")

    def _open(self, item: int) -> tuple[str, Role]:
        life = self._timeline.life(item)
        if life is None or not self._timeline.is_open(item):
            return "", "dim"
        return ("no end", "problem") if life.now.uncertain else ("no end", "warn")

    def _outcome(self, item: int) -> tuple[str, Role]:
        """Say at the request of a call what became of it."""
        life = self._timeline.life(item)
        return ("", "dim") if life is None or self._partial else outcome(life.now)

    def _ended(self, item: int, own: Members) -> tuple[Sequence[Cell], tuple[str, Role]]:
        life = self._timeline.life(item)
        ok = own.flag("ok")
        role: Role = "problem" if ok is False else "good" if ok else "dim"
        mark = "✗ " if ok is False else "✓ " if ok else ""
        if life is not None and life.now.outcome_unknown:
            mark, role = "? ", "warn"
        lead: list[Cell] = [Cell(Safe(mark), role)]
        lead.append(cell(f"{own.text('name') or 'unnamed'}  ", "dim", 80))
        code = own.raw.get("exit_code")
        if code:
            lead.append(cell(f"exit {code}  ", "warn", 24))
        text = own.text("error") or own.text("preview")
        if not text:
            text = " ".join(str(word) for word in own.many("argv"))
        lasted = own.number("duration_seconds", -1.0)
        if lasted < 0 and life is not None:
            taken = self._timeline.between(life.started(), item)
            lasted = -1.0 if taken is None else taken
        return (*lead, *first_line(text)), _lasted(lasted if lasted >= 0 else None)

    def _end(self, kind: str, own: Members) -> tuple[Sequence[Cell], tuple[str, Role]]:
        word = ENDS.get(kind) or own.text("status") or "ended"
        reason = own.text("terminal_reason")
        changed = [str(name) for name in own.many("changed_files")]
        role: Role = "problem" if word == "failed" else "good" if word == "completed" else "warn"
        cells = [cell(word, role, 40), cell(f"  {reason}" if reason else "", "text", 120)]
        if changed:
            cells.append(cell(f"  changed {', '.join(changed)}", "dim", _TEXT))
        return cells, ("", "dim")


def outcome(life: CallLife) -> tuple[str, Role]:
    """Give the word and the role for how far a call or check came."""
    match life.state:
        case "completed":
            return "✓", "good"
        case "failed" if life.outcome_unknown:
            return "? unknown", "warn"
        case "failed":
            return "✗ failed", "problem"
        case "started":
            return "no end", "problem" if life.uncertain else "warn"
        case "denied" | "cancelled" | "abandoned":
            return life.state, "warn"
        case "asked":
            return "no answer", "warn"
        case _:
            return "not started", "warn"


def settled(life: CallLife) -> str:
    """Say what a person decided about a call of which nobody knows what it did."""
    return f"{'runs again' if life.settled == 'rerun' else 'recorded as failed'}: outcome unknown"


def glimpse(head: bytes, length: int, decoder: EventDecoder) -> Glimpse:
    """Give what the first bytes of an event say, as far as they go.

    Args:
        head: The bytes.
        length: Those of the whole event.
        decoder: Reads it where the bytes are all of it.
    """
    whole = length <= len(head)
    if whole:
        try:
            event = decoder.event(head.removeprefix(b"\xef\xbb\xbf"))
        except BadRecord:
            return Glimpse({}, safe.from_bytes(head, _TEXT), whole)
        return Glimpse(event.data, event.text or "", whole)
    for keep_open_string in (True, False):
        try:
            fields = json_object(completed(head, keep_open_string=keep_open_string))
        except BadRecord:
            continue
        data, text = fields.get("data"), fields.get("text")
        return Glimpse(data if isinstance(data, dict) else {}, text if isinstance(text, str) else "", whole)
    return Glimpse({}, "", whole)


def _look(kind: str) -> tuple[str, str, Role]:
    found = _LOOKS.get(kind)
    if found is not None:
        return found
    area = kind.partition(".")[0]
    return _AREAS.get(area) or safe.line(area, 8), "▸", "dim"


def _lasted(seconds: float | None) -> tuple[str, Role]:
    return ("", "dim") if seconds is None else (units.duration(seconds), "dim")
