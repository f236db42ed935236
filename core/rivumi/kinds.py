"""The types of event that are known, and who writes them (formats/rivumi.md 2).

The set is open: a type that is not here is shown under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

Era: TypeAlias = Literal["loop", "later", "fork"]
"""Which program writes a type: the first loop, a later one, or the command that forks."""

_LOOP = """
run.created workspace.prepared session.resumed approval.abandoned
context_pressure.reminder_injected context_pressure.summary_fallback_applied
context_pressure.workspace_reminder_injected
model.requested model.retry model.fallback model.completed model.failed
tool.requested approval.requested approval.resolved tool.started tool.completed approval.reused
tool.batch_started tool.batch_completed
verification.started verification.completed
role_lane.requested role_lane.completed role_lane.failed
run.error run.failed run.cancelled run.completed
"""
_LATER = """
run.continuation_fallback workspace.direct_edit_enabled workspace.dirty_source_detected session.continued
instructions.reloaded instructions.reload_ignored project_context.reloaded project_context.reload_ignored
context_pressure.summary_fallback_skipped context_provider.injected context_provider.failed
ide.open_files_injected ide.open_files_ignored ide.diagnostics_injected ide.diagnostics_ignored
mcp.tools_refreshed model.cache_trace hook.completed hook.denied
subagents.schedule_normalized subagents.dispatch_started subagents.wave_started
subagents.transaction_started subagents.transaction_completed subagents.wave_completed
subagents.dispatch_completed
loop.read_only_stall_nudge verification.reused
loop.wind_down_started loop.wind_down_completed loop.wind_down_failed
"""

KNOWN: Final[Mapping[str, Era]] = {
    **dict.fromkeys(_LOOP.split(), "loop"),
    **dict.fromkeys(_LATER.split(), "later"),
    "run.forked": "fork",
}
"""Every known type and its era."""

ENDS: Final[Mapping[str, str]] = {
    "run.completed": "completed",
    "run.failed": "failed",
    "run.cancelled": "cancelled",
}
"""The types that end a run, and the phase they end it in."""

STARTS: Final = frozenset({"tool.started", "verification.started"})
"""The types after which something may have been done to the world."""
