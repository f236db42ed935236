"""Every record of one run decoded strictly, and everything that is wrong with it, as findings.

The lines stream by: however long the run is, only the findings that wait for the end of the run are held
(whether a resume is possible is known only there). The index (`core.timeline_builder`) notes the same
damage while it reads, but decodes only what a row needs; "indexed" is never "verified".
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from typing import NamedTuple

from refold.core.errors import BadRecord
from refold.core.explain import where_it_fails
from refold.core.findings import CODES, Allowed, Finding, blocks_resume, forks_before, remedy_for
from refold.core.formats import Columns, Decoder
from refold.core.formats.journal import NEUTRAL_VERSION
from refold.core.journal_text import is_blank
from refold.core.line_check import remarks
from refold.core.records import (
    AssistantRecord,
    IncompleteRecord,
    Json,
    MetaRecord,
    Record,
    TerminalRecord,
    ToolResultRecord,
    UnknownRecord,
)
from refold.core.recover import LONGEST, recover
from refold.core.resume import withheld_by
from refold.core.rewritten import Rewritten
from refold.core.sequence import Problem, opening_problems, order_problems
from refold.core.shapes import Shape, record_shape

_SHOWN = 80
_NAMED = 3


class _Step(NamedTuple):
    """What the order of records depends on."""

    kind: str
    """meta, assistant, user, tool_result, terminal, incomplete:<kind>, unknown:<protocol>."""
    seq: int
    iteration: int = 0
    calls: tuple[tuple[str, str], ...] = ()
    """Ids and tools."""
    answers: str = ""
    result_id: str = ""
    reason: str = ""
    run_id: str | None = None
    stop: str = ""
    """Why the model stopped, of a reply."""


class Place(NamedTuple):
    """Where a finding stands."""

    seq: int | None
    line: int
    start: int
    end: int


class _Waiting(NamedTuple):
    """A finding of which it is not known yet what may still be done."""

    code: str
    place: Place
    reason: str
    fork_to: int | None
    """The last sequence before it at which a fork is legal."""


class Examination:
    """Takes the lines of one run in order; each call gives the findings that are ready."""

    def __init__(self, decoder: Decoder, run_id: str, *, native: bool = False) -> None:
        """Begin an examination.

        Args:
            decoder: Reads the lines in the version of the run.
            run_id: The id that the file name gives.
            native: The run is in our own format.
        """
        self._decoder = decoder
        neutral = decoder.version >= NEUTRAL_VERSION
        self._shape: Shape = record_shape(neutral=neutral, native=native) if decoder.readable else "anything"
        """What records are like; of a newer version nobody here knows."""
        self._run_id = run_id
        self._waiting: list[_Waiting] = []
        self._broken = False
        """The strict fold refuses what was read: no fork from here on, and no resume."""
        self._legal: int | None = None
        """The last sequence so far at which a fork is legal (design/contracts.md "Forks")."""
        self._unconfirmed = False
        """The line before was no record; if nothing follows it, the strict fold passes over it."""
        self._suspect: _Waiting | None = None
        """That line, where nothing could be read out of it: torn, if nothing follows."""
        self._records = 0
        """Records that the strict fold would read."""
        self._has_meta = False
        self._strict_seq = -1
        self._seen_seq = -1
        """Of any record, recovered ones included."""
        self._ended = False
        """The record before said that the run is completed."""
        self._last_reason: str | None = None
        self._iteration: int | None = None
        self._turn: Place | None = None
        """The assistant record whose results may still come."""
        self._stop = self._stopped = ""
        """Why the model stopped in that turn, and why the run did where nothing follows."""
        self._before_turn: int | None = None
        self._open: dict[str, str] = {}
        """Its calls without a result, in order, with the names of their tools."""
        self._answered: set[str] = set()

    def mode(self, mode: int) -> Iterator[Finding]:
        """Look at the permission bits of the file."""
        if mode & 0o077:
            bits = f"mode {stat.S_IMODE(mode):04o}"
            yield from self._note("E_BAD_MODE", Place(None, 0, 0, 0), bits)

    def rewritten(self, found: Rewritten) -> Iterator[Finding]:
        """Say that bytes which were seen before are others now."""
        yield from self._note("E_REWRITTEN", Place(None, found.line, found.start, found.end), found.reason)

    def line(self, text: bytes, place: Place, *, ended: bool) -> Iterator[Finding]:
        """Take the next line.

        Args:
            text: Its bytes, newline excluded; a skeleton where `place` is longer.
            place: Where it stands; its seq is not known yet.
            ended: It ends with a newline.
        """
        yield from self._confirm()
        if is_blank(text):
            return
        if place.end - place.start > LONGEST:
            yield from self._note("E_OVERSIZE", place, f"{place.end - place.start:,} bytes")
        try:
            record = self._decoder.record(text)
        except BadRecord as error:
            yield from self._damaged(text, place, error)
            return
        step = _step_of(record, self._decoder)
        place = place._replace(seq=step.seq)
        known: Shape = "anything" if isinstance(record, UnknownRecord) else self._shape
        for remark in remarks(text, known):
            spot = place
            if len(text) == place.end - place.start:
                spot = place._replace(start=place.start + remark.start, end=place.start + remark.end)
            yield from self._note(remark.code, spot, remark.reason)
        yield from self._take(step, place, recovered=False)
        if not ended:
            yield from self._note("E_NO_FINAL_NL", place, "")

    def end(self, size: int) -> Iterator[Finding]:
        """Say what is known only when the whole run was seen."""
        if self._suspect is not None:
            yield from self._hold(self._suspect._replace(code="E_TORN_TAIL"))
        if not self._records:
            yield from self._note("E_EMPTY", Place(None, 0, 0, size), "")
        yield from self._release(resume=not self._broken and self._last_reason != "completed")

    def in_flight(self) -> Iterator[Finding]:
        """Say which calls of the last turn have no result, of a run that nobody holds: they may have run.

        It is no fault of the run, whose records are whole: only of a run directory is it an error, for its
        own program refuses to go on with one. A call that was never allowed to run is not among them.
        """
        if not self._open or self._turn is None or self._ended or self._broken:
            # Where records are lost a result may be among them, and what is wrong is said.
            return
        if withheld_by(self._stop, self._stopped):
            return
        code = "E_UNCERTAIN_EFFECT"
        entry, place = CODES[code], self._turn
        calls = [f"{_short(call)} ({_short(name)[1:-1]})" for call, name in self._open.items()]
        named = ", ".join([*calls[:_NAMED], *([f"{len(calls) - _NAMED:,} more"] if calls[_NAMED:] else [])])
        said = "has no result: it may have run" if len(calls) == 1 else "have no result: they may have run"
        allowed = Allowed(view=True, fork_to=self._legal, resume=True)
        message = f"{entry.meaning}: {named} {said}"
        yield Finding(
            code, "info", place.seq, place.line, place.start, place.end, message, entry.remedy, allowed
        )

    def held(self, code: str, who: str) -> Iterator[Finding]:
        """Say who holds the run, or that nobody can say: it may grow, and no resume goes past that.

        Args:
            code: E_LOCKED or E_LOCK_UNSURE.
            who: The holder, or what may have one.
        """
        entry = CODES[code]
        allowed = Allowed(view=True, fork_to=self._legal, resume=False)
        # As of a run directory: that somebody is at work is no fault of the run.
        yield Finding(code, "info", None, 0, 0, 0, f"{entry.meaning}: {who}", entry.remedy, allowed)

    def _damaged(self, text: bytes, place: Place, error: BadRecord) -> Iterator[Finding]:
        """Take a line that is no record, and what can still be read out of it."""
        whole = len(text) == place.end - place.start
        found = recover(text, self._decoder.columns, error) if whole else None
        reason = error.reason
        if error.code == "E_BAD_RECORD" and whole:
            reason = where_it_fails(text, self._decoder.version) or reason
        self._unconfirmed = True
        if found is None or not found.pieces:
            code = error.code if found is None else found.code
            self._suspect = _Waiting(code, place, reason, self._legal)
            return
        first = found.pieces[0].columns
        yield from self._note(found.code, place._replace(seq=first.seq if first else None), reason)
        for piece in found.pieces:
            if piece.columns is not None:
                spot = place._replace(
                    seq=piece.columns.seq, start=place.start + piece.start, end=place.start + piece.end
                )
                yield from self._take(_step_of_columns(piece.columns), spot, recovered=True)

    def _confirm(self) -> Iterator[Finding]:
        """Another line follows one that could not be read: the strict fold ends there."""
        if not self._unconfirmed:
            return
        self._unconfirmed = False
        yield from self._break()
        if self._suspect is not None:
            yield from self._hold(self._suspect)
            self._suspect = None

    def _take(self, step: _Step, place: Place, *, recovered: bool) -> Iterator[Finding]:
        """Hold one record against the rules of the strict fold and against its neighbours."""
        problems, folded, breaks = self._check(step, recovered=recovered)
        if breaks and not recovered:
            yield from self._break()
        for code, reason in problems:
            yield from self._note(code, place, reason)
        if folded:
            yield from self._pair(step, place)
            self._fold(step, place)
        if not recovered:
            self._records += 1
            self._strict_seq = step.seq
            ends = step.kind == "terminal" and step.reason == "completed"
            if not self._broken and not self._unconfirmed and not ends:
                self._legal = step.seq
        self._seen_seq = step.seq

    def _check(self, step: _Step, *, recovered: bool) -> tuple[list[Problem], bool, bool]:
        """Give what is wrong with a record, whether it is folded, and whether the strict fold refuses it."""
        kind, _, detail = step.kind.partition(":")
        first = not self._records and not recovered
        if first:
            problems = opening_problems(kind, step.seq, self._decoder, has_meta=self._has_meta)
            breaks = kind != "meta" or not self._decoder.readable
        else:
            problems = order_problems(step.seq, self._seen_seq)
            breaks = step.seq <= self._strict_seq
        if step.run_id is not None and step.run_id != self._run_id:
            problems.append(("E_FOREIGN_RUN", f"run_id {_short(step.run_id)}"))
        if kind == "incomplete":
            return [*problems, ("E_NO_PAYLOAD", f"{detail} at seq {step.seq}")], False, True
        if kind == "unknown":
            return [*problems, ("E_UNKNOWN_KIND", f"protocol {_short(detail)}")], False, True
        if kind == "meta" and (self._has_meta or not (first or recovered)):
            return [*problems, ("E_DUP_META", f"at seq {step.seq}")], not self._has_meta, True
        if kind == "tool_result" and self._turn is None:
            return [*problems, ("E_TOOL_ORPHAN", "no assistant turn is open")], False, True
        if self._ended:
            problems.append(("E_AFTER_TERMINAL", f"seq {step.seq} follows the end"))
        return problems, True, breaks

    def _pair(self, step: _Step, place: Place) -> Iterator[Finding]:
        """Hold calls against results, and turns against each other."""
        if step.kind == "tool_result":
            if step.answers in self._answered:
                yield from self._note("E_TOOL_DUP", place, f"call {_short(step.answers)} was answered before")
            elif step.answers not in self._open:
                yield from self._note(
                    "E_TOOL_ORPHAN", place, f"no call {_short(step.answers)} in the open turn"
                )
            if step.result_id and step.result_id != step.answers:
                ids = f"{_short(step.answers)} outside, {_short(step.result_id)} inside"
                yield from self._note("E_RESULT_ID", place, ids)
        if step.kind in {"assistant", "user"} and self._turn is not None:
            for call in self._open:
                reason = f"call {_short(call)}, and the run went on at seq {step.seq}"
                yield from self._hold(_Waiting("E_CALL_UNANSWERED", self._turn, reason, self._before_turn))
        if step.kind == "assistant" and self._iteration is not None and step.iteration <= self._iteration:
            yield from self._note("E_ITERATION", place, f"iteration {step.iteration} after {self._iteration}")

    def _fold(self, step: _Step, place: Place) -> None:
        self._stopped = step.reason if step.kind == "terminal" else ""
        self._ended = self._stopped == "completed"
        if step.kind == "meta":
            self._has_meta = True
        elif step.kind == "terminal":
            self._last_reason = step.reason
        elif step.kind == "assistant":
            self._turn, self._before_turn, self._stop = place, self._legal, step.stop
            self._open = dict(step.calls)
            self._answered = set()
            self._iteration = step.iteration
        elif step.kind == "user":
            self._turn = None
            self._open, self._answered = {}, set()
        elif step.kind == "tool_result":
            self._open.pop(step.answers, None)
            self._answered.add(step.answers)

    def _note(self, code: str, place: Place, reason: str) -> Iterator[Finding]:
        yield from self._hold(_Waiting(code, place, reason, self._legal))

    def _hold(self, finding: _Waiting) -> Iterator[Finding]:
        """Give a finding at once if its consequences are known, else keep it."""
        if self._broken:
            yield self._finding(finding, resume=False)
        else:
            self._waiting.append(finding)

    def _break(self) -> Iterator[Finding]:
        """The strict fold refuses what comes now: no fork further on, and no resume."""
        if not self._broken:
            self._broken = True
            yield from self._release(resume=False)

    def _release(self, *, resume: bool) -> Iterator[Finding]:
        for finding in sorted(self._waiting, key=lambda waiting: waiting.place.start):
            yield self._finding(finding, resume=resume)
        self._waiting.clear()

    def _finding(self, found: _Waiting, *, resume: bool) -> Finding:
        entry = CODES[found.code]
        allowed = Allowed(
            view=True,
            fork_to=found.fork_to if forks_before(found.code) else self._legal,
            resume=resume and not blocks_resume(found.code),
        )
        message = f"{entry.meaning}: {found.reason}" if found.reason else entry.meaning
        place = found.place
        return Finding(
            found.code,
            entry.severity,
            place.seq,
            place.line,
            place.start,
            place.end,
            message,
            remedy_for(found.code, allowed),
            allowed,
        )


def _step_of(record: Record, decoder: Decoder) -> _Step:
    match record:
        case AssistantRecord():
            calls = tuple((call_id, name) for call_id, name, _ in decoder.calls(record.message.content))
            return _Step(
                "assistant", record.seq, record.iteration, calls=calls, stop=record.stop_reason or ""
            )
        case ToolResultRecord():
            return _Step(
                "tool_result", record.seq, answers=record.tool_use_id, result_id=_inner_id(record.result)
            )
        case TerminalRecord():
            return _Step("terminal", record.seq, reason=record.reason)
        case MetaRecord():
            return _Step("meta", record.seq, run_id=record.run_id)
        case IncompleteRecord():
            return _Step(f"incomplete:{record.kind}", record.seq)
        case UnknownRecord():
            return _Step(f"unknown:{record.protocol}", record.seq)
        case _:
            return _Step("user", record.seq)


def _step_of_columns(columns: Columns) -> _Step:
    return _Step(
        columns.kind,
        columns.seq,
        iteration=columns.iteration,
        calls=tuple((call.id, call.name) for call in columns.calls),
        answers=columns.tool_use_id,
        reason=columns.reason,
    )


def _inner_id(result: Json) -> str:
    found = result.get("tool_use_id") if isinstance(result, dict) else None
    return found if isinstance(found, str) else ""


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
