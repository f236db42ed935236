"""Two runs side by side: what their records say, which of them stand for each other, how their states differ.

Up to where two runs part, records are the same by their bytes (design/contracts.md "diff"). Behind that point
bytes say nothing: times, numbers and ids of calls differ in every attempt. There a record has a face, what it
says without those, and the turns are aligned by it.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from refold.core.blocks import Block, read_blocks, result_is_error, result_text
from refold.core.records import (
    AssistantRecord,
    Fingerprint,
    Json,
    MetaRecord,
    Record,
    TerminalRecord,
    ToolResultRecord,
    UserRecord,
)
from refold.core.rivumi.compare import state_values
from refold.core.rivumi.events_state import EventsState
from refold.core.state import Counters, RunState

_IDS: Final = frozenset({"id", "tool_use_id", "ToolUseID", "ID", "cache_control"})
"""Members of a block that differ between two attempts that do the same."""
_HEADS: Final = frozenset({"assistant", "user", "terminal"})
"""Kinds with which a turn begins."""
_DEEPEST: Final = 40
"""How often a stretch between two anchors is searched for further ones."""


class Face(NamedTuple):
    """What a record says, without its number, its time, and the ids of its calls."""

    kind: str
    said: bytes
    calls: tuple[bytes, ...] = ()
    """Of each call its tool and its arguments."""


class Pair(NamedTuple):
    """Two records that stand for each other, or one that stands alone; indexes into what was aligned."""

    a: int | None
    b: int | None


class Field(NamedTuple):
    """One value of two states."""

    name: str
    a: Json
    b: Json
    same: bool


State: TypeAlias = RunState | EventsState
"""What a run folds to: the records of a journal, or the events of a run that is a directory."""

Lane: TypeAlias = tuple[Sequence[object], Sequence[str]]
"""What is aligned: keys that are equal where two entries say the same, and their kinds."""


def same_start(a: MetaRecord, b: MetaRecord) -> bool:
    """Say whether two runs were started with the same: fingerprint and prompt."""
    return a.fingerprint == b.fingerprint and a.prompt == b.prompt


def face_of(kind: str, record: Record) -> Face | None:
    """Give the face of a record; None for one whose bytes must speak for it."""
    match record:
        case MetaRecord():
            start = record.fingerprint
            return Face(kind, _digest([record.prompt, [getattr(start, name) for name in _FINGERPRINT]]))
        case AssistantRecord():
            blocks = read_blocks(record.message.content)
            said: list[Json] = [_block(block) for block in blocks if block.kind != "call"]
            calls = tuple(_digest([block.name, block.input]) for block in blocks if block.kind == "call")
            return Face(kind, _digest([record.stop_reason, *said]), calls)
        case UserRecord():
            return Face(kind, _digest([_block(block) for block in read_blocks(record.message.content)]))
        case ToolResultRecord():
            return Face(kind, _digest([*_result(record.result), record.remote]))
        case TerminalRecord():
            return Face(kind, _digest([record.reason, record.message]))
        case _:
            return None


def face_of_bytes(kind: str, pieces: Iterator[bytes]) -> Face:
    """Give a face to what is no record, or too large to be decoded for this: its bytes."""
    digest = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        digest.update(piece)
    return Face(kind, digest.digest())


def align(a: Sequence[Face], b: Sequence[Face]) -> Iterator[Pair]:
    """Pair the records of two runs, in the order of both; each stands in exactly one pair.

    Turns are paired first, those that begin alike before those that only stand at the same place; then the
    records within two turns.
    """
    turns_a, turns_b = _turns(a), _turns(b)
    for turn in _paired(_lane(a, turns_a), _lane(b, turns_b)):
        mine, theirs = _turn(turns_a, turn.a), _turn(turns_b, turn.b)
        inner_a, inner_b = [a[place] for place in mine], [b[place] for place in theirs]
        for pair in _paired(_records(inner_a), _records(inner_b)):
            yield Pair(None if pair.a is None else mine[pair.a], None if pair.b is None else theirs[pair.b])


def state_fields(a: State, b: State, common_messages: int) -> tuple[Field, ...]:
    """Compare two states field by field, the ids and times of the runs left out.

    Args:
        a: the one.
        b: the other; of two states of different kinds only what both know is compared.
        common_messages: with how many messages both begin: further ones are not the same, however many.
    """
    if isinstance(a, RunState) and isinstance(b, RunState):
        return _journal_fields(a, b, common_messages)
    values, others = _values(a), _values(b)
    return tuple(_field(name, value, others[name]) for name, value in values.items() if name in others)


def _values(state: State) -> dict[str, Json]:
    if isinstance(state, EventsState):
        return state_values(state)
    return {
        "step": state.counters.llm_calls,
        "model": state.fingerprint.model,
        "calls": state.counters.tool_calls,
        "open_calls": _pending(state) or [],
        "in_tokens": state.counters.in_tokens,
        "out_tokens": state.counters.out_tokens,
        "terminal": _terminal(state),
    }


def _journal_fields(a: RunState, b: RunState, common_messages: int) -> tuple[Field, ...]:
    messages = (len(a.messages), len(b.messages))
    return (
        _field("prompt", a.prompt, b.prompt),
        _field("interactive", a.interactive, b.interactive),
        _field("next_iteration", a.next_iteration, b.next_iteration),
        Field("messages", *messages, same=messages[0] == messages[1] <= common_messages),
        _field("last_stop_reason", a.last_stop_reason, b.last_stop_reason),
        _field("pending", _pending(a), _pending(b)),
        _field("terminal", _terminal(a), _terminal(b)),
        *counter_fields(a.counters, b.counters),
    )


def counter_fields(a: Counters, b: Counters) -> tuple[Field, ...]:
    """Compare the sums of two states."""
    names = Counters.__struct_fields__
    return tuple(_field(name, getattr(a, name), getattr(b, name)) for name in names)


def fingerprint_fields(a: Fingerprint, b: Fingerprint) -> tuple[Field, ...]:
    """Compare what two runs were started with."""
    return tuple(_field(name, getattr(a, name), getattr(b, name)) for name in _FINGERPRINT)


_FINGERPRINT: Final = tuple(Fingerprint.__struct_fields__)


def _field(name: str, a: Json, b: Json) -> Field:
    return Field(name, a, b, same=a == b)


def _pending(state: RunState) -> list[Json] | None:
    return None if state.pending is None else [call.name for call in state.pending.unanswered]


def _terminal(state: RunState) -> str | None:
    if state.terminal is None:
        return None
    return f"{state.terminal.reason}: {state.terminal.message}".removesuffix(": ")


def _digest(value: Json) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _block(block: Block) -> list[Json]:
    """Give what a block says; the signature of a thought is not part of it."""
    if block.kind in ("text", "thinking"):
        return [block.kind, block.text]
    if block.kind == "result":
        return [block.kind, block.text, block.is_error]
    return [block.kind, _without_ids(block.raw)]


def _result(result: Json) -> list[Json]:
    """Give what a result says, in whatever shape: its text, whether it failed, and what is no text."""
    content = result.get("content") if isinstance(result, dict) else None
    items = content if isinstance(content, list) else []
    return [
        result_text(result),
        result_is_error(result),
        [item for item in items if isinstance(item, dict) and "text" not in item],
    ]


def _without_ids(block: Json) -> Json:
    if not isinstance(block, dict):
        return block
    return {name: value for name, value in block.items() if name not in _IDS}


def _turns(faces: Sequence[Face]) -> Sequence[int]:
    """Cut records into turns: each begins with what the model or the user said; the end comes last."""
    starts = array("Q", (place for place, face in enumerate(faces) if not place or face.kind in _HEADS))
    starts.append(len(faces))
    return starts


def _turn(turns: Sequence[int], number: int | None) -> range:
    return range(0) if number is None else range(turns[number], turns[number + 1])


def _lane(faces: Sequence[Face], turns: Sequence[int]) -> Lane:
    heads = [faces[start] for start in turns[:-1]]
    return heads, [head.kind for head in heads]


def _records(faces: Sequence[Face]) -> Lane:
    return faces, [face.kind for face in faces]


def _paired(a: Lane, b: Lane) -> Iterator[Pair]:
    """Pair entries: by equal keys where that can be done in order, else by place and kind."""
    at_a = at_b = 0
    for place_a, place_b in [*_anchors(a[0], b[0]), (len(a[0]), len(b[0]))]:
        yield from _by_place(a[1], range(at_a, place_a), b[1], range(at_b, place_b))
        if place_a < len(a[0]):
            yield Pair(place_a, place_b)
        at_a, at_b = place_a + 1, place_b + 1


def _by_place(kinds_a: Sequence[str], a: range, kinds_b: Sequence[str], b: range) -> Iterator[Pair]:
    """Pair what stands between two anchors, in order; what has no counterpart of its kind is alone."""
    i, j = a.start, b.start
    while i < a.stop and j < b.stop:
        if kinds_a[i] == kinds_b[j]:
            yield Pair(i, j)
            i, j = i + 1, j + 1
        elif kinds_b[j] == "assistant" or kinds_a[i] in ("event", "note", "damage"):
            yield Pair(i, None)
            i += 1
        else:
            yield Pair(None, j)
            j += 1
    yield from (Pair(place, None) for place in range(i, a.stop))
    yield from (Pair(None, place) for place in range(j, b.stop))


def _anchors(a: Sequence[object], b: Sequence[object]) -> list[tuple[int, int]]:
    """Find equal entries in an order that holds on both sides.

    Ends that are alike come first, then entries that stand once on each side, then the same between those:
    not always the longest such order, but found in little more time than it takes to read both.
    """
    found: list[tuple[int, int]] = []
    open_: list[tuple[range, range, int]] = [(range(len(a)), range(len(b)), 0)]
    while open_:
        mine, theirs, depth = open_.pop()
        i, j, end_i, end_j = mine.start, theirs.start, mine.stop, theirs.stop
        while i < end_i and j < end_j and a[i] == b[j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        while i < end_i and j < end_j and a[end_i - 1] == b[end_j - 1]:
            end_i, end_j = end_i - 1, end_j - 1
            found.append((end_i, end_j))
        if i == end_i or j == end_j or depth == _DEEPEST:
            continue
        once = _rising(_once(a, range(i, end_i)), _once(b, range(j, end_j)))
        for place_a, place_b in once:
            open_.append((range(i, place_a), range(j, place_b), depth + 1))
            i, j = place_a, place_b
        if once:
            open_.append((range(i, end_i), range(j, end_j), depth + 1))
    return sorted(found)


def _once(keys: Sequence[object], places: range) -> dict[object, int]:
    """Give the keys that stand once among some places, and where."""
    seen: dict[object, int] = {}
    twice: set[object] = set()
    for place in places:
        if seen.setdefault(keys[place], place) != place:
            twice.add(keys[place])
    for key in twice:
        del seen[key]
    return seen


def _rising(a: dict[object, int], b: dict[object, int]) -> list[tuple[int, int]]:
    """Give the longest choice of common keys whose places rise on both sides."""
    both = [(place, b[key]) for key, place in a.items() if key in b]
    ends: list[int] = []
    holders: list[int] = []
    before: list[int] = []
    for index, (_, place) in enumerate(both):
        length = bisect_left(ends, place)
        before.append(holders[length - 1] if length else -1)
        if length == len(ends):
            ends.append(place)
            holders.append(index)
        else:
            ends[length], holders[length] = place, index
    chosen: list[tuple[int, int]] = []
    index = holders[-1] if holders else -1
    while index >= 0:
        chosen.append(both[index])
        index = before[index]
    return chosen[::-1]
