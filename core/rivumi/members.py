"""Members of an object that another program wrote: the wrong shape is named, never fatal."""

from __future__ import annotations

from typing import Final, TypeVar

from refold.core.records import Json

_T = TypeVar("_T")
_MAX = 2**63 - 1


def capped(total: int) -> int:
    """Keep a sum within 64 bits: the original adds without end, what is kept and written cannot."""
    return max(-_MAX, min(total, _MAX))


class Members:
    """Reads the members of one object and remembers what was odd."""

    def __init__(self, raw: dict[str, Json]) -> None:
        self.raw: Final = raw
        self.odd: list[str] = []

    def text(self, name: str, default: str = "") -> str:
        """Give a text."""
        value = self.raw.get(name)
        if isinstance(value, str):
            return value
        return self._missing(name, "no text", default)

    def whole(self, name: str, default: int) -> int:
        """Give a whole number."""
        value = self.raw.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MAX:
            return value
        return self._missing(name, "no whole number", default)

    def number(self, name: str, default: float) -> float:
        """Give a number."""
        value = self.raw.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MAX:
            return float(value)
        return self._missing(name, "no number", default)

    def flag(self, name: str) -> bool | None:
        """Give true or false."""
        value = self.raw.get(name)
        if isinstance(value, bool):
            return value
        return self._missing(name, "neither true nor false", None)

    def many(self, name: str) -> tuple[Json, ...]:
        """Give the items of a list."""
        value = self.raw.get(name)
        if isinstance(value, list):
            return tuple(value)
        return self._missing(name, "no list", ())

    def object(self, name: str) -> dict[str, Json] | None:
        """Give an object."""
        value = self.raw.get(name)
        if isinstance(value, dict):
            return value
        return self._missing(name, "no object", None)

    def _missing(self, name: str, what: str, default: _T) -> _T:
        if self.raw.get(name) is not None:
            self.odd.append(f"{name} is {what}")
        return default
