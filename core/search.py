r"""A text, found in the raw bytes of records whatever JSON spelling it has there.

Two writers of the same text rarely write the same bytes: `é` may be two bytes of UTF-8 or `\u00e9`, `<` is
`\u003c` to Go, `/` may be `\/` (formats/fisk-ai.md 1.6). Decoding every record to compare texts costs
many times the reading, so the bytes are searched, and only a record that has a hit is decoded.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from refold.core.texts import Crowded, decoded, readable_texts

LONGEST = 500
"""Characters of a text that are looked for: each costs a tenth of a millisecond before a search begins."""

_WORDS = "words"

_SHORT_ESCAPES = {
    '"': rb"\"",
    "\\": rb"\\",
    "/": rb"\/",
    "\b": rb"\b",
    "\f": rb"\f",
    "\n": rb"\n",
    "\r": rb"\r",
    "\t": rb"\t",
}
_NEVER_RAW = frozenset('"\\\n')
_HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")

_WORDS_ONLY = re.compile(r"[A-Za-z0-9 _.,:;()\[\]{}=+*#@!?$%^~`|-]+")
"""Characters that every JSON writer leaves as they are."""

_ODD_ESCAPE = re.compile(rb"\\u00(?!3[cCeE]|2[26]|5[cC])[2-7]")
"""An escape that spells a character which needs none; only then can plain words be spelled otherwise."""


@lru_cache(maxsize=64)
def pattern(query: str, *, ignore_case: bool = True) -> re.Pattern[bytes]:
    r"""Give a pattern that matches this text in the raw bytes of a record, however JSON spells it.

    It matches at the start of a character only: `n` is not found in the escape `\n`, nor `00` in `\u00e9`.
    A match may begin with the backslashes before the text; its end is the end of the text.

    Args:
        query: The text as a person types it; an empty one matches nothing, a long one by its `LONGEST` first
            characters.
        ignore_case: Let a letter stand for its upper and lower case, one character for one.
    """
    if not query:
        return re.compile(rb"(?!)")
    parts = [_first(_variants(query[0], ignore_case=ignore_case))]
    for char in query[1:LONGEST]:
        raw, escaped = _spellings(_variants(char, ignore_case=ignore_case))
        parts.append(rb"(?:" + rb"|".join([*map(re.escape, raw), *escaped]) + rb")")
    return re.compile(b"".join(parts), re.DOTALL)


@lru_cache(maxsize=64)
def text_pattern(query: str, *, ignore_case: bool = True) -> re.Pattern[str]:
    """Give the pattern of the same text over decoded text, with the same idea of case."""
    if not query:
        return re.compile(r"(?!)")
    classes = (sorted(_variants(char, ignore_case=ignore_case)) for char in query[:LONGEST])
    return re.compile("".join("(?:" + "|".join(map(re.escape, chars)) + ")" for chars in classes))


def expression_of(typed: str) -> str | None:
    """Give the regular expression that is typed between slashes, `/like this/`; None for a text."""
    return typed[1:-1] if len(typed) > 2 and typed[0] == typed[-1] == "/" else None


def words_of(typed: str) -> str | None:
    """Give what stands behind `words:`, a query as the search of all runs takes it; None for a text."""
    name, colon, words = typed.partition(":")
    return words.strip() if colon and name.strip().lower() == _WORDS else None


def in_words(query: str) -> str:
    """Give what is typed in a run to find what this query of the search of all runs finds there."""
    return f"{_WORDS}: {query.strip()}"


class Search:
    """One text to be looked for in many records; of a long one its `LONGEST` first characters."""

    def __init__(self, query: str, *, ignore_case: bool = True) -> None:
        self.query = query
        self.ignore_case = ignore_case
        self._pattern = pattern(query, ignore_case=ignore_case)
        self._text = text_pattern(query, ignore_case=ignore_case)
        self._plain = _longest_plain(query[:LONGEST], ignore_case=ignore_case)
        self._rare = _rare_spellings(query[:LONGEST], ignore_case=ignore_case)

    @property
    def reach(self) -> int:
        """The most bytes that one hit can take, with what must be seen before it."""
        return 12 * min(len(self.query), LONGEST) + 64

    def candidate(self, data: bytes, start: int = 0) -> int:
        """Give where in these bytes the text may end, or -1; a hit in structure counts still."""
        if start == 0 and not self._possible(data):
            return -1
        found = self._pattern.search(data, start)
        return -1 if found is None else found.end()

    def in_record(self, line: bytes) -> bool:
        """Say whether a reader of this record could see the text, in a value or in what a call was given."""
        if self.candidate(line) < 0:
            return False
        try:
            value = decoded(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, Crowded):
            return True
        return any(self._text.search(text) is not None for text in readable_texts(value))

    def _possible(self, data: bytes) -> bool:
        if self._plain:
            lowered = data.lower() if self.ignore_case else data
            return self._plain in lowered or _ODD_ESCAPE.search(data) is not None
        if self._rare is None:
            return True
        raw, escaped = self._rare
        return any(spelling in data for spelling in raw) or escaped.search(data) is not None


def _variants(char: str, *, ignore_case: bool) -> frozenset[str]:
    if not ignore_case:
        return frozenset(char)
    return frozenset(form for form in (char, char.lower(), char.upper()) if len(form) == 1)


def _spellings(chars: frozenset[str]) -> tuple[list[bytes], list[bytes]]:
    """Give the raw spellings as bytes and the escaped ones as patterns."""
    raw: list[bytes] = []
    escaped: list[bytes] = []
    for char in sorted(chars):
        if char not in _NEVER_RAW:
            raw.append(char.encode("utf-8", "surrogatepass"))
        if short := _SHORT_ESCAPES.get(char):
            escaped.append(re.escape(short))
        escaped.append(_hex_escape(char))
    return raw, escaped


def _hex_escape(char: str) -> bytes:
    units = char.encode("utf-16-be", "surrogatepass")
    return b"".join(rb"\\u" + _any_case(units[i : i + 2].hex()) for i in range(0, len(units), 2))


def _any_case(digits: str) -> bytes:
    return "".join(f"[{d}{d.upper()}]" if d.isalpha() else d for d in digits).encode()


def _first(chars: frozenset[str]) -> bytes:
    r"""Spell the first character so that a match can only begin where a character begins.

    Each alternative starts with one fixed byte, which lets the engine skip through bytes that cannot
    start a hit; what must not stand before that byte is checked behind it. A run of backslashes is
    entered at its first one and taken in pairs, since only their number tells what the last one is.
    """
    raw, escaped = _spellings(chars)
    alternatives: list[bytes] = []
    after_pairs: list[bytes] = list(escaped)
    for spelling in raw:
        width = len(spelling)
        is_hex = spelling[0] in _HEX_DIGITS
        guard = rb"(?<!\\" + b"." * width + rb")"
        if is_hex:
            guard += b"".join(rb"(?<!\\u" + b"." * (width + digits) + rb")" for digits in range(4))
        alternatives.append(re.escape(spelling) + guard)
        after_pairs.append((rb"(?:u(?:[^\\]|\\[^u]){0,3}?)?" if is_hex else b"") + re.escape(spelling))
    tails = [spelling.removeprefix(rb"\\") for spelling in escaped]
    pairs = rb"\\(?:\\\\)*(?:" + rb"|".join(after_pairs) + rb")"
    alternatives.append(rb"\\(?<!\\\\)(?:" + rb"|".join([*tails, pairs]) + rb")")
    return rb"(?:" + rb"|".join(alternatives) + rb")"


def _rare_spellings(query: str, *, ignore_case: bool) -> tuple[list[bytes], re.Pattern[bytes]] | None:
    """Give how the first character beyond ASCII may be spelled; None where there is none."""
    rare = next((char for char in query if not char.isascii()), None)
    if rare is None:
        return None
    raw, escaped = _spellings(_variants(rare, ignore_case=ignore_case))
    return raw, re.compile(rb"|".join(escaped))


def _longest_plain(query: str, *, ignore_case: bool) -> bytes:
    runs = _WORDS_ONLY.findall(query)
    longest = max(runs, key=len, default="").encode()
    return longest.lower() if ignore_case else longest
