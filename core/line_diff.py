"""The lines that differ between two texts, found in small steps and never in too many of them.

`difflib` cannot be stopped between two lines, and two hundred lines of the right kind hold it for seconds.
The way here is the one of Myers (An O(ND) Difference Algorithm, 1986): its effort grows with the number of
differences, and where that number is too high all lines are shown as taken out and put in.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

MOST_LINES: Final = 20_000
"""Lines of both texts together, without those that both begin and end with, that are compared one by one."""
MOST_DIFFERENCES: Final = 1_000

_STEP: Final = 1_000

Tag: TypeAlias = Literal[" ", "-", "+"]


class Row(NamedTuple):
    """One line of a comparison."""

    tag: Tag
    text: str
    """Without its newline."""
    line: int
    """Its number in the text that it stands in, the new one where in both; from 1 on."""


class Compared(NamedTuple):
    """Two texts laid beside each other."""

    rows: Sequence[Row]
    """All lines of both texts in order."""
    added: int
    removed: int
    exact: bool = True
    """Every line that both have was found; else they are too long, or too different, to look for them."""


def lines_of(text: str) -> list[str]:
    """Cut a text at newlines only; what a last newline ends is no line of its own."""
    rows = text.split("\n")
    if rows[-1] == "":
        rows.pop()
    return rows


def compare(old: str, new: str) -> Generator[None, None, Compared]:
    """Lay two texts beside each other, be they whole files or pieces of one, in small steps."""
    a, b = lines_of(old), lines_of(new)
    if old and new and old.endswith("\n") != new.endswith("\n"):
        # What is left of the line that one of them ends in counts: an empty line where nothing is.
        a, b = old.split("\n"), new.split("\n")
    start = 0
    most = min(len(a), len(b))
    while start < most and a[start] == b[start]:
        start += 1
    end = 0
    while end < most - start and a[-1 - end] == b[-1 - end]:
        end += 1
    yield
    middle_a, middle_b = a[start : len(a) - end], b[start : len(b) - end]
    kept: Sequence[tuple[int, int]] | None = None
    if not middle_a or not middle_b:
        kept = ()
    elif len(middle_a) + len(middle_b) <= MOST_LINES:
        kept = yield from _common(middle_a, middle_b)
    rows: list[Row] = []
    for row in _all_rows(a, b, kept or (), start, end):
        rows.append(row)
        if len(rows) % _STEP == 0:
            yield
    stay = start + end + len(kept or ())
    return Compared(rows, len(b) - stay, len(a) - stay, exact=kept is not None)


def _all_rows(
    a: list[str], b: list[str], kept: Sequence[tuple[int, int]], start: int, end: int
) -> Iterator[Row]:
    for at in range(start):
        yield Row(" ", a[at], at + 1)
    yield from _rows(a[start : len(a) - end], b[start : len(b) - end], kept, start)
    for at in range(len(b) - end, len(b)):
        yield Row(" ", b[at], at + 1)


def _rows(a: list[str], b: list[str], kept: Sequence[tuple[int, int]], start: int) -> Iterator[Row]:
    x = y = 0
    for i, j in (*kept, (len(a), len(b))):
        for at in range(x, i):
            yield Row("-", a[at], start + at + 1)
        for at in range(y, j):
            yield Row("+", b[at], start + at + 1)
        if i < len(a) and j < len(b):
            yield Row(" ", b[j], start + j + 1)
        x, y = i + 1, j + 1


def _common(a: list[str], b: list[str]) -> Generator[None, None, Sequence[tuple[int, int]] | None]:
    """Give the pairs of lines that stay, in small steps; None where too few of them do."""
    numbers: dict[str, int] = {}
    left = array("I", (numbers.setdefault(line, len(numbers)) for line in a))
    right = array("I", (numbers.setdefault(line, len(numbers)) for line in b))
    n, m = len(left), len(right)
    far = array("i", bytes(4 * (2 * min(n + m, MOST_DIFFERENCES) + 3)))
    middle = len(far) // 2
    trail: list[array[int]] = []
    for d in range(min(n + m, MOST_DIFFERENCES) + 1):
        trail.append(far[middle - d : middle + d + 1])
        for k in range(-d, d + 1, 2):
            down = k == -d or (k != d and far[middle + k - 1] < far[middle + k + 1])
            x = far[middle + k + 1] if down else far[middle + k - 1] + 1
            y = x - k
            while x < n and y < m and left[x] == right[y]:
                x += 1
                y += 1
            far[middle + k] = x
            if x >= n and y >= m:
                return _walked(trail, n, m)
        yield
    return None


def _walked(trail: list[array[int]], x: int, y: int) -> Sequence[tuple[int, int]]:
    """Go back along the way and give the lines that were kept on it."""
    kept: list[tuple[int, int]] = []
    for d in range(len(trail) - 1, 0, -1):
        far, k = trail[d], x - y
        # Index `d + k` of a row holds diagonal `k`; a row holds what was reached before step `d`.
        down = k == -d or (k != d and far[d + k - 1] < far[d + k + 1])
        before_k = k + 1 if down else k - 1
        before_x = far[d + before_k]
        before_y = before_x - before_k
        while x > before_x and y > before_y:
            x, y = x - 1, y - 1
            kept.append((x, y))
        x, y = before_x, before_y
    while x > 0 and y > 0:
        x, y = x - 1, y - 1
        kept.append((x, y))
    kept.reverse()
    return kept
