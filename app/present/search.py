"""The hits of a search over all runs as rows, and what is said around them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from refold.app import safe
from refold.app.lines import Cell, Column, Line, Role
from refold.app.present import units
from refold.app.present.layout import cell, fit, flow, marked
from refold.app.safe import Safe
from refold.core.filter import KEYS
from refold.core.search_hits import LIMIT, Hit
from refold.core.search_text import Query, Scope
from refold.core.store.search import Reach

_WIDE: Final = 100
_TEXT: Final = 400
_LOOKS: Final[Mapping[Scope, tuple[str, Role]]] = {
    "prompt": ("● prompt", "user"),
    "answer": ("◆ answer", "assistant"),
    "argument": ("▸ call", "call"),
    "result": ("└ result", "result"),
}
_UNNUMBERED: Final = {"request": "req"}
_NAME: Final = re.compile(r"(?<!\S)-?([A-Za-z]+):")
GRAMMAR: Final = 'words   "a phrase"   begin*   prompt: answer: argument: result:'
"""What can be typed, in one line."""


def run_name(hit: Hit) -> str:
    """Give the id of the run of a hit."""
    return Path(hit.run).name.removesuffix(".json")


def link(hit: Hit) -> str:
    """Give what names the run and the record on the command line."""
    return run_name(hit) if hit.seq is None or not hit.is_of_log else f"{run_name(hit)}@{hit.seq}"


def unnamed(_: str) -> str:
    """Give no run a name."""
    return ""


def columns(width: int) -> tuple[Column, ...]:
    """Lay out the columns for a width: the text takes what is left."""
    wide = width >= _WIDE
    fixed = [
        Column("run", Safe("Run"), 24 if wide else 15),
        Column("seq", Safe("Seq"), 7 if wide else 5, "right", 2),
        Column("where", Safe("Where"), 9),
        *([Column("updated", Safe("Updated"), 9)] if wide else ()),
    ]
    left = width - sum(column.width + column.gap for column in fixed)
    return (*fixed, Column("text", Safe("Text"), max(8, left), "left", 0))


def text_cells(hit: Hit, query: Query) -> Line:
    """Give the line around a hit with the words marked."""
    return marked((cell(hit.text, "text", _TEXT),), query.marks)


def where(hit: Hit) -> Cell:
    """Say in what a hit stands."""
    if hit.kind == "damage":
        return Cell(Safe("⚠ damage"), "problem")
    word, role = _LOOKS[hit.scopes[0]]
    return Cell(Safe(word), role)


def _number(hit: Hit) -> str:
    if not hit.is_of_log:
        return _UNNUMBERED.get(hit.kind, "msg")
    return "–" if hit.seq is None else str(hit.seq)


class HitRows:
    """The rows of the list, a hit each."""

    def __init__(
        self,
        hits: Sequence[Hit],
        query: Query | None,
        ago: Callable[[float], str],
        name_of: Callable[[str], str] = unnamed,
    ) -> None:
        """Show hits.

        Args:
            hits: In the order of the rows.
            query: What they were found by.
            ago: Says how long ago something was, in seconds since 1970.
            name_of: Gives what the run at a path is called.
        """
        self.hits = tuple(hits)
        self._in_run = Counter((hit.run, hit.is_of_log) for hit in hits)
        self._query = query
        self._ago = ago
        self._name_of = name_of

    def __len__(self) -> int:
        return len(self.hits)

    def in_run(self, hit: Hit) -> str:
        """Count what was found in the run of a hit: its records, as an open run does, and messages beside."""
        records, messages = self._in_run[hit.run, True], self._in_run[hit.run, False]
        said = [units.plural(records, "record")] if records else []
        if messages:
            said.append(units.plural(messages, "message"))
        return f"{' and '.join(said)} of this run"

    def line(self, index: int, width: int) -> Line:
        """Give the row of a hit."""
        drawn: list[Cell] = []
        for column in columns(width):
            drawn += [*self._field(self.hits[index], column), Cell(Safe(" " * column.gap))]
        return fit(drawn, width)

    def _field(self, hit: Hit, column: Column) -> Line:
        match column.key:
            case "run":
                name = self._name_of(hit.run) or run_name(hit)
                return (Cell(safe.fit(safe.line(name, _TEXT), column.width), "strong"),)
            case "seq":
                return (Cell(safe.fit(Safe(_number(hit)), column.width, "right"), "number"),)
            case "where":
                text, role = where(hit)
                return (Cell(safe.fit(text, column.width), role),)
            case "updated":
                age = Safe(self._ago(hit.updated_ns / 1e9))
                return (Cell(safe.fit(age, column.width), "dim"),)
            case _:
                return text_cells(hit, self._query) if self._query is not None else ()


def misplaced(typed: str) -> str:
    """Say where else what was typed is understood, and not here; empty where all of it is."""
    if len(typed) > 1 and typed[0] == typed[-1] == "/":
        return "A regular expression is looked for in an open run, with /; here only words are."
    names = (found[1].lower() for found in _NAME.finditer(typed))
    known = next((name for name in names if name in KEYS and name != "text"), "")
    if not known:
        return ""
    return f"{known}: narrows the list of runs, and text: there finds words; here it is a word like others."


def count(hits: Sequence[Hit], *, searching: bool) -> str:
    """Say how many hits there are, in how many runs."""
    if not hits:
        return "searching" if searching else "no hits"
    runs = len({hit.run for hit in hits})
    what = "newest hit" if len(hits) >= LIMIT else "hit"
    said = f"{units.plural(len(hits), what)} in {units.plural(runs, 'run')}"
    return f"{said}…" if searching else said


def top(
    hits: Sequence[Hit], reach: Reach | None, *, asked: bool, searching: bool, indexing: str
) -> tuple[Line, Line]:
    """Give the two ends of the first row: what was found, and how far search and index are."""
    found = (Cell(Safe(f"  {count(hits, searching=searching)}"), "dim"),) if asked else ()
    left = (Cell(Safe("search all runs"), "strong"), *found)
    said = indexing
    if searching and reach is not None and reach.searched < reach.total:
        said = f"read {reach.searched:,} of {reach.total:,} files"
    return left, (Cell(Safe(said), "dim"),) if said else ()


def nothing(typed: str, reach: Reach | None, *, searching: bool, problem: str, width: int) -> list[Line]:
    """Say why there are no rows."""
    if searching:
        return [(Cell(Safe("Searching…"), "dim"),)]
    lines: list[Line] = []
    if typed and not problem:
        total = reach.total if reach is not None else 0
        lines += flow((Cell(Safe("Nothing found for "), "text"), cell(typed, "match", 80)), width)
        said = f"{units.plural(total, 'file')} searched: those of every run."
        if not total:
            said = "There are no runs to be searched."
        lines += flow((Cell(Safe(said), "dim"),), width)
        if elsewhere := misplaced(typed):
            lines += flow((cell(elsewhere, "warn"),), width)
        lines.append(())
    if problem:
        lines += flow((cell(problem, "problem", _TEXT),), width)
        lines.append(())
    for name, meaning in (
        ("timeout ledger", "both words in one record, whatever their case"),
        ('"no such file"', "the words one after the other"),
        ("econn*", "words that begin so"),
        ("result:denied", "only in results; also prompt: answer: argument:"),
    ):
        lines.append((Cell(Safe(f"{name:<18}"), "key"), Cell(Safe(meaning), "dim")))
    return lines


def preview(
    hit: Hit, query: Query, width: int, ago: Callable[[float], str], name: str = "", in_run: str = ""
) -> list[Line]:
    """Give what is known of a hit: which record of which run, and the line around the words, whole.

    Args:
        hit: What was found.
        query: What it was found by.
        width: The cells of a line.
        ago: Says how long ago something was.
        name: What its run is called.
        in_run: How much was found in its run.
    """
    head = [cell(link(hit), "strong", 200), Cell(Safe("  ")), where(hit)]
    if name:
        head[:0] = [cell(name, "strong", 200), Cell(Safe("  "))]
    if in_run:
        head.append(cell(f"  {in_run}", "dim"))
    if "." in hit.kind or not hit.is_of_log:
        head.append(cell(f"  {hit.kind}", "dim", 60))
    others = [_LOOKS[scope][0] for scope in hit.scopes[1:]]
    if others and hit.kind != "damage":
        head.append(Cell(Safe(f"  also {', '.join(others)}"), "dim"))
    head.append(cell(f"  {ago(hit.updated_ns / 1e9)}", "dim"))
    lines = [fit(head, width)]
    lines += flow(text_cells(hit, query), width)
    lines += flow((cell(hit.file, "dim", 1000),), width, words=False)
    return lines
