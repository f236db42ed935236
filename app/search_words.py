"""What the screen of a search and the process that searches say to each other."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import msgspec

from refold.core.records import Json
from refold.core.search_hits import Hit
from refold.core.store.roots import Root
from refold.core.store.search import Reach


class Where(msgspec.Struct, frozen=True):
    """What is said first: where to search, and where the index lies."""

    roots: list[tuple[str, str]]
    """Directory and format of each root."""
    cache: str | None

    def as_roots(self) -> list[Root]:
        """Give the roots."""
        return [Root(Path(path), hint, "search") for path, hint in self.roots]


class Ask(msgspec.Struct, frozen=True):
    """A query; the answers to an older one are not wanted any more."""

    number: int
    text: str


class Found(msgspec.Struct, frozen=True, tag=True):
    """Some hits of a query."""

    number: int
    hits: list[Hit]
    wrong: list[str] = []
    """Files whose hits that were told before are not to be counted."""


class Went(msgspec.Struct, frozen=True, tag=True):
    """How far a query has come."""

    number: int
    reach: Reach
    ended: bool


class Indexed(msgspec.Struct, frozen=True, tag=True):
    """How far the index is."""

    done: int
    """Bytes that were indexed since it was begun to be brought up to date."""
    total: int
    """Bytes of all runs."""
    ended: bool
    size: int = 0
    """Bytes of the index on disk."""
    problem: str = ""


Said: TypeAlias = Found | Went | Indexed


def said(value: Json) -> Said:
    """Read what the process that searches says."""
    read: Said = msgspec.convert(value, Said)
    return read


def spoken(value: msgspec.Struct) -> Json:
    """Give what can be sent."""
    plain: Json = msgspec.to_builtins(value)
    return plain
