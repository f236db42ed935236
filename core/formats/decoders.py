"""Line decoders of the one-file formats, one class for each shape of message blocks.

A decoder first tries the quick reading; whatever that refuses is read exactly. Both readings give
equal answers wherever the quick one gives any.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import msgspec

from refold.core.formats import CallColumns, Columns
from refold.core.formats.exact import PROVIDER_VERSION, Dialect, read
from refold.core.formats.gojson import keep_spelling
from refold.core.formats.neutral import thinking_json
from refold.core.formats.quick import (
    FingerprintPart,
    MetaPart,
    NeutralBlock,
    NeutralLine,
    ResultPart,
    WireLine,
    read_neutral,
    read_wire,
)
from refold.core.formats.tolerant import parse, plain
from refold.core.records import (
    AssistantRecord,
    Fingerprint,
    IncompleteRecord,
    Json,
    Message,
    MetaRecord,
    Record,
    TerminalRecord,
    ToolResultRecord,
    UserRecord,
)

_TEXT = msgspec.json.Decoder(str)
_ANY = msgspec.json.Decoder()


class LineDecoder(ABC):
    """What the decoders of both shapes share: the version, the protocol ids, the exact reading."""

    def __init__(self, dialect: Dialect, version: int, supported: int) -> None:
        self.dialect = dialect._replace(lenient=version > supported)
        self.version = version
        self.supported = supported
        self._meta = f"{dialect.prefix}meta"
        self._assistant = f"{dialect.prefix}assistant"
        self._user = f"{dialect.prefix}user"
        self._result = f"{dialect.prefix}tool_result"
        self._terminal = f"{dialect.prefix}terminal"

    @property
    def readable(self) -> bool:
        """False where the version is newer than we fold."""
        return self.version <= self.supported

    @abstractmethod
    def record(self, line: bytes) -> Record:
        """Decode one line strictly; raise BadRecord where the original would fail."""

    @abstractmethod
    def columns(self, line: bytes) -> Columns:
        """Decode just what the index needs; raise BadRecord where the line is no record."""

    @abstractmethod
    def calls(self, content: tuple[Json, ...] | None) -> tuple[tuple[str, str, Json], ...]:
        """Give id, name and input of each client tool call among blocks."""

    def result_is_error(self, result: Json) -> bool:
        """Say whether a result block tells of a failure."""
        return isinstance(result, dict) and result.get("is_error") is True

    def _exact(self, line: bytes) -> Record:
        return read(line, self.dialect)

    def _exact_columns(self, line: bytes) -> Columns:
        record = self._exact(line)
        seq, time = record.seq, record.time
        if isinstance(record, AssistantRecord):
            return Columns(
                "assistant",
                seq,
                time,
                role=record.message.role,
                iteration=record.iteration,
                stop_reason=record.stop_reason,
                in_tokens=record.in_tokens,
                out_tokens=record.out_tokens,
                cache_read_tokens=record.cache_read_tokens,
                cache_create_tokens=record.cache_create_tokens,
                calls=tuple(CallColumns(id_, name) for id_, name, _ in self.calls(record.message.content)),
            )
        if isinstance(record, ToolResultRecord):
            return Columns(
                "tool_result",
                seq,
                time,
                tool_use_id=record.tool_use_id,
                remote=record.remote,
                is_error=self.result_is_error(record.result),
            )
        if isinstance(record, TerminalRecord):
            return Columns("terminal", seq, time, reason=record.reason)
        if isinstance(record, UserRecord):
            return Columns("user", seq, time, role=record.message.role)
        if isinstance(record, MetaRecord):
            return Columns("meta", seq, time)
        if isinstance(record, IncompleteRecord):
            return Columns(f"incomplete:{record.kind}", seq, time)
        return Columns(f"unknown:{record.protocol}", seq, time)

    def _plain_columns(self, found: NeutralLine | WireLine, time: str | None) -> Columns | None:
        """Give the columns of a line that has no message; None where payload and protocol differ."""
        if found.terminal is not None and found.protocol == self._terminal:
            return Columns("terminal", found.seq, time, reason=found.terminal.reason)
        if found.meta is not None and found.protocol == self._meta:
            return Columns("meta", found.seq, time)
        return None

    def _plain_record(self, found: NeutralLine | WireLine, time: str | None) -> Record | None:
        """Give the record of a line that has no message; None where payload and protocol differ."""
        if found.terminal is not None and found.protocol == self._terminal:
            return TerminalRecord(found.terminal.reason, found.terminal.message, seq=found.seq, time=time)
        if found.meta is not None and found.protocol == self._meta:
            return _meta_record(found.meta, found.seq, time)
        return None


class NeutralDecoder(LineDecoder):
    """Reads version 3 of fisk-ai: blocks are objects of one key (formats/fisk-ai.md 1.4)."""

    def columns(self, line: bytes) -> Columns:
        """Decode just what the index needs; raise BadRecord where the line is no record."""
        found = read_neutral(line)
        if found is None:
            return self._exact_columns(line)
        if (answer := found.tool_result) is not None:
            if found.protocol == self._result:
                return Columns(
                    "tool_result",
                    found.seq,
                    tool_use_id=answer.tool_use_id,
                    remote=answer.remote,
                    is_error=answer.result.is_error,
                )
        elif (reply := found.assistant) is not None:
            if found.protocol == self._assistant:
                return Columns(
                    "assistant",
                    found.seq,
                    role=reply.message.role,
                    iteration=reply.iteration,
                    stop_reason=reply.stop_reason,
                    in_tokens=reply.in_tokens,
                    out_tokens=reply.out_tokens,
                    cache_read_tokens=reply.cache_read_tokens,
                    cache_create_tokens=reply.cache_create_tokens,
                    calls=tuple(
                        [
                            CallColumns(call.id, call.name)
                            for block in reply.message.content or ()
                            if (call := block.tool_use) is not None
                        ]
                    ),
                )
        elif found.user is not None:
            if found.protocol == self._user:
                return Columns("user", found.seq, role=found.user.message.role)
        elif (columns := self._plain_columns(found, None)) is not None:
            return columns
        return self._exact_columns(line)

    def record(self, line: bytes) -> Record:
        """Decode one line strictly; raise BadRecord where the original would fail."""
        found = read_neutral(line)
        if found is not None:
            try:
                record = self._quick_record(found)
            except msgspec.MsgspecError:
                record = None
            if record is not None:
                return record
        return self._exact(line)

    def calls(self, content: tuple[Json, ...] | None) -> tuple[tuple[str, str, Json], ...]:
        """Give id, name and input of each block that has a `tool_use`."""
        found: list[tuple[str, str, Json]] = []
        for block in content or ():
            call = block.get("tool_use") if isinstance(block, dict) else None
            if isinstance(call, dict):
                found.append((_text(call.get("id")), _text(call.get("name")), call.get("input")))
        return tuple(found)

    def prompt_content(self, prompt: str) -> tuple[Json, ...]:
        """Give the blocks of the user message that a prompt stands for."""
        return ({"text": {"text": prompt}},)

    def result_content(self, result: Json) -> Json:
        """Give the block that stands for a result in a message: the result, wrapped."""
        return {"tool_result": result}

    def _quick_record(self, found: NeutralLine) -> Record | None:
        seq = found.seq
        if (answer := found.tool_result) is not None and found.protocol == self._result:
            return ToolResultRecord(answer.tool_use_id, _result(answer.result), answer.remote, seq=seq)
        if (reply := found.assistant) is not None and found.protocol == self._assistant:
            return AssistantRecord(
                Message(reply.message.role, _blocks(reply.message.content)),
                reply.iteration,
                reply.stop_reason,
                reply.in_tokens,
                reply.out_tokens,
                reply.cache_read_tokens,
                reply.cache_create_tokens,
                seq,
            )
        if (follow_up := found.user) is not None and found.protocol == self._user:
            return UserRecord(Message(follow_up.message.role, _blocks(follow_up.message.content)), seq)
        return self._plain_record(found, None)


class WireDecoder(LineDecoder):
    """Reads version 2 and older of fisk-ai, and our own journal: wire blocks, kept verbatim (1.5)."""

    def columns(self, line: bytes) -> Columns:
        """Decode just what the index needs; raise BadRecord where the line is no record."""
        found = read_wire(line)
        if found is None:
            return self._exact_columns(line)
        time = found.time if self.dialect.native else None
        if (answer := found.tool_result) is not None:
            if found.protocol == self._result:
                return Columns(
                    "tool_result",
                    found.seq,
                    time,
                    tool_use_id=answer.tool_use_id,
                    remote=answer.remote,
                    is_error=answer.result.is_error,
                )
        elif (reply := found.assistant) is not None:
            if found.protocol == self._assistant:
                return Columns(
                    "assistant",
                    found.seq,
                    time,
                    role=reply.message.role,
                    iteration=reply.iteration,
                    stop_reason=reply.stop_reason,
                    in_tokens=reply.in_tokens,
                    out_tokens=reply.out_tokens,
                    cache_read_tokens=reply.cache_read_tokens,
                    cache_create_tokens=reply.cache_create_tokens,
                    calls=tuple(
                        [
                            CallColumns(block.id, block.name)
                            for block in reply.message.content
                            if block.type == "tool_use"
                        ]
                    ),
                )
        elif found.user is not None:
            if found.protocol == self._user:
                return Columns("user", found.seq, time, role=found.user.message.role)
        elif (columns := self._plain_columns(found, time)) is not None:
            return columns
        return self._exact_columns(line)

    def record(self, line: bytes) -> Record:
        """Decode one line strictly; raise BadRecord where the original would fail."""
        found = read_wire(line)
        if found is not None:
            try:
                record = self._quick_record(found, line)
            except (msgspec.MsgspecError, RecursionError):
                record = None
            if record is not None:
                return record
        return self._exact(line)

    def calls(self, content: tuple[Json, ...] | None) -> tuple[tuple[str, str, Json], ...]:
        """Give id, name and input of each block of the type `tool_use`; server calls do not count."""
        return tuple(
            (_text(block.get("id")), _text(block.get("name")), block.get("input"))
            for block in content or ()
            if isinstance(block, dict) and block.get("type") == "tool_use"
        )

    def prompt_content(self, prompt: str) -> tuple[Json, ...]:
        """Give the blocks of the user message that a prompt stands for."""
        return ({"text": prompt, "type": "text"},)

    def result_content(self, result: Json) -> Json:
        """Give the block that stands for a result in a message: the result itself."""
        return result

    def _quick_record(self, found: WireLine, line: bytes) -> Record | None:
        seq = found.seq
        time = found.time if self.dialect.native else None
        if (answer := found.tool_result) is not None and found.protocol == self._result:
            result: Json = _ANY.decode(line)["tool_result"]["result"]
            return ToolResultRecord(answer.tool_use_id, result, answer.remote, seq=seq, time=time)
        if (reply := found.assistant) is not None and found.protocol == self._assistant:
            content: list[Json] = _ANY.decode(line)["assistant"]["message"]["content"]
            return AssistantRecord(
                Message(reply.message.role, tuple(content)),
                reply.iteration,
                reply.stop_reason,
                reply.in_tokens,
                reply.out_tokens,
                reply.cache_read_tokens,
                reply.cache_create_tokens,
                seq,
                time,
            )
        if (follow_up := found.user) is not None and found.protocol == self._user:
            content = _ANY.decode(line)["user"]["message"]["content"]
            return UserRecord(Message(follow_up.message.role, tuple(content)), seq, time)
        return self._plain_record(found, time)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _meta_record(part: MetaPart, seq: int, time: str | None) -> MetaRecord:
    return MetaRecord(
        version=part.version,
        run_id=part.run_id,
        created=part.created,
        fingerprint=_fingerprint(part.fingerprint, part.version),
        prompt=part.prompt,
        interactive=part.interactive,
        seq=seq,
        time=time,
    )


def _fingerprint(part: FingerprintPart, version: int) -> Fingerprint:
    provider = part.provider
    if provider is None and version >= PROVIDER_VERSION:
        provider = ""
    return Fingerprint(
        part.model,
        part.system_hash,
        part.tools_hash,
        part.thinking_mode,
        part.max_tokens,
        part.max_iterations,
        provider,
    )


def _result(part: ResultPart) -> Json:
    result: dict[str, Json] = {
        "tool_use_id": part.tool_use_id,
        "content": _TEXT.decode(memoryview(part.content)),
    }
    if part.is_error:
        result["is_error"] = True
    return result


def _blocks(blocks: list[NeutralBlock] | None) -> tuple[Json, ...] | None:
    return None if blocks is None else tuple(_block(block) for block in blocks)


def _block(part: NeutralBlock) -> Json:
    """Give a block as the original would write it: the variants in its order, empty ones left out."""
    block: dict[str, Json] = {}
    if part.text is not None:
        block["text"] = {"text": _TEXT.decode(memoryview(part.text.text))}
    if part.thinking is not None:
        thinking = part.thinking
        block["thinking"] = thinking_json(_TEXT.decode(memoryview(thinking.text)), thinking.signature)
    if part.tool_use is not None:
        call = part.tool_use
        block["tool_use"] = {"id": call.id, "name": call.name, "input": _raw(call.input)}
    if part.tool_result is not None:
        block["tool_result"] = _result(part.tool_result)
    if part.provider is not None:
        block["provider"] = {"kind": part.provider.kind, "raw": _raw(part.provider.raw)}
    return block


def _raw(raw: msgspec.Raw) -> Json:
    """Give opaque JSON as a value; what only the exact reading takes (1e999, odd bytes) is read by it."""
    text = bytes(raw)
    try:
        value: Json = _ANY.decode(text)
    except msgspec.MsgspecError:
        value = plain(parse(text))
    return keep_spelling(value, text)
