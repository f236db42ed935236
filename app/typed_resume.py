"""The command line of Refold that resumes a run as a plan shows it, to be pasted into a shell."""

from __future__ import annotations

from typing import Final

import msgspec

from refold.app.agents import PROGRAM, RunAgent, asked_for
from refold.app.present.resume_plan import OF_CALLS, undecided
from refold.core.decisions import names_itself
from refold.core.pasted import pasted
from refold.core.resume import UNNAMED, ResumePlan
from refold.core.store.notes import Notes

FACTORY: Final = "package.module:factory"
"""Stands for the agent where nobody has named it."""
_MENDED: Final = OF_CALLS | {"torn_tail", "lock_unsure"}
"""Reasons that such a command answers, or finds answered under the lock."""
_FORCED: Final = frozenset({"fingerprint", "no_reason", "wall_time"})
"""Reasons that force goes past, once it is said why."""


def typed_resume(agent: RunAgent, notes: Notes, plan: ResumePlan) -> tuple[str, ...]:
    """Give the arguments; empty where no answer lets the run go on, or it needs none beside its name.

    Empty also where one of them cannot be pasted: a path, or what was said of a call.
    What is not decided about a call is left open in them: pasted as it is, such a command is refused.

    Args:
        agent: what goes on with the run.
        notes: what is noted about it: what stands there need not be said again.
        plan: with the answers that were given.
    """
    # Of a run that no program is started with, the name of one does not help.
    unnamed = agent.problem() == UNNAMED
    may = _MENDED | {"no_agent"} if unnamed else _MENDED
    open_calls = undecided(plan)
    request = plan.request
    answers = bool(open_calls or request.decisions or request.force or plan.repair is not None)
    if any(reason.code not in may for reason in plan.reasons) or not (answers or unnamed):
        return ()
    words = [PROGRAM, "resume", agent.called]
    # By its id it is found with what is noted beside it.
    noted = (notes if agent.called == agent.run_id else Notes(), agent.entry)
    if agent.native and (unnamed or agent.factory not in {each.agent for each in noted}):
        words += ["--agent", agent.factory or FACTORY]
    if not agent.native and agent.config and agent.config not in {each.config for each in noted}:
        words += ["--config", agent.config]
    words += asked_for(request, plan.calls)
    for number in open_calls:
        call = plan.calls[number]
        words.append(f"--decide={call.id if names_itself(call.id) else f'#{number + 1}'}=")
    if plan.repair is not None and not request.repair:
        words.append("--repair")
    return tuple(words) if pasted(*words) else ()


def forced_resume(agent: RunAgent, notes: Notes, plan: ResumePlan) -> tuple[str, ...]:
    """Give the arguments that go past what only force crosses, no reason written yet; else nothing.

    Pasted as it is, without a reason, such a command is refused again: nobody forces by mistake.

    Args:
        agent: what goes on with the run.
        notes: what is noted about it.
        plan: as it was refused, or asks for a reason.
    """
    codes = {reason.code for reason in plan.reasons}
    if not codes & _FORCED or not (agent.native or agent.entry.force or "wall_time" in codes):
        return ()
    rest = tuple(reason for reason in plan.reasons if reason.code not in _FORCED)
    request = msgspec.structs.replace(plan.request, force=True, reason="")
    return typed_resume(agent, notes, msgspec.structs.replace(plan, reasons=rest, request=request))
