"""Reading a run directory: what lies in the way is said, nothing is followed, woken or changed."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.rivumi_cases import BASE, lines, make, workspace, write_lines

from refold.core.errors import NotRegular, RunNotFound, Unreadable
from refold.core.rivumi.findings import findings
from refold.core.rivumi.original import replay_of_original, resume_of_original
from refold.core.rivumi.snapshot import Part, Workspace
from refold.core.rivumi.verdict import verdict
from refold.core.store import files, session_files
from refold.core.store.session_files import read_run, read_workspace
from refold.core.store.session_names import is_run_directory


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make("03-running-clean", tmp_path)


def test_a_run_is_read_whole(run: Path) -> None:
    (run / ".session.json.k2x").write_bytes(b"{")
    (run / "changes.patch").write_bytes(b"")
    (run / "subagents").mkdir()
    snapshot = read_run(run)
    assert snapshot.name == "03-running-clean"
    for part in (snapshot.manifest, snapshot.request, snapshot.events, snapshot.checkpoint):
        data = (run / part.name).read_bytes()
        assert part == Part(part.name, "read", data, len(data))
        assert part.known
    assert snapshot.result.state == "missing"
    assert snapshot.workspace == Workspace("git", BASE)
    assert (snapshot.lock, snapshot.holder, snapshot.link, snapshot.moving) == ("file", "", False, False)
    assert snapshot.litter == (".session.json.k2x",)
    assert snapshot.others == ("subagents",)


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound, match="no run lies"):
        read_run(tmp_path)
    with pytest.raises(RunNotFound):
        read_run(tmp_path / "gone")
    with pytest.raises(RunNotFound):
        read_run(Path("a\0b"))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotRegular):
        read_run(tmp_path / "file")
    assert not is_run_directory(tmp_path / "file")
    assert not is_run_directory(tmp_path)
    assert not is_run_directory(Path("a\0b"))
    (tmp_path / "events.jsonl").write_bytes(b"")
    assert is_run_directory(tmp_path)
    assert read_run(tmp_path).events.state == "read"


@pytest.mark.parametrize("name", ["session.json", "request.json", "events.jsonl"])
@pytest.mark.parametrize(
    "kind", ["pipe", "socket", "directory", "inside", "outside", "nowhere", "loop", "pipe-behind"]
)
def test_what_can_lie_in_place_of_a_file(name: str, kind: str, run: Path, tmp_path: Path) -> None:
    path = run / name
    path.rename(run / "real" if kind == "inside" else tmp_path / "real")
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "socket":
            here = Path.cwd()
            os.chdir(run)
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(name)
            os.chdir(here)
        case "directory":
            path.mkdir()
        case "pipe-behind":
            os.mkfifo(run / "pipe")
            path.symlink_to("pipe")
        case _:
            target = {"inside": "real", "outside": "../real", "nowhere": "gone", "loop": name}[kind]
            path.symlink_to(target)
    snapshot = read_run(run)
    part = {part.name: part for part in (snapshot.manifest, snapshot.request, snapshot.events)}[name]
    assert part.state == ("not_regular" if kind in {"pipe", "socket", "directory"} else "link")
    assert part.known == (kind == "inside")
    if kind in {"pipe", "outside", "pipe-behind", "socket"}:
        assert resume_of_original(snapshot).ok is None
        assert name != "events.jsonl" or replay_of_original(snapshot).ok is None
    elif kind == "inside":
        assert resume_of_original(snapshot).ok
    else:
        assert resume_of_original(snapshot).ok is False
    assert verdict(snapshot).outcome == "refuse"
    assert "E_NOT_REGULAR" in {finding.code for finding in findings(snapshot)}


def test_a_link_to_the_directory_is_followed_and_noted(run: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run)
    snapshot = read_run(tmp_path / "link")
    assert (snapshot.link, snapshot.name) == (True, run.name)
    assert is_run_directory(tmp_path / "link")


def test_a_log_over_the_limit_is_not_read(run: Path) -> None:
    size = (run / "events.jsonl").stat().st_size
    part = read_run(run, events_limit=size - 1).events
    assert (part.state, part.data, part.size) == ("too_large", b"", size)
    assert read_run(run, events_limit=size).events.state == "read"
    assert resume_of_original(read_run(run, events_limit=size - 1)).code == "events_too_large"


def test_a_file_that_grows_while_it_is_read(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_files, "read_range", lambda fd, start, end, path: b"x" * end)
    assert read_run(run, events_limit=5000).events.detail == "more than 5.0 KB"


def test_a_file_that_vanishes_or_fails_while_it_is_read(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.open_regular

    def gone(path: Path) -> int:
        if path.name == "request.json":
            raise RunNotFound("gone")
        if path.name == "checkpoint.json":
            raise Unreadable(f"{path}: Input/output error")
        return real(path)

    monkeypatch.setattr(session_files, "open_regular", gone)
    snapshot = read_run(run)
    assert snapshot.request.state == "missing"
    assert (snapshot.checkpoint.state, snapshot.checkpoint.detail) == ("unreadable", "Input/output error")


def test_manifest_and_log_are_of_one_moment(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = session_files.part_of
    writes = iter(range(3))

    def part(directory: Path, name: str, limit: int) -> Part:
        made = real(directory, name, limit)
        if name == "session.json" and next(writes, None) is not None:
            (run / name).write_bytes((run / name).read_bytes() + b" ")
        return made

    monkeypatch.setattr(session_files, "part_of", part)
    snapshot = read_run(run)
    assert not snapshot.moving
    assert snapshot.manifest.data.endswith(b"}   ")
    writes = iter(range(99))
    assert read_run(run).moving


def test_a_holder_is_named(run: Path) -> None:
    lock = run / ".writer.lock"
    lock.write_bytes(b"pid=1 token=0\n")
    assert read_run(run).holder == ""
    with lock.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if sys.platform == "linux":
            assert read_run(run).holder == f"process {os.getpid()}"
            assert verdict(read_run(run)).original.code == "busy"
    lock.unlink()
    lock.mkdir()
    assert read_run(run).lock == "other"


def test_no_permission_is_said(run: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from refold.core.store.session_files import read_run
os.chdir(Path(sys.argv[1]))
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
snapshot = read_run(Path(sys.argv[2]), who=lambda path: "")
print(snapshot.request.state, snapshot.events.state, snapshot.workspace.state)
"""

    def answer() -> str:
        done = subprocess.run(
            [sys.executable, "-c", code, run.parent, run.name], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    run.parent.chmod(0o755)
    run.chmod(0o755)
    for path in run.iterdir():
        path.chmod(0o755)
    (run / "request.json").chmod(0)
    assert answer() == "not_permitted read git"
    (run / "workspace").chmod(0)
    assert answer() == "not_permitted read unknown"
    run.chmod(0o744)
    assert answer() == "not_permitted not_permitted not_directory"
    run.chmod(0o755)
    (run / "workspace").chmod(0o755)


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (f"{BASE}\n", BASE),
        ("ref: refs/heads/main\n", BASE),
        ("ref: refs/heads/packed\n", "1" * 40),
        ("ref: refs/heads/unborn\n", ""),
        ("ref: refs/heads/odd\n", ""),
        ("ref: refs/../HEAD\n", ""),
        ("ref: /etc/passwd\n", ""),
        ("nonsense\n", ""),
        ("", ""),
    ],
)
def test_what_head_names(head: str, found: str, tmp_path: Path) -> None:
    workspace(tmp_path, head.strip() or "x")
    git = tmp_path / "workspace" / ".git"
    (git / "HEAD").write_text(head)
    (git / "refs" / "heads" / "main").write_text(BASE + "\n")
    (git / "refs" / "heads" / "odd").write_text("ref: refs/heads/main\n")
    (git / "packed-refs").write_text(f"# pack-refs with: peeled\n{'1' * 40} refs/heads/packed\n^{'2' * 40}\n")
    assert read_workspace(tmp_path / "workspace") == Workspace("git", found)
    (git / "packed-refs").unlink()
    if "unborn" in head:
        assert read_workspace(tmp_path / "workspace") == Workspace("git", "")


def test_what_is_no_clone(tmp_path: Path) -> None:
    place = tmp_path / "workspace"
    assert read_workspace(place) == Workspace("missing")
    place.write_bytes(b"")
    assert read_workspace(place) == Workspace("not_directory")
    place.unlink()
    workspace(tmp_path)
    git = place / ".git"
    (git / "HEAD").rename(git / "old")
    (git / "HEAD").symlink_to("old")
    assert read_workspace(place).state == "no_git"
    (git / "refs").rename(git / "gone")
    assert read_workspace(place) == Workspace("no_git", detail="the parts of .git are missing")
    git.rename(place / "elsewhere")
    assert read_workspace(place) == Workspace("no_git")
    git.write_text("gitdir: elsewhere\n")
    assert read_workspace(place).state == "unknown"
    (tmp_path / "link").symlink_to(place)
    assert read_workspace(tmp_path / "link") == Workspace("link")


def test_a_big_log_is_read_and_said_to_be_big(run: Path) -> None:
    rows = lines(run)
    long = rows[-1].replace(b'"step":2', b'"step":2,"blob":"' + b"y" * 10_000_000 + b'"')
    write_lines(run, [*rows[:-1], long, long.replace(b'"sequence":9', b'"sequence":10')])
    snapshot = read_run(run)
    assert resume_of_original(snapshot).code == "events_too_large"
    found = {finding.code for finding in findings(snapshot)}
    assert "E_OVERSIZE" in found
