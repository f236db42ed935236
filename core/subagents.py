"""While which records other agents were at work for a run: stretches of its items, with their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from refold.core.columns import REMOTE, RESULT, finder
from refold.core.timeline import Timeline

MOST: Final = 500
"""Stretches that are told; what comes after them is told as one."""


class Stretch(NamedTuple):
    """Items during which another agent was at work."""

    name: str
    first: int
    last: int
    ended: bool = True
    """Its end is recorded."""


class Told(NamedTuple):
    """An event about agents of a run."""

    item: int
    kind: str
    """Its type, as in `subagents.wave_started`."""
    names: tuple[str, ...]


def remote_stretches(timeline: Timeline) -> tuple[Stretch, ...]:
    """Give the calls of a journal that ran on another agent, from their turn to their result."""
    columns = timeline.columns
    found: list[Stretch] = []
    for match in finder(REMOTE).finditer(columns.flags):
        item = match.start()
        turn, call = columns.last_assistant[item] - 1, columns.link[item]
        if columns.kind[item] != RESULT or turn < 0 or call < 0:
            continue
        if len(found) == MOST:
            return (*found, Stretch("…", item, timeline.items - 1))
        found.append(Stretch(timeline.call_name(turn, call), turn, item))
    return tuple(found)


def told_stretches(told: Iterable[Told], items: int) -> tuple[Stretch, ...]:
    """Give the stretches that the events of a run directory tell of.

    Args:
        told: The events about its agents, in order.
        items: How many items there are.
    """
    begun: dict[str, tuple[int, str]] = {}
    found: list[Stretch] = []
    for item, kind, names in told:
        what, _, how = kind.removeprefix("subagents.").rpartition("_")
        for name in names:
            known = begun.get(name)
            if how == "started" and (known is None or (what == "wave" and known[1] == "dispatch")):
                begun[name] = (item, what)
            elif how == "completed" and known is not None and (known[1] == what or what == "dispatch"):
                del begun[name]
                found.append(Stretch(name, known[0], item))
        if len(found) >= MOST:
            return (*_joined(found), Stretch("…", item, items - 1))
    found += [Stretch(name, first, items - 1, ended=False) for name, (first, _) in begun.items()]
    return _joined(found)


def _joined(found: list[Stretch]) -> tuple[Stretch, ...]:
    """Join what began and ended together."""
    joined: dict[tuple[int, int, bool], list[str]] = {}
    for name, first, last, ended in sorted(found, key=lambda one: one.first):
        joined.setdefault((first, last, ended), []).append(name)
    return tuple(Stretch(", ".join(names), *where) for where, names in joined.items())
