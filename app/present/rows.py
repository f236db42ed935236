"""The rows of the timeline: one line a record, one more for each call, joined by brackets."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final, NamedTuple

from refold.app import safe
from refold.app.lines import Cell, Line, Role
from refold.app.present import units
from refold.app.present.kept import NOTED
from refold.app.present.layout import cell, fit, marked, spread
from refold.app.present.output import unwrap
from refold.app.present.peek import peek
from refold.app.present.points import point
from refold.app.safe import Safe
from refold.core.blocks import Block, read_blocks, result_text
from refold.core.columns import Row
from refold.core.decisions import leaves_unknown
from refold.core.errors import RefoldError
from refold.core.findings import CODES
from refold.core.formats import Decoder
from refold.core.records import (
    AssistantRecord,
    IncompleteRecord,
    Json,
    MetaRecord,
    Record,
    TerminalRecord,
    ToolResultRecord,
    UnknownRecord,
    UserRecord,
)
from refold.core.timeline import Timeline

GLANCE: Final = 8192
"""So many bytes of a record are read for its row."""

_UNANSWERED: Final = "E_CALL_UNANSWERED"
_TEXT: Final = 400
_SHORT_LINE: Final = 16
_KEPT: Final = 1024
_WORDS_FROM: Final = 74
_WORD_WIDTH: Final = 10
_RIGHT_WIDTH: Final = 11

_MARKS: Final[dict[str, tuple[str, Role]]] = {
    "meta": ("◇", "meta"),
    "user": ("●", "user"),
    "assistant": ("◆", "assistant"),
    "call": ("├", "call"),
    "result": ("└", "result"),
    "event": ("▸", "dim"),
    "note": ("▸", "dim"),
    "terminal": ("■", "terminal"),
    "damage": ("⚠", "problem"),
}

_ENDS: Final[dict[str, tuple[str, Role]]] = {
    "completed": ("✓", "good"),
    "suspended": ("▮", "warn"),
    "error": ("✗", "problem"),
}

_TELLING: Final = (
    *("path", "file_path", "filename", "file", "command", "cmd"),
    *("query", "pattern", "url", "name", "subject", "id"),
)
"""The arguments that tell best what a call is about, best first."""


class Glance(NamedTuple):
    """What a bounded read of a record says."""

    record: Record | None
    head: bytes
    whole: bool
    """The head is the whole record."""


class TimelineRows:
    """The lines of the timeline list; what a record says is read when its row comes into sight."""

    def __init__(
        self,
        timeline: Timeline,
        raw: Callable[[int, int | None], bytes],
        decoder: Decoder,
        *,
        inherited_to: int | None = None,
        partial: bool = False,
    ) -> None:
        """Show a timeline.

        Args:
            timeline: The rows.
            raw: Gives the first bytes of an item.
            decoder: Reads the records of this run.
            inherited_to: The last sequence that a fork took from its parent.
            partial: The timeline is a window on the end of the run: its sums and links start nowhere.
        """
        self.timeline = timeline
        self.search: Callable[[int], re.Pattern[str] | None] | None = None
        self.added_after: int | None = None
        """The sequence after which the records are new to whoever looks; they are marked."""
        self.forked_at: Container[int] = ()
        """The sequences after which forks left."""
        self.noted: Mapping[int, Role] = {}
        """The sequences of noted records, and how the mark of each is drawn."""
        self._raw = raw
        self._decoder = decoder
        self._inherited_to = inherited_to
        self._partial = partial
        self._kept: OrderedDict[int, tuple[int, Glance]] = OrderedDict()
        self._blocks: OrderedDict[int, tuple[Block, ...]] = OrderedDict()
        self._findings: dict[int, int] = {}
        self._marks_seen = 0

    def __len__(self) -> int:
        return self.timeline.rows

    def forget(self) -> None:
        """Read everything again."""
        self._kept.clear()
        self._blocks.clear()
        self._findings.clear()
        self._marks_seen = 0

    def line(self, index: int, width: int) -> Line:
        """Give the row at an index; one that cannot be read any more says why."""
        if not 0 <= index < self.timeline.rows:
            return fit((), width)
        try:
            return self._line(self.timeline.row(index), index, width)
        except RefoldError as error:
            return fit((cell(f" {error}", "problem", _TEXT),), width)

    def _line(self, row: Row, index: int, width: int) -> Line:
        code = self._code(row.item)
        body, right = self._body(index, row)
        glyph, role = self._mark(index, row)
        flagged = bool(code) and row.kind != "damage" and self._is_flagged(index, row, code)
        cells: list[Cell] = [self._edge(row, flagged=flagged), *self._columns(row)]
        cells.append(Cell(Safe(f"{glyph}{'→' if row.kind == 'call' else ' '} "), role))
        if width >= _WORDS_FROM:
            cells.append(Cell(Safe(f"{self._word(row):<{_WORD_WIDTH}}"), role))
        if row.call < 0 and row.seq is not None and row.seq in self.noted:
            cells.append(Cell(Safe(f"{NOTED} "), self.noted[row.seq]))
        if flagged and code != _UNANSWERED:
            cells.append(Cell(Safe(f"{code}  "), "warn"))
        cells.extend(body)
        if self.search is not None:
            cells = list(marked(tuple(cells), self.search(row.item)))
        if self._inherited_to is not None and row.seq is not None and row.seq <= self._inherited_to:
            cells = [Cell(text, "match" if role == "match" else "dim") for text, role in cells]
        text, role = right
        return spread(
            cells, (Cell(safe.fit(Safe(f"{text} "), _RIGHT_WIDTH, "right"), role),), width, least=24
        )

    def _is_flagged(self, index: int, row: Row, code: str) -> bool:
        """Say whether a finding on a record is marked on this row of it, not on another."""
        if code == _UNANSWERED:
            return row.call >= 0 and self.timeline.link(index) is None
        return row.call < 0

    def _word(self, row: Row) -> str:
        if row.call < 0 and self.timeline.is_recovered(row.item):
            return "recovered"
        if row.kind == "event" and isinstance(self.glance(row.item).record, ToolResultRecord):
            return "result"
        return row.kind

    def glance(self, item: int) -> Glance:
        """Give what the first bytes of an item say; kept for a while."""
        span = self.timeline.span(item)
        length = span.end - span.start
        kept = self._kept.get(item)
        if kept is not None and kept[0] == length:
            self._kept.move_to_end(item)
            return kept[1]
        head = self._raw(item, GLANCE)
        whole = length <= len(head)
        damaged = self.timeline.kind(item) == "damage"
        found = Glance(None if damaged else peek(self._decoder, head, whole=whole), head, whole)
        self._kept[item] = (length, found)
        self._blocks.pop(item, None)
        while len(self._kept) > _KEPT:
            gone, _ = self._kept.popitem(last=False)
            self._blocks.pop(gone, None)
        return found

    def blocks(self, item: int) -> tuple[Block, ...]:
        """Give the blocks of the message of an item, as far as its first bytes hold them."""
        record = self.glance(item).record
        if not isinstance(record, AssistantRecord | UserRecord):
            return ()
        found = self._blocks.get(item)
        if found is None:
            found = self._blocks[item] = read_blocks(record.message.content)
        return found

    def has_times(self) -> bool:
        """Say whether the records of this run carry times."""
        timeline = self.timeline
        return any(timeline.seconds(item) is not None for item in range(min(3, timeline.items)))

    def _edge(self, row: Row, *, flagged: bool) -> Cell:
        """Give the mark at the left edge: something is wrong here, a fork left here, or this is new."""
        if flagged:
            return Cell(Safe("⚠"), "problem")
        if row.seq is not None and row.call < 0 and row.seq in self.forked_at:
            return Cell(Safe("ψ"), "fork")
        new = self.added_after is not None and row.seq is not None and row.seq > self.added_after
        return Cell(Safe("+"), "added") if new else Cell(Safe(" "))

    def _columns(self, row: Row) -> tuple[Cell, ...]:
        digits = max(3, len(str(self.timeline.last_seq or 0)))
        number = "" if row.seq is None or row.call >= 0 else str(row.seq)
        may_begin = row.call < 0 and not self._partial
        cells = [
            Cell(Safe(f"{number:>{digits}}"), "dim"),
            point(self.timeline, row.item) if may_begin else Cell(Safe(" ")),
        ]
        if self.has_times():
            seconds = self.timeline.seconds(row.item) if row.call < 0 else None
            text = "" if seconds is None else units.since_start(seconds)
            cells.append(Cell(Safe(f"{text:>7} "), "warn" if seconds is not None and seconds < 0 else "dim"))
        else:
            cells.append(Cell(Safe(" ")))
        return tuple(cells)

    def _mark(self, index: int, row: Row) -> tuple[str, Role]:
        glyph, role = _MARKS[row.kind]
        if row.kind == "terminal":
            reason = self._terminal_reason(row.item)
            return _ENDS.get(reason, ("■", "warn"))
        if row.kind in ("call", "result"):
            follows = self.timeline.row(index + 1).kind if index + 1 < self.timeline.rows else ""
            glyph = "├" if follows == "result" or (follows == "call" and row.kind == "call") else "└"
            if self.timeline.is_error(row.item) and row.kind == "result":
                role = "problem"
        return glyph, role

    def _code(self, item: int) -> str:
        """Give the code of the first finding on an item that counts; empty where there is none.

        A window on the end knows nothing of what comes before it: only bytes that are no record count.
        """
        if self._partial and self.timeline.kind(item) != "damage":
            return ""
        marks = self.timeline.marks
        if len(marks) < self._marks_seen:
            self._findings.clear()
            self._marks_seen = 0
        for index in range(max(0, self._marks_seen - 1), len(marks)):
            if CODES[marks[index].code].severity != "info":
                self._findings.setdefault(marks[index].item, index)
        self._marks_seen = len(marks)
        found = self._findings.get(item)
        if found is None or found >= len(marks) or marks[found].item != item:
            return ""
        return "E_TORN_TAIL" if found == self.timeline.last_line_mark else marks[found].code

    def _terminal_reason(self, item: int) -> str:
        found = self.timeline.terminal(item)
        return found[1] if found is not None and found[0] == item else ""

    def _body(self, index: int, row: Row) -> tuple[Sequence[Cell], tuple[str, Role]]:
        if row.kind == "damage":
            return self._damage(row.item)
        if row.kind == "call":
            return self._call(index, row)
        glance = self.glance(row.item)
        match glance.record:
            case AssistantRecord():
                return self._assistant(row.item, glance.record)
            case UserRecord():
                text = " ".join(block.text for block in self.blocks(row.item) if block.text)
                return first_line(text) or (cell("no text", "dim"),), self._size(row.item)
            case ToolResultRecord():
                return self._result(index, row, glance.record, whole=glance.whole)
            case TerminalRecord(reason=reason, message=message):
                tail = (cell(f"  {message}", "text", _TEXT),) if message else ()
                return (cell(reason or "no reason", _ENDS.get(reason, ("", "warn"))[1], 80), *tail), (
                    "",
                    "dim",
                )
            case MetaRecord():
                return _meta(glance.record, whole=glance.whole), ("", "dim")
            case IncompleteRecord(kind=kind):
                return (cell(f"{kind} record without a payload", "problem"),), self._size(row.item)
            case UnknownRecord(protocol=protocol):
                return (cell(protocol, "dim", _TEXT),), self._size(row.item)
            case _:
                return (Cell(safe.from_bytes(glance.head, _TEXT), "dim"),), self._size(row.item)

    def _assistant(self, item: int, record: AssistantRecord) -> tuple[Sequence[Cell], tuple[str, Role]]:
        body: tuple[Cell, ...] = ()
        thought = ""
        for block in self.blocks(item):
            if block.kind == "text" and not body:
                body = first_line(block.text)
            elif block.kind == "thinking" and not thought:
                thought = block.text
        if not body and thought.strip():
            body = (cell("thinking  ", "dim"), *first_line(thought, "dim"))
        if not body:
            calls = self.timeline.own_calls(item)
            body = (cell(f"no text, {units.plural(calls, 'call')}" if calls else "no text", "dim"),)
        if record.stop_reason not in ("", "end_turn", "tool_use", "stop_sequence"):
            body = (*body, cell(f"  stopped: {record.stop_reason}", "warn", 80))
        return body, (f"{units.short(self.timeline.own_tokens(item))} tok", "dim")

    def _call(self, index: int, row: Row) -> tuple[Sequence[Cell], tuple[str, Role]]:
        calls = [block for block in self.blocks(row.item) if block.kind == "call"]
        name = self.timeline.tool_name(index)
        arguments: tuple[Cell, ...] = ()
        if row.call < len(calls):
            arguments = argument_cells(calls[row.call].input)
        answered = self.timeline.link(index) is not None
        right: tuple[str, Role] = ("", "dim") if answered else ("no result", "warn")
        return (cell(name or "unnamed tool", "call", 80), cell("  "), *arguments), right

    def _result(
        self, index: int, row: Row, record: ToolResultRecord, *, whole: bool
    ) -> tuple[Sequence[Cell], tuple[str, Role]]:
        lead: list[Cell] = []
        if leaves_unknown(record):
            lead.append(Cell(Safe("? "), "warn"))
        elif self.timeline.is_error(row.item):
            lead.append(Cell(Safe("✗ "), "problem"))
        linked = self.timeline.link(index)
        if linked is not None and linked != index - 1:
            lead.append(cell(f"{self.timeline.tool_name(index)}  ", "dim", 60))
        elif linked is None and not self._partial:
            lead.append(cell("answers no call  ", "warn"))
        output = unwrap(result_text(record.result), whole=whole)
        if output.denied:
            lead.append(cell("denied  ", "warn"))
        if output.exit_code:
            lead.append(cell(f"exit {output.exit_code}  ", "warn", 24))
        if record.remote:
            lead.append(cell("remote  ", "dim"))
        if record.decision is not None:
            lead.append(cell(f"decided: {record.decision.choice}  ", "accent", 40))
        size = self._size(row.item)
        if whole:
            size = (units.size(len(output.text.encode("utf-8", "replace"))), "dim")
        return (*lead, *(first_line(output.text) or (cell("no output", "dim"),))), size

    def _damage(self, item: int) -> tuple[Sequence[Cell], tuple[str, Role]]:
        span = self.timeline.span(item)
        code = self._code(item)
        reason = self.timeline.marks[self._findings[item]].reason if code else ""
        where = f"  line {span.line:,}, " if span.line else "  "
        place = f"{where}byte {span.start:,}  "
        return (
            cell(code or "damage", "problem"),
            cell(place, "text"),
            cell(reason, "dim", _TEXT),
        ), self._size(item)

    def _size(self, item: int) -> tuple[str, Role]:
        span = self.timeline.span(item)
        return units.size(span.end - span.start), "dim"


def argument_cells(value: Json, limit: int = 200) -> tuple[Cell, ...]:
    """Give the arguments of a call on one row: the most telling one first, the others named and dim."""
    if not isinstance(value, dict):
        return (cell(_compact(value), "text", limit),) if value is not None else ()
    names = [name for name in _TELLING if isinstance(value.get(name), str)][:1] or list(value)[:1]
    if not names:
        return ()
    first = names[0]
    # A number or a list says nothing without its name.
    named = f"{first}=" if first and not isinstance(value[first], str) else ""
    cells = [cell(named + _compact(value[first]), "text", limit)]
    cells.extend(
        cell(f"  {name}={_compact(argument)}", "dim", 64)
        for name, argument in list(value.items())[:8]
        if name != first
    )
    return tuple(cells)


def _compact(value: Json) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return "…"


def first_line(text: str, role: Role = "text") -> tuple[Cell, ...]:
    """Give the first line that says something; a mere bracket is joined by what follows it."""
    stripped = text[: 4 * _TEXT].strip()
    first, newline, rest = stripped.partition("\n")
    if not first:
        return ()
    more = bool(newline)
    if more and len(first) < _SHORT_LINE:
        first = " ".join(f"{first} {rest}".split())
        more = len(text) > 4 * _TEXT
    return (cell(first.rstrip(), role, _TEXT), *((Cell(Safe(" …"), "dim"),) if more else ()))


def _meta(record: MetaRecord, *, whole: bool) -> Sequence[Cell]:
    body = first_line(record.prompt) or (
        cell("no prompt" if whole else "the prompt stands further on", "dim"),
    )
    if record.forked_from is None:
        return body
    return (cell(f"ψ fork of {record.forked_from.run_id} at {record.forked_from.seq}  ", "fork", 80), *body)
