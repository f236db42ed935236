"""The terms of the filter language, whatever they are asked of: runs, or the records of one.

A word or a phrase; `key:value` with any of several values; `number>limit`; each with a `-` before it to say
the contrary. Quotes keep a phrase together, and take from what stands in them every other meaning.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple

from refold.core.amounts import amount_of, length_of, span_of
from refold.core.errors import RefoldError
from refold.core.nearest import nearest

NUMBER: Final = "number"
LENGTH: Final = "length of time"
"""What a number of the language counts."""

_KEY: Final = re.compile(r"([A-Za-z][A-Za-z_-]*):")
_COMPARED: Final = re.compile(r"([A-Za-z][A-Za-z_-]*)(>=|<=|>|<|=)")
_CLOCK: Final = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?")
_DATE: Final = re.compile(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?")
_MOMENT: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:[Zz]|[+-]\d{2}:\d{2})?"
)


class FilterError(RefoldError):
    """A text of the filter language that cannot be understood; what was in force before stays so."""

    def __init__(self, message: str, *, position: int, length: int = 1, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.position = position
        """The first character at fault, 0-based."""
        self.length = length
        """How many characters are at fault."""


class Term(NamedTuple):
    """One term as written."""

    key: str
    """In lower case; empty for a word or a phrase."""
    values: tuple[str, ...]
    negated: bool
    start: int
    value_start: int
    end: int
    sign: str = ":"
    """What stands between key and value: a colon, or how a number is compared."""

    def fault(self, message: str, remedy: str) -> FilterError:
        """The value of this term is at fault."""
        length = max(1, self.end - self.value_start)
        return FilterError(message, position=self.value_start, length=length, remedy=remedy)

    @property
    def folded(self) -> tuple[str, ...]:
        """The values without their case."""
        return tuple(value.casefold() for value in self.values)


class Vocabulary(NamedTuple):
    """What the terms may speak of."""

    keys: Mapping[str, str]
    """Every key with an example of its use."""
    numbers: Mapping[str, str]
    """Every number with what it counts."""
    strict: bool = False
    """Whether an unknown name before a `>` is at fault; else such a term is a word."""
    foreign: Container[str] = ()
    """Keys of the language that have no meaning here."""
    remedy: str = ""
    """Why they have none."""


def terms(text: str, words: Vocabulary) -> list[Term]:
    """Take a text apart.

    Raises:
        FilterError: a key is not known, a value is missing, or a quote stays open.
    """
    found: list[Term] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        term = _term(text, at, words)
        found.append(term)
        at = term.end
    return found


def parts(text: str, mark: str) -> list[tuple[int, str]]:
    """Give the pieces between marks outside of quotes, each with the place of its first character."""
    pieces: list[tuple[int, str]] = []
    start = at = 0
    while at < len(text):
        if text[at] == '"':
            _, at = _quoted(text, at)
            continue
        if text[at] == mark:
            pieces.append((start, text[start:at]))
            start = at + 1
        at += 1
    return [*pieces, (start, text[start:])]


def _term(text: str, start: int, words: Vocabulary) -> Term:
    at = start
    negated = text[at] == "-"
    if negated:
        at += 1
    key, sign = "", ":"
    if found := _KEY.match(text, at):
        key = found[1].lower()
        if key not in words.keys:
            raise _unknown_key(key, at, len(found[0]), words)
        at = found.end()
    elif (found := _COMPARED.match(text, at)) and (found[1].lower() in words.numbers or words.strict):
        key, sign = found[1].lower(), found[2]
        if key not in words.numbers:
            raise FilterError(
                f"there is no number {key}",
                position=at,
                length=len(found[0]),
                remedy=f"numbers: {' '.join(words.numbers)}; to look for the text itself, put it in quotes",
            )
        at = found.end()
    pieces, end = _value(text, at, split=bool(key) and sign == ":")
    values = tuple(piece for piece in pieces if piece)
    term = Term(key, values, negated, start, at, end, sign)
    if not values:
        if key:
            example = words.keys[key] if sign == ":" else f"{key}{sign}100"
            raise FilterError(
                f"{key}{sign} needs a value",
                position=start,
                length=end - start,
                remedy=f"for example {example}",
            )
        raise FilterError(
            "nothing to look for here",
            position=start,
            length=max(1, end - start),
            remedy="put a word behind the -" if negated else "put a word between the quotes",
        )
    return term


def _unknown_key(key: str, at: int, length: int, words: Vocabulary) -> FilterError:
    if key in words.numbers:
        said, remedy = f"{key} is a number", f"for example {key}>100"
    elif key in words.foreign:
        said, remedy = f"{key}: has no meaning here", words.remedy
    else:
        near = nearest(key, words.keys)
        said = f"there is no key {key}:" + (f"; did you mean {near}:?" if near else "")
        remedy = f"keys: {' '.join(words.keys)}; to look for the words themselves, put them in quotes"
    return FilterError(said, position=at, length=length, remedy=remedy)


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


def yes_or_no(term: Term) -> frozenset[bool]:
    """Give which of yes and no a term lets through.

    Raises:
        FilterError: it names something else.
    """
    wanted: set[bool] = set()
    for value in term.folded:
        if value not in YES | NO:
            remedy = f"{term.key}:yes or {term.key}:no"
            raise term.fault(f"{term.key}: is yes or no, not “{value}”", remedy)
        wanted.add(value in YES)
    return frozenset(wanted)


YES: Final = frozenset({"yes", "y", "true"})
NO: Final = frozenset({"no", "n", "false"})


def limit(term: Term, counts: str) -> float:
    """Give the number that a term compares with: 100k, 1.5M; of a length of time 90s, 5m, 2h, in seconds.

    Raises:
        FilterError: it is no number.
    """
    value = term.values[0]
    if counts == LENGTH:
        seconds = length_of(value)
        if seconds is not None:
            return seconds
        raise term.fault(f"“{value}” is no length of time", f"for example {term.key}{term.sign}90s")
    amount = amount_of(value)
    if amount is not None:
        return amount
    raise term.fault(f"“{value}” is no number", f"for example {term.key}{term.sign}100k")


def compared(sign: str, value: float, limit: float) -> bool:
    """Say whether a number stands to a limit as a term says."""
    if sign == ">":
        return value > limit
    if sign == "<":
        return value < limit
    if sign == "=":
        return value == limit
    return value >= limit if sign == ">=" else value <= limit


def moment(term: Term, now: float, zone: tzinfo | None, example: str) -> float:
    """Give the second that a date, a time of today or a length of time before now stands for.

    Raises:
        FilterError: it is none of these.
    """
    value = term.values[0].lower()
    try:
        if (span := span_of(value)) is not None:
            return now - span
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
    raise term.fault(f"“{term.values[0]}” is no date or time", f"for example {example}")


def _seconds(moment: str, zone: tzinfo | None) -> float:
    parsed = datetime.fromisoformat(moment)
    if parsed.tzinfo is None and zone is not None:
        parsed = parsed.replace(tzinfo=zone)
    return parsed.timestamp()
