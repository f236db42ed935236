"""The index of a search: the words of all runs in one SQLite file of the cache, which may vanish any moment.

A run costs what is new of it. Only places are kept, no texts: a hit is read from its run again, so that the
index could be wrong by silence only, and it counts for a file only as long as stamp, head and foot of that
are those that were indexed. One process at a time writes, under a lock; the others read what is there.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from refold.core.errors import StoreError
from refold.core.search_record import Document, read_line
from refold.core.search_text import RULES, SCOPES, Query, column
from refold.core.store.files import create_private, open_regular
from refold.core.store.search_database import (
    FORMAT,
    HASH_SIZE,
    NAME,
    TABLES,
    IndexProblem,
    connect,
    has_tables,
    problems,
    require_rules,
    take_lock,
)
from refold.core.store.search_source import Source, edges, read_blocks, read_whole

_SHIFT: Final = 40
"""A place is the number of a file and, in its lowest bits, where in that a document begins."""
_PLACES: Final = 1 << _SHIFT
_COMMIT_BYTES: Final = 128 << 20
_COMMIT_SECONDS: Final = 10.0
_SETTLED_NS: Final = 2_000_000_000
"""A file changed within this time may change again without a new time stamp."""
_REWRITTEN_NS: Final = 60 * 10**9
"""A file that is written as a whole is indexed when it has been left alone for so long."""
_MOST_DEAD: Final = 64 << 20
_INSERT: Final = "INSERT INTO words(rowid, prompt, answer, argument, result) VALUES (?, ?, ?, ?, ?)"
_KEEP: Final = "INSERT OR REPLACE INTO source VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1)"
_IN_ONE: Final = """
SELECT rowid FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid LIMIT ?
"""


class Standing(NamedTuple):
    """What the index knows of one file."""

    id: int
    upto: int
    """The bytes before this one are indexed."""


class _Row(NamedTuple):
    id: int
    identity: str
    stamp: str
    settled: int
    """The stamp was old enough, when it was taken, to tell the next change."""
    done: int
    """The file was read to its end."""
    upto: int
    head: bytes
    foot: bytes


class SearchIndex:
    """An open index. Made by `open_index` or `open_to_build`; all calls are made from one thread."""

    def __init__(self, path: Path, database: sqlite3.Connection, lock: int = -1) -> None:
        self.path = path
        self._database = database
        self._lock = lock
        self._rows: dict[bytes, _Row] = {}
        self._version = -1
        self._dead = 0
        self._last = 0
        """The number that was given last."""
        self._pending: dict[int, tuple[bytes, _Row]] = {}
        self._buried: list[int] = []
        self.bytes_read = 0
        """How many bytes of runs were read to index them; for tests that count."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def may_build(self) -> bool:
        """Whether this is the process that writes."""
        return self._lock >= 0

    def close(self) -> None:
        """Let go of the file and of the lock."""
        with contextlib.suppress(sqlite3.Error):
            self._database.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def standing(self, source: Source) -> Standing | None:
        """Say how far a file is indexed; None where it is not, or is not what was indexed."""
        row = self._rows.get(os.fsencode(source.file))
        if row is None or row.identity != source.identity:
            return None
        if row.stamp == source.stamp and row.settled:
            return Standing(row.id, row.upto)
        # What a writer appends, and what a repair cuts off behind the last line, changes the size; what
        # leaves the size as it was may have changed anything.
        moved = source.kind == "lines" and source.size != _size(row.stamp)
        if not (moved or row.stamp == source.stamp) or source.size < row.upto:
            return None
        if not self._has_edges(source, row):
            return None
        return Standing(row.id, row.upto)

    def _has_edges(self, source: Source, row: _Row) -> bool:
        try:
            fd = open_regular(Path(source.file))
        except StoreError:
            return False
        try:
            return edges(fd, row.upto) == (row.head, row.foot)
        except OSError:
            return False
        finally:
            os.close(fd)

    def refresh(self) -> None:
        """Learn what was indexed since, by whatever process.

        Raises:
            IndexProblem: the index cannot be read.
        """
        with problems(self.path):
            version = self._database.execute("PRAGMA data_version").fetchone()[0]
            if version == self._version:
                return
            self._version = version
            self._learn()

    def _learn(self) -> None:
        found = self._database.execute(
            "SELECT file, id, identity, stamp, settled, done, upto, head, foot FROM source WHERE alive"
        )
        self._rows = {file: _Row(*rest) for file, *rest in found}
        self._dead, self._last = self._database.execute(
            "SELECT coalesce(sum(upto) FILTER (WHERE NOT alive), 0), coalesce(max(id), 0) FROM source"
        ).fetchone()

    def places(self, query: Query, limit: int) -> dict[int, list[int]] | None:
        """Give every place where a query may have a hit, by file; None where there are more than `limit`.

        Raises:
            IndexProblem: the index cannot be read.
        """
        found: dict[int, list[int]] = {}
        with problems(self.path):
            rows = self._database.execute(
                "SELECT rowid FROM words WHERE words MATCH ? LIMIT ?", (query.expression, limit + 1)
            ).fetchall()
        if len(rows) > limit:
            return None
        for (place,) in rows:
            found.setdefault(place >> _SHIFT, []).append(place & (_PLACES - 1))
        return found

    def places_in(self, query: Query, standing: Standing, limit: int) -> list[int]:
        """Give the first places in one file where a query may have a hit.

        Raises:
            IndexProblem: the index cannot be read.
        """
        first = standing.id << _SHIFT
        with problems(self.path):
            rows = self._database.execute(
                _IN_ONE, (query.expression, first, first + _PLACES - 1, limit)
            ).fetchall()
        return [place & (_PLACES - 1) for (place,) in rows]

    def missing(self, sources: Sequence[Source]) -> int:
        """Give how many bytes of these files are not indexed."""
        known = ((source, self.standing(source)) for source in sources)
        return sum(source.size - (standing.upto if standing is not None else 0) for source, standing in known)

    def size(self) -> int:
        """Give the bytes on disk."""
        names = (self.path, self.path.with_name(f"{NAME}-wal"))
        return sum(name.stat().st_size for name in names if name.exists())

    def build(self, sources: Sequence[Source]) -> Iterator[int]:
        """Index what is new in these files, in small steps, each of which says how many bytes it took.

        What is indexed counts at once for this process, for others when it is written, every ten seconds.

        Raises:
            IndexProblem: the index cannot be written.
        """
        with problems(self.path):
            self.refresh()
            now_ns = time.time_ns()
            begun, pending = time.monotonic(), 0
            self._database.execute("BEGIN IMMEDIATE")
            try:
                if self._dead > max(_MOST_DEAD, sum(row.upto for row in self._rows.values())):
                    self._start_anew()
                self._forget_the_gone(sources)
                for source in sources:
                    for taken in self._add(source, now_ns):
                        pending += taken
                        if pending >= _COMMIT_BYTES or time.monotonic() - begun >= _COMMIT_SECONDS:
                            self._commit()
                            self._database.execute("BEGIN IMMEDIATE")
                            begun, pending = time.monotonic(), 0
                        yield taken
                self._commit()
                # The log of what was written is as large as that, and lies beside it until it is put in.
                self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except GeneratorExit:
                self._commit()
                raise
            except BaseException:
                # What was gathered of a line that nobody noted would be gathered twice.
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise
            finally:
                self._pending.clear()
                self._buried.clear()
                self._learn()

    def _commit(self) -> None:
        """Write how far the files are indexed, and all since the last time.

        Each row that is written makes SQLite write the words that it has gathered: so not before.
        """
        for file, row in self._pending.values():
            self._database.execute(_KEEP, (row.id, file, *row[1:]))
        for number in self._buried:
            self._database.execute("UPDATE source SET alive = 0 WHERE id = ?", (number,))
        self._pending.clear()
        self._buried.clear()
        self._database.execute("COMMIT")

    def _add(self, source: Source, now_ns: int) -> Iterator[int]:
        """Index what is new in one file."""
        row, standing = self._rows.get(os.fsencode(source.file)), self.standing(source)
        settled = int(now_ns - source.changed_ns >= _SETTLED_NS)
        if row is not None and standing is not None and row.done and row.stamp == source.stamp:
            if settled > row.settled:
                self._note(source, row._replace(settled=settled))
            return
        if source.kind != "lines" and now_ns - source.changed_ns < _REWRITTEN_NS:
            return
        try:
            fd = open_regular(Path(source.file))
        except StoreError:
            return
        try:
            if source.kind != "lines":
                yield from self._add_whole(source, settled, fd)
                return
            if row is None or standing is None:
                row = self._replace(source, settled)
            yield from self._add_lines(source, row._replace(stamp=source.stamp, settled=settled, done=0), fd)
        except OSError:
            return
        finally:
            os.close(fd)

    def _add_lines(self, source: Source, row: _Row, fd: int) -> Iterator[int]:
        for block in read_blocks(fd, row.upto):
            length = block.end - block.start
            self.bytes_read += length
            if not block.is_whole:
                break
            for place, line in block.lines():
                self._insert(row.id, place, read_line(line))
            row = row._replace(upto=block.end)
            self._note(source, row, fd)
            yield length
        self._note(source, row._replace(done=1), fd)

    def _add_whole(self, source: Source, settled: int, fd: int) -> Iterator[int]:
        """Index a file that is written as a whole; it counts when it was read to its end."""
        row = self._replace(source, settled)
        file = os.fsencode(source.file)
        # Its number is taken from now on; left halfway, it is that of something gone.
        del self._rows[file], self._pending[row.id]
        self._database.execute(_KEEP, (row.id, file, *row._replace(upto=source.size)[1:]))
        self._buried.append(row.id)
        for found in read_whole(fd, source.kind):
            if found is None:
                yield 0
            else:
                self._insert(row.id, *found)
        self._buried = [number for number in self._buried if number != row.id]
        self._note(source, row._replace(upto=source.size, done=1), fd)
        yield source.size

    def _insert(self, number: int, place: int, document: Document) -> None:
        texts = document.texts
        if texts:
            columns = [column(texts[scope]) if scope in texts else None for scope in SCOPES]
            self._database.execute(_INSERT, ((number << _SHIFT) + place, *columns))

    def _replace(self, source: Source, settled: int) -> _Row:
        """Give a file a new number: what was indexed under its name is of another content."""
        file = os.fsencode(source.file)
        self._bury(file)
        self._last += 1
        row = _Row(self._last, source.identity, source.stamp, settled, 0, 0, b"", b"")
        self._rows[file] = row
        self._pending[row.id] = (file, row)
        return row

    def _note(self, source: Source, row: _Row, fd: int = -1) -> None:
        """Say how far a file is indexed now."""
        if fd >= 0:
            head, foot = edges(fd, row.upto)
            row = row._replace(head=head, foot=foot)
        file = os.fsencode(source.file)
        self._rows[file] = row
        self._pending[row.id] = (file, row)

    def _bury(self, file: bytes) -> None:
        """Let what is indexed of a file count no more."""
        row = self._rows.pop(file, None)
        if row is not None:
            self._buried.append(row.id)

    def _forget_the_gone(self, sources: Sequence[Source]) -> None:
        """Count out what has vanished; what lies in directories that are not looked at now stays."""
        present = {os.fsencode(source.file) for source in sources}
        for file in [file for file in self._rows if file not in present and not os.path.lexists(file)]:
            self._bury(file)

    def _start_anew(self) -> None:
        """Give the room of all that is gone back: single entries cannot be taken out of the index."""
        self._database.execute("INSERT INTO words(words) VALUES ('delete-all')")
        self._database.execute("DELETE FROM source")
        self._rows, self._dead, self._last = {}, 0, 0


def open_index(cache: Path) -> SearchIndex | None:
    """Open the index of a cache to search in it; None where there is none yet.

    Raises:
        IndexProblem: there is one, and it is of no use.
    """
    path = cache / NAME
    with problems(path):
        if not path.exists():
            return None
        database = connect(path)
        try:
            if not has_tables(database):
                database.close()
                return None
            require_rules(path, database)
            index = SearchIndex(path, database)
            index.refresh()
        except BaseException:
            database.close()
            raise
    return index


def open_to_build(cache: Path) -> SearchIndex:
    """Open or begin the index of a cache, as the one process that writes to it.

    One that is damaged, or of other rules, is begun anew; those of older formats are removed.

    Raises:
        IndexProblem: another process writes to it, or the cache cannot be written.
    """
    path = cache / NAME
    lock = take_lock(cache)
    try:
        for old in cache.glob("search-*.db*"):
            number = old.name.removeprefix("search-").partition(".")[0]
            if number.isdecimal() and int(number) < FORMAT:
                old.unlink(missing_ok=True)
        try:
            return _open_whole(path, lock)
        except IndexProblem:
            for name in (NAME, f"{NAME}-wal", f"{NAME}-shm"):
                (cache / name).unlink(missing_ok=True)
            return _open_whole(path, lock)
    except OSError as error:
        os.close(lock)
        raise IndexProblem(f"the index cannot be written: {error.strerror or error}") from error
    except BaseException:
        os.close(lock)
        raise


def _open_whole(path: Path, lock: int) -> SearchIndex:
    with problems(path):
        if not path.exists():
            try:
                os.close(create_private(path))
            except StoreError as error:
                raise IndexProblem(f"the index cannot be written: {error}") from error
        database = connect(path)
        try:
            database.execute("PRAGMA journal_mode = wal")
            database.execute("PRAGMA synchronous = normal")
            if not has_tables(database):
                database.execute("BEGIN IMMEDIATE")
                for statement in TABLES.split(";"):
                    database.execute(statement)
                database.execute("INSERT INTO rules VALUES (?)", (RULES,))
                database.execute("COMMIT")
            require_rules(path, database)
            database.execute("INSERT INTO words(words, rank) VALUES ('hashsize', ?)", (HASH_SIZE,))
            index = SearchIndex(path, database, lock)
            index.refresh()
        except BaseException:
            database.close()
            raise
    return index


def _size(stamp: str) -> int:
    return int(stamp.partition(":")[0])
