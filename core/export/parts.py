"""The parts of a record that a document shows, whatever document it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from refold.core.blocks import Block, read_blocks, result_is_error, result_text
from refold.core.export.entries import Entry
from refold.core.records import (
    AssistantRecord,
    Json,
    MetaRecord,
    Resumed,
    TerminalRecord,
    ToolResultRecord,
    UnknownRecord,
    UserRecord,
)

Style: TypeAlias = Literal["text", "thinking", "call", "result", "error", "json", "raw", "note"]


class Part(NamedTuple):
    """A piece of a record: what it is, a label, and its text."""

    style: Style
    label: str
    """Text of the run, like all else here: to be escaped."""
    text: str


def parts_of(entry: Entry) -> Iterator[Part]:
    """Give everything that an entry says, in order."""
    for problem in entry.problems:
        yield Part("note", problem.code, problem.message)
    record = entry.record
    match record:
        case None:
            yield _bytes(entry)
        case MetaRecord():
            yield Part("text", "prompt", record.prompt)
            origin = record.forked_from
            if origin is not None:
                yield Part("note", "forked from", f"{origin.run_id}@{origin.seq} {origin.reason}".rstrip())
            mark = record.fingerprint
            yield Part("note", "model", " ".join(filter(None, (mark.provider or "", mark.model))))
        case AssistantRecord():
            yield from _resumed(record.resumed)
            yield from _blocks(record.message.content, entry.unanswered)
            if record.stop_reason:
                yield Part("note", "stopped", record.stop_reason)
        case UserRecord():
            yield from _resumed(record.resumed)
            yield from _blocks(record.message.content)
        case ToolResultRecord():
            yield from _resumed(record.resumed)
            if record.decision is not None:
                yield Part("note", "decided", f"{record.decision.choice} {record.decision.text}".rstrip())
            yield from _result(record)
        case TerminalRecord():
            yield from _resumed(record.resumed)
            yield Part("note", "reason", record.reason)
            if record.message:
                yield Part("text", "message", record.message)
        case UnknownRecord():
            yield Part("json", record.protocol, _indented(entry))
        case _:
            yield _bytes(entry)


def _bytes(entry: Entry) -> Part:
    label = "what stands there"
    if entry.left:
        label += f", {entry.left:,} more bytes follow"
    return Part("raw", label, entry.text)


def _indented(entry: Entry) -> str:
    try:
        return spelled(json.loads(entry.text)) if not entry.left else entry.text
    except (ValueError, RecursionError):
        return entry.text


def _blocks(content: tuple[Json, ...] | None, unanswered: frozenset[int] = frozenset()) -> Iterator[Part]:
    calls = 0
    for block in read_blocks(content):
        yield _block(block)
        if block.kind == "call":
            if calls in unanswered:
                yield Part("note", "no result recorded", "outcome unknown")
            calls += 1


def _block(block: Block) -> Part:
    if block.kind == "text":
        return Part("text", "", block.text)
    if block.kind == "thinking":
        return Part("thinking", "thinking", block.text)
    if block.kind == "call":
        return Part("call", f"{block.name or 'unnamed tool'} {block.id}".rstrip(), spelled(block.input))
    if block.kind == "result":
        return Part("error" if block.is_error else "result", block.id, block.text)
    return Part("json", block.name or "other", spelled(block.raw))


def _result(record: ToolResultRecord) -> Iterator[Part]:
    text = result_text(record.result)
    style: Style = "error" if result_is_error(record.result) else "result"
    if text:
        yield Part(style, record.tool_use_id, text)
    else:
        yield Part(style, record.tool_use_id, spelled(record.result))


def _resumed(resumed: Resumed | None) -> Iterator[Part]:
    if resumed is not None:
        yield Part("note", "resumed by force" if resumed.forced else "resumed here", resumed.reason)


def spelled(value: Json) -> str:
    """Give a JSON value as text over several lines."""
    try:
        return json.dumps(value, indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "nested too deeply to be shown"
