"""The longest chain of numbered things that keep their order, and what else fits into its holes. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def longest_chain(numbers: Sequence[int]) -> list[int]:
    """Give the places of a longest strictly rising part of some numbers; of equal ones the first counts."""
    tops: list[int] = []
    """The smallest number with which a chain of each length ends."""
    ends: list[int] = []
    """Its place."""
    before: list[int] = []
    for place, number in enumerate(numbers):
        length = bisect_left(tops, number)
        before.append(ends[length - 1] if length else -1)
        if length == len(tops):
            tops.append(number)
            ends.append(place)
        elif number < tops[length]:
            tops[length], ends[length] = number, place
    chain: list[int] = []
    place = ends[-1] if ends else -1
    while place >= 0:
        chain.append(place)
        place = before[place]
    return chain[::-1]


def ordered(numbers: Sequence[int], after: int) -> dict[int, int]:
    """Choose a place for each number: of the longest chain, else one that fills a hole or goes on from it.

    A number far behind the chain is left out: it stands among smaller ones, so it is more likely to be wrong
    than all of them.

    Args:
        numbers: in the order in which they were found.
        after: only numbers above this one are chosen.

    Returns:
        Each number chosen and its place.
    """
    places = [place for place, number in enumerate(numbers) if number > after]
    chain = longest_chain([numbers[place] for place in places])
    chosen = {numbers[places[link]]: places[link] for link in chain}
    last = numbers[places[chain[-1]]] if chain else after
    later: dict[int, int] = {}
    for place in places:
        number = numbers[place]
        if number < last:
            chosen.setdefault(number, place)
        elif number > last:
            later.setdefault(number, place)
    while last + 1 in later:
        last += 1
        chosen[last] = later[last]
    return chosen
