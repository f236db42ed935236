"""A bundle opens on the screen and in the commands that read; nothing of it stays, and nothing is written."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import story
from tests.on_screen import settings, shown, until

from refold.app.bundles import is_bundle, looking_at, unpacked, words
from refold.app.cli import main
from refold.app.key_table import TABLE
from refold.app.main import RefoldApp
from refold.app.present.copies import copies
from refold.app.present.landing import Landing
from refold.app.read_only import KEPT, OUT, going_on, why_not
from refold.app.screens.run import RunScreen
from refold.core.errors import WriteFailed
from refold.core.store import bundle_parts
from refold.core.store.bundle import BadBundle, open_bundle

SECRET = "ghp_aB3dE6gH9jK2mN5pQ8sTuV1wX4yZ7bC0dF3h"


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    run = tmp_path / "here" / "crashed.json"
    run.parent.mkdir()
    run.write_bytes(story.Writing("crashed", f"use {SECRET}").turn("look", "bash:make").data)
    made = tmp_path / "crashed.refold-bundle"
    assert main(["export", str(run), "--format", "bundle", "-o", str(made)]) == 0
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    unpacked.cache_clear()
    yield made
    unpacked.cache_clear()


def test_commands_read_a_bundle_like_the_run(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["show", str(bundle), "--json"]) == 0
    rows = [json.loads(row) for row in capsys.readouterr().out.splitlines()]
    assert [row["kind"] for row in rows] == ["meta", "assistant"]
    assert rows[1]["link"] == f"{bundle}@2"
    assert main(["show", rows[1]["link"], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["record"]["seq"] == 2
    assert main(["state", str(bundle), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"]["run_id"] == "crashed"
    assert main(["verify", str(bundle)]) == 0
    assert main(["diff", str(bundle), str(bundle)]) == 0
    assert main(["open", str(bundle)]) == 0
    assert "[redacted: github token]" in capsys.readouterr().out


def test_a_bundle_is_told_by_its_own_path(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command, *more in (["show"], ["state"], ["diff", str(bundle)], ["diff", str(bundle), "--json"]):
        capsys.readouterr()
        assert main([command, str(bundle), *more]) == 0
        said = capsys.readouterr().out
        assert "refold-bundle-" not in said, command
        assert str(bundle) in said, command


async def test_what_is_copied_of_a_bundle_opens_it(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = unpacked(str(bundle))
    chosen = looking_at(settings(tmp_path), opened)
    assert copies(opened.run, Landing(2), chosen) == (
        ("id", "id", "crashed"),
        ("path", "path", str(bundle)),
        ("link", "deep link", f"{bundle}@2"),
    )
    assert main(["show", f"{bundle}@2"]) == 0
    screen = RunScreen(opened.run, settings=chosen)
    async with RefoldApp(chosen, lambda: screen).run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: screen.item is not None)
        await pilot.press("Y")
        await until(pilot, lambda: "deep link" in "\n".join(shown(pilot.app)))
        assert "resume" not in "\n".join(shown(pilot.app)[10:-1])
        await pilot.press("r")
        assert not pilot.app.clipboard
        await pilot.press("p")
        await until(pilot, lambda: pilot.app.clipboard == str(bundle))


async def test_the_screen_says_what_it_is_and_only_reads(bundle: Path, tmp_path: Path) -> None:
    opened = unpacked(str(bundle))
    chosen = looking_at(settings(tmp_path), opened)
    before = sorted(tmp_path.rglob("*"))
    screen = RunScreen(opened.run, settings=chosen)
    async with RefoldApp(chosen, lambda: screen).run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: screen.item is not None)
        await until(pilot, lambda: "a bundle · 1 secret hidden · made 20" in "\n".join(shown(pilot.app)))
        assert " read-only " in shown(pilot.app)[-1]
        for key in ("r", "f"):
            pilot.app.clear_notifications()
            await pilot.press(key)
            await until(
                pilot, lambda: "This is a bundle" in "\n".join(n.message for n in pilot.app._notifications)
            )
            assert pilot.app.screen is screen
        await pilot.press("e")
        await until(pilot, lambda: "Export crashed" in "\n".join(shown(pilot.app)))
    assert sorted(tmp_path.rglob("*")) == before


def test_only_looking_refuses_what_writes(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    assert not why_not("resume", chosen)
    import msgspec

    looking = msgspec.structs.replace(chosen, read_only=True)
    for key in TABLE:
        name = key.action.partition("(")[0]
        refused = bool(why_not(name, looking))
        if key.place in ("runs", "run", "lineage", "postmortem", "chat", "trash") and key.group == "Go on":
            assert refused or name == "copy", key.id
        if key.group in ("Move", "Find"):
            assert refused == (name in KEPT), key.id
    assert going_on() >= {"resume", "fork", "salvage", "repair", "suspend", "abort", "reply"}
    assert all(why_not(name, looking) for name in OUT)


def test_commands_that_write_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "one.json"
    run.write_bytes(story.Writing("one", "hello").data)
    assert main(["--read-only", "fork", str(run)]) == 1
    assert "refused with --read-only" in capsys.readouterr().err
    assert main(["--read-only", "fork", str(run), "--at", "1", "--plan"]) == 0
    assert main(["--read-only", "export", str(run), "-o", str(tmp_path / "one.md")]) == 1
    assert "export: refused with --read-only" in capsys.readouterr().err
    assert main(["--read-only", "export", str(run)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.json"]


def test_nothing_is_made_of_a_bundle_that_is_gone_at_the_end(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.rglob("*"))
    for asked in (["fork"], ["fork", "--plan"], ["salvage"], ["repair"], ["resume"], ["star"], ["trash"]):
        assert main([asked[0], str(bundle), *asked[1:]]) == 1, asked
        assert "is a bundle, and only read" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_no_good_bundle_is_said(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = bundle.read_bytes()
    for number, data in enumerate((b"", b"no zip", whole[:200], whole[:-30])):
        bad = tmp_path / f"{number}.refold-bundle"
        bad.write_bytes(data)
        assert is_bundle(str(bad))
        for command in ("show", "state", "verify", "open"):
            assert main([command, str(bad)]) == 3, (command, number)
            assert "not a whole bundle (ask for it again: it may be cut off)" in capsys.readouterr().err
    newer = tmp_path / "newer.refold-bundle"
    with zipfile.ZipFile(newer, "w") as file:
        file.writestr("run/x.json", b"{}\n")
        file.writestr("manifest.json", b'{"bundle":2}')
    assert main(["show", str(newer)]) == 3
    assert "update Refold" in capsys.readouterr().err
    assert not list(tmp_path.glob("refold-bundle-*"))


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_parts, "_LEAST_RUN", 1 << 20)
    bomb = tmp_path / "bomb.refold-bundle"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("run/x.json", b"0" * (8 << 20))
        file.writestr("manifest.json", b'{"bundle":1}')
    with pytest.raises(BadBundle, match="are packed into it"):
        open_bundle(bomb, into=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["bomb.refold-bundle"]


def test_a_run_that_no_bundle_holds_is_not_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "made.refold-bundle"
    run = tmp_path / "here" / "crashed.json"
    run.parent.mkdir()
    data = story.Writing("crashed", "0" * 200_000).data
    run.write_bytes(data)
    command = ["export", str(run), "--format", "bundle", "-o", str(made)]
    # What is packed smaller than the reader believes is not written either.
    monkeypatch.setattr(bundle_parts, "_LEAST_RUN", 1 << 16)
    assert main(command) == 3
    assert "more than a bundle holds" in capsys.readouterr().err
    monkeypatch.undo()
    with run.open("r+b") as file:
        file.truncate(9 << 30)
    assert main(command) == 3
    assert "9,663,676,416 bytes" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    run.write_bytes(data)
    assert main(command) == 0
    assert open_bundle(made, into=tmp_path).run.read_bytes() == data


@pytest.mark.parametrize("packed", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_bundle_is_packed_as_bundles_are(
    packed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = tmp_path / "odd.refold-bundle"
    with zipfile.ZipFile(odd, "w", packed) as file:
        file.writestr("run/x.json", b"{}\n" * 99)
        file.writestr("manifest.json", b'{"bundle":1}')
    data = bytearray(odd.read_bytes())
    data[60:90] = b"\xff" * 30
    damaged = tmp_path / "damaged.refold-bundle"
    damaged.write_bytes(data)
    for path in (odd, damaged):
        with pytest.raises(BadBundle, match=path.name):
            open_bundle(path, into=tmp_path)
        assert main(["show", str(path)]) == 3
        assert path.name in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged.refold-bundle", "odd.refold-bundle"]


def test_packing_that_is_damaged_is_said_without_names_of_our_own(bundle: Path, tmp_path: Path) -> None:
    data = bytearray(bundle.read_bytes())
    with zipfile.ZipFile(bundle) as file:
        first = min(file.infolist(), key=lambda info: info.header_offset)
    sizes = data[first.header_offset + 26 : first.header_offset + 30]
    begin = first.header_offset + 30 + sum(struct.unpack("<HH", sizes))
    data[begin : begin + 8] = b"\xff" * 8
    bad = tmp_path / "bad.refold-bundle"
    bad.write_bytes(data)
    with pytest.raises(BadBundle) as raised:
        open_bundle(bad, into=tmp_path)
    assert str(raised.value).startswith(f"{bad}: not a whole bundle")
    assert "error" not in str(raised.value).lower()


def test_no_damage_is_anything_but_a_bad_bundle(bundle: Path, tmp_path: Path) -> None:
    whole = bundle.read_bytes()
    end, directory = whole.rindex(b"PK\x05\x06"), whole.index(b"PK\x01\x02")
    bad = tmp_path / "bad.refold-bundle"
    for place in (*range(64), *range(directory, end + 22)):
        for byte in (0, 0x7F, 0xFF):
            data = bytearray(whole)
            data[place] = byte
            bad.write_bytes(data)
            with contextlib.suppress(BadBundle):
                shutil.rmtree(open_bundle(bad, into=tmp_path).directory)
    assert not list(tmp_path.glob("refold-bundle-*"))


def test_a_file_that_cannot_be_read_is_told_from_a_disk_that_is_full(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> object:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(zipfile.ZipExtFile, "read", fails)
        with pytest.raises(BadBundle, match=f"{bundle.name}: it cannot be read: Input/output error"):
            open_bundle(bundle, into=tmp_path)
    monkeypatch.setattr("refold.core.store.bundle.write_all", fails)
    with pytest.raises(WriteFailed, match=bundle.name):
        open_bundle(bundle, into=tmp_path)
    assert not list(tmp_path.glob("refold-bundle-*"))


def test_hostile_words_of_a_manifest(tmp_path: Path) -> None:
    made = tmp_path / "odd.refold-bundle"
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("run/x.json", b"{}\n")
        odd = {
            "bundle": 1,
            "redacted": {"a": "x", "b": 10**30},
            "written_by": "\x1b[2J" * 99,
            "written_at": 7,
        }
        file.writestr("manifest.json", json.dumps(odd))
    opened = open_bundle(made, into=tmp_path)
    assert words(opened).startswith("a bundle · 1,000,000")
    assert len(words(opened)) < 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(number: signal.Signals, bundle: Path, tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom refold.app.bundles import unpacked\n"
        "print(unpacked(sys.argv[1]).directory, flush=True)\ntime.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(bundle)],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        text=True,
    )
    assert child.stdout is not None
    directory = Path(child.stdout.readline().strip())
    assert directory.is_dir()
    child.send_signal(number)
    assert child.wait(20) == 128 + number
    end = time.monotonic() + 5
    while directory.exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert not directory.exists()


@pytest.mark.parametrize(
    ("name", "kind", "manifest", "remedy"),
    [
        ("run/../../x.json", 0o10, '{"bundle":1}', "writes no such file"),
        ("run/x.json", 0o12, '{"bundle":1}', "writes no such file"),
        ("run/x.json", 0o10, '{"bundle":-1}', "changed after it was made"),
        pytest.param(
            "run/x.json", 0o10, f'{{"bundle":{"9" * 4000}}}', "changed after it was made", id="digits"
        ),
    ],
)
def test_a_hostile_bundle_is_refused_with_a_remedy_of_its_own(
    name: str, kind: int, manifest: str, remedy: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.refold-bundle"
    with zipfile.ZipFile(path, "w") as made:
        info = zipfile.ZipInfo(name)
        info.external_attr = kind << 28
        made.writestr(info, b"/etc/passwd")
        made.writestr("manifest.json", manifest)
    with pytest.raises(BadBundle) as refused:
        open_bundle(path, into=tmp_path)
    assert remedy in refused.value.remedy
    assert len(str(refused.value)) < len(str(path)) + 100


def test_a_bundle_with_an_empty_journal_says_so(tmp_path: Path) -> None:
    path = tmp_path / "empty.refold-bundle"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("run/x.json", b"")
        made.writestr("manifest.json", '{"bundle":1}')
    assert "its journal is empty" in words(open_bundle(path, into=tmp_path))
