"""The five records of a run, as values.

A record is what one line of a journal means; the bytes of that line stay the truth and are never
written again from these values. Sequence numbers and token counts are whole numbers, times are the
recorded text (RFC 3339), messages are role plus blocks in the shape of the version that wrote them
(formats/fisk-ai.md 1.3 to 1.5, architecture.md "Native journal").
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

VERSION = 2
"""The version of the native journal: any older one is read, a newer one is refused."""

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""Any JSON value, key order kept."""


class Message(msgspec.Struct, frozen=True):
    """One message of the conversation: a role and its blocks as they were written."""

    role: str = ""
    content: tuple[Json, ...] | None = None
    """The blocks in order; None where the writer recorded `null` or nothing."""


class Fingerprint(msgspec.Struct, frozen=True):
    """What a resume compares. Hashes only, never the prompt (formats/fisk-ai.md 4)."""

    model: str = ""
    system_hash: str = ""
    tools_hash: str = ""
    thinking_mode: str = ""
    max_tokens: int = 0
    max_iterations: int = 0
    provider: str | None = None
    """None where the version that wrote the run knows no provider."""


class ForkOrigin(msgspec.Struct, frozen=True):
    """Where a forked run comes from: the parent, the last sequence taken, and the hash of that prefix."""

    run_id: str = ""
    seq: int = 0
    prefix_sha256: str = ""
    reason: str = ""


class Resumed(msgspec.Struct, frozen=True):
    """What a resume did; stands on the first record appended after it (native journals)."""

    forced: bool = False
    reason: str = ""
    fingerprint: Fingerprint | None = None


class Decision(msgspec.Struct, frozen=True):
    """What a person decided about a call whose outcome nobody knew; stands on the result it led to."""

    choice: str
    """One of rerun, failed, done."""
    text: str = ""


class MetaRecord(msgspec.Struct, frozen=True):
    """The first record: which run this is and what it was started with."""

    version: int = 0
    run_id: str = ""
    created: str = ""
    """RFC 3339 as recorded, up to nine fraction digits; empty where missing."""
    fingerprint: Fingerprint = Fingerprint()
    prompt: str = ""
    interactive: bool = False
    forked_from: ForkOrigin | None = None
    seq: int = 0
    time: str | None = None


class AssistantRecord(msgspec.Struct, frozen=True):
    """One reply of the model, journaled before any of its calls runs."""

    message: Message = Message("assistant")
    iteration: int = 0
    stop_reason: str = ""
    in_tokens: int = 0
    out_tokens: int = 0
    cache_read_tokens: int = 0
    cache_create_tokens: int = 0
    seq: int = 0
    time: str | None = None
    resumed: Resumed | None = None


class UserRecord(msgspec.Struct, frozen=True):
    """A follow-up typed by the user."""

    message: Message = Message("user")
    seq: int = 0
    time: str | None = None
    resumed: Resumed | None = None


class ToolResultRecord(msgspec.Struct, frozen=True):
    """The result of one tool call, journaled the instant it exists."""

    tool_use_id: str = ""
    result: Json = None
    """The result block: v3 the inner object, v2 and native the wire block."""
    remote: bool = False
    decision: Decision | None = None
    seq: int = 0
    time: str | None = None
    resumed: Resumed | None = None


class TerminalRecord(msgspec.Struct, frozen=True):
    """Why the run stopped: completed, suspended, error, budget, max_iterations, or the recorded word."""

    reason: str = ""
    message: str = ""
    seq: int = 0
    time: str | None = None
    resumed: Resumed | None = None


class IncompleteRecord(msgspec.Struct, frozen=True):
    """A line whose protocol names a record but whose payload is missing."""

    kind: str
    """meta, assistant, user, tool_result or terminal."""
    seq: int = 0
    time: str | None = None


class UnknownRecord(msgspec.Struct, frozen=True):
    """A line whose protocol names no record that we know."""

    protocol: str
    seq: int = 0
    time: str | None = None


Record: TypeAlias = (
    MetaRecord
    | AssistantRecord
    | UserRecord
    | ToolResultRecord
    | TerminalRecord
    | IncompleteRecord
    | UnknownRecord
)
"""Anything that one readable line can be."""
