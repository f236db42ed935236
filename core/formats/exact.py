"""A whole line read exactly as the original reads it: slower, and right for every line.

The quick reading in `neutral_quick`, `wire_quick` and `meta_quick` refuses whatever is unusual; then this one
decides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from refold.core.errors import BadRecord
from refold.core.formats.fields import MAX_SEQ, flag_of, is_time, members, text_of, whole_of
from refold.core.formats.meta_quick import PROVIDER_VERSION, read_meta
from refold.core.formats.neutral import Block, ToolResult
from refold.core.formats.tolerant import Node, parse, plain
from refold.core.records import (
    AssistantRecord,
    Decision,
    Fingerprint,
    ForkOrigin,
    IncompleteRecord,
    Json,
    Message,
    MetaRecord,
    Record,
    Resumed,
    TerminalRecord,
    ToolResultRecord,
    UnknownRecord,
    UserRecord,
)

_META = b'.meta"'
_OPENING = 200
"""Within so many bytes of its start a line says that it is a meta record."""
_REMEMBERED = 65_536
"""Meta lines up to this many bytes are remembered."""


class Dialect(NamedTuple):
    """What differs between formats and versions in the reading of a line."""

    prefix: str
    """What stands before the kind in a protocol id."""
    neutral: bool
    """Blocks are the single-key objects of version 3; otherwise they are wire blocks, kept verbatim."""
    native: bool
    """The optional fields of our own journal are read; elsewhere they are unknown keys."""
    lenient: bool = False
    """What has the wrong type is passed over instead of refusing the line (newer versions, lists)."""


class _Fingerprint:
    def __init__(self) -> None:
        self.texts = {"model": "", "system_hash": "", "tools_hash": "", "thinking_mode": ""}
        self.numbers = {"max_tokens": 0, "max_iterations": 0}
        self.provider: str | None = None

    def read(self, node: Node) -> None:
        for key, value in members(node, "fingerprint"):
            if key in self.texts:
                self.texts[key] = text_of(value, self.texts[key], key)
            elif key in self.numbers:
                self.numbers[key] = whole_of(value, self.numbers[key], key)
            elif key == "provider" and value is not None:
                self.provider = text_of(value, "", key)

    def value(self) -> Fingerprint:
        return Fingerprint(
            model=self.texts["model"],
            system_hash=self.texts["system_hash"],
            tools_hash=self.texts["tools_hash"],
            thinking_mode=self.texts["thinking_mode"],
            max_tokens=self.numbers["max_tokens"],
            max_iterations=self.numbers["max_iterations"],
            provider=self.provider,
        )


class _Message:
    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.role = ""
        self.blocks: list[Block] | None = None
        self.verbatim: tuple[Json, ...] | None = None

    def read(self, node: Node) -> None:
        for key, value in members(node, "message"):
            if key == "role":
                self.role = text_of(value, self.role, "role")
            elif key == "content":
                self._read_content(value)

    def _read_content(self, node: Node) -> None:
        if node is None:
            self.blocks = self.verbatim = None
        elif not isinstance(node, list):
            raise BadRecord("content of a message is no list")
        elif not self.dialect.neutral:
            self.verbatim = tuple(plain(item) for item in node)
        else:
            blocks = (self.blocks or [])[: len(node)]
            blocks.extend(Block() for _ in range(len(node) - len(blocks)))
            try:
                for block, item in zip(blocks, node, strict=True):
                    block.read(item)
            except BadRecord:
                if not self.dialect.lenient:
                    raise
                self.verbatim = tuple(plain(item) for item in node)
            else:
                self.blocks = blocks

    def value(self) -> Message:
        if self.blocks is None:
            return Message(self.role, self.verbatim)
        return Message(self.role, tuple(block.json() for block in self.blocks))


class _Payload(ABC):
    """A payload being read; `null` before it or after it makes it missing again."""

    kind = ""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.resumed: Resumed | None = None

    def read(self, node: Node) -> None:
        for key, value in members(node, self.kind):
            try:
                if key == "resumed" and self.dialect.native:
                    self.resumed = _resumed(value)
                else:
                    self.take(key, value)
            except BadRecord:
                if not self.dialect.lenient:
                    raise

    @abstractmethod
    def take(self, key: str, value: Node) -> None:
        """Take one member; unknown keys are passed over."""

    @abstractmethod
    def record(self, seq: int, time: str | None) -> Record:
        """Give the record that the payload stands for."""


class _Meta(_Payload):
    kind = "meta"

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.version = 0
        self.run_id = ""
        self.created = ""
        self.fingerprint = _Fingerprint()
        self.prompt = ""
        self.interactive = False
        self.forked_from: ForkOrigin | None = None

    def take(self, key: str, value: Node) -> None:
        if key == "version":
            self.version = whole_of(value, self.version, key)
        elif key == "run_id":
            self.run_id = text_of(value, self.run_id, key)
        elif key == "created":
            if value is not None and not (isinstance(value, str) and is_time(value)):
                raise BadRecord("created is no RFC 3339 time")
            self.created = text_of(value, self.created, key)
        elif key == "fingerprint":
            self.fingerprint.read(value)
        elif key == "prompt":
            self.prompt = text_of(value, self.prompt, key)
        elif key == "interactive":
            self.interactive = flag_of(value, key, old=self.interactive)
        elif key == "forked_from" and self.dialect.native:
            self.forked_from = _fork_origin(value)

    def record(self, seq: int, time: str | None) -> MetaRecord:
        fingerprint = self.fingerprint
        if self.version >= PROVIDER_VERSION and fingerprint.provider is None:
            fingerprint.provider = ""
        return MetaRecord(
            version=self.version,
            run_id=self.run_id,
            created=self.created,
            fingerprint=fingerprint.value(),
            prompt=self.prompt,
            interactive=self.interactive,
            forked_from=self.forked_from,
            seq=seq,
            time=time,
        )


class _Assistant(_Payload):
    kind = "assistant"

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.message = _Message(dialect)
        self.stop_reason = ""
        self.numbers = {
            "iteration": 0,
            "in_tokens": 0,
            "out_tokens": 0,
            "cache_read_tokens": 0,
            "cache_create_tokens": 0,
        }

    def take(self, key: str, value: Node) -> None:
        if key in self.numbers:
            self.numbers[key] = whole_of(value, self.numbers[key], key)
        elif key == "message":
            self.message.read(value)
        elif key == "stop_reason":
            self.stop_reason = text_of(value, self.stop_reason, key)

    def record(self, seq: int, time: str | None) -> AssistantRecord:
        return AssistantRecord(
            message=self.message.value(),
            iteration=self.numbers["iteration"],
            stop_reason=self.stop_reason,
            in_tokens=self.numbers["in_tokens"],
            out_tokens=self.numbers["out_tokens"],
            cache_read_tokens=self.numbers["cache_read_tokens"],
            cache_create_tokens=self.numbers["cache_create_tokens"],
            seq=seq,
            time=time,
            resumed=self.resumed,
        )


class _User(_Payload):
    kind = "user"

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.message = _Message(dialect)

    def take(self, key: str, value: Node) -> None:
        if key == "message":
            self.message.read(value)

    def record(self, seq: int, time: str | None) -> UserRecord:
        return UserRecord(message=self.message.value(), seq=seq, time=time, resumed=self.resumed)


class _Result(_Payload):
    kind = "tool_result"

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.tool_use_id = ""
        self.result = ToolResult()
        self.verbatim: Json = None
        self.remote = False
        self.decision: Decision | None = None

    def take(self, key: str, value: Node) -> None:
        if key == "tool_use_id":
            self.tool_use_id = text_of(value, self.tool_use_id, key)
        elif key == "remote":
            self.remote = flag_of(value, key, old=self.remote)
        elif key == "result":
            if self.dialect.neutral:
                self.result.read(value)
            else:
                self.verbatim = plain(value)
        elif key == "decision" and self.dialect.native:
            self.decision = _decision(value)

    def record(self, seq: int, time: str | None) -> ToolResultRecord:
        return ToolResultRecord(
            tool_use_id=self.tool_use_id,
            result=self.result.json() if self.dialect.neutral else self.verbatim,
            remote=self.remote,
            decision=self.decision,
            seq=seq,
            time=time,
            resumed=self.resumed,
        )


class _Terminal(_Payload):
    kind = "terminal"

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.reason = ""
        self.message = ""

    def take(self, key: str, value: Node) -> None:
        if key == "reason":
            self.reason = text_of(value, self.reason, key)
        elif key == "message":
            self.message = text_of(value, self.message, key)

    def record(self, seq: int, time: str | None) -> TerminalRecord:
        return TerminalRecord(self.reason, self.message, seq=seq, time=time, resumed=self.resumed)


_PAYLOADS: Mapping[str, Callable[[Dialect], _Payload]] = {
    payload.kind: payload for payload in (_Meta, _Assistant, _User, _Result, _Terminal)
}


def seems_meta(line: bytes) -> bool:
    """Say at little cost whether a line calls itself a meta record: the quick readings know none."""
    return _META in line[:_OPENING]


def read(line: bytes, dialect: Dialect) -> Record:
    """Read one line as the original would.

    Args:
        line: the bytes between two newlines; `null` and `{}` are empty records.
        dialect: the format and version it was written in.

    Raises:
        BadRecord: it is no JSON, or a member has a type that the original refuses.
    """
    # A meta line is read for the version, for the index and for its record: once is enough.
    if len(line) <= _REMEMBERED and seems_meta(line):
        return _read_again(line, dialect)
    return _read(line, dialect)


def _read(line: bytes, dialect: Dialect) -> Record:
    node = parse(line)
    seq = 0
    time: str | None = None
    protocol = ""
    payloads: dict[str, _Payload] = {}
    for key, value in members(node, "the line"):
        try:
            if key == "seq":
                seq = whole_of(value, seq, key, low=0, high=MAX_SEQ)
            elif key == "protocol":
                protocol = text_of(value, protocol, key)
            elif key == "time" and dialect.native and value is not None:
                time = text_of(value, "", key)
            elif key in _PAYLOADS and value is None:
                payloads.pop(key, None)
            elif key in _PAYLOADS:
                payloads.setdefault(key, _PAYLOADS[key](dialect)).read(value)
        except BadRecord:
            if not dialect.lenient:
                raise
    kind = protocol.removeprefix(dialect.prefix)
    if kind == protocol or kind not in _PAYLOADS:
        return UnknownRecord(protocol, seq=seq, time=time)
    if kind in payloads:
        return payloads[kind].record(seq, time)
    return IncompleteRecord(kind, seq=seq, time=time)


@lru_cache(maxsize=2)
def _read_again(line: bytes, dialect: Dialect) -> Record:
    found = read_meta(line, f"{dialect.prefix}meta", timed=dialect.native)
    return _read(line, dialect) if found is None else found


def _fork_origin(node: Node) -> ForkOrigin | None:
    if node is None:
        return None
    texts = {"run_id": "", "prefix_sha256": "", "reason": ""}
    seq = 0
    for key, value in members(node, "forked_from"):
        if key in texts:
            texts[key] = text_of(value, texts[key], key)
        elif key == "seq":
            seq = whole_of(value, seq, key, low=0, high=MAX_SEQ)
    return ForkOrigin(texts["run_id"], seq, texts["prefix_sha256"], texts["reason"])


def _decision(node: Node) -> Decision | None:
    if node is None:
        return None
    texts = {"choice": "", "text": ""}
    for key, value in members(node, "decision"):
        if key in texts:
            texts[key] = text_of(value, texts[key], key)
    return Decision(texts["choice"], texts["text"])


def _resumed(node: Node) -> Resumed | None:
    if node is None:
        return None
    forced = False
    reason = ""
    fingerprint: Fingerprint | None = None
    for key, value in members(node, "resumed"):
        if key == "forced":
            forced = flag_of(value, key, old=forced)
        elif key == "reason":
            reason = text_of(value, reason, key)
        elif key == "fingerprint" and value is not None:
            reading = _Fingerprint()
            reading.read(value)
            fingerprint = reading.value()
    return Resumed(forced, reason, fingerprint)
