"""The calls that open, write and replace files, and what they answer when the system refuses."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from refold.core.errors import (
    InvalidRunId,
    NotPermitted,
    NotRegular,
    RunExists,
    RunNotFound,
    StoreError,
    TooLarge,
    Unreadable,
    WriteFailed,
)
from refold.core.store import files
from refold.core.store.files import (
    append_durably,
    check_run_id,
    create_private,
    fsync_directory,
    open_regular,
    private_directory,
    read_range,
    replace_atomically,
    shown,
)
from refold.core.store.run_id import is_run_id, new_run_id

HOSTILE_IDS = [
    "",
    ".",
    "..",
    "../x",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "-rf",
    "_x",
    ".hidden",
    "a b",
    "a\n",
    "\na",
    "a\0b",
    "a.json",
    "a.",
    "a%2fb",
    "é",
    "e\u0301",
    "\u202ea",
    "\ud800",
    "１",
    "a" * 129,
    "a" * 300,
]


@pytest.mark.parametrize("text", HOSTILE_IDS, ids=ascii)
def test_what_is_no_id_is_refused(text: str) -> None:
    assert not is_run_id(text)
    with pytest.raises(InvalidRunId) as caught:
        check_run_id(text)
    assert str(caught.value).isascii()
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("text", ["a", "Z9", "my-run_1", "0ujtsYcgvSTl8PAuAdqWYSMnLOv", "CON", "a" * 128])
def test_what_is_an_id_is_given_back(text: str) -> None:
    assert check_run_id(text) == text


def test_new_ids_are_ksuids() -> None:
    payload = bytes.fromhex("B5A1CD34B5F99D1154FB6853345C9735")
    made = new_run_id(now=lambda: 1_507_608_047.9, random_bytes=lambda count: payload[:count])
    assert made == "0ujtsYcgvSTl8PAuAdqWYSMnLOv"
    assert new_run_id(now=lambda: 0, random_bytes=bytes) == "0" * 27
    assert new_run_id(now=lambda: 1e12, random_bytes=lambda n: b"\xff" * n) == "aWgEPTl1tmebfsQzFP4bxwgy80V"
    first = new_run_id(now=lambda: 1.8e9)
    assert first < new_run_id(now=lambda: 1.8e9 + 1)
    assert is_run_id(first)
    assert new_run_id() != new_run_id()


def test_only_a_regular_file_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "file"
    file.write_bytes(b"x")
    fd = open_regular(file)
    assert not os.get_inheritable(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(fd, b"y")
    os.close(fd)
    fd = open_regular(file, append=True)
    os.write(fd, b"y")
    os.close(fd)
    assert file.read_bytes() == b"xy"

    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
    for name, kind in {
        "pipe": "a named pipe",
        "directory": "a directory",
        "link": "a symbolic link",
        "dangling": "a symbolic link",
        "loop": "a symbolic link",
        "socket": "a socket",
    }.items():
        for append in (False, True):
            with pytest.raises(NotRegular, match=kind) as caught:
                open_regular(tmp_path / name, append=append)
            assert str(tmp_path / name) in str(caught.value)
            assert caught.value.remedy
    with pytest.raises(NotRegular, match="a device"):
        open_regular(Path("/dev/null"))


def test_what_takes_the_place_of_a_file_after_it_was_looked_at_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    looked_at = os.lstat(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    monkeypatch.setattr(os, "lstat", lambda path: looked_at)
    for name in ("pipe", "link"):
        with pytest.raises(NotRegular):
            open_regular(tmp_path / name)


def test_a_missing_file_and_an_impossible_name_are_not_found(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "gone", tmp_path / "file" / "below", tmp_path / ("n" * 300), tmp_path / "a\0b"):
        with pytest.raises(RunNotFound):
            open_regular(path)
        with pytest.raises(StoreError):
            create_private(path / "x")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (errno.EACCES, NotPermitted),
        (errno.EROFS, NotPermitted),
        (errno.EIO, Unreadable),
        (errno.EMFILE, Unreadable),
        (errno.ENXIO, NotRegular),
        (errno.ENOENT, RunNotFound),
    ],
)
def test_an_answer_of_the_system_becomes_a_named_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, expected: type[StoreError]
) -> None:
    def refuse(*arguments: object, **options: object) -> int:
        raise OSError(code, os.strerror(code))

    path = tmp_path / "file"
    path.touch()
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(expected) as caught:
        open_regular(path)
    assert caught.value.__cause__ is not None
    with pytest.raises(expected):
        create_private(tmp_path / "new")


def test_another_user_is_told_that_the_file_may_not_be_opened(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from refold.core.errors import NotPermitted
from refold.core.store.files import open_regular, private_directory, replace_atomically
directory = Path(sys.argv[1])
os.chdir(directory)
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
for attempt in (
    lambda: open_regular(Path("file")),
    lambda: open_regular(Path("file"), append=True),
    lambda: private_directory(Path("closed/new")),
    lambda: replace_atomically(Path("closed/file"), b"x"),
):
    try:
        attempt()
    except NotPermitted as error:
        print(error.remedy)
"""
    (tmp_path / "file").touch(0)
    (tmp_path / "closed").mkdir(0o500)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["check the owner and mode of the file and of its directory"] * 4


def test_a_path_is_shown_as_text_that_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9")
    with pytest.raises(RunNotFound) as caught:
        open_regular(path)
    str(caught.value).encode()
    assert shown(path).endswith("caf\\xe9")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_what_is_made_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        private_directory(tmp_path / "a" / "b" / "c")
        os.close(create_private(tmp_path / "a" / "b" / "c" / "file"))
        replace_atomically(tmp_path / "a" / "b" / "c" / "other", b"x")
    finally:
        os.umask(before)
    for name in ("a", "a/b", "a/b/c"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700
    for name in ("file", "other"):
        assert stat.S_IMODE((tmp_path / "a/b/c" / name).stat().st_mode) == 0o600


def test_a_directory_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "open").chmod(0o755)
    (tmp_path / "link").symlink_to(tmp_path / "open")
    private_directory(tmp_path / "open")
    private_directory(tmp_path / "link")
    private_directory(tmp_path / "link" / "below")
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o755
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    for name in ("file", "dangling", "dangling/x"):
        with pytest.raises(StoreError):
            private_directory(tmp_path / name)
    with pytest.raises(RunNotFound):
        private_directory(tmp_path / "a\0b")


def test_each_new_directory_is_made_durable_in_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(files, "fsync_directory", synced.append)
    private_directory(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]


def test_two_who_make_the_same_directory_both_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.mkdir

    def beaten(self: Path, mode: int = 0o777) -> None:
        real(self, mode)
        raise FileExistsError

    monkeypatch.setattr(Path, "mkdir", beaten)
    private_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_nothing_is_made_over_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"kept")
    (tmp_path / "dangling").symlink_to(tmp_path / "target")
    for name in ("file", "dangling"):
        with pytest.raises(RunExists):
            create_private(tmp_path / name)
    assert (tmp_path / "file").read_bytes() == b"kept"
    assert not (tmp_path / "target").exists()


def test_a_directory_that_cannot_be_synced_is_said_to_be_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fsync_directory(tmp_path)
    for code in (errno.EINVAL, errno.EIO):

        def refuse(fd: int, code: int = code) -> None:
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, "fsync", refuse)
        if code == errno.EINVAL:
            assert not fsync_directory(tmp_path)
        else:
            with pytest.raises(OSError, match="Input/output"):
                fsync_directory(tmp_path)

    def forbid(path: Path, flags: int) -> int:
        raise PermissionError(errno.EACCES, "")

    monkeypatch.setattr(os, "open", forbid)
    assert not fsync_directory(tmp_path)


def test_an_append_is_one_write_and_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    real_write, real_fsync = os.write, os.fsync

    def write(fd: int, data: memoryview) -> int:
        calls.append("write")
        return real_write(fd, data)

    def fsync(fd: int) -> None:
        calls.append("fsync")
        real_fsync(fd)

    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(os, "fsync", fsync)
    fd = create_private(tmp_path / "file")
    append_durably(fd, b"x" * 100_000, tmp_path / "file")
    os.close(fd)
    assert calls == ["write", "fsync"]


@pytest.mark.parametrize("written", [0, 1, 5, 9])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_what_a_failed_write_left_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int, code: int
) -> None:
    path = tmp_path / "file"
    fd = create_private(path)
    append_durably(fd, b"first\n", path)
    left = [written]
    real = os.write

    def short(fd: int, data: memoryview) -> int:
        if not left or left == [0]:
            raise OSError(code, os.strerror(code))
        return real(fd, data[: left.pop()])

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(
        WriteFailed, match=rf"{errno.errorcode[code]}.*nothing of it is in the file"
    ) as caught:
        append_durably(fd, b"0123456789", path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == b"first\n"
    monkeypatch.setattr(os, "write", lambda fd, data: 0)
    with pytest.raises(WriteFailed, match="EIO"):
        append_durably(fd, b"0123456789", path)
    os.close(fd)


def test_a_short_write_that_can_go_on_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
    fd = create_private(tmp_path / "file")
    append_durably(fd, b"0123456789", tmp_path / "file")
    os.close(fd)
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def interrupted(fd: int, data: memoryview) -> int:
        real(fd, data[:4])
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", interrupted)
    fd = create_private(tmp_path / "file")
    with pytest.raises(KeyboardInterrupt):
        append_durably(fd, b"0123456789", tmp_path / "file")
    os.close(fd)
    assert (tmp_path / "file").read_bytes() == b""


def test_a_failed_sync_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def fail(fd: int) -> None:
        calls.append(fd)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    fd = create_private(tmp_path / "file")
    with pytest.raises(WriteFailed, match=r"EIO.*durability is unknown"):
        append_durably(fd, b"0123456789", tmp_path / "file")
    assert len(calls) == 1
    os.close(fd)


def test_the_drive_itself_is_synced_where_the_system_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    answers = iter([None, errno.ENOTSUP, errno.EIO])

    def full_sync(fd: int, command: int) -> int:
        asked.append(command)
        answer = next(answers)
        if answer is not None:
            raise OSError(answer, os.strerror(answer))
        return 0

    synced: list[int] = []
    monkeypatch.setattr(files, "_FULL_SYNC", 51)
    monkeypatch.setattr(fcntl, "fcntl", full_sync)
    monkeypatch.setattr(os, "fsync", synced.append)
    files.sync(7)
    assert synced == []
    files.sync(7)
    assert synced == [7]
    with pytest.raises(OSError, match="Input/output"):
        files.sync(7)
    assert asked == [51, 51, 51]


def test_a_replaced_file_is_the_old_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "notes"
    replace_atomically(path, b"old")
    replace_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    real_replace = Path.replace
    for name in ("write", "fsync"):
        with monkeypatch.context() as patch:

            def fail(*arguments: object) -> int:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            patch.setattr(os, name, fail)
            with pytest.raises(WriteFailed, match=r"ENOSPC.*the old content stands"):
                replace_atomically(path, b"newer")
    with monkeypatch.context() as patch:

        def interrupt(self: Path, target: Path) -> Path:
            raise KeyboardInterrupt

        patch.setattr(Path, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            replace_atomically(path, b"newer")
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes"]
    assert Path.replace is real_replace

    def fail_directory(path: Path) -> bool:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(files, "fsync_directory", fail_directory)
    with pytest.raises(WriteFailed, match="durability is unknown"):
        replace_atomically(path, b"newer")


def test_a_range_ends_where_the_file_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 20_000)
    fd = open_regular(path)
    assert read_range(fd, 10, 20, path) == bytes(range(10, 20))
    assert read_range(fd, 0, 1 << 40, path) == path.read_bytes()
    assert read_range(fd, 20, 20, path) == b""

    def fail(fd: int, count: int, offset: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(Unreadable, match=re.escape(str(path))):
        read_range(fd, 0, 10, path)

    def exhaust(fd: int, count: int, offset: int) -> bytes:
        raise MemoryError

    monkeypatch.setattr(os, "pread", exhaust)
    with pytest.raises(TooLarge):
        read_range(fd, 0, 10, path)
    os.close(fd)
