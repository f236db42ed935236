"""Which program goes on with a run: its argument lists, where it is started, and what it says it is today.

Argument lists come from the user's own configuration or from here, never from a run. A placeholder is
replaced inside one argument; nothing passes through a shell (design/safety.md 3.2, 6).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from refold.app.shell_name import shell_name
from refold.core.decisions import names_itself
from refold.core.errors import Refused
from refold.core.records import Fingerprint, Json
from refold.core.resume import UNNAMED, Effect, PlannedCall, ResumeRequest
from refold.core.store.notes import Notes
from refold.core.store.run_id import is_run_id, is_segment

if TYPE_CHECKING:
    from refold.app.settings import Settings
    from refold.core.rivumi.manifest import Manifest, Request

NATIVE: Final = "refold"
PROGRAM: Final = "refold"
"""Stands for this very program at the head of an argument list."""
HERE: Final = "here"
BESIDE: Final = "run"
PLACEHOLDERS: Final = ("id", "path", "directory", "config", "agent")
"""What may stand in braces in an argument: the run's id, its journal, where that lies, and what was named."""
_AS_IT_IS: Final = ResumeRequest()
_PLACEHOLDER = re.compile(rf"\{{({'|'.join(PLACEHOLDERS)})\}}")
_LONGEST_ANSWER = 1 << 20
_SAID = 500


class NoAgent(Refused):
    """Nothing that could go on with the run is known, or it cannot be started."""


class AgentEntry(msgspec.Struct, frozen=True):
    """One agent as the configuration or this file describes it."""

    name: str
    format: str = ""
    """The format of its runs; empty for a native agent's."""
    directory: str = ""
    """Only for runs that lie in this directory; empty for any."""
    agent: str = ""
    """The factory of a native agent: package.module:name."""
    resume: tuple[str, ...] = ()
    force: tuple[str, ...] = ()
    """Resumes past a changed fingerprint; empty where the agent knows no such thing."""
    fork: tuple[str, ...] = ()
    """Goes on with a fork; as a resume does where empty."""
    cwd: str = HERE
    """`here`: where Refold runs; `run`: where the journal lies; else a directory."""
    config: str = ""
    """What `{config}` stands for, where the notes on a run know nothing else."""
    fingerprint: tuple[str, ...] = ()
    """Prints what the agent would run with now, as JSON; empty where nothing does."""
    effects: Mapping[str, Effect] = {}
    """What its tools do, as far as the user knows."""


_OF_DIRECTORIES: Final = ("rivumi", "looplane")
"""Formats whose runs are directories, in the order in which their programs are tried."""
_FISK_AI = ("fisk-ai", "run", "--resume", "{id}", "--state-dir", "{directory}", "--config", "{config}")

BUILT_IN: Final = (
    AgentEntry("refold", NATIVE),
    AgentEntry("fisk-ai", "fisk-ai", resume=_FISK_AI, force=(*_FISK_AI, "--force")),
    AgentEntry("rivumi", "rivumi", resume=("rivumi", "resume", "{id}", "--run-root", "{directory}")),
    AgentEntry("looplane", "looplane", resume=("looplane", "resume", "{id}", "--run-root", "{directory}")),
)
"""What is known without any configuration; an entry of the same name there replaces what it says."""


class Description(msgspec.Struct, frozen=True):
    """What an agent says it is."""

    fingerprint: Fingerprint | None = None
    effects: Mapping[str, Effect] = {}


class RunAgent:
    """The agent of one run."""

    def __init__(
        self,
        entry: AgentEntry,
        run: Path,
        notes: Notes,
        *,
        factory: str = "",
        config: str = "",
        why: str = "",
        called: str = "",
    ) -> None:
        """Join what is known.

        Args:
            entry: the agent.
            run: the journal.
            notes: what is noted about the run.
            factory: what the user names now; wins over notes and configuration.
            config: likewise.
            why: what a person should know about how the agent was found.
            called: what a command that is pasted elsewhere takes for the run; its path where left out.
        """
        self.entry = entry
        self.why = why
        self.run = run.absolute()
        self.called = called or str(self.run)
        self._is_fork = notes.forked_from is not None
        self.native = entry.format in ("", NATIVE)
        self.of_directory = entry.format in _OF_DIRECTORIES
        self.run_id = self.run.name if self.of_directory else self.run.stem
        self.factory = factory or notes.agent or entry.agent
        self.config = config or notes.config or entry.config
        self.directory = _directory(entry, self.run, "" if factory else notes.cwd)
        """Where it is started."""
        self.workplace = _workplace(entry, run, notes.cwd)
        """Where relative paths of its calls begin; empty where nothing that was written down says."""

    @property
    def _may_be_named(self) -> bool:
        """Say whether its id can be given to a program: as an id, and as nothing else."""
        if self.of_directory:
            return is_segment(self.run_id) and not self.run_id.startswith("-")
        return is_run_id(self.run_id)

    @property
    def in_screen(self) -> bool:
        """True where it can be watched here instead of taking the terminal."""
        return self.native

    @property
    def asks_config(self) -> bool:
        """True where it is started with a configuration of its own that nobody has named yet."""
        return not self.config and any("{config}" in word for word in self._words(_AS_IT_IS))

    def command(
        self,
        request: ResumeRequest = _AS_IT_IS,
        *,
        expected: int | None = None,
        calls: Sequence[PlannedCall] = (),
    ) -> tuple[str, ...]:
        """Give the arguments that resume the run as asked; empty where there are none.

        Args:
            request: what is asked for.
            expected: the last sequence that a plan was shown for; a native run must still end there.
            calls: those of the open turn: one whose id would be read as something else goes by its number.
        """
        if not self._may_be_named:
            return ()
        if not self.native:
            return self._filled(self._words(request))
        if not self.factory:
            return ()
        words = [PROGRAM, "resume", str(self.run), "--agent", self.factory, *asked_for(request, calls)]
        if expected is not None:
            words += ["--expect", str(expected)]
        return tuple(words)

    def _words(self, request: ResumeRequest) -> tuple[str, ...]:
        """Give the argument list of another tool: past a fingerprint, for a fork, or for any run."""
        if request.force:
            return self.entry.force
        return self.entry.fork if self._is_fork and self.entry.fork else self.entry.resume

    def problem(self) -> str:
        """Say why it cannot be started; empty where it can."""
        if not self._may_be_named:
            return f"{self.run_id!a} is no run id: no program is started with it"
        if self.native and not self.factory:
            return UNNAMED
        if not self.native and not self.entry.resume:
            where = f"[agents.{self.entry.name}]"
            return f"how {self.entry.name} resumes a run is not known: say it in the configuration, {where}"
        return "" if self.native else problem_of(self.entry.resume[0], self.directory)

    def describe(self, *, seconds: float = 30) -> Description:
        """Ask the agent in a process of its own what it would run with now.

        Raises:
            NoAgent: it cannot be asked, or gives no answer.
        """
        if self.native:
            if not self.factory:
                raise NoAgent(self.problem())
            command: tuple[str, ...] = (sys.executable, "-m", "refold.app.describe", self.factory)
        else:
            command = self._filled(self.entry.fingerprint)
        if not command:
            return Description(effects=self.entry.effects)
        said = _answer(command, self.directory, seconds)
        return Description(said.fingerprint, {**said.effects, **self.entry.effects})

    def _filled(self, words: Sequence[str]) -> tuple[str, ...]:
        known = {
            "id": self.run_id,
            "path": str(self.run),
            "directory": str(self.run.parent),
            "config": self.config,
            "agent": self.factory,
        }
        filled: list[str] = []
        for word in words:
            if "{config}" in word and not self.config:
                # The option that would be left without its value goes too.
                if filled and filled[-1].startswith("-") and word == "{config}":
                    filled.pop()
                continue
            filled.append(_PLACEHOLDER.sub(lambda found: known[found[1]], word))
        return tuple(filled)


def asked_for(request: ResumeRequest, calls: Sequence[PlannedCall] = ()) -> list[str]:
    """Give the options that ask for a resume so.

    Args:
        request: what is asked for.
        calls: those of the open turn: one whose id would be read as something else goes by its number.
    """
    words: list[str] = []
    if request.force:
        words += ["--force", f"--reason={request.reason}"]
    numbers = {call.id: f"#{n}" for n, call in enumerate(calls, 1) if not names_itself(call.id)}
    for call_id, decision in request.decisions.items():
        call = numbers.get(call_id, call_id)
        text = f":{decision.text}" if decision.text else ""
        # In one word: the id is the model's own, and may look like an option.
        words.append(f"--decide={call}={decision.choice}{text}")
    if request.repair:
        words.append("--repair")
    return words


def agent_of(
    run: Path, format_name: str, settings: Settings, notes: Notes, *, factory: str = "", config: str = ""
) -> RunAgent:
    """Give the agent that goes on with a run: the configured one of its directory, of its format, or ours.

    Args:
        run: the journal.
        format_name: the word of its format.
        settings: knows the configured agents.
        notes: what is noted about the run.
        factory: what the user names now; wins over notes and configuration.
        config: likewise.
    """
    entry = _entry(run, format_name, settings.agents)
    return RunAgent(
        entry, run, notes, factory=factory, config=config, called=shell_name(run.absolute(), settings)
    )


def session_agent(
    run: Path,
    repository: str,
    settings: Settings,
    notes: Notes,
    *,
    manifest: Manifest | None = None,
    request: Request | None = None,
) -> RunAgent:
    """Give the program that goes on with a run directory, started in the repository of its task.

    Which one says the configuration, then what is recorded (`app.session_program`); of several that can it is
    the first that is installed.

    Args:
        run: the directory.
        repository: where its program is started, if it is there.
        settings: knows the configured agents, and the directories of runs.
        notes: what is noted about the run.
        manifest: what the run claims.
        request: what it was asked to do.
    """
    from refold.app.session_program import programs_of

    known = [entry for entry in known_agents(settings.agents) if entry.format in _OF_DIRECTORIES]
    beside = os.path.realpath(run.absolute().parent)
    named = [entry for entry in known if entry.directory and os.path.realpath(entry.directory) == beside]
    programs = programs_of(run, manifest, request, settings.roots)
    general = [
        entry for name in programs.names for entry in known if entry.format == name and not entry.directory
    ]
    installed = [entry for entry in general if entry.resume and shutil.which(entry.resume[0]) is not None]
    entry = (named or installed or general)[0]
    why = programs.why if entry.format == programs.names[0] else programs.instead or programs.why
    why = "" if named else why
    cwd = entry.cwd
    if cwd == HERE and (os.path.isdir(repository) or not repository):  # noqa: PTH112 - text of a run
        cwd = repository
    elif cwd == HERE:
        # A resume works in the clone of the run and needs no repository (formats/rivumi.md 5).
        cwd = str(run.absolute().parent)
        gone = f"its repository {repository} is not there: the program starts in {cwd}"
        why = f"{why}; {gone}" if why else gone
    called = shell_name(run.absolute(), settings)
    return RunAgent(msgspec.structs.replace(entry, cwd=cwd), run, notes, why=why, called=called)


def known_agents(configured: Sequence[AgentEntry]) -> tuple[AgentEntry, ...]:
    """Give all agents, those of the configuration first, each with what is known of it without that."""
    own = {entry.name: entry for entry in BUILT_IN}
    entries = [merged(entry, own.get(entry.name) or own.get(entry.format)) for entry in configured]
    named = {entry.name for entry in entries}
    return (*entries, *(entry for entry in BUILT_IN if entry.name not in named))


def agent_json(entry: AgentEntry) -> dict[str, Json]:
    """Give an agent as `refold config --json` prints it."""
    values: dict[str, Json] = msgspec.to_builtins(entry)
    return {**values, "format": entry.format or NATIVE}


def _entry(run: Path, format_name: str, configured: Sequence[AgentEntry]) -> AgentEntry:
    fitting = [entry for entry in known_agents(configured) if (entry.format or NATIVE) == format_name]
    beside = os.path.realpath(run.parent)
    for entry in fitting:
        if entry.directory and os.path.realpath(entry.directory) == beside:
            return entry
    general = [entry for entry in fitting if not entry.directory]
    return next(iter(general), AgentEntry(format_name, format_name))


def merged(entry: AgentEntry, built_in: AgentEntry | None) -> AgentEntry:
    """Give what an entry of the configuration says, and what ours says where it is silent."""
    if built_in is None:
        return entry
    silent = AgentEntry(entry.name)
    said = {
        field: getattr(entry, field)
        for field in AgentEntry.__struct_fields__
        if getattr(entry, field) != getattr(silent, field)
    }
    if "resume" in said and "force" not in said:
        # Ours belongs to the list that was replaced.
        said["force"] = ()
    return msgspec.structs.replace(built_in, name=entry.name, **said)


def runnable(command: Sequence[str]) -> tuple[str, ...]:
    """Give the arguments that start a command: this program is started by the interpreter that runs it."""
    if command and command[0] == PROGRAM:
        return (sys.executable, "-m", "refold.app", *command[1:])
    return tuple(command)


def spelled(command: Sequence[str]) -> str:
    """Give a command as it can be typed into a shell."""
    return shlex.join(command)


def problem_of(program: str, directory: str) -> str:
    """Say why a program cannot be started in a directory; empty where it can."""
    if not os.path.isdir(directory):  # noqa: PTH112 - text that need not be a path
        return f"the directory {directory} is not there"
    inside = os.path.join(directory, program) if "/" in program else program  # noqa: PTH118
    if shutil.which(inside) is None:
        return f"{program} is not installed, or not on PATH"
    return ""


def _directory(entry: AgentEntry, run: Path, noted: str) -> str:
    if entry.cwd == BESIDE:
        return str(run.parent)
    if entry.cwd != HERE:
        return entry.cwd
    # Where it worked before; a run that was copied to another machine begins in a new place.
    return noted if noted and os.path.isdir(noted) else str(Path.cwd())  # noqa: PTH112 - it never raises


def _workplace(entry: AgentEntry, run: Path, noted: str) -> str:
    if entry.format in _OF_DIRECTORIES:
        # Its program gives every run a clone of its own (formats/rivumi.md 1).
        clone = run / "workspace"
        return str(clone) if clone.is_dir() else ""
    if entry.cwd == BESIDE:
        return str(run.parent)
    return noted if entry.cwd == HERE else entry.cwd


def _answer(command: Sequence[str], directory: str, seconds: float) -> Description:
    problem = problem_of(command[0], directory)
    if problem:
        raise NoAgent(problem)
    try:
        done = subprocess.run(  # noqa: S603 - an argument list of the user's own, no shell
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NoAgent(f"{spelled(command)} gave no answer within {seconds:g} seconds") from error
    except (OSError, ValueError) as error:
        raise NoAgent(f"{spelled(command)} cannot be started: {error}") from error
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip()[-_SAID:]
        raise NoAgent(f"{spelled(command)} ended with {done.returncode}" + (f": {why}" if why else ""))
    if len(done.stdout) > _LONGEST_ANSWER:
        raise NoAgent(f"{spelled(command)} printed {len(done.stdout)} bytes, which is no description")
    return _described(done.stdout, spelled(command))


def _described(text: bytes, command: str) -> Description:
    """Read the last line that was printed: a fingerprint, or one beside `effects`, or a `problem`."""
    last = text.strip().rpartition(b"\n")[2]
    try:
        values = msgspec.json.decode(last, type=dict[str, object])
        if isinstance(values.get("problem"), str):
            raise NoAgent(str(values["problem"]))
        if "fingerprint" in values:
            return msgspec.convert(values, Description)
        return Description(msgspec.convert(values, Fingerprint))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NoAgent(f"{command} printed no fingerprint: {error}") from error
