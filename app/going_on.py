"""What a resume from the screen depends on, read without holding the screen up, and what is written first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from refold.app.agents import RunAgent, agent_of
from refold.app.forking import notes_of
from refold.app.loading import SLICE, aside, others_first
from refold.app.resuming import answered, prepare
from refold.core.records import Decision
from refold.core.resume import ResumeFacts, ResumePlan, ResumeRequest, plan_resume
from refold.core.store.notes import Notes
from refold.core.store.reader import RunReader
from refold.core.store.resume import facts_of

if TYPE_CHECKING:
    from refold.app.settings import Settings
    from refold.core.rivumi.plan import SessionFacts

_AS_IT_IS: Final = ResumeRequest()
_NOTHING: Final[Mapping[str, Decision]] = MappingProxyType({})


class Prepared(NamedTuple):
    """What a plan is made from, and what would carry it out."""

    facts: ResumeFacts | SessionFacts
    agent: RunAgent
    notes: Notes
    last_point: int | None
    """The last sequence at which a fork is legal."""
    noted: Mapping[str, Decision] = _NOTHING
    """What was decided about the calls of a run directory when it was last looked at."""

    def plan(self, request: ResumeRequest = _AS_IT_IS) -> ResumePlan:
        """Plan a resume of a journal or of a run directory."""
        command = self.agent.command(request) or None
        if isinstance(self.facts, ResumeFacts):
            return plan_resume(self.facts, request, command)
        from refold.core.rivumi.plan import plan_session_resume

        return plan_session_resume(self.facts, request, command)

    @property
    def news(self) -> tuple[str, ...]:
        """What a resume would note about the agent, as phrases."""
        agent, notes = self.agent, self.notes
        said: list[str] = []
        if agent.native and agent.factory and agent.factory != notes.agent:
            said.append(f"that {agent.factory} goes on with it")
        if agent.config and agent.config != notes.config:
            said.append(f"that its configuration is {agent.config}")
        if agent.directory != notes.cwd and not agent.of_directory:
            said.append(f"that it is started in {agent.directory}")
        return tuple(said)


async def read_run(
    path: Path,
    hint: str,
    settings: Settings,
    progress: Callable[[float], None],
    *,
    factory: str = "",
    config: str = "",
) -> Prepared:
    """Read the run in slices, then ask its agent what it is today, on a thread.

    Args:
        path: The run.
        hint: The format to assume where the bytes do not tell.
        settings: The configured agents, and where notes and caches lie.
        progress: Told how much of the run is read, from 0 to 1.
        factory: The native agent that is named now.
        config: The configuration of the agent that is named now.

    Raises:
        StoreError: the run cannot be opened or read.
    """
    with RunReader.open(path, hint=hint, cache=settings.cache_dir) as reader:
        while not reader.step(SLICE):
            progress(reader.progress)
            await others_first()
        if reader.session is not None:
            from refold.app.session_resuming import prepared_session

            last = reader.timeline.legal_fork(reader.timeline.items - 1)
            return await aside(lambda: prepared_session(path, settings, last_point=last))
        notes = notes_of(settings).read(path)
        agent = agent_of(path, reader.format.name, settings, notes, factory=factory, config=config)
        facts = msgspec.structs.replace(facts_of(reader, notes=notes), prices=settings.prices)
        timeline = reader.timeline
    return Prepared(
        facts=await aside(lambda: answered(agent, facts)),
        agent=agent,
        notes=notes,
        last_point=timeline.legal_fork(timeline.items - 1),
    )


def make_ready(prepared: Prepared, plan: ResumePlan, settings: Settings) -> tuple[str, ...]:
    """Write what must stand on disk before the agent is started, and give the command that starts it.

    Of a native run that is only which agent it is: the rest is its own work. Of another tool's run it is the
    repair and the decisions too, under its lock, which is free again on return.

    Raises:
        RefoldError: the run is not what the plan was made for, or something cannot be written.
    """
    agent, request = prepared.agent, plan.request
    if plan.answers is not None:
        from refold.app.session_resuming import make_session_ready

        return make_session_ready(prepared, plan, settings)
    if not agent.native:
        prepare(agent, prepared.notes, request, settings, expected=plan.last_seq)
    elif prepared.news:
        notes_of(settings).update(
            agent.run,
            lambda notes: msgspec.structs.replace(notes, agent=agent.factory, cwd=agent.directory),
        )
    return agent.command(request, expected=plan.last_seq, calls=plan.calls)
