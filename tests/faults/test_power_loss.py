"""Every state a disk may be in after the power failed while a run was written, made and recovered from.

The calls of the store are recorded. At each point between them, whatever was not synced may be there, half
there, full of zeros or missing, and a name whose directory was not synced may be missing too
(design/safety.md 2.1 and 2.2 C). All that was acknowledged before the point must be there afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from refold.core.formats.journal import NATIVE
from refold.core.records import Message, MetaRecord, UserRecord
from refold.core.repair import TornTail
from refold.core.store.journal import Journal, JournalStore

TEXT = "né" * 20


@dataclass
class Event:
    """One call that changed the disk, or an acknowledgement."""

    kind: str
    path: Path = Path()
    data: bytes = b""
    number: int = 0


@dataclass
class Stored:
    """A file: what is surely on disk, and what was done to it since."""

    synced: bytes = b""
    pending: list[Event] = field(default_factory=list)

    def now(self) -> bytes:
        """Give the content that a process sees."""
        content = self.synced
        for event in self.pending:
            content = _applied(content, event)
        return content

    def after_power_loss(self) -> Iterator[bytes]:
        """Yield each content that may be found."""
        content = self.synced
        yield content
        for event in self.pending:
            if event.kind == "write":
                for size in {*range(0, len(event.data), 11), len(event.data) - 1}:
                    yield content + event.data[:size]
                    yield content + event.data[:size] + b"\0" * (len(event.data) - size)
            content = _applied(content, event)
            yield content


def _applied(content: bytes, event: Event) -> bytes:
    return content + event.data if event.kind == "write" else content[: event.number]


class Recorder:
    """Records what the store does to the files below a directory."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.events: list[Event] = []
        self._paths: dict[int, Path] = {}
        self._patch = patch
        for name in ("open", "write", "fsync", "ftruncate", "mkdir", "unlink"):
            self._wrap(name, getattr(os, name))

    def _wrap(self, name: str, real: Any) -> None:
        def recording(target: Any, *arguments: Any, **options: Any) -> Any:
            if name == "open":
                made = bool(arguments[0] & os.O_CREAT)
                fd = real(target, *arguments, **options)
                self._paths[fd] = Path(target)
                if made:
                    self._record(Event("create", Path(target)))
                return fd
            answer = real(target, *arguments, **options)
            path = self._paths[target] if isinstance(target, int) else Path(target)
            if name == "write":
                self._record(Event("write", path, bytes(arguments[0])))
            elif name == "ftruncate":
                self._record(Event("truncate", path, number=arguments[0]))
            elif name == "fsync":
                self._record(Event("sync", path))
            else:
                self._record(Event("create" if name == "mkdir" else "remove", path))
            return answer

        self._patch.setattr(os, name, recording)

    def _record(self, event: Event) -> None:
        if event.path.is_relative_to(self.root):
            self.events.append(event)

    def acknowledge(self, seq: int) -> None:
        """Note that the caller was told of this sequence."""
        self.events.append(Event("ack", number=seq))


class Disk:
    """What is on a disk after some of the calls, and what may be on it if the power fails now."""

    def __init__(self, root: Path, files: dict[Path, bytes], directories: set[Path]) -> None:
        self._root = root
        self._files = {path: Stored(content) for path, content in files.items()}
        self._directories = {root, *directories}
        self._unsure: set[Path] = set()

    def apply(self, event: Event) -> None:
        path = event.path
        if event.kind == "create":
            self._unsure.add(path)
            if path.is_dir():
                self._directories.add(path)
            else:
                self._files[path] = Stored()
        elif event.kind == "sync" and path in self._directories:
            self._unsure = {each for each in self._unsure if each.parent != path}
        elif event.kind == "sync":
            self._files[path] = Stored(self._files[path].now())
        elif event.kind in {"write", "truncate"}:
            self._files[path].pending.append(event)

    def after_power_loss(self) -> Iterator[dict[Path, bytes]]:
        """Yield the files, by relative path, of each state that may be found."""
        paths = sorted(self._files)
        for there in product((True, False), repeat=len(self._unsure)):
            missing = {path for path, kept in zip(sorted(self._unsure), there, strict=True) if not kept}
            left = [path for path in paths if not missing & {path, *path.parents}]
            for contents in product(*(set(self._files[path].after_power_loss()) for path in left)):
                yield {
                    path.relative_to(self._root): content
                    for path, content in zip(left, contents, strict=True)
                }


def _append(journal: Journal, recorder: Recorder | None) -> None:
    seq = journal.last_seq + 1
    text = {"type": "text", "text": f"{TEXT} {seq}"}
    record = UserRecord(Message("user", (dict(text),)))
    seq = journal.append(MetaRecord(prompt=TEXT) if seq == 1 else record)
    if recorder is not None:
        recorder.acknowledge(seq)


def _open(store: JournalStore) -> Journal:
    try:
        return store.open("run")
    except TornTail as torn:
        return store.open("run", repair=torn.plan)


def _recover(directory: Path, known: int, at_most: int, torn: bytes) -> None:
    store = JournalStore(directory)
    path = directory / "run.json"
    if not path.exists():
        assert known == 0
        store.create("run", MetaRecord(prompt=TEXT)).close()
    with _open(store) as journal:
        assert known <= journal.last_seq <= at_most
        _append(journal, None)
        _append(journal, None)
        last = journal.last_seq
    assert store.load("run").last_seq == last
    data = path.read_bytes()
    decoder = NATIVE.decoder(data)
    records = [decoder.record(line) for line in data[:-1].split(b"\n")]
    assert [record.seq for record in records] == list(range(1, last + 1))
    for record in records[1:]:
        assert isinstance(record, UserRecord)
        assert record.message.content == ({"type": "text", "text": f"{TEXT} {record.seq}"},)
    if torn:
        assert any(side_file.read_bytes() == torn for side_file in directory.glob("*.torn"))


@pytest.mark.parametrize("scenario", ["create", "torn", "unended"])
def test_no_power_failure_takes_what_was_acknowledged(tmp_path: Path, scenario: str) -> None:
    root = tmp_path / "disk"
    directory = root / "runs"
    root.mkdir()
    store = JournalStore(directory)
    path = directory / "run.json"
    known, found, torn = 0, 0, b""
    if scenario != "create":
        with store.create("run", MetaRecord(prompt=TEXT)) as journal:
            for _ in range(3):
                _append(journal, None)
        data = path.read_bytes()
        start = data.rindex(b"\n", 0, -1) + 1
        # A whole record without its newline was never acknowledged, although it counts once it is found.
        known = 3
        found = 3 if scenario == "torn" else 4
        torn = data[start : start + 70] if scenario == "torn" else b""
        path.write_bytes(data[: start + 70] if torn else data[:-1])
    files = {each: each.read_bytes() for each in root.rglob("*") if each.is_file()}
    directories = {each for each in root.rglob("*") if each.is_dir()}

    with pytest.MonkeyPatch.context() as patch:
        recorder = Recorder(root, patch)
        if scenario == "create":
            journal = store.create("run", MetaRecord(prompt=TEXT))
            recorder.acknowledge(1)
        else:
            journal = _open(store)
        with journal:
            for _ in range(3):
                _append(journal, recorder)
    kinds = [event.kind for event in recorder.events]
    assert kinds.count("sync") >= 5
    assert kinds.count("truncate") == (1 if torn else 0)

    disk = Disk(root, files, directories)
    states = 0
    # The states are on a disk that does not fail: nothing in them has to be synced.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        for event in (Event("ack", number=known), *recorder.events):
            known = max(known, event.number if event.kind == "ack" else 0)
            disk.apply(event)
            for state in disk.after_power_loss():
                copy = tmp_path / f"state-{states}"
                for name, content in state.items():
                    (copy / name).parent.mkdir(parents=True, exist_ok=True)
                    (copy / name).write_bytes(content)
                _recover(copy / "runs", known, max(known, found) + 1, torn)
                states += 1
    assert states >= 100
