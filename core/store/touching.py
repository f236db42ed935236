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
_FED: Final = 1 << 13
"""Bytes taken apart in one step: nothing but short texts takes two milliseconds."""
TELLING: Final = 16_384
"""Results above this many bytes are no denial of a call, and no decision about it."""


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
            if not touches.waits(key):
                return
            if self._reader.outcome_unknown(item, TELLING):
                touches.give_up(key, item, again=self._reader.runs_again(item))
            else:
                ok = not timeline.is_error(item) and not self._reader.denied(item, TELLING)
                touches.end(key, item, ok=ok)
            return
        if kind in {ASSISTANT, USER}:
            for key in touches.open_keys():
                touches.give_up(key, item, may_have_run=timeline.may_have_run(key))
        if kind in {ASSISTANT, CALL} and timeline.own_calls(item):
            line = yield from line_of(self._reader, item)
            try:
                asked = self._reader.asked(item, line)
            except BadRecord:
                touches.unread += 1
                return
            for ordinal, (key, name, arguments) in enumerate(asked):
                yield from touches.ask(key, item, ordinal, name, arguments)


def line_of(reader: RunReader, item: int, whole: int = WHOLE) -> Generator[None, None, bytes]:
    """Read an item, in steps; of one that is longer than `whole` its structure without the long texts."""
    where = reader.timeline.span(item)
    length = where.end - where.start
    if length <= whole:
        return reader.raw(item)
    skeleton = Skeleton()
    for start in range(0, length, _PIECE):
        piece = reader.raw_part(item, start, min(_PIECE, length - start))
        for at in range(0, len(piece), _FED):
            skeleton.feed(piece[at : at + _FED])
            yield
    return skeleton.bytes()
