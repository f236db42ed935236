"""What keeps happening in a run: calls made again and again, edits undone, streaks of errors, silence.

Pure. The columns of the index answer most of it; arguments are read for a bounded number of records at the
end of the run, and how many that were is part of the answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from refold.core.calls_made import CallSource, Made, key_of
from refold.core.columns import RECOVERED, RESULT
from refold.core.records import Fingerprint, Json
from refold.core.timeline import Timeline

PatternName: TypeAlias = Literal["repeated", "reverted", "errors", "growing", "budget", "silence"]

DECODED: Final = 1000
"""Turns whose arguments are read, counted from the end; and as many results."""
_STEP: Final = 1024
"""Items of the index that are looked at in one go."""
_SHOWN: Final = 50
_NAMED: Final = 3
"""So many patterns of one kind are named, the strongest first."""
_TIMES: Final = 3
_ERRORS: Final = 3
_TURNS: Final = 3
_NEARLY: Final = 0.9
_SILENCE: Final = 60.0
_LONGER: Final = 10
_PATHS: Final = ("path", "file_path", "file", "filename")
_EDITS: Final = (
    ("old", "new"),
    ("old_string", "new_string"),
    ("old_text", "new_text"),
    ("old_str", "new_str"),
    ("search", "replace"),
)
_CONTENTS: Final = ("content", "contents", "text", "file_text")


class Pattern(msgspec.Struct, frozen=True):
    """One thing that keeps happening."""

    name: PatternName
    sentence: str
    seqs: tuple[int, ...] = ()
    """The records in which it shows, in order; the last ones where there are many."""


class Patterns(msgspec.Struct, frozen=True):
    """What was found, and in how much of the run."""

    found: tuple[Pattern, ...]
    turns: int
    """Turns with calls there are; of an event log its calls."""
    decoded: int
    """Those of them whose arguments were read."""
    counted: str = "turns with calls"

    @property
    def looked(self) -> str:
        """Say how much of the run was looked at."""
        if self.decoded == self.turns:
            return "all arguments were compared" if self.turns else "it made no calls"
        return f"arguments of {self.decoded:,} of {self.turns:,} {self.counted} were compared, the last ones"


class Limit(NamedTuple):
    """Something that a run may use only so much of."""

    what: str
    used: int
    most: int
    """0 for no limit."""
    spoken: Callable[[int], str] = "{:,}".format
    """How both are said."""
    note: str = ""
    """What else a reader has to know of the count."""


def look_for(timeline: Timeline, source: CallSource, limits: Sequence[Limit]) -> Iterator[Patterns | None]:
    """Look for patterns in small steps.

    Args:
        timeline: The index of the run, complete.
        source: Its calls.
        limits: What it may use only so much of.

    Yields:
        None where there was work without a result; at last what was found.
    """
    found: list[Pattern] = [*_budget(timeline, limits)]
    streaks = _Streaks(timeline)
    asking: list[int] = []
    for first in range(0, timeline.items, _STEP):
        for item in range(first, min(timeline.items, first + _STEP)):
            streaks.take(item)
            if source.asks(item):
                asking.append(item)
        yield None
    found += streaks.found()
    made: list[Made] = []
    decoded = 0
    for item in asking[-DECODED:]:
        calls = source.calls(item)
        decoded += calls is not None
        made += calls or ()
        yield None
    for first in range(asking[-DECODED:][0] if asking else timeline.items, timeline.items, _STEP):
        source.learn(first, min(timeline.items, first + _STEP))
        yield None
    repeated = _Repeated(timeline, made, source)
    for key in repeated.worth_a_look():
        for place in repeated.places[key][-DECODED:]:
            repeated.read(key, place)
            yield None
    found += repeated.found()
    yield None
    found += _reverted(timeline, made)
    yield None
    found += _growing(timeline, made, source)
    yield None
    found += _silence(timeline, source)
    yield Patterns(tuple(found), len(asking), decoded, source.counted)


def limits_of(timeline: Timeline, saved: Fingerprint, *, chat: bool) -> tuple[Limit, ...]:
    """Give the limits of a journal.

    Args:
        timeline: The index of the run, complete.
        saved: What its meta record says.
        chat: The run is a conversation: its limit of iterations starts anew with each prompt.
    """
    if not timeline.items:
        return ()
    sums = timeline.counters(timeline.items - 1)
    tokens = Limit("tokens of the budget", sums.tokens, saved.max_tokens)
    return (tokens,) if chat else (tokens, Limit("turns", sums.llm_calls, saved.max_iterations))


def _budget(timeline: Timeline, limits: Sequence[Limit]) -> Iterator[Pattern]:
    last = timeline.last_seq
    for limit in limits:
        if limit.most <= 0 or limit.used < _NEARLY * limit.most:
            continue
        used, most = limit.spoken(limit.used), limit.spoken(limit.most)
        if limit.used > limit.most:
            said = f"{used} {limit.what} are used: the limit of {most} is passed"
        elif limit.used == limit.most:
            said = f"{used} of {most} {limit.what} are used: nothing is left"
        else:
            said = f"{used} of {most} {limit.what} are used ({int(100 * limit.used / limit.most)} %)"
        yield Pattern("budget", said + (f"; {limit.note}" if limit.note else ""), _one(last))


def _one(seq: int | None) -> tuple[int, ...]:
    return () if seq is None else (seq,)


class _Streaks:
    """Results that failed one after the other: the longest streak, and the one at the end."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._now: list[int] = []
        self._count = self._best = 0
        self._longest: list[int] = []

    def take(self, item: int) -> None:
        if self._timeline.columns.kind[item] != RESULT:
            return
        if not self._timeline.is_error(item):
            self._now, self._count = [], 0
            return
        self._count += 1
        if len(self._now) < _SHOWN:
            self._now.append(item)
        if self._count > self._best:
            self._best, self._longest = (
                self._count,
                list(self._now) if self._count <= _SHOWN else self._longest,
            )

    def found(self) -> Iterator[Pattern]:
        if self._count >= _ERRORS:
            said = f"the last {self._count:,} results were errors"
            yield Pattern("errors", said, _seqs(self._timeline, self._now))
        if self._best >= _ERRORS and self._best > self._count:
            yield Pattern(
                "errors", f"{self._best:,} results in a row were errors", _seqs(self._timeline, self._longest)
            )


def _seqs(timeline: Timeline, items: list[int]) -> tuple[int, ...]:
    return tuple(seq for item in items[-_SHOWN:] if (seq := timeline.seq(item)) is not None)


class _Repeated:
    """The same call, made again and again."""

    def __init__(self, timeline: Timeline, made: list[Made], source: CallSource) -> None:
        self._timeline = timeline
        self._source = source
        self.places: dict[bytes, list[Made]] = {}
        self._in_a_row: dict[bytes, int] = {}
        self._answers: dict[bytes, dict[bytes, int]] = {}
        self._failed: dict[bytes, int] = {}
        row, before = 0, b""
        for call in made:
            self.places.setdefault(call.key, []).append(call)
            row = row + 1 if call.key == before else 1
            before = call.key
            self._in_a_row[call.key] = max(self._in_a_row.get(call.key, 0), row)

    def worth_a_look(self) -> list[bytes]:
        """Give the calls that were made often enough, the most frequent ones first."""
        often = [key for key, places in self.places.items() if len(places) >= _TIMES]
        return sorted(often, key=lambda key: -len(self.places[key]))[:_NAMED]

    def read(self, key: bytes, place: Made) -> None:
        """Note what a call was answered with."""
        item = self._source.answered(place)
        text = None if item is None else self._source.answer(item)
        if item is None or text is None:
            return
        answer = hashlib.blake2b(text, digest_size=16).digest()
        answers = self._answers.setdefault(key, {})
        answers[answer] = answers.get(answer, 0) + 1
        self._failed[key] = self._failed.get(key, 0) + self._timeline.is_error(item)

    def found(self) -> Iterator[Pattern]:
        for key in self.worth_a_look():
            places, row = self.places[key], self._in_a_row[key]
            equal = max(self._answers.get(key, {}).values(), default=0)
            if row < _TIMES and equal < _TIMES:
                continue
            said = f"{_short(places[0].name)} was called {len(places):,} times with the same arguments"
            if row >= _TIMES:
                said += ", without a break" if row == len(places) else f", {row:,} times without a break"
            if self._failed.get(key) == len(places):
                said += ", and failed each time"
            elif equal == len(places):
                said += ", and gave the same result each time"
            yield Pattern("repeated", said, _seqs(self._timeline, [place.item for place in places]))


def _reverted(timeline: Timeline, made: list[Made]) -> Iterator[Pattern]:
    """Find files that were changed and changed back: by what replaces what, or by what is written."""
    edits: dict[tuple[str, bytes, bytes], Made] = {}
    written: dict[str, list[bytes]] = {}
    undone: dict[str, list[int]] = {}
    count: dict[str, int] = {}
    for call in made:
        path = _text(call.input, _PATHS)
        if not path or not isinstance(call.input, dict):
            continue
        pair = next(
            (each for each in _EDITS if all(isinstance(call.input.get(key), str) for key in each)), None
        )
        back: int | None = None
        if pair is not None:
            old, new = (key_of("", call.input[key]) for key in pair)
            before = edits.pop((path, new, old), None)
            if before is None:
                edits[path, old, new] = call
            else:
                back = before.item
        elif content := _text(call.input, _CONTENTS):
            contents = written.setdefault(path, [])
            now = key_of("", content)
            if contents and contents[-1] != now and now in contents[-_SHOWN:]:
                back = call.item
            contents.append(now)
        if back is not None:
            undone.setdefault(path, []).extend((back, call.item))
            count[path] = count.get(path, 0) + 1
    for path in sorted(undone, key=lambda each: -count[each])[:_NAMED]:
        times = "" if count[path] == 1 else f", {count[path]:,} times"
        seqs = tuple(dict.fromkeys(_seqs(timeline, sorted(set(undone[path])))))
        yield Pattern("reverted", f"{_short(path)} was changed and changed back{times}", seqs)


def _text(given: Json, names: tuple[str, ...]) -> str:
    if not isinstance(given, dict):
        return ""
    return next((value for name in names if isinstance(value := given.get(name), str) and value), "")


def _growing(timeline: Timeline, made: list[Made], source: CallSource) -> Iterator[Pattern]:
    """Find turns at the end in which nothing new was done while the model was sent more and more."""
    by_turn: dict[int, bool] = {}
    seen: set[bytes] = set()
    for call in made:
        answer = source.answered(call)
        failed = answer is not None and timeline.is_error(answer)
        by_turn[call.turn] = by_turn.get(call.turn, False) or (call.key not in seen and not failed)
        seen.add(call.key)
    idle: list[int] = []
    for item in reversed(by_turn):
        if by_turn[item]:
            break
        idle.append(item)
    if len(idle) < _TURNS:
        return
    first, last = _context(timeline, idle[-1]), _context(timeline, idle[0])
    if last > first > 0:
        said = (
            f"over the last {len(idle):,} turns every call failed or had been made before, "
            f"and the context grew from {first:,} to {last:,} tokens"
        )
        yield Pattern("growing", said, _seqs(timeline, idle[::-1]))


def _context(timeline: Timeline, item: int) -> int:
    """Give how many tokens the model was sent for a turn."""
    columns = timeline.columns
    sums = (columns.in_tokens, columns.cache_read, columns.cache_create)
    return sum(column[item] - (column[item - 1] if item else 0) for column in sums)


def _silence(timeline: Timeline, source: CallSource) -> Iterator[Pattern]:
    """Find a long gap before the last record; what waits for a person does not count."""
    columns = timeline.columns
    timed = [
        item
        for item in range(max(0, timeline.items - DECODED), timeline.items)
        if timeline.seconds(item) is not None and not columns.flags[item] & RECOVERED
    ]
    if len(timed) < _TIMES + 1:
        return
    times = [timeline.seconds(item) or 0.0 for item in timed]
    gaps = [after - before for before, after in pairwise(times)]
    usual = max(0.0, median(gaps[:-1]))
    before, last = timed[-2], timed[-1]
    if not source.waited(before, last) and gaps[-1] >= max(_SILENCE, _LONGER * usual):
        said = (
            f"{_length(gaps[-1])} passed before the last record; until then one came every {_length(usual)}"
        )
        yield Pattern("silence", said, _seqs(timeline, [before, last]))


def _length(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
