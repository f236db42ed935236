"""What a program sent to its terminal, taken apart.

`tokens` splits the bytes into text and control sequences; `offences` names everything that Textual itself
would not have sent and every character that a program for untrusted text must never show.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple


class Token(NamedTuple):
    """One piece of what was sent."""

    kind: str
    """text, csi, string (OSC, DCS, APC, PM, SOS), escape, control or undecodable."""
    value: str


_TOKEN = re.compile(
    r"(?P<csi>\x1b\[[0-?]*[ -/]*[@-~])"
    r"|(?P<string>(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|(?=\x1b)|$))"
    r"|(?P<escape>\x1b[ -/]*[0-~]?)"
    r"|(?P<undecodable>[\udc80-\udcff]+)"
    r"|(?P<control>[\x00-\x1f\x7f-\x9f])"
    r"|(?P<text>[^\x00-\x1f\x7f-\x9f\udc80-\udcff]+)"
)

_FINE = r"(?:\x1b\[(?:\d{0,3}[;:])*\d{0,3}m|\x1b\[\d{1,3};\d{1,3}H|[ -~]+)+"
"""Colours, moves and ASCII: nearly all that a program sends, passed over in long strides."""
_SUSPECT = re.compile(f"(?P<fine>{_FINE})|{_TOKEN.pattern}")

_MODES = "25|1000|1003|1004|1006|1015|1016|1049|2004|2026|2048|7"
_OWN = re.compile(
    r"\x1b\[(?:"
    r"(?:\d{0,3}[;:])*\d{0,3}m"  # colours and attributes
    r"|\d{1,3};\d{1,3}H"  # cursor to a cell
    rf"|\?(?:{_MODES})[hl]"  # the modes of a full-screen program
    r"|\?(?:2026|2048)\$p"  # may I use synchronised output, resize reports
    r"|>\d+u|<u"  # keyboard protocol
    r")\Z"
)
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*)?\Z|[\xc0-\xff][\x80-\xbf]{0,2}\Z")
"""What is still on its way at the end: half a sequence, half a character."""
_POINTER = re.compile(r"\x1b\]22;[a-z-]*\x07\Z")
"""The shape of the mouse pointer."""

_INVISIBLE = frozenset("\u034f\u115f\u1160\u180e\u3164\uffa0\u2800\U0001d159")
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")
_COMBINING_MOST = 5


def tokens(sent: bytes) -> Iterator[Token]:
    """Split what was sent; nothing is left out."""
    for match in _TOKEN.finditer(sent.decode("utf-8", "surrogateescape")):
        yield Token(match.lastgroup or "text", match.group())


def forbidden(character: str) -> bool:
    """Say whether a character of shown text could act on the terminal or hide on it."""
    if character in _JOINERS:
        return False
    if character in _INVISIBLE or "\ufdd0" <= character <= "\ufdef":
        return True
    return unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def offences(sent: bytes, *, copies: bool = False, typed: bool = False) -> list[str]:
    """Name everything in what was sent that Textual itself does not send.

    Args:
        sent: All bytes that reached the terminal, in order.
        copies: Whether the program may write to the clipboard here.
        typed: Whether some of the text was typed by the person at the terminal: then only what could act on
            the terminal is an offence, not what merely looks like nothing.
    """
    found: list[str] = []
    for token in tokens(_UNFINISHED.sub(b"", sent)):
        kind, value = token
        if kind == "text":
            odd = {
                c for c in value if forbidden(c) and not (typed and unicodedata.category(c) in {"Co", "Cn"})
            }
            found += [f"U+{ord(c):04X} in {value[:60]!r}" for c in sorted(odd)]
            if not typed:
                runs = (run for run in _combining_runs(value) if run > _COMBINING_MOST)
                found += [f"{run} combining marks in a row" for run in runs]
        elif kind == "csi":
            if not _OWN.match(value):
                found.append(f"sequence {value!r}")
        elif kind == "string":
            if not (_POINTER.match(value) or (copies and value.startswith("\x1b]52;c;"))):
                found.append(f"string {value[:80]!r}")
        elif kind == "control":
            if value not in "\r\n":
                found.append(f"control {value!r}")
        else:
            found.append(f"{kind} {value!r}")
    return found


def _combining_runs(value: str) -> Iterator[int]:
    run = 0
    for character in value:
        if unicodedata.combining(character):
            run += 1
        else:
            if run:
                yield run
            run = 0
    if run:
        yield run


def modes(sent: bytes) -> dict[str, bool]:
    """Give the private modes of the terminal as they stand after everything sent: name to on or off."""
    state: dict[str, bool] = {}
    keyboard = 0
    for token in tokens(sent):
        if match := re.match(r"\x1b\[\?([\d;]+)([hl])\Z", token.value):
            state.update(dict.fromkeys(match.group(1).split(";"), match.group(2) == "h"))
        elif re.match(r"\x1b\[>\d+u\Z", token.value):
            keyboard += 1
        elif token.value == "\x1b[<u":
            keyboard -= 1
    state["keyboard"] = keyboard > 0
    return state


RESTED: dict[str, bool] = {
    "25": True, "1000": False, "1003": False, "1004": False, "1006": False, "1015": False, "1049": False,
    "2004": False, "2048": False, "7": True, "keyboard": False,
}  # fmt: skip
"""How a program must leave the modes that it touched."""


def not_restored(sent: bytes) -> list[str]:
    """Name the modes that were changed and not put back."""
    return [name for name, on in modes(sent).items() if name in RESTED and on != RESTED[name]]
