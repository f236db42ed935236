"""What the quick readings of all versions give alike: replies, results and ends in the writer's own shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


class UsualMessage(Protocol):
    """A message; its texts are not decoded."""

    @property
    def role(self) -> str:
        """Who speaks."""
        ...

    def calls(self) -> list[tuple[str, str]]:
        """Give id and name of each client tool call, in block order."""
        ...


class UsualReply(Protocol):
    """The payload of a reply: the members that a record of it has."""

    iteration: int
    stop_reason: str
    in_tokens: int
    out_tokens: int
    cache_read_tokens: int
    cache_create_tokens: int

    @property
    def message(self) -> UsualMessage:
        """What was said and called."""
        ...


class UsualResult(Protocol):
    """What a call came to."""

    is_error: bool


class UsualAnswer(Protocol):
    """The payload of a result."""

    tool_use_id: str
    remote: bool

    @property
    def result(self) -> UsualResult:
        """What the call came to."""
        ...


class UsualEnd(Protocol):
    """The payload of an end."""

    reason: str


class UsualLine(Protocol):
    """A line with a reply, a result, an end, or none of them."""

    seq: int
    protocol: str

    @property
    def time(self) -> str | None:
        """As recorded; None where there is none."""
        ...

    @property
    def assistant(self) -> UsualReply | None:
        """The payload of a reply."""
        ...

    @property
    def tool_result(self) -> UsualAnswer | None:
        """The payload of a result."""
        ...

    @property
    def terminal(self) -> UsualEnd | None:
        """The payload of an end."""
        ...


class Usual(NamedTuple):
    """The quick reading of a version: what `Decoder.columns` finds, without a value for each line."""

    read: Callable[[Sequence[bytes]], Sequence[UsualLine]]
    """Reads lines, newlines included, up to the first one that has another shape."""
    reply: str
    """The protocol id of a reply."""
    answer: str
    """The protocol id of a result."""
    end: str
    """The protocol id of an end."""
    timed: bool
    """Whether records of this version have a time."""
