"""What an event says, in one sentence: more than the original's replay shows (formats/rivumi.md 9.22)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from refold.core.records import Json
from refold.core.rivumi.events import Event
from refold.core.rivumi.manifest import tokens_of
from refold.core.rivumi.members import Members


def told(event: Event) -> str:
    """Give the sentence of an event; of an unknown type what the original would show, else its data."""
    data = Members(event.data)
    if event.event_type in _HOW:
        return sentence(event.event_type, event.data)
    if event.text:
        return event.text
    for name in _FIRST:
        text = data.text(name)
        if text:
            return text
    return _short(event.data) if event.data else ""


def sentence(event_type: str, data: dict[str, Json]) -> str:
    """Give what the data of an event says where its type has words of its own; else nothing."""
    how = _HOW.get(event_type)
    return "" if how is None else how(Members(data))


_FIRST: Final = ("text", "summary", "reason", "error", "name", "model", "content", "role")


def _join(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


def _short(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _names(items: tuple[Json, ...]) -> str:
    return ", ".join(str(item) for item in items)


def _where(data: Members) -> str:
    commit = data.text("base_sha")[:12]
    return _join(data.text("provider"), data.text("model"), f"at {commit}" if commit else "")


def _model_completed(data: Members) -> str:
    usage = data.object("usage")
    tokens = tokens_of(usage)
    cached = f", {tokens.cached} cached" if tokens.cached else ""
    used = f"{tokens.input} in{cached}, {tokens.output} out" if usage is not None else ""
    calls = _names(data.many("tool_calls"))
    return _join(data.text("content"), f"calls {calls}" if calls else "", data.text("finish_reason"), used)


def _retry(data: Members) -> str:
    delay = data.number("delay_seconds", -1.0)
    again = f"again in {delay:.1f}s" if delay >= 0 else ""
    return _join(f"attempt {data.whole('attempt', 0)}", data.text("error"), again)


def _pressure(data: Members) -> str:
    return f"{data.whole('total_tokens', 0):,} of {data.whole('max_total_tokens', 0):,} tokens"


def _nudge(data: Members) -> str:
    only = f"{data.whole('consecutive_read_only_steps', 0)} steps that only read"
    return f"{only}, {data.whole('steps_remaining', 0)} left"


def _lane(data: Members) -> str:
    files = _names(data.many("changed_files"))
    model = f"{data.text('provider')} {data.text('model')}".strip()
    return _join(data.text("role"), model, f"on {files}" if files else "", data.text("preview"))


def _reloaded(data: Members) -> str:
    return _names(data.many("categories") or data.many("sources"))


def _injected(data: Members) -> str:
    count = data.whole("diagnostic_count", 0)
    paths = _names(data.many("paths") or data.many("changed_files") or data.many("sources"))
    return f"{count} in {paths}" if count else paths


def _dirty(data: Members) -> str:
    return _names(data.many("status_lines"))


def _tools(data: Members) -> str:
    return _names(data.many("tools"))


def _hook(data: Members) -> str:
    return _join(*(data.text(name) for name in ("hook_event", "hook", "decision", "reason")))


def _transaction(data: Members) -> str:
    return _join(data.text("id"), data.text("tool_call_id"))


def _fallback(data: Members) -> str:
    before = f"{data.text('from_provider')} {data.text('from_model')}".strip()
    return f"{before} → {data.text('to_provider')} {data.text('to_model')}".strip()


def _tool_requested(data: Members) -> str:
    arguments = data.raw.get("arguments")
    return _join(data.text("name"), data.text("effect"), "" if arguments is None else _short(arguments))


def _tool_started(data: Members) -> str:
    return _join(data.text("name"), data.text("effect"))


def _ended(data: Members) -> str:
    ok = data.flag("ok")
    word = "" if ok is None else "ok" if ok else "failed"
    code = data.raw.get("exit_code")
    exit_code = f"exit {code}" if isinstance(code, int) else ""
    seconds = data.number("duration_seconds", -1.0)
    took = f"{seconds:.1f}s" if seconds >= 0 else ""
    return _join(data.text("name"), word, exit_code, took, data.text("error"), data.text("preview"))


def _transaction_ended(data: Members) -> str:
    return _join(_transaction(data), _ended(data))


def _approval(data: Members) -> str:
    why = data.text("policy_reason") or data.text("reason")
    return _join(data.text("decision"), data.text("action_id"), data.text("effect"), why)


def _end_of_run(data: Members) -> str:
    files = data.many("changed_files")
    return _join(data.text("terminal_reason"), f"changed {_names(files)}" if files else "")


def _forked(data: Members) -> str:
    return f"from {data.text('source_run_id')} at {data.whole('fork_point_sequence', -1)}"


def _batch(data: Members) -> str:
    return _join(_names(data.many("tool_call_ids") or data.many("ids")), data.text("mode"))


def _step(data: Members) -> str:
    return f"turn {data.whole('step', 0)}"


def _check_started(data: Members) -> str:
    return _join(data.text("name"), " ".join(str(part) for part in data.many("argv")))


_HOW: Final[Mapping[str, Callable[[Members], str]]] = {
    "run.created": _where,
    "session.resumed": _where,
    "session.continued": _where,
    "workspace.prepared": _where,
    "model.requested": _step,
    "model.completed": _model_completed,
    "model.retry": _retry,
    "model.fallback": _fallback,
    "role_lane.requested": _lane,
    "role_lane.completed": _lane,
    "loop.wind_down_started": _step,
    "loop.read_only_stall_nudge": _nudge,
    "context_pressure.reminder_injected": _pressure,
    "context_pressure.workspace_reminder_injected": _injected,
    "context_provider.injected": _injected,
    "instructions.reloaded": _reloaded,
    "project_context.reloaded": _reloaded,
    "ide.open_files_injected": _injected,
    "ide.diagnostics_injected": _injected,
    "mcp.tools_refreshed": _tools,
    "hook.completed": _hook,
    "hook.denied": _hook,
    "workspace.dirty_source_detected": _dirty,
    **dict.fromkeys(("subagents.dispatch_started", "subagents.dispatch_completed"), _batch),
    **dict.fromkeys(("subagents.wave_started", "subagents.wave_completed"), _batch),
    "subagents.transaction_started": _transaction,
    "tool.requested": _tool_requested,
    "tool.started": _tool_started,
    "tool.completed": _ended,
    "tool.batch_started": _batch,
    "tool.batch_completed": _batch,
    "approval.requested": _approval,
    "approval.resolved": _approval,
    "approval.reused": _approval,
    "approval.abandoned": _approval,
    "verification.started": _check_started,
    "verification.completed": _ended,
    "verification.reused": _ended,
    "subagents.transaction_completed": _transaction_ended,
    "run.completed": _end_of_run,
    "run.failed": _end_of_run,
    "run.cancelled": _end_of_run,
    "run.forked": _forked,
}
