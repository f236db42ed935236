"""One run open for reading: its payloads are read when somebody looks.

Nothing here writes, locks or holds a payload. All calls are made from one thread and are short.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from refold.core.blocks import read_blocks, result_is_denial
from refold.core.columns import DAMAGE, META, RECOVERED
from refold.core.decisions import leaves_unknown
from refold.core.errors import BadRecord, NotRegular
from refold.core.formats import HEAD_BYTES
from refold.core.records import AssistantRecord, Json, MetaRecord, Record, ToolResultRecord
from refold.core.recover import without
from refold.core.state import RunState
from refold.core.store import index_cache
from refold.core.store.files import open_regular
from refold.core.store.growing import META_WITHIN, GrowingIndex
from refold.core.store.scan import Line, Scanner
from refold.core.timeline import Timeline
from refold.core.timeline_state import state_at

if TYPE_CHECKING:
    from refold.core.store.session_reader import SessionReader

_Found = TypeVar("_Found")
_LAST_LINES: Final = 400
"""So many lines of the end are looked at before the rest: each costs its time, were it of two bytes."""


class RunReader(GrowingIndex):
    """A run that is being read. Make one with `open`."""

    session: SessionReader | None = None
    """The reader itself, where the run is a directory: it offers what the files beside the log say."""

    def __init__(self, path: Path, fd: int, hint: str) -> None:
        super().__init__(path, fd, hint)
        self._meta: tuple[int, MetaRecord | None] = (-1, None)

    @classmethod
    def open(cls, path: Path, *, hint: str = "refold", cache: Path | None = None) -> RunReader:
        """Open a run for reading; at most its head, and what the cache knows of it, is read.

        Args:
            path: the journal, or the directory of a run that is one.
            hint: the format to assume where the bytes do not tell.
            cache: a directory where finished indexes are kept; None for no cache.

        Raises:
            StoreError: it is not there, not a regular file, or may not be read.
        """
        try:
            fd = open_regular(path)
        except NotRegular:
            from refold.core.store.session_names import is_run_directory

            if not is_run_directory(path):
                raise
            from refold.core.store.session_reader import open_session

            return open_session(path, cache)
        try:
            reader = cls(path, fd, hint)
            if cache is not None and reader.size >= index_cache.SMALLEST:
                reader.take_cached(cache)
        except BaseException:
            os.close(fd)
            raise
        return reader

    def again(self) -> RunReader:
        """Open the same file once more, also where nothing leads to it any longer."""
        fd = os.dup(self._fd)
        try:
            return RunReader(self.path, fd, self._hint)
        except BaseException:
            os.close(fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def locks(self) -> tuple[Path, ...]:
        """The files that a writer of the run locks."""
        return (self.path.with_suffix(".lock"), self.path)

    @property
    def meta(self) -> MetaRecord | None:
        """The first meta record that could be read, or None."""
        items, found = self._meta
        if found is None and items < min(self.timeline.items, META_WITHIN):
            found = self._find_meta()
            self._meta = (self.timeline.items, found)
        return found

    def _find_meta(self) -> MetaRecord | None:
        for item in range(min(self.timeline.items, META_WITHIN)):
            if self.timeline.columns.kind[item] == META:
                try:
                    record = self._read(item, self._as_indexed(item), self.decoder.record)
                except BadRecord:
                    continue
                return record if isinstance(record, MetaRecord) else None
        return None

    def raw(self, item: int, limit: int | None = None) -> bytes:
        """Give the bytes of an item as they are in the file, newline excluded, at most `limit` of them."""
        return self.raw_part(item, 0, limit)

    def raw_part(self, item: int, start: int, size: int | None = None) -> bytes:
        """Give some bytes of an item, counted from its own start."""
        span = self.timeline.span(item)
        length = max(0, span.end - span.start - start)
        return self._pread(span.start + start, length if size is None else min(size, length))

    def bytes_at(self, start: int, size: int) -> bytes:
        """Give bytes of the file by their place in it, fewer where it ends."""
        return self._pread(start, size)

    def lines(self) -> Iterator[Line]:
        """Give every line from the first byte on, beside the index and without keeping anything."""
        scanner = Scanner(self._pread)
        while True:
            line = scanner.next()
            if line is not None:
                yield line
            elif scanner.waiting:
                tail = scanner.tail()
                if tail is not None:
                    yield tail
                return

    def record(self, item: int) -> Record:
        """Decode an item strictly.

        Raises:
            BadRecord: the bytes are no record, or no longer the ones that were indexed.
        """
        return self._read(item, self.raw(item), self.decoder.record)

    def texts(self, item: int) -> tuple[str, ...]:
        """Give the texts of a reply as they were when it was indexed, none for any other record.

        Raises:
            BadRecord: as `record`.
        """
        return self._read(item, self._as_indexed(item), self.decoder.texts)

    def _as_indexed(self, item: int) -> bytes:
        """Give the bytes of an item as the index saw them, from the file where they are long past."""
        span = self.timeline.span(item)
        held = self._scanner.held(span.start, span.end)
        return self.raw(item) if held is None else held

    def _read(self, item: int, raw: bytes, decode: Callable[[bytes], _Found]) -> _Found:
        if self.timeline.columns.kind[item] == DAMAGE:
            raise BadRecord("these bytes are no record")
        try:
            return decode(raw)
        except BadRecord:
            hole = self.hole(item)
            if hole is None:
                raise
            start = self.timeline.span(item).start
            return decode(without(raw, hole[0] - start, hole[1] - start))

    def asked(self, item: int, line: bytes) -> tuple[tuple[int, str, Json], ...]:
        """Give the calls that an item asks for: what `Timeline.answered` names them by, tool, arguments.

        Args:
            item: The item.
            line: Its bytes, or those that are left where long texts are taken out.

        Raises:
            BadRecord: they are no record.
        """
        record = self.decoder.record(line)
        if not isinstance(record, AssistantRecord):
            return ()
        calls = (block for block in read_blocks(record.message.content) if block.kind == "call")
        return tuple((ordinal, block.name, block.input) for ordinal, block in enumerate(calls))

    def denied(self, item: int, longest: int) -> bool:
        """Say whether a result, of so many bytes at most, tells that its call was not allowed to run."""
        if self.timeline.columns.length[item] > longest or b"allowed" not in self.raw(item):
            return False
        try:
            record = self.record(item)
        except BadRecord:
            return False
        return isinstance(record, ToolResultRecord) and result_is_denial(record.result)

    def outcome_unknown(self, item: int, longest: int) -> bool:
        """Say whether a result, of so many bytes at most, was recorded by somebody who did not know it."""
        if self.timeline.columns.length[item] > longest or not self.timeline.is_error(item):
            return False
        raw = self.raw(item)
        if b"decision" not in raw and b"outcome" not in raw:
            return False
        try:
            record = self.record(item)
        except BadRecord:
            return False
        return isinstance(record, ToolResultRecord) and leaves_unknown(record)

    def runs_again(self, item: int) -> bool:
        """Say no: in a journal the result of a call that ran again is the only one."""
        return False

    def hole(self, item: int) -> tuple[int, int] | None:
        """Give the bytes in the middle of a recovered item that are another record, or None."""
        columns = self.timeline.columns
        if not columns.flags[item] & RECOVERED or item + 1 >= self.timeline.items:
            return None
        inner = self.timeline.span(item + 1)
        return (
            (inner.start, inner.end)
            if columns.offset[item] < inner.start < self.timeline.span(item).end
            else None
        )

    def state_at(self, item: int) -> RunState:
        """Fold the records up to and including an item, as the original program would.

        Raises:
            FoldError: they do not fold strictly.
        """
        error = self.timeline.error_at(item)
        if error is not None:
            raise error
        return self.salvaged_at(self.timeline.strict_item(item))

    def salvaged_at(self, item: int) -> RunState:
        """Fold the readable records up to and including an item as well as can be; never for a resume."""
        return state_at(self.timeline, item, self.record, self.decoder, self.meta or MetaRecord())

    def tail_timeline(self, size: int = HEAD_BYTES) -> Timeline:
        """Read the last lines of the file alone: rows to look at before the index is complete.

        Sums and turns count from the start of this window, not from that of the run.
        """
        start = max(0, self.size - size)
        builder = self._new_builder()
        data = self._pread(start, self.size - start)
        first = 0 if start == 0 else data.find(b"\n") + 1
        lines = data[first:].rsplit(b"\n", _LAST_LINES)
        position = start + first
        if len(lines) > _LAST_LINES:
            position += len(lines.pop(0)) + 1
        for text in lines:
            if text:
                builder.feed(text, position, 0)
            position += len(text) + 1
        return builder.timeline
