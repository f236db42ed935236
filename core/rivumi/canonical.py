r"""The JSON of the files of a run: sorted keys, no blanks, text left as it is (formats/rivumi.md 1).

Only in the log three line ends of Unicode are written as escapes, which mean the same: its own program cuts
lines at them and could not resume the run (formats/rivumi.md 9, weakness 7).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from refold.core.errors import BadRecord
from refold.core.formats.tolerant import MAX_DEPTH, too_deep
from refold.core.records import Json

PREVIEW: Final = 2_000
"""Bytes of a text that an event holds at most (formats/rivumi.md 2, "Bounds")."""

_CUT = "\n... [cut] ...\n"
_LINE_ENDS = tuple((end.encode(), f"\\u{ord(end):04x}".encode()) for end in "\x85\u2028\u2029")


def canonical(value: Json | Mapping[str, Json]) -> bytes:
    """Give the one spelling of a value.

    Raises:
        BadRecord: it has no JSON that every reader takes: half of a surrogate pair, NaN, or too deep.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
        data = text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRecord(f"cannot be written as JSON: {error}") from error
    if too_deep(data):
        raise BadRecord(f"nested more than {MAX_DEPTH} levels deep", code="E_TOO_DEEP")
    return data


def one_line(value: Mapping[str, Json]) -> bytes:
    """Give the line of a log that stands for an object, its end included.

    Raises:
        BadRecord: it cannot be written.
    """
    line = canonical(value)
    for end, escape in _LINE_ENDS:
        line = line.replace(end, escape)
    return line + b"\n"


def time_text(moment: datetime) -> str:
    """Give a time as the files have it: UTC, microseconds, no fraction where it is zero."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def preview(text: str, limit: int = PREVIEW) -> str:
    """Give a text, of a longer one the head and the tail: at most so many bytes."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    half = max(0, limit - len(_CUT)) // 2
    head, tail = data[:half].decode("utf-8", "ignore"), data[len(data) - half :].decode("utf-8", "ignore")
    return f"{head}{_CUT}{tail}"
