"""A run as Markdown: headings of ours, and every text of the run in a fence that it cannot end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from refold.core.export.entries import Entry, Head, title, visible
from refold.core.export.parts import Part, parts_of

_TICKS: Final = re.compile("`+")
_INLINE: Final = 300
_WORDS: Final = {"call": "json", "json": "json"}


def markdown(head: Head, entries: Iterable[Entry]) -> Iterator[str]:
    """Give the document piece by piece."""
    yield f"# Run {inline(head.run_id)}\n\n"
    for name, value in head.facts:
        yield f"- {name}: {inline(value)}\n"
    for entry in entries:
        yield f"\n## {entry.place} · {title(entry)}\n"
        for part in parts_of(entry):
            yield from _part(part)


def inline(text: str) -> str:
    """Give a text as code within a line."""
    short = visible(text[:_INLINE]).replace("\n", "⏎").replace("\t", " ") + (
        "…" if len(text) > _INLINE else ""
    )
    ticks = "`" * (_longest(short) + 1)
    return f"{ticks} {short} {ticks}"


def _part(part: Part) -> Iterator[str]:
    label = f"{part.style}: " if part.style in {"call", "result", "error"} else ""
    if part.style == "note":
        yield f"\n{inline(part.label)}: {inline(part.text)}\n"
        return
    if label or part.label:
        yield f"\n{label}{inline(part.label)}\n" if part.label else f"\n{label[:-2]}\n"
    text = visible(part.text)
    fence = "`" * max(3, _longest(text) + 1)
    yield f"\n{fence}{_WORDS.get(part.style, 'text')}\n"
    yield text
    yield f"\n{fence}\n"


def _longest(text: str) -> int:
    return max((len(found[0]) for found in _TICKS.finditer(text)), default=0)
