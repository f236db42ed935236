"""A number of bytes as a short word; the same number reads the same in every message and on every screen."""

from __future__ import annotations

_KILO = 1000


def sized(count: int) -> str:
    """Give a number of bytes in decimal units: 31 B, 1.2 KB, 49.9 MB."""
    if count < _KILO:
        return f"{count} B"
    value = count / _KILO
    for unit in ("KB", "MB", "GB"):
        if value < 99.95:
            return f"{value:.1f} {unit}"
        if value < 999.5:
            return f"{value:.0f} {unit}"
        value /= _KILO
    return f"{value:,.1f} TB"
