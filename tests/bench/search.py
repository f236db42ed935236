"""Words in a thousand runs: the first hit without an index, every hit with it, and what the index costs."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.data import Data
from tests.bench.figures import Figure, figure, interleaved, percentile, ratio
from tests.search_story import record
from tests.terminal.program import environment, refold
from tests.terminal.terminal import Terminal

from refold.core.search_hits import Hit
from refold.core.search_record import read_line
from refold.core.search_text import parse_query
from refold.core.store.roots import Root
from refold.core.store.search import search
from refold.core.store.search_index import SearchIndex, open_index, open_to_build
from refold.core.store.search_source import Source, find_sources

SELDOM, ONCE, COMMON = "needlework", "singularly", "ledger"
"""A word in one run of a hundred, one in a single run, and one in most records."""


def _sources(directory: Path) -> list[Source]:
    return find_sources([Root(directory, "refold", "bench")])


def _plant(directory: Path, seed: int) -> None:
    """Put the words into runs picked by chance, and make all of them old enough to be indexed for good."""
    runs = sorted(directory.glob("*.json"))
    for number, path in enumerate(random.Random(seed).sample(runs, max(1, len(runs) // 100))):
        status = path.stat()
        with path.open("ab") as file:
            file.write(record(10**6, "assistant", f"some {SELDOM} {ONCE if number == 0 else ''}"))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _ask(directory: Path, words: str, index: SearchIndex | None, *, first: bool) -> float:
    """Look for the runs and search them, to the first hit or to the last; CPU milliseconds.

    What is read lies in memory, so that CPU time is what somebody waits for where nothing else runs.
    """
    started = time.process_time()
    count = 0
    for told in search(parse_query(words), _sources(directory), index):
        count += isinstance(told, Hit)
        if first and count:
            break
    taken = (time.process_time() - started) * 1000
    assert count, words
    return taken


def _read(directory: Path) -> float:
    """Read every byte, and nothing else; CPU milliseconds."""
    started = time.process_time()
    for path in directory.glob("*.json"):
        path.read_bytes()
    return (time.process_time() - started) * 1000


def _texts(directory: Path, share: int) -> Iterator[str]:
    for path in sorted(directory.glob("*.json"))[::share]:
        for line in path.read_bytes().split(b"\n"):
            if line:
                yield "\n".join(text for texts in read_line(line).texts.values() for text in texts)


def _bare(texts: list[str], path: Path) -> float:
    """Insert the same texts, ready in memory, into a bare table: a floor that reads and decodes nothing."""
    path.unlink(missing_ok=True)
    started = time.perf_counter()
    database = sqlite3.connect(path)
    database.execute("CREATE VIRTUAL TABLE bare USING fts5(text, content='')")
    for number, text in enumerate(texts):
        database.execute("INSERT INTO bare(rowid, text) VALUES (?, ?)", (number, text))
    database.commit()
    database.close()
    return (time.perf_counter() - started) * 1000


def _cpu(work: Callable[[], float]) -> float:
    """Give the CPU time of some work in milliseconds."""
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1000


def _build(sources: list[Source], cache: Path) -> float:
    shutil.rmtree(cache, ignore_errors=True)
    started = time.perf_counter()
    with open_to_build(cache) as index:
        for _ in index.build(sources):
            pass
    return (time.perf_counter() - started) * 1000


def _keys_while_indexing(data: Data, rounds: int) -> list[float]:
    """Move the cursor while the index is made beside the screen; milliseconds from a key to a first byte."""
    taken: list[float] = []
    with Terminal(refold("--only", "--root", data.library), env=environment(data.home("search"))) as terminal:
        terminal.wait("run-0", limit=60)
        terminal.press("\x06", settle=0.5)
        terminal.send(COMMON)
        terminal.wait("indexing", limit=60)
        for number in range(20 * rounds):
            length = len(terminal.sent)
            started = time.perf_counter()
            terminal.send("\x1b[B" if number % 20 < 10 else "\x1b[A")
            while len(terminal.sent) == length and time.perf_counter() - started < 5:
                terminal.pump(1.0)
            taken.append((time.perf_counter() - started) * 1000)
            terminal.settle(0.02)
    return taken


def measure(data: Data, rounds: int) -> list[Figure]:
    """First hits without an index, all hits with it, and the build against a bare insert."""
    library = data.library
    _plant(library, data.seed)
    share = max(1, data.big_bytes // (200 << 20))
    some = [source for number, source in enumerate(sorted(_sources(library))) if number % share == 0]
    texts = list(_texts(library, share))
    places = data.home("index")
    built = interleaved(
        {
            "bare": lambda: _cpu(lambda: _bare(texts, places / "bare.db")),
            "build": lambda: _cpu(lambda: _build(some, places / "part")),
        },
        min(rounds, 3),
    )
    whole = _build(_sources(library), places / "whole")
    with open_index(places / "whole") or _missing() as index:
        _ask(library, COMMON, None, first=True)
        taken = interleaved(
            {
                "read": lambda: _read(library),
                "first, none": lambda: _ask(library, SELDOM, None, first=True),
                "all, none": lambda: _ask(library, SELDOM, None, first=False),
                "all, index": lambda: _ask(library, SELDOM, index, first=False),
                "once, index": lambda: _ask(library, ONCE, index, first=False),
                "common, index": lambda: _ask(library, COMMON, index, first=True),
                "common, none": lambda: _ask(library, COMMON, None, first=True),
                "prefix, index": lambda: _ask(library, f"{SELDOM[:4]}*", index, first=False),
            },
            rounds,
        )
        size, bytes_of_runs = index.size(), sum(source.size for source in _sources(library))
    keys = _keys_while_indexing(data, rounds)
    group, of = "search", "search"
    seldom = "a word in 1 % of the runs"
    return [
        figure(group, f"first hit of {seldom}, no index", taken["first, none"], "ms", 300, of=of),
        figure(group, "first hit of a common word, no index", taken["common, none"], "ms", 300, of=of),
        ratio(group, "all hits, no index / reading every byte", taken["all, none"], taken["read"]),
        figure(group, "all hits of a word in one run, index", taken["once, index"], "ms", 100, of=of),
        figure(group, f"all hits of {seldom}, index", taken["all, index"], "ms", 100, of=of),
        figure(group, "first hit of a common word, index", taken["common, index"], "ms", 100, of=of),
        figure(group, "all hits of the beginning of a word, index", taken["prefix, index"], "ms", 100, of=of),
        ratio(group, "all hits, index / no index", taken["all, index"], taken["all, none"]),
        ratio(
            group, "bare insert of the same texts / index", built["bare"], built["build"], 0.5,
            of=of, at_least=True,
        ),
        figure(group, "index of everything, once", [whole / 1000], "s"),
        Figure(group, "index on disk / runs", size / bytes_of_runs, "x"),
        Figure(group, "key while indexing, median", percentile(keys, 0.5), "ms", None, len(keys)),
        Figure(group, "key while indexing, most", max(keys), "ms", 100, len(keys), of=of),
    ]  # fmt: skip


def _missing() -> SearchIndex:
    raise AssertionError("no index")
