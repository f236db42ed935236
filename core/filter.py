"""The one filter language of the screen and the command line, from text to a test of summaries.

Words match the id and the prompt; `key:value` narrows; `-` negates; quotes keep a phrase; a comma is
"any of":

    status:crashed,suspended model:opus -agent:rivumi after:2d "rename the notes"
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from refold.core.errors import RefoldError
from refold.core.search import Search
from refold.core.status import STATUSES

if TYPE_CHECKING:
    from refold.core.summary import RunSummary

Test: TypeAlias = "Callable[[RunSummary, str], bool]"
"""Takes a summary and its haystack."""

KEYS: Final = {
    "status": "status:crashed,suspended",
    "agent": "agent:fisk-ai",
    "model": "model:opus",
    "tool": "tool:read_file",
    "text": 'text:"no such file"',
    "error": "error:yes",
    "problem": "problem:yes or problem:glued",
    "after": "after:2026-07-24, after:14:30 or after:2d",
    "before": "before:2026-07-24, before:14:30 or before:1w",
    "fork": "fork:yes or fork:ID of the parent",
}
"""Every key with an example of its use."""

_YES: Final = frozenset({"yes", "y", "true"})
_NO: Final = frozenset({"no", "n", "false"})
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_KEY: Final = re.compile(r"([A-Za-z][A-Za-z_-]*):")
_LAST_WORD: Final = re.compile(r"(?<!\S)-?([A-Za-z]+)\Z")
_SPAN: Final = re.compile(r"(?:\d{1,7}[smhdw])+")
_SPAN_PART: Final = re.compile(r"(\d+)([smhdw])")
_CLOCK: Final = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?")
_DATE: Final = re.compile(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?")
_MOMENT: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:[Zz]|[+-]\d{2}:\d{2})?"
)


class FilterError(RefoldError):
    """A filter that cannot be understood; the list keeps the last one that could."""

    def __init__(self, message: str, *, position: int, length: int = 1, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.position = position
        """The first character at fault, 0-based."""
        self.length = length
        """How many characters are at fault."""


class TextTerm(NamedTuple):
    """A `text:` term: only the bytes of a run can answer it."""

    searches: tuple[Search, ...]
    """Any of these texts is enough."""
    negated: bool


@dataclass(frozen=True, slots=True)
class Filter:
    """An understood filter; one without terms lets every run through."""

    source: str = ""
    words: tuple[str, ...] = ()
    """The words and phrases that must be in id or prompt, case-folded: what a row can highlight."""
    tests: tuple[Test, ...] = ()
    text: tuple[TextTerm, ...] = ()
    """What is left to be searched in the bytes of each run that matches."""

    def matches(self, summary: RunSummary, folded: str | None = None) -> bool:
        """Say whether a run passes all terms but those of `text`.

        Args:
            summary: The run.
            folded: Its `haystack`, where the caller keeps it.
        """
        hay = haystack(summary) if folded is None else folded
        for test in self.tests:  # noqa: SIM110 - a generator would cost half of it
            if not test(summary, hay):
                return False
        return True

    def __bool__(self) -> bool:
        return bool(self.tests or self.text)


def haystack(summary: RunSummary) -> str:
    """Give what words are looked for in: id and prompt, case-folded."""
    return f"{summary.id}\n{summary.prompt}".casefold()


def parse_filter(text: str, now: float, *, zone: tzinfo | None = None) -> Filter:
    """Understand a filter.

    Args:
        text: As typed.
        now: The time that `2h` and `14:30` count from, in seconds since 1970.
        zone: The zone of dates and times; None for the local one.

    Raises:
        FilterError: a key is not known, a value does not fit its key, or a quote stays open.
    """
    words: list[str] = []
    tests: list[Test] = []
    texts: list[TextTerm] = []
    for term in _terms(text):
        if term.key == "text":
            texts.append(TextTerm(tuple(map(Search, term.values)), term.negated))
            continue
        if term.key:
            test = _keyed(term, now, zone)
        else:
            word = term.values[0].casefold()
            test = _has_word(word)
            if not term.negated:
                words.append(word)
        tests.append(_not(test) if term.negated else test)
    return Filter(text, tuple(words), tuple(tests), tuple(texts))


def settled(text: str) -> str:
    """Give a filter that is being typed without its last word, where that may become a key.

    `sta` may stand for runs that say so, but more likely `status:` is under way, and the list would go
    empty letter by letter. A space behind the word settles it.
    """
    word = _LAST_WORD.search(text)
    if word is None or not any(key.startswith(word[1].lower()) for key in KEYS):
        return text
    return text[: word.start()]


class _Term(NamedTuple):
    """One term as written."""

    key: str
    values: tuple[str, ...]
    negated: bool
    start: int
    value_start: int
    end: int

    def fault(self, message: str, remedy: str) -> FilterError:
        """The value of this term is at fault."""
        length = max(1, self.end - self.value_start)
        return FilterError(message, position=self.value_start, length=length, remedy=remedy)


def _terms(text: str) -> list[_Term]:
    terms: list[_Term] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        term = _term(text, at)
        terms.append(term)
        at = term.end
    return terms


def _term(text: str, start: int) -> _Term:
    at = start
    negated = text[at] == "-"
    if negated:
        at += 1
    key = ""
    if found := _KEY.match(text, at):
        key = found[1].lower()
        if key not in KEYS:
            raise FilterError(
                f"there is no key {key}:",
                position=at,
                length=len(found[0]),
                remedy=f"keys: {' '.join(KEYS)}; to look for the words themselves, put them in quotes",
            )
        at = found.end()
    pieces, end = _value(text, at, split=bool(key))
    values = tuple(piece for piece in pieces if piece)
    term = _Term(key, values, negated, start, at, end)
    if not values:
        if key:
            raise FilterError(
                f"{key}: needs a value", position=start, length=end - start, remedy=f"for example {KEYS[key]}"
            )
        raise FilterError(
            "nothing to look for here",
            position=start,
            length=max(1, end - start),
            remedy="put a word behind the -" if negated else "put a word between the quotes",
        )
    return term


def _value(text: str, start: int, *, split: bool) -> tuple[list[str], int]:
    """Read up to the next space outside quotes; commas outside quotes part the pieces."""
    pieces = [""]
    at = start
    while at < len(text) and not text[at].isspace():
        char = text[at]
        if char == '"':
            quoted, at = _quoted(text, at)
            pieces[-1] += quoted
            continue
        if char == "," and split:
            pieces.append("")
        else:
            pieces[-1] += char
        at += 1
    return pieces, at


def _quoted(text: str, start: int) -> tuple[str, int]:
    r"""Read a quoted piece; `\"` stands for a quote and `\\` for a backslash in it."""
    piece: list[str] = []
    at = start + 1
    while at < len(text):
        char = text[at]
        if char == '"':
            return "".join(piece), at + 1
        if char == "\\" and text[at + 1 : at + 2] in {'"', "\\"}:
            at += 1
            char = text[at]
        piece.append(char)
        at += 1
    raise FilterError(
        "this quote is not closed", position=start, length=len(text) - start, remedy='end the phrase with "'
    )


def _keyed(term: _Term, now: float, zone: tzinfo | None) -> Test:
    if term.key in {"after", "before"}:
        return _when(term, now, zone)
    return _BY_KEY[term.key](term)


def _not(test: Test) -> Test:
    return lambda summary, hay: not test(summary, hay)


def _has_word(word: str) -> Test:
    return lambda _, hay: word in hay


def _folded(term: _Term) -> tuple[str, ...]:
    return tuple(value.casefold() for value in term.values)


def _status(term: _Term) -> Test:
    wanted: set[str] = set()
    for value in _folded(term):
        named = {status for status in STATUSES if status.startswith(value)}
        if not named:
            raise term.fault(f"no status begins with “{value}”", f"one of {' '.join(STATUSES)}")
        wanted |= {value} if value in named else named
    return lambda summary, _: summary.status in wanted


def _agent(term: _Term) -> Test:
    values = _folded(term)
    return lambda summary, _: any(value in summary.format.casefold() for value in values)


def _model(term: _Term) -> Test:
    values = _folded(term)
    return lambda summary, _: any(value in summary.model.casefold() for value in values)


def _tool(term: _Term) -> Test:
    values = _folded(term)
    return lambda summary, _: any(value in tool.casefold() for tool in summary.tools for value in values)


def _error(term: _Term) -> Test:
    wanted = {_yes_or_no(term, value) for value in _folded(term)}
    return lambda summary, _: (summary.errors > 0) in wanted


def _problem(term: _Term) -> Test:
    tests = tuple(_one_problem(value) for value in _folded(term))
    return lambda summary, hay: any(test(summary, hay) for test in tests)


def _one_problem(value: str) -> Test:
    if value in _YES:
        return lambda summary, _: _has_problem(summary)
    if value in _NO:
        return lambda summary, _: not _has_problem(summary)
    if value == "torn":
        return lambda summary, _: summary.torn
    return lambda summary, _: any(value in code.casefold() for code in summary.problems)


def _has_problem(summary: RunSummary) -> bool:
    return bool(summary.damaged or summary.note)


def _fork(term: _Term) -> Test:
    tests = tuple(_one_fork(value) for value in _folded(term))
    return lambda summary, hay: any(test(summary, hay) for test in tests)


def _one_fork(value: str) -> Test:
    if value in _YES:
        return lambda summary, _: bool(summary.fork_of)
    if value in _NO:
        return lambda summary, _: not summary.fork_of
    return lambda summary, _: value in summary.fork_of.casefold()


def _yes_or_no(term: _Term, value: str) -> bool:
    if value in _YES:
        return True
    if value in _NO:
        return False
    raise term.fault(f"{term.key}: is yes or no, not “{value}”", f"{term.key}:yes or {term.key}:no")


def _when(term: _Term, now: float, zone: tzinfo | None) -> Test:
    if len(term.values) > 1:
        raise term.fault(f"{term.key}: takes one date", f"for example {KEYS[term.key]}")
    limit = _moment(term, now, zone)
    if term.key == "after":
        return lambda summary, _: summary.updated >= limit
    return lambda summary, _: summary.updated < limit


def _moment(term: _Term, now: float, zone: tzinfo | None) -> float:
    """The second that a date, a time of today or a length of time before now stands for."""
    value = term.values[0].lower()
    try:
        if _SPAN.fullmatch(value):
            return now - sum(int(count) * _SECONDS[unit] for count, unit in _SPAN_PART.findall(value))
        today = datetime.fromtimestamp(now, UTC).astimezone(zone).date()
        if value in {"today", "yesterday"}:
            day = today - timedelta(days=value == "yesterday")
            return _seconds(day.isoformat(), zone)
        if _CLOCK.fullmatch(value):
            return _seconds(
                f"{today.isoformat()}T{value:0>5}"
                if value.count(":") == 1
                else f"{today.isoformat()}T{value:0>8}",
                zone,
            )
        if found := _DATE.fullmatch(value):
            return _seconds(f"{found[1]}-{found[2] or '01'}-{found[3] or '01'}", zone)
        if _MOMENT.fullmatch(value):
            return _seconds(value.upper(), zone)
    except (ValueError, OverflowError, OSError):
        pass
    raise term.fault(f"“{term.values[0]}” is no date or time", f"for example {KEYS[term.key]}")


def _seconds(moment: str, zone: tzinfo | None) -> float:
    parsed = datetime.fromisoformat(moment)
    if parsed.tzinfo is None and zone is not None:
        parsed = parsed.replace(tzinfo=zone)
    return parsed.timestamp()


_BY_KEY: Final[dict[str, Callable[[_Term], Test]]] = {
    "status": _status,
    "agent": _agent,
    "model": _model,
    "tool": _tool,
    "error": _error,
    "problem": _problem,
    "fork": _fork,
}
