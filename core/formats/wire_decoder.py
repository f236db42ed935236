"""The line decoder of wire blocks, kept verbatim: version 2 and older of fisk-ai, and our own journal."""

from __future__ import annotations

import msgspec

from refold.core.formats import CallColumns, Columns
from refold.core.formats.exact import seems_meta
from refold.core.formats.line_decoder import LineDecoder, text_of
from refold.core.formats.usual import Usual
from refold.core.formats.wire_quick import WireLine, read_wire, read_wire_lines
from refold.core.records import (
    AssistantRecord,
    Json,
    Message,
    Record,
    ToolResultRecord,
    UserRecord,
)

_ANY = msgspec.json.Decoder()


class WireDecoder(LineDecoder):
    """Reads version 2 and older of fisk-ai, and our own journal (formats/fisk-ai.md 1.5)."""

    @property
    def usual(self) -> Usual:
        """The quick reading of replies, results and ends."""
        return Usual(
            read_wire_lines, self._assistant, self._result, self._terminal, timed=self.dialect.native
        )

    def columns(self, line: bytes) -> Columns:
        """Decode just what the index needs; raise BadRecord where the line is no record."""
        found = None if seems_meta(line) else read_wire(line)
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
                    calls=tuple([CallColumns(*call) for call in reply.message.calls()]),
                )
        elif found.user is not None and found.protocol == self._user:
            return Columns("user", found.seq, time, role=found.user.message.role)
        elif (end := found.terminal) is not None and found.protocol == self._terminal:
            return Columns("terminal", found.seq, time, reason=end.reason)
        return self._exact_columns(line)

    def record(self, line: bytes) -> Record:
        """Decode one line strictly; raise BadRecord where the original would fail."""
        found = None if seems_meta(line) else read_wire(line)
        if found is not None:
            try:
                record = self._quick_record(found, line)
            except (msgspec.MsgspecError, RecursionError):
                record = None
            if record is not None:
                return record
        return self._exact(line)

    def texts(self, line: bytes) -> tuple[str, ...]:
        """Give the texts of a reply, none for any other record; raise BadRecord as `record` does."""
        found = read_wire(line)
        if found is not None and (reply := found.assistant) is not None and found.protocol == self._assistant:
            parts = [block.text for block in reply.message.content if block.type == "text"]
            try:
                return tuple([text_of(_ANY.decode(memoryview(part))) for part in parts])
            except (msgspec.MsgspecError, RecursionError):
                pass
        return super().texts(line)

    def calls(self, content: tuple[Json, ...] | None) -> tuple[tuple[str, str, Json], ...]:
        """Give id, name and input of each block of the type `tool_use`; server calls do not count."""
        return tuple(
            (text_of(block.get("id")), text_of(block.get("name")), block.get("input"))
            for block in content or ()
            if isinstance(block, dict) and block.get("type") == "tool_use"
        )

    def prompt_content(self, prompt: str) -> tuple[Json, ...]:
        """Give the blocks of the user message that a prompt stands for."""
        return ({"text": prompt, "type": "text"},)

    def result_of(self, call_id: str, text: str, *, is_error: bool) -> Json:
        """Give the result of a call as a tool result record of this version holds it."""
        return {
            "tool_use_id": call_id,
            "is_error": is_error,
            "content": [{"text": text, "type": "text"}],
            "type": "tool_result",
        }

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
        return None
