"""The faces of the items of a run that is read: what each says, and of which call it tells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from refold.core.compare import Face, face_of, face_of_bytes
from refold.core.errors import BadRecord
from refold.core.rivumi.compare import call_of, said_by
from refold.core.store.reader import RunReader

_BLOCK: Final = 1 << 20
_DECODED: Final = 1 << 18
"""A record above this many bytes is known by its bytes alone."""


class Faces:
    """Gives the faces of one run, one after the other."""

    def __init__(self, reader: RunReader) -> None:
        """Look at a run whose items are indexed as far as they are asked for."""
        self._reader = reader
        self._asked: tuple[int, tuple[bytes, ...]] = (-1, ())
        """The item whose calls were looked up last, and those calls."""

    def face(self, item: int) -> Face:
        """Give the face of an item; one that tells of a call has the call in it.

        Two calls may be allowed, begun and answered in the same words, and are two all the same.
        """
        own = self._own(item)
        return own._replace(said=own.said + self._call(item))

    def _own(self, item: int) -> Face:
        reader = self._reader
        kind = reader.timeline.kind(item)
        if self._is_decoded(item):
            with suppress(BadRecord):
                if reader.session is not None:
                    return Face(kind, said_by(reader.session.event(item)))
                face = face_of(kind, reader.record(item))
                if face is not None:
                    return face
        return face_of_bytes(kind, self._pieces(item))

    def _call(self, item: int) -> bytes:
        """Give what the call says that an item tells of, its tool first; nothing where it tells of none."""
        timeline = self._reader.timeline
        if self._reader.session is not None:
            life = self._reader.session.timeline.life(item)
            if life is None:
                return b""
            asked, call, name = life.first, 0, life.now.name
        else:
            row = timeline.link(timeline.first_row(item)) if timeline.kind(item) == "result" else None
            if row is None:
                return b""
            found = timeline.row(row)
            asked, call, name = found.item, found.call, timeline.call_name(found.item, found.call)
        if self._asked[0] != asked:
            self._asked = (asked, self._calls(asked))
        calls = self._asked[1]
        return name.encode(errors="surrogatepass") + b"\0" + (calls[call] if call < len(calls) else b"")

    def _calls(self, item: int) -> tuple[bytes, ...]:
        """Give what is asked for by an item, call by call; nothing where that cannot be told."""
        reader = self._reader
        if not self._is_decoded(item):
            return ()
        with suppress(BadRecord):
            if reader.session is not None:
                event = reader.session.event(item)
                return (call_of(event),) if event.event_type == "tool.requested" else ()
            face = face_of("assistant", reader.record(item))
            return () if face is None else face.calls
        return ()

    def _is_decoded(self, item: int) -> bool:
        span = self._reader.timeline.span(item)
        return span.end - span.start <= _DECODED

    def _pieces(self, item: int) -> Iterator[bytes]:
        span = self._reader.timeline.span(item)
        for place in range(span.start, span.end, _BLOCK):
            yield self._reader.bytes_at(place, min(_BLOCK, span.end - place))
