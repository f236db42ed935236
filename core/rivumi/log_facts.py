"""What a log says for the list of runs, folded line by line as it is read: no event is kept.

Shallow on purpose: of most events only the envelope is decoded. `core.rivumi.events_state` says more.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from refold.core.formats.tolerant import MAX_DEPTH
from refold.core.records import Json
from refold.core.rivumi.calls import Calls
from refold.core.rivumi.events import BOM, Event, read_log
from refold.core.rivumi.kinds import ENDS
from refold.core.rivumi.manifest import tokens_of
from refold.core.rivumi.members import Members, capped
from refold.core.rivumi.replay import MAX_LINE

_BLANK: Final = b" \t\r\n\v\f"
_CALLS: Final = frozenset(
    {
        "tool.requested",
        "tool.started",
        "tool.completed",
        "approval.requested",
        "approval.reused",
        "approval.resolved",
        "approval.abandoned",
        "verification.started",
        "verification.completed",
        "verification.reused",
        "subagents.transaction_started",
        "subagents.transaction_completed",
    }
)
_TELLING: Final = frozenset(
    {*_CALLS, *ENDS, "run.created", "run.forked", "session.resumed", "session.continued", "model.completed"}
)
"""The types whose data counts for a row."""
_OBJECT: Final = ord("{")
_TOO_MUCH: Final = 2**63
_MOST_STRETCHES: Final = 1000
_MOST_IDS: Final = 16
_LONGEST_WORDS: Final = 500


class _Line(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    sequence: int
    event_type: str
    run_id: str = ""
    task_id: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"{}")
    event_id: str = ""
    created_at: str = ""


_decode = msgspec.json.Decoder(_Line).decode


class LogFacts:
    """What the lines fed so far say."""

    def __init__(self) -> None:
        self.events = 0
        self.turns = 0
        self.requested = 0
        self.errors = 0
        self.tokens = 0
        self.spent: tuple[int, ...] = (0, 0, 0)
        """Input without what was cached, output, cached."""
        self.models: set[str] = set()
        """Those that took tokens."""
        self.last_sequence = -1
        self.tail = ""
        """The type of the last event."""
        self.created = ""
        self.provider = self.model = ""
        self.words = ""
        """The last text of the model, as far as the events keep it."""
        self.ended = ""
        """How the run ended, as its events say; empty while they do not."""
        self.reason = ""
        self.parent = ""
        self.parent_sequence = -1
        self.external = False
        """An event has neither run nor task: another tool wrote the log."""
        self.tools: set[str] = set()
        self.codes: Counter[str] = Counter()
        self.torn = False
        self.unterminated = False
        self._lines = 0
        self._calls = Calls()
        self._runs: Counter[str] = Counter()
        self._tasks: Counter[str] = Counter()
        self._stretches: list[list[int]] = []

    def feed(self, raw: bytes, *, ended: bool = True) -> bool:
        """Take a line in, without its line end; say whether it was one that will not be read again.

        Args:
            raw: The bytes of the line.
            ended: False for what follows the last line end of the file: it may still grow.
        """
        self.torn = self.unterminated = False
        if not raw.strip(_BLANK):
            self._lines += ended
            return ended
        try:
            if not raw.isascii():
                raw.decode()
            line = _decode(raw)
            data: Json = msgspec.json.decode(line.data) if line.event_type in _TELLING else {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
            return self._read_slowly(raw, ended=ended)
        blank = not line.event_type or line.event_type != line.event_type.strip()
        plain = memoryview(line.data)[0] == _OBJECT and raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH
        if not 0 <= line.sequence < _TOO_MUCH or blank or not plain or not isinstance(data, dict):
            return self._read_slowly(raw, ended=ended)
        self._lines += 1
        self.unterminated = not ended
        if len(raw) > MAX_LINE:
            self.codes["E_OVERSIZE"] += 1
        self._take(line.sequence, line.event_type, line.run_id, line.task_id, data, line.created_at)
        return True

    def skip(self, code: str) -> None:
        """Take note of a line that is too long to be looked at."""
        self._lines += 1
        self.codes[code] += 1

    def open_calls(self) -> tuple[str, ...]:
        """Give the names of the calls and checks that were started and never ended."""
        return tuple(life.name or life.id for life in self._calls.lives() if life.open)

    def waiting(self) -> str:
        """Give the name of the call that was requested last, if it was never started."""
        lives = self._calls.lives()
        return lives[-1].name if lives and lives[-1].started is None else ""

    @property
    def is_contiguous(self) -> bool:
        """Whether its events are numbered from 0 on, each by one more."""
        return not self._stretches or (len(self._stretches) == 1 and self._stretches[0][0] == 0)

    def foreign(self, run_id: str, task_id: str) -> int:
        """Count the events of another run or task; an empty id is that of every event."""
        runs = sum(count for name, count in self._runs.items() if name and name != run_id) if run_id else 0
        tasks = sum(count for name, count in self._tasks.items() if name != task_id) if task_id else 0
        return runs + tasks

    def run_id(self) -> str:
        """Give the id that the first events name."""
        return next(iter(self._runs), "")

    def _read_slowly(self, raw: bytes, *, ended: bool) -> bool:
        """Read a line that is not as its writer writes it."""
        # A mark of the byte order may stand before the first line only.
        first = not self._lines
        log = read_log((b"" if first else b"\n") + raw + b"\n")
        if first and raw.startswith(BOM):
            self.codes["E_BOM"] += 1
        for bad in log.bad:
            if not ended:
                self.torn = True
                return False
            self.codes[bad.code] += 1
        self._lines += 1
        for event in log.events:
            self.unterminated = not ended
            self.external = self.external or not (event.run_id or event.task_id)
            if event.odd:
                self.codes["E_BAD_RECORD"] += 1
            if len(raw) > MAX_LINE:
                self.codes["E_OVERSIZE"] += 1
            created = event.created_at if isinstance(event.created_at, str) else ""
            self._take(
                event.sequence, event.event_type, event.run_id, event.task_id, event.data, created, event.text
            )
        return True

    def _take(
        self,
        sequence: int,
        kind: str,
        run_id: str,
        task_id: str | None,
        data: dict[str, Json],
        created: str,
        text: str | None = None,
    ) -> None:
        self.events += 1
        self._place(sequence)
        self.last_sequence, self.tail = sequence, kind
        self.created = self.created or created
        for seen, name in ((self._runs, run_id), (self._tasks, task_id)):
            if name is not None:
                seen[name if name in seen or len(seen) < _MOST_IDS else "\0more"] += 1
        if text:
            self.words = text[:_LONGEST_WORDS]
        if kind not in _TELLING:
            if self.ended and kind == "session.continued":
                self.ended = ""
            return
        own = Members(data)
        if kind in _CALLS:
            self._call(kind, sequence, own)
        elif kind == "model.completed":
            self.turns += 1
            used = tokens_of(own.object("usage"))
            cached = min(used.cached, used.input)
            self.tokens = capped(self.tokens + used.total)
            now = (used.input - cached, used.output, cached)
            self.spent = tuple(capped(old + new) for old, new in zip(self.spent, now, strict=True))
            self.models.add(self.model)
            self.words = own.text("content").strip()[:_LONGEST_WORDS] or self.words
        elif kind in ENDS:
            self.ended, self.reason = ENDS[kind], own.text("terminal_reason")
        elif kind == "run.forked":
            self.parent = own.text("source_run_id")
            self.parent_sequence = own.whole("fork_point_sequence", -1)
        else:
            self.provider = own.text("provider", self.provider)
            self.model = own.text("model", self.model)
            if kind != "run.created":
                self.ended = self.reason = ""

    def _call(self, kind: str, sequence: int, own: Members) -> None:
        self._calls.feed(Event(sequence, kind, 0, 0, 0, data=own.raw))
        if kind == "tool.requested":
            self.requested += 1
        elif kind == "tool.completed":
            self.errors += own.flag("ok") is False
        name = own.text("name")
        if name and kind.startswith("tool.") and len(self.tools) < _MOST_STRETCHES:
            self.tools.add(name)

    def _place(self, sequence: int) -> None:
        """Compare a sequence with those before it."""
        stretches = self._stretches
        if not stretches or sequence > stretches[-1][1] + 1:
            if len(stretches) < _MOST_STRETCHES:
                stretches.append([sequence, sequence])
            else:
                stretches[-1][1] = sequence
        elif sequence == stretches[-1][1] + 1:
            stretches[-1][1] = sequence
        elif any(first <= sequence <= last for first, last in stretches):
            self.codes["E_SEQ_DUP"] += 1
        else:
            self.codes["E_SEQ_BACK"] += 1
