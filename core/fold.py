"""The fold: the records of a run give the state from which it could go on (formats/fisk-ai.md 2).

Pure and incremental: after each record the state is the one that the prefix alone would give.
"""

from __future__ import annotations

from collections.abc import Iterable

from refold.core.errors import CorruptJournal, EmptyJournal, FoldError, NoMeta, UnsupportedVersion
from refold.core.formats import Decoder
from refold.core.records import (
    AssistantRecord,
    IncompleteRecord,
    Json,
    Message,
    MetaRecord,
    Record,
    TerminalRecord,
    ToolResultRecord,
    UnknownRecord,
    UserRecord,
)
from refold.core.state import Counters, PendingTurn, RunState, Terminal, ToolCall, in_64_bits


class Fold:
    """Takes the records of one run one by one; a refused record changes nothing."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._meta: MetaRecord | None = None
        self._last_seq = 0
        self._messages: list[Message] = []
        self._turn: AssistantRecord | None = None
        self._results: list[Json] = []
        self._answered: set[str] = set()
        self._last_assistant: AssistantRecord | None = None
        self._terminal: Terminal | None = None
        self._sums = dict.fromkeys(Counters.__struct_fields__, 0)

    def feed(self, record: Record) -> None:
        """Take the next record.

        Raises:
            FoldError: it cannot stand there, or the run is of a version that we do not fold.
        """
        if self._meta is None:
            if not isinstance(record, MetaRecord):
                raise NoMeta
            if record.version > self._decoder.supported:
                raise UnsupportedVersion(record.version, self._decoder.supported)
            self._begin(record)
            return
        if record.seq <= self._last_seq:
            raise CorruptJournal(f"seq {record.seq} not increasing after {self._last_seq}")
        self._take(record)

    def state(self) -> RunState:
        """Give the state after the records so far.

        Raises:
            EmptyJournal: there was none.
        """
        meta = self._meta
        if meta is None:
            raise EmptyJournal
        messages = list(self._messages)
        pending = self._pending()
        if self._turn is not None and pending is None:
            messages += self._committed(self._turn)
        last = self._last_assistant
        return RunState(
            version=meta.version,
            run_id=meta.run_id,
            created=meta.created,
            fingerprint=meta.fingerprint,
            prompt=meta.prompt,
            interactive=meta.interactive,
            messages=tuple(messages),
            counters=Counters(**self._sums),
            next_iteration=0 if last is None else last.iteration + 1,
            last_stop_reason="" if last is None else last.stop_reason,
            pending=pending,
            terminal=self._terminal,
            last_seq=self._last_seq,
        )

    def _begin(self, meta: MetaRecord) -> None:
        self._meta = meta
        self._last_seq = meta.seq
        self._messages = [Message("user", self._decoder.prompt_content(meta.prompt))]

    def _take(self, record: Record) -> None:
        """Apply one record after the first, whatever its sequence."""
        if isinstance(record, MetaRecord):
            raise CorruptJournal(f"duplicate meta at seq {record.seq}")
        if isinstance(record, IncompleteRecord):
            raise CorruptJournal(
                f"duplicate meta at seq {record.seq}"
                if record.kind == "meta"
                else f"{record.kind} record with no payload at seq {record.seq}"
            )
        if isinstance(record, UnknownRecord):
            raise CorruptJournal(f'unknown record protocol "{record.protocol}" at seq {record.seq}')
        if isinstance(record, AssistantRecord):
            self._take_assistant(record)
        elif isinstance(record, UserRecord):
            self._commit()
            self._take_user(record.message)
        elif isinstance(record, ToolResultRecord):
            self._take_result(record)
        else:
            self._take_terminal(record)
        self._last_seq = record.seq

    def _take_assistant(self, record: AssistantRecord) -> None:
        self._commit()
        self._turn = self._last_assistant = record
        sums = self._sums
        sums["llm_calls"] += 1
        sums["in_tokens"] = in_64_bits(sums["in_tokens"] + record.in_tokens)
        sums["out_tokens"] = in_64_bits(sums["out_tokens"] + record.out_tokens)
        sums["cache_read_tokens"] = in_64_bits(sums["cache_read_tokens"] + record.cache_read_tokens)
        sums["cache_create_tokens"] = in_64_bits(sums["cache_create_tokens"] + record.cache_create_tokens)

    def _take_user(self, message: Message) -> None:
        last = self._messages[-1]
        if last.role != "user":
            self._messages.append(message)
        elif message.content:
            self._messages[-1] = Message("user", (*(last.content or ()), *message.content))

    def _take_result(self, record: ToolResultRecord) -> None:
        if self._turn is None:
            raise CorruptJournal(f"tool_result before any assistant at seq {record.seq}")
        self._results.append(record.result)
        self._answered.add(record.tool_use_id)
        self._sums["tool_calls"] += 1
        self._sums["remote_tool_calls"] += record.remote

    def _take_terminal(self, record: TerminalRecord) -> None:
        self._terminal = Terminal(record.reason, record.message)

    def _commit(self) -> None:
        """Move the open turn into the conversation; nobody asks whether its calls are answered."""
        if self._turn is not None:
            self._messages += self._committed(self._turn)
            self._turn = None
            self._results = []
            self._answered = set()

    def _committed(self, turn: AssistantRecord) -> list[Message]:
        if not self._results:
            return [turn.message]
        results = tuple(self._decoder.result_content(result) for result in self._results)
        return [turn.message, Message("user", results)]

    def _pending(self) -> PendingTurn | None:
        turn = self._turn
        if turn is None:
            return None
        calls = tuple(ToolCall(*call) for call in self._decoder.calls(turn.message.content))
        if all(call.id in self._answered for call in calls):
            return None
        return PendingTurn(
            assistant=turn.message,
            iteration=turn.iteration,
            stop_reason=turn.stop_reason,
            results=tuple(self._results),
            answered=tuple(sorted(self._answered)),
            calls=calls,
        )


class _Salvage(Fold):
    """A fold that refuses nothing: what cannot stand is passed over."""

    def __init__(self, decoder: Decoder, meta: MetaRecord) -> None:
        super().__init__(decoder)
        self._begin(meta)

    def feed(self, record: Record) -> None:
        """Take a record if it can be used at all."""
        try:
            self._take(record)
        except FoldError:
            return


def fold(records: Iterable[Record], decoder: Decoder) -> RunState:
    """Fold records to the state they stand for.

    Args:
        records: the records in file order; reading goes on after a refusal, because an unreadable line
            further on is reported first (formats/fisk-ai.md 2.1, precedence).
        decoder: the rules of the version that the run was written in.

    Raises:
        FoldError: they do not fold.
    """
    folding = Fold(decoder)
    refused: FoldError | None = None
    for record in records:
        if refused is None:
            try:
                folding.feed(record)
            except FoldError as error:
                refused = error
    if refused is not None:
        raise refused
    return folding.state()


def salvage(records: Iterable[Record], decoder: Decoder) -> RunState:
    """Fold what can be folded: out of order, after damage, of any version; never for a resume."""
    every = list(records)
    meta = next((record for record in every if isinstance(record, MetaRecord)), None)
    folding = _Salvage(decoder, meta or MetaRecord())
    for record in every:
        folding.feed(record)
    return folding.state()
