"""The demo: runs in every state, written as agents write them, and nothing left behind."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.terminal.program import environment, refold
from tests.terminal.terminal import Terminal

from refold.app import demo
from refold.app.cli import main
from refold.app.demo_rivumi import CRASHED, WAITING
from refold.app.demo_runs import KILLED
from refold.app.present.reading import reading_of
from refold.core.breakpoints import parse_breakpoints
from refold.core.errors import RunLocked
from refold.core.playback import AS_RECORDED
from refold.core.records import MetaRecord
from refold.core.rivumi.findings import findings
from refold.core.rivumi.verdict import verdict
from refold.core.seek import next_stop
from refold.core.status import STATUSES
from refold.core.store.catalog import Catalog
from refold.core.store.conversations import list_conversations
from refold.core.store.examining import examine
from refold.core.store.journal import JournalStore
from refold.core.store.lock import RunLock
from refold.core.store.reader import RunReader
from refold.core.store.session_files import read_run
from refold.core.summary import RunSummary

NOW = datetime(2026, 7, 24, 12, 0, tzinfo=UTC)
SOUND = {"suspended", "completed", "failed", "budget", "max-iterations", "cancelled", "ready"}
PROGRAM = (sys.executable, "-c", "import sys; from refold.app.cli import main; sys.exit(main())")


def rows(directory: Path) -> dict[str, RunSummary]:
    catalog = Catalog(demo.roots(directory), cache=None)
    return {row.id: row for row in catalog.scan() if isinstance(row, RunSummary)}


def until(true: Callable[[], bool], seconds: float = 15) -> None:
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("demo")
    demo.make(directory, NOW)
    return directory


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary directories are made."""
    there = tmp_path / "tmp"
    there.mkdir()
    monkeypatch.setenv("TMPDIR", str(there))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield there
    monkeypatch.setattr("tempfile.tempdir", None)


def test_every_status_is_there(tmp_path: Path) -> None:
    demo.make(tmp_path, NOW)
    with demo.growing(tmp_path):
        found = rows(tmp_path)
        assert {row.status for row in found.values()} == set(STATUSES)
    assert rows(tmp_path)["billing-sweep"].status == "suspended"


def test_damage_torn_tail_fork_and_both_formats_are_there(made: Path) -> None:
    found = rows(made)
    assert found["index-photos"].torn
    assert found["rename-notes"].damaged
    assert found["rename-notes"].status == "completed"
    assert found["fix-date-parser"].in_flight == ("replace_text",)
    assert {row.provider_version for row in found.values()} >= {"refold v2", "fisk-ai v3"}


def test_sound_runs_have_no_findings(made: Path) -> None:
    checked = 0
    for row in rows(made).values():
        if row.status not in SOUND or row.id == "rename-notes":
            continue
        if row.format == "rivumi":
            assert findings(read_run(Path(row.path))) == ()
            continue
        with RunReader.open(Path(row.path)) as reader:
            reader.index_all()
            assert [finding.code for finding in examine(reader)] == [], row.id
        checked += 1
    assert checked >= 8


def test_there_is_something_to_watch(made: Path) -> None:
    """Every run of our own can be played by its times, and one of them stops where the README says."""
    for row in rows(made).values():
        if row.format == "refold" and row.turns:
            with RunReader.open(Path(row.path)) as reader:
                assert reader.index_all().first_seconds is not None, row.id
    with RunReader.open(demo.roots(made)[0].path / "refactor-imports.json") as reader:
        timeline, reading = reader.index_all(), reading_of(reader)
        looking = next_stop(parse_breakpoints("tool:run_tests error:yes", 0.0), timeline, reading, 0, 1)
        for _ in looking.steps():
            pass
        assert looking.found is not None
        assert timeline.is_error(looking.found)
        assert list(AS_RECORDED.moments(timeline, looking.found + 1))[-1] < 60, "soon enough to be seen"


def test_files_are_private_and_as_old_as_they_say(made: Path) -> None:
    for row in rows(made).values():
        path = Path(row.path)
        files = [path] if path.is_file() else [each for each in path.iterdir() if each.is_file()]
        assert files
        assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
        assert 0 < NOW.timestamp() - row.updated < 12 * 86_400


def test_the_runs_of_rivumi_can_go_on_or_need_a_decision(made: Path) -> None:
    found = {row.id: row for row in rows(made).values() if row.format == "rivumi"}
    assert {row.status for row in found.values()} == {"crashed", "suspended"}
    dead, waits = found[CRASHED], found[WAITING]
    assert dead.in_flight == ("replace_text",)
    answers = [verdict(read_run(Path(row.path))) for row in (dead, waits)]
    assert [answer.outcome for answer in answers] == ["ask", "accept"]
    assert answers[0].original.code == "in_flight_side_effect"


def test_the_conversation_is_one_that_its_own_program_loads(made: Path) -> None:
    (one,) = (one for one in list_conversations([demo.conversations(made)]) if one is not None)
    assert (one.conversation.refusal, len(one.conversation.turns), one.conversation.completed) == ("", 3, 2)


def test_nothing_of_the_killed_writer_is_held(made: Path) -> None:
    with JournalStore(demo.roots(made)[0].path).open(KILLED) as journal:
        assert journal.last_seq == 7


def test_the_fork_holds_the_bytes_of_its_parent(made: Path) -> None:
    store = JournalStore(demo.roots(made)[0].path)
    parent = store.path_of(KILLED).read_bytes().split(b"\n")
    child = store.path_of(f"{KILLED}-again").read_bytes().split(b"\n")
    with RunReader.open(store.path_of(f"{KILLED}-again")) as reader:
        reader.index_all()
        meta = reader.meta
    assert isinstance(meta, MetaRecord)
    assert meta.forked_from is not None
    taken = meta.forked_from.seq
    assert child[1:taken] == parent[1:taken]
    assert child[taken:] == [b""]
    prefix = b"".join(line + b"\n" for line in parent[:taken])
    assert meta.forked_from.prefix_sha256 == hashlib.sha256(prefix).hexdigest()


def test_the_growing_run_grows_under_its_lock(tmp_path: Path) -> None:
    store = JournalStore(demo.roots(tmp_path)[0].path)
    with demo.growing(tmp_path):
        path = store.path_of("billing-sweep")
        before = path.stat().st_size
        assert before
        with pytest.raises(RunLocked):
            store.open("billing-sweep")
        until(lambda: path.stat().st_size > before)
        until(lambda: path.read_bytes().count(b"\n") > 16)
    assert store.load("billing-sweep").terminal is not None
    lock = RunLock.take(path.with_suffix(".lock"))
    lock.release()


def test_without_a_screen_the_directory_is_printed_and_kept(
    scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--no-screen"]) == 0
    (directory,) = scratch.iterdir()
    said = capsys.readouterr()
    assert said.out == f"{directory}\n"
    assert f"XDG_STATE_HOME={directory} refold" in said.err
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert len(rows(directory)) >= 16


def test_without_a_terminal_the_list_is_printed_and_the_directory_removed(
    scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo"]) == 0
    said = capsys.readouterr()
    assert "running" in said.out
    first = said.out.splitlines()[0]
    directory = first.removeprefix("The demo makes its runs in ").removesuffix(", until you leave.")
    assert Path(directory).parent == scratch
    assert said.err.splitlines() == [
        f"refold: {directory} was removed, with every run of the demo and all that was done to them",
        "refold: for new ones: refold demo; to keep them: refold demo --dir DIR",
    ]
    assert list(scratch.iterdir()) == []


def test_a_scratch_directory_that_could_not_be_removed_is_named(
    scratch: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "growing", lambda *_, **__: contextlib.nullcontext())
    assert main(["demo"]) == 0
    (left,) = scratch.iterdir()
    assert f"{left} could not be removed whole: to be rid of it, rm -r {left}" in capsys.readouterr().err


def test_a_named_directory_must_be_empty_and_stays(
    scratch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--dir", str(tmp_path / "a" / "b")]) == 0
    assert len(rows(tmp_path / "a" / "b")) >= 16
    assert list(scratch.iterdir()) == []
    opening = f"XDG_STATE_HOME={tmp_path / 'a' / 'b'} refold"
    said = capsys.readouterr().err
    assert f"the runs of the demo stay in {tmp_path / 'a' / 'b'}\n" in said
    assert f"to open them again: {opening}\n" in said
    assert main(["demo", "--dir", str(tmp_path / "a" / "b")]) == 2
    assert f"not empty (to look at the runs in it: {opening})" in capsys.readouterr().err
    assert main(["demo", "--dir", str(tmp_path / "a")]) == 2
    assert "not empty (name a new or empty directory)" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["demo", "--dir", str(tmp_path / "file")]) == 2


def test_the_scratch_directory_goes_away_even_when_the_program_is_killed(scratch: Path) -> None:
    code = """
import sys
from pathlib import Path
from refold.app import demo
with demo.growing(Path(sys.argv[1]), scratch=True):
    print("up", flush=True)
    sys.stdin.read()
"""
    directory = scratch / "refold-demo-x"
    directory.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", code, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        assert (directory / "refold" / "runs" / "billing-sweep.json").exists()
        child.send_signal(signal.SIGKILL)
        child.wait(10)
        until(lambda: not directory.exists())


def turns_of_the_live_run(screen: str) -> int:
    found = re.search(r"billing-sweep +refold +opus-4-8 +(\d+)", screen)
    return int(found[1]) if found is not None else -1


def test_the_screen_opens_on_the_runs_and_leaves_nothing(tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    with Terminal(refold("demo"), env=environment(tmp_path, TMPDIR=str(scratch))) as terminal:
        screen = terminal.wait(lambda shown: "billing-sweep" in shown and "not-a-journal" in shown)
        assert "running" in screen
        assert len(list(scratch.iterdir())) == 1
        turns = turns_of_the_live_run(screen)
        terminal.wait(lambda shown: turns_of_the_live_run(shown) > turns)
        (directory,) = scratch.iterdir()
        terminal.send("q")
        assert terminal.ended() == 0
        assert f"{directory} was removed" in " ".join(terminal.text.split())
    assert list(scratch.iterdir()) == []


def test_a_window_that_is_closed_leaves_nothing(tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    with Terminal(refold("demo"), env=environment(tmp_path, TMPDIR=str(scratch))) as terminal:
        terminal.wait("billing-sweep")
        terminal.hang_up()
        terminal.ended()
    until(lambda: not list(scratch.iterdir()))


def test_state_of_the_running_run_is_that_of_a_reader_who_holds_nothing(tmp_path: Path) -> None:
    """Reading while the writer appends: whole records, and the writer's lock is never touched."""
    with demo.growing(tmp_path):
        path = demo.roots(tmp_path)[0].path / "billing-sweep.json"
        done = subprocess.run([*PROGRAM, "state", "--json", path], capture_output=True, check=True)
        answer: dict[str, Any] = json.loads(done.stdout)
        assert answer["ok"] is True
        with path.with_suffix(".lock").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
