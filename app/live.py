"""An agent that runs on the command line: what happens is said as it happens, Ctrl-C suspends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from refold.app.cli_exit import FINE, INTERRUPTED, REFUSED
from refold.app.cli_print import OutputFailed, Printer, is_terminal
from refold.app.lines import Cell, Line, Role
from refold.app.safe import Safe, block, line
from refold.core.agent import Agent
from refold.core.control import SIGNALS, Control
from refold.core.formats.gojson import encode
from refold.core.records import Json
from refold.core.runner import FollowUp, Outcome, Progress, Runner
from refold.core.store.journal import Journal
from refold.core.store.resume import Opened

if TYPE_CHECKING:
    from refold.core.redact import Redactor

_TEXT: Final = 2000
_LABEL: Final = 10
_ROLES: Final[dict[str, Role]] = {
    "turn": "assistant",
    "call": "call",
    "result": "result",
    "user": "user",
    "end": "meta",
}
_LABELS: Final = {"turn": "assistant", "call": "call", "result": "result", "user": "user", "end": "end"}


class Live:
    """One run on the command line: progress on standard error, the last words on standard output."""

    def __init__(self, printer: Printer, redactor: Redactor | None = None) -> None:
        """Drive a run.

        Args:
            printer: where what happens is said.
            redactor: what every text of the run goes through before; None lets it out as it is.
        """
        self._redactor = redactor
        self.control = Control(self._told, _held_up)
        self._printer = printer
        self._unheard = False

    def watch(self, progress: Progress) -> None:
        """Say what has just happened; where nobody hears it any more the run is suspended."""
        for row in _rows(_let_out(progress, self._redactor)):
            self._say(row)

    def _told(self) -> None:
        said = (
            "refold: stopping at once; once more ends the program as it stands"
            if self.control.aborting
            else "refold: it suspends at the next boundary; once more stops it at once"
        )
        # A terminal echoes the key that interrupts and leaves the cursor behind it.
        self._say((Cell(Safe("\n" if is_terminal(sys.stderr) else "")), Cell(Safe(said), "warn")))

    def _say(self, row: Line) -> None:
        if self._unheard:
            return
        try:
            self._printer.aside(row)
        except (OSError, OutputFailed):
            self._unheard = True
            if not self.control.suspending:
                self.control.stop()

    def run(self, agent: Agent, prompt: str, journal: Journal | None, *, interactive: bool) -> Outcome:
        """Begin a run and drive it to its end, or to where it is suspended."""

        async def begin(ask: FollowUp | None) -> Outcome:
            runner = Runner(agent, journal, control=self.control, follow_up=ask, watch=self.watch)
            return await runner.run(prompt, interactive=interactive)

        return asyncio.run(self._drive(begin, interactive=interactive))

    def go_on(self, agent: Agent, opened: Opened) -> Outcome:
        """Go on with a run that was opened for it."""

        async def begin(ask: FollowUp | None) -> Outcome:
            runner = Runner(agent, opened.journal, control=self.control, follow_up=ask, watch=self.watch)
            return await runner.go_on(opened.records(), opened.plan)

        return asyncio.run(self._drive(begin, interactive=opened.plan.interactive))

    async def _drive(
        self, begin: Callable[[FollowUp | None], Awaitable[Outcome]], *, interactive: bool
    ) -> Outcome:
        try:
            with self.control.signals():
                if not interactive:
                    return await begin(None)
                lines = Lines(prompt=is_terminal(sys.stdin) and is_terminal(sys.stderr))
                return await begin(lines.next)
        finally:
            if self.control.aborting:
                # Threads of tools are still waited for; one more signal ends that, too.
                for number in SIGNALS:
                    signal.signal(number, signal.SIG_DFL)


def _held_up() -> None:
    """Say why nothing happens, from within a signal handler: unbuffered, without the loop."""
    said = (
        "refold: a tool or the model's code holds up the program and hears of no stop; once more ends the "
        "program as it stands. What was recorded is on disk, the call that runs stays open\n"
    )
    with contextlib.suppress(OSError, ValueError):
        os.write(2, ("\n" * is_terminal(sys.stderr) + said).encode())


class Lines:
    """Standard input, line by line, without holding up what else goes on."""

    def __init__(self, *, prompt: bool) -> None:
        self._prompt = prompt
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        # A daemon that reads the descriptor itself: a stream that is being read cannot be closed at the end.
        threading.Thread(target=self._read, name="refold-input", daemon=True).start()

    async def next(self) -> str | None:
        """Give the next line that says something; None where there is none to come."""
        while True:
            if self._prompt:
                sys.stderr.write("> ")
                sys.stderr.flush()
            said = await self._queue.get()
            if said is None or said.strip():
                return said

    def _read(self) -> None:
        for said in _lines_of(0):
            self._hand_over(said)
        self._hand_over(None)

    def _hand_over(self, said: str | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, said)
        except RuntimeError:
            # The run has ended meanwhile, and its loop with it.
            return


def _lines_of(fd: int) -> Iterator[str]:
    rest = b""
    while True:
        try:
            data = os.read(fd, 65_536)
        except OSError:
            data = b""
        if not data:
            break
        *whole, rest = (rest + data).split(b"\n")
        for said in whole:
            yield said.decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")


def _let_out(progress: Progress, redactor: Redactor | None) -> Progress:
    """Redact what happened as a whole, before it is cut into rows."""
    if redactor is None:
        return progress
    return msgspec.structs.replace(
        progress,
        text=redactor.text(progress.text),
        name=redactor.text(progress.name),
        input=redactor.value(progress.input),
    )


def _rows(progress: Progress) -> Iterator[Line]:
    """What happened as rows: one, or of what was said as many as it takes."""
    head = Cell(Safe(f"{progress.seq or '':>5}  {_LABELS[progress.kind]:{_LABEL}}"), _ROLES[progress.kind])
    if progress.kind == "call":
        given = encode(progress.input).decode("utf-8", "replace")
        yield (head, Cell(line(progress.name, 100), "strong"), Cell(Safe(f" {line(given, 200)}"), "dim"))
        return
    if progress.kind == "result":
        size = len(progress.text.encode("utf-8", "replace"))
        first = line(progress.text.strip(), 80)
        role: Role = "problem" if progress.is_error else "dim"
        yield (head, Cell(line(progress.name, 100), "strong"), Cell(Safe(f" {first}  {size} B"), role))
        return
    if progress.kind == "end":
        said = f"{progress.name}: {progress.text}" if progress.text else progress.name
        yield (head, Cell(line(said, _TEXT)))
        return
    for number, row in enumerate(block(progress.text.strip("\n"), _TEXT)):
        yield (head if not number else Cell(Safe(" " * len(head.text))), Cell(row))


def tell(outcome: Outcome, journal: Journal | None, again: str, printer: Printer, *, as_json: bool) -> int:
    """Say how a run ended and how it goes on; give the exit code.

    A suspended run is fine; one that stopped by itself, before it was done, is not.

    Args:
        outcome: the end.
        journal: where it is kept; None where it is not.
        again: the command that resumes it.
        printer: takes the last words, or with `as_json` one object.
        as_json: whether a program reads it.
    """
    if as_json:
        printer.json(outcome_json(outcome, journal))
    elif not (is_terminal(sys.stdout) and is_terminal(sys.stderr)):
        # On a terminal it stands there already, as the last turn.
        text = outcome.text.strip("\n")
        if printer.redactor is not None:
            # It was counted as it was said.
            text = printer.redactor.another().text(text)
        for row in block(text):
            printer.text(row)
    if outcome.reason != "completed" and journal is not None:
        printer.note(f"refold: it goes on with: {again}")
    elif outcome.reason != "completed":
        printer.note("refold: the run was not kept; with --checkpoint it could go on")
    if outcome.reason in ("completed", "suspended"):
        return FINE
    return INTERRUPTED if outcome.reason == "cancelled" else REFUSED


def outcome_json(outcome: Outcome, journal: Journal | None) -> dict[str, Json]:
    """How a run ended, as `--json` prints it."""
    counters = outcome.state.counters
    return {
        "id": None if journal is None else journal.run_id,
        "path": None if journal is None else str(journal.path),
        "reason": outcome.reason,
        "message": outcome.message,
        "seq": outcome.state.last_seq,
        "turns": counters.llm_calls,
        "calls": counters.tool_calls,
        "tokens": counters.tokens,
        "text": outcome.text,
    }
