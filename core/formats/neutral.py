"""The message blocks of version 3, read exactly: repeated objects merge, every type is checked.

Each class stands for one object of formats/fisk-ai.md 1.4 and gives it back as the original would
write it after reading it.
"""

from __future__ import annotations

import base64

from refold.core.formats.fields import bytes_of, flag_of, members, text_of
from refold.core.formats.tolerant import Node, plain
from refold.core.records import Json


class Block:
    """One block of a version 3 message: any of five variants, usually exactly one."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.thinking: tuple[str, bytes] | None = None
        self.tool_use: tuple[str, str, Json] | None = None
        self.tool_result: ToolResult | None = None
        self.provider: tuple[str, Json] | None = None

    def read(self, node: Node) -> None:
        """Take the members of a block."""
        for key, value in members(node, "a block"):
            if key == "text":
                self.text = self._read_text(value)
            elif key == "thinking":
                self.thinking = self._read_thinking(value)
            elif key == "tool_use":
                self.tool_use = self._read_tool_use(value)
            elif key == "tool_result":
                if value is None:
                    self.tool_result = None
                else:
                    self.tool_result = self.tool_result or ToolResult()
                    self.tool_result.read(value)
            elif key == "provider":
                self.provider = self._read_provider(value)

    def _read_text(self, node: Node) -> str | None:
        if node is None:
            return None
        text = self.text or ""
        for key, value in members(node, "text"):
            if key == "text":
                text = text_of(value, text, "text")
        return text

    def _read_thinking(self, node: Node) -> tuple[str, bytes] | None:
        if node is None:
            return None
        text, signature = self.thinking or ("", b"")
        for key, value in members(node, "thinking"):
            if key == "text":
                text = text_of(value, text, "thinking")
            elif key == "signature":
                signature = bytes_of(value, signature, "signature")
        return text, signature

    def _read_tool_use(self, node: Node) -> tuple[str, str, Json] | None:
        if node is None:
            return None
        id_, name, arguments = self.tool_use or ("", "", None)
        for key, value in members(node, "tool_use"):
            if key == "id":
                id_ = text_of(value, id_, "id of a call")
            elif key == "name":
                name = text_of(value, name, "name of a call")
            elif key == "input":
                arguments = plain(value)
        return id_, name, arguments

    def _read_provider(self, node: Node) -> tuple[str, Json] | None:
        if node is None:
            return None
        kind, raw = self.provider or ("", None)
        for key, value in members(node, "provider"):
            if key == "kind":
                kind = text_of(value, kind, "kind")
            elif key == "raw":
                raw = plain(value)
        return kind, raw

    def json(self) -> Json:
        """Give the block as the original would write it."""
        block: dict[str, Json] = {}
        if self.text is not None:
            block["text"] = {"text": self.text}
        if self.thinking is not None:
            block["thinking"] = thinking_json(*self.thinking)
        if self.tool_use is not None:
            id_, name, arguments = self.tool_use
            block["tool_use"] = {"id": id_, "name": name, "input": arguments}
        if self.tool_result is not None:
            block["tool_result"] = self.tool_result.json()
        if self.provider is not None:
            kind, raw = self.provider
            block["provider"] = {"kind": kind, "raw": raw}
        return block


def thinking_json(text: str, signature: bytes) -> dict[str, Json]:
    """Give a thinking block as the original would write it: what is empty is left out."""
    inner: dict[str, Json] = {}
    if text:
        inner["text"] = text
    if signature:
        inner["signature"] = base64.b64encode(signature).decode()
    return inner


class ToolResult:
    """The inner object of a version 3 tool result."""

    def __init__(self) -> None:
        self.tool_use_id = ""
        self.content = ""
        self.is_error = False

    def read(self, node: Node) -> None:
        """Take the members of a result."""
        for key, value in members(node, "result"):
            if key == "tool_use_id":
                self.tool_use_id = text_of(value, self.tool_use_id, "tool_use_id")
            elif key == "content":
                self.content = text_of(value, self.content, "content of a result")
            elif key == "is_error":
                self.is_error = flag_of(value, "is_error", old=self.is_error)

    def json(self) -> dict[str, Json]:
        """Give the result as the original would write it."""
        inner: dict[str, Json] = {"tool_use_id": self.tool_use_id, "content": self.content}
        if self.is_error:
            inner["is_error"] = True
        return inner
