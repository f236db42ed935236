"""Secrets that damage has cut in two: one end stands in this damaged stretch, the other in the next one.

Neither half has the shape of a secret. So the edges of neighbouring stretches are looked at joined, and an
edge that nothing follows as if it went on: what a crash cut off was a secret, too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from refold.core.redact import Redactor, placeholder
from refold.core.store.reader import RunReader

_EDGE: Final = 2048
"""So many bytes of each side are looked at."""
_SEEN: Final = 4
"""Fewer characters of a secret give nothing away."""
_GOES_ON: Final = ("aB3dE6gH9jK2mN5pQ8sT" * 5, "1a2b3c4d5e6f7a8b" * 5, "aB3dE6gH9jK2.mN5pQ8sTaB3d." * 4)
"""How a secret may have gone on behind what was cut off: letters, hexadecimal digits, parts with dots."""


class Cut(NamedTuple):
    """A part of a secret in the bytes of a run."""

    start: int
    """Byte in the file, counted from 0."""
    end: int
    """The byte after the last one."""
    kind: str
    begins: bool
    """The secret begins here."""


def cut_secrets(reader: RunReader, redactor: Redactor, damaged: Sequence[int]) -> tuple[Cut, ...]:
    """Find the parts of secrets that run over an edge of damage, in the order of the file.

    Args:
        reader: the run.
        redactor: knows what a secret is, and what is none.
        damaged: the items that are damage, in order.
    """
    timeline = reader.timeline
    found: list[Cut] = []
    for number, item in enumerate(damaged):
        following = damaged[number + 1] if number + 1 < len(damaged) else None
        here = timeline.span(item)
        start = max(here.start, here.end - _EDGE)
        tail = _text(reader.bytes_at(start, here.end - start))
        # Between two parts of a broken line may stand the record that broke it.
        if following is not None and following - item <= 2:
            there = timeline.span(following)
            head = _text(reader.bytes_at(there.start, min(_EDGE, there.end - there.start)))
            for span in redactor.crossing(tail, head):
                found.append(Cut(start + _size(tail[: span.start]), here.end, span.kind, begins=True))
                end = there.start + _size(head[: span.end - len(tail)])
                found.append(Cut(there.start, end, span.kind, begins=False))
        found += _open_end(tail, start, here.end, redactor)
    return tuple(_apart(sorted(found)))


def masked(raw: bytes, start: int, cuts: tuple[Cut, ...]) -> bytes:
    """Give some bytes of a run with a placeholder for each part of a secret.

    Args:
        raw: the bytes.
        start: where in the file they stand.
        cuts: what `cut_secrets` found.
    """
    end = start + len(raw)
    parts: list[bytes] = []
    at = start
    for cut in cuts[bisect_right(cuts, start, key=_end) :]:
        if cut.start >= end:
            break
        parts += (raw[at - start : max(0, cut.start - start)], placeholder(cut.kind).encode())
        at = min(end, cut.end)
    return b"".join((*parts, raw[at - start :])) if parts else raw


def _end(cut: Cut) -> int:
    return cut.end


def _open_end(tail: str, start: int, end: int, redactor: Redactor) -> Iterator[Cut]:
    for more in _GOES_ON:
        for span in redactor.crossing(tail, more):
            seen = tail[span.start :]
            # What goes on in our own way looks drawn by lot: of what little stood there that says nothing.
            if len(seen) >= _SEEN and not seen.isdigit():
                yield Cut(start + _size(tail[: span.start]), end, span.kind, begins=True)


def _apart(cuts: list[Cut]) -> Iterator[Cut]:
    """Join parts that overlap."""
    last: Cut | None = None
    for cut in cuts:
        if last is not None and cut.start < last.end:
            last = last._replace(end=max(last.end, cut.end))
            continue
        if last is not None:
            yield last
        last = cut
    if last is not None:
        yield last


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))
