"""Patches as text: unified diffs, and the form between `*** Begin Patch` and `*** End Patch`.

Read as far as they can be read: a line that belongs to neither form is left out, and nothing raises.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Final, Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["add", "delete", "update"]
_HEADS: Final[tuple[tuple[str, Kind], ...]] = (
    ("*** Add File: ", "add"),
    ("*** Delete File: ", "delete"),
    ("*** Update File: ", "update"),
)

MOST_LINES: Final = 20_000
"""Lines of a patch that are read."""

_STEP: Final = 1_024
"""Rows that are read in one step."""
_HEADER: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_LOOKS: Final = re.compile(r"^(?:\*\*\* Begin Patch$|diff --git |--- \S.*\n\+\+\+ |@@ -\d)", re.MULTILINE)
_QUOTED: Final = re.compile(r"\\([0-7]{3}|.)")
_NOWHERE: Final = "/dev/null"
_LETTERS: Final = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


class Hunk(msgspec.Struct, frozen=True):
    """One stretch of lines before and after."""

    old: str
    """With the lines around it; every line ends in a newline unless the file ends without."""
    new: str
    line: int | None = None
    """Where it begins in the file as it was, from 1 on, or after which line where no line is old; None where
    that is not said."""


class FilePatch(msgspec.Struct, frozen=True):
    """What a patch does to one file."""

    path: str
    """Empty where the patch does not name it."""
    kind: Kind
    hunks: tuple[Hunk, ...] = ()
    to: str = ""
    """Its new name."""


def looks_like_patch(text: str) -> bool:
    """Say whether a text has the marks of a patch."""
    return _LOOKS.search(text, 0, 20_000) is not None


def read_patch(text: str) -> tuple[FilePatch, ...]:
    """Give what a patch does to each file, in its order."""
    return tuple(file for file in reading_patch(text) if file is not None)


def reading_patch(text: str) -> Iterator[FilePatch | None]:
    """Give the same in small steps: None where rows were read and no file is ready."""
    rows = text.removesuffix("\n").split("\n", MOST_LINES)[:MOST_LINES]
    rows = [row.removesuffix("\r") for row in rows] if "\r\n" in text else rows
    begin = next((at for at, row in enumerate(rows) if row.strip() == "*** Begin Patch"), None)
    yield None
    yield from _marked(rows[begin + 1 :]) if begin is not None else _unified(rows)


class _Stretch:
    """Collects the rows of one hunk."""

    def __init__(self, line: int | None = None) -> None:
        self.line = line
        self.old: list[str] = []
        self.new: list[str] = []
        self._last: tuple[list[str], ...] = ()

    def take(self, row: str) -> None:
        tag, text = row[:1], row[1:] + "\n"
        if tag == "\\":
            # The line before it ends the file without a newline.
            for side in self._last:
                side[-1] = side[-1].removesuffix("\n")
            return
        self._last = (self.old,) if tag == "-" else (self.new,) if tag == "+" else (self.old, self.new)
        for side in self._last:
            side.append(text)

    def hunk(self) -> Hunk:
        return Hunk("".join(self.old), "".join(self.new), self.line)


def _unified(rows: list[str]) -> Iterator[FilePatch | None]:
    path = to = ""
    kind: Kind = "update"
    hunks: list[Hunk] = []
    begun = False
    at = 0
    while at < len(rows):
        row = rows[at]
        if at % _STEP == 0:
            yield None
        if row.startswith("diff --git ") or (row.startswith("--- ") and _is_pair(rows, at)):
            if begun and (row.startswith("diff --git ") or hunks):
                yield FilePatch(path, kind, tuple(hunks), to)
                path, to, kind, hunks = "", "", "update", []
            begun = True
        if row.startswith("diff --git "):
            path = _of_git(row)
        elif row.startswith("deleted file mode"):
            kind = "delete"
        elif row.startswith("new file mode"):
            kind = "add"
        elif row.startswith("rename from "):
            path = row.removeprefix("rename from ")
        elif row.startswith("rename to "):
            to = row.removeprefix("rename to ")
        elif row.startswith("--- ") and _is_pair(rows, at):
            before, after = _name(row[4:]), _name(rows[at + 1][4:])
            kind = "add" if before == _NOWHERE else "delete" if after == _NOWHERE else kind
            path = path if to else after if before == _NOWHERE else before
            at += 1
        elif (header := _HEADER.match(row)) is not None:
            begun = True
            at, hunk = yield from _stretch(rows, at + 1, header)
            hunks.append(hunk)
            continue
        at += 1
    if begun:
        yield FilePatch(path, kind, tuple(hunks), to)


def _is_pair(rows: list[str], at: int) -> bool:
    return at + 1 < len(rows) and rows[at + 1].startswith("+++ ")


def _stretch(rows: list[str], at: int, header: re.Match[str]) -> Generator[None, None, tuple[int, Hunk]]:
    """Read as many rows as the header counts; fewer where other rows follow."""
    olds = int(header[2]) if header[2] is not None else 1
    news = int(header[4]) if header[4] is not None else 1
    stretch = _Stretch(int(header[1]))
    while at < len(rows):
        row = rows[at]
        if at % _STEP == 0:
            yield
        if row.startswith("\\"):
            stretch.take(row)
        elif olds <= 0 and news <= 0:
            break
        elif row[:1] in {" ", "-", "+"} or (not row and olds > 0 and news > 0 and at + 1 < len(rows)):
            stretch.take(row or " ")
            olds -= row[:1] != "+"
            news -= row[:1] != "-"
        else:
            break
        at += 1
    return at, stretch.hunk()


def _of_git(row: str) -> str:
    """The name in a line of git where both sides have the same one; other lines say the rest."""
    found = re.fullmatch(r"diff --git a/(.{1,4096}) b/\1", row)
    return found[1] if found else ""


def _name(text: str) -> str:
    """The name in a header, without the time after it and the letter before it."""
    text = text.partition("\t")[0].rstrip()
    if len(text) > 1 and text.startswith('"') and text.endswith('"'):
        text = _QUOTED.sub(lambda found: _LETTERS.get(found[1], found[0]), text[1:-1])
    return text[2:] if text.startswith(("a/", "b/")) else text


def _marked(rows: list[str]) -> Iterator[FilePatch | None]:
    file: FilePatch | None = None
    stretches: list[_Stretch] = []
    for at, row in enumerate(rows):
        if at % _STEP == 0:
            yield None
        if row.startswith("*** End Patch"):
            break
        if (head := _head(row)) is not None:
            yield from _closed(file, stretches)
            file, stretches = head, []
        elif file is None:
            continue
        elif row.startswith("*** Move to: "):
            file = msgspec.structs.replace(file, to=row.removeprefix("*** Move to: ").strip())
        elif row.startswith("@@"):
            stretches.append(_Stretch())
        elif row[:1] in {" ", "+", "-"} or not row:
            if not stretches:
                stretches.append(_Stretch())
            stretches[-1].take(row or " ")
    yield from _closed(file, stretches)


def _head(row: str) -> FilePatch | None:
    for lead, kind in _HEADS:
        if row.startswith(lead):
            return FilePatch(row.removeprefix(lead).strip(), kind)
    return None


def _closed(file: FilePatch | None, stretches: list[_Stretch]) -> Iterator[FilePatch]:
    if file is not None:
        hunks = tuple(hunk for stretch in stretches if (hunk := stretch.hunk()).old or hunk.new)
        yield msgspec.structs.replace(file, hunks=hunks)
