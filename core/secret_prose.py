"""Secrets that a sentence gives away: "set the password to ...", "the token is ...", "use ... as password".

Prose speaks of passwords far more often than it tells one: a plain word counts only where somebody sets it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from refold.core.secret_marks import matches
from refold.core.secret_names import (
    ITS_MARKS,
    ITS_NAMES,
    Found,
    has_digit,
    is_code,
    is_no_value,
    is_random,
)

_VALUE: Final = (
    r"(?:\\{0,8}\"(?P<double>[^\"\n\\]{1,256}+)|'(?P<single>[^'\n\\]{1,256}+)|`(?P<back>[^`\n\\]{1,256}+)"
    r"|(?P<bare>[^\s\"'`<>(){}\[\]\\]{1,256}+))\\{0,8}[\"'`]?"
)
_NAME: Final = rf"(?P<name>{ITS_NAMES}|secret|token|api[ _-]?key|access[ _-]?key|credential)"
_GAP: Final = r"[ \t]{1,3}"
_NAMED: Final = re.compile(_NAME, re.ASCII | re.IGNORECASE)
_SET: Final = re.compile(
    rf"\b(?:set|change|reset|update|rotate|make)[a-z]{{0,3}}{_GAP}(?:[\w.@'-]{{1,32}}{_GAP}){{0,4}}\Z",
    re.ASCII | re.IGNORECASE,
)
_BEFORE: Final = 180
"""In so many characters before a name stands what sets it."""
_TOLD: Final = re.compile(
    rf"(?:{_GAP}(?:for|of|on)(?:{_GAP}[\w.@'-]{{1,32}}){{1,3}}?)?"
    rf"{_GAP}(?:to be|to|is now|is|was|will be|are|ist|est|es|lautet|auf)[ \t]{{0,2}}:?{_GAP}{_VALUE}",
    re.ASCII | re.IGNORECASE,
)
_USED: Final = re.compile(
    rf"\b(?:use|with|try|enter|type){_GAP}{_VALUE}{_GAP}(?:as|for){_GAP}"
    rf"(?:(?:the|my|your|our|a){_GAP})?(?:[\w@'-]{{1,32}}{_GAP})?{_NAME}",
    re.ASCII | re.IGNORECASE,
)
NAMES: Final = (*ITS_MARKS, "secret", "token", "api", "access", "credential")
"""What names begin with."""
USES: Final = ("use", "with", "try", "enter", "type")
"""What begins a sentence that tells one."""
_WORDS: Final = re.compile(
    "(?:some|any|every|no)(?:thing|one)?|a|an|the|be|your|my|their|our|his|her|its|this|that|it|one|use|access|log"
    "|match|what(?:ever)?|new|old|not|set|changed?|random|strong|weak|wrong|correct|right|valid|too|only|also|in|on"
    "|at|from|for|of|to|by|as|and|or|if|when|never|always|still|now|then|stored|sent|read|kept|hashed|encrypted"
    "|connect|sign|allow|avoid|get|give|have|both|all|same|different|another|other|longer|shorter",
    re.IGNORECASE,
)
_PLAIN: Final = re.compile("[A-Za-z'-]+")


def told(text: str, lowered: str, marks: frozenset[str]) -> Iterator[Found]:
    """Find the secrets that sentences tell.

    Args:
        text: any text.
        lowered: the same without capitals, of the same length.
        marks: those that may stand in it.
    """
    is_named = False
    for name in matches(_NAMED, lowered, marks.intersection(NAMES)):
        is_named = True
        found = _TOLD.match(text, name.end())
        if found is not None:
            start = name.start()
            is_set = _SET.search(text[max(0, start - _BEFORE) : start]) is not None
            yield from _value(found, name["name"].lower(), is_set=is_set)
    if is_named:
        for found in matches(_USED, text, marks.intersection(USES), lowered):
            yield from _value(found, found["name"].lower(), is_set=False)


def _value(found: re.Match[str], name: str, *, is_set: bool) -> Iterator[Found]:
    group = next(each for each in ("double", "single", "back", "bare") if found[each] is not None)
    value = found[group].rstrip(".,;:!?") if group == "bare" else found[group]
    is_password = not name.startswith(("secret", "token", "api", "access", "credential"))
    if value and _is_told(value, is_password=is_password, is_set=is_set, quoted=group != "bare"):
        start = found.start(group)
        yield Found(start, start + len(value), "password" if is_password else "secret value")


def _is_told(value: str, *, is_password: bool, is_set: bool, quoted: bool) -> bool:
    if not is_password:
        return len(value) >= 12 and is_random(value)
    if len(value) < 4 or is_no_value(value) or is_code(value):
        return False
    if quoted:
        return is_set or has_digit(value) or not value.islower()
    if _PLAIN.fullmatch(value):
        # Also "set the password to hunter", never "the password is required".
        return is_set and _WORDS.fullmatch(value) is None
    return has_digit(value) or any(not letter.isalnum() and letter not in "-_'/,." for letter in value)
