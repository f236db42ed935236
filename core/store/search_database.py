"""The SQLite file of the search index: its tables, who may write to it, and its faults as sentences."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from refold.core.errors import RefoldError, StoreError
from refold.core.search_text import RULES
from refold.core.store.files import open_regular, private_directory

FORMAT: Final = 2
"""Raised whenever the same bytes would be indexed in another way."""
NAME: Final = f"search-{FORMAT}.db"
LOCK: Final = "search.lock"
HASH_SIZE: Final = 16 << 20
"""Bytes of words that SQLite gathers before it writes them: fewer, larger pieces, and fewer merges."""
_WAIT: Final = 0.05
TABLES: Final = """
CREATE TABLE rules (text TEXT NOT NULL);
CREATE TABLE source (
    id INTEGER PRIMARY KEY, file BLOB NOT NULL, identity TEXT NOT NULL, stamp TEXT NOT NULL,
    settled INTEGER NOT NULL, done INTEGER NOT NULL, upto INTEGER NOT NULL,
    head BLOB NOT NULL, foot BLOB NOT NULL, alive INTEGER NOT NULL
);
CREATE INDEX source_by_file ON source (file) WHERE alive;
CREATE VIRTUAL TABLE words USING fts5(
    prompt, answer, argument, result, content='', columnsize=0, tokenize='ascii'
)
"""


class IndexProblem(RefoldError):
    """There is no index to search in or to write to; the search goes on without."""


def connect(path: Path) -> sqlite3.Connection:
    """Open the file of an index; no transaction is begun by itself.

    Raises:
        IndexProblem: it is not there, or is no plain file.
    """
    try:
        os.close(open_regular(path))
    except StoreError as error:
        raise IndexProblem(f"the index cannot be read: {error}") from error
    return sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?mode=rw", uri=True, timeout=_WAIT, isolation_level=None
    )


def has_tables(database: sqlite3.Connection) -> bool:
    """Say whether an index was begun; until then the file is empty."""
    return bool(database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def require_rules(path: Path, database: sqlite3.Connection) -> None:
    """Refuse an index whose words were told apart by other rules.

    Raises:
        IndexProblem: they are others.
    """
    found = database.execute("SELECT text FROM rules").fetchall()
    if found != [(RULES,)]:
        raise IndexProblem(f"{path.name}: written by another version of Python or Refold")


def take_lock(cache: Path) -> int:
    """Become the one process that writes to the index, and give the descriptor that says so.

    Raises:
        IndexProblem: another one is, or the cache cannot be written.
    """
    try:
        private_directory(cache)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        lock = os.open(cache / LOCK, flags, 0o600)
    except (OSError, StoreError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise IndexProblem(f"the cache cannot be written: {why}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise IndexProblem("another Refold brings the index up to date") from error
    return lock


@contextlib.contextmanager
def problems(path: Path) -> Iterator[None]:
    """Turn what SQLite raises into a sentence, and what the system answers about its file."""
    try:
        yield
    except OSError as error:
        raise IndexProblem(f"the index {path.name} cannot be used: {error.strerror or error}") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", "") or type(error).__name__
        if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            said = "is in use by another program"
        elif code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            said = "is damaged"
        else:
            said = f"cannot be used: {error}"
        raise IndexProblem(f"the index {path.name} {said}") from error
