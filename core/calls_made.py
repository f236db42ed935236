"""The calls of a run as they are compared with each other, and what they were answered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from refold.core.blocks import result_text
from refold.core.columns import ASSISTANT, RESULT, TERMINAL, USER
from refold.core.errors import BadRecord
from refold.core.formats import Decoder
from refold.core.records import AssistantRecord, Json, Record, ToolResultRecord
from refold.core.timeline import Timeline

LONGEST: Final = 1 << 20
"""A record above this many bytes is passed over."""

_Read = TypeVar("_Read")
_Answers: TypeAlias = dict[tuple[int, int], int]
"""The item of the result of a call, by the item of its turn and its place in it."""


class Made(NamedTuple):
    """A call as it was made."""

    item: int
    ordinal: int
    """Its place among the calls of the item."""
    turn: int
    """The item of the reply that asked for it."""
    name: str
    key: bytes
    """Equal for equal names and arguments."""
    input: Json


class CallSource(Protocol):
    """Where the calls of a run and their answers are read from."""

    @property
    def counted(self) -> str:
        """What its items that ask for calls are called, in the plural."""

    def asks(self, item: int) -> bool:
        """Say whether an item asks for calls."""

    def calls(self, item: int) -> list[Made] | None:
        """Give the calls of an item; None where it cannot be read, or is too long."""

    def learn(self, first: int, last: int) -> None:
        """Note which calls the items from one to before another answer."""

    def answered(self, call: Made) -> int | None:
        """Give the item that answers a call, as far as was learnt."""

    def answer(self, item: int) -> bytes | None:
        """Give the text of an answer; None where it cannot be read, or is too long."""

    def waited(self, before: int, last: int) -> bool:
        """Say whether what passed between two items was a person's time, or nobody's."""


def key_of(name: str, given: Json) -> bytes:
    """Give some bytes that are equal for equal names and arguments."""
    text = json.dumps([name, given], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def read_short(timeline: Timeline, item: int, load: Callable[[int], _Read]) -> _Read | None:
    """Decode an item; give None where it cannot be read, or is too long to be.

    Args:
        timeline: Knows how long it is.
        item: The item.
        load: Decodes it; raises BadRecord.
    """
    span = timeline.span(item)
    if span.end - span.start > LONGEST:
        return None
    try:
        return load(item)
    except BadRecord:
        return None


class JournalCalls:
    """The calls of a journal: blocks of its replies, and the results that answer them by their place."""

    def __init__(self, timeline: Timeline, load: Callable[[int], Record], decoder: Decoder) -> None:
        """Read from an index.

        Args:
            timeline: Complete.
            load: Decodes an item; raises BadRecord.
            decoder: The rules of its version.
        """
        self._timeline = timeline
        self._load = load
        self._decoder = decoder
        self._answers: _Answers = {}

    @property
    def counted(self) -> str:
        """Turns: a reply holds all calls of its turn."""
        return "turns with calls"

    def asks(self, item: int) -> bool:
        """Say whether an item asks for calls."""
        return self._timeline.columns.kind[item] == ASSISTANT and self._timeline.own_calls(item) > 0

    def calls(self, item: int) -> list[Made] | None:
        """Give the calls of a reply."""
        record = read_short(self._timeline, item, self._load)
        if not isinstance(record, AssistantRecord):
            return None
        calls = self._decoder.calls(record.message.content)
        return [
            Made(item, at, item, name, key_of(name, given), given)
            for at, (_, name, given) in enumerate(calls)
        ]

    def learn(self, first: int, last: int) -> None:
        """Note which calls some items answer."""
        self._answers.update(self._answering(first, last))

    def _answering(self, first: int, last: int) -> Iterator[tuple[tuple[int, int], int]]:
        columns = self._timeline.columns
        for item in range(first, last):
            if columns.kind[item] == RESULT and columns.link[item] >= 0 and columns.last_assistant[item]:
                yield (columns.last_assistant[item] - 1, columns.link[item]), item

    def answered(self, call: Made) -> int | None:
        """Give the item of the result of a call."""
        return self._answers.get((call.item, call.ordinal))

    def answer(self, item: int) -> bytes | None:
        """Give the text of a result."""
        record = read_short(self._timeline, item, self._load)
        if not isinstance(record, ToolResultRecord):
            return None
        return result_text(record.result).encode("utf-8", "surrogatepass")

    def waited(self, before: int, last: int) -> bool:
        """Say whether a person's turn stands between two items."""
        kinds = self._timeline.columns.kind
        return kinds[last] == USER or kinds[before] == TERMINAL
