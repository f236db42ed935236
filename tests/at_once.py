"""Runs to its end what does its work in small steps."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def at_once(work: Generator[object, None, T]) -> T:
    """Give what a generator returns, whatever it yields."""
    while True:
        try:
            next(work)
        except StopIteration as ended:
            found: T = ended.value
            return found
