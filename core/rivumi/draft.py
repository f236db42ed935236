"""The manifest of a run as a value that can be changed and written (formats/rivumi.md 3).

A change is a copy. Each member keeps its bytes from one copy to the next, and what is added to a list is
added to its bytes, so that an event costs the encoding of what it changes, not of the whole conversation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from refold.core.errors import BadRecord
from refold.core.records import Json
from refold.core.rivumi import schema
from refold.core.rivumi.budget import seconds_of
from refold.core.rivumi.canonical import canonical, time_text
from refold.core.rivumi.events import json_object
from refold.core.rivumi.items import usage
from refold.core.rivumi.manifest import FIRST_FIELDS

PROMPT: Final = "refold-1"
"""The prompt version of a new run whose agent names none."""

_FIXED = frozenset({"schema_version", "run_id", "task_id", "base_sha", "last_event_sequence", "terminal"})
_LEASE = frozenset({"active_writer_token", "writer_claimed_at", "writer_heartbeat_at", "updated_at"})
_CLOCK = frozenset({"active_started_at", "active_wall_time_seconds"})
_LISTS = ("messages", "approval_history", "verification", "model_usage")
_SCHEMA = frozenset({*FIRST_FIELDS, "model_usage", "verified_workspace_fingerprint"})
_WORKS = frozenset({"running", "verifying"})
"""Phases in which the time counts; a question that waits for its answer stops the clock, as in G3."""


class SessionManifest:
    """One state of `session.json`; its keys are those of the run it belongs to, unknown ones too."""

    def __init__(self, fields: Mapping[str, Json], parts: Mapping[str, bytes]) -> None:
        self._fields = fields
        self._parts = parts

    @classmethod
    def new(
        cls,
        *,
        run_id: str,
        task_id: str,
        provider: str,
        model: str,
        protocol: str,
        base_sha: str,
        prompt_version: str = PROMPT,
    ) -> SessionManifest:
        """Give the manifest of a run in which nothing has happened: exactly the keys of G1.

        Raises:
            BadRecord: the originals would not take it.
        """
        said: dict[str, Json] = {
            "run_id": run_id,
            "task_id": task_id,
            "provider_name": provider,
            "model_id": model,
            "protocol": protocol,
            "prompt_version": prompt_version,
            "base_sha": base_sha,
        }
        fields: dict[str, Json] = {name: said.get(name) for name in FIRST_FIELDS}
        fields |= {
            "schema_version": 1,
            "phase": "created",
            "step": 0,
            "usage": usage(),
            "final_summary": "",
            "repeat_count": 0,
            "last_event_sequence": -1,
            "active_wall_time_seconds": 0.0,
            "terminal": False,
        }
        fields |= {name: [] for name in (*_LISTS[:3], "granted_effects")}
        # The first time is that of the claim, which is the first writing.
        _require_taken(fields)
        return cls(fields, _encoded(fields))

    @classmethod
    def read(cls, data: bytes) -> SessionManifest:
        """Give the manifest that some bytes hold, every key of it kept.

        Raises:
            BadRecord: they hold no object.
        """
        json_object(data)
        # The standard decoder keeps numbers of any size; the quick one has said that the bytes are sound.
        try:
            fields: dict[str, Json] = json.loads(data)
        except ValueError as error:
            raise BadRecord(f"session.json cannot be taken as it is: {error}") from error
        return cls(fields, _encoded(fields))

    def __getitem__(self, name: str) -> Json:
        return self._fields[name]

    def get(self, name: str, default: Json = None) -> Json:
        """Give a member, or something else where this generation does not have it."""
        return self._fields.get(name, default)

    @property
    def keys(self) -> frozenset[str]:
        """The keys that are written."""
        return frozenset(self._fields)

    @property
    def run_id(self) -> str:
        """Which run this is the state of."""
        return str(self._fields["run_id"])

    @property
    def task_id(self) -> str:
        """Which task it works on."""
        return str(self._fields["task_id"])

    @property
    def token(self) -> str:
        """The token of the lease that this value belongs to; empty before a claim."""
        return str(self._fields.get("active_writer_token") or "")

    @property
    def last_event_sequence(self) -> int:
        """The last event that this state takes account of; -1 before the first."""
        return _whole(self._fields.get("last_event_sequence"), -1)

    @property
    def phase(self) -> str:
        """Where the run stands."""
        return str(self._fields.get("phase", "created"))

    @property
    def step(self) -> int:
        """The turns of the model that were begun."""
        return _whole(self._fields.get("step"), 0)

    @property
    def messages(self) -> tuple[Json, ...]:
        """The conversation."""
        items = self._fields.get("messages")
        return tuple(items) if isinstance(items, list | tuple) else ()

    def encode(self) -> bytes:
        """Give the bytes of `session.json`."""
        return b"{" + b",".join([self._parts[name] for name in sorted(self._parts)]) + b"}"

    def changed(
        self, state: Mapping[str, Json], *, add: Mapping[str, Iterable[Json]] | None = None
    ) -> SessionManifest:
        """Give the manifest with other members, and with items added to its lists.

        Raises:
            BadRecord: a key that this run does not have or nobody may set, or a value that the originals
                would not take.
        """
        values = {name: _in_order(name, value) for name, value in state.items()}
        if "phase" in values:
            values["terminal"] = values["phase"] in schema.ENDED
        try:
            added = {name: list(items) for name, items in (add or {}).items()}
        except TypeError as error:
            raise BadRecord(f"messages, approvals and checks are lists of items: {error}") from error
        self._require_known({**state, **added})
        # What stands in the lists already was checked when it was added.
        small = {name: value for name, value in self._fields.items() if name in _SCHEMA.difference(_LISTS)}
        _require_taken({**small, **values, **added})
        if "model_usage" not in self._fields:
            _require_first(values | added)
        return self._with(values, {name: items for name, items in added.items() if items})

    def at(self, sequence: int) -> SessionManifest:
        """Give the manifest that takes account of the event at a sequence."""
        return self._with({"last_event_sequence": sequence})

    def claimed(self, token: str, now: datetime) -> SessionManifest:
        """Give the manifest as a new lease takes it over."""
        time = time_text(now)
        claim = {"active_writer_token": token, "writer_claimed_at": time}
        return self._with({**claim, "writer_heartbeat_at": time, "updated_at": time})

    def stamped(self, now: datetime) -> SessionManifest:
        """Give the manifest with the time of its writing in it, without a writer."""
        return self._with({"updated_at": time_text(now)})

    def beating(self, now: datetime) -> SessionManifest:
        """Give the manifest with the time of its writing in it."""
        time = time_text(now)
        return self._with({"writer_heartbeat_at": time, "updated_at": time})

    def timed(self, now: datetime) -> SessionManifest:
        """Give the manifest whose clock runs exactly while its phase is one of work."""
        works, started = self.phase in _WORKS, self._fields.get("active_started_at")
        if works == (started is not None):
            return self
        if works:
            return self._with({"active_started_at": time_text(now)})
        return self._stopped(now.timestamp())

    def without_dead_time(self) -> SessionManifest:
        """Give the manifest with its clock stopped where its last writer was last heard of."""
        heard = seconds_of(str(self._fields.get("writer_heartbeat_at") or ""))
        started = self._fields.get("active_started_at")
        return self if started is None else self._stopped(heard or 0.0)

    def _stopped(self, at: float) -> SessionManifest:
        began = seconds_of(str(self._fields.get("active_started_at")))
        used = self._fields.get("active_wall_time_seconds")
        before = float(used) if isinstance(used, int | float) else 0.0
        spent = 0.0 if began is None else max(0.0, at - began)
        return self._with({"active_started_at": None, "active_wall_time_seconds": before + spent})

    def _with(
        self, values: Mapping[str, Json], added: Mapping[str, list[Json]] | None = None
    ) -> SessionManifest:
        fields, parts = {**self._fields, **values}, {**self._parts, **_encoded(values)}
        for name, items in (added or {}).items():
            before = fields.get(name)
            fields[name] = [*(before if isinstance(before, list) else []), *items]
            head, more = parts[name], canonical(items)
            parts[name] = head[:-1] + (b"" if head.endswith(b"[]") else b",") + more[1:]
        return SessionManifest(fields, parts)

    def _require_known(self, given: Mapping[str, Json]) -> None:
        for name in given:
            if name in _FIXED | _LEASE | _CLOCK:
                raise BadRecord(f"{name} is not for the agent to set")
            if name not in self._fields:
                raise BadRecord(f"the manifest of this run has no {name}: its generation does not know it")


def _encoded(fields: Mapping[str, Json]) -> dict[str, bytes]:
    return {name: canonical(name) + b":" + canonical(value) for name, value in fields.items()}


def _in_order(name: str, value: Json) -> Json:
    """Give grants in one order, so that equal states are equal bytes (formats/rivumi.md 9, weakness 20)."""
    if name == "granted_effects" and isinstance(value, list):
        return [*sorted({str(item) for item in value})]
    return value


def _whole(value: Json, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _require_taken(fields: Mapping[str, Json]) -> None:
    given = {name: value for name, value in fields.items() if value is not None or name != "updated_at"}
    refusal = schema.taken("manifest", given)
    if isinstance(refusal, schema.Refusal):
        raise BadRecord(f"session.json: {refusal.where or 'as a whole'}: {refusal.what}")


def _require_first(values: Mapping[str, Json]) -> None:
    """Refuse what came with a later generation: the first one could not read the run any more."""
    messages = values.get("messages")
    for item in messages if isinstance(messages, list) else ():
        if isinstance(item, dict) and ("provider_metadata" in item or "item_type" in item):
            raise BadRecord(
                "messages: provider_metadata and injected context came with G2, this run is of G1"
            )
    small = canonical({name: value for name, value in values.items() if name != "messages"})
    if b'"modify_execute"' in small:
        raise BadRecord("the effect modify_execute came with G3; this run is of G1")
