"""Where a replay stops: conditions in the filter language over a record, and the state that it leads to.

    tool:bash error:yes; tokens>100k; pending>0; file:auth.py

All terms of a condition must hold; a semicolon begins another one, and any of them stops. A condition that
speaks of a record stops at every record that is such. One that speaks of the state alone stops where it
becomes true, or every record after it would be a stop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import tzinfo
from typing import Final, NamedTuple, Protocol, TypeAlias

from refold.core.columns import ASSISTANT, CALL, DAMAGE, KINDS
from refold.core.fields import NUMBERS
from refold.core.filter_terms import (
    NO,
    YES,
    FilterError,
    Term,
    Vocabulary,
    compared,
    limit,
    moment,
    parts,
    terms,
    yes_or_no,
)
from refold.core.named_files import names_file
from refold.core.records import Json
from refold.core.search import Search
from refold.core.timeline import Timeline

KEYS: Final = {
    "kind": "kind:assistant or kind:result",
    "tool": "tool:bash",
    "error": "error:yes",
    "problem": "problem:yes or problem:glued",
    "text": 'text:"no such file"',
    "file": "file:auth.py",
    "phase": "phase:suspended",
    "after": "after:14:30 or after:2026-07-24T14:30",
    "before": "before:14:30 or before:2026-07-24",
}
"""Every key with an example of its use."""

STATE_KEYS: Final = frozenset({"phase", "after", "before"})
"""Keys that speak of all records up to one."""

_OF_RUNS: Final = frozenset({"status", "agent", "model", "fork"})
_WORDS: Final = Vocabulary(
    KEYS,
    {name: field.says for name, field in NUMBERS.items()},
    strict=True,
    foreign=_OF_RUNS,
    remedy="it tells of a whole run, not of one of its records",
)
_CHUNK: Final = 131_072
_DECODED: Final = 1_048_576
"""Records above this many bytes are not decoded to see what they mean by a text that stands in them."""

Quick: TypeAlias = Callable[[Timeline, int], bool]
"""A test that the columns answer."""
Answer: TypeAlias = Generator[None, None, bool]
"""A test in small steps of work; what it returns is the answer."""


class Texts(Protocol):
    """Gives what stands in the records of a run."""

    def raw_part(self, item: int, start: int, size: int | None = None) -> bytes:
        """Give some bytes of an item, counted from its own start."""

    def calls(self, item: int) -> Sequence[tuple[str, Json]]:
        """Give tool and arguments of the calls of an item."""


class Slow(NamedTuple):
    """A term that the bytes of a record have to answer."""

    searches: tuple[Search, ...]
    """Any of these texts is enough."""
    negated: bool
    in_file_names: bool
    """The text is the name of a file that a call names."""


class Condition(NamedTuple):
    """What must hold at a record."""

    source: str
    """As it was typed."""
    quick: tuple[Quick, ...] = ()
    slow: tuple[Slow, ...] = ()
    of_state: bool = False
    """It speaks of the state alone."""

    def stops(self, timeline: Timeline, texts: Texts, item: int) -> Answer:
        """Say in small steps whether a replay that comes to an item stops there."""
        for test in self.quick:
            if not test(timeline, item):
                return False
        for term in self.slow:
            found = yield from _found(term, timeline, texts, item)
            if found is term.negated:
                return False
        if self.of_state and item > 0:
            return not all(test(timeline, item - 1) for test in self.quick)
        return True


def parse_breakpoints(text: str, now: float, *, zone: tzinfo | None = None) -> tuple[Condition, ...]:
    """Understand conditions, parted by semicolons.

    Args:
        text: As typed.
        now: The time that `after:2h` and `after:14:30` count from, in seconds since 1970.
        zone: The zone of dates and times; None for the local one.

    Raises:
        FilterError: a key or a number is not known, or a value does not fit.
    """
    found: list[Condition] = []
    for start, piece in parts(text, ";"):
        try:
            condition = _condition(piece, now, zone)
        except FilterError as fault:
            raise FilterError(
                str(fault), position=start + fault.position, length=fault.length, remedy=fault.remedy
            ) from None
        if condition is not None:
            found.append(condition)
    return tuple(found)


def first_stop(
    conditions: Sequence[Condition], timeline: Timeline, texts: Texts, item: int
) -> Generator[None, None, Condition | None]:
    """Give, in small steps, the first of some conditions that stops a replay at an item."""
    for condition in conditions:
        if (yield from condition.stops(timeline, texts, item)):
            return condition
    return None


def names_a_file(search: Search, timeline: Timeline, texts: Texts, item: int) -> Answer:
    """Say in small steps whether a call of an item names a file."""
    if timeline.columns.kind[item] not in {ASSISTANT, CALL}:
        return False
    if not (yield from _stands_in(search, timeline, texts, item)):
        return False
    if timeline.columns.length[item] > _DECODED:
        return True
    for tool, given in texts.calls(item):
        if (yield from names_file(tool, given, search.query)):
            return True
    return False


def _condition(text: str, now: float, zone: tzinfo | None) -> Condition | None:
    quick: list[Quick] = []
    slow: list[Slow] = []
    of_state = True
    for term in terms(text, _WORDS):
        if term.key in {"text", "file", ""}:
            slow.append(Slow(tuple(map(Search, term.values)), term.negated, term.key == "file"))
            of_state = False
            continue
        test = _number(term) if term.key in NUMBERS else _keyed(term, now, zone)
        quick.append(_not(test) if term.negated else test)
        of_state = of_state and _is_of_state(term.key)
    if not quick and not slow:
        return None
    return Condition(text.strip(), tuple(quick), tuple(slow), of_state)


def _is_of_state(key: str) -> bool:
    return NUMBERS[key].of_state if key in NUMBERS else key in STATE_KEYS


def _not(test: Quick) -> Quick:
    return lambda timeline, item: not test(timeline, item)


def _number(term: Term) -> Quick:
    field, sign = NUMBERS[term.key], term.sign
    edge, value = limit(term, field.counts), field.of
    return lambda timeline, item: compared(sign, value(timeline, item), edge)


def _keyed(term: Term, now: float, zone: tzinfo | None) -> Quick:
    if term.key in {"after", "before"}:
        return _when(term, now, zone)
    return _BY_KEY[term.key](term)


def _kind(term: Term) -> Quick:
    wanted: set[int] = set()
    for value in term.folded:
        named = {code for code, kind in enumerate(KINDS) if kind.startswith(value)}
        if not named:
            raise term.fault(f"no kind of record begins with “{value}”", f"one of {' '.join(KINDS)}")
        wanted |= named

    def test(timeline: Timeline, item: int) -> bool:
        kind = timeline.columns.kind[item]
        return kind in wanted or (CALL in wanted and kind == ASSISTANT and timeline.own_calls(item) > 0)

    return test


def _tool(term: Term) -> Quick:
    values = term.folded
    return lambda timeline, item: any(
        value in name.casefold() for name in tools_of(timeline, item) for value in values
    )


def tools_of(timeline: Timeline, item: int) -> Iterator[str]:
    """Yield the names of the tools that an item calls, or whose result it is."""
    kind = timeline.columns.kind[item]
    if kind == ASSISTANT:
        for call in range(timeline.own_calls(item)):
            yield timeline.call_name(item, call)
    elif kind != DAMAGE and (name := timeline.tool_name(timeline.first_row(item))):
        yield name


def _error(term: Term) -> Quick:
    wanted = yes_or_no(term)
    return lambda timeline, item: timeline.is_error(item) in wanted


def _problem(term: Term) -> Quick:
    values = term.folded

    def test(timeline: Timeline, item: int) -> bool:
        codes = " ".join(timeline.problem_codes(item)).casefold()
        return any(
            bool(codes) if value in YES else not codes if value in NO else value in codes for value in values
        )

    return test


def _phase(term: Term) -> Quick:
    values = term.folded
    return lambda timeline, item: any(value in timeline.phase(item).casefold() for value in values)


def _when(term: Term, now: float, zone: tzinfo | None) -> Quick:
    if len(term.values) > 1:
        raise term.fault(f"{term.key}: takes one date", f"for example {KEYS[term.key]}")
    edge = moment(term, now, zone, KEYS[term.key])
    if term.key == "after":
        return lambda timeline, item: timeline.columns.seconds[item] >= edge
    return lambda timeline, item: timeline.columns.seconds[item] < edge


_BY_KEY: Final[dict[str, Callable[[Term], Quick]]] = {
    "kind": _kind,
    "tool": _tool,
    "error": _error,
    "problem": _problem,
    "phase": _phase,
}


def _found(term: Slow, timeline: Timeline, texts: Texts, item: int) -> Answer:
    for search in term.searches:
        if term.in_file_names:
            found = yield from names_a_file(search, timeline, texts, item)
        else:
            found = yield from _says(search, timeline, texts, item)
        if found:
            return True
    return False


def _says(search: Search, timeline: Timeline, texts: Texts, item: int) -> Answer:
    """Say whether a reader of a record could see a text in it."""
    if not (yield from _stands_in(search, timeline, texts, item)):
        return False
    return timeline.columns.length[item] > _DECODED or search.in_record(texts.raw_part(item, 0))


def _stands_in(search: Search, timeline: Timeline, texts: Texts, item: int) -> Answer:
    """Say whether a text stands in the bytes of a record, read a piece at a time."""
    length, at = timeline.columns.length[item], 0
    while at < length:
        start = max(0, at - search.reach)
        if search.candidate(texts.raw_part(item, start, at + _CHUNK - start)) >= 0:
            return True
        at += _CHUNK
        yield
    return False
