"""A run that is forked, salvaged, repaired or put back, and what must be true however that ended."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests import generate
from tests.faults import forker

from refold.core.errors import RunExists
from refold.core.journal_text import fold_bytes
from refold.core.store import fork, repair, salvage
from refold.core.store.catalog import Catalog, Root
from refold.core.store.notes import NotesStore
from refold.core.store.reader import RunReader
from refold.core.summary import RunSummary

FORKER = Path(forker.__file__)
STRACE = shutil.which("strace")
SCENARIOS = ("fork", "salvage", "repair", "undo")
TORN = b'{"seq":15,"protocol":"io.chor'


class Scene:
    """A run before the child begins, and what must be true however the child ended."""

    def __init__(self, directory: Path, scenario: str, notes: str = "notes") -> None:
        self.directory = directory
        self.scenario = scenario
        self.runs = directory / "runs"
        self.runs.mkdir(parents=True, mode=0o700)
        self.parent = self.runs / "parent.json"
        self.child = self.runs / "child.json"
        self.notes = NotesStore(directory / notes)
        lines = list(generate.journal(records=14, style="fisk-ai-v3", run_id="parent", ending="suspended"))
        if scenario == "salvage":
            lines.insert(9, b"\0\0 damage\n")
        self.whole = b"".join(lines)
        self.torn = self.whole + TORN if scenario in {"repair", "undo"} else self.whole
        self.parent.write_bytes(self.torn)
        self.side_file = self.runs / f"parent.{len(self.whole)}.torn"
        if scenario == "undo":
            with RunReader.open(self.parent) as reader:
                plan = repair.plan_for(reader)
            assert plan is not None
            assert repair.repair(plan, "fisk-ai", notes=self.notes)
        self.mtime = self.parent.stat().st_mtime_ns
        self.before = self.parent.read_bytes()

    def command(self) -> list[str]:
        return [sys.executable, str(FORKER), self.scenario, str(self.directory)]

    def traced(self, *options: str) -> list[str]:
        assert STRACE is not None
        watched = [word for path in self._paths() for word in ("-P", str(path))]
        return [STRACE, "-f", "-qq", *options, *watched, *self.command()]

    def _paths(self) -> Iterator[Path]:
        """Give every path that the child changes, locks or makes durable."""
        temporary = self.runs / f".child.{forker.HEX}.fork"
        notes = [self.notes.path_of(path) for path in (temporary, self.child, self.parent)]
        yield from (self.directory, self.runs, self.runs / "parent.lock", self.child, temporary)
        yield from (self.notes.directory, self.side_file, *notes)
        yield from (path.with_name(f".{path.name}.{forker.HEX}.tmp") for path in notes)
        if self.scenario in {"repair", "undo"}:
            yield self.parent

    def check(self, output: str) -> None:
        """Check what is there, and that the next try brings about what this one was to."""
        if self.scenario in {"repair", "undo"}:
            self._check_repair(output)
        else:
            self._check_new_run(output)

    def _check_new_run(self, output: str) -> None:
        assert (self.parent.read_bytes(), self.parent.stat().st_mtime_ns) == (self.before, self.mtime)
        assert listed(self.runs) <= {"parent", "child"}
        assert succeeded(output) <= self.child.exists()
        for file in self.runs.iterdir():
            assert file in {self.parent, self.child} or file.name == f".child.{forker.HEX}.fork"
            # The lock of a killed maker is gone with it, and nobody has to wait for its file to be old.
            moment = time.time() - 60
            if file != self.parent:
                os.utime(file, (moment, moment))
        noted = "made True False" not in output
        if self.child.exists():
            self._check_child(noted=noted)
        with RunReader.open(self.parent) as reader:
            reader.index_all()
            again: RunExists | None = None
            try:
                if self.scenario == "fork":
                    fork.carry_out(fork.plan_at(reader, forker.AT, child="child"), notes=self.notes)
                else:
                    salvage.carry_out(salvage.salvage_of(reader, child="child"), notes=self.notes)
            except RunExists as error:
                again = error
            if again is not None:
                other = fork.carry_out(fork.plan_at(reader, 2, child="other"), notes=self.notes)
                other.path.unlink()
        self._check_child(noted=noted or again is None)
        assert {file.name for file in self.runs.iterdir()} == {"parent.json", "child.json"}

    def _check_child(self, *, noted: bool) -> None:
        data = self.child.read_bytes()
        records = data.split(b"\n")
        good = [line for line in self.whole.split(b"\n") if b"damage" not in line]
        count = forker.AT + 1 if self.scenario == "fork" else 14
        assert records[1:] == [*good[1:count], b""]
        assert fold_bytes(data).run_id == "child"
        if not noted:
            return
        notes = self.notes.read(self.child)
        assert notes.forked_from is not None
        assert (notes.forked_from.run_id, notes.forked_from.seq) == ("parent", count)
        taken = self.whole[: self.whole.index(good[count - 1]) + len(good[count - 1]) + 1]
        assert notes.forked_from.prefix_sha256 == hashlib.sha256(taken).hexdigest()
        assert bool(notes.left_out) == (self.scenario == "salvage")

    def _check_repair(self, output: str) -> None:
        now = self.parent.read_bytes()
        # Where putting back was cut short, all that is put back still lies in the side file.
        in_part = now not in (self.whole, self.torn)
        assert now.startswith(self.whole)
        if succeeded(output):
            assert now == (self.whole if self.scenario == "repair" else self.torn)
        if now != self.torn:
            assert TORN in self._side_files()
        with RunReader.open(self.parent) as reader:
            plan = repair.plan_for(reader)
        assert (plan is None) == (now == self.whole)
        if plan is not None:
            repair.repair(plan, "fisk-ai", notes=self.notes)
        assert self.parent.read_bytes() == self.whole
        assert TORN in self._side_files()
        if in_part:
            assert self.scenario == "undo"
            return
        assert repair.undo(self.parent, notes=self.notes).torn_bytes == len(TORN)
        assert self.parent.read_bytes() == self.torn
        # A part of the torn bytes may lie in the file of a repair that was stopped while it kept them.
        left = [each.rstrip(b"\0") for each in self._side_files()]
        assert all(TORN.startswith(each) and each != TORN for each in left)

    def _side_files(self) -> list[bytes]:
        names = {file.name for file in self.runs.iterdir()} - {"parent.json", "parent.lock"}
        assert all(name.startswith(f"parent.{len(self.whole)}.") for name in names)
        return [(self.runs / name).read_bytes() for name in names]


def succeeded(output: str) -> bool:
    return re.search("^made ", output, re.MULTILINE) is not None


def listed(directory: Path) -> set[str]:
    catalog = Catalog([Root(directory, "refold", "test")], cache=None)
    found = {row.id for row in catalog.scan() if isinstance(row, RunSummary)}
    catalog.close()
    return found
