"""Looking changes nothing: no byte, no mode, no time, no new file, no lock, whatever is looked at."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests import generate
from tests.conversation_story import chat
from tests.damage import KINDS, damage
from tests.rivumi_cases import CASES, apply, make
from tests.terminal.program import environment, refold, run
from tests.terminal.terminal import Terminal


class Entry(NamedTuple):
    """All that a reader could change about one name in a tree."""

    mode: int
    inode: int
    links: int
    owner: tuple[int, int]
    size: int
    modified_ns: int
    changed_ns: int
    content: str


def picture(tree: Path) -> dict[str, Entry]:
    """Give everything about every name under a directory, the directory included."""
    entries = {}
    for path in [tree, *sorted(tree.rglob("*"))]:
        status = path.lstat()
        content = ""
        if path.is_symlink():
            content = os.readlink(path)  # noqa: PTH115 - the name as it stands
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        entries[str(path.relative_to(tree))] = Entry(
            status.st_mode, status.st_ino, status.st_nlink, (status.st_uid, status.st_gid), status.st_size,
            status.st_mtime_ns, status.st_ctime_ns, content,
        )  # fmt: skip
    return entries


@pytest.fixture
def tree(tmp_path: Path, journals: Path) -> Path:
    """A store as it looks in life: good runs of every style, damaged ones, locks, links, other files."""
    store = tmp_path / "runs"
    store.mkdir(mode=0o700)
    for number, style in enumerate(generate.STYLES):
        for ending in generate.ENDINGS:
            lines = generate.journal(records=14, style=style, ending=ending, seed=number)
            generate.write(store / f"{style}-{ending}.json", lines)
    good = b"".join(generate.journal(records=12))
    for kind in KINDS:
        (store / f"bad-{kind}.json").write_bytes(damage(kind, 1, good))
    for path in sorted((journals / "v3").glob("c*.json")):
        shutil.copy(path, store / f"fixture-{path.name}")
    (store / "native-completed.lock").touch(mode=0o600)
    (store / "native-completed.5.torn").write_bytes(b"{")
    (store / "notes.txt").write_text("not a run")
    (store / "link.json").symlink_to("native-completed.json")
    (store / "nowhere.json").symlink_to("missing")
    (store / "directory.json").mkdir()
    os.mkfifo(store / "pipe.json")
    for path in store.iterdir():
        os.utime(path, ns=(10**18, 10**18 + 123_456_789), follow_symlinks=False)
    os.utime(store, ns=(10**18, 10**18 + 5))
    return store


@pytest.fixture
def home(tmp_path: Path) -> Path:
    directory = tmp_path / "home"
    directory.mkdir()
    return directory


@pytest.fixture
def unchanged(tree: Path) -> Iterator[Path]:
    before = picture(tree)
    yield tree
    assert picture(tree) == before


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every recorded run of Rivumi, what can go wrong with one, nested runs, and conversations."""
    tmp_path = tmp_path_factory.mktemp("directories")
    state = tmp_path / "rivumi-state"
    store = state / "runs"
    for case in CASES:
        make(case, store)
    for edge in ("session_json_symlink", "writer_lock_symlink", "empty_events_manifest_0"):
        apply(edge, make("03-running-clean", tmp_path / edge))
        (tmp_path / edge / "03-running-clean").rename(store / edge)
    shutil.copytree(store / "03-running-clean", store / "12-terminal-completed" / "subagents" / "scout1")
    (store / "03-running-clean" / ".session.json.x1").write_bytes(b"{")
    (store / "claimed").mkdir()
    (store / "claimed" / ".writer.lock").write_bytes(b"pid=1 token=0\n")
    (store / "torn").mkdir()
    (store / "torn" / "session.json").write_bytes(b'{"phase":')
    (store / "link").symlink_to("03-running-clean")
    os.mkfifo(store / "torn" / "events.jsonl")
    turns = (("One", "First.", "completed"), ("Two", "", "failed"), ("Three", "Half", ""))
    chat(state / "conversations", *turns[:2])
    chat(state / "conversations", *turns, name="1b" * 16)
    chat(state / "conversations", *turns[:2], name="2c" * 16, turn_count=9)
    for path in state.rglob("*"):
        os.utime(path, ns=(10**18, 10**18 + 123_456_789), follow_symlinks=False)
    return state


DIRECTORY_COMMANDS: list[list[str]] = [
    ["ls"],
    ["ls", "--json", "--no-cache", "text:calc"],
    ["state", "--json", *CASES[:8], "scout1"],
    ["state", "--salvage", "24-invalid-json-interior"],
    *[["replay", case, "--json"] for case in ("04-tail-tool-started", "22-torn-tail", "37-external-cli-run")],
    ["replay", "12-terminal-completed", "--canonical"],
    ["show", "04-tail-tool-started"],
    *[["why", case, "--json"] for case in ("04-tail-tool-started", "22-torn-tail", "scout1")],
    ["verify", "--json", "22-torn-tail", "torn", "34-forked-run", "37-external-cli-run"],
    ["lineage", "34-forked-run"],
    ["diff", "04-tail-tool-started", "12-terminal-completed"],
    ["resume", "04-tail-tool-started", "--plan"],
    ["resume", "--json"],
    ["history"],
    ["history", "--json"],
    ["history", "1b", "--json"],
    ["history", "0a", "--fork-before", "2", "--plan"],
]


@pytest.mark.parametrize("command", DIRECTORY_COMMANDS, ids=lambda command: " ".join(command[:3]))
def test_a_command_changes_nothing_in_run_directories(
    directories: Path, home: Path, command: list[str]
) -> None:
    before = picture(directories)
    runs, conversations = directories / "runs", directories / "conversations"
    done = run(*command, "--only", "--root", runs, "--root", conversations, home=home)

    assert done.returncode in {0, 1}, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert done.stdout or done.stderr
    assert picture(directories) == before


def test_the_screens_change_nothing_in_run_directories(directories: Path, home: Path) -> None:
    before = picture(directories)
    where = ("--only", "--root", directories / "runs", "--root", directories / "conversations")
    with Terminal(refold(*where), env=environment(home)) as terminal:
        terminal.wait("watching", limit=30)
        terminal.press("down", "down", "s", "S", "end", "home", settle=0.3)
        terminal.press("/", *"text:calc", "enter", settle=0.05)
        terminal.press("r", settle=0.4)
        terminal.press("escape", "enter", "2", "3", "4", "5", "end", "escape", settle=0.1)
        assert terminal.quit() == 0
    with Terminal(refold("history", *where), env=environment(home)) as terminal:
        terminal.wait("3 conversations", limit=30)
        terminal.press("down", "down", "up", *"one", "enter", settle=0.1)
        terminal.press("up", "f", settle=0.3)
        terminal.press("escape", "escape", settle=0.2)
        assert terminal.quit() == 0
    assert picture(directories) == before


def test_the_picture_sees_a_change(tree: Path) -> None:
    before = picture(tree)
    path = tree / "native-completed.json"
    with path.open("rb+") as file:
        file.write(b"{")
    os.utime(path, ns=(10**18, 10**18 + 123_456_789))

    assert picture(tree) != before


COMMANDS: list[list[str]] = [
    ["ls"],
    ["ls", "--json"],
    ["ls", "--json", "--no-cache", "text:ledger"],
    ["show", "native-completed"],
    ["show", "--json", "fisk-ai-v3-in-flight@3"],
    ["state", "--json", "native-completed", "fisk-ai-v2-crashed", "bad-torn", "bad-glued", "bad-newer"],
    ["state", "--salvage", "bad-garbage-line"],
    ["diff", "native-completed", "bad-glued"],
    ["doctor"],
    ["doctor", "--json"],
    ["diff", "--json", "fisk-ai-v2-crashed", "fisk-ai-v3-in-flight@3"],
    ["verify", "--json", *(f"bad-{kind}" for kind in KINDS)],
    *[["why", f"bad-{kind}"] for kind in ("torn", "nul-hole", "two-writers")],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:3]))
def test_a_command_changes_nothing(unchanged: Path, home: Path, command: list[str]) -> None:
    done = run(*command, "--only", "--root", unchanged, home=home)

    assert done.returncode in {0, 1}, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert done.stdout


def walk(terminal: Terminal) -> None:
    """Do on the screen what a person does who only looks."""
    terminal.wait("1 directory", limit=30)
    terminal.press("down", "down", "s", "S", "end", "home")
    terminal.press("/", *"completed", "enter", settle=0.03)
    terminal.press("enter", settle=0.2)
    terminal.press("2", "3", "4", "5", "1", "right", "]", "}", "end", "home", "t")
    terminal.press("/", *"ledger", "enter", "n", "N", settle=0.03)
    terminal.press(":", "3", "enter", "?", "escape")
    terminal.press("d", settle=0.3)
    terminal.press("down", "end", "home", "escape")
    terminal.press("escape", "escape", "escape", settle=0.1)


def test_the_screen_changes_nothing(unchanged: Path, home: Path) -> None:
    with Terminal(refold("--only", "--root", unchanged), env=environment(home)) as terminal:
        walk(terminal)

        assert terminal.quit() == 0


def test_read_only_writes_nothing_at_all_not_even_the_cache(unchanged: Path, home: Path) -> None:
    where = ("--only", "--root", unchanged)
    run("search", "ledger", "--index", *where, home=home)
    run("ls", *where, home=home)
    cached = [path for path in home.rglob("*") if path.is_file()]
    assert {path.name for path in cached} >= {"list.cache", "search-2.db"}
    before = picture(home)
    for command in (["ls", "text:ledger"], ["search", "ledger"], ["doctor"], ["show", "native-completed"]):
        assert run("--read-only", *command, *where, home=home).stdout
    with Terminal(refold("--read-only", *where), env=environment(home)) as terminal:
        walk(terminal)
        terminal.press("escape", "escape", settle=0.3)
        terminal.wait("1 directory", limit=30)
        terminal.press("\x06", *"ledger", settle=0.1)
        terminal.wait("no index: the cache is off", limit=30)
        terminal.press("escape", "escape", settle=0.1)
        assert terminal.quit() == 0
    assert picture(home) == before


def test_each_damaged_run_opens_and_changes_nothing(unchanged: Path, home: Path) -> None:
    for kind in ("torn", "glued", "nul-hole", "deep-unclosed", "foreign", "half-meta", "empty"):
        path = unchanged / f"bad-{kind}.json"
        with Terminal(refold("open", path), env=environment(home)) as terminal:
            terminal.wait(f"bad-{kind}")
            terminal.press("end", "2", "4", "5", settle=0.03)

            assert terminal.quit() == 0


TRACED = (
    "open,openat,creat,flock,fcntl,unlink,unlinkat,rename,renameat,renameat2,link,linkat,symlinkat,mkdir,mkdirat,"
    "truncate,ftruncate,chmod,fchmod,fchmodat,utimensat,write,pwrite64,writev,fsync"
)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize(
    "command", [["ls", "--json"], ["verify", "native-completed", "bad-torn"], []], ids=str
)
def test_the_system_sees_no_write_and_no_lock(
    tree: Path, home: Path, tmp_path: Path, command: list[str]
) -> None:
    log = tmp_path / "calls"
    traced = ["strace", "-f", "-y", "-qq", "-o", str(log), "-e", f"trace={TRACED}"]
    whole = [*traced, *refold(*command, "--only", "--root", tree)]
    if command:
        subprocess.run(whole, env=environment(home), check=False, capture_output=True, timeout=120)
    else:
        with Terminal(whole, env=environment(home)) as terminal:
            walk(terminal)
            terminal.press("q")
            terminal.ended()
    calls = [line for line in log.read_text("utf-8", "replace").split("\n") if str(tree) in line]

    assert len(calls) >= 2, "strace saw nobody read the runs"
    assert [line for line in calls if writes(line)] == []


def writes(call: str) -> bool:
    """Say whether one traced call could change a file or take a lock; a cut one is told by its first half."""
    if " resumed>" in call:
        return False
    if re.search(r"\bopen(at)?\(", call):
        return re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE", call) is not None
    if re.search(r"\bfcntl\(", call):
        return re.search(r"F_(OFD_)?SETLK|F_SETLEASE", call) is not None
    return True


def test_traced_calls_are_told_apart() -> None:
    assert writes('12 openat(AT_FDCWD</x>, "/runs/a.json", O_RDWR|O_CLOEXEC) = 3')
    assert writes('12 unlink("/runs/a.json") = 0')
    assert writes("12 flock(3</runs/a.lock>, LOCK_SH|LOCK_NB) = 0")
    assert not writes('12 openat(AT_FDCWD</x>, "/runs/a.json", O_RDONLY|O_NOFOLLOW|O_CLOEXEC) = 3')
    assert not writes("12 <... openat resumed>) = 9</runs/a.json>")
    assert writes('12 openat(AT_FDCWD</x>, "/runs/a.json", O_WRONLY <unfinished ...>')
    assert not writes("12 fcntl(3</runs/a.json>, F_GETFL) = 0x8000")


TAKES = """
import fcntl, os, sys
tries = failures = 0
while os.getppid() == int(sys.argv[2]) and tries < 200_000:
    fd = os.open(sys.argv[1], os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        failures += 1
    os.close(fd)
    tries += 1
    if sys.stdin in __import__("select").select([sys.stdin], [], [], 0)[0]:
        break
print(tries, failures)
"""


def test_a_writer_never_finds_its_lock_taken_by_a_reader(tree: Path, home: Path) -> None:
    lock = tree / "native-completed.lock"
    writer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(TAKES), lock, str(os.getpid())],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    for _ in range(3):
        run("ls", "--json", "--only", "--root", tree, home=home)
        run("verify", "native-completed", "--only", "--root", tree, home=home)
    told, _ = writer.communicate(b"stop\n")
    tries, failures = map(int, told.split())

    assert tries > 1000
    assert failures == 0


def test_a_held_lock_is_seen_and_respected(tree: Path, home: Path) -> None:
    with (tree / "native-crashed.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        before = picture(tree)
        done = run("ls", "--json", "--only", "--root", tree, "status:running", home=home)

        assert b'"id":"native-crashed"' in done.stdout
        assert picture(tree) == before
