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
    how = _HOW.get(event.event_type)
    if how is not None:
        return how(data)
    if event.text:
        return event.text
    for name in _FIRST:
        text = data.text(name)
        if text:
            return text
    return _short(event.data) if event.data else ""


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
    return _join(f"attempt {data.whole('attempt', 0)}", data.text("error"))


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
    return f"step {data.whole('step', 0)}"


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
    "subagents.transaction_completed": _ended,
    "run.completed": _end_of_run,
    "run.failed": _end_of_run,
    "run.cancelled": _end_of_run,
    "run.forked": _forked,
}
