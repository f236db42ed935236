"""The state at an item, cut out of a Timeline: no fold, and no payload before somebody reads it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, overload

from refold.core.columns import ASSISTANT, FOLDED, OPEN, RESULT, USER
from refold.core.errors import BadRecord
from refold.core.formats import Decoder
from refold.core.records import (
    AssistantRecord,
    Json,
    Message,
    MetaRecord,
    Record,
    TerminalRecord,
    ToolResultRecord,
    UserRecord,
)
from refold.core.state import PendingTurn, RunState, Terminal, ToolCall
from refold.core.timeline import Timeline

T = TypeVar("T")
Load = Callable[[int], Record]
"""Decodes the record of an item."""


class _Lazy(Sequence[T]):
    """A sequence whose entries are made when asked for; equal to any sequence with equal entries."""

    def __init__(self, length: int, make: Callable[[int], T]) -> None:
        self._length = length
        self._make = make

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return tuple(self._make(place) for place in range(*index.indices(self._length)))
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._make(index % self._length)

    def __iter__(self) -> Iterator[T]:
        return (self._make(place) for place in range(self._length))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(
            mine == theirs for mine, theirs in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{self._length} entries, read when asked for>"


def state_at(timeline: Timeline, item: int, load: Load, decoder: Decoder, meta: MetaRecord) -> RunState:
    """Give the state after the readable records up to and including an item.

    Where `timeline.error_at(item)` is None it equals the strict fold of that prefix.

    Args:
        timeline: the index of the run.
        item: the last item of the prefix.
        load: decodes the record of an item; called when an entry is looked at.
        decoder: the rules of the version the run was written in.
        meta: the meta record of the run; an empty one where it has none.
    """
    pending = _pending(timeline, item, load, decoder)
    total = timeline.columns.messages[item]
    if pending is not None:
        total = timeline.columns.messages[timeline.columns.last_assistant[item] - 1] - 1
    iteration = timeline.iteration(item)
    return RunState(
        version=meta.version,
        run_id=meta.run_id,
        created=meta.created,
        fingerprint=meta.fingerprint,
        prompt=meta.prompt,
        interactive=meta.interactive,
        messages=_Lazy(total, lambda place: _message(timeline, place, item, load, decoder, meta)),
        counters=timeline.counters(item),
        next_iteration=0 if iteration is None else iteration + 1,
        last_stop_reason=timeline.stop_reason(item),
        pending=pending,
        terminal=_terminal(timeline, item, load),
        last_seq=_last_seq(timeline, item),
    )


def _last_seq(timeline: Timeline, item: int) -> int:
    for place in range(item, -1, -1):
        if timeline.columns.flags[place] & FOLDED:
            return timeline.columns.seq[place]
    return 0


def _terminal(timeline: Timeline, item: int, load: Load) -> Terminal | None:
    found = timeline.terminal(item)
    if found is None:
        return None
    record = load(found[0])
    return Terminal(record.reason, record.message) if isinstance(record, TerminalRecord) else None


def _pending(timeline: Timeline, item: int, load: Load, decoder: Decoder) -> PendingTurn | None:
    columns = timeline.columns
    if not columns.flags[item] & OPEN or not columns.answered_left[item]:
        return None
    first = columns.last_assistant[item] - 1
    assistant = load(first)
    if not isinstance(assistant, AssistantRecord):
        raise BadRecord("the file has changed under the index")
    places = [
        place
        for place in range(first + 1, item + 1)
        if columns.kind[place] == RESULT and columns.flags[place] & FOLDED
    ]
    calls = decoder.calls(assistant.message.content)
    answered = {_answers(timeline, place, calls) for place in places}
    return PendingTurn(
        assistant=assistant.message,
        iteration=assistant.iteration,
        stop_reason=assistant.stop_reason,
        results=_Lazy(len(places), lambda place: _result(load(places[place]))),
        answered=tuple(sorted(answered)),
        calls=tuple(ToolCall(*call) for call in calls),
    )


def _answers(timeline: Timeline, item: int, calls: tuple[tuple[str, str, Json], ...]) -> str:
    """Give the call id that a result answers, without reading the result."""
    ordinal = timeline.columns.link[item]
    return calls[ordinal][0] if 0 <= ordinal < len(calls) else timeline.loose_ids.get(item, "")


def _result(record: Record) -> Json:
    if not isinstance(record, ToolResultRecord):
        raise BadRecord("the file has changed under the index")
    return record.result


def _message(
    timeline: Timeline, place: int, last: int, load: Load, decoder: Decoder, meta: MetaRecord
) -> Message:
    """Put together one message of the conversation from the items that make it up."""
    columns = timeline.columns
    first = bisect_left(columns.messages, place + 1)
    stop = min(bisect_right(columns.messages, place + 1) - 1, last)
    parts: list[Message] = [Message("user", decoder.prompt_content(meta.prompt))] if place == 0 else []
    results: list[Json] = []
    for item in range(first, stop + 1):
        if not columns.flags[item] & FOLDED:
            continue
        if columns.kind[item] == RESULT:
            results.append(decoder.result_content(_result(load(item))))
        elif columns.kind[item] in {ASSISTANT, USER}:
            if results:
                parts.append(Message("user", tuple(results)))
                results = []
            record = load(item)
            if not isinstance(record, AssistantRecord | UserRecord):
                raise BadRecord("the file has changed under the index")
            parts.append(record.message)
    if results:
        parts.append(Message("user", tuple(results)))
    if len(parts) == 1:
        return parts[0]
    blocks = tuple(block for part in parts for block in part.content or ())
    if not parts:
        return Message("user", blocks)
    return Message(parts[0].role, blocks or parts[0].content)
