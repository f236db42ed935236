"""What the line decoders of all versions share: the protocol ids and the exact reading.

A decoder first tries the quick reading; whatever that refuses is read exactly. Both readings give
equal answers wherever the quick one gives any.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from refold.core.blocks import read_blocks, result_is_error
from refold.core.formats import CallColumns, Columns
from refold.core.formats.exact import Dialect, read
from refold.core.formats.usual import Usual
from refold.core.records import (
    AssistantRecord,
    IncompleteRecord,
    Json,
    MetaRecord,
    Record,
    TerminalRecord,
    ToolResultRecord,
    UserRecord,
)


class LineDecoder(ABC):
    """Reads the lines of one run by the rules of its version."""

    def __init__(self, dialect: Dialect, version: int, supported: int) -> None:
        self.dialect = dialect._replace(lenient=version > supported)
        self.version = version
        self.supported = supported
        self._assistant = f"{dialect.prefix}assistant"
        self._user = f"{dialect.prefix}user"
        self._result = f"{dialect.prefix}tool_result"
        self._terminal = f"{dialect.prefix}terminal"

    @property
    def readable(self) -> bool:
        """False where the version is newer than we fold."""
        return self.version <= self.supported

    @property
    @abstractmethod
    def usual(self) -> Usual:
        """The quick reading of replies, results and ends."""

    @abstractmethod
    def record(self, line: bytes) -> Record:
        """Decode one line strictly; raise BadRecord where the original would fail."""

    def texts(self, line: bytes) -> tuple[str, ...]:
        """Give the texts of a reply, none for any other record; raise BadRecord as `record` does."""
        record = self.record(line)
        if not isinstance(record, AssistantRecord):
            return ()
        return tuple(block.text for block in read_blocks(record.message.content) if block.kind == "text")

    @abstractmethod
    def columns(self, line: bytes) -> Columns:
        """Decode just what the index needs; raise BadRecord where the line is no record."""

    @abstractmethod
    def calls(self, content: tuple[Json, ...] | None) -> tuple[tuple[str, str, Json], ...]:
        """Give id, name and input of each client tool call among blocks."""

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
                is_error=result_is_error(record.result),
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


def text_of(value: Json) -> str:
    """Give a value that should be a text; empty where it is none."""
    return value if isinstance(value, str) else ""
