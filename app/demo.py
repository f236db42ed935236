"""`refold demo`: runs in every state, in a scratch directory, and the screen on them."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from refold.app import demo_rivumi
from refold.app.agents import PROGRAM
from refold.app.cli_print import Printer
from refold.app.demo_agent import FACTORY
from refold.app.demo_runs import FOREIGN, KILLED, STORIES, WITH_AGENT
from refold.app.demo_story import age
from refold.app.safe import line
from refold.app.settings import Settings
from refold.app.shell_name import DEMO
from refold.core.errors import RefoldError
from refold.core.store.journal import JournalStore
from refold.core.store.notes import NotesStore
from refold.core.store.roots import Root

_PATIENCE = 20.0


class DemoFailed(RefoldError):
    """The demo could not be set up."""


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Make the runs and show them; the scratch directory goes away again, one that was named stays."""
    from refold.app.cli_screen import can_show, show

    wanted: Path | None = arguments.dir
    keep = wanted is not None or arguments.no_screen
    directory = _directory(wanted)
    if arguments.no_screen:
        make(directory, datetime.now(UTC))
        with growing(directory):
            pass
        printer.raw(line(str(directory)) + "\n")
        printer.note(f"refold: to look at them: {_opening(directory)}")
        return 0
    until = "to be kept" if keep else "until you leave"
    printer.raw(f"The demo makes its runs in {line(str(directory))}, {until}.\n")
    printer.flush()
    make(directory, datetime.now(UTC))
    shown = msgspec.structs.replace(
        settings,
        roots=roots(directory),
        conversations=(conversations(directory),),
        cache_dir=directory / "cache",
        state_dir=directory / "refold",
    )
    with growing(directory, scratch=not keep):
        if can_show(settings):
            code = show(shown)
        else:
            from refold.app.cli_ls import run as list_runs

            code = list_runs(argparse.Namespace(filter=[], json=False), shown, printer)
    for row in _what_is_left(directory, keep=keep):
        printer.note(f"refold: {row}")
    return code


def _what_is_left(directory: Path, *, keep: bool) -> Iterator[str]:
    """Say at the end where the runs are, or that they are gone, and how to look at them again."""
    if keep:
        yield f"the runs of the demo stay in {directory}"
        yield f"to open them again: {_opening(directory)}"
        yield f"to be rid of them: rm -r {shlex.quote(str(directory))}"
        return
    if directory.exists():
        yield f"{directory} could not be removed whole: to be rid of it, rm -r {shlex.quote(str(directory))}"
    else:
        yield f"{directory} was removed, with every run of the demo and all that was done to them"
    yield f"for new ones: {_program()} demo; to keep them: {_program()} demo --dir DIR"


def _opening(directory: Path) -> str:
    """Give the command that shows the runs of a directory that is kept, as it can be typed."""
    return f"XDG_STATE_HOME={shlex.quote(str(directory))} {_program()}"


def _program() -> str:
    """Give this program as it can be typed here: where it is not on PATH, as it was started."""
    started = sys.argv[0]
    found = shutil.which(PROGRAM) is not None or Path(started).name != PROGRAM
    return PROGRAM if found else shlex.quote(started)


def roots(directory: Path) -> tuple[Root, ...]:
    """The directories of runs under a state directory, as `XDG_STATE_HOME` would give them."""
    return (
        Root(directory / "refold" / "runs", "refold", DEMO),
        Root(directory / "fisk-ai" / "runs", "fisk-ai", DEMO),
        Root(directory / "rivumi" / "runs", "rivumi", DEMO),
    )


def conversations(directory: Path) -> Root:
    """The directory of conversations under a state directory."""
    return Root(directory / "rivumi" / "conversations", "rivumi", DEMO)


def make(directory: Path, now: datetime) -> None:
    """Write every run of the demo but the growing one, each as old as it says, seen from a moment."""
    native, foreign, rivumi = (root.path for root in roots(directory))
    work = directory / "work"
    _die_writing(native, now, work)
    for story in STORIES:
        story(native, now)
    notes = NotesStore(directory / "refold" / "notes")
    for run_id in WITH_AGENT:
        notes.update(
            JournalStore(native).path_of(run_id),
            lambda known: msgspec.structs.replace(known, agent=FACTORY, cwd=str(work)),
        )
    for story in FOREIGN:
        story(foreign, now)
    demo_rivumi.make(rivumi, conversations(directory).path, directory / "calc", now)


@contextmanager
def growing(directory: Path, *, scratch: bool = False) -> Iterator[None]:
    """Let a child write the growing run while the block runs; then it is suspended.

    With `scratch` the directory is removed at the end; the child sees to it even if this process is killed.
    """
    store = roots(directory)[0].path
    with _writer("live", store, *([directory] if scratch else [])) as child:
        _first_line(child)
        try:
            yield
        finally:
            _let_go(child)
            if scratch:
                shutil.rmtree(directory, ignore_errors=True)


def _die_writing(store: Path, now: datetime, work: Path) -> None:
    """Let a child work on files, and kill it in the middle of a call: nothing is closed, the lock ends."""
    with _writer("killed", store, now.isoformat(), work) as child:
        moment = datetime.fromisoformat(_first_line(child))
        child.kill()
    age(JournalStore(store).path_of(KILLED), moment)


def _writer(*arguments: object) -> subprocess.Popen[str]:
    """Start a writing process in a session of its own: keys pressed in the terminal are not meant for it."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "refold.app.demo_writer", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def _first_line(child: subprocess.Popen[str]) -> str:
    said = child.stdout.readline().strip() if child.stdout is not None else ""
    if not said:
        child.kill()
        raise DemoFailed(
            "the demo's writer did not start", remedy="is there room in the directory of the demo?"
        )
    return said


def _let_go(child: subprocess.Popen[str]) -> None:
    if child.stdin is not None:
        child.stdin.close()
    try:
        child.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()


def _directory(wanted: Path | None) -> Path:
    if wanted is None:
        return Path(tempfile.mkdtemp(prefix="refold-demo-"))
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        if any(wanted.iterdir()):
            made = roots(wanted.absolute())[0].path.is_dir()
            there = f"to look at the runs in it: {_opening(wanted.absolute())}" if made else ""
            raise DemoFailed(f"{wanted}: not empty", remedy=there or "name a new or empty directory")
    except OSError as error:
        raise DemoFailed(f"{wanted}: {error.strerror}") from error
    return wanted.absolute()
