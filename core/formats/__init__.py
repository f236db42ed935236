"""What a format offers to the rest of the core, which does not know the one it reads: see `registry`."""

from __future__ import annotations

from typing import Protocol

import msgspec

from refold.core.formats.usual import Usual
from refold.core.records import Json, MetaRecord, Record

HEAD_BYTES = 57_344
"""How much of the start of a file is looked at to tell its format and version."""


class CallColumns(msgspec.Struct, frozen=True):
    """A call as the index keeps it."""

    id: str
    name: str


class Columns(msgspec.Struct, frozen=True):
    """What the index takes from one line: no text, no payload."""

    kind: str
    """meta, assistant, user, tool_result, terminal; `incomplete:<kind>`; `unknown:<protocol>`."""
    seq: int = 0
    time: str | None = None
    role: str = ""
    """The recorded role of the message of an assistant or user record."""
    iteration: int = 0
    stop_reason: str = ""
    in_tokens: int = 0
    out_tokens: int = 0
    cache_read_tokens: int = 0
    cache_create_tokens: int = 0
    calls: tuple[CallColumns, ...] = ()
    """The client tool calls of an assistant record, in block order."""
    tool_use_id: str = ""
    remote: bool = False
    is_error: bool = False
    reason: str = ""
    """The reason of a terminal record."""


class Decoder(Protocol):
    """Reads the lines of one run in the version that its meta record names."""

    version: int
    """The version the run was written in; 0 where the meta record names none."""
    supported: int
    """The newest version of this format that we fold."""

    @property
    def readable(self) -> bool:
        """False where the version is newer than we fold; lines may still be decoded to be shown."""
        ...

    @property
    def usual(self) -> Usual | None:
        """The quick reading of replies, results and ends; None where there is none."""
        ...

    def record(self, line: bytes) -> Record:
        """Decode one line strictly, as the original program would; raise BadRecord where it would fail."""
        ...

    def texts(self, line: bytes) -> tuple[str, ...]:
        """Give the texts of a reply, none for any other record; raise BadRecord as `record` does."""
        ...

    def columns(self, line: bytes) -> Columns:
        """Decode just what the index needs, fast; raise BadRecord where the line is no record."""
        ...

    def calls(self, content: tuple[Json, ...] | None) -> tuple[tuple[str, str, Json], ...]:
        """Give id, name and input of each client tool call among blocks, by the rule of this version."""
        ...

    def prompt_content(self, prompt: str) -> tuple[Json, ...]:
        """Give the blocks of the user message that a prompt stands for."""
        ...

    def result_of(self, call_id: str, text: str, *, is_error: bool) -> Json:
        """Give the result of a call as a tool result record of this version holds it."""
        ...

    def result_content(self, result: Json) -> Json:
        """Give the block that stands for a result in a message."""
        ...


class Format(Protocol):
    """One way in which agents write runs into a single file."""

    name: str
    """The word the user sees: refold, fisk-ai."""

    def decoder(self, head: bytes) -> Decoder:
        """Give the decoder for a run whose file starts with these bytes."""
        ...

    def opens(self, head: bytes) -> bool:
        """Say whether a file that starts with these bytes has its decoder, whatever follows them."""
        ...

    def meta(self, line: bytes) -> MetaRecord | None:
        """Read a meta record leniently for a list; None where the line is none."""
        ...
