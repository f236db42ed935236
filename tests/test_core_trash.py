"""The trash: moved by rename, held meanwhile, put back exactly, and never over anything."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import generate
from tests.rivumi_cases import make
from tests.test_readonly import picture

from refold.app.cli_trash import entry_json
from refold.app.trashing import move, plans_for
from refold.core.errors import RunExists, RunLocked, StoreError
from refold.core.keeping import TRASH, Kept
from refold.core.store.catalog import Catalog, Progress, Root
from refold.core.store.lock import RunLock
from refold.core.store.notes import NotesStore, prefix_of
from refold.core.store.trash import Around, TrashChanged, carry_out, plan_for
from refold.core.store.trash_list import Entry, NotRestored, delete, delete_all, entries, entry_at, restore
from refold.core.summary import RunSummary
from refold.core.trash import (
    MANIFEST,
    Code,
    Found,
    Part,
    Reason,
    TrashRefused,
    bytes_of,
    plan_trash,
    trash_json,
)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    directory = tmp_path / "runs"
    directory.mkdir(mode=0o700)
    generate.write(directory / "a.json", generate.journal(records=9, run_id="a"))
    (directory / "a.lock").touch(mode=0o600)
    (directory / "a.120.torn").write_bytes(b"{")
    (directory / "a.120.2.torn").write_bytes(b"{{")
    (directory / "ab.json").write_bytes(b"{}\n")
    (directory / "ab.120.torn").write_bytes(b"other")
    for path in directory.iterdir():
        path.chmod(0o640)
        os.utime(path, ns=(10**18, 10**18 + 7))
    return directory


def without_changes(tree: Path) -> dict[str, tuple[object, ...]]:
    """Give everything about a tree but the times at which names changed."""
    return {
        name: (entry.mode, entry.inode, entry.links, entry.size, entry.modified_ns, entry.content)
        for name, entry in picture(tree).items()
        if name != "."
    }


def listed(directory: Path) -> set[str]:
    catalog = Catalog([Root(directory, "refold", "test")], cache=None)
    found = {row.id for row in catalog.scan() if isinstance(row, RunSummary)}
    (report,) = catalog.roots_report()
    catalog.close()
    assert TRASH not in report.detail
    return found


def only(directory: Path) -> Entry:
    (entry,) = entries([directory])
    return entry


def test_a_run_goes_with_what_is_its_own_and_comes_back_exactly(runs: Path) -> None:
    before = without_changes(runs)
    plan = plan_for(runs / "a.json", suffix="0a")
    assert without_changes(runs) == before
    assert [part.kind for part in plan.found.parts] == ["run", "side", "side", "lock"]
    assert trash_json(plan)["bytes"] == plan.found.bytes == (runs / "a.json").stat().st_size + 3
    done = carry_out(plan, status="crashed", prompt="x" * 999)
    assert done.durable
    assert {path.name for path in runs.iterdir()} == {"ab.json", "ab.120.torn", TRASH}
    assert listed(runs) == {"ab"}
    assert (runs / TRASH).stat().st_mode & 0o777 == 0o700
    entry = only(runs)
    assert (entry.id, entry.state, entry.status, len(entry.prompt)) == ("a", "whole", "crashed", 200)
    assert entry.path == plan.target
    assert restore(entry) == runs / "a.json"
    assert without_changes(runs) == before
    assert not list(entries([runs]))


def test_a_run_without_a_lock_file_comes_back_without_one(runs: Path) -> None:
    before = without_changes(runs)
    carry_out(plan_for(runs / "ab.json"))
    restore(only(runs))
    assert without_changes(runs) == before


def test_a_run_directory_goes_whole(tmp_path: Path) -> None:
    run = make("04-tail-tool-started", tmp_path / "rivumi")
    os.utime(run, ns=(10**18, 10**18 + 9))
    before = without_changes(run.parent)
    plan = plan_for(run)
    assert plan.found.directory
    assert plan.found.bytes == sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    carry_out(plan)
    assert listed(run.parent) == set()
    assert not run.exists()
    assert restore(only(run.parent)) == run
    assert without_changes(run.parent) == before


def test_a_held_run_stays(runs: Path, tmp_path: Path) -> None:
    plan = plan_for(runs / "a.json")
    lock = RunLock.take(runs / "a.lock")
    try:
        held = plan_for(runs / "a.json")
        assert [reason.code for reason in held.found.against] == ["locked"]
        assert str(os.getpid()) in held.sentence
        with pytest.raises(TrashRefused, match="holds it"):
            carry_out(held)
        with pytest.raises(RunLocked):
            carry_out(plan)
    finally:
        lock.release()
    with (runs / "a.json").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RunLocked, match="writes to this run"):
            carry_out(plan)
    assert (runs / "a.json").exists()
    carry_out(plan)
    assert not (runs / "a.json").exists()


def test_a_held_run_directory_stays(tmp_path: Path) -> None:
    run = make("04-tail-tool-started", tmp_path / "rivumi")
    plan = plan_for(run)
    lock = RunLock.take(run / ".writer.lock")
    with pytest.raises(RunLocked):
        carry_out(plan)
    lock.release()
    assert run.exists()


def test_a_run_that_changed_since_stays(runs: Path) -> None:
    plan = plan_for(runs / "a.json")
    with (runs / "a.json").open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(TrashChanged):
        carry_out(plan)
    assert listed(runs) == {"a", "ab"}
    assert not list(entries([runs]))


def test_a_run_directory_that_changed_since_stays(tmp_path: Path) -> None:
    run = make("04-tail-tool-started", tmp_path / "rivumi")
    plan = plan_for(run)
    status = (run / "events.jsonl").stat()
    text = (run / "events.jsonl").read_bytes()
    (run / "events.jsonl").write_bytes(text.replace(b"a", b"b"))
    os.utime(run / "events.jsonl", ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(TrashChanged):
        carry_out(plan)
    plan = plan_for(run)
    (run / "result.json").write_text("{}")
    with pytest.raises(TrashChanged):
        carry_out(plan)
    assert run.exists()


def test_a_workspace_is_not_walked_while_the_run_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make("04-tail-tool-started", tmp_path / "rivumi")
    plan = plan_for(run)
    monkeypatch.setattr(os, "walk", lambda *_: pytest.fail("it was walked"))
    carry_out(plan)
    assert not run.exists()


def test_the_number_of_a_locked_file_elsewhere_keeps_no_run(runs: Path) -> None:
    around = Around()
    around.locked = frozenset({(runs / name).stat().st_ino for name in ("a.json", "a.lock")})
    plan = plan_for(runs / "a.json", around=around)
    assert not plan.refused
    carry_out(plan)
    assert not (runs / "a.json").exists()


def test_a_run_that_stays_has_no_lock_file_afterwards_that_it_had_not(runs: Path) -> None:
    plan = plan_for(runs / "ab.json")
    with (runs / "ab.json").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RunLocked, match="writes to this run"):
            carry_out(plan)
        file.write(b"{}\n")
    with pytest.raises(TrashChanged):
        carry_out(plan)
    assert not (runs / "ab.lock").exists()
    plan = plan_for(runs / "a.json")
    (runs / "a.json").write_bytes(b"{}\n")
    with pytest.raises(TrashChanged):
        carry_out(plan)
    assert (runs / "a.lock").exists()


def test_a_run_directory_that_stays_is_as_it_was(tmp_path: Path) -> None:
    run = make("04-tail-tool-started", tmp_path / "rivumi")
    (run / ".writer.lock").unlink(missing_ok=True)
    plan = plan_for(run)
    (run / "result.json").write_text("{}")
    os.utime(run, ns=(10**18, 10**18 + 9))
    before = without_changes(run.parent)
    with pytest.raises(TrashChanged):
        carry_out(plan)
    assert without_changes(run.parent) == before
    assert run.stat().st_mtime_ns == 10**18 + 9


def test_a_name_that_is_no_unicode_has_one_spelling_and_comes_back(runs: Path) -> None:
    odd = runs / os.fsdecode(b"odd\xff.json")
    odd.write_bytes(b"{}\n")
    plan = plan_for(odd)
    said = trash_json(plan)
    json.dumps(said, ensure_ascii=False).encode()
    assert (said["id"], said["path"]) == (r"odd\xff", str(runs / r"odd\xff.json"))
    assert str(said["target"]).startswith(str(runs / TRASH / r"odd\xff."))
    assert Path(plan.found.path) == odd
    carry_out(plan)
    assert not odd.exists()
    assert json.dumps(entry_json(only(runs), None), ensure_ascii=False).encode()
    assert restore(only(runs)) == odd
    assert odd.exists()


def test_what_stands_against_it_is_said(runs: Path, tmp_path: Path) -> None:
    assert plan_for(runs / "missing.json").found.against[0].code == "missing"
    nested = make("04-tail-tool-started", tmp_path / "run" / "subagents")
    assert [reason.code for reason in plan_for(nested).found.against] == ["nested"]
    (tmp_path / "link").symlink_to(make("04-tail-tool-started", tmp_path / "rivumi"))
    assert [reason.code for reason in plan_for(tmp_path / "link").found.against] == ["link"]
    (runs / TRASH).write_text("")
    plan = plan_for(runs / "a.json")
    assert [reason.code for reason in plan.found.against] == ["trash"]
    with pytest.raises(TrashRefused):
        carry_out(plan)
    (runs / TRASH).unlink()
    (runs / TRASH).symlink_to(tmp_path)
    assert [reason.code for reason in plan_for(runs / "a.json").found.against] == ["trash"]


UNPRIVILEGED = """
import os, sys
from pathlib import Path
from refold.core.store.trash import carry_out, plan_for
os.setgid(65534); os.setuid(65534)
plan = plan_for(Path(sys.argv[1]))
print([reason.code for reason in plan.found.against])
"""


def open_to_all(runs: Path) -> None:
    for directory in (runs, *takewhile(lambda parent: parent.name.count("-"), runs.parents[1:]), runs.parent):
        directory.chmod(0o755)


def as_somebody_else(program: str, *words: Path) -> str:
    """Give what a program prints that another user runs."""
    become = "import os, sys\nfrom pathlib import Path\nos.setgid(65534); os.setuid(65534)\n"
    command = [sys.executable, "-c", f"{PRELOADED}{become}{program}", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


PRELOADED = """
from refold.core.errors import NotPermitted, StoreError
from refold.core.store.notes import NotesStore
from refold.core.store.trash import carry_out, plan_for
from refold.core.store.trash_list import Entry, delete, entries, restore
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_a_read_only_directory_in_a_workspace_is_deleted_for_good(tmp_path: Path) -> None:
    run = make("04-tail-tool-started", tmp_path / "rivumi")
    deep = run / "workspace" / "cache" / "module"
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    (deep.parent / "link").symlink_to(tmp_path)
    carry_out(plan_for(run))
    entry = only(run.parent)
    for path in (run.parent, *run.parent.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    inside = Path(entry.path, run.name, "workspace", "cache")
    (inside / "module").chmod(0o555)
    inside.chmod(0o500)
    open_to_all(run.parent)
    mode = tmp_path.stat().st_mode
    said = as_somebody_else("(entry,) = entries([Path(sys.argv[1])])\nprint(delete(entry) > 0)", run.parent)
    assert said == "True\n"
    assert not (run.parent / TRASH).exists()
    assert tmp_path.stat().st_mode == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_what_is_not_ours_to_delete_is_said_with_the_fitting_remedy(runs: Path) -> None:
    carry_out(plan_for(runs / "a.json"))
    os.chown(runs / TRASH, 65534, 65534)
    open_to_all(runs)
    Path(only(runs).path).chmod(0o755)
    program = """
(entry,) = entries([Path(sys.argv[1])])
try:
    delete(entry)
except StoreError as error:
    print(error.remedy)
"""
    assert "owner and mode" in as_somebody_else(program, runs)
    (entry,) = entries([runs])
    assert entry.state == "deleting"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_a_trash_that_may_not_be_looked_into_is_said(runs: Path) -> None:
    carry_out(plan_for(runs / "a.json"))
    open_to_all(runs)
    before = only(runs)
    program = f"""
(entry,) = entries([Path(sys.argv[1])])
print(entry.state, entry.id)
for entry in (entry, Entry({before.path!r}, {before.root!r}, "a", "whole")):
    try:
        restore(entry)
    except NotPermitted as error:
        print(error, error.remedy)
"""
    said = as_somebody_else(program, runs).splitlines()
    assert said[0] == f"closed {TRASH}"
    assert len([row for row in said if "Permission denied" in row and "owner and mode" in row]) == 2
    (runs / TRASH).chmod(0o755)
    said = as_somebody_else(program, runs).splitlines()
    assert said[0] == "closed a"
    assert len(said) == 3


def test_a_trash_that_could_not_be_listed_is_not_put_back_as_a_run(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carry_out(plan_for(runs / "a.json"))
    before = sorted(runs.parent.rglob("*"))
    listdir = os.listdir

    def without_descriptors(path: str | Path = ".") -> list[str]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    monkeypatch.setattr(os, "listdir", without_descriptors)
    (entry,) = entries([runs])
    monkeypatch.setattr(os, "listdir", listdir)
    for act in (restore, delete):
        with pytest.raises(StoreError, match="Too many open files"):
            act(entry)
    assert sorted(runs.parent.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_a_directory_that_may_not_be_written_to_is_said(runs: Path) -> None:
    open_to_all(runs)
    done = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED, runs / "a.json"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['permission']\n"


ELSEWHERE = """
import sys
from pathlib import Path
from refold.core.store.trash import plan_for
print([reason.code for reason in plan_for(Path(sys.argv[1])).found.against])
"""


def test_a_trash_on_another_disk_is_said(runs: Path) -> None:
    (runs / TRASH).mkdir()
    mounted = 'mount -t tmpfs none "$1" && shift && exec "$@"'
    command = ["unshare", "-rm", "sh", "-c", mounted, "sh", str(runs / TRASH)]
    try:
        probe = subprocess.run([*command, "true"], capture_output=True, check=False)
    except OSError:
        pytest.skip("there is no unshare here")
    if probe.returncode:
        pytest.skip("nothing can be mounted here")
    child = [sys.executable, "-c", ELSEWHERE, str(runs / "a.json")]
    done = subprocess.run([*command, *child], capture_output=True, text=True, check=True)
    assert done.stdout == "['other_disk']\n"


@pytest.mark.parametrize("kind", ["fifo", "link", "directory"])
def test_what_is_no_file_can_go_too(kind: str, runs: Path) -> None:
    odd = runs / "odd.json"
    if kind == "fifo":
        os.mkfifo(odd)
    elif kind == "link":
        odd.symlink_to("a.json")
    else:
        odd.mkdir()
    before = without_changes(runs)
    carry_out(plan_for(odd))
    assert not os.path.lexists(odd)
    restore(only(runs))
    assert without_changes(runs) == before


@pytest.mark.parametrize("kind", ["journal", "directory"])
def test_what_is_held_in_the_trash_stays_there(kind: str, runs: Path) -> None:
    run = runs / "a.json" if kind == "journal" else make("04-tail-tool-started", runs)
    (run / ".writer.lock" if kind == "directory" else runs / "a.lock").touch()
    carry_out(plan_for(run))
    inside = Path(only(runs).path, run.name, ".writer.lock")
    lock = RunLock.take(inside if kind == "directory" else Path(only(runs).path, "a.lock"))
    with pytest.raises(RunLocked, match=str(os.getpid())):
        restore(only(runs))
    lock.release()
    assert only(runs).state == "whole"
    restore(only(runs))
    assert run.exists()


def test_nothing_is_overwritten(runs: Path) -> None:
    carry_out(plan_for(runs / "a.json"))
    (runs / "a.json").write_bytes(b"new\n")
    before = without_changes(runs)
    with pytest.raises(RunExists, match="something lies there now"):
        restore(only(runs))
    assert without_changes(runs) == before
    (runs / "a.json").unlink()
    (runs / "a.120.torn").write_bytes(b"new")
    with pytest.raises(RunExists):
        restore(only(runs))
    assert not (runs / "a.json").exists()


def test_a_run_has_its_old_name_on_disk_before_it_loses_that_in_the_trash(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carry_out(plan_for(runs / "a.json"))
    (entry,) = entries([runs])
    done: list[str] = []
    for name in ("link", "fsync", "unlink"):
        real = getattr(os, name)

        def noting(*arguments: object, real: object = real, name: str = name, **more: object) -> object:
            done.append(name)
            assert callable(real)
            return real(*arguments, **more)

        monkeypatch.setattr(os, name, noting)
    restore(entry)
    steps = [(*done, "")[at + 1] for at, name in enumerate(done) if name == "link"]
    assert steps == ["fsync"] * len(entry.parts)


def test_what_happens_in_the_trash_tells_the_list_nothing(runs: Path) -> None:
    catalog = Catalog([Root(runs, "refold", "test")], cache=None)
    list(catalog.scan())
    carry_out(plan_for(runs / "a.json"))
    entry = Path(only(runs).path)
    told = list(catalog.refresh([str(runs / "a.json"), str(runs / TRASH), str(entry), str(entry / "a.json")]))
    assert [type(item).__name__ for item in told if not isinstance(item, Progress)] == ["Gone"]
    assert not [item for item in catalog.refresh_holders() if not isinstance(item, Progress)]
    catalog.close()


def test_many_runs_are_planned_for_with_one_look_around(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        (runs / f"run-{number}.json").write_bytes(b"{}\n")
        (runs / f"run-{number}.12.torn").write_bytes(b"{")
    listings: list[object] = []
    scandir = os.scandir

    def counting(path: int | str | Path) -> object:
        listings.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counting)
    rows = [RunSummary(f"run-{number}", str(runs / f"run-{number}.json")) for number in range(50)]
    movings = list(plans_for(rows, {}))
    assert all(len(moving.plan.found.parts) == 2 for moving in movings)
    assert all(moved.error is None for moved in move(movings))
    assert listings == [runs]


def test_two_of_one_id_lie_side_by_side(runs: Path) -> None:
    carry_out(plan_for(runs / "a.json"))
    generate.write(runs / "a.json", generate.journal(records=3, run_id="a"))
    carry_out(plan_for(runs / "a.json"))
    first, second = entries([runs, runs])
    assert first.id == second.id == "a"
    assert first.name != second.name


def test_an_empty_directory_is_not_taken_over(tmp_path: Path) -> None:
    run = make("04-tail-tool-started", tmp_path / "rivumi")
    carry_out(plan_for(run))
    run.mkdir()
    with pytest.raises(RunExists):
        restore(only(run.parent))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[" * 99_999,
        b'{"parts":7}',
        b'{"parts":[{"name":"../x.json","kind":"run","size":1,"mode":1,"mtime_ns":1,"inode":1}]}',
        b'{"parts":[{"name":"/etc/x","kind":"run","size":1,"mode":1,"mtime_ns":1,"inode":1}]}',
        b'{"id":7,"time":[],"bytes":-1,"root":"/etc"}',
    ],
)
def test_a_manifest_of_any_content_leads_nowhere_else(text: bytes, runs: Path, tmp_path: Path) -> None:
    outside = without_changes(runs)
    carry_out(plan_for(runs / "a.json"))
    Path(only(runs).path, MANIFEST).write_bytes(text)
    entry = only(runs)
    assert (entry.state, entry.root) == ("unknown", str(runs))
    restore(entry)
    assert without_changes(runs) == outside
    assert {path.name for path in tmp_path.iterdir()} == {"runs"}


def test_an_entry_of_a_newer_refold_is_left_alone(runs: Path) -> None:
    carry_out(plan_for(runs / "a.json"))
    manifest = Path(only(runs).path, MANIFEST)
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": 2}))
    before = without_changes(runs)
    with pytest.raises(NotRestored, match="newer Refold"):
        restore(only(runs))
    assert without_changes(runs) == before


def test_what_is_in_the_trash_by_other_hands_is_passed_over(runs: Path) -> None:
    (runs / TRASH).mkdir()
    (runs / TRASH / "file").write_text("")
    (runs / TRASH / "link").symlink_to("/")
    (runs / TRASH / "empty.0a").mkdir()
    entry = only(runs)
    assert (entry.id, entry.state) == ("empty", "left")
    assert entry_at(runs / "missing" / "x") is None
    with pytest.raises(NotRestored):
        restore(entry)
    assert not (runs / TRASH / "empty.0a").exists()


def test_deleting_for_good_frees_all_of_it(runs: Path, tmp_path: Path) -> None:
    carry_out(plan_for(runs / "a.json"))
    size = only(runs).bytes
    assert delete(only(runs)) == size
    assert not (runs / TRASH).exists()
    assert {path.name for path in runs.iterdir()} == {"ab.json", "ab.120.torn"}


def starred(store: NotesStore) -> list[str]:
    return sorted(notes.name for notes in store.each() if notes.star)


def star(store: NotesStore, run: Path, name: str) -> None:
    store.update(run, lambda notes: msgspec.structs.replace(notes, star=True, name=name))


def test_deleting_a_run_leaves_the_notes_of_another_at_its_place(runs: Path, tmp_path: Path) -> None:
    store, run = NotesStore(tmp_path / "notes"), runs / "a.json"
    star(store, run, "first")
    carry_out(plan_for(run))
    generate.write(run, generate.journal(records=3, run_id="second"))
    star(store, run, "second")
    assert starred(store) == ["first", "second"]
    moved = run.rename(tmp_path / "moved.json")
    delete(only(runs), store)
    assert starred(store) == ["second"]
    assert store.read(moved).name == "second"


def test_deleting_a_run_leaves_the_notes_where_the_same_one_is_back(runs: Path, tmp_path: Path) -> None:
    store, run = NotesStore(tmp_path / "notes"), runs / "a.json"
    star(store, run, "first")
    text = run.read_bytes()
    carry_out(plan_for(run))
    run.write_bytes(text)
    delete(only(runs), store)
    assert store.read(run).name == "first"
    carry_out(plan_for(run))
    entry = only(runs)
    Path(entry.path).rename(Path(entry.path).with_name(f".deleting.{entry.name}"))
    delete(only(runs), store)
    assert starred(store) == []


def test_deleting_one_of_two_copies_leaves_the_notes_to_the_other(runs: Path, tmp_path: Path) -> None:
    store, run = NotesStore(tmp_path / "notes"), runs / "a.json"
    star(store, run, "first")
    text = run.read_bytes()
    carry_out(plan_for(run))
    run.write_bytes(text)
    carry_out(plan_for(run))
    one, other = entries([runs])
    delete(one, store)
    assert starred(store) == ["first"]
    assert store.read(restore(other)).name == "first"
    carry_out(plan_for(run))
    delete(only(runs), store)
    assert starred(store) == []


@contextmanager
def audited() -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """What this process asks of the system meanwhile, so far as the interpreter tells."""
    events: list[tuple[str, tuple[Any, ...]]] = []
    here, watching = threading.get_ident(), True
    sys.addaudithook(
        lambda event, arguments: (
            events.append((event, arguments)) if watching and threading.get_ident() == here else None
        )
    )
    try:
        yield events
    finally:
        watching = False


def test_notes_that_cannot_be_removed_keep_no_others_there(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, trashed = NotesStore(tmp_path / "notes"), [runs / f"{name}.json" for name in "abc"]
    for run in trashed:
        generate.write(run, generate.journal(records=3, run_id=run.stem))
        star(store, run, run.stem)
        carry_out(plan_for(run))
    unlink = Path.unlink

    def held(path: Path, missing_ok: bool = False) -> None:
        if path == store.path_of(trashed[0]):
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", held)
    held_first = sorted(entries([runs]), key=lambda entry: entry.home)
    assert delete_all(held_first, store) == {}
    assert starred(store) == ["a"]
    assert list(entries([runs])) == []
    generate.write(trashed[0], generate.journal(records=3, run_id="a"))
    with pytest.raises(PermissionError):
        store.forget(trashed[0], prefix_of(trashed[0]))


def test_deleting_runs_without_notes_looks_at_no_other_entry(runs: Path, tmp_path: Path) -> None:
    store, run = NotesStore(tmp_path / "notes"), runs / "a.json"
    star(store, runs / "ab.json", "noted")
    carry_out(plan_for(run))
    carry_out(plan_for(runs / "ab.json"))
    of = {entry.id: entry for entry in entries([runs])}
    with audited() as events:
        delete(of["a"], store)
    listed = [arguments[0] for event, arguments in events if event == "os.listdir"]
    assert str(tmp_path / "notes") in map(str, listed)
    assert of["ab"].path not in map(str, listed)
    delete(of["ab"], store)
    assert starred(store) == []


def test_what_is_looked_at_grows_with_the_runs_that_go_and_not_with_their_square(tmp_path: Path) -> None:
    listed: list[int] = []
    for count in (10, 40):
        directory = tmp_path / f"runs-{count}"
        directory.mkdir()
        store = NotesStore(tmp_path / f"notes-{count}")
        for number in range(count):
            run = directory / f"run-{number}.json"
            generate.write(run, generate.journal(records=2, run_id=run.stem))
            star(store, run, run.stem)
            carry_out(plan_for(run))
        going = list(entries([directory]))
        spared, *rest = going
        with audited() as looks:
            assert delete_all(rest, store) == {}
        listed.append(len(looks))
        assert starred(store) == [spared.id]
        assert [entry.id for entry in entries([directory])] == [spared.id]
    assert listed[1] < 6 * listed[0]


def test_of_many_that_go_those_that_cannot_are_told(runs: Path, tmp_path: Path) -> None:
    store = NotesStore(tmp_path / "notes")
    for name in ("a.json", "ab.json"):
        star(store, runs / name, name)
        carry_out(plan_for(runs / name))
    first, second = entries([runs])
    Path(first.path).rename(tmp_path / "elsewhere")
    (path,) = delete_all([first, second], store)
    assert path == first.path
    assert starred(store) == ["a.json"]
    assert not list(entries([runs]))


def test_notes_are_told_by_the_place_of_their_run(runs: Path, tmp_path: Path) -> None:
    store, run = NotesStore(tmp_path / "notes"), runs / "a.json"
    assert store.noted([run]) == []
    star(store, run, "first")
    generate.write(run, generate.journal(records=3, run_id="second"))
    star(store, run, "second")
    own = store.path_of(run)
    assert store.noted([run, runs / "ab.json"]) == [run]
    own.unlink()
    assert store.noted([run]) == [run]


def test_deleting_a_run_directory_takes_its_notes(tmp_path: Path) -> None:
    store = NotesStore(tmp_path / "notes")
    run = make("04-tail-tool-started", tmp_path / "rivumi")
    star(store, run, "first")
    carry_out(plan_for(run))
    delete(only(run.parent), store)
    assert starred(store) == []


def test_a_deletion_that_was_cut_short_goes_on(runs: Path) -> None:
    carry_out(plan_for(runs / "a.json"))
    entry = only(runs)
    Path(entry.path).rename(Path(entry.path).with_name(f".deleting.{entry.name}"))
    assert only(runs).state == "deleting"
    with pytest.raises(NotRestored, match="being deleted"):
        restore(only(runs))
    delete(only(runs))
    assert not list(entries([runs]))
    with pytest.raises(StoreError):
        delete(entry)


_PARTS = st.lists(
    st.builds(
        Part,
        name=st.text(min_size=1),
        kind=st.sampled_from(["side", "lock"]),
        size=st.integers(0, 1 << 60),
        mode=st.integers(0, 0o177777),
        mtime_ns=st.integers(0, 1 << 62),
        inode=st.integers(1, 1 << 62),
    ),
    max_size=4,
)
_CODES: tuple[Code, ...] = ("missing", "locked", "permission", "other_disk", "nested", "link", "trash")


@given(
    st.text(min_size=1, max_size=300),
    _PARTS,
    st.lists(st.builds(Reason, code=st.sampled_from(_CODES), message=st.text(min_size=1)), max_size=3),
    st.booleans(),
    st.lists(st.text(min_size=1), max_size=5),
)
def test_a_plan_says_what_it_is(
    name: str, parts: list[Part], against: list[Reason], star: bool, forks: list[str]
) -> None:
    main = Part(name, "run", 5, 0o100600, 1, 1)
    found = Found(f"/r/{name}", "/r", name, (main, *parts), 5 + sum(p.size for p in parts), tuple(against))
    plan = plan_trash(found, suffix="0a0b", kept=Kept(star=star), forks=forks)
    assert plan == plan_trash(found, suffix="0a0b", kept=Kept(star=star), forks=forks)
    assert plan.refused == bool(against) == (trash_json(plan)["outcome"] == "refuse")
    assert plan.target.startswith(f"/r/{TRASH}/")
    assert "/" not in plan.entry or "/" in name
    assert bytes_of([plan, plan]) == (0 if against else 2 * found.bytes)
    assert all(reason.message in plan.sentence for reason in against)
    assert len(plan.remarks) == star + bool(forks)
    assert msgspec.structs.replace(plan) == plan
