"""Sizes, counts and durations as short words; the same number reads the same on every screen."""

from __future__ import annotations

from refold.core.sizes import sized

_MINUTE = 60
_HOUR = 3600
_DAY = 86_400
_KILO = 1000


def grouped(number: int) -> str:
    """Give a number with its thousands set apart: 12,345."""
    return f"{number:,}"


def short(number: int) -> str:
    """Give a count in at most five characters up to a billion: 31, 1.0k, 412k, 2.3M."""
    if number < 0:
        return f"-{short(-number)}"
    if number < _KILO:
        return str(number)
    value = number / _KILO
    for unit in "kMGT":
        if value < 9.95:
            return f"{value:.1f}{unit}"
        if value < 999.5:
            return f"{value:.0f}{unit}"
        value /= _KILO
    return f"{value:,.0f}P"


def size(count: int) -> str:
    """Give a number of bytes in decimal units: 31 B, 1.2 KB, 49.9 MB."""
    return sized(count)


def plural(number: int, noun: str, many: str = "") -> str:
    """Give a count with its noun: 1 call, 12,345 calls."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def duration(seconds: float) -> str:
    """Give a length of time by its two largest units: 0.4s, 41s, 4m 05s, 3h 12m, 2d 4h."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m {whole % _MINUTE:02}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h {whole % _HOUR // _MINUTE:02}m"
    return f"{whole // _DAY}d {whole % _DAY // _HOUR}h"


def since_start(seconds: float) -> str:
    """Give a time column entry of at most seven characters: +0.4s, +4m05s, +3h12m, +2d4h."""
    text = duration(seconds).replace(" ", "")
    return text if seconds < 0 else f"+{text}"


def ago(seconds: float) -> str:
    """Say how long ago something was, in one unit; what lies ahead of our clock is never given a distance."""
    if seconds < -1:
        return "clock ahead"
    whole = max(0, int(seconds))
    if whole < _MINUTE:
        return f"{whole}s ago"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m ago"
    if whole < _DAY:
        return f"{whole // _HOUR}h ago"
    return f"{whole // _DAY}d ago"


def place(start: int, end: int) -> str:
    """Say where bytes lie in a file without leaving open whether the last one counts."""
    return f"at byte {start:,}, {plural(end - start, 'byte')}"
