"""The border where text from outside becomes text that may be drawn.

A terminal obeys some characters and hides others; both are shown here as visible pictures (``ESC`` as ``␛``,
a right-to-left override as ``‹RLO›``). Copy, search and export use the original bytes, never this text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, Literal, NewType

Safe = NewType("Safe", str)
"""Text in which every character takes the cells it says and none commands the terminal."""

EMPTY: Final = Safe("")

MARKS: Final = 4
"""So many combining marks are drawn on one base; the rest is counted."""

TAB: Final = 4

_NAMES: Final[dict[int, str]] = {
    0x85: "NEL",
    0xAD: "SHY",
    0x34F: "CGJ",
    0x61C: "ALM",
    0x115F: "HCF",
    0x1160: "HJF",
    0x17B4: "KIVAQ",
    0x17B5: "KIVAA",
    0x180E: "MVS",
    0x200B: "ZWSP",
    0x200C: "ZWNJ",
    0x200D: "ZWJ",
    0x200E: "LRM",
    0x200F: "RLM",
    0x2028: "LS",
    0x2029: "PS",
    0x202A: "LRE",
    0x202B: "RLE",
    0x202C: "PDF",
    0x202D: "LRO",
    0x202E: "RLO",
    0x2060: "WJ",
    0x2066: "LRI",
    0x2067: "RLI",
    0x2068: "FSI",
    0x2069: "PDI",
    0x3164: "HF",
    0xFEFF: "BOM",
    0xFFA0: "HHF",
}

_INVISIBLE: Final = frozenset(_NAMES) | frozenset(range(0x180B, 0x1810)) | frozenset(range(0x1F3FB, 0x1F400))
"""Characters that Unicode calls printable and nobody can see, or that change the one before them."""

_WIDE_SINCE_16: Final = (
    range(0x2630, 0x2638),
    range(0x268A, 0x2690),
    range(0x4DC0, 0x4E00),
    range(0x1D300, 0x1D377),
)
"""Wide in the tables that Textual lays out by, whatever Unicode version this Python knows."""

_JAMO: Final = (range(0x1160, 0x1200), range(0xD7B0, 0xD800))
"""Hangul vowels and finals: they are drawn into the syllable before them."""

_DRESSED: Final = re.compile("(.)([\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]+)", re.DOTALL)
_JOINED: Final = re.compile("(.)\u200d(?=(.))", re.DOTALL)

_MEMORY: Final = 16_384


class _Pictures(dict[int, str]):
    """What is drawn for a code point, worked out when first met."""

    def __missing__(self, code: int) -> str:
        if len(self) >= _MEMORY:
            self.clear()
        picture = self[code] = _picture(code)
        return picture


class _Widths(dict[str, int]):
    """Cells of a character, worked out when first met."""

    def __missing__(self, character: str) -> int:
        if len(self) >= _MEMORY:
            self.clear()
        cells = self[character] = _cells(character)
        return cells


_PICTURES: Final = _Pictures()
_WIDTHS: Final = _Widths()
_PLAIN: Final[set[str]] = set()
"""Characters met so far that are their own picture and take cells, whatever stands beside them."""


def line(text: str, limit: int | None = None) -> Safe:
    """The text on one row; a line end is shown as ``⏎``, a tab as one space.

    With `limit` only so many characters are read, and a longer text ends in ``…``.
    """
    if limit is not None and len(text) > limit:
        return Safe(_clean(text[:limit].replace("\n", "⏎").replace("\t", " ")) + "…")
    if text.isascii() and text.isprintable():
        return Safe(text)
    return Safe(_clean(text.replace("\n", "⏎").replace("\t", " ")))


def block(text: str, limit: int | None = None) -> list[Safe]:
    r"""The text as rows, split at ``\n`` only, tabs expanded to their stops.

    With `limit` only so many characters are read, and a longer text ends in a row ``…``.
    """
    if limit is not None and len(text) > limit:
        return [*map(_row, text[:limit].split("\n")), Safe("…")]
    return [*map(_row, text.split("\n"))]


def from_bytes(data: bytes, limit: int | None = None) -> Safe:
    """Bytes on one row: what is not UTF-8 is shown byte by byte as ``‹xFF›``."""
    cropped = limit is not None and len(data) > limit
    text = _ends_whole(data[:limit]) if cropped else _decoded(data)
    return Safe(line(text) + "…") if cropped else line(text)


def width(text: str) -> int:
    """The cells that the text takes, as Textual counts them."""
    if text.isascii():
        return len(text)
    return sum(map(_WIDTHS.__getitem__, text))


def fit(text: Safe, cells: int, align: Literal["left", "right"] = "left") -> Safe:
    """The text in exactly so many cells: padded, or cut with ``…``."""
    taken = width(text)
    if taken > cells:
        if cells <= 0:
            return EMPTY
        kept = cut(text, cells - 1)[0]
        return Safe(kept + "…" + " " * (cells - 1 - width(kept)))
    padding = " " * (cells - taken)
    return Safe(text + padding) if align == "left" else Safe(padding + text)


def cut(text: Safe, cells: int) -> tuple[Safe, Safe]:
    """The longest beginning that fits into so many cells, and the rest; marks stay with their base."""
    stop = _reach(text, 0, max(0, cells))
    return Safe(text[:stop]), Safe(text[stop:])


def wrap(text: Safe, cells: int, *, words: bool = True) -> Iterator[Safe]:
    """The text in rows of at most so many cells, made as they are asked for.

    Rows break at a space where they have one, which is then left out; with `words` off they break at the edge
    and no character is left out.
    """
    cells = max(2, cells)
    start, end = 0, len(text)
    while start < end:
        stop = _reach(text, start, cells)
        if stop == end or not words:
            yield Safe(text[start:stop])
            start = stop
            continue
        space = text.rfind(" ", start + 1, stop + 1)
        if space < 0 or text[start:space].isspace():
            yield Safe(text[start:stop])
            start = stop
        else:
            yield Safe(text[start:space])
            start = space + 1
    if not text:
        yield EMPTY


def _reach(text: str, start: int, cells: int) -> int:
    """Where a row that begins at `start` is full."""
    stop = min(len(text), start + cells)
    if text.isascii():
        return stop
    taken = 0
    for position in range(start, len(text)):
        taken += _WIDTHS[text[position]]
        if taken > cells:
            return position
    return len(text)


def _row(text: str) -> Safe:
    """One row of a block."""
    if text.isascii() and text.isprintable():
        return Safe(text)
    if "\t" not in text:
        return Safe(_clean(text))
    row = ""
    first, *others = text.split("\t")
    row = _clean(first)
    for part in others:
        row += " " * (TAB - width(row) % TAB) + _clean(part)
    return Safe(row)


def _decoded(data: bytes) -> str:
    """UTF-8, with each bad byte written out."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        text = data.decode(errors="surrogateescape")
        return re.sub("[\udc80-\udcff]", lambda found: f"‹x{ord(found[0]) - 0xDC00:02X}›", text)


def _ends_whole(data: bytes) -> str:
    """A cut piece of bytes, without the character that the cut went through."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return _decoded(data[:-back] if needed > back else data)
        if byte < 0x80:
            break
    return _decoded(data)


def _clean(text: str) -> str:
    """Visible, one cell count for all readers of it, and the same when cleaned again."""
    if text.isascii():
        return text if text.isprintable() else text.translate(_PICTURES)
    if _PLAIN.issuperset(text):
        return text
    _learn(text)
    text = _DRESSED.sub(_undressed, text)
    text = _JOINED.sub(_parted, text)
    text = text.translate(_PICTURES)
    return text if all(map(_WIDTHS.__getitem__, text)) else _with_few_marks(text)


def _learn(text: str) -> None:
    """Remember the characters that need nothing done."""
    if len(_PLAIN) >= _MEMORY:
        _PLAIN.clear()
    _PLAIN.update(
        character for character in set(text) if _PICTURES[ord(character)] == character and _WIDTHS[character]
    )


def _undressed(found: re.Match[str]) -> str:
    """A symbol without skin tone and picture selector: terminals disagree about their cells."""
    symbol, dress = found[1], found[2]
    return symbol if len(dress) <= 2 and unicodedata.category(symbol)[0] in "SPN" else found[0]


def _parted(found: re.Match[str]) -> str:
    """The parts of a joined emoji side by side: terminals disagree about the cells of the whole."""
    both = unicodedata.category(found[1]) == "So" == unicodedata.category(found[2])
    return found[1] if both else found[0]


def _with_few_marks(text: str) -> str:
    """At most `MARKS` marks on a base, the others counted; a mark without a base gets one."""
    drawn: list[str] = []
    run = 0
    for character in text:
        if _WIDTHS[character]:
            if run > MARKS:
                drawn.append(f"‹+{run - MARKS}›")
            run = 0
            drawn.append(character)
            continue
        run += 1
        if not drawn:
            drawn.append("◌")
        if run <= MARKS:
            drawn.append(character)
    if run > MARKS:
        drawn.append(f"‹+{run - MARKS}›")
    return "".join(drawn)


def _picture(code: int) -> str:
    """The character itself where it may be drawn, else its picture."""
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if code in _NAMES:
        return f"‹{_NAMES[code]}›"
    if code < 0xA0 or 0xD800 <= code < 0xE000:
        return f"‹{code:02X}›" if code >= 0x80 else chr(code)
    if 0xFE00 <= code < 0xFE10:
        return f"‹VS{code - 0xFE00 + 1}›"
    if 0xE0100 <= code < 0xE01F0:
        return f"‹VS{code - 0xE0100 + 17}›"
    if 0xE0020 < code < 0xE007F:
        return f"‹TAG {chr(code - 0xE0000)}›"
    if code in _INVISIBLE or unicodedata.category(chr(code)) in {"Cf", "Cn", "Co"}:
        return f"‹U+{code:04X}›"
    return chr(code)


def _cells(character: str) -> int:
    """Cells of one character that may be drawn; 0 for those that never are."""
    code = ord(character)
    category = unicodedata.category(character)
    if category in {"Mn", "Mc", "Me", "Cc"} or any(code in jamo for jamo in _JAMO) or code in _INVISIBLE:
        return 0
    if unicodedata.east_asian_width(character) in "WF" or any(code in wide for wide in _WIDE_SINCE_16):
        return 2
    return 1
