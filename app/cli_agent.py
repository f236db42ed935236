"""`refold run`: an agent written in Python, driven from the command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

import msgspec

from refold.app.cli_exit import exit_code
from refold.app.cli_new_run import checked_id
from refold.app.cli_print import Printer
from refold.app.cli_redact import redacted_progress
from refold.app.live import Live, tell
from refold.app.settings import Settings
from refold.app.shell_name import shell_name
from refold.core.agent import Agent, load_agent
from refold.core.errors import RefoldError, StoreError
from refold.core.formats.names import is_own
from refold.core.pasted import pasted
from refold.core.store.journal import Journal, JournalStore
from refold.core.store.notes import NotesStore

_UNNAMED: Final = "refold resume RUN"
"""Said of a run whose path cannot be pasted."""


class NowhereToKeep(RefoldError):
    """The run is to be kept, and there is no directory for it."""


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Run an agent to its end, or to where it is suspended."""
    agent = loaded(arguments.agent, Path.cwd())
    prompt = " ".join(arguments.prompt)
    live = Live(printer, redacted_progress(arguments, settings, printer))
    if not (arguments.checkpoint or arguments.name is not None):
        outcome = live.run(agent, prompt, None, interactive=arguments.chat)
        return tell(outcome, None, "", printer, as_json=arguments.json)
    name = None if arguments.name is None else checked_id(arguments.name)
    store = JournalStore(_directory(settings))
    with store.begin(name, agent.opening(prompt, interactive=arguments.chat)) as journal:
        again = resuming(journal, arguments.agent, settings, printer)
        printer.note(f"refold: kept as {journal.run_id} in {journal.path}")
        try:
            outcome = live.run(agent, prompt, journal, interactive=arguments.chat)
        except StoreError as error:
            return stopped(error, again, printer)
        return tell(outcome, journal, again, printer, as_json=arguments.json)


def loaded(factory: str, directory: Path) -> Agent:
    """Give the agent of a factory; its module is looked for in a directory first.

    Raises:
        NoSuchAgent: there is none.
    """
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    return load_agent(factory)


def stopped(error: StoreError, again: str, printer: Printer) -> int:
    """Say that nothing more could be recorded, and what takes up what is on disk; give the exit code."""
    printer.error(error)
    printer.note(f"refold: what is on disk goes on with: {again}")
    return exit_code(error)


def _directory(settings: Settings) -> Path:
    """Where a new run goes: the last --root, else our own default."""
    named = [root.path for root in settings.roots if root.origin == "--root"]
    default = [root.path for root in settings.roots if root.origin == "default" and is_own(root.hint)]
    if not named and not default:
        raise NowhereToKeep("there is no directory to keep the run in", remedy="name one with --root DIR")
    return (named or default)[-1]


def resuming(journal: Journal, factory: str, settings: Settings, printer: Printer) -> str:
    """Note which agent a run has, and where it works; give the command that resumes it, to be pasted."""
    command = ("refold", "resume", shell_name(journal.path, settings))
    here, notes = str(Path.cwd()), NotesStore(settings.notes_dir)
    known = notes.read(journal.path)
    if (known.agent, known.cwd) == (factory, here):
        return pasted(*command) or _UNNAMED
    try:
        notes.update(journal.path, lambda noted: msgspec.structs.replace(noted, agent=factory, cwd=here))
    except StoreError as error:
        printer.note(f"refold: which agent it is could not be noted: {error}")
        return pasted(*command, "--agent", factory) or _UNNAMED
    return pasted(*command) or _UNNAMED
