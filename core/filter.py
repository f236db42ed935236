"""The one filter language of the screen and the command line, from text to a test of summaries.

Words match id, given name and prompt; `key:value` narrows; so does a number that is compared; `-`
negates; quotes keep a phrase; a comma is "any of":

    status:crashed,suspended model:opus -agent:rivumi after:2d tokens>100k "rename the notes"
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import tzinfo
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from refold.core import filter_kept
from refold.core.filter_terms import (
    NO,
    NUMBER,
    YES,
    Term,
    Vocabulary,
    compared,
    limit,
    moment,
    terms,
    yes_or_no,
)
from refold.core.filter_terms import FilterError as FilterError
from refold.core.nearest import nearest
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
    "resume": "resume:yes",
    "uncertain": "uncertain:yes",
    "error": "error:yes",
    "problem": "problem:yes or problem:glued",
    "after": "after:2026-07-24, after:14:30 or after:2d",
    "before": "before:2026-07-24, before:14:30 or before:1w",
    "fork": "fork:yes or fork:ID of the parent",
    **filter_kept.KEYS,
}
"""Every key with an example of its use."""

NUMBERS: Final = {
    "turns": "replies of the model",
    "calls": "calls that it asked for",
    "errors": "results that report an error",
    "tokens": "tokens of all four kinds",
}
"""Every number that can be compared: `tokens>100k`."""

_WORDS: Final = Vocabulary(KEYS, NUMBERS)
_LAST_WORD: Final = re.compile(r"(?<!\S)-?([A-Za-z]+)\Z")


class TextTerm(NamedTuple):
    """A `text:` term: only the bytes of a run can answer it."""

    searches: tuple[Search, ...]
    """Any of these texts is enough."""
    negated: bool


class Filter(msgspec.Struct, frozen=True):
    """An understood filter; one without terms lets every run through."""

    source: str = ""
    words: tuple[str, ...] = ()
    """The words and phrases that must be in id, name or prompt, case-folded: what a row can highlight."""
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
    """Give what words are looked for in: id, given name and prompt, case-folded."""
    return f"{summary.id}\n{summary.kept.name}\n{summary.prompt}".casefold()


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
    for term in terms(text, _WORDS):
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
    if word is None or not any(key.startswith(word[1].lower()) for key in (*KEYS, *NUMBERS)):
        return text
    return text[: word.start()]


def _keyed(term: Term, now: float, zone: tzinfo | None) -> Test:
    if term.key in NUMBERS:
        return _number(term)
    if term.key in {"after", "before"}:
        return _when(term, now, zone)
    return _BY_KEY[term.key](term)


def _not(test: Test) -> Test:
    return lambda summary, hay: not test(summary, hay)


def _has_word(word: str) -> Test:
    return lambda _, hay: word in hay


def _status(term: Term) -> Test:
    wanted: set[str] = set()
    for value in term.folded:
        named = {status for status in STATUSES if status.startswith(value)}
        if not named:
            near = nearest(value, STATUSES)
            said = f"no status begins with “{value}”" + (f"; did you mean {near}?" if near else "")
            raise term.fault(said, f"one of {' '.join(STATUSES)}")
        wanted |= {value} if value in named else named
    return lambda summary, _: summary.status in wanted


def _agent(term: Term) -> Test:
    values = term.folded
    return lambda summary, _: any(value in summary.format.casefold() for value in values)


def _model(term: Term) -> Test:
    values = term.folded
    return lambda summary, _: any(value in summary.model.casefold() for value in values)


def _tool(term: Term) -> Test:
    values = term.folded
    return lambda summary, _: any(value in tool.casefold() for tool in summary.tools for value in values)


def _uncertain(term: Term) -> Test:
    wanted = yes_or_no(term)
    return lambda summary, _: bool(summary.uncertain) in wanted


def _resume(term: Term) -> Test:
    wanted = yes_or_no(term)
    return lambda summary, _: summary.can_be_resumed in wanted


def _error(term: Term) -> Test:
    wanted = yes_or_no(term)
    return lambda summary, _: (summary.errors > 0) in wanted


def _problem(term: Term) -> Test:
    tests = tuple(_one_problem(value) for value in term.folded)
    return lambda summary, hay: any(test(summary, hay) for test in tests)


def _one_problem(value: str) -> Test:
    if value in YES:
        return lambda summary, _: _has_problem(summary)
    if value in NO:
        return lambda summary, _: not _has_problem(summary)
    if value == "torn":
        return lambda summary, _: summary.torn
    return lambda summary, _: any(value in code.casefold() for code in summary.problems)


def _has_problem(summary: RunSummary) -> bool:
    return bool(summary.damaged or summary.note)


def _number(term: Term) -> Test:
    sign, edge = term.sign, limit(term, NUMBER)
    if term.key == "tokens":
        return lambda summary, _: compared(sign, summary.tokens, edge)
    if term.key == "turns":
        return lambda summary, _: compared(sign, summary.turns, edge)
    if term.key == "calls":
        return lambda summary, _: compared(sign, summary.calls, edge)
    return lambda summary, _: compared(sign, summary.errors, edge)


def _fork(term: Term) -> Test:
    tests = tuple(_one_fork(value) for value in term.folded)
    return lambda summary, hay: any(test(summary, hay) for test in tests)


def _one_fork(value: str) -> Test:
    if value in YES:
        return lambda summary, _: bool(summary.parent)
    if value in NO:
        return lambda summary, _: not summary.parent
    return lambda summary, _: value in summary.parent.casefold()


def _kept(term: Term) -> Test:
    test = filter_kept.kept_test(term)
    return lambda summary, _: test(summary.kept)


def _when(term: Term, now: float, zone: tzinfo | None) -> Test:
    if len(term.values) > 1:
        raise term.fault(f"{term.key}: takes one date", f"for example {KEYS[term.key]}")
    edge = moment(term, now, zone, KEYS[term.key])
    if term.key == "after":
        return lambda summary, _: summary.updated >= edge
    return lambda summary, _: summary.updated < edge


_BY_KEY: Final[dict[str, Callable[[Term], Test]]] = {
    "status": _status,
    "agent": _agent,
    "model": _model,
    "tool": _tool,
    "resume": _resume,
    "uncertain": _uncertain,
    "error": _error,
    "problem": _problem,
    "fork": _fork,
    **dict.fromkeys(filter_kept.KEYS, _kept),
}
