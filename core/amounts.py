"""How people write amounts: lengths of time and sizes, for filters and rules alike."""

from __future__ import annotations

import re
from typing import Final

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN: Final = re.compile(r"(?:\d{1,7}[smhdw])+", re.IGNORECASE | re.ASCII)
_SPAN_PART: Final = re.compile(r"(\d+)([smhdw])")
_LENGTH: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhdw]?)", re.IGNORECASE | re.ASCII)
_TIMES: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_AMOUNT: Final = re.compile(r"(\d{1,18}(?:\.\d{1,18})?) ?([kmgt]?)b?", re.IGNORECASE | re.ASCII)


def span_of(text: str) -> float | None:
    """Give a length of time of whole units as seconds: 30d, 1d12h; None for what is none."""
    if not _SPAN.fullmatch(text):
        return None
    return float(sum(int(count) * _SECONDS[unit] for count, unit in _SPAN_PART.findall(text.lower())))


def length_of(text: str) -> float | None:
    """Give a length of time of one unit as seconds: 90s, 1.5h, without a unit seconds; None for none."""
    found = _LENGTH.fullmatch(text)
    return None if found is None else float(found[1]) * _SECONDS[found[2].lower() or "s"]


def amount_of(text: str) -> float | None:
    """Give a number or a size in bytes: 500, 100k, 1.5GB, in decimal units; None for what is none."""
    found = _AMOUNT.fullmatch(text)
    return None if found is None else float(found[1]) * _TIMES[found[2].lower()]
