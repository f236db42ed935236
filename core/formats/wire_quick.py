"""The quick reading of a line with wire blocks: usual keys, no text decoded.

Blocks are kept verbatim, so only their calls are looked at. Two things that msgspec lets pass are
looked for: an object that stands twice (the original merges such), and a deep value in a place that
is skipped. Such a line, and one with any unusual key, is left to `refold.core.formats.exact`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from refold.core.formats.counted import Counted, Int, made, one_at_a_time
from refold.core.formats.fields import MAX_SEQ
from refold.core.formats.tolerant import FLAT, too_deep

_QUOTE = 0x22
_EMPTY = Raw(b'""')


class TextPart(Struct, forbid_unknown_fields=True, gc=False):
    """A text inside a result."""

    text: Raw
    type: str = ""


class BlockPart(Struct, forbid_unknown_fields=True, gc=False):
    """A block, with the keys that are not rare."""

    type: str = ""
    id: str = ""
    name: str = ""
    is_error: bool = False
    tool_use_id: str = ""
    signature: str = ""
    data: str = ""
    text: Raw = _EMPTY
    thinking: Raw = _EMPTY
    input: Raw = _EMPTY
    content: list[TextPart] | str = ""


class MessagePart(Counted, gc=False):
    """One message."""

    role: str
    content: list[BlockPart]

    def calls(self) -> list[tuple[str, str]]:
        """Give id and name of each client tool call, in block order."""
        return [(block.id, block.name) for block in self.content if block.type == "tool_use"]


class AssistantPart(Counted, gc=False):
    """The payload of a reply."""

    iteration: Int
    message: MessagePart
    in_tokens: Int
    out_tokens: Int
    stop_reason: str = ""
    cache_read_tokens: Int = 0
    cache_create_tokens: Int = 0


class UserPart(Counted, gc=False):
    """The payload of a follow-up."""

    message: MessagePart


class AnswerPart(Counted, gc=False):
    """The payload of a tool result."""

    tool_use_id: str
    result: BlockPart
    remote: bool = False


class TerminalPart(Counted, gc=False):
    """The payload of an end."""

    reason: str = ""
    message: str = ""


class WireLine(Struct, forbid_unknown_fields=True, gc=False):
    """One line; meta records are read elsewhere."""

    seq: int
    protocol: str
    time: str | None = None
    assistant: AssistantPart | None = None
    tool_result: AnswerPart | None = None
    user: UserPart | None = None
    terminal: TerminalPart | None = None


_decode = msgspec.json.Decoder(WireLine).decode


def read_wire(line: bytes) -> WireLine | None:
    """Read a line of a usual shape; None where its shape is any other."""
    with one_at_a_time:
        try:
            found = _decode(line)
        except (msgspec.MsgspecError, RecursionError):
            return None
        finally:
            count = len(made)
            made.clear()
    if not 0 < found.seq <= MAX_SEQ:
        return None
    if (answer := found.tool_result) is not None:
        if count != 1 or (len(line) - _bytes_of_texts(answer.result) > FLAT and too_deep(line)):
            return None
        return found
    payload = found.assistant or found.user
    if payload is None and found.terminal is not None:
        return found if count == 1 else None
    if payload is None or count != 2 or (_hidden_bytes(payload.message.content) > FLAT and too_deep(line)):
        return None
    return found


def read_wire_lines(lines: Sequence[bytes]) -> list[WireLine]:
    """Read lines as `read_wire` does, up to the first one of another shape; many at once are read quicker."""
    found: list[WireLine] = []
    count = 0
    with one_at_a_time:
        try:
            for line in lines:
                one = _decode(line)
                found.append(one)
                count = len(made)
        except (msgspec.MsgspecError, RecursionError):
            pass
        finally:
            made.clear()
    usual = 0
    for line, one in zip(lines, found, strict=False):
        hidden = 0
        if (answer := one.tool_result) is not None:
            usual += 1
            # A line that has no more bytes than that in all hides no deep value.
            if len(line) > FLAT:
                hidden = len(line) - _bytes_of_texts(answer.result)
        elif (payload := one.assistant or one.user) is not None:
            usual += 2
            if len(line) > FLAT:
                hidden = _hidden_bytes(payload.message.content)
        elif one.terminal is not None:
            usual += 1
        else:
            break
        if (hidden > FLAT and too_deep(line)) or not 0 < one.seq <= MAX_SEQ:
            break
    else:
        if count == usual:
            return found
    found.clear()
    for line in lines:
        read = read_wire(line)
        if read is None:
            break
        found.append(read)
    return found


def _bytes_of_texts(block: BlockPart) -> int:
    """Count the bytes of a result that are text, and so hide nothing."""
    content = block.content
    if isinstance(content, str):
        return len(content)
    size = 0
    for item in content:
        view = memoryview(item.text)
        if view[0] == _QUOTE:
            size += len(view)
    return size


def _hidden_bytes(blocks: list[BlockPart]) -> int:
    """Count the bytes of a message in which anything may stand: inputs, and texts that are none."""
    size = 0
    for block in blocks:
        if (part := block.text) is not _EMPTY and (view := memoryview(part))[0] != _QUOTE:
            size += len(view)
        if (part := block.input) is not _EMPTY and (view := memoryview(part))[0] != _QUOTE:
            size += len(view)
        if (part := block.thinking) is not _EMPTY and (view := memoryview(part))[0] != _QUOTE:
            size += len(view)
        if (content := block.content) and not isinstance(content, str):
            size += sum([len(memoryview(item.text)) for item in content])
    return size
