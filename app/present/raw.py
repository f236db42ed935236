"""The exact bytes of a record, as text in which nothing is hidden or as hex; only what is seen is read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from refold.app import safe
from refold.app.lines import Cell, Line
from refold.app.present.layout import cell, fit
from refold.app.safe import Safe
from refold.core.errors import RefoldError

Read = Callable[[int, int], bytes]
"""Gives so many bytes from a place within the record."""

_LOOKED_AT: Final = 131_072
_WINDOW: Final = 16_384
_KEPT: Final = 16
_HEX: Final = 16
_SMALL_HEX: Final = 8


class RawRows:
    """Bytes in rows of equal number, so that a row is found without reading the rows before it."""

    def __init__(self, read: Read, length: int, offset: int, width: int, *, as_hex: bool = False) -> None:
        """Show the bytes of one record.

        Args:
            read: Gives bytes of the record by their place within it.
            length: How many bytes the record has.
            offset: Where it starts in the file; shown beside each row.
            width: The columns of the pane.
            as_hex: Show numbers instead of text.
        """
        self.length = length
        self._read = read
        self._offset = offset
        self._digits = len(str(offset + length))
        self._as_hex = as_hex
        self._windows: OrderedDict[int, bytes] = OrderedDict()
        room = max(8, width - self._digits - 2)
        self.per_row = self._bytes_for(room)

    def __len__(self) -> int:
        return max(1, -(-self.length // self.per_row))

    def line(self, index: int, width: int) -> Line:
        """Give the bytes of one row, the place of the first one before them; or why they cannot be read."""
        try:
            return self._line(index, width)
        except RefoldError as error:
            return fit((cell(str(error), "problem", 1000),), width)

    def _line(self, index: int, width: int) -> Line:
        start = index * self.per_row
        number = Cell(Safe(f"{self._offset + start:>{self._digits}}  "), "dim")
        if not self.length:
            return (number, Cell(Safe("no bytes"), "dim"))
        if self._as_hex:
            return (number, *_hex_cells(self._bytes(start, start + self.per_row), self.per_row))
        first, stop = self._character_start(start), self._character_start(start + self.per_row)
        text = _visible(self._bytes(first, stop))
        return (number, Cell(safe.fit(text, max(1, width - self._digits - 2)), "text"))

    def _bytes_for(self, room: int) -> int:
        """Give how many bytes surely fit on a row, whatever their pictures take."""
        if self._as_hex:
            return next((count for count in (_HEX, _SMALL_HEX) if room >= 4 * count + 2), 4)
        sample = self._read(0, min(self.length, _LOOKED_AT))
        if sample.isascii() and self.length <= _LOOKED_AT:
            return room
        text = safe.from_bytes(sample)
        if "‹x" in text:
            return max(4, room // 5)
        return max(4, room // 3) if "‹" in text else max(4, room - 1)

    def _character_start(self, place: int) -> int:
        """Give the place of the character that the byte at a place belongs to."""
        if place >= self.length:
            return self.length
        back = self._bytes(max(0, place - 3), place + 1)
        for step in range(len(back)):
            byte = back[-1 - step]
            if byte & 0xC0 != 0x80:
                needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
                return place - step if needed > step else place
        return place

    def _bytes(self, start: int, stop: int) -> bytes:
        stop = min(stop, self.length)
        found = b""
        while start < stop:
            number = start // _WINDOW
            window = self._window(number)
            part = window[start - number * _WINDOW : stop - number * _WINDOW]
            if not part:
                break
            found += part
            start += len(part)
        return found

    def _window(self, number: int) -> bytes:
        window = self._windows.get(number)
        if window is None:
            window = self._windows[number] = self._read(number * _WINDOW, _WINDOW)
            while len(self._windows) > _KEPT:
                self._windows.popitem(last=False)
        else:
            self._windows.move_to_end(number)
        return window


def _visible(data: bytes) -> Safe:
    """Show bytes as text; a newline or tab gets its picture here, not the room it would take."""
    return safe.from_bytes(data.replace(b"\n", "␊".encode()).replace(b"\t", "␉".encode()))


def _hex_cells(data: bytes, per_row: int) -> tuple[Cell, ...]:
    half = per_row // 2
    left = data[:half].hex(" ")
    right = data[half:].hex(" ")
    numbers = f"{left:<{half * 3 - 1}}  {right:<{(per_row - half) * 3 - 1}}  "
    letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in data)
    return (Cell(Safe(numbers), "number"), Cell(Safe(letters), "text"))
