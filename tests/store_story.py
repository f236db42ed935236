"""What the tests of the store write, and how they look at it."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from refold.core.formats.journal import NATIVE
from refold.core.records import Fingerprint, Message, MetaRecord, Record, UserRecord
from refold.core.store.journal import JournalStore

META = MetaRecord(
    fingerprint=Fingerprint("opus", "5" * 64, "7" * 64, "off", 200_000, 50, "anthropic"), prompt="go"
)
HOSTILE_IDS = ["../x", "", "a\n", "a" * 129, "-rf", "a\0b", "/etc/passwd", "."]
CLOCK_START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def user(text: str, seq: int = 0) -> UserRecord:
    """A follow-up of the user."""
    return UserRecord(Message("user", ({"type": "text", "text": text},)), seq=seq)


def journal_store(directory: Path) -> JournalStore:
    """A store whose clock goes on by a microsecond a record."""
    ticks = count()
    return JournalStore(directory, clock=lambda: CLOCK_START + timedelta(microseconds=next(ticks)))


def records(path: Path) -> list[Record]:
    """The records of a journal, whose every line must be one."""
    data = path.read_bytes()
    assert data.endswith(b"\n")
    decoder = NATIVE.decoder(data)
    return [decoder.record(line) for line in data[:-1].split(b"\n")]


def names(directory: Path) -> set[str]:
    """The names in a directory."""
    return {entry.name for entry in directory.iterdir()}


def fail_with(code: int) -> object:
    """A stand-in for a call of the system that fails."""

    def fail(*arguments: object, **options: object) -> int:
        raise OSError(code, os.strerror(code))

    return fail
