"""Feeds the calls of an open run to its `Touches`, in small steps and each call once."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final

from refold.core.columns import ASSISTANT, CALL, RESULT, USER
from refold.core.errors import BadRecord
from refold.core.store.reader import RunReader
from refold.core.store.scan import Skeleton
from refold.core.touches import Touches

WHOLE: Final = 1 << 18
"""Records up to this many bytes are decoded at one go; of longer ones the long texts are left out."""
_PIECE: Final = 1 << 18


class TouchReader:
    """Knows what the calls of one run touched, as far as it was asked."""

    def __init__(self, reader: RunReader) -> None:
        self.touches = Touches()
        self._reader = reader

    def extend(self, upto: int) -> Iterator[None]:
        """Take in all items before one, in small steps; what was taken in before is not read again."""
        touches = self.touches
        while touches.items < min(upto, self._reader.settled):
            item = touches.items
            yield from self._take(item)
            touches.items = item + 1
            yield

    def _take(self, item: int) -> Iterator[None]:
        touches, timeline = self.touches, self._reader.timeline
        kind = timeline.columns.kind[item]
        if kind == RESULT:
            key = timeline.answered(item)
            if key >= 0:
                touches.end(key, item, ok=not timeline.is_error(item))
            return
        if kind in {ASSISTANT, USER}:
            for key in touches.open_keys():
                touches.give_up(key, item, may_have_run=timeline.may_have_run(key))
        if kind in {ASSISTANT, CALL} and timeline.own_calls(item):
            line = yield from self._line(item)
            try:
                asked = self._reader.asked(item, line)
            except BadRecord:
                touches.unread += 1
                return
            for ordinal, (key, name, arguments) in enumerate(asked):
                touches.ask(key, item, ordinal, name, arguments)

    def _line(self, item: int) -> Generator[None, None, bytes]:
        """Read an item; of a long one its structure alone."""
        where = self._reader.timeline.span(item)
        if where.end - where.start <= WHOLE:
            return self._reader.raw(item)
        self.touches.unread += 1
        skeleton = Skeleton()
        for start in range(0, where.end - where.start, _PIECE):
            skeleton.feed(self._reader.raw_part(item, start, _PIECE))
            yield
        return skeleton.bytes()
