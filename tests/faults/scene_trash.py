"""Runs that are trashed, restored and deleted: at home whole or in the trash whole, never in neither."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests import generate

from refold.core.store.trash import carry_out, plan_for
from refold.core.store.trash_list import Entry, delete, entries, restore

Say = Callable[[str], None]
TORN = b'{"seq":7,"proto'
OLD = 1_700_000_000


class Trashed:
    """A run with a side file and a lock, which is put into the trash."""

    def __init__(self, directory: Path) -> None:
        self._root = directory / "runs"
        self._root.mkdir(mode=0o700)
        self._run, self._side = self._root / "run.json", self._root / "run.900.torn"
        self._whole = b"".join(generate.journal(records=5, run_id="run"))
        for path, data in ((self._run, self._whole), (self._side, TORN), (self._root / "run.lock", b"")):
            path.write_bytes(data)
            path.chmod(0o600)
            os.utime(path, (OLD, OLD))
        self._prepare()

    def _prepare(self) -> None:
        return

    @staticmethod
    def play(directory: Path, say: Say) -> None:
        """Put it into the trash."""
        made = carry_out(plan_for(directory / "runs" / "run.json"), status="completed")
        say(f"made {made.durable}")

    def check(self, said: str) -> None:
        """Check that it is in one place, bring it back, and put it into the trash again."""
        assert "made True" not in said or not self._run.exists()
        self._bring_home()
        assert carry_out(plan_for(self._run)).plan.id == "run"
        assert not self._run.exists()
        self._bring_home()

    def _bring_home(self) -> None:
        """Restore the run if it is in the trash; all of it is at home then."""
        found = self._entries()
        if not self._run.exists():
            assert len(found) == 1, "the run is neither at home nor in the trash"
        for entry in found:
            restore(entry)
        assert self._run.read_bytes() == self._whole
        assert self._run.stat().st_mtime == OLD
        assert self._side.read_bytes() == TORN

    def _entries(self) -> list[Entry]:
        """Give what can be restored; a try that moved nothing may leave a manifest of nothing."""
        return [entry for entry in entries([self._root]) if entry.parts]


class Restored(Trashed):
    """A run in the trash, which is restored."""

    def _prepare(self) -> None:
        carry_out(plan_for(self._run))

    @staticmethod
    def play(directory: Path, say: Say) -> None:
        """Bring it back."""
        for entry in entries([directory / "runs"]):
            restore(entry)
            say("made")

    def check(self, said: str) -> None:
        """Check that it is in one place, and bring it back."""
        assert "made" not in said or self._run.exists()
        self._bring_home()


class Deleted(Trashed):
    """A run in the trash, which is deleted for good, beside another one that is not."""

    def _prepare(self) -> None:
        other = self._root / "other.json"
        other.write_bytes(self._whole)
        carry_out(plan_for(other))
        carry_out(plan_for(self._run))

    @staticmethod
    def play(directory: Path, say: Say) -> None:
        """Delete one of two."""
        for entry in entries([directory / "runs"]):
            if entry.id == "run":
                delete(entry)
                say("made")

    def check(self, said: str) -> None:
        """Check that the other one is still there, and that nothing is left after another try."""
        left = {entry.id: entry for entry in entries([self._root])}
        assert left["other"].state == "whole"
        mine = [entry for entry in left.values() if entry.id != "other"]
        assert "made" not in said or not mine
        for entry in mine:
            assert entry.state in {"whole", "deleting"}
            delete(entry)
        restore(left["other"])
        assert (self._root / "other.json").read_bytes() == self._whole
        assert not self._run.exists()
        assert [entry.id for entry in entries([self._root])] == []
