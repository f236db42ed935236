"""What a person keeps about a run beside it: a star, tags, a name, notes. What may stand in them.

Pure: whoever writes them down is `core.store.notes`. What is typed is checked here, once; what is read
from a file that others may have changed is cut to the same bounds, and drawn like any text from outside.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from refold.core.errors import RefoldError

TRASH: Final = ".refold-trash"
"""The directory beside the runs, on the same file system, in which trashed ones lie."""
MOST_TAGS: Final = 32
LONGEST_TAG: Final = 40
LONGEST_NAME: Final = 100
LONGEST_NOTE: Final = 4000
"""Characters."""
MOST_RECORDS: Final = 500
"""Records of one run that may carry a note."""
_LONGEST_ID: Final = 255
"""No file has a longer name."""

_PLACE: Final = re.compile(r"@#?\d+\Z")
_JOINERS: Final = frozenset("\u200c\u200d")
"""Invisible, and needed to write Persian and to join emoji."""


class BadNote(RefoldError):
    """What was to be noted cannot be; nothing was changed."""


class RecordNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """A note on one record."""

    seq: int
    sha256: str
    """Of the bytes of the record when it was noted: another record may stand there now."""
    text: str


class Kept(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a list says of the notes of a run."""

    star: bool = False
    tags: tuple[str, ...] = ()
    name: str = ""
    note: str = ""
    records: int = 0
    """How many of its records carry a note."""
    trouble: str = ""
    """Why the notes cannot be used, as a sentence; empty where they can, or where there are none."""
    fork_of: str = ""
    """The id of its parent, noted because the format has no place for it; no person keeps this."""
    fork_at: int = 0
    """The last sequence that it took of that parent."""
    prompt_at: int = 0
    """The sequence of the prompt that it was made with; 0 where it was made with none."""

    def __bool__(self) -> bool:
        return bool(self.star or self.tags or self.name or self.note or self.records or self.trouble)


NOTHING: Final = Kept()


def checked_tag(text: str) -> str:
    """Give a tag as it is kept.

    Raises:
        BadNote: it is empty or too long, or has blanks, commas, quotes or characters that nobody sees in it.
    """
    tag = unicodedata.normalize("NFC", text)
    _require_visible(tag, "a tag", joiners=False)
    if not tag:
        raise BadNote("a tag needs at least one character")
    if len(tag) > LONGEST_TAG:
        raise BadNote(f"a tag has at most {LONGEST_TAG} characters, not {len(tag):,}")
    odd = next((character for character in tag if character.isspace() or character in ",\"'"), "")
    if odd:
        raise BadNote(f"a tag has no {_named(odd)} in it", remedy="tags are single words")
    if tag[0] in "+-":
        raise BadNote("a tag does not begin with + or -", remedy="+tag adds one, -tag takes one away")
    return tag


def checked_name(text: str) -> str:
    """Give a name as it is kept: blanks at its ends and doubled ones are left out.

    Raises:
        BadNote: it is empty or too long, cannot be told from a path, an option or a place in a run, or has
            characters that nobody sees in it.
    """
    name = _in_one_line(text, "a name")
    if not name:
        raise BadNote("a name needs at least one character")
    if len(name) > LONGEST_NAME:
        raise BadNote(f"a name has at most {LONGEST_NAME} characters, not {len(name):,}")
    if "/" in name:
        raise BadNote("a name has no / in it", remedy="with a slash it would be the path of a run")
    if name.startswith("-"):
        raise BadNote("a name does not begin with -", remedy="on a command line it would be an option")
    if _PLACE.search(name):
        raise BadNote("a name does not end like a place in a run", remedy="@ and a number name a record")
    return name


def checked_note(text: str) -> str:
    """Give a note as it is kept: one paragraph, line ends and tabs become single blanks.

    Raises:
        BadNote: it is empty or too long, or has characters in it that command a terminal or hide.
    """
    note = _in_one_line(text, "a note")
    if not note:
        raise BadNote("a note needs at least one character", remedy="--clear takes a note away")
    if len(note) > LONGEST_NOTE:
        raise BadNote(f"a note has at most {LONGEST_NOTE:,} characters, not {len(note):,}")
    return note


def words_of(text: str) -> tuple[str, ...]:
    """Give the tags that a line names, with blanks or commas between them, each once.

    Raises:
        BadNote: one of them is no tag, or they are too many.
    """
    return changed_tags((), add=text.replace(",", " ").split())


def changed_tags(
    tags: Sequence[str], *, add: Iterable[str] = (), remove: Iterable[str] = ()
) -> tuple[str, ...]:
    """Give tags with some more and without others; large and small letters make no two tags.

    Raises:
        BadNote: one of them is no tag, or they are too many.
    """
    less = {unicodedata.normalize("NFC", tag).casefold() for tag in remove}
    left = {tag.casefold(): tag for tag in tags if tag.casefold() not in less}
    for tag in map(checked_tag, add):
        left.setdefault(tag.casefold(), tag)
    if len(left) > MOST_TAGS:
        raise BadNote(f"a run has at most {MOST_TAGS} tags, not {len(left)}", remedy="take others away first")
    return tuple(left.values())


def changed_records(notes: Sequence[RecordNote], seq: int, sha256: str, text: str) -> tuple[RecordNote, ...]:
    """Give notes on records with another text at one of them, sorted; an empty text takes its note away.

    Raises:
        BadNote: the text is no note, or there are too many.
    """
    others = [note for note in notes if note.seq != seq]
    if text:
        others.append(RecordNote(seq, sha256, checked_note(text)))
    if len(others) > MOST_RECORDS:
        raise BadNote(f"at most {MOST_RECORDS} records of a run carry a note")
    return tuple(sorted(others, key=lambda note: note.seq))


def within_bounds(kept: Kept) -> Kept:
    """Cut what was read from a file to what may stand there."""
    return Kept(
        kept.star,
        tuple(tag[:LONGEST_TAG] for tag in kept.tags[:MOST_TAGS]),
        kept.name[:LONGEST_NAME],
        kept.note[:LONGEST_NOTE],
        kept.records,
        kept.trouble,
        kept.fork_of[:_LONGEST_ID],
        kept.fork_at,
        kept.prompt_at,
    )


def _in_one_line(text: str, what: str) -> str:
    _require_visible(text.translate({9: " ", 10: " ", 13: " "}), what, joiners=True)
    return unicodedata.normalize("NFC", " ".join(text.split()))


def _require_visible(text: str, what: str, *, joiners: bool) -> None:
    for character in text:
        hidden = unicodedata.category(character) in {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
        if hidden and not (joiners and character in _JOINERS):
            raise BadNote(
                f"{what} has no {_named(character)} in it",
                remedy="leave out characters that command a terminal or cannot be seen",
            )


def _named(character: str) -> str:
    known = {"\x1b": "escape", "\n": "line end", "\t": "tab", " ": "blank", ",": "comma", "\x00": "NUL"}
    return known.get(character) or ("quote" if character in "\"'" else f"U+{ord(character):04X}")
