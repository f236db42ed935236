"""Which of the runs that a rule names would go to the trash, and which are spared; nothing is moved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from refold.core.amounts import amount_of, span_of
from refold.core.errors import RefoldError
from refold.core.nested import is_nested
from refold.core.summary import RunSummary


class BadRule(RefoldError):
    """What was given as a rule is none; nothing was planned."""


class Rule(NamedTuple):
    """Which of the runs that a filter lets through are meant."""

    older_than: float = 0.0
    """Seconds since the file changed."""
    larger_than: int = 0
    """Bytes."""
    starred: bool = False
    """Take starred runs too."""
    noted: bool = False
    """Take runs with tags, a name or notes too."""


class Pruned(NamedTuple):
    """A run that the rule takes."""

    run: RunSummary
    forks: tuple[str, ...]
    """The ids of its forks that stay."""


class Spared(NamedTuple):
    """A run that the rule names, and that stays all the same."""

    run: RunSummary
    why: str


class PrunePlan(NamedTuple):
    """What a rule would do, the oldest run first."""

    taken: tuple[Pruned, ...]
    spared: tuple[Spared, ...]


def plan_prune(meant: Iterable[RunSummary], every: Iterable[RunSummary], rule: Rule, now: float) -> PrunePlan:
    """Plan what a rule would do.

    Args:
        meant: The runs that the filter lets through.
        every: All runs that are known, to name the forks of those that go.
        rule: The rule.
        now: The time that ages count from.
    """
    taken: list[RunSummary] = []
    spared: list[Spared] = []
    for run in sorted(meant, key=lambda run: (run.updated, run.path)):
        if now - run.updated < rule.older_than or (rule.larger_than and run.size <= rule.larger_than):
            continue
        why = _protected(run, rule)
        if why:
            spared.append(Spared(run, why))
        else:
            taken.append(run)
    forks = forks_of(every)
    going = {run.path for run in taken}
    return PrunePlan(
        tuple(
            Pruned(run, tuple(fork.id for fork in forks.get(run.id, ()) if fork.path not in going))
            for run in taken
        ),
        tuple(spared),
    )


def forks_of(every: Iterable[RunSummary]) -> dict[str, list[RunSummary]]:
    """Give the forks of each run by its id."""
    found: dict[str, list[RunSummary]] = defaultdict(list)
    for run in every:
        if run.parent:
            found[run.parent].append(run)
    return found


def _protected(run: RunSummary, rule: Rule) -> str:
    if run.status == "running":
        return "a process holds it"
    if not run.complete:
        return "it is not read to its end yet"
    if is_nested(run.path):
        return "it belongs to the run that started it"
    kept = run.kept
    if kept.trouble:
        return kept.trouble
    if kept.star and not rule.starred:
        return "it is starred"
    if (kept.tags or kept.name or kept.note or kept.records) and not rule.noted:
        return "something is noted about it"
    return ""


def seconds_of(text: str) -> float:
    """Give a length of time as seconds: 30d, 2w, 1d12h.

    Raises:
        BadRule: it is none.
    """
    seconds = span_of(text)
    if seconds is None:
        raise BadRule(f"{text!r} is no length of time", remedy="for example 30d, 2w or 12h")
    return seconds


def bytes_of(text: str) -> int:
    """Give a size as bytes: 500, 20MB, 1.5GB, in decimal units.

    Raises:
        BadRule: it is none.
    """
    size = amount_of(text.strip())
    if size is None:
        raise BadRule(f"{text!r} is no size", remedy="for example 20MB or 1.5GB")
    return int(size)
