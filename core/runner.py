"""The durable loop: what an agent did is on disk before anything follows from it.

The assistant turn is journaled before any of its calls runs, each result the instant it exists, a
follow-up before the model sees it, one terminal record with the reason at the end. So a clean suspend
repeats nothing, and a crash leaves at most the calls in flight open (formats/fisk-ai.md 5 and 8).
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Literal, Protocol, TypeVar

import msgspec

from refold.core.agent import Agent, Tool, ToolResult, Turn
from refold.core.errors import RefoldError, StoreError
from refold.core.fold import Fold
from refold.core.formats.journal import NATIVE
from refold.core.records import (
    VERSION,
    AssistantRecord,
    Json,
    Message,
    MetaRecord,
    Record,
    Resumed,
    TerminalRecord,
    ToolResultRecord,
    UserRecord,
)
from refold.core.resume import PlannedCall, ResumePlan
from refold.core.state import RunState

T = TypeVar("T")

FollowUp = Callable[[], Awaitable[str | None]]
"""Asks the user what comes next; None to leave the run where it is."""


class Aborted(RefoldError):
    """The run was told to stop at once."""


class Log(Protocol):
    """Where records go: a `Journal`, or a `MemoryLog`."""

    def append(self, record: Record) -> int:
        """Keep a record and give its sequence; on return it is as durable as this log makes it."""
        ...


class MemoryLog:
    """Records that live as long as the program: a run without a journal."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def append(self, record: Record) -> int:
        """Keep a record and give its sequence."""
        seq = len(self.records) + 1
        self.records.append(msgspec.structs.replace(record, seq=seq))
        return seq


class Progress(msgspec.Struct, frozen=True):
    """Something that has just happened, for whoever watches."""

    kind: Literal["turn", "call", "result", "user", "suspending", "end"]
    seq: int
    """Of the record that says so; 0 where none does."""
    text: str = ""
    name: str = ""
    is_error: bool = False


class Outcome(msgspec.Struct, frozen=True):
    """How a run ended, for now."""

    reason: str
    """completed, suspended, cancelled, error, budget or max_iterations."""
    message: str
    state: RunState

    @property
    def text(self) -> str:
        """What the model said last."""
        for message in reversed(self.state.messages):
            if message.role == "assistant":
                return _text(message.content)
        return ""


class Control:
    """How a run is stopped from outside: once suspends it at the next boundary, twice aborts it."""

    def __init__(self) -> None:
        self.suspending = False
        self._abort = asyncio.Event()

    @property
    def aborting(self) -> bool:
        """True once the run was told to stop at once."""
        return self._abort.is_set()

    def stop(self) -> None:
        """Ask for a suspend; ask again to abort."""
        if self.suspending:
            self._abort.set()
        self.suspending = True

    def abort(self) -> None:
        """Stop at once: calls that are running are cancelled, and nothing is said about their results."""
        self.suspending = True
        self._abort.set()

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM as `stop` while the block runs."""
        loop = asyncio.get_running_loop()
        taken = (signal.SIGINT, signal.SIGTERM)
        for number in taken:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in taken:
                loop.remove_signal_handler(number)

    async def unless_aborted(self, work: Awaitable[T]) -> T:
        """Wait for some work, or for the abort, which cancels it.

        Raises:
            Aborted: the abort came first.
        """
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._abort.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Aborted("stopped at once, as asked")
            return task.result()
        finally:
            for one in (task, stop):
                if not one.done():
                    one.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await one


class Runner:
    """Drives one agent through one run. Use it once."""

    def __init__(
        self,
        agent: Agent,
        log: Log | None = None,
        *,
        control: Control | None = None,
        follow_up: FollowUp | None = None,
        watch: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self._agent = agent
        self._log: Log = MemoryLog() if log is None else log
        self._control = Control() if control is None else control
        self._follow_up = follow_up
        self._watch = watch
        self._fold = Fold(NATIVE.decoder_for(VERSION))
        self._tools = {tool.name: tool for tool in agent.tools}
        self._resumed: Resumed | None = None
        self._cap = agent.budgets.max_iterations

    @property
    def state(self) -> RunState:
        """What the records so far fold to."""
        return self._fold.state()

    async def run(self, prompt: str, *, interactive: bool = False) -> Outcome:
        """Begin a run with a prompt and drive it to its end, or to where it is suspended.

        Raises:
            StoreError: a record could not be made durable; the journal is readable up to it.
        """
        self._append(self.opening(self._agent, prompt, interactive=interactive))
        return await self._drive(self._loop())

    @staticmethod
    def opening(agent: Agent, prompt: str, *, interactive: bool = False) -> MetaRecord:
        """Give the meta record that a run of this agent begins with."""
        return MetaRecord(
            version=VERSION, fingerprint=agent.fingerprint(), prompt=prompt, interactive=interactive, seq=1
        )

    async def go_on(self, records: Sequence[Record], plan: ResumePlan | None = None) -> Outcome:
        """Go on from the records that are in the log already.

        Args:
            records: all of them, in order; the log must be open, and locked, since before they were read.
            plan: an accepted plan; None for a run that has only been begun.

        Raises:
            StoreError: a record could not be made durable; the journal is readable up to it.
            FoldError: the records do not fold.
        """
        for record in records:
            self._fold.feed(record)
        if plan is None:
            return await self._drive(self._loop())
        reason = plan.request.reason if plan.forced else ""
        self._resumed = Resumed(plan.forced, reason, self._agent.fingerprint())
        return await self._drive(self._resume(plan.calls))

    async def _drive(self, work: Awaitable[Outcome]) -> Outcome:
        try:
            return await work
        except Aborted as error:
            return self._end("cancelled", str(error))

    async def _resume(self, calls: Sequence[PlannedCall]) -> Outcome:
        state = self.state
        if state.interactive:
            self._cap = state.next_iteration + self._agent.budgets.max_iterations
        if state.pending is not None:
            await self._complete_pending(calls)
        elif state.interactive and self._at_input_boundary(state):
            return await self._boundary()
        elif (
            state.messages
            and state.messages[-1].role == "assistant"
            and state.last_stop_reason != "pause_turn"
        ):
            return self._end("completed")
        return await self._loop()

    @staticmethod
    def _at_input_boundary(state: RunState) -> bool:
        last = state.messages[-1].role if state.messages else ""
        return last == "assistant" and state.last_stop_reason != "pause_turn"

    async def _loop(self) -> Outcome:
        while True:
            state = self.state
            stop = self._stop_before_call(state)
            if stop is not None:
                return self._end(*stop)
            try:
                turn = await self._control.unless_aborted(self._agent.model(_wire(state), self._agent.tools))
            except (Aborted, StoreError):
                raise
            except Exception as error:
                return self._end("error", f"llm call: {_said(error)}")
            ended = await self._take(turn, state.next_iteration)
            if ended is not None:
                return ended

    def _stop_before_call(self, state: RunState) -> tuple[str, str] | None:
        budgets = self._agent.budgets
        if self._control.suspending:
            return ("suspended", "")
        if budgets.max_tokens and state.counters.tokens >= budgets.max_tokens:
            return ("budget", f"{state.counters.tokens} of {budgets.max_tokens} tokens used")
        if state.next_iteration >= self._cap:
            return ("max_iterations", f"{state.next_iteration} model calls")
        return None

    async def _take(self, turn: Turn, iteration: int) -> Outcome | None:
        """Journal a turn and do what follows from it; give the end where it is one."""
        usage = turn.usage
        seq = self._append(
            AssistantRecord(
                message=Message("assistant", turn.content),
                iteration=iteration,
                stop_reason=turn.stop_reason,
                in_tokens=usage.in_tokens,
                out_tokens=usage.out_tokens,
                cache_read_tokens=usage.cache_read_tokens,
                cache_create_tokens=usage.cache_create_tokens,
            )
        )
        self._watch(Progress("turn", seq, _text(turn.content)))
        if turn.stop_reason == "max_tokens":
            return self._end("error", "the reply was cut off at the limit of tokens; its calls were not run")
        if turn.stop_reason == "refusal":
            return self._end("error", "the model refused")
        pending = self.state.pending
        if pending is None:
            if turn.stop_reason == "pause_turn":
                return None
            return await self._boundary() if self.state.interactive else self._end("completed")
        budgets, used = self._agent.budgets, self.state.counters.tokens
        if budgets.max_tokens and used >= budgets.max_tokens:
            return self._end("budget", f"{used} of {budgets.max_tokens} tokens used; the calls were not run")
        await self._run_calls(
            [PlannedCall(c.id, c.name, "unknown", "will_run", c.input) for c in pending.calls]
        )
        return None

    async def _boundary(self) -> Outcome:
        """Wait for the user; leave the run suspended where there is no more to come."""
        if self._control.suspending or self._follow_up is None:
            return self._end("suspended")
        said = await self._control.unless_aborted(self._follow_up())
        if said is None or self._control.suspending:
            return self._end("suspended")
        seq = self._append(UserRecord(Message("user", ({"type": "text", "text": said},))))
        self._watch(Progress("user", seq, said))
        self._cap = self.state.next_iteration + self._agent.budgets.max_iterations
        return await self._loop()

    async def _complete_pending(self, calls: Sequence[PlannedCall]) -> None:
        """Finish the open turn: no call with a result runs again, what was decided is recorded so."""
        pending = self.state.pending
        answered = set(pending.answered) if pending is not None else set()
        todo = [call for call in calls if call.id not in answered]
        for call in todo:
            decision = call.decision
            if decision is not None and decision.choice != "rerun":
                failed = decision.choice == "failed"
                text = decision.text or "outcome unknown: recorded as failed"
                self._result(call, ToolResult(text, is_error=failed))
        await self._run_calls(
            [call for call in todo if call.decision is None or call.decision.choice == "rerun"]
        )

    async def _run_calls(self, calls: Sequence[PlannedCall]) -> None:
        """Run calls in order; neighbours that only read, or are as good twice, run side by side."""
        group: list[PlannedCall] = []
        for call in calls:
            if self._may_overlap(call):
                group.append(call)
                continue
            await self._together(group)
            await self._together([call])
            group = []
        await self._together(group)

    def _may_overlap(self, call: PlannedCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is None or tool.effect in {"read", "idempotent"}

    async def _together(self, calls: Sequence[PlannedCall]) -> None:
        if not calls:
            return

        async def one(call: PlannedCall) -> None:
            self._watch(Progress("call", 0, name=call.name))
            self._result(call, await self._called(call))

        async def all_of_them() -> None:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    group.create_task(one(call))

        try:
            await self._control.unless_aborted(all_of_them())
        except BaseExceptionGroup as several:
            # A failed write is why the others were cancelled; it is what must be told.
            raise several.exceptions[0] from several

    async def _called(self, call: PlannedCall) -> ToolResult:
        tool = self._tools.get(call.name)
        if tool is None:
            return ToolResult(f"there is no tool {call.name!r}", is_error=True)
        refusal = _bad_input(tool, call.input)
        if refusal:
            return ToolResult(refusal, is_error=True)
        given = call.input if isinstance(call.input, dict) else {}
        try:
            result = await tool.run(**given)
        except Exception as error:
            return ToolResult(_said(error), is_error=True)
        return result if isinstance(result, ToolResult) else ToolResult(result)

    def _result(self, call: PlannedCall, result: ToolResult) -> None:
        block: Json = {
            "tool_use_id": call.id,
            "is_error": result.is_error,
            "content": [{"text": result.content, "type": "text"}],
            "type": "tool_result",
        }
        seq = self._append(ToolResultRecord(call.id, block, decision=call.decision))
        self._watch(Progress("result", seq, result.content, call.name, result.is_error))

    def _end(self, reason: str, message: str = "") -> Outcome:
        seq = self._append(TerminalRecord(reason, message))
        self._watch(Progress("end", seq, message, reason))
        return Outcome(reason, message, self.state)

    def _append(self, record: Record) -> int:
        """Make a record durable, then fold it: what is not on disk has not happened."""
        if self._resumed is not None and isinstance(
            record, AssistantRecord | UserRecord | ToolResultRecord | TerminalRecord
        ):
            record = msgspec.structs.replace(record, resumed=self._resumed)
        seq = self._log.append(record)
        self._resumed = None
        self._fold.feed(msgspec.structs.replace(record, seq=seq))
        return seq


def _bad_input(tool: Tool, given: Json) -> str:
    if not isinstance(given, dict):
        return "the input of a call must be an object"
    required = tool.input_schema.get("required")
    names = required if isinstance(required, list) else []
    missing = [str(name) for name in names if name not in given]
    return f"missing: {', '.join(missing)}" if missing else ""


def _said(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _text(content: tuple[Json, ...] | None) -> str:
    blocks = [block for block in content or () if isinstance(block, dict) and block.get("type") == "text"]
    return "\n".join(str(block.get("text", "")) for block in blocks)


def _wire(state: RunState) -> list[Mapping[str, Json]]:
    return [{"role": message.role, "content": list(message.content or ())} for message in state.messages]
