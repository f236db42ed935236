"""Every state a disk may be in after the power failed while a run directory was claimed and written.

At each point between two calls of the writer, what was not synced may be there, half there, full of zeros or
missing, and a name whose directory was not synced may still lead to the file it led to before. All that was
acknowledged must be there, the manifest must be whole and at most one ahead, and the run must go on.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.rivumi_cases import workspace
from tests.session_story import begin, events_of, manifest_of, store

from refold.core.rivumi.claim import SessionRefused
from refold.core.rivumi.items import message
from refold.core.rivumi.verdict import verdict
from refold.core.store.session import SessionStore
from refold.core.store.session_files import read_run
from refold.core.store.session_run import Session


class Stored:
    """A file: what is surely on disk, and what was done to it since."""

    def __init__(self, content: bytes = b"") -> None:
        self.synced = content
        self.now = content
        self.states = [content]

    def change(self, content: bytes) -> None:
        added = content[len(self.now) :]
        for size in {0, 1, len(added) // 3, len(added) // 2, len(added) - 1} if added else ():
            part = self.now + added[:size]
            self.states += [part, part + b"\0" * (len(added) - size)]
        self.states.append(content)
        self.now = content

    def sync(self) -> None:
        self.synced, self.states = self.now, [self.now]


class Disk:
    """Follows the calls of the writer on one directory, and says what a power failure may leave of it."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.names = {path.name: Stored(path.read_bytes()) for path in directory.iterdir() if path.is_file()}
        self.sure: dict[str, Stored] = dict(self.names)
        self.moments: list[tuple[int, list[dict[str, bytes]]]] = []
        """After each call: the last event acknowledged by then, and the states that may be found."""
        self.acknowledged = len(events_of(directory)) - 1
        self._fds: dict[int, Stored | None] = {}
        for name in ("open", "write", "fsync", "ftruncate", "replace"):
            patch.setattr(os, name, self._following(name, getattr(os, name)))

    def _following(self, name: str, real: Any) -> Any:
        def call(target: Any, *arguments: Any, **options: Any) -> Any:
            answer = real(target, *arguments, **options)
            if name == "open":
                self._opened(Path(target), arguments[0], answer)
            elif name == "replace":
                if Path(target).parent == self.directory:
                    self.names[Path(arguments[0]).name] = self.names.pop(Path(target).name)
                    self._note()
            elif target in self._fds:
                self._touched(name, self._fds[target], arguments)
                self._note()
            return answer

        return call

    def _opened(self, path: Path, flags: int, fd: int) -> None:
        self._fds.pop(fd, None)
        if path == self.directory:
            self._fds[fd] = None
        elif path.parent == self.directory:
            if flags & os.O_CREAT:
                self.names.setdefault(path.name, Stored())
            self._fds[fd] = self.names[path.name]

    def _touched(self, name: str, file: Stored | None, arguments: tuple[Any, ...]) -> None:
        if file is None:
            self.sure = dict(self.names)
        elif name == "write":
            file.change(file.now + bytes(arguments[0]))
        elif name == "ftruncate":
            file.change(file.now[: arguments[0]])
        else:
            file.sync()

    def _note(self) -> None:
        self.moments.append((self.acknowledged, [*self._after_power_loss()]))

    def _after_power_loss(self) -> Iterator[dict[str, bytes]]:
        names = sorted({*self.names, *self.sure})
        choices = [{id(each): each for each in (self.names.get(name), self.sure.get(name))} for name in names]
        for files in product(*(choice.values() for choice in choices)):
            for contents in product(*(set(file.states) if file is not None else {None} for file in files)):
                yield {name: data for name, data in zip(names, contents, strict=True) if data is not None}


def _claim(runs: SessionStore) -> Session:
    try:
        return runs.claim_and_validate_resume("run")
    except SessionRefused:
        plan = runs.plan_repair("run")
        assert plan is not None
        runs.repair("run", plan)
        return runs.claim_and_validate_resume("run")


def test_no_power_failure_takes_what_was_acknowledged(tmp_path: Path) -> None:
    runs = store(tmp_path)
    begin(runs).close()
    run = runs.path_of("run")
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(run, patch)
        with runs.claim_and_validate_resume("run") as session:
            disk.acknowledged = session.last_sequence
            for number in range(2):
                disk.acknowledged = session.emit("hook.completed", messages=[message("user", f"é{number}")])
    events = events_of(run)
    assert disk.acknowledged == len(events) - 1 == 4
    tried: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        # The states are on a disk that does not fail: nothing in them has to be synced.
        patch.setattr(os, "fsync", lambda fd: None)
        for known, states in disk.moments:
            for state in states:
                key = json.dumps([known, {name: data.hex() for name, data in state.items()}], sort_keys=True)
                if key not in tried:
                    tried.add(key)
                    _recover(tmp_path / f"state-{len(tried)}", state, events[: known + 1])
    assert len(tried) >= 60


def _recover(directory: Path, state: dict[str, bytes], acknowledged: list[dict[str, Any]]) -> None:
    copy = directory / "run"
    copy.mkdir(parents=True)
    for name, data in state.items():
        (copy / name).write_bytes(data)
    workspace(copy)
    assert verdict(read_run(copy)).original.code in {"ok", "invalid_event"}
    ahead = manifest_of(copy)["last_event_sequence"] - (state["events.jsonl"].count(b"\n") - 1)
    assert ahead in {0, 1}
    with _claim(SessionStore(directory)) as session:
        session.emit("hook.completed")
        found = events_of(copy)
        assert found[: len(acknowledged)] == acknowledged
        assert [event["sequence"] for event in found] == list(range(len(found)))
        assert manifest_of(copy)["last_event_sequence"] == session.last_sequence
    shutil.rmtree(directory)
