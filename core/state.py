"""What a run folds to: the state from which it could go on."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from refold.core.records import Fingerprint, Json, Message

_HALF = 1 << 63


def in_64_bits(total: int) -> int:
    """What 64 bits keep of a sum: the original counts in them, and goes round."""
    return total if -_HALF <= total < _HALF else (total + _HALF) % (2 * _HALF) - _HALF


class Counters(msgspec.Struct, frozen=True):
    """Sums over the records of a run; never stored, always derived."""

    llm_calls: int = 0
    """Assistant records."""
    tool_calls: int = 0
    """Tool result records, rejected and duplicate ones included."""
    remote_tool_calls: int = 0
    in_tokens: int = 0
    """Input tokens, cached input excluded."""
    out_tokens: int = 0
    cache_read_tokens: int = 0
    cache_create_tokens: int = 0

    @property
    def tokens(self) -> int:
        """All four kinds together."""
        return in_64_bits(
            self.in_tokens + self.out_tokens + self.cache_read_tokens + self.cache_create_tokens
        )


class ToolCall(msgspec.Struct, frozen=True):
    """One call that the model asked for."""

    id: str
    name: str
    input: Json = None


class PendingTurn(msgspec.Struct, frozen=True):
    """A turn whose calls are not all answered; it is not part of the conversation yet."""

    assistant: Message
    iteration: int
    stop_reason: str
    results: Sequence[Json]
    """The results so far, in journal order: they will be reused."""
    answered: tuple[str, ...]
    """The ids that have a result, sorted, each once."""
    calls: tuple[ToolCall, ...]
    """All calls of the turn, in the order the model asked for them."""

    @property
    def unanswered(self) -> tuple[ToolCall, ...]:
        """The calls without a result, in the order the model asked for them."""
        return tuple(call for call in self.calls if call.id not in self.answered)


class Terminal(msgspec.Struct, frozen=True):
    """The last terminal record."""

    reason: str
    message: str = ""


class RunState(msgspec.Struct, frozen=True):
    """Everything needed to go on with a run, and nothing that is not in its records."""

    version: int
    run_id: str
    created: str
    fingerprint: Fingerprint
    prompt: str
    interactive: bool
    messages: Sequence[Message]
    """The committed conversation: what the model would be sent, pending turn excluded."""
    counters: Counters
    next_iteration: int
    last_stop_reason: str
    pending: PendingTurn | None
    terminal: Terminal | None
    last_seq: int
    """The sequence of the last record folded; a resume goes on with the next one."""

    @property
    def completed(self) -> bool:
        """True once the last terminal record says completed, whatever follows it."""
        return self.terminal is not None and self.terminal.reason == "completed"
