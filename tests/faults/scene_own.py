"""What Refold keeps and gives away: notes, caches, exports. The old or the new is there, and whole."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from tests import generate
from tests.rivumi_cases import make

from refold.core.export.json_text import json_object
from refold.core.export.markdown import markdown
from refold.core.redact import Redactor
from refold.core.state_json import state_json
from refold.core.store import list_cache
from refold.core.store.bundle import open_bundle
from refold.core.store.bundle_writing import write_bundle
from refold.core.store.catalog import Catalog, Root
from refold.core.store.export import Source, as_text, gathered
from refold.core.store.export_target import write_file
from refold.core.store.notes import NotesStore
from refold.core.store.reader import RunReader
from refold.core.store.seen import look
from refold.core.summary import RunSummary

Say = Callable[[str], None]
NOW = datetime(2026, 3, 1, tzinfo=UTC)
OLD = 1_700_000_000
RECORDS = tuple(generate.journal(records=9, run_id="run"))
LONG_LINES = tuple(generate.journal(size=1_100_000, run_id="long"))


def _write(path: Path, lines: Iterator[bytes] | tuple[bytes, ...]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    os.utime(path, (OLD, OLD))


class Noted:
    """A run whose notes are changed."""

    def __init__(self, directory: Path) -> None:
        self._run = directory / "runs" / "run.json"
        _write(self._run, generate.journal(records=4))
        self._notes = NotesStore(directory / "notes")
        self._notes.update(
            self._run, lambda known: msgspec.structs.replace(known, name="kept", note="é" * 99)
        )

    @staticmethod
    def play(directory: Path, say: Say) -> None:
        """Add a star, then a tag."""
        notes = NotesStore(directory / "notes")
        run = directory / "runs" / "run.json"
        notes.update(run, lambda known: msgspec.structs.replace(known, star=True))
        say("ack 1")
        notes.update(run, lambda known: msgspec.structs.replace(known, tags=("one",)))
        say("ack 2")

    def check(self, said: str) -> None:
        """Check that no note is lost, and note once more."""
        notes = self._notes.read(self._run)
        assert (notes.name, notes.note) == ("kept", "é" * 99)
        assert notes.star or "ack 1" not in said
        assert notes.tags or "ack 2" not in said
        assert notes.star or not notes.tags
        self._notes.update(self._run, lambda known: msgspec.structs.replace(known, cwd="/x"))
        assert self._notes.read(self._run) == msgspec.structs.replace(notes, cwd="/x")


class Indexed:
    """A long run whose index is kept."""

    def __init__(self, directory: Path) -> None:
        self._run, self._cache = directory / "runs" / "long.json", directory / "cache"
        _write(self._run, LONG_LINES)

    @staticmethod
    def play(directory: Path, say: Say) -> None:
        """Keep the index twice, the second time over the first."""
        for number in (1, 2):
            with RunReader.open(directory / "runs" / "long.json") as reader:
                reader.index_all()
                say(f"made {number} {reader.keep_index(directory / 'cache')}")

    def check(self, said: str) -> None:
        """Check that the run reads the same with the cache as without it."""
        assert "made 1 False" not in said or "made 2 True" not in said or self._cache.exists()
        assert self._answer(self._cache) == self._answer(None)

    def _answer(self, cache: Path | None) -> object:
        with RunReader.open(self._run, cache=cache) as reader:
            timeline = reader.index_all()
            if cache is not None:
                reader.keep_index(cache)
            last = timeline.items - 1
            return (
                timeline.items,
                timeline.counters(last),
                timeline.span(last),
                state_json(reader.state_at(last)),
            )


class Seen:
    """A run whose bytes are remembered, and remembered again once it grew."""

    def __init__(self, directory: Path) -> None:
        self._run, self._cache = directory / "runs" / "run.json", directory / "cache"
        _write(self._run, RECORDS)

    @staticmethod
    def play(directory: Path, say: Say) -> None:
        """Look, let it grow, and look again."""
        run = directory / "runs" / "run.json"
        for number in (1, 2):
            with RunReader.open(run) as reader:
                fd = reader.descriptor()
                try:
                    found = look(fd, run, directory / "cache")
                finally:
                    os.close(fd)
            say(f"made {number}" if found is None else f"raised rewritten: {found}")
            # Its writer may fail too; that is not what is tried here.
            with contextlib.suppress(OSError), run.open("ab") as file:
                file.write(b"\n")

    def check(self, said: str) -> None:
        """Check that nothing counts as rewritten that was not, and that what was remembered still tells."""
        assert "raised" not in said
        remembers = self._cache.exists() and any(self._cache.rglob("*.seen"))
        assert remembers or "made 2" not in said or "failed" in said
        data = self._run.read_bytes()
        with self._run.open("rb") as file:
            assert look(file.fileno(), self._run, self._cache) is None
        self._run.write_bytes(data[:-40] + bytes([data[-40] ^ 1]) + data[-39:])
        with self._run.open("rb") as file:
            assert look(file.fileno(), self._run, self._cache) is not None


class SearchIndexed:
    """Runs whose words are indexed, by the command that does it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        _runs(directory)

    @staticmethod
    def play(directory: Path, say: Say) -> None:
        """Index, let one run change, and index again."""
        for number in (1, 2):
            say(f"made {number} {len(_found(directory, 'ledger', '--index'))}")
            with contextlib.suppress(OSError):
                _write(directory / "runs" / "run-1.json", generate.journal(records=5, run_id="run-1"))

    def check(self, said: str) -> None:
        """Check that a search finds the same with whatever is left of the index as without one."""
        assert "failed " not in said
        assert _found(self._directory, "ledger") == _found(self._directory, "ledger", "--no-cache")


def _found(directory: Path, text: str, *more: str) -> list[str]:
    """Search by the command, which indexes what is new on the way; gives its lines, sorted."""
    from tests.faults.scenes import answered

    roots = ("--root", str(directory / "runs"), "--root", str(directory / "rivumi"))
    code, said, told = answered(directory, "search", text, "--json", "--only", *roots, *more)
    assert code in {0, 1}, told
    return sorted(said.splitlines())


def _rows(directory: Path, *, cached: bool) -> dict[str, RunSummary]:
    roots = [Root(directory / "runs", "refold", "test"), Root(directory / "rivumi", "rivumi", "test")]
    catalog = Catalog(roots, cache=directory / "cache" if cached else None)
    rows = {item.path: item for item in catalog.scan() if isinstance(item, RunSummary)}
    catalog.close()
    return rows


def _runs(directory: Path) -> None:
    for number in range(3):
        _write(directory / "runs" / f"run-{number}.json", generate.journal(records=3, run_id=f"run-{number}"))
    for case in ("12-terminal-completed", "22-torn-tail"):
        made = make(case, directory / "rivumi")
        for path in (*made.rglob("*"), made):
            os.utime(path, (OLD, OLD))


class Listed:
    """Directories whose rows are kept, over those that were kept before."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        _runs(directory)
        settled, list_cache._SETTLED_NS = list_cache._SETTLED_NS, 0
        _rows(directory, cached=True)
        list_cache._SETTLED_NS = settled
        _write(directory / "runs" / "run-1.json", generate.journal(records=5, run_id="run-1"))

    @staticmethod
    def play(directory: Path, say: Say) -> None:
        """List what has changed since."""
        list_cache._SETTLED_NS = 0
        say(f"made {len(_rows(directory, cached=True))}")

    def check(self, said: str) -> None:
        """Check that the rows are the same with the cache as without it."""
        assert "failed " not in said
        assert _rows(self._directory, cached=True) == _rows(self._directory, cached=False)


class LsCached(Listed):
    """The list of the command line."""

    @staticmethod
    def play(directory: Path, say: Say) -> None:
        """List twice."""
        from tests.faults.scenes import refold

        list_cache._SETTLED_NS = 0
        shutil.rmtree(directory / "cache", ignore_errors=True)
        roots = ("--root", str(directory / "runs"), "--root", str(directory / "rivumi"))
        for _ in range(2):
            code, told = refold(directory, "ls", "--json", "--only", *roots)
            assert code == 0, told
        say("made 5")


@functools.cache
def _whole(name: str) -> bytes:
    """Give an export as it should be."""
    with tempfile.TemporaryDirectory() as directory:
        run, aside = Path(directory) / "run.json", Path(directory) / "aside"
        _write(run, RECORDS)
        with RunReader.open(run) as reader:
            source = Source(reader, Redactor(on=True))
            if name != "bundle":
                return b"".join(gathered(_pieces(name, source)))
            write_file(aside, lambda fd: write_bundle(fd, source, NOW))
        return aside.read_bytes()


def _pieces(name: str, source: Source) -> Iterator[str]:
    if name == "md":
        return markdown(source.head(), source.entries())
    return json_object(source.head(), source.outlines(), source.spelled, source.end_json)


class Exported:
    """A run that is written out, into a new file or over another one."""

    def __init__(self, directory: Path, name: str, before: str) -> None:
        self._directory, self._name = directory, name
        self._run = directory / "runs" / "run.json"
        _write(self._run, RECORDS)
        self._kept = picture_of(self._run)
        self._target = directory / "out" / "export"
        self._target.parent.mkdir()
        if before:
            self._target.write_text(before)
        self._before = before.encode() if before else None
        self._wanted = _whole(name)

    @staticmethod
    def play(directory: Path, say: Say, name: str = "md", _before: str = "") -> None:
        """Write the export."""
        target = directory / "out" / "export"
        with RunReader.open(directory / "runs" / "run.json") as reader:
            source = Source(reader, Redactor(on=True))
            if name == "bundle":
                write_file(target, lambda fd: write_bundle(fd, source, NOW))
            else:
                write_file(target, as_text(_pieces(name, source)))
        say("made")

    def check(self, said: str) -> None:
        """Check that the old or the whole new file is there, and write it once more."""
        assert picture_of(self._run) == self._kept
        found = self._target.read_bytes() if self._target.exists() else None
        if found != self._before or "made" in said:
            assert found == self._wanted
        self.play(self._directory, lambda _text: None, self._name)
        assert self._target.read_bytes() == self._wanted
        others = {path.name for path in self._target.parent.iterdir()} - {"export"}
        assert all(name.startswith(".export.") and name.endswith(".tmp") for name in others)
        if self._name == "bundle":
            assert zipfile.ZipFile(self._target).testzip() is None
            opened = open_bundle(self._target, into=self._directory)
            assert opened.run.read_bytes() == self._run.read_bytes()
            shutil.rmtree(opened.directory)


class CommandExported(Exported):
    """The export of the command line, as Markdown."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, "md", "an older export")

    @staticmethod
    def play(directory: Path, say: Say, name: str = "md", _before: str = "") -> None:
        """Write the export."""
        from tests.faults.scenes import refold

        out = str(directory / "out" / "export")
        words = (
            "export",
            str(directory / "runs" / "run.json"),
            "--format",
            name,
            "-o",
            out,
            "--only",
            "--force",
        )
        code, told = refold(directory, *words)
        say("made" if code == 0 else f"failed {code} {told}")


def picture_of(path: Path) -> tuple[bytes, int]:
    """Give the bytes of a file and when it was changed."""
    return path.read_bytes(), path.stat().st_mtime_ns
