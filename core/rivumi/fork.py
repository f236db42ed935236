"""Where a run directory may be forked, and what a fork would be. Pure: `core.store.session_fork` makes it.

The point is inclusive, as in the original (formats/rivumi.md 6). Unlike its forks the new run can go on: its
manifest has the keys of the first generation, which every original reads, the provider, model and protocol of
its parent, and of the conversation what the events up to the point prove. Nothing is run again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final, Literal, TypeAlias

import msgspec

from refold.core.errors import BadRecord
from refold.core.fork import NoForkHere, Point, plan_json
from refold.core.records import Json
from refold.core.rivumi import schema
from refold.core.rivumi.barred import FORK_PROTOCOL
from refold.core.rivumi.calls import CallLife
from refold.core.rivumi.canonical import canonical, preview
from refold.core.rivumi.draft import SessionManifest
from refold.core.rivumi.event_line import event_line
from refold.core.rivumi.events import Event
from refold.core.rivumi.events_state import EventsState, events_state
from refold.core.rivumi.fork_messages import Carried, carry
from refold.core.rivumi.inherited import STARTED
from refold.core.rivumi.items import approval_request, message
from refold.core.rivumi.kinds import ENDS
from refold.core.rivumi.manifest import Manifest, Request
from refold.core.rivumi.members import Members
from refold.core.rivumi.reading import Reading, read_snapshot
from refold.core.rivumi.snapshot import Part, Snapshot

FORMAT: Final = "rivumi"
_UNANSWERED: Final = "the run was forked before this was done; ask again"
_TREE_WORDS: Final = "files in the workspace"

Tree: TypeAlias = Literal["unchanged", "patched", "base"]
"""unchanged: nothing had changed it. patched: the recorded patch gives it. base: the edits are not in it."""


class OpenInFork(msgspec.Struct, frozen=True):
    """A call that the prefix asks for and does not answer."""

    id: str
    name: str
    effect: str
    started: bool
    input: Json = None


class SessionForkPlan(msgspec.Struct, frozen=True):
    """A fork of a run directory as it will be made."""

    parent: str
    """The name of the directory forked."""
    path: str
    """That directory."""
    at: int
    """The sequence of the last event taken account of."""
    point_type: str
    """The type of that event."""
    line: int
    child: str
    """The id of the new run."""
    task_id: str
    repository: str
    base_sha: str
    prefix: bytes
    """The parent's log up to the end of the last line of the prefix: it must still be there."""
    manifest: SessionManifest
    request: bytes
    """`request.json` of the new run."""
    patch: bytes
    """The recorded changes to apply; empty for none."""
    tree: Tree
    point: Point
    comes: int
    """Events of the prefix."""
    stays: int
    turns: int
    messages: int
    pending: tuple[OpenInFork, ...]
    prompt: str
    reason: str
    notes: tuple[str, ...]
    format: str = FORMAT

    @property
    def size(self) -> int:
        """Bytes of the prefix."""
        return len(self.prefix)

    def event(self, now: datetime) -> bytes:
        """Give the one line of the new log, newline included: it names the parent."""
        data: dict[str, Json] = {
            "source_run_id": self.parent,
            "fork_point_sequence": self.at,
            "fork_point_event_type": self.point_type,
            "events_included": self.comes,
            "side_effects_replayed": False,
            "workspace": "workspace",
            "base_sha": self.base_sha,
            "messages_included": self.messages,
            "workspace_tree": self.tree,
            "provider": self.manifest["provider_name"],
            "model": self.manifest["model_id"],
            "step": self.manifest["step"],
            "usage": self.manifest["usage"],
        }
        if started := [call.id for call in self.pending if call.started]:
            data[STARTED] = [*started]
        if self.reason:
            data["reason"] = preview(self.reason)
        return event_line("run.forked", data, run_id=self.child, task_id=self.task_id, sequence=0, now=now)


def plan_session_fork(
    snapshot: Snapshot,
    at: int,
    *,
    path: str,
    child: str,
    mark: str,
    patch: Part | None = None,
    prompt: str = "",
    reason: str = "",
    reading: Reading | None = None,
) -> SessionForkPlan:
    """Plan a fork after an event.

    Args:
        snapshot: what was read of the parent.
        at: the sequence of the last event taken.
        path: the parent's directory.
        child: the id of the new run.
        mark: eight hex digits that make its task another one.
        patch: the recorded changes of the parent.
        prompt: what the user says next; empty for nothing.
        reason: why it is forked; recorded.
        reading: what the snapshot means, where that is known already.

    Raises:
        NoForkHere: the point is not legal, the prompt cannot stand there, or the parent names no provider.
    """
    reading = reading or read_snapshot(snapshot)
    prefix, end = _prefix(snapshot, reading, at)
    manifest, request = _parent(reading, snapshot)
    if child == snapshot.name:
        raise NoForkHere("the new run needs an id of its own", code="same_id")
    state = events_state(prefix)
    carried = carry(manifest, reading.log.events, prefix)
    open_calls = _open(carried, state)
    if prompt and open_calls:
        raise NoForkHere(
            "a new prompt cannot stand here: calls are open; take a point between turns",
            code="prompt_pending",
        )
    tree, changes = _tree(reading.log.events, prefix, state, patch)
    task_id = f"{request.task_id}-fork-{mark}"
    asked, dropped = _request(request, task_id, manifest.base_sha)
    messages = [*carried.items, *([message("user", prompt)] if prompt else [])]
    return SessionForkPlan(
        parent=snapshot.name,
        path=path,
        at=at,
        point_type=prefix[-1].event_type,
        line=prefix[-1].line,
        child=child,
        task_id=task_id,
        repository=request.repository,
        base_sha=manifest.base_sha,
        prefix=snapshot.events.data[:end],
        manifest=_manifest(manifest, child, task_id, messages, carried, open_calls),
        request=asked,
        patch=changes,
        tree=tree,
        point="inside" if open_calls else "between",
        comes=len(prefix),
        stays=len(reading.log.events) - len(prefix),
        turns=carried.turns,
        messages=len(messages),
        pending=open_calls,
        prompt=prompt,
        reason=reason,
        notes=(
            *_tree_notes(tree, state, manifest.base_sha),
            *carried.notes,
            *dropped,
            *_notes(prefix, state, manifest, request, carried, open_calls),
        ),
    )


def _prefix(snapshot: Snapshot, reading: Reading, at: int) -> tuple[list[Event], int]:
    """Give the events up to a sequence in their order, and the byte after the last of their lines.

    Damage after them does not matter (design/contracts.md); the original refuses it (formats/rivumi.md 6).
    """
    if not snapshot.events.known:
        raise NoForkHere(f"events.jsonl: {snapshot.events.detail or snapshot.events.state}", code="no_record")
    events = reading.log.events
    taken = [event for event in events if event.sequence <= at]
    point = next((event for event in taken if event.sequence == at), None)
    if point is None:
        raise NoForkHere(f"no event has sequence {at}", code="no_record")
    end = max(event.end for event in taken)
    bad = next((bad for bad in reading.log.bad if bad.start < end), None)
    if bad is not None:
        raise NoForkHere(f"line {bad.line} before this point cannot be read: {bad.reason}", code="damaged")
    seen: dict[int, Event] = {}
    for event in taken:
        if event.sequence in seen:
            lines = f"lines {seen[event.sequence].line} and {event.line}"
            raise NoForkHere(
                f"two events have sequence {event.sequence}: {lines}",
                code="damaged",
                nearest=event.sequence - 1 if event.sequence else None,
            )
        seen[event.sequence] = event
    if any(not event.run_id for event in taken):
        raise NoForkHere("another tool ran here: its log names no run", code="no_record")
    foreign = next((event for event in taken if event.run_id != taken[0].run_id), None)
    if foreign is not None:
        raise NoForkHere(
            f"the events up to here are of more than one run: line {foreign.line} is of another",
            code="corrupt",
            nearest=foreign.sequence - 1 if foreign.sequence else None,
        )
    return sorted(taken, key=lambda event: event.sequence), min(end + 1, len(snapshot.events.data))


def _parent(reading: Reading, snapshot: Snapshot) -> tuple[Manifest, Request]:
    manifest, request = reading.manifest, reading.request
    if manifest is None:
        why = reading.manifest_problem or "it is missing"
        text = f"session.json: {why}; nobody can say which provider, model and protocol would go on"
        raise NoForkHere(text, code="no_manifest")
    if manifest.protocol == FORK_PROTOCOL:
        text = "a fork of its own program names no provider that could go on: fork its parent instead"
        raise NoForkHere(text, code="no_manifest")
    if request is None:
        why = reading.request_problem or "it is missing"
        raise NoForkHere(f"request.json: {why}; nobody can say what is to be done", code="request")
    if not request.base_sha or request.base_sha.lower() != manifest.base_sha.lower():
        raise NoForkHere("request.json does not name the commit that session.json names", code="request")
    if not request.repository.startswith("/"):
        raise NoForkHere("request.json names no repository by a full path", code="request")
    return manifest, request


def _open(carried: Carried, state: EventsState) -> tuple[OpenInFork, ...]:
    lives: dict[str, CallLife] = {life.id: life for life in state.calls}
    found = []
    for call in carried.unanswered:
        life = lives.get(call.id)
        effect = "" if life is None else life.effect
        started = life is not None and life.started is not None
        found.append(OpenInFork(call.id, call.name, effect, started, call.arguments))
    return tuple(found)


def _tree(
    events: Sequence[Event], prefix: Sequence[Event], state: EventsState, patch: Part | None
) -> tuple[Tree, bytes]:
    """Say which state of the files the new run begins with, and the patch that makes it.

    The patch is written when a run ends: it tells the state at the point only where nothing that may change
    files was started after it.
    """
    if not _changing(state):
        return "unchanged", b""
    whole = events_state(events)
    point = prefix[-1].sequence
    after = any(life.started is not None and life.started > point for life in _changing(whole))
    ended = any(event.event_type in ENDS for event in events)
    last_end = max((n for n, event in enumerate(events) if event.event_type in ENDS), default=-1)
    went_on = any(
        event.event_type in {"session.resumed", "session.continued"} for event in events[last_end + 1 :]
    )
    if not ended or went_on or after or whole.open_calls or patch is None or patch.state != "read":
        return "base", b""
    return ("patched", patch.data) if patch.data.strip() else ("unchanged", b"")


def _changing(state: EventsState) -> list[CallLife]:
    return [life for life in state.calls if life.effect != "read" and life.started is not None]


def _tree_notes(tree: Tree, state: EventsState, base_sha: str) -> Iterable[str]:
    base = f"a new clone at {base_sha[:12]}"
    if tree == "patched":
        yield f"{_TREE_WORDS}: {base}, with the recorded patch applied (changes.patch)"
    elif tree == "unchanged":
        yield f"{_TREE_WORDS}: {base}; nothing had changed them up to here"
    else:
        names = [life.name or life.id for life in _changing(state)]
        told = ", ".join([*names[:5], *(["..."] if len(names) > 5 else [])])
        yield f"{_TREE_WORDS}: {base}; edits up to here are NOT in it: {told}"
    yield "nothing is run again; what tools did elsewhere is not undone"


def _manifest(
    parent: Manifest,
    child: str,
    task_id: str,
    messages: list[Json],
    carried: Carried,
    open_calls: tuple[OpenInFork, ...],
) -> SessionManifest:
    try:
        fresh = SessionManifest.new(
            run_id=child,
            task_id=task_id,
            provider=parent.provider,
            model=parent.model,
            protocol=parent.protocol,
            base_sha=parent.base_sha,
            prompt_version=parent.prompt_version,
        )
        state: dict[str, Json] = {
            "step": carried.step,
            "usage": carried.usage,
            "pending_action": _question(child, open_calls),
        }
        return fresh.changed(state, add={"messages": messages}).at(0)
    except BadRecord as wrong:
        raise NoForkHere(f"no program would read the new run: {wrong.reason}", code="corrupt") from wrong


def _question(child: str, open_calls: tuple[OpenInFork, ...]) -> Json:
    """Give a single open call as the question that nobody answered.

    A resume answers that one itself, with a failed observation, and the model asks again; a call without an
    observation would be refused by its provider (formats/rivumi.md 5, and 9, weakness 5).
    """
    if len(open_calls) != 1:
        return None
    call = open_calls[0]
    effect: Literal["read", "modify", "execute"] = "execute"
    if call.effect in {"read", "modify"}:
        effect = "read" if call.effect == "read" else "modify"
    given: dict[str, Json] = {
        "tool_call_id": call.id,
        "name": call.name,
        "arguments": call.input if isinstance(call.input, dict) else {},
    }
    return approval_request(child, effect, call=given, shown=_UNANSWERED)


def _request(request: Request, task_id: str, base_sha: str) -> tuple[bytes, list[str]]:
    """Give the task of the new run; members of later generations go where they say nothing."""
    raw = {**request.raw, "task_id": task_id, "base_sha": base_sha}
    dropped = [name for name in ("enabled_skills", "attachments") if raw.pop(name, None)]
    limits = Members(request.raw).object("limits")
    if limits is not None and "max_total_tokens" in limits:
        raw["limits"] = {name: value for name, value in limits.items() if name != "max_total_tokens"}
        if limits["max_total_tokens"] is not None:
            dropped.append("limits.max_total_tokens")
    refusal = schema.taken("request", raw)
    if isinstance(refusal, schema.Refusal):
        text = f"request.json: {refusal.where or 'as a whole'}: {refusal.what}"
        raise NoForkHere(text, code="request")
    told = f"not carried over, since earlier programs could not read the run: {', '.join(dropped)}"
    return canonical(raw), [told] if dropped else []


def _notes(
    prefix: Sequence[Event],
    state: EventsState,
    manifest: Manifest,
    request: Request,
    carried: Carried,
    open_calls: tuple[OpenInFork, ...],
) -> Iterable[str]:
    if any(event.sequence != number for number, event in enumerate(prefix)):
        yield "events are missing before this point"
    if any(earlier.line > later.line for earlier, later in pairwise(prefix)):
        yield "the events before this point are out of order in the file"
    if len(open_calls) > 1:
        yield (
            f"{len(open_calls)} calls have no result in the conversation, which providers refuse: "
            "take a point between turns, or claim it from Python with a decision for each"
        )
    elif open_calls:
        yield "the pending call is not run: a resume tells the model that it came to nothing"
    if any(call.started for call in open_calls):
        yield "a call was started before this point: what it did outside the workspace stays done"
    for life in state.open_calls:
        if life.is_check:
            yield f"the check {life.name} was started before this point, and runs again when the work is done"
    if manifest.raw.get("granted_effects"):
        yield "permissions that were granted for the whole session are asked for again"
    if carried.step >= request.max_steps:
        yield f"all {request.max_steps} steps that the task allows are used: it would end at once"
    if prefix[-1].event_type in ENDS:
        yield "the run had ended here: its program asks the model once more"


def session_fork_json(plan: SessionForkPlan) -> dict[str, Json]:
    """Give a plan as `refold fork --plan --json` prints it."""
    own: dict[str, Json] = {"tree": plan.tree, "base_sha": plan.base_sha, "repository": plan.repository}
    return {**plan_json(plan), **own}
