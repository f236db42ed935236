"""The quick reading of a version 3 line: the writer's own shape, checked in full without decoding a text.

Texts stay `Raw`, so a record of 50 MB costs one pass over its bytes. The check is by length: a line
that holds what was found in it, and nothing else, has exactly so many bytes. Any member more, a key
that stands twice, white space or an unusual escape makes it longer, and then
`refold.core.formats.exact` decides (formats/fisk-ai.md 1.4, 1.6).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from refold.core.formats.fields import MAX_INT, MAX_SEQ
from refold.core.formats.tolerant import FLAT, too_deep

_Int: TypeAlias = Annotated[int, Meta(ge=-MAX_INT - 1, le=MAX_INT)]
_QUOTE = 0x22
_EMPTY = Raw(b'""')


class TextPart(Struct, forbid_unknown_fields=True, gc=False):
    """The text variant of a block."""

    text: Raw


class ThinkingPart(Struct, forbid_unknown_fields=True, gc=False):
    """The thinking variant of a block."""

    text: Raw = _EMPTY
    signature: bytes = b""


class CallPart(Struct, forbid_unknown_fields=True, gc=False):
    """The call variant of a block."""

    id: str
    name: str
    input: Raw


class ResultPart(Struct, forbid_unknown_fields=True, gc=False):
    """A tool result, in a message or as the result of a record."""

    tool_use_id: str
    content: Raw
    is_error: bool = False


class ProviderPart(Struct, forbid_unknown_fields=True, gc=False):
    """The opaque variant of a block."""

    kind: str
    raw: Raw


class BlockPart(Struct, forbid_unknown_fields=True, gc=False):
    """One block."""

    text: TextPart | None = None
    thinking: ThinkingPart | None = None
    tool_use: CallPart | None = None
    tool_result: ResultPart | None = None
    provider: ProviderPart | None = None


class MessagePart(Struct, forbid_unknown_fields=True, gc=False):
    """One message."""

    role: str
    content: list[BlockPart] | None

    def calls(self) -> list[tuple[str, str]]:
        """Give id and name of each client tool call, in block order."""
        return [(call.id, call.name) for block in self.content or () if (call := block.tool_use) is not None]


class AssistantPart(Struct, forbid_unknown_fields=True, gc=False):
    """The payload of a reply."""

    iteration: _Int
    message: MessagePart
    in_tokens: _Int
    out_tokens: _Int
    stop_reason: str = ""
    cache_read_tokens: _Int = 0
    cache_create_tokens: _Int = 0


class UserPart(Struct, forbid_unknown_fields=True, gc=False):
    """The payload of a follow-up."""

    message: MessagePart


class AnswerPart(Struct, forbid_unknown_fields=True, gc=False):
    """The payload of a tool result."""

    tool_use_id: str
    result: ResultPart
    remote: bool = False


class TerminalPart(Struct, forbid_unknown_fields=True, gc=False):
    """The payload of an end."""

    reason: str
    message: Raw = _EMPTY


class NeutralLine(Struct, forbid_unknown_fields=True, gc=False):
    """One line; meta records are read elsewhere."""

    time: ClassVar[None] = None
    """Records of this version have none."""
    seq: int
    protocol: str
    assistant: AssistantPart | None = None
    tool_result: AnswerPart | None = None
    user: UserPart | None = None
    terminal: TerminalPart | None = None


_ENDS = (b"\n", b"\r", b"\r\n")
_decode = msgspec.json.Decoder(NeutralLine).decode

_ANSWER = len(
    '{"seq":,"protocol":"","tool_result":{"tool_use_id":"","result":{"tool_use_id":"","content":}}}'
)
_IS_ERROR = len(',"is_error":true')
_REMOTE = len(',"remote":true')
_USER = len('{"seq":,"protocol":"","user":{"message":{"role":"","content":}}}')
_ASSISTANT = len(
    '{"seq":,"protocol":"","assistant":'
    '{"iteration":,"message":{"role":"","content":},"in_tokens":,"out_tokens":}}'
)
_TERMINAL = len('{"seq":,"protocol":"","terminal":{"reason":""}}')
_MESSAGE = len(',"message":')
_STOP_REASON = len(',"stop_reason":""')
_CACHE_READ = len(',"cache_read_tokens":')
_CACHE_CREATE = len(',"cache_create_tokens":')
_TEXT = len('{"text":{"text":}},')
_CALL = len('{"tool_use":{"id":"","name":"","input":}},')
_THINKING = len('{"thinking":{}},')
_THOUGHT = len('"text":')
_SIGNATURE = len('"signature":""')
_RESULT = len('{"tool_result":{"tool_use_id":"","content":}},')
_PROVIDER = len('{"provider":{"kind":"","raw":}},')


def read_neutral(line: bytes) -> NeutralLine | None:
    """Read a line of the usual shape; None where its shape is any other."""
    try:
        found = _decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if not 0 < found.seq <= MAX_SEQ:
        return None
    if (answer := found.tool_result) is not None:
        result = answer.result
        content = memoryview(result.content)
        words = f"{found.seq}{found.protocol}{answer.tool_use_id}{result.tool_use_id}"
        size = _ANSWER + len(words) + len(content)
        if result.is_error:
            size += _IS_ERROR
        if answer.remote:
            size += _REMOTE
        if content[0] != _QUOTE:
            return None
    elif (reply := found.assistant) is not None:
        message = reply.message
        words = (
            f"{found.seq}{found.protocol}{reply.iteration}{reply.in_tokens}{reply.out_tokens}{message.role}"
        )
        size = _ASSISTANT + len(words) + _size_of(message.content, line)
        if reply.stop_reason:
            size += _STOP_REASON + len(reply.stop_reason)
        if reply.cache_read_tokens:
            size += _CACHE_READ + len(str(reply.cache_read_tokens))
        if reply.cache_create_tokens:
            size += _CACHE_CREATE + len(str(reply.cache_create_tokens))
    elif (follow_up := found.user) is not None:
        message = follow_up.message
        words = f"{found.seq}{found.protocol}{message.role}"
        size = _USER + len(words) + _size_of(message.content, line)
    elif (end := found.terminal) is not None:
        size = _TERMINAL + len(f"{found.seq}{found.protocol}{end.reason}")
        if end.message is not _EMPTY:
            view = memoryview(end.message)
            if view[0] != _QUOTE:
                return None
            size += _MESSAGE + len(view)
    else:
        return None
    return found if size == len(line) or line[size:] in _ENDS else None


def read_neutral_lines(lines: Sequence[bytes]) -> list[NeutralLine]:
    """Read lines as `read_neutral` does, up to the first one of another shape."""
    found = []
    for line in lines:
        read = read_neutral(line)
        if read is None:
            break
        found.append(read)
    return found


def _size_of(blocks: list[BlockPart] | None, line: bytes) -> int:
    """Give the bytes that a list of blocks takes; too few where a block is unusual."""
    if not blocks:
        return 4 if blocks is None else 2
    size = 1
    for block in blocks:
        if (text := block.text) is not None:
            view = memoryview(text.text)
            if view[0] != _QUOTE:
                return 0
            size += _TEXT + len(view)
        elif (call := block.tool_use) is not None:
            view = memoryview(call.input)
            if len(view) > FLAT and too_deep(line):
                return 0
            size += _CALL + len(call.id) + len(call.name) + len(view)
        elif (thinking := block.thinking) is not None:
            size += _size_of_thinking(thinking)
        elif (provider := block.provider) is not None:
            view = memoryview(provider.raw)
            if len(view) > FLAT and too_deep(line):
                return 0
            size += _PROVIDER + len(provider.kind) + len(view)
        elif (result := block.tool_result) is not None:
            view = memoryview(result.content)
            if view[0] != _QUOTE:
                return 0
            size += _RESULT + len(result.tool_use_id) + len(view) + _IS_ERROR * result.is_error
        else:
            size += len("{},")
    return size


def _size_of_thinking(part: ThinkingPart) -> int:
    size = _THINKING
    if part.text is not _EMPTY:
        view = memoryview(part.text)
        if view[0] != _QUOTE or len(view) == len('""'):
            return 0
        size += _THOUGHT + len(view)
    if part.signature:
        size += _SIGNATURE + (len(part.signature) + 2) // 3 * 4 + (part.text is not _EMPTY)
    return size
