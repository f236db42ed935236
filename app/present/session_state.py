"""What the events of a run prove at the cursor, and beside it what the manifest claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from refold.app.lines import Line, Role
from refold.app.present import units
from refold.app.present.layout import BLANK, cell, flow, spread
from refold.app.present.session_rows import DECISIONS, outcome, settled
from refold.app.present.state import ending_cell
from refold.core.rivumi.calls import CallLife
from refold.core.rivumi.events_state import EventsState, differences
from refold.core.rivumi.history import Since
from refold.core.rivumi.manifest import Manifest, Tokens, tokens_of
from refold.core.rivumi.members import Members

_LABEL: Final = 15
_MOST: Final = 100


class SessionState(NamedTuple):
    """The pane: what holds after an event, what held before it, and the manifest."""

    seq: int | None
    now: EventsState
    before: EventsState | None = None
    manifest: Manifest | None = None
    manifest_problem: str = ""
    at_end: bool = False
    """It is the last event: only there the manifest can be compared."""
    ending: str = ""
    agents: tuple[str, ...] = ()
    """The runs of its own agents."""
    since: Since = Since()
    """For what is one value at a time the sequence since which it stands as it does."""


def session_state_lines(view: SessionState, width: int) -> Iterator[Line]:
    """Give the lines of the pane for a width."""
    where = f"after seq {view.seq}" if view.seq is not None else "here"
    yield from flow((cell("State ", "strong"), cell(where, "strong")), width)
    if view.ending:
        yield from flow((ending_cell(view.ending),), width, 2)
    yield BLANK
    yield from flow((cell("What the events prove", "strong"),), width)
    yield from _events(view.now, view.before, view.since, width)
    for name in view.agents[:_MOST]:
        yield from _row("own agent", name, width, "accent")
    yield BLANK
    yield from _manifest(view, width)


def _events(now: EventsState, before: EventsState | None, since: Since, width: int) -> Iterator[Line]:
    past = before or EventsState()
    known = before is not None
    role: Role = "problem" if now.phase == "failed" else "good" if now.phase == "completed" else "text"
    reason = f"  {now.terminal_reason}" if now.terminal_reason else ""
    yield from _row(
        "phase",
        f"{now.phase}{reason}",
        width,
        role,
        changed=known and now.phase != past.phase,
        since=since.phase,
    )
    yield from _row("turn", str(now.step), width, changed=known and now.step != past.step, since=since.step)
    model = f"{now.provider} {now.model}".strip() or "not said"
    yield from _row(
        "model",
        model,
        width,
        changed=known and (now.provider, now.model) != (past.provider, past.model),
        since=since.model,
    )
    grown = now.tokens.total - past.tokens.total if known else 0
    more = f"  +{units.short(grown)}" if grown > 0 else ""
    yield from _row("tokens", f"{_tokens(now.tokens)}{more}", width, changed=grown != 0, since=since.tokens)
    if now.resumes:
        yield from _row(
            "resumed",
            units.plural(now.resumes, "time"),
            width,
            changed=now.resumes != past.resumes,
            since=since.resumes,
        )
    yield from _calls(now, past if known else None, width)
    yield from _checks(now.checks, width)
    answered = [one for one in now.approvals if one.decision]
    waiting = [one for one in now.approvals if not one.decision]
    text = f"{len(answered)} answered, {len(waiting)} not" if now.approvals else "none"
    changed = known and now.approvals != past.approvals
    yield from _row("approvals", text, width, "warn" if waiting else "text", changed=changed)
    for one in now.approvals[-8:]:
        word, word_role = DECISIONS.get(one.decision, (one.decision or "no answer", "warn"))
        yield from flow(
            (
                cell("    ", "dim"),
                cell(word, word_role, 40),
                cell(f"  {one.action_id}  {one.effect}", "dim", 200),
            ),
            width,
            6,
        )


def _calls(now: EventsState, past: EventsState | None, width: int) -> Iterator[Line]:
    made = [call for call in now.calls if not call.is_check]
    ended = sum(call.ended is not None for call in made)
    failed = sum(call.state == "failed" for call in made)
    unsure = [call for call in made if call.ended is not None and call.outcome_unknown]
    text = f"{units.plural(len(made), 'call')}, {ended} ended"
    text += f", {failed - len(unsure)} failed" if failed > len(unsure) else ""
    text += f", {len(unsure)} of unknown outcome" if unsure else ""
    changed = past is not None and past.calls != now.calls
    yield from _row("calls", text, width, changed=changed)
    for call in now.open_calls[:_MOST]:
        role: Role = "problem" if call.uncertain else "warn"
        said = "outcome unknown" if call.uncertain else "reads only"
        yield from _call("open", call, f"started at {call.started}, no end: {said}", role, width)
    for call in unsure[-_MOST:]:
        yield from _call("unsure", call, f"{settled(call)}, seq {call.ended}", "warn", width)
    if now.waiting is not None:
        call = now.waiting
        said = "allowed, not started" if call.decided is not None else "waits for an answer"
        yield from _call("waits", call, f"{said}, asked at {call.asked}", "warn", width)


def _call(label: str, call: CallLife, said: str, role: Role, width: int) -> Iterator[Line]:
    yield from flow(
        (
            cell(f"    {label} ", role),
            cell(call.name or call.id, "call", 120),
            cell(f"  {said}", role),
            cell(f"  {call.id}", "dim", 120),
        ),
        width,
        6,
    )


def _checks(checks: Sequence[CallLife], width: int) -> Iterator[Line]:
    for check in checks[-_MOST:]:
        word, role = outcome(check)
        code = f"  exit {check.exit_code}" if check.exit_code is not None else ""
        yield from _row("check", f"{check.name}  {word}{code}", width, role)


def _manifest(view: SessionState, width: int) -> Iterator[Line]:
    yield from flow((cell("What the manifest claims", "strong"),), width)
    manifest = view.manifest
    if manifest is None:
        yield from flow((cell(f"there is none to read: {view.manifest_problem}", "warn", 1000),), width, 2)
        return
    if not view.at_end:
        note = "It knows only the latest state, not the one here; the events above are of the cursor."
        yield from flow((cell(note, "dim"),), width)
    yield from _row("phase", manifest.phase, width)
    yield from _row("turn", str(manifest.step), width)
    yield from _row("last seq", str(manifest.last_event_sequence), width)
    yield from _row("tokens", _tokens(manifest.tokens), width)
    yield from _row("model", f"{manifest.provider} {manifest.model}  {manifest.protocol}", width)
    yield from _lanes(manifest, width)
    yield from _row("messages", str(len(manifest.messages)), width)
    if manifest.pending is not None:
        pending = manifest.pending
        yield from _row("pending", f"{pending.name or pending.action_id}  {pending.effect}", width, "warn")
    yield from _row("generation", manifest.generation, width)
    for key in manifest.unknown[:8]:
        yield from _row("unknown key", key, width, "warn")
    for odd in manifest.odd[:8]:
        yield from _row("odd", odd, width, "warn")
    if view.at_end:
        yield BLANK
        found = differences(view.now, manifest)
        if not found:
            yield from flow((cell("✓ ", "good"), cell("events and manifest agree", "text")), width, 2)
        for one in found:
            yield from flow((cell("⚠ ", "warn"), cell(one.text, "warn", 1000)), width, 2)


def _lanes(manifest: Manifest, width: int) -> Iterator[Line]:
    """Say which models took what, and what that cost where somebody worked it out."""
    records = manifest.raw.get("model_usage")
    for record in records[:_MOST] if isinstance(records, list) else ():
        if not isinstance(record, dict):
            continue
        own = Members(record)
        parts = [f"{own.text('provider')} {own.text('model')}", _tokens(tokens_of(own.object("usage")))]
        price = own.object("cost")
        if price is not None:
            cost = Members(price)
            total = sum(cost.number(name, 0.0) for name in ("input_cost", "cached_input_cost", "output_cost"))
            parts.append(f"{total:.4f} {cost.text('currency')} ({cost.text('source')})")
        yield from _row(own.text("lane") or "lane", "  ".join(parts), width)


def _tokens(tokens: Tokens) -> str:
    cached = f" ({units.grouped(tokens.cached)} cached)" if tokens.cached else ""
    return f"{units.grouped(tokens.input)} in{cached} · {units.grouped(tokens.output)} out"


def _row(
    label: str,
    text: str,
    width: int,
    role: Role = "text",
    *,
    changed: bool = False,
    since: int | None = None,
) -> Iterator[Line]:
    seq = () if since is None or changed else (cell(f" seq {since}", "dim"),)
    if seq and _LABEL + len(text) + len(seq[0].text) <= width:
        line = (cell(f"  {label:<{_LABEL - 2}}", "dim"), cell(text, role, 1000))
        yield spread(line, seq, width)
        return
    mark = "▸ " if changed else "  "
    yield from flow(
        (cell(mark, "accent"), cell(f"{label:<{_LABEL - 2}}", "dim"), cell(text, role, 1000)), width, _LABEL
    )
