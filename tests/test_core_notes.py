"""Notes about runs: kept beside nothing, found again after a move, never lost to a second writer."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from refold.core.errors import LockUnsure, StoreError, Unreadable
from refold.core.records import Decision, Fingerprint, ForkOrigin
from refold.core.store.kept import index_of
from refold.core.store.notes import (
    LARGEST,
    VERSION,
    NewerNotes,
    NotedResume,
    Notes,
    NotesStore,
    prefix_of,
)
from refold.core.summary import RunSummary

FINGERPRINT = Fingerprint("opus", "5" * 64, "7" * 64, "off", 1000, 5, "anthropic")


@pytest.fixture
def store(tmp_path: Path) -> NotesStore:
    return NotesStore(tmp_path / "state" / "notes")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    path.write_bytes(b'{"seq":1,"meta":"one"}\n{"seq":2}\n')
    return path


def starred(notes: Notes) -> Notes:
    return msgspec.structs.replace(notes, star=True)


def test_what_is_noted_is_read_again(store: NotesStore, run: Path) -> None:
    resume = NotedResume(
        "2026-01-01T00:00:00Z", 7, True, "a new model", FINGERPRINT, {"t1": Decision("done", "ok")}
    )
    written = store.update(
        run,
        lambda notes: msgspec.structs.replace(
            notes,
            forked_from=ForkOrigin("parent", 3, "a" * 64, "why"),
            resumes=(*notes.resumes, resume),
            config="/etc/agent.yaml",
            tags=("a", "b"),
        ),
    )
    assert NotesStore(store.directory).read(run) == written
    assert written.fingerprint == FINGERPRINT
    assert written.path == str(run)
    assert written.prefix_sha256 == prefix_of(run)
    (file,) = store.directory.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.directory.stat().st_mode) == 0o700
    assert run.parent not in file.parents[:1]


def test_reading_makes_nothing(store: NotesStore, run: Path) -> None:
    assert store.read(run) == Notes()
    assert not store.directory.exists()


def test_the_last_known_fingerprint_counts() -> None:
    assert Notes().fingerprint is None
    resumes = (NotedResume(fingerprint=FINGERPRINT), NotedResume(forced=True))
    assert Notes(resumes=resumes).fingerprint == FINGERPRINT


def test_a_run_that_grew_keeps_its_notes(store: NotesStore, run: Path) -> None:
    store.update(run, starred)
    with run.open("ab") as file:
        file.write(b'{"seq":3}\n')
    assert store.read(run).star


def test_a_run_that_was_moved_keeps_its_notes_once(store: NotesStore, run: Path) -> None:
    store.update(run, starred)
    moved = run.rename(run.with_name("other.json"))
    assert store.read(moved).star
    assert NotesStore(store.directory).read(moved).star
    store.update(moved, lambda notes: msgspec.structs.replace(notes, name="x"))
    assert [file.name for file in store.directory.iterdir()] == [store.path_of(moved).name]
    assert store.read(moved) == Notes(str(moved), prefix_of(moved), star=True, name="x")


def test_a_copy_begins_with_the_notes_and_goes_its_own_way(store: NotesStore, run: Path) -> None:
    store.update(run, starred)
    copy = run.with_name("copy.json")
    copy.write_bytes(run.read_bytes())
    store.update(copy, lambda notes: msgspec.structs.replace(notes, name="copy"))
    assert (store.read(copy).star, store.read(copy).name, store.read(run).name) == (True, "copy", "")


def test_another_run_at_the_same_path_has_no_notes_and_destroys_none(store: NotesStore, run: Path) -> None:
    store.update(run, starred)
    moved = run.rename(run.with_name("moved.json"))
    run.write_bytes(b'{"seq":1,"meta":"two"}\n')
    assert not store.read(run).star
    store.update(run, lambda notes: msgspec.structs.replace(notes, name="second"))
    assert store.read(moved).star
    run.write_bytes(b'{"seq":1,"meta":"three"}\n')
    store.update(run, lambda notes: msgspec.structs.replace(notes, name="third"))
    assert store.read(moved).star
    assert [store.read(run).name, len(list(store.directory.iterdir()))] == ["third", 3]


def test_a_run_without_a_first_line_is_known_by_its_path(store: NotesStore, tmp_path: Path) -> None:
    run = tmp_path / "new.json"
    run.write_bytes(b'{"seq":1')
    assert (prefix_of(run), prefix_of(tmp_path / "missing")) == ("", "")
    store.update(run, starred)
    run.write_bytes(b'{"seq":1}\n')
    assert store.read(run).star
    assert store.update(run, starred).prefix_sha256 == prefix_of(run)


def test_a_first_line_of_any_length_is_hashed(tmp_path: Path) -> None:
    run = tmp_path / "long.json"
    run.write_bytes(b"x" * 65_536)
    first = prefix_of(run)
    run.write_bytes(b"x" * 100_000 + b"\n{}\n")
    assert first == prefix_of(run) != ""


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"[" * 200_000, b'{"star": 1, "tags": "x"}'])
def test_notes_that_cannot_be_read_are_none(text: bytes, store: NotesStore, run: Path) -> None:
    store.update(run, starred)
    store.path_of(run).write_bytes(text)
    assert store.read(run) == Notes()
    assert store.update(run, starred).star


@pytest.mark.parametrize("which", ["notes", "run"])
def test_notes_that_the_system_does_not_read_stand(
    which: str, store: NotesStore, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.update(run, lambda notes: msgspec.structs.replace(notes, name="kept"))
    pread, failing = os.pread, store.path_of(run) if which == "notes" else run

    def broken(fd: int, size: int, offset: int) -> bytes:
        if Path("/dev/fd", str(fd)).resolve() == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(fd, size, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", broken)
        with pytest.raises(Unreadable):
            store.update(run, starred)
    assert store.read(run) == Notes(str(run), prefix_of(run), name="kept")


def test_a_file_system_that_does_not_lock_is_said(
    store: NotesStore, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_fd: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", failing)
    with pytest.raises(LockUnsure, match="does not lock"):
        store.update(run, starred)


def test_damaged_notes_are_moved_aside_and_nothing_to_note_makes_no_file(
    store: NotesStore, run: Path
) -> None:
    assert store.update(run, lambda same: same).prefix_sha256 == prefix_of(run)
    assert not store.path_of(run).exists()
    store.update(run, starred)
    store.path_of(run).write_bytes(b'{"star": tr')
    store.update(run, lambda notes: msgspec.structs.replace(notes, name="new"))
    assert store.read(run).name == "new"
    assert b'{"star": tr' in [path.read_bytes() for path in store.directory.iterdir()]


def test_what_cannot_be_read_costs_only_itself_and_what_is_newer_stays(store: NotesStore, run: Path) -> None:
    store.update(run, lambda notes: msgspec.structs.replace(notes, star=True, name="x"))
    file = store.path_of(run)
    values = json.loads(file.read_text())
    values.update({"tags": 7, "prefix_sha256": prefix_of(run), "from_the_future": {"a": [1]}})
    file.write_text(json.dumps(values))
    assert (store.read(run).star, store.read(run).tags) == (True, ())
    store.update(run, lambda notes: msgspec.structs.replace(notes, name="y"))
    assert json.loads(file.read_text())["from_the_future"] == {"a": [1]}
    values["prefix_sha256"] = ["not", "text"]
    file.write_text(json.dumps(values))
    assert store.read(run) == Notes()


def test_text_that_is_no_unicode_survives(store: NotesStore, run: Path) -> None:
    store.update(run, lambda notes: msgspec.structs.replace(notes, note="\udcff"))
    assert store.read(run).note == "\udcff"


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path, run: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        NotesStore(tmp_path / "file" / "notes").update(run, starred)
    assert NotesStore(tmp_path / "file" / "notes").read(run) == Notes()


WRITER = """
import sys, msgspec
from pathlib import Path
from refold.core.store.notes import NotesStore
store = NotesStore(Path(sys.argv[1]))
for number in range(20):
    store.update(Path(sys.argv[2]), lambda n: msgspec.structs.replace(n, tags=(*n.tags, sys.argv[3])))
"""


def test_two_writers_lose_nothing(store: NotesStore, run: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, store.directory, run, word]) for word in ("a", "b")
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert sorted(store.read(run).tags) == ["a"] * 20 + ["b"] * 20


def test_notes_of_a_newer_refold_are_said_and_never_overwritten(store: NotesStore, run: Path) -> None:
    store.update(run, starred)
    file = store.path_of(run)
    values = {**json.loads(file.read_text()), "version": VERSION + 1, "star": ["otherwise"]}
    file.write_text(json.dumps(values))
    assert "newer Refold" in store.read(run).kept.trouble
    with pytest.raises(NewerNotes, match="newer Refold") as refused:
        store.update(run, starred)
    assert "update" in refused.value.remedy
    assert json.loads(file.read_text()) == values


def test_what_cannot_be_understood_is_put_aside(store: NotesStore, run: Path) -> None:
    store.update(run, starred)
    store.path_of(run).write_bytes(b"{broken")
    assert store.update(run, starred).star
    aside = store.directory / f"{store.path_of(run).stem}.1.json.damaged"
    assert aside.read_bytes() == b"{broken"
    assert len(list(store.each())) == 1


@pytest.mark.parametrize("kind", ["fifo", "link", "directory"])
def test_what_is_no_file_of_notes_is_read_as_none_and_stays(kind: str, store: NotesStore, run: Path) -> None:
    store.update(run, starred)
    file = store.path_of(run)
    file.unlink()
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to(run)
    else:
        file.mkdir()
    before = file.lstat()
    assert store.read(run) == Notes()
    with pytest.raises(StoreError) as refused:
        store.update(run, starred)
    assert refused.value.remedy
    assert file.lstat() == before


def test_a_file_that_is_too_long_for_notes_is_put_aside(store: NotesStore, run: Path) -> None:
    store.update(run, starred)
    with store.path_of(run).open("wb") as made:
        made.truncate(LARGEST + 1)
    assert store.read(run) == Notes()
    assert store.update(run, starred).star
    (aside,) = store.directory.glob("*.damaged")
    assert aside.stat().st_size == LARGEST + 1


def test_a_full_disk_loses_nothing(store: NotesStore, run: Path) -> None:
    store.update(run, starred)
    before = store.path_of(run).read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", FULL, store.directory, run], capture_output=True, text=True, check=True
    )
    assert "could not be replaced" in done.stdout
    assert store.path_of(run).read_bytes() == before
    assert len(list(store.directory.iterdir())) == 1


FULL = """
import resource, signal, sys, msgspec
from pathlib import Path
from refold.core.errors import WriteFailed
from refold.core.store.notes import NotesStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
try:
    long = "x" * 3000
    NotesStore(Path(sys.argv[1])).update(Path(sys.argv[2]), lambda n: msgspec.structs.replace(n, note=long))
except WriteFailed as error:
    print(error)
"""


def test_a_run_directory_is_found_again_by_its_first_event(store: NotesStore, tmp_path: Path) -> None:
    run = tmp_path / "one"
    run.mkdir()
    (run / "events.jsonl").write_text('{"run_id":"one","sequence":0}\n')
    store.update(run, starred)
    moved = run.rename(tmp_path / "moved")
    assert store.read(moved).star
    run.mkdir()
    (run / "events.jsonl").write_text('{"run_id":"two","sequence":0}\n')
    assert not store.read(run).star


def test_one_wrong_value_costs_only_itself_and_the_file_is_put_aside(store: NotesStore, run: Path) -> None:
    record = {"seq": 1, "sha256": "a" * 64, "text": "kept"}
    store.update(run, lambda notes: msgspec.structs.replace(notes, note="long words"))
    file = store.path_of(run)
    damaged = {**json.loads(file.read_text()), "name": ["x"], "tags": ["keepme", 7]}
    damaged["records"] = [record, {**record, "sha256": None}]
    file.write_text(json.dumps(damaged))
    assert "name, records" in store.trouble(run)
    assert [path for path, _ in store.troubles()] == [file]
    store.update(run, starred)
    notes = store.read(run)
    assert (notes.star, notes.note, notes.tags, notes.name) == (True, "long words", ("keepme",), "")
    assert [each.text for each in notes.records] == ["kept"]
    (aside,) = store.directory.glob("*.damaged")
    assert json.loads(aside.read_text()) == damaged
    assert store.trouble(run) == ""


def test_damaged_notes_of_a_run_that_was_moved_are_put_aside_too(store: NotesStore, run: Path) -> None:
    store.update(run, starred)
    file = store.path_of(run)
    file.write_text(json.dumps({**json.loads(file.read_text()), "name": 7}))
    moved = run.rename(run.with_name("moved.json"))
    assert "name" in store.trouble(moved)
    assert store.update(moved, lambda notes: msgspec.structs.replace(notes, note="n")).star
    (aside,) = store.directory.glob("*.damaged")
    assert json.loads(aside.read_text())["name"] == 7


@pytest.mark.parametrize("what", ["byte", "text", "fifo"])
def test_what_cannot_be_read_of_notes_is_said(what: str, store: NotesStore, run: Path) -> None:
    store.update(run, starred)
    file = store.path_of(run)
    file.unlink()
    if what == "fifo":
        os.mkfifo(file)
        with pytest.raises(StoreError) as refused:
            store.update(run, starred)
        assert "move it away" in refused.value.remedy
    else:
        file.write_bytes({"byte": b"\xff", "text": b"{{{"}[what])
    assert ("named pipe" if what == "fifo" else "damaged") in store.trouble(run)
    kept = index_of(store.directory, None).kept(RunSummary("run", str(run)))
    assert kept.trouble == store.trouble(run)
