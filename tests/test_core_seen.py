"""What was seen of a run before is known again: no byte of it changes unnoticed; an append is no change."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests import generate, rivumi_cases
from tests import run_story as story
from tests.faults.part_damage import five_records
from tests.on_screen import settings, shown, until
from tests.terminal.program import without_privileges

from refold.app.cli import main
from refold.app.main import RefoldApp
from refold.app.screens.postmortem import PostmortemScreen
from refold.app.screens.run import RunScreen
from refold.core.store import seen
from refold.core.store.files import open_regular
from refold.core.store.seen import PIECE, Rewritten


def look(path: Path, cache: Path, *, accept: bool = False) -> Rewritten | None:
    fd = open_regular(path)
    try:
        return seen.look(fd, path, cache, accept=accept)
    finally:
        os.close(fd)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_every_bit_that_flips_in_what_was_seen_is_noticed(tmp_path: Path, cache: Path) -> None:
    whole = five_records(tmp_path)
    path = tmp_path / "run.json"
    path.write_bytes(whole)
    assert look(path, cache) is None
    for bit in range(8 * len(whole)):
        at, flipped = bit // 8, bytes([whole[bit // 8] ^ 1 << bit % 8])
        with path.open("r+b") as file:
            file.seek(at)
            file.write(flipped)
        found = look(path, cache)
        assert found is not None, bit
        assert found.start <= at < found.end
        with path.open("r+b") as file:
            file.seek(at)
            file.write(whole[at : at + 1])
    assert look(path, cache) is None


def test_what_is_appended_or_torn_off_is_no_history(tmp_path: Path, cache: Path) -> None:
    lines = list(generate.journal(size=5 * PIECE, run_id="run"))
    path = tmp_path / "run.json"
    path.write_bytes(b"".join(lines[:-2]) + lines[-2][:9])
    assert look(path, cache) is None
    path.write_bytes(b"".join(lines[:-2]))
    assert look(path, cache) is None
    for upto in (-1, None):
        path.write_bytes(b"".join(lines[:upto]))
        assert look(path, cache) is None
    path.write_bytes(b"".join(lines[:-1]))
    found = look(path, cache)
    assert found is not None
    assert "are left" in found.reason or found.end >= path.stat().st_size - 1


@pytest.mark.parametrize("whole_pieces", [True, False])
def test_a_file_cut_between_two_records_is_noticed(tmp_path: Path, cache: Path, whole_pieces: bool) -> None:
    line = b'{"seq":1,"x":"' + b"y" * 1007 + b'"}\n'
    assert len(line) == 1024
    path = tmp_path / "run.json"
    path.write_bytes(line * 48)
    assert look(path, cache) is None
    path.write_bytes(line * (32 if whole_pieces else 33))
    found = look(path, cache)
    assert found is not None
    assert found.was == 48 * 1024
    assert found.end <= path.stat().st_size


def test_the_place_is_known_to_a_few_kilobytes(tmp_path: Path, cache: Path) -> None:
    data = bytearray(b"".join(generate.journal(size=40 * PIECE, run_id="run")))
    path = tmp_path / "run.json"
    path.write_bytes(data)
    assert look(path, cache) is None
    for at in (0, 7, PIECE, 20 * PIECE - 1, 20 * PIECE, len(data) - 3):
        changed = bytearray(data)
        changed[at] ^= 1
        path.write_bytes(changed)
        found = look(path, cache)
        assert found is not None
        assert found.start <= at < found.end <= found.start + PIECE
        before = bytes(changed)
        assert found.line == before.count(b"\n", 0, found.start) + 1
        assert found.line <= before.count(b"\n", 0, at) + 1 <= found.last_line
        assert f"{found.last_line:,}" in found.reason


def test_another_run_in_the_same_place_is_another_run(tmp_path: Path, cache: Path) -> None:
    path, other = tmp_path / "run.json", tmp_path / "other.json"
    path.write_bytes(b"".join(generate.journal(records=9, run_id="run", seed=1)))
    with path.open("rb"):  # An inode that is free is given again at once, to the other run as well.
        assert look(path, cache) is None
        changed = path.read_bytes().replace(b'"seq":9', b'"seq":8')
        other.write_bytes(changed)
        other.replace(path)
        assert look(path, cache) is not None
        other.write_bytes(b"".join(generate.journal(records=9, run_id="else", seed=2)))
        other.replace(path)
        assert look(path, cache) is None
    assert look(path, cache) is None


def put(path: Path, data: bytes) -> None:
    """Write into the very file: its inode stays, as that of a file that is gone comes back for the next."""
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(data)


def test_another_run_with_the_inode_of_one_that_is_gone_is_another_run(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "run.json"
    first, second = (
        b"".join(generate.journal(records=9, run_id="run", seed=seed, prompt=f"prompt {seed}"))
        for seed in (1, 2)
    )
    path.write_bytes(first)
    assert look(path, cache) is None
    put(path, second)
    assert look(path, cache) is None
    # The same in its first line alone is a change of this run, however long that line is now.
    head, newline, rest = second.partition(b"\n")
    for other in (head.replace(b"run", b"rum", 1), head + b" ", head[:-1]):
        put(path, other + newline + rest)
        assert look(path, cache) is not None
    put(path, second)
    assert look(path, cache) is None


def test_a_run_on_another_disk_is_not_the_one_that_was_seen(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "run.json"
    lines = [*generate.journal(records=2, run_id="run")]
    path.write_bytes(b"".join(lines))
    assert look(path, cache) is None
    kept = seen._load(cache, path)
    assert kept is not None
    assert (kept.device, kept.inode) == (path.stat().st_dev, path.stat().st_ino)
    # Numbers of files say something only beside that of their disk.
    put(path, lines[0].replace(b"run", b"rum", 1) + lines[1])
    assert look(path, cache) is not None
    seen._save(cache, path, msgspec.structs.replace(kept, device=kept.device + 1))
    assert look(path, cache) is None


def test_what_was_seen_of_runs_that_are_gone_is_forgotten(tmp_path: Path, cache: Path) -> None:
    runs, away = tmp_path / "runs", tmp_path / "away"
    for directory in (runs, away):
        directory.mkdir()
    data = b"".join(generate.journal(records=3, run_id="run"))
    for number in range(15):
        path = (away if number < 3 else runs) / f"run-{number}.json"
        path.write_bytes(data)
        assert look(path, cache) is None
        if number < 14:
            path.unlink()
    assert len(list((cache / "seen").iterdir())) == 15
    away.rmdir()
    last = runs / "last.json"
    last.write_bytes(data)
    assert look(last, cache) is None
    # The two that are there, and those of a directory that may come back.
    assert len(list((cache / "seen").iterdir())) == 2 + 3
    for number in range(15, 15 + 11):
        if number == 15:
            for file in (cache / "seen").iterdir():
                os.utime(file, (1, 1))
        path = runs / f"run-{number}.json"
        path.write_bytes(data)
        assert look(path, cache) is None
    # At sixteen it is looked again: a month later the directory is not waited for.
    assert len(list((cache / "seen").iterdir())) == 2 + 11


def fifteen_more(tmp_path: Path, cache: Path) -> None:
    """See so many other runs that it is looked which of all of them are still there."""
    (tmp_path / "others").mkdir()
    for number in range(15):
        path = tmp_path / "others" / f"run-{number}.json"
        path.write_bytes(b"".join(generate.journal(records=3, run_id="run")))
        assert look(path, cache) is None
    assert len(list((cache / "seen").iterdir())) >= 15


def test_a_run_at_the_top_of_a_disk_that_is_away_is_remembered_for_a_while(
    tmp_path: Path, cache: Path
) -> None:
    """The directory on which the disk was mounted stays, and is empty: the run is not gone."""
    path = tmp_path / "disk" / "run.json"
    path.parent.mkdir()
    data = b"".join(generate.journal(records=9, run_id="run"))
    path.write_bytes(data)
    assert look(path, cache) is None
    kept = seen._load(cache, path)
    assert kept is not None
    seen._save(cache, path, msgspec.structs.replace(kept, device=kept.device + 1))
    path.unlink()
    fifteen_more(tmp_path, cache)
    assert seen._load(cache, path) is not None
    os.utime(seen._file(cache, path), (1, 1))
    for number in range(15, 31):
        other = tmp_path / "others" / f"run-{number}.json"
        other.write_bytes(data)
        assert look(other, cache) is None
    assert seen._load(cache, path) is None


def test_a_run_in_a_directory_that_is_closed_for_a_while_is_remembered(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "closed" / "run.json"
    path.parent.mkdir()
    path.write_bytes(five_records(tmp_path))
    assert look(path, cache) is None
    path.parent.chmod(0)
    code = (
        "import sys; from pathlib import Path; from tests.test_core_seen import fifteen_more\n"
        "fifteen_more(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    try:
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path), str(cache)],
            check=True,
            preexec_fn=without_privileges,
        )
    finally:
        path.parent.chmod(0o700)
    rewrite(path)
    assert look(path, cache) is not None


@pytest.mark.parametrize("trouble", ["another build", "a read that fails"])
def test_what_was_seen_and_cannot_be_read_is_not_forgotten(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(five_records(tmp_path))
    assert look(path, cache) is None
    with monkeypatch.context() as patch:
        if trouble == "another build":
            patch.setattr(seen, "_LAYOUT", seen._LAYOUT + 1)
        else:
            entry = seen._file(cache, path)

            def fails(file: Path) -> int:
                if file == entry:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                return open_regular(file)

            patch.setattr(seen, "open_regular", fails)
        fifteen_more(tmp_path, cache)
    rewrite(path)
    assert look(path, cache) is not None


def test_what_the_cache_holds_is_never_trusted(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(b"".join(generate.journal(records=9, run_id="run")))
    assert look(path, cache) is None
    (entry,) = (cache / "seen").iterdir()
    assert entry.stat().st_mode & 0o777 == 0o600
    kept = entry.read_bytes()
    path.write_bytes(path.read_bytes().replace(b'"seq":9', b'"seq":8'))
    flipped = [kept[:at] + bytes([kept[at] ^ 1]) + kept[at + 1 :] for at in range(len(kept))]
    for odd in (b"", kept[:-3], b"\x90", b"\xc1" * 40, kept + b"x", *flipped):
        entry.write_bytes(odd)
        assert look(path, cache) is None
        entry.unlink()
    shutil.rmtree(cache)
    cache.write_bytes(b"a file where the cache should be")
    assert look(path, cache) is None


def rewrite(path: Path) -> None:
    data = path.read_bytes()
    assert b"calc.py" in data
    path.write_bytes(data.replace(b"calc.py", b"calx.py", 1))


def test_verify_says_so_until_it_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "run.json"
    path.write_bytes(five_records(tmp_path))
    path.chmod(0o600)
    assert main(["verify", str(path)]) == 0
    rewrite(path)
    stamp = path.stat().st_mtime_ns
    assert main(["verify", str(path), "--no-cache"]) == 0
    capsys.readouterr()
    for _ in range(2):
        assert main(["verify", str(path)]) == 1
        out = capsys.readouterr().out
        assert f"{path}:1:0: error E_REWRITTEN: history was rewritten since it was last looked at" in out
        assert "--accept" in out
    assert main(["verify", str(path), "--json"]) == 1
    assert '"allowed":{"view":true,"fork_to":4,"resume":false}' in capsys.readouterr().out
    assert main(["why", str(path)]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "Beware: history was rewritten since it was last looked at" in said
    assert main(["verify", "--accept", str(path)]) == 0
    assert main(["verify", str(path)]) == 0
    assert main(["why", str(path)]) == 0
    assert path.stat().st_mtime_ns == stamp


def test_a_run_directory_is_known_again_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run = rivumi_cases.make("03-running-clean", tmp_path)
    main(["verify", str(run)])
    assert "E_REWRITTEN" not in capsys.readouterr().out
    rewrite(run / "events.jsonl")
    assert main(["verify", str(run)]) == 1
    assert "E_REWRITTEN" in capsys.readouterr().out
    main(["why", str(run)])
    assert "Beware: history was rewritten" in " ".join(capsys.readouterr().out.split())


async def test_the_screens_say_so(tmp_path: Path, cache: Path) -> None:
    lines = [
        story.meta(1, "run", "go", time="2026-07-24T09:00:00Z"),
        story.assistant(2, 1, {"type": "text", "text": "I look at calc.py."}),
    ]
    path = story.write(tmp_path / "run.json", lines)
    here = msgspec.structs.replace(settings(tmp_path), cache_dir=cache)
    app = RefoldApp(here, lambda: RunScreen(path, settings=here))
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: any((cache / "seen").glob("*")))
        assert not any("rewritten" in row for row in shown(app))
    rewrite(path)
    app = RefoldApp(here, lambda: RunScreen(path, settings=here))
    async with app.run_test(size=(100, 30)) as pilot:
        said = "history was rewritten: lines 1 to 2 are not what was seen before"
        await until(pilot, lambda: any(said in row for row in shown(app)))
        assert len(said) < 79
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, PostmortemScreen))
        screen = app.screen
        assert isinstance(screen, PostmortemScreen)
        await until(pilot, lambda: screen.is_read)
        assert any("history was rewritten since it was last looked at" in row for row in shown(app))


async def test_of_a_run_cut_short_while_it_is_open_just_that_is_said(tmp_path: Path, cache: Path) -> None:
    lines = [story.meta(1, "run", "go"), *(story.assistant(n, n, story.text("x" * 40)) for n in range(2, 9))]
    path = story.write(tmp_path / "run.json", lines)
    here = msgspec.structs.replace(settings(tmp_path), cache_dir=cache)
    app = RefoldApp(here, lambda: RunScreen(path, settings=here))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: any((cache / "seen").glob("*")))
        os.truncate(path, len(b"".join(lines[:3])) + 9)
        await until(pilot, lambda: any("last seq 3" in row for row in shown(app)))
        await until(pilot, lambda: not any(each.group == "seen" for each in app.workers if each.is_running))
        assert any("the file was cut short: it was read again from the start" in row for row in shown(app))
