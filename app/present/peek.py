"""What the first bytes of a long record already tell: a cut JSON text, closed so that it can be decoded."""

from __future__ import annotations

import re

from refold.core.errors import BadRecord
from refold.core.formats import Decoder
from refold.core.records import Record

_TOKEN = re.compile(
    rb"[ \t\r\n]*(?:"
    rb'("[^"\\]*+(?:\\(?:u[0-9a-fA-F]{4}|[^u])[^"\\]*+)*+)("?)'
    rb"|([\[\]{},:])"
    rb'|([^\s\[\]{},:"]+))',
    re.DOTALL,
)
"""A string and its closing quote, which the cut may have taken; a mark; a word."""
_DEEPEST = 200
_MOST_TOKENS = 4000


def completed(prefix: bytes, *, keep_open_string: bool = True) -> bytes:
    """Close a JSON text that was cut anywhere, dropping what the cut left without meaning.

    Args:
        prefix: The first bytes of a JSON object or array.
        keep_open_string: Whether a string value that the cut runs through is closed and kept, or dropped.

    Returns:
        JSON that parses if the text before the cut did.
    """
    prefix = _without_partial_character(prefix)
    closers: list[bytes] = []
    position = kept = 0
    key_next = False
    for _ in range(_MOST_TOKENS):
        token = _TOKEN.match(prefix, position)
        if token is None:
            break
        position = token.end()
        text, quote, mark, word = token.groups()
        if text is not None:
            if not quote:
                if keep_open_string and not key_next:
                    return prefix[:position] + b'"' + b"".join(reversed(closers))
                break
            if not key_next:
                kept = position
        elif word is not None:
            if position == len(prefix):
                break
            kept = position
        elif mark in b"[{":
            if len(closers) == _DEEPEST:
                break
            closers.append(b"]" if mark == b"[" else b"}")
            key_next = mark == b"{"
            kept = position
        elif mark in b"]}":
            if not closers or closers.pop() != mark:
                return prefix
            kept = position
            if not closers:
                return prefix[:kept]
            key_next = False
        elif mark == b",":
            key_next = bool(closers) and closers[-1] == b"}"
        else:
            key_next = False
    return prefix[:kept] + b"".join(reversed(closers))


def peek(decoder: Decoder, raw: bytes, *, whole: bool) -> Record | None:
    """Decode a record, or as much of it as its first bytes hold; None where that is no record."""
    for keep_open_string in (True,) if whole else (True, False):
        line = raw if whole else completed(raw, keep_open_string=keep_open_string)
        try:
            return decoder.record(line)
        except BadRecord:
            continue
    return None


def _without_partial_character(prefix: bytes) -> bytes:
    for back in range(1, min(4, len(prefix) + 1)):
        byte = prefix[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return prefix[:-back] if needed > back else prefix
    return prefix
