"""What the events of a run prove, and where its manifest claims something else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from refold.core.records import Json
from refold.core.rivumi.calls import CallLife, Calls
from refold.core.rivumi.events import Event
from refold.core.rivumi.kinds import ENDS, STARTS
from refold.core.rivumi.manifest import Manifest, Tokens, dangling, tokens_of
from refold.core.rivumi.members import Members, capped

_AT_WORK: Final = frozenset({"preparing", "running", "verifying", "paused"})
"""Phases that no event tells apart."""


class Approval(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One question whether something may be done, and its answer."""

    request_id: str
    action_id: str
    effect: str
    asked: int | None
    decision: str = ""
    """allow_once, allow_session, deny, cancel, reused or abandoned; empty while nobody answered."""
    decided: int | None = None


class EventsState(msgspec.Struct, frozen=True):
    """The fold of a log, in the order of the file."""

    run_id: str = ""
    provider: str = ""
    model: str = ""
    base_sha: str = ""
    phase: str = "created"
    step: int = 0
    calls: tuple[CallLife, ...] = ()
    """Every call and check, also those that ended."""
    approvals: tuple[Approval, ...] = ()
    tokens: Tokens = Tokens()
    last_sequence: int = -1
    tail: str = ""
    """The type of the last event."""
    resumes: int = 0
    terminal_reason: str = ""

    @property
    def open_calls(self) -> tuple[CallLife, ...]:
        """What was started and never ended, checks included."""
        return tuple(call for call in self.calls if call.open)

    @property
    def checks(self) -> tuple[CallLife, ...]:
        """The checks of the result."""
        return tuple(call for call in self.calls if call.is_check)

    @property
    def waiting(self) -> CallLife | None:
        """The call that waits for an answer, or for its start after one."""
        return next((call for call in reversed(self.calls) if call.waits), None)


class Difference(msgspec.Struct, frozen=True):
    """One thing that events and manifest say differently."""

    field: str
    events: Json
    manifest: Json
    text: str


class EventsFold:
    """The running state."""

    def __init__(self, calls: Calls | None = None) -> None:
        self.calls = Calls() if calls is None else calls
        self.approvals: dict[str, Approval] = {}
        self.named = {"provider": "", "model": "", "base_sha": ""}
        self.phase = "created"
        self.step = 0
        self.used = [0, 0, 0, 0, 0]
        self.resumes = 0
        self.reason = ""

    def feed(self, event: Event) -> None:
        """Take one event in."""
        data, kind = Members(event.data), event.event_type
        self.calls.feed(event)
        if kind in {"run.created", "run.forked", "session.resumed", "session.continued"}:
            for name in self.named:
                self.named[name] = data.text(name, self.named[name])
        match kind:
            case "model.requested":
                self.step = max(self.step, data.whole("step", self.step))
            case "run.forked" | "model.completed":
                # A fork of ours says what it brought along.
                if kind == "run.forked":
                    self.step = max(self.step, data.whole("step", self.step))
                tokens = tokens_of(data.object("usage"))
                for at, count in enumerate(msgspec.structs.astuple(tokens)):
                    self.used[at] = capped(self.used[at] + count)
            case "session.resumed" | "session.continued":
                self.resumes += 1
            case _ if kind.startswith("approval."):
                self._approval(kind, data, event.sequence)
        status = data.text("status")
        if kind == "result" and not event.run_id and status in ENDS.values():
            # The last line of a program that keeps no manifest (formats/rivumi.md 1, External-CLI runs).
            self.phase = status
            return
        self._phase(kind, data)

    def _phase(self, kind: str, data: Members) -> None:
        if kind in ENDS:
            self.phase = ENDS[kind]
            self.reason = data.text("terminal_reason")
        elif kind == "approval.requested":
            self.phase = "waiting_approval"
        elif self.phase in ENDS.values():
            if kind in {"session.resumed", "session.continued"}:
                self.phase, self.reason = "running", ""
        elif kind not in {"run.created", "run.forked"}:
            self.phase = "running"

    def _approval(self, kind: str, data: Members, seq: int) -> None:
        request, action = data.text("request_id"), data.text("action_id")
        known = self.approvals.get(request)
        asked = seq if kind in {"approval.requested", "approval.reused"} else None
        if known is None:
            known = Approval(request, action, data.text("effect"), asked)
        if kind == "approval.resolved":
            known = msgspec.structs.replace(known, decision=data.text("decision"), decided=seq)
        elif kind in {"approval.reused", "approval.abandoned"}:
            known = msgspec.structs.replace(known, decision=kind.removeprefix("approval."), decided=seq)
        self.approvals[request] = known


def events_state(events: Iterable[Event]) -> EventsState:
    """Fold events to what they prove."""
    fold = EventsFold()
    last: Event | None = None
    run_id = ""
    for event in events:
        fold.feed(event)
        run_id = run_id or event.run_id
        last = event
    return EventsState(
        run_id,
        fold.named["provider"],
        fold.named["model"],
        fold.named["base_sha"],
        fold.phase,
        fold.step,
        fold.calls.lives(),
        tuple(fold.approvals.values()),
        Tokens(*fold.used),
        -1 if last is None else last.sequence,
        "" if last is None else last.event_type,
        fold.resumes,
        fold.reason,
    )


def differences(events: EventsState, manifest: Manifest) -> tuple[Difference, ...]:
    """Name what the manifest claims and the events do not bear out."""
    found: list[Difference] = []
    at, claimed = events.last_sequence, manifest.last_event_sequence
    if at != claimed:
        where = "ahead of" if claimed > at else "behind"
        text = f"the manifest is {abs(claimed - at)} {where} the events"
        found.append(Difference("last_sequence", at, claimed, text))
    pairs: tuple[tuple[str, str, str], ...] = (
        ("run_id", events.run_id, manifest.run_id),
        ("provider", events.provider, manifest.provider),
        ("model", events.model, manifest.model),
        ("base_sha", events.base_sha.lower(), manifest.base_sha.lower()),
    )
    found.extend(
        Difference(name, seen, said, f"the events say {name} {seen}, the manifest {said}")
        for name, seen, said in pairs
        if seen and seen != said
    )
    if not _same_phase(events, manifest):
        text = f"the events end in phase {events.phase}, the manifest says {manifest.phase}"
        found.append(Difference("phase", events.phase, manifest.phase, text))
    if events.step != manifest.step:
        text = f"the events prove {events.step} model turns, the manifest counts {manifest.step}"
        found.append(Difference("step", events.step, manifest.step, text))
    if (events.tokens.input, events.tokens.output) != (manifest.tokens.input, manifest.tokens.output):
        text = f"the events add up to {events.tokens.total} tokens, the manifest to {manifest.tokens.total}"
        found.append(Difference("tokens", events.tokens.total, manifest.tokens.total, text))
    found.extend(_pending(events, manifest))
    ended = {call.id for call in events.calls if call.ended is not None}
    found.extend(
        Difference("calls", call.id, None, f"call {call.id} ended, but its result is not in the manifest")
        for call in dangling(manifest)
        if call.id in ended
    )
    return tuple(found)


def _same_phase(events: EventsState, manifest: Manifest) -> bool:
    seen, said = events.phase, manifest.phase
    return seen == said or (seen in {"created", "running"} and said in _AT_WORK | {"created"})


def _pending(events: EventsState, manifest: Manifest) -> list[Difference]:
    waiting = events.waiting.id if events.waiting is not None else None
    pending = manifest.pending.action_id if manifest.pending is not None else None
    # The writer clears it only after the line of the start is on disk.
    just_started = events.tail in STARTS and pending in {call.id for call in events.open_calls}
    if waiting == pending or just_started:
        return []
    text = f"the events leave {waiting or 'no action'} waiting, the manifest {pending or 'none'}"
    return [Difference("pending_action", waiting, pending, text)]
