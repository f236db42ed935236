"""What a search over all runs means: which words a text has, what a query asks for, and what a hit is worth.

Said once, for the index and for the search without one: both must find the same records. A word is a run of
letters, digits and marks; case does not matter, nor how an accented letter is put together. In scripts
that are written without spaces each character is a word. What is typed without spaces between is looked
for as it stands, so `read_file` is the phrase of two words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from refold.core.errors import RefoldError

Scope: TypeAlias = Literal["prompt", "answer", "argument", "result"]
"""Where a text stands: what was asked, what the model said, what a call was given, what came of it."""
Texts: TypeAlias = Mapping[Scope, Sequence[str]]
"""The texts of one record by where they stand."""

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
RULES: Final = f"1 {unicodedata.unidata_version}"
"""Where this is another, words may be told apart in another way."""
LONGEST: Final = 500
"""Characters of a query that are looked at."""
_NAMED: Final[dict[str, tuple[Scope, ...]]] = {
    "text": SCOPES,
    **{name: (scope,) for scope in SCOPES for name in (scope, f"{scope}s")},
}
_WEIGHTS: Final[dict[Scope, float]] = {"prompt": 4.0, "answer": 3.0, "argument": 2.0, "result": 1.0}
_SATURATION: Final = 1.2
_LENGTH: Final = 0.75
_USUAL: Final = 2000
"""Characters of a record that is neither long nor short."""
_PARTED: Final = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x3040, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F),
    (0x20000, 0x3FFFF),
)
"""Scripts without spaces between words."""
_IN_WORD: Final = r"[0-9a-z\x80-\U0010ffff]"
_WORDS: Final = re.compile(f"{_IN_WORD}+")
_PLAIN: Final = re.compile("[0-9a-z]+")
_KELVIN: Final = "\u212a"
"""A letter beyond ASCII that composing would make one of it."""
_BEYOND_ASCII: Final = re.compile(r"([^\x00-\x7f]+)")
_BETWEEN: Final = " \x80 "
"""A word that no text has, between two texts: a phrase does not go from one into the other."""


_ODD: Final = re.compile(rb"\\u00(?:3[0-9]|[46][1-9a-fA-F]|[57][0-9aA])")
"""An escape that spells a letter or digit of ASCII."""


class QueryError(RefoldError):
    """A query that asks for nothing."""


class _Folding(dict[int, str]):
    """What becomes of each character beyond ASCII: itself in its lower case, a space, or both.

    None becomes a letter of ASCII, so that words of ASCII can be looked for in bytes.
    """

    def __missing__(self, code: int) -> str:
        made = char = chr(code)
        if unicodedata.category(char)[0] not in "LNM":
            made = " "
        elif any(first <= code <= last for first, last in _PARTED):
            made = f" {char} "
        else:
            made = next((form for form in (char.casefold(), char.lower()) if not _has_ascii(form)), char)
        self[code] = made
        return made


def _has_ascii(text: str) -> bool:
    return any(char.isascii() for char in text)


_FOLDING: Final = _Folding()


def folded(text: str) -> str:
    """Give a text in which words are runs of `a-z`, `0-9` and anything beyond ASCII, whatever parts them."""
    if text.isascii():
        return text.lower()
    if _KELVIN in text:
        text = _KELVIN.join(unicodedata.normalize("NFC", part) for part in text.split(_KELVIN))
    else:
        text = unicodedata.normalize("NFC", text)
    # Only ASCII changes its case here; the rest is folded stretch by stretch.
    lowered = text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
    parts = _BEYOND_ASCII.split(lowered)
    parts[1::2] = map(_fold, parts[1::2])
    return "".join(parts)


@lru_cache(maxsize=4096)
def _fold(text: str) -> str:
    """Fold a stretch beyond ASCII; most are short and come again."""
    return text.translate(_FOLDING)


def column(texts: Sequence[str]) -> str:
    """Give the texts of one scope as the one that is indexed and searched."""
    return folded(texts[0]) if len(texts) == 1 else _BETWEEN.join(map(folded, texts))


class Term(NamedTuple):
    """Words that must stand one after the other."""

    words: tuple[str, ...]
    prefix: bool = False
    """The last word may go on."""
    scopes: tuple[Scope, ...] = SCOPES
    """Where they may stand."""

    @property
    def plain(self) -> bytes:
        """The longest run of ASCII among the words; empty where there is none."""
        runs = [run for word in self.words for run in _PLAIN.findall(word)]
        return max(runs, key=len, default="").encode()

    @property
    def expression(self) -> str:
        """The term as SQLite's FTS5 takes it."""
        phrase = f'"{" ".join(self.words)}"{"*" if self.prefix else ""}'
        if self.scopes == SCOPES:
            return phrase
        return f"{{{' '.join(self.scopes)}}} : {phrase}"

    def pattern(self) -> re.Pattern[str]:
        """Give the pattern that finds the term in folded text."""
        phrase = rf"[^{_IN_WORD[1:-1]}]+".join(map(re.escape, self.words))
        first = re.escape(self.words[0])
        # The look back stands behind the first word, so that the engine can skip to where that begins.
        rest = phrase.removeprefix(first)
        return re.compile(f"{first}(?<!{_IN_WORD}{first}){rest}" + ("" if self.prefix else f"(?!{_IN_WORD})"))


class Match(NamedTuple):
    """What of a record a query found."""

    score: float
    """Larger is better; it depends on nothing but the record, so hits of any source can be put in order."""
    scopes: tuple[Scope, ...]
    """Where the words stand."""


class Query:
    """An understood query. All its terms must stand in one record, each anywhere in it."""

    def __init__(self, source: str, terms: Sequence[Term]) -> None:
        self.source = source
        self.terms = tuple(terms)
        self._patterns = [term.pattern() for term in self.terms]

    @cached_property
    def expression(self) -> str:
        """The query as SQLite's FTS5 takes it."""
        return " AND ".join(f"({term.expression})" for term in self.terms)

    @cached_property
    def _plain(self) -> tuple[bytes, ...]:
        return tuple(sorted({term.plain for term in self.terms}, key=len, reverse=True))

    def possible(self, data: bytes) -> bool:
        """Say whether JSON lines may hold all the terms; quick, and never wrongly no."""
        lowered = data.lower()
        odd: bool | None = None
        for plain in self._plain:
            if plain and plain in lowered:
                continue
            if odd is None:
                odd = _ODD.search(data) is not None
            if not odd and (plain or (data.isascii() and b"\\u" not in data)):
                return False
        return True

    def match(self, texts: Texts) -> Match | None:
        """Look for all terms in one record; None where one of them is not there."""
        columns = {scope: column(texts[scope]) for scope in SCOPES if texts.get(scope)}
        length = sum(map(len, columns.values()))
        slope = _SATURATION * (1 - _LENGTH + _LENGTH * length / _USUAL)
        score = 0.0
        scopes: set[Scope] = set()
        for term, pattern in zip(self.terms, self._patterns, strict=True):
            found: float = 0.0
            for scope in term.scopes:
                count = len(pattern.findall(columns[scope])) if scope in columns else 0
                if count:
                    scopes.add(scope)
                    found += _WEIGHTS[scope] * count * (1 + _SATURATION) / (count + slope)
            if not found:
                return None
            score += found
        return Match(score, tuple(scope for scope in SCOPES if scope in scopes))

    def place(self, text: str) -> tuple[int, int] | None:
        """Give the first line of a text on which a term begins, by start and end; None where none does."""
        if text.isascii():
            lowered = text.lower()
            starts = [found.start() for pattern in self._patterns if (found := pattern.search(lowered))]
            return _line_around(text, min(starts)) if starts else None
        start = 0
        for part in text.split("\n"):
            lowered = part.lower()
            # Folding costs more than looking for a part of a word.
            if any(not plain or plain.decode() in lowered for plain in self._plain):
                line = folded(part)
                if any(pattern.search(line) for pattern in self._patterns):
                    return start, start + len(part)
            start += len(part) + 1
        found = self.marks.search(text)
        return None if found is None else _line_around(text, found.start())

    @cached_property
    def marks(self) -> re.Pattern[str]:
        """What is marked in a text as it was written."""
        return spelling(self.terms)


def _line_around(text: str, place: int) -> tuple[int, int]:
    end = text.find("\n", place)
    return text.rfind("\n", 0, place) + 1, len(text) if end < 0 else end


def spelling(terms: Sequence[Term]) -> re.Pattern[str]:
    """Give a pattern for terms in text as it was written."""
    parts = []
    for term in sorted(terms, key=lambda term: len(" ".join(term.words)), reverse=True):
        phrase = r"[\W_]+".join(map(re.escape, term.words))
        parts.append(rf"(?<![^\W_]){phrase}" + (r"[^\W_]*" if term.prefix else r"(?![^\W_])"))
    return re.compile("|".join(parts), re.IGNORECASE)


def parse_query(text: str) -> Query:
    """Understand a query: words, "phrases", beginnings*, each perhaps behind `prompt:` or the like.

    Raises:
        QueryError: there is no word in it.
    """
    terms: dict[Term, None] = {}
    for piece, scopes in _pieces(text[:LONGEST]):
        bare = piece.rstrip("*")
        words = tuple(_WORDS.findall(folded(bare)))
        if words:
            terms.setdefault(Term(words, len(bare) < len(piece), scopes))
    if not terms:
        what = (
            "nothing to look for: there is no word in it, only signs"
            if text.strip()
            else "nothing to look for"
        )
        raise QueryError(what, remedy='type a word, a "phrase", or the beginning of a word*')
    return Query(text, tuple(terms))


def _pieces(text: str) -> list[tuple[str, tuple[Scope, ...]]]:
    pieces = []
    for found in re.finditer(r'(?:(\w+):)?(?:"([^"]*)"?(\*?)|([^\s"]+))', text):
        name, phrase, star, word = found.groups()
        if word is not None and word.endswith(":") and word[:-1].lower() in _NAMED:
            continue
        scopes = _NAMED.get((name or "").lower())
        if name and scopes is None:
            phrase = None if phrase is None else f"{name} {phrase}"
            word = None if word is None else f"{name}:{word}"
        body = f"{phrase}{star}" if phrase is not None else word
        pieces.append((body or "", scopes or SCOPES))
    return pieces
