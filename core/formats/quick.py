"""The quick reading of a line: the usual shape, checked in full, without decoding a text.

A line that is unusual in any way (a key more, less, twice or in other case, a null, a wrong type, an
escape that is no character) gives None, and `refold.core.formats.exact` decides. Texts stay `Raw`:
a record of 50 MB costs one pass over its bytes.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from refold.core.formats.fields import MAX_INT, MAX_SEQ, is_time
from refold.core.formats.tolerant import MAX_DEPTH, too_deep

_Int: TypeAlias = Annotated[int, Meta(ge=-MAX_INT - 1, le=MAX_INT)]
_QUOTE = 0x22
_FLAT = 2 * (MAX_DEPTH - 10)
"""A value of fewer bytes than this cannot nest too deep, wherever in a record it stands."""

_made: list[Struct] = []
"""The objects of the line being read. More of them than the line holds in the end means that an object
stood there twice, which the original merges; msgspec drops the first one silently."""

_EMPTY = Raw(b'""')


class _Counted(Struct, forbid_unknown_fields=True, gc=False):
    # A bound C method costs a tenth of a Python one, and this runs for every object of every line.
    __post_init__ = _made.append  # type: ignore[misc]


class TextPart(_Counted, gc=False):
    """The text variant of a version 3 block."""

    text: Raw


class ThinkingPart(_Counted, gc=False):
    """The thinking variant of a version 3 block."""

    text: Raw = _EMPTY
    signature: bytes = b""


class CallPart(_Counted, gc=False):
    """The call variant of a version 3 block."""

    id: str
    name: str
    input: Raw


class ResultPart(_Counted, gc=False):
    """A version 3 tool result, in a message or as the result of a record."""

    tool_use_id: str
    content: Raw
    is_error: bool = False


class ProviderPart(_Counted, gc=False):
    """The opaque variant of a version 3 block."""

    kind: str
    raw: Raw


class NeutralBlock(Struct, forbid_unknown_fields=True, gc=False):
    """A block of version 3."""

    text: TextPart | None = None
    thinking: ThinkingPart | None = None
    tool_use: CallPart | None = None
    tool_result: ResultPart | None = None
    provider: ProviderPart | None = None


class WireText(Struct, forbid_unknown_fields=True, gc=False):
    """The text inside a wire result."""

    text: Raw
    type: str = ""


class WireBlock(Struct, forbid_unknown_fields=True, gc=False):
    """A block of version 2 or of our own journal; the keys that are not rare."""

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
    content: list[WireText] | str = ""


class NeutralMessage(_Counted, gc=False):
    """A message of version 3."""

    role: str
    content: list[NeutralBlock] | None


class WireMessage(_Counted, gc=False):
    """A message of version 2 or of our own journal."""

    role: str
    content: list[WireBlock]


class FingerprintPart(_Counted, gc=False):
    """The fingerprint of a meta record."""

    model: str
    system_hash: str
    tools_hash: str
    thinking_mode: str
    max_tokens: _Int
    max_iterations: _Int
    provider: str | None = None


class MetaPart(_Counted, gc=False):
    """The payload of a meta record, a fork's excepted."""

    version: _Int
    run_id: str
    created: str
    fingerprint: FingerprintPart
    prompt: str
    interactive: bool = False


class _AssistantPart(_Counted, gc=False):
    iteration: _Int
    in_tokens: _Int
    out_tokens: _Int
    stop_reason: str = ""
    cache_read_tokens: _Int = 0
    cache_create_tokens: _Int = 0


class NeutralAssistant(_AssistantPart, gc=False, kw_only=True):
    """The payload of a version 3 reply."""

    message: NeutralMessage


class WireAssistant(_AssistantPart, gc=False, kw_only=True):
    """The payload of any other reply."""

    message: WireMessage


class NeutralUser(_Counted, gc=False):
    """The payload of a version 3 follow-up."""

    message: NeutralMessage


class WireUser(_Counted, gc=False):
    """The payload of any other follow-up."""

    message: WireMessage


class NeutralResult(_Counted, gc=False):
    """The payload of a version 3 result."""

    tool_use_id: str
    result: ResultPart
    remote: bool = False


class WireResult(_Counted, gc=False):
    """The payload of any other result."""

    tool_use_id: str
    result: WireBlock
    remote: bool = False


class TerminalPart(_Counted, gc=False):
    """The payload of a terminal record."""

    reason: str
    message: str = ""


class NeutralLine(Struct, forbid_unknown_fields=True, gc=False):
    """One line of version 3."""

    seq: int
    protocol: str
    time: str | None = None
    assistant: NeutralAssistant | None = None
    tool_result: NeutralResult | None = None
    user: NeutralUser | None = None
    terminal: TerminalPart | None = None
    meta: MetaPart | None = None


class WireLine(Struct, forbid_unknown_fields=True, gc=False):
    """One line of any other version."""

    seq: int
    protocol: str
    time: str | None = None
    assistant: WireAssistant | None = None
    tool_result: WireResult | None = None
    user: WireUser | None = None
    terminal: TerminalPart | None = None
    meta: MetaPart | None = None


_NEUTRAL = msgspec.json.Decoder(NeutralLine)
_WIRE = msgspec.json.Decoder(WireLine)


def read_neutral(line: bytes) -> NeutralLine | None:
    """Read a usual line of version 3; None where the line is not usual."""
    try:
        found = _NEUTRAL.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        _made.clear()
        return None
    made = len(_made)
    _made.clear()
    if not 0 < found.seq <= MAX_SEQ:
        return None
    if (answer := found.tool_result) is not None:
        return found if made == 2 and memoryview(answer.result.content)[0] == _QUOTE else None
    payload = found.assistant or found.user
    if payload is None:
        return found if made == _made_of(found) else None
    blocks = payload.message.content
    # A block of two variants makes one object more than counted here, and so is no usual one.
    if made != 2 + (len(blocks) if blocks else 0):
        return None
    for block in blocks or ():
        if (text := block.text) is not None:
            if memoryview(text.text)[0] != _QUOTE:
                return None
        elif (call := block.tool_use) is not None:
            if len(memoryview(call.input)) > _FLAT and too_deep(line):
                return None
        elif (thinking := block.thinking) is not None:
            if memoryview(thinking.text)[0] != _QUOTE:
                return None
        elif (provider := block.provider) is not None:
            if len(memoryview(provider.raw)) > _FLAT and too_deep(line):
                return None
        elif (result := block.tool_result) is None or memoryview(result.content)[0] != _QUOTE:
            return None
    return found


def read_wire(line: bytes) -> WireLine | None:
    """Read a usual line of version 2 or of our own journal; None where the line is not usual."""
    try:
        found = _WIRE.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        _made.clear()
        return None
    made = len(_made)
    _made.clear()
    if not 0 < found.seq <= MAX_SEQ:
        return None
    if (answer := found.tool_result) is not None:
        return found if made == 1 and not (_may_nest(answer.result) and too_deep(line)) else None
    payload = found.assistant or found.user
    if payload is None:
        return found if made == _made_of(found) else None
    if made != 2:
        return None
    for block in payload.message.content:
        if _may_nest(block) and too_deep(line):
            return None
    return found


def _may_nest(block: WireBlock) -> bool:
    """Say whether a member of a block could be a deep value: neither a text, nor texts, nor short."""
    if (text := block.text) is not _EMPTY and memoryview(text)[0] != _QUOTE:
        return True
    if (arguments := block.input) is not _EMPTY and len(memoryview(arguments)) > _FLAT:
        return True
    if (thinking := block.thinking) is not _EMPTY and memoryview(thinking)[0] != _QUOTE:
        return True
    if isinstance(content := block.content, list):
        for item in content:
            if memoryview(item.text)[0] != _QUOTE:
                return True
    return False


def _made_of(found: NeutralLine | WireLine) -> int:
    """Say how many counted objects a terminal or meta line holds; -1 where the meta record is unusual."""
    if found.meta is None:
        return 1 if found.terminal is not None else 0
    return 2 if is_time(found.meta.created) else -1
