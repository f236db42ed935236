"""The durable loop: what an agent did is on disk before anything follows from it.

The assistant turn is journaled before any of its calls runs, each result the instant it exists, a
follow-up before the model sees it, one terminal record with the reason at the end. So a clean suspend
repeats nothing, and a crash leaves at most the calls in flight open (formats/fisk-ai.md 5 and 8).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from refold.core.agent import Agent, ToolResult, Turn, Usage
from refold.core.barred import ends_on_reply
from refold.core.calls import Calls, own_copy
from refold.core.control import Aborted, Control, settled
from refold.core.decisions import decided_text
from refold.core.errors import BadRecord, StoreError, said
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
from refold.core.resume import PlannedCall, ResumePlan, ResumeRefused
from refold.core.state import RunState

FollowUp = Callable[[], Awaitable[str | None]]
"""Asks the user what comes next; None to leave the run where it is."""


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

    kind: Literal["turn", "call", "result", "user", "end"]
    seq: int
    """Of the record that says so; 0 where none does."""
    text: str = ""
    name: str = ""
    """The tool, or the reason of an end."""
    is_error: bool = False
    input: Json = None
    """Of a call."""


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


class Runner:
    """Drives one agent through one run. Use it once, on one event loop.

    An append blocks the loop until it is durable: between a result and its record nothing else happens.
    """

    def __init__(
        self,
        agent: Agent,
        log: Log | None = None,
        *,
        control: Control | None = None,
        follow_up: FollowUp | None = None,
        watch: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        """Prepare.

        Args:
            agent: what runs.
            log: an open journal; left out, the run lives only as long as the program.
            control: stops the run from outside.
            follow_up: asks the user in an interactive run; without it the run ends where they would speak.
            watch: told of everything that happens; it must not fail.
        """
        self._agent = agent
        self._log: Log = MemoryLog() if log is None else log
        self._control = Control() if control is None else control
        self._follow_up = follow_up
        self._watch = watch
        self._decoder = NATIVE.decoder_for(VERSION)
        self._fold = Fold(self._decoder)
        self._calls = Calls(agent.tools, self._control, self._begun, self._answered)
        self._resumed: Resumed | None = None
        self._cap = agent.budgets.max_iterations

    @property
    def state(self) -> RunState:
        """What the records so far fold to."""
        return self._fold.state()

    async def run(self, prompt: str, *, interactive: bool = False) -> Outcome:
        """Begin a run with a prompt and drive it to its end, or to where it is suspended.

        The log may hold the meta record already, as a journal does that was made with `agent.opening`.

        Raises:
            StoreError: a record could not be made durable; the journal is readable up to it.
        """
        self._append(self._agent.opening(prompt, interactive=interactive))
        return await self._drive(self._loop())

    async def go_on(self, records: Iterable[Record], plan: ResumePlan) -> Outcome:
        """Go on from the records that are in the log already.

        Args:
            records: all of them, in order; the log must be open, and locked, since before they were read.
            plan: what was decided, accepted.

        Raises:
            ResumeRefused: the plan is not accepted; nothing was written.
            StoreError: a record could not be made durable; the journal is readable up to it.
            FoldError: the records do not fold.
        """
        if plan.outcome != "accept":
            raise ResumeRefused(plan)
        for record in records:
            self._fold.feed(record)
        reason = plan.request.reason if plan.forced else ""
        self._resumed = Resumed(plan.forced, reason, self._agent.fingerprint())
        return await self._drive(self._resume(plan.calls))

    async def _drive(self, work: Awaitable[Outcome]) -> Outcome:
        try:
            return await work
        except Aborted as error:
            return self._end("cancelled", str(error))
        except asyncio.CancelledError:
            self._end("cancelled", "the program cancelled it")
            raise

    async def _resume(self, calls: Sequence[PlannedCall]) -> Outcome:
        state = self.state
        if state.interactive:
            self._cap = state.next_iteration + self._agent.budgets.max_iterations
        if state.pending is not None:
            await self._complete_pending(calls)
        elif ends_on_reply(state):
            # Of a task that was done, only the record of its end is missing.
            ended = await self._boundary() if state.interactive else self._end("completed")
            if ended is not None:
                return ended
        return await self._loop()

    async def _loop(self) -> Outcome:
        while True:
            state = self.state
            stop = self._stop_before_call(state)
            if stop is not None:
                return self._end(*stop)
            try:
                turn = await self._control.unless_aborted(self._asked(state))
                record = _record(turn, state.next_iteration)
                self._require_recordable(record)
            except (Aborted, StoreError):
                raise
            except Exception as error:
                return self._end("error", f"llm call: {said(error)}")
            ended = await self._take(record)
            if ended is not None:
                return ended

    async def _asked(self, state: RunState) -> Turn:
        # A copy: what the model's code does to the messages must not change what was said.
        messages: list[Mapping[str, Json]] = [
            own_copy({"role": message.role, "content": list(message.content or ())})
            for message in state.messages
        ]
        return await settled(self._agent.model(messages, self._agent.tools))

    def _stop_before_call(self, state: RunState) -> tuple[str, str] | None:
        if self._control.suspending:
            return ("suspended", "")
        if self._over_budget(state):
            return ("budget", self._used(state))
        if state.next_iteration >= self._cap:
            return ("max_iterations", f"{state.next_iteration} turns")
        return None

    def _over_budget(self, state: RunState) -> bool:
        limit = self._agent.budgets.max_tokens
        return bool(limit) and state.counters.tokens >= limit

    def _used(self, state: RunState) -> str:
        return f"{state.counters.tokens} of {self._agent.budgets.max_tokens} tokens used"

    def _require_recordable(self, record: AssistantRecord) -> None:
        """Refuse a turn that could not be read again, or whose calls could not be told apart.

        Raises:
            BadRecord: it is such a turn.
        """
        readable = self._as_read(record)
        calls = self._decoder.calls(readable.message.content if isinstance(readable, AssistantRecord) else ())
        ids = [call_id for call_id, _, _ in calls]
        if "" in ids or len(ids) != len(set(ids)):
            raise BadRecord("the calls of a turn need ids, each its own")

    async def _take(self, record: AssistantRecord) -> Outcome | None:
        """Journal a turn and do what follows from it; give the end where it is one."""
        seq = self._append(record)
        self._watch(Progress("turn", seq, _text(record.message.content)))
        if record.stop_reason == "max_tokens":
            return self._end("error", "the reply was cut off at the limit of tokens; its calls were not run")
        if record.stop_reason == "refusal":
            return self._end("error", "the model refused")
        state = self.state
        if state.pending is None:
            if record.stop_reason == "pause_turn":
                return None
            return await self._boundary() if state.interactive else self._end("completed")
        if self._over_budget(state):
            return self._end("budget", f"{self._used(state)}; the calls were not run")
        await self._calls.run(
            [PlannedCall(c.id, c.name, "unknown", "will_run", c.input) for c in state.pending.calls]
        )
        return None

    async def _boundary(self) -> Outcome | None:
        """Wait for the user, and journal what they say; the end where there is no more to come."""
        if self._control.suspending or self._follow_up is None:
            return self._end("suspended")
        said_next = await self._control.unless_suspended(self._follow_up())
        if said_next is None:
            return self._end("suspended")
        seq = self._append(UserRecord(Message("user", ({"type": "text", "text": said_next},))))
        self._watch(Progress("user", seq, said_next))
        self._cap = self.state.next_iteration + self._agent.budgets.max_iterations
        return None

    async def _complete_pending(self, calls: Sequence[PlannedCall]) -> None:
        """Finish the open turn: no call with a result runs again, what was decided is recorded so."""
        pending = self.state.pending
        waiting = {call.id for call in pending.unanswered} if pending is not None else set()
        for call in calls:
            decision = call.decision
            if call.id in waiting and decision is not None and decision.choice != "rerun":
                self._answered(call, ToolResult(decided_text(decision), is_error=decision.choice == "failed"))
        await self._calls.run([call for call in calls if call.id in waiting and call.verdict == "will_run"])

    def _begun(self, call: PlannedCall) -> None:
        self._watch(Progress("call", 0, name=call.name, input=call.input))

    def _answered(self, call: PlannedCall, result: ToolResult) -> None:
        block = self._decoder.result_of(call.id, result.content, is_error=result.is_error)
        seq = self._append(ToolResultRecord(call.id, block, decision=call.decision))
        self._watch(Progress("result", seq, result.content, call.name, result.is_error))

    def _end(self, reason: str, message: str = "") -> Outcome:
        seq = self._append(TerminalRecord(reason, message))
        self._watch(Progress("end", seq, message, reason))
        return Outcome(reason, message, self.state)

    def _append(self, record: Record) -> int:
        """Make a record durable, then fold it: what is not on disk has not happened."""
        if self._resumed is not None and not isinstance(record, MetaRecord):
            record = msgspec.structs.replace(record, resumed=self._resumed)
        seq = self._log.append(record)
        self._resumed = None
        self._fold.feed(self._as_read(msgspec.structs.replace(record, seq=seq)))
        return seq

    def _as_read(self, record: Record) -> Record:
        """Give a record as a resume would read it, so that both go on from the same."""
        return self._decoder.record(NATIVE.encode(record)[:-1])


def _record(turn: object, iteration: int) -> AssistantRecord:
    """Give the record of a turn.

    Raises:
        BadRecord: it is none, or its content is no blocks: a text would be kept as its letters.
    """
    if not isinstance(turn, Turn) or not isinstance(turn.usage, Usage):
        raise BadRecord("the model gave no Turn with a Usage")
    content = tuple(turn.content)
    if not all(isinstance(block, dict) for block in content):
        raise BadRecord('the content of a turn is a list of blocks, such as {"type": "text", "text": ""}')
    usage = turn.usage
    for name in Usage.__struct_fields__:
        tokens = getattr(usage, name)
        if type(tokens) is not int or tokens < 0:
            # It would give budget back, or could not be counted.
            raise BadRecord(f"its usage has {name} {tokens!r}: tokens are a whole number, 0 or more")
    return AssistantRecord(
        message=Message("assistant", content),
        iteration=iteration,
        stop_reason=turn.stop_reason,
        in_tokens=usage.in_tokens,
        out_tokens=usage.out_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_create_tokens=usage.cache_create_tokens,
    )


def _text(content: tuple[Json, ...] | None) -> str:
    blocks = [block for block in content or () if isinstance(block, dict) and block.get("type") == "text"]
    return "\n".join(str(block.get("text", "")) for block in blocks)
