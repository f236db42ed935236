"""One pass over everything on its way out: what looks like a secret is replaced, counted and named.

Values are looked at as a reader of the JSON would see them, so an escape in the middle of a key hides
nothing; only the bytes of the secret itself change, so JSON stays JSON and numbers keep their spelling.
The shapes are in `core.secret_shapes` (design/safety.md 3.2, rule 7).
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final

from refold.core.records import Json
from refold.core.secret_names import Found, is_secret_number, is_secret_value, stands_behind
from refold.core.secret_shapes import find, possible

WINDOW: Final = 1 << 20
"""So many bytes of a longer record are looked at in one piece."""
LONGEST: Final = 1 << 16
"""A secret may be so long and still be found wherever a piece ends."""

_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{4}|[\"\\/bfnrt])")
_PLAIN: Final = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PLAIN_ESCAPES: Final = tuple((f"\\{letter}", meant) for letter, meant in _PLAIN.items() if letter != "\\")
_TOKEN: Final = re.compile(
    r'(?P<string>"(?:[^"\\]++|\\.)*+(?:"|\\?\Z))(?P<colon>[^"{}\[\],:\d]*+:)?|[{}\[\]]'
    # A number that no sign, fraction or exponent belongs to.
    r"|(?<=[\s:,\[])\d{4,}+(?=[\s,\]}])",
    re.DOTALL,
)
_NAMES: Final = frozenset({"name", "key", "header", "variable", "env", "field"})
_VALUES: Final = frozenset({"value", "val", "content"})
_LEVELS: Final = 4
"""So often a text is JSON within JSON."""
_LONGEST_VALUE: Final = 1 << 16
"""So much of a value is looked at to tell whether it is one because of its key."""
_SHORTEST: Final = 7
"""Nothing shorter is a secret, unless it stands behind a key that says so."""
_LONGEST_NAME: Final = 200
_OPENINGS: Final = ("{", "[")
_DEEPEST: Final = 10_000
"""Below so many levels keys are no longer told from values; the shapes are still found."""
_WITHIN: Final = 8
"""In so many strings within each other keys are told: each is read again for every one around it, the quotes
of a placeholder double in each, and where escapes are spelled as numbers a line holds hundreds of them. Below
that the shapes are still found."""


def placeholder(kind: str) -> str:
    """Give what stands in the place of a secret; nothing in it needs an escape in JSON."""
    return f"[redacted: {kind}]"


class Redactor:
    """Replaces secrets and counts them; one for everything that leaves together."""

    def __init__(self, *, on: bool = True, allow: Iterable[str] = ()) -> None:
        """Begin with nothing replaced.

        Args:
            on: False lets everything pass as it is.
            allow: What is no secret though it looks like one; `*` stands for anything.
        """
        self.on = on
        self.allow = tuple(allow)
        self.counts: Counter[str] = Counter()
        """How many secrets of each kind were replaced."""

    def another(self) -> Redactor:
        """Give one that knows the same, and counts for itself."""
        return Redactor(on=self.on, allow=self.allow)

    @property
    def total(self) -> int:
        """How many secrets were replaced."""
        return self.counts.total()

    def text(self, text: str) -> str:
        """Give a text without secrets."""
        if not self.on:
            return text
        return self._replaced(text, self._merged(text, _looked_at(text)))

    def value(self, value: Json, key: str = "") -> Json:
        """Give a JSON value without secrets in its strings and keys."""
        if not self.on:
            return value
        if isinstance(value, str):
            kind = is_secret_value(key, value) if key else ""
            if kind and not self._is_allowed(value):
                self.counts[kind] += 1
                return placeholder(kind)
            return self.text(value)
        if isinstance(value, int) and not isinstance(value, bool):
            if key and is_secret_number(key, str(value)) and not self._is_allowed(str(value)):
                self.counts["password"] += 1
                return placeholder("password")
            return value
        if isinstance(value, dict | list):
            # Spelled out and read again: one way to look at JSON, however deep it is nested.
            try:
                spelled = json.dumps({key: value} if key else value)
                read: Json = json.loads(self.json_text(spelled))
            except (ValueError, RecursionError):
                return placeholder("value nested too deeply")
            return next(iter(read.values()), None) if key and isinstance(read, dict) else read
        return value

    def crossing(self, before: str, after: str) -> list[Found]:
        """Find what would be secrets if two texts stood beside each other, each with a part in both."""
        if not self.on:
            return []
        both = before + after
        spans = self._merged(both, _looked_at(both))
        return [span for span in spans if span.start < len(before) < span.end]

    def line(self, raw: bytes) -> bytes:
        """Give the bytes of a record, or of what should have been one, without secrets."""
        if not self.on or not raw:
            return raw
        return b"".join(self.pieces((raw,)))

    def pieces(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Give the bytes of one long record without secrets, holding a few pieces at a time.

        What fits into one piece is read as the JSON that it is; of more than that, the shapes are looked
        for in pieces that overlap.
        """
        if not self.on:
            yield from parts
            return
        held = b""
        whole = True
        for part in _cut(parts, WINDOW):
            held += part
            while len(held) > WINDOW + 2 * LONGEST:
                whole = False
                done, held = self._window(held)
                yield done
        yield _bytes(self.json_text(_text(held)) if whole else self.text(_text(held)))

    def json_text(self, text: str) -> str:
        """Give the text of a JSON value without secrets; also where it is none."""
        if not self.on:
            return text
        # All of it at once is quick and tells whether its strings have to be looked at one by one.
        suspicious = next(_looked_at(text), None) is not None
        text = self._replaced(text, self._merged(text, _in_json(text, closely=suspicious)))
        # Damage may turn inside and outside of strings around: look once more, at all of it.
        return text if not suspicious or _is_json(text) else self.text(text)

    def _window(self, held: bytes) -> tuple[bytes, bytes]:
        """Part what is surely done from what a secret may still reach into."""
        cut = WINDOW + LONGEST
        while cut > WINDOW and held[cut] & 0xC0 == 0x80:
            cut -= 1
        text, rest = _text(held[:cut]), held[cut:]
        ahead = text + _text(rest)
        spans = self._merged(ahead, _looked_at(ahead))
        end = len(text)
        # An escape is not parted either: a backslash near the end waits for what follows.
        end = text.rfind("\\", end - 12) if text.rfind("\\", end - 12) >= 0 else end
        for span in spans:
            if span.start < end < span.end:
                end = span.start
        if end < len(text) - LONGEST:
            # Nothing real is so long: it is taken in one piece as far as it was seen.
            end = len(text)
        inside = [span._replace(end=min(span.end, end)) for span in spans if span.start < end]
        return _bytes(self._replaced(text[:end], inside)), _bytes(text[end:]) + rest

    def _merged(self, text: str, spans: Iterable[Found]) -> list[Found]:
        if self.allow:
            spans = (span for span in spans if not self._is_allowed(text[span.start : span.end]))
        return _merged(spans)

    def _is_allowed(self, spelled: str) -> bool:
        """Say whether the configuration calls this no secret, in whatever depth of JSON it is spelled."""
        for _ in range(_LEVELS if self.allow else 0):
            if any(fnmatchcase(spelled, each) for each in self.allow):
                return True
            if "\\" not in spelled:
                return False
            spelled = _read(spelled)
        return False

    def _replaced(self, text: str, spans: list[Found]) -> str:
        if not spans:
            return text
        parts: list[str] = []
        at = 0
        for span in spans:
            self.counts[span.kind] += 1
            parts += (text[at : span.start], span.quote, placeholder(span.kind), span.quote)
            at = span.end
        return "".join((*parts, text[at:]))


def explain(counts: Counter[str]) -> str:
    """Give a sentence that says what was replaced."""
    total = counts.total()
    if not total:
        return "nothing in it looked like a secret"
    kinds = ", ".join(
        f"{count} × {kind}" for kind, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    )
    return f"{total} {'secret was' if total == 1 else 'secrets were'} replaced: {kinds}"


class _Origins:
    """Where the parts of a text came from whose escapes were read."""

    def __init__(self, text: str) -> None:
        """Look at a text as it stands."""
        self._starts, self._origins = array("L", [0]), array("L", [0])
        """Where the read text goes on behind each escape, and the same places in this one."""
        shorter = 0
        for escape in _ESCAPE.finditer(text):
            start, end = escape.span()
            shorter += end - start - 1
            self._starts.append(end - shorter)
            self._origins.append(end)

    def origin(self, position: int) -> int:
        """Give the place in the text of a place in the one that was read."""
        part = bisect_right(self._starts, position) - 1
        return self._origins[part] + position - self._starts[part]


def _meant(escape: re.Match[str]) -> str:
    word = escape[0]
    return chr(int(word[2:], 16)) if word[1] == "u" else _PLAIN[word[1]]


def _read(text: str) -> str:
    """Give a text with its escapes read; where its parts came from, `_Origins` tells."""
    if "\\" not in text:
        return text
    # In a row of backslashes each two make one, from its beginning on; what is left over escapes.
    return "\\".join(map(_without_escapes, text.split("\\\\")))


def _without_escapes(text: str) -> str:
    """Read the escapes of a text in which no backslash is escaped."""
    if "\\" in text:
        for escape, meant in _PLAIN_ESCAPES:
            text = text.replace(escape, meant)
        if "\\u" in text:
            text = _ESCAPE.sub(_meant, text)
    return text


def _looked_at(text: str) -> Iterator[Found]:
    """Find secrets in a text as it stands and as a reader of JSON, or of JSON in JSON, would see it."""
    if len(text) < _SHORTEST:
        return
    levels = [text]
    while "\\" in levels[-1] and len(levels) <= _LEVELS:
        read = _read(levels[-1])
        if len(read) == len(levels[-1]):
            break
        levels.append(read)
    # What begins a shape is made anew only where a letter or a slash was escaped.
    among = possible(levels if "\\u" in text or "\\/" in text else levels[:1])
    places: list[_Origins] = []
    for depth, level in enumerate(levels):
        for span in find(level, among):
            start, end = span.start, span.end
            while len(places) < depth:
                places.append(_Origins(levels[len(places)]))
            for place in reversed(places[:depth]):
                start, end = place.origin(start), place.origin(end)
            yield Found(start, end, span.kind)


def _in_json(text: str, *, closely: bool, within: int = 0) -> Iterator[Found]:
    """Find secrets in the strings of a JSON text, knowing the key that each stands behind.

    Args:
        text: what may be JSON.
        closely: look into the strings too, not only at their keys.
        within: in how many strings of JSON it lies.
    """
    keys: list[str] = [""]
    key = name = ""
    for token in _TOKEN.finditer(text):
        start = token.start()
        word = token["string"]
        if word is not None:
            inner = word[1:-1] if word.endswith('"') and len(word) > 1 else word[1:]
            if token["colon"] is not None:
                key = _read(inner) if len(inner) <= _LONGEST_NAME else ""
                if closely:
                    yield from _shifted(_looked_at(inner), start + 1)
            else:
                yield from _of_string(inner, key, name, start + 1, closely=closely, within=within)
                if key.lower() in _NAMES and len(inner) <= _LONGEST_NAME:
                    name = _read(inner)
        elif text[start] in "{[":
            if len(keys) < _DEEPEST:
                keys.append(key)
            if text[start] == "{":
                key = name = ""
        elif text[start] in "}]":
            key = keys.pop() if len(keys) > 1 else ""
        elif key and is_secret_number(key, token[0]):
            yield Found(start, token.end(), "password", '"')


def _of_string(inner: str, key: str, name: str, start: int, *, closely: bool, within: int) -> Iterator[Found]:
    """Find secrets in one string value; behind some keys it is one as a whole."""
    for behind in (key, name if key.lower() in _VALUES else ""):
        if stands_behind(behind):
            kind = is_secret_value(behind, _read(inner[:_LONGEST_VALUE]))
            if kind:
                yield Found(start, start + len(inner), kind)
                return
    if closely:
        yield from _shifted(_looked_at(inner), start)
        if within < _WITHIN and inner.lstrip()[:1] in _OPENINGS:
            # JSON in a string: its values have keys too, and their quotes are escaped twice.
            origin: Callable[[int], int] | None = None
            for span in _in_json(_read(inner), closely=True, within=within + 1):
                origin = origin or _Origins(inner).origin
                quote = json.dumps(span.quote)[1:-1]
                yield Found(start + origin(span.start), start + origin(span.end), span.kind, quote)


def _shifted(spans: Iterable[Found], by: int) -> Iterator[Found]:
    for span in spans:
        yield span._replace(start=span.start + by, end=span.end + by)


def _merged(spans: Iterable[Found]) -> list[Found]:
    """Put spans in order; those that overlap become one, named after the first and longest."""
    merged: list[Found] = []
    for span in sorted(spans, key=lambda each: (each.start, -each.end, not each.quote)):
        if merged and span.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


def _cut(parts: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Cut long parts into pieces: what is held grows by one at a time, however long they are."""
    for part in parts:
        for at in range(0, len(part), size):
            yield part[at : at + size]


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
