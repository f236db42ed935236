"""Colours for what has no styles: printed lines, and recordings of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from refold.app.lines import Role

CODES: Final[Mapping[Role, str]] = {
    "dim": "2",
    "strong": "1",
    "accent": "36",
    "user": "34",
    "assistant": "36",
    "call": "33",
    "problem": "31",
    "warn": "33",
    "good": "32",
    "fork": "35",
    "key": "1",
    "json-key": "34",
    "json-string": "32",
}
"""ANSI colours by role; a role that is not here stays plain. No meaning hangs on colour alone."""
