"""What a new run made of another needs beside its plan: an id to propose, and its notes."""

from __future__ import annotations

import itertools
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from refold.core.errors import StoreError
from refold.core.store.notes import NotesStore
from refold.core.store.run_id import is_run_id, new_run_id

if TYPE_CHECKING:
    from refold.app.settings import Settings
    from refold.core.fork import ForkPlan
    from refold.core.fork_point import ForkPoint
    from refold.core.records import Json
    from refold.core.rivumi.fork import SessionForkPlan
    from refold.core.salvage import SalvagePlan
    from refold.core.store.fork import Forked
    from refold.core.store.reader import RunReader

    AnyForkPlan: TypeAlias = ForkPlan | SessionForkPlan

_SORTED_BY_TIME: Final = re.compile("[0-9A-Za-z]{27}")
_MOST: Final = 1000


def notes_of(settings: Settings) -> NotesStore:
    """Give what is noted about runs."""
    return NotesStore(settings.notes_dir)


def plan_fork(reader: RunReader, item: int, *, child: str, prompt: str = "", reason: str = "") -> AnyForkPlan:
    """Plan a fork of a run after an item, of a journal or of a run directory.

    Raises:
        NoForkHere: the point is not legal, or the prompt cannot stand there.
        RunExists: there is a run of that id.
        InvalidRunId: the text is no run id.
        StoreError: the run cannot be read.
    """
    root = reader.path.absolute().parent
    if reader.session is not None:
        from refold.core.fork import NoForkHere
        from refold.core.store.session_fork import plan_session_at, require_free_session

        seq = reader.timeline.seq(item)
        if seq is None:
            where = f"line {reader.timeline.span(item).line}"
            raise NoForkHere(
                f"no fork after {where}: these bytes are damaged",
                code="damaged",
                nearest=reader.timeline.legal_fork(item - 1),
            )
        require_free_session(root, child)
        return plan_session_at(reader.path, seq, child=child, prompt=prompt, reason=reason)
    from refold.core.store.fork import plan_at
    from refold.core.store.new_run import require_free

    plan = plan_at(reader, item, child=child, prompt=prompt, reason=reason)
    require_free(root, child)
    return plan


def proposed_point(reader: RunReader) -> ForkPoint | None:
    """Give the point at which a fork is proposed where nobody has picked one; None where none is legal.

    Raises:
        StoreError: the run cannot be read.
    """
    if reader.session is None:
        from refold.core.fork_point import propose

        return propose(reader.timeline)
    from refold.core.rivumi.plan import session_facts
    from refold.core.store.session_postmortem import propose_session

    session = reader.session
    return propose_session(session, session_facts(session.snapshot(), str(session.path), now=time.time()))


def fork_json(plan: AnyForkPlan) -> dict[str, Json]:
    """Give a plan as `refold fork --plan --json` prints it."""
    from refold.core.fork import ForkPlan, plan_json

    if isinstance(plan, ForkPlan):
        return plan_json(plan)
    from refold.core.rivumi.fork import session_fork_json

    return session_fork_json(plan)


def make_fork(plan: AnyForkPlan, settings: Settings) -> Forked:
    """Make a fork; the agent that goes on with its parent goes on with it too.

    Raises:
        RefoldError: the fork was not made.
    """
    from refold.core.fork import ForkPlan

    notes = notes_of(settings)
    if isinstance(plan, ForkPlan):
        from refold.core.store.fork import carry_out

        made = carry_out(plan, notes=notes)
    else:
        from refold.core.store.session_fork import carry_out_session

        made = carry_out_session(plan, notes=notes)
    return _with_agent(made, Path(plan.path), notes)


def make_salvaged(plan: SalvagePlan, settings: Settings) -> Forked:
    """Make a run of the good records of a damaged one; its agent goes on with it.

    Raises:
        StoreError: the new run was not made.
    """
    from refold.core.store.salvage import carry_out

    notes = notes_of(settings)
    return _with_agent(carry_out(plan, notes=notes), Path(plan.path), notes)


def _with_agent(made: Forked, of: Path, notes: NotesStore) -> Forked:
    """Note about a new run which agent the other one has."""
    parent = notes.read(of)
    if not (parent.agent or parent.config or parent.cwd):
        return made
    try:
        notes.update(
            made.path,
            lambda own: msgspec.structs.replace(
                own, agent=parent.agent, config=parent.config, cwd=parent.cwd
            ),
        )
    except StoreError:
        return msgspec.structs.replace(made, noted=False)
    return made


def proposed_id(parent: Path) -> str:
    """Give an id for a fork of a run: its own name and a number where it has a name, else a new one."""
    from refold.core.store.session_names import is_run_directory

    if is_run_directory(parent):
        from refold.core.store.session_fork import new_session_id

        return new_session_id()
    name = parent.name.removesuffix(".json")
    if is_run_id(name) and not _SORTED_BY_TIME.fullmatch(name):
        stem = re.sub("-[0-9]{1,4}$", "", name)
        for number in itertools.islice(itertools.count(2), _MOST):
            proposed = f"{stem}-{number}"
            if is_run_id(proposed) and not os.path.lexists(parent.with_name(f"{proposed}.json")):
                return proposed
    return new_run_id()
