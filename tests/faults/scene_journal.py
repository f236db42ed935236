"""A journal that is begun or gone on with, and what must be true of it however its writer ended."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import msgspec
from tests.faults import writer

from refold.core.formats.journal import NATIVE
from refold.core.records import MetaRecord, Record
from refold.core.repair import TornTail
from refold.core.store.journal import JournalStore

WRITER = Path(writer.__file__)
TORN = 77
STRACE = shutil.which("strace")


def _silent(_text: str) -> None:
    return None


class Scene:
    """A run before the child begins, and what must be true of it after the child ended, however it ended."""

    def __init__(self, directory: Path, scenario: str, end: str = "clean") -> None:
        self.directory = directory / "runs"
        self.scenario = scenario
        self.torn = b""
        self.before = 0
        if scenario != "create":
            store = JournalStore(self.directory)
            with store.create(writer.RUN_ID, MetaRecord(prompt=writer.TEXT)) as journal:
                writer.append(journal, 4, _silent)
            self.before = 5
            path = store.path_of(writer.RUN_ID)
            data = path.read_bytes()
            if end == "torn":
                start = data.rindex(b"\n", 0, -1) + 1
                self.torn, self.before = data[start : start + TORN], 4
                path.write_bytes(data[: start + TORN])
            elif end == "unended":
                # A whole record without its newline was never acknowledged, although it counts once found.
                self.before = 4
                path.write_bytes(data[:-1])

    def command(self, *failpoint: str) -> list[str]:
        return [sys.executable, str(WRITER), self.scenario, str(self.directory), *failpoint]

    def traced(self, *options: str) -> list[str]:
        assert STRACE is not None
        runs = self.directory
        side_file = runs / f"{writer.RUN_ID}.{self.torn_at}.torn"
        paths = (runs.parent, runs, runs / "run.json", runs / "run.lock", side_file)
        watched = [word for path in paths for word in ("-P", str(path))]
        return [STRACE, "-f", "-qq", *options, *watched, *self.command()]

    @property
    def torn_at(self) -> int:
        path = self.directory / "run.json"
        return path.stat().st_size - len(self.torn) if self.torn else 0

    def check(self, output: str) -> None:
        """Check that nothing is lost, and that the run can be opened and go on."""
        acknowledged = [int(seq) for seq in re.findall(r"^(?:ack|open) (\d+)$", output, re.MULTILINE)]
        known = max([self.before, *acknowledged])
        store = JournalStore(self.directory)
        path = self.directory / "run.json"
        if not path.exists():
            assert known == 0
            store.create(writer.RUN_ID, MetaRecord(prompt=writer.TEXT)).close()
        try:
            journal = store.open(writer.RUN_ID)
        except TornTail as torn:
            journal = store.open(writer.RUN_ID, repair=torn.plan)
        with journal:
            assert known <= journal.last_seq <= known + 1
            writer.append(journal, 2, _silent)
            last = journal.last_seq
        assert store.load(writer.RUN_ID).last_seq == last
        decoder = NATIVE.decoder(path.read_bytes())
        records = [decoder.record(line) for line in path.read_bytes()[:-1].split(b"\n")]
        assert [record.seq for record in records] == list(range(1, last + 1))
        for record in records[1:]:
            assert _content(record) == _content(writer.record_at(record.seq))
        side_files = list(self.directory.glob("*.torn"))
        if self.torn:
            assert self.torn in [side_file.read_bytes() for side_file in side_files]
        assert {entry.name for entry in self.directory.iterdir()} == {
            "run.json",
            "run.lock",
            *(side_file.name for side_file in side_files),
        }


def _content(record: Record) -> Record:
    return msgspec.structs.replace(record, seq=0, time=None)
