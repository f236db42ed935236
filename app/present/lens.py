"""The redaction lens: an open run as an export would show it, its secrets replaced before a row is made."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from refold.core.redact import Redactor
from refold.core.store.cut_secrets import Cut, cut_secrets, masked

if TYPE_CHECKING:
    from refold.core.records import Json, MetaRecord
    from refold.core.rivumi.manifest import Manifest, Request
    from refold.core.rivumi.snapshot import Part
    from refold.core.store.reader import RunReader

_LONGEST: Final = 32_768
"""Of a longer record no more than this is shown through the lens: to look for secrets takes its time."""
_BEYOND: Final = 1024
"""Of what begins before the end of the part that is shown so much has to be seen to be found."""
_PIECE: Final = 1 << 18
"""So many bytes of a record are counted at a time: nobody waits for the rest of it who has left."""
_KEPT: Final = 64
_BESIDE: Final = -1
"""Stands for the prompt of a run directory, which is no item of its log."""


class Lens:
    """Gives the bytes and texts of one run without its secrets, and counts these once a record."""

    def __init__(self, reader: RunReader, allow: Iterable[str] = ()) -> None:
        """Look at a run.

        Args:
            reader: The open run.
            allow: What is no secret though it looks like one.
        """
        self._reader = reader
        self._redactor = Redactor(allow=allow)
        self._counted: dict[int, Counter[str]] = {}
        """What was found in an item; of those that hold nothing nothing is kept."""
        self._total: Counter[str] = Counter()
        """Put in the place of the one before, never changed: it is read on other threads."""
        self._noting, self._counting = threading.Lock(), threading.Lock()
        self._kept: OrderedDict[tuple[int, int, int], bytes] = OrderedDict()
        self._manifest: tuple[Manifest, Manifest] | None = None
        self.seen = 0
        """How many items were counted, from the first one on."""

    @property
    def counts(self) -> Counter[str]:
        """How many secrets of each kind were found in what was looked at; the caller's own."""
        return self._total.copy()

    def head(self, item: int, limit: int | None = None) -> bytes:
        """Give the first bytes of an item, redacted; the whole of it never shorter than it was.

        Whoever takes fewer bytes than the item has for a beginning of it goes on doing so rightly.
        """
        span = self._reader.timeline.span(item)
        length = span.end - span.start
        if limit is None:
            # For those who wait on a thread: nothing so long is kept.
            return self._redacted(item, span.start, length, None)
        limit = min(limit, _LONGEST)
        key = (item, limit, length)
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept
        found = self._redacted(item, span.start, length, limit)
        self._kept[key] = found
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return found

    def _redacted(self, item: int, start: int, length: int, limit: int | None) -> bytes:
        whole = limit is None or length <= limit
        raw = self._reader.bytes_at(start, length if limit is None else min(length, limit + _BEYOND))
        redactor = self._redactor.another()
        cuts = self._cuts(item)
        _tell(redactor, cuts, start, start + len(raw))
        raw = redactor.line(masked(raw, start, cuts))
        self._note(item, redactor.counts)
        if whole:
            return raw.ljust(length)
        return raw[:limit]

    def _note(self, item: int, found: Counter[str]) -> None:
        """Keep the larger count of an item: that of its beginning may come after that of the whole."""
        if not found:
            return
        with self._noting:
            known = self._counted.get(item)
            if known is not None and found.total() <= known.total():
                return
            self._counted[item] = found.copy()
            total = self._total + found
            self._total = total - known if known is not None else total

    def _cuts(self, item: int) -> tuple[Cut, ...]:
        timeline = self._reader.timeline
        if timeline.kind(item) != "damage":
            return ()
        near = range(max(0, item - 2), min(timeline.items, item + 3))
        damaged = [each for each in near if timeline.kind(each) == "damage"]
        return cut_secrets(self._reader, self._redactor, damaged)

    def count(self, items: int, stop: Callable[[], bool]) -> None:
        """Count what the next items hide; blocks, and is for a thread.

        A second one waits until the first has come to its end or heard that it is to stop.

        Args:
            items: So many of them.
            stop: Says that nobody waits any more.
        """
        with self._counting:
            session = self._reader.session
            if session is not None and session.request is not None and not self.seen:
                self.count_request(session.request)
            for item in range(self.seen, min(self._reader.timeline.items, self.seen + items)):
                if not self._count(item, stop):
                    return
                self.seen = item + 1

    def _count(self, item: int, stop: Callable[[], bool]) -> bool:
        """Count what one item hides, a piece at a time; False where nobody waits for it any more."""
        span = self._reader.timeline.span(item)
        redactor = self._redactor.another()
        cuts = self._cuts(item)
        _tell(redactor, cuts, span.start, span.end)

        def parts() -> Iterator[bytes]:
            for at in range(span.start, span.end, _PIECE):
                if stop():
                    return
                yield masked(self._reader.bytes_at(at, min(_PIECE, span.end - at)), at, cuts)

        for _ in redactor.pieces(parts()):
            if stop():
                return False
        if stop():
            return False
        self._note(item, redactor.counts)
        return True

    def meta(self, meta: MetaRecord) -> MetaRecord:
        """Give the first record without the secrets of its prompt."""
        return msgspec.structs.replace(meta, prompt=self.text(meta.prompt))

    def text(self, text: str) -> str:
        """Give a text without its secrets; they are counted with their record."""
        return self._redactor.another().text(text)

    def value(self, value: Json) -> Json:
        """Give the arguments of a call without their secrets; they are counted with their record."""
        return self._redactor.another().value(value)

    def request(self, request: Request) -> Request:
        """Give what a run directory was asked to do."""
        return msgspec.structs.replace(request, instruction=self.text(request.instruction))

    def count_request(self, request: Request) -> None:
        """Count what is hidden in it, once; for those who show it, and for those who will."""
        redactor = self._redactor.another()
        redactor.text(request.instruction)
        self._note(_BESIDE, redactor.counts)

    def patch(self, part: Part) -> Part:
        """Give the recorded changes of a run directory."""
        return msgspec.structs.replace(part, data=self._redactor.another().line(part.data))

    def manifest(self, manifest: Manifest) -> Manifest:
        """Give what the manifest of a run directory keeps of the conversation."""
        if self._manifest is None or self._manifest[0] is not manifest:
            redactor = self._redactor.another()
            messages = tuple(redactor.value(message) for message in manifest.messages)
            self._manifest = (manifest, msgspec.structs.replace(manifest, messages=messages))
        return self._manifest[1]


def _tell(redactor: Redactor, cuts: tuple[Cut, ...], start: int, end: int) -> None:
    """Count the parts of secrets that begin in some bytes."""
    redactor.counts.update(cut.kind for cut in cuts if cut.begins and start <= cut.start < end)
