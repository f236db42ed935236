"""`refold search`: words in the records of all runs, best hit first."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from refold.app.cli_exit import FINE, REFUSED
from refold.app.cli_print import Printer
from refold.app.cli_redact import redacted
from refold.app.given_names import GivenNames
from refold.app.lines import Cell, Line
from refold.app.present import search as present
from refold.app.present import units
from refold.app.safe import Safe, line
from refold.app.settings import Settings
from refold.core.errors import RefoldError
from refold.core.search_hits import LIMIT, Hit, ranked
from refold.core.search_text import Query, parse_query
from refold.core.store.search import Reach, Wrong, search
from refold.core.store.search_database import IndexProblem
from refold.core.store.search_index import SearchIndex, open_index, open_to_build
from refold.core.store.search_source import Source, find_sources

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_MANY: Final = 64 << 20
"""Bytes that are read without an index before one is recommended."""
_EVERY: Final = 1.0


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Print the hits of a query; bring the index up to date first where that is asked for.

    Raises:
        QueryError: there is nothing to look for in it.
        IndexProblem: the index was only to be brought up to date, and cannot be.
    """
    words = " ".join(map(_as_term, arguments.query))
    query = parse_query(words) if arguments.query or not arguments.index else None
    sources = find_sources(settings.roots)
    index, problem = _index(arguments, settings, sources, printer)
    if query is None:
        if index is not None:
            index.close()
        return FINE
    redacted(arguments, settings, printer)
    try:
        hits, reach = _found(query, sources, index)
    finally:
        if index is not None:
            index.close()
    names = GivenNames.of(settings)
    for hit in hits[: arguments.limit]:
        _print(_let_out(hit, printer), names(hit.run), query, arguments, printer)
    _tell(hits, arguments.query, arguments.limit, reach, reach.problem or problem, sources, settings, printer)
    return FINE if hits else REFUSED


def _as_term(word: str) -> str:
    """A word of the shell as one of the query: what the shell took the quotes from is a phrase."""
    if '"' in word or not any(character.isspace() for character in word):
        return word
    scope, colon, rest = word.partition(":")
    return f'{scope}:"{rest}"' if colon and scope.isalpha() else f'"{word}"'


def _index(
    arguments: argparse.Namespace, settings: Settings, sources: Sequence[Source], printer: Printer
) -> tuple[SearchIndex | None, str]:
    """Open the index, and say why there is none where that is worth a word."""
    cache = settings.cache_dir
    if arguments.index:
        if cache is None:
            raise RefoldError("--index needs the cache", remedy="leave out --no-cache and --read-only")
        try:
            return _built(cache, sources, printer), ""
        except IndexProblem as error:
            if not arguments.query:
                raise
            return None, str(error)
    if cache is None:
        return None, ""
    try:
        return open_index(cache), ""
    except IndexProblem as error:
        return None, str(error)


def _built(cache: Path, sources: Sequence[Source], printer: Printer) -> SearchIndex:
    index = open_to_build(cache)
    try:
        _build(index, sources, printer)
    except BaseException:
        index.close()
        raise
    return index


def _build(index: SearchIndex, sources: Sequence[Source], printer: Printer) -> None:
    told = time.monotonic()
    read = 0
    for taken in index.build(sources):
        read += taken
        if time.monotonic() - told >= _EVERY:
            told = time.monotonic()
            printer.note(f"refold: {units.size(read)} indexed")
    printer.note(f"refold: the index {index.path} is up to date: {units.size(index.size())}")


def _found(query: Query, sources: Sequence[Source], index: SearchIndex | None) -> tuple[list[Hit], Reach]:
    hits: list[Hit] = []
    reach = Reach(0, len(sources))
    for told in search(query, sources, index):
        match told:
            case Hit():
                hits.append(told)
            case Wrong(file):
                hits = [hit for hit in hits if hit.file != file]
            case Reach():
                reach = told
    return ranked(hits), reach


def _print(hit: Hit, name: str, query: Query, arguments: argparse.Namespace, printer: Printer) -> None:
    if arguments.json:
        printer.json({**hit_json(hit), "name": name or None})
        return
    printer.line(_row(hit, name, query), cut=True)


def _row(hit: Hit, name: str, query: Query) -> Line:
    return (
        Cell(line(present.link(hit), 200), "strong"),
        *((Cell(line(f"  {name}", 60), "strong"),) if name else ()),
        Cell(Safe("  ")),
        present.where(hit),
        Cell(Safe("  ")),
        *present.text_cells(hit, query),
    )


def hit_json(hit: Hit) -> dict[str, object]:
    """Give a hit as `--json` prints it."""
    return {
        "id": present.run_name(hit),
        "path": hit.run,
        "file": hit.file,
        "seq": hit.seq,
        "start": hit.start if hit.is_of_log else None,
        "message": None if hit.is_of_log else hit.start,
        "kind": hit.kind,
        "scopes": list(hit.scopes),
        "score": round(hit.score, 4),
        "text": hit.text,
    }


def _let_out(hit: Hit, printer: Printer) -> Hit:
    """Redact the text of a hit before words in it are marked; a word that was cut may be half a secret."""
    redactor = printer.redactor
    if redactor is None:
        return hit
    words: Iterable[str] = hit.text.split(" ")
    kept = [word for word in words if not (len(word) > 1 and (word[0] == "…" or word[-1] == "…"))]
    return hit._replace(text=redactor.text(" ".join(kept)))


def _tell(
    hits: Sequence[Hit],
    typed: Sequence[str],
    limit: int,
    reach: Reach,
    problem: str,
    sources: Sequence[Source],
    settings: Settings,
    printer: Printer,
) -> None:
    """Say on standard error what the hits do not tell."""
    if not hits:
        printer.note(f"refold: nothing found in {units.plural(reach.total, 'file')}")
        if elsewhere := present.misplaced(" ".join(typed)):
            printer.note(f"refold: {elsewhere}")
    elif len(hits) >= LIMIT:
        runs = units.plural(len({hit.run for hit in hits}), "run")
        printer.note(f"refold: these are from the newest {runs}: older ones were not searched; add words")
    if len(hits) > limit:
        printer.note(f"refold: {len(hits) - limit:,} more hits; --limit {len(hits)} shows them")
    if problem:
        printer.note(f"refold: {problem}; the runs themselves were read")
    elif reach.unindexed and settings.cache_dir is not None:
        size = sum(source.size for source in sources)
        if reach.unindexed * size / max(1, len(sources)) > _MANY:
            files = units.plural(reach.unindexed, "file")
            printer.note(f"refold: {files} had to be read; --index makes the next search quick")
