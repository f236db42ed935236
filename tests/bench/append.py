"""What an append costs beside a bare write and fsync of the same bytes on the same file system.

Beside both stands the least that a writer in Python can do and still keep what is promised: encode the
record, look whether lock and file are still the same, write, sync. On a disk that syncs in a fifth of a
millisecond that alone is about 1.1 of the bare call; nothing of it is ours to save.
"""

from __future__ import annotations

import gc
import os
import sqlite3
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from unittest import mock

import msgspec
from tests.bench.data import Data
from tests.bench.figures import Figure, figure

from refold.core.records import AssistantRecord, Json, Message, MetaRecord, Record, ToolResultRecord
from refold.core.store.journal import JournalStore

WARM_UP = 20
TRIES = 400
"""Appends of each kind; they take turns with the bare writes."""

_TEXT = (
    "The size is read before the lock is taken, so a file that grows in between looks torn. "
    "I shall look at it again under the lock:\n\n"
    '    if size < known and not (end > limit):\n        return Torn("tail", at=end)  # as before\n'
)
_CALL: Json = {
    "type": "tool_use",
    "id": "toolu_01A09q90qw90lq917835lq9",
    "name": "read_file",
    "input": {"path": "src/app/main.py", "offset": 120, "limit": 200, "numbers": True},
}


def _reply() -> Record:
    text: Json = {"type": "text", "text": _TEXT * 13}
    return AssistantRecord(Message("assistant", (text, _CALL)), 3, "tool_use", 12_345, 678, 12_000)


def _result(size: int) -> Record:
    text = (_TEXT * (size // len(_TEXT) + 1))[:size]
    block: Json = {"type": "text", "text": text}
    call_id = "toolu_01A09q90qw90lq917835lq9"
    result: Json = {"tool_use_id": call_id, "is_error": False, "content": [block], "type": "tool_result"}
    return ToolResultRecord(call_id, result)


_ENCODE = msgspec.json.Encoder().encode

RECORDS: Mapping[str, Record] = {
    "a reply with a call, 3 KB": _reply(),
    "a result, 1 KB": _result(1_000),
    "a result, 4 KB": _result(4_000),
}


def measure(data: Data, rounds: int) -> list[Figure]:
    """Append and write bare, in turn: wall time of both as a ratio, and the CPU time of ours beyond it."""
    figures: list[Figure] = []
    directory = data.directory / "append"
    for number, (name, record) in enumerate(RECORDS.items()):
        with JournalStore(directory).create(f"run{number}", MetaRecord(prompt="go")) as journal:
            size = journal.path.stat().st_size
            journal.append(record)
            line = journal.path.read_bytes()[size:]
            bare, least = (
                os.open(
                    directory / f"{kind}{number}", os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
                )
                for kind in ("bare", "least")
            )
            try:
                lock, known = str(journal.path.with_suffix(".lock")), msgspec.json.decode(line)
                cases: dict[str, Callable[[], object]] = {
                    "ours": partial(journal.append, record),
                    "bare": partial(_write, bare, line),
                    "least": partial(_look_and_write, least, known, lock),
                    "table": partial(_table(directory / f"table{number}"), line),
                }
                figures += _figures(name, cases, rounds)
            finally:
                os.close(bare)
                os.close(least)
    return figures


def _write(fd: int, line: bytes) -> None:
    os.write(fd, line)
    os.fsync(fd)


def _look_and_write(fd: int, record: object, lock: str) -> None:
    """Encode a record and look where an append has to look."""
    line = _ENCODE(record) + b"\n"
    os.lstat(lock)
    os.fstat(fd)
    _write(fd, line)


def _table(path: Path) -> Callable[[bytes], None]:
    """Give what puts a line into a database that is durable with each commit: what one would use instead."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE records (line BLOB)")

    def insert(line: bytes) -> None:
        database.execute("INSERT INTO records VALUES (?)", (line,))

    return insert


def _figures(name: str, by_case: Mapping[str, Callable[[], object]], rounds: int) -> list[Figure]:
    walls: dict[str, list[float]] = {which: [] for which in by_case}
    cpu: dict[str, list[float]] = {which: [] for which in by_case}
    cases = tuple(by_case.items())
    gc.collect()
    for number in range(WARM_UP + TRIES * max(1, rounds // 5)):
        for which, case in cases[number % len(cases) :] + cases[: number % len(cases)]:
            used, started = time.thread_time(), time.perf_counter()
            case()
            ended, spent = time.perf_counter(), time.thread_time()
            if number >= WARM_UP:
                walls[which].append((ended - started) * 1e6)
                cpu[which].append((spent - used) * 1e6)
    bare = statistics.median(walls["bare"])
    ratio, least = statistics.median(walls["ours"]) / bare, statistics.median(walls["least"]) / bare
    own = statistics.median(cpu["ours"]) - statistics.median(cpu["bare"])
    with mock.patch.object(os, "fsync", return_value=None):
        warm = _cpu_of(by_case["ours"]) - _cpu_of(by_case["bare"])
    tries = len(walls["ours"])
    return [
        Figure("append", f"{name}, to a bare write and fsync", ratio, "x", 1.05, tries, of="G14"),
        Figure(
            "append",
            f"{name}, to SQLite with synchronous=FULL",
            statistics.median(walls["ours"]) / statistics.median(walls["table"]),
            "x",
            0.9,
            tries,
            of="G14",
        ),
        Figure("append", f"{name}, the least in Python, to the same", least, "x", tries=tries),
        figure("append", f"{name}, bare write and fsync", walls["bare"], "µs"),
        Figure("append", f"{name}, CPU beyond that", own, "µs", tries=tries),
        Figure("append", f"{name}, CPU beyond that without the waiting", warm, "µs", 20, TRIES),
    ]


def _cpu_of(case: Callable[[], object]) -> float:
    """Give the microseconds of CPU that it takes when it is called over and over: no cache gets cold."""
    started = time.thread_time()
    for _ in range(TRIES):
        case()
    return (time.thread_time() - started) / TRIES * 1e6
