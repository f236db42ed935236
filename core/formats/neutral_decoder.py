"""The line decoder of version 3: blocks are objects of one key (formats/fisk-ai.md 1.4)."""

from __future__ import annotations

import msgspec

from refold.core.formats import CallColumns, Columns
from refold.core.formats.exact import seems_meta
from refold.core.formats.gojson import keep_spelling
from refold.core.formats.line_decoder import LineDecoder, text_of
from refold.core.formats.neutral import thinking_json
from refold.core.formats.neutral_quick import (
    BlockPart,
    NeutralLine,
    ResultPart,
    read_neutral,
    read_neutral_lines,
)
from refold.core.formats.tolerant import parse, plain
from refold.core.formats.usual import Usual
from refold.core.records import (
    AssistantRecord,
    Json,
    Message,
    Record,
    ToolResultRecord,
    UserRecord,
)

_TEXT = msgspec.json.Decoder(str)
_ANY = msgspec.json.Decoder()


class NeutralDecoder(LineDecoder):
    """Reads version 3 of fisk-ai; messages are given as the original would write them again."""

    @property
    def usual(self) -> Usual:
        """The quick reading of replies, results and ends."""
        return Usual(read_neutral_lines, self._assistant, self._result, self._terminal, timed=False)

    def columns(self, line: bytes) -> Columns:
        """Decode just what the index needs; raise BadRecord where the line is no record."""
        found = None if seems_meta(line) else read_neutral(line)
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
                    calls=tuple([CallColumns(*call) for call in reply.message.calls()]),
                )
        elif found.user is not None and found.protocol == self._user:
            return Columns("user", found.seq, role=found.user.message.role)
        elif (end := found.terminal) is not None and found.protocol == self._terminal:
            return Columns("terminal", found.seq, reason=end.reason)
        return self._exact_columns(line)

    def record(self, line: bytes) -> Record:
        """Decode one line strictly; raise BadRecord where the original would fail."""
        found = None if seems_meta(line) else read_neutral(line)
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
                found.append((text_of(call.get("id")), text_of(call.get("name")), call.get("input")))
        return tuple(found)

    def prompt_content(self, prompt: str) -> tuple[Json, ...]:
        """Give the blocks of the user message that a prompt stands for."""
        return ({"text": {"text": prompt}},)

    def result_of(self, call_id: str, text: str, *, is_error: bool) -> Json:
        """Give the result of a call as a tool result record of this version holds it."""
        result: dict[str, Json] = {"tool_use_id": call_id, "content": text}
        return {**result, "is_error": True} if is_error else result

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
        return None


def _result(part: ResultPart) -> Json:
    result: dict[str, Json] = {
        "tool_use_id": part.tool_use_id,
        "content": _TEXT.decode(memoryview(part.content)),
    }
    if part.is_error:
        result["is_error"] = True
    return result


def _blocks(blocks: list[BlockPart] | None) -> tuple[Json, ...] | None:
    return None if blocks is None else tuple(_block(block) for block in blocks)


def _block(part: BlockPart) -> Json:
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
