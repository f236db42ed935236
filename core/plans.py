"""Lists of steps that agents keep about their own work, told by the shape of the arguments of a call."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from refold.core.records import Json

MOST: Final = 200
"""Steps of one list that are read."""

Status: TypeAlias = Literal["open", "doing", "done", "dropped"]

_LISTS: Final = ("todos", "plan", "items", "tasks", "steps", "todolist", "list", "checklist")
_TEXTS: Final = ("content", "step", "title", "text", "description", "task", "name", "subject")
_FLAGS: Final = ("done", "completed", "checked", "complete")
_TELLING: Final = re.compile(r"todo|plan|task|checklist", re.IGNORECASE)
_KEY: Final = re.compile(r"[^a-z0-9]")
_BOX: Final = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+\[([ xX~/>-])\]\s+(.+)")
_LONGEST: Final = 1_000
_WORDS: Final[dict[str, Status]] = {
    **dict.fromkeys(("done", "completed", "complete", "finished", "closed", "resolved"), "done"),
    **dict.fromkeys(("inprogress", "doing", "active", "started", "working", "current", "running"), "doing"),
    **dict.fromkeys(("cancelled", "canceled", "dropped", "skipped", "deleted", "abandoned"), "dropped"),
}  # fmt: skip
_BOXES: Final[dict[str, Status]] = {
    "x": "done",
    "X": "done",
    "~": "doing",
    "/": "doing",
    ">": "doing",
    "-": "dropped",
}


class Step(NamedTuple):
    """One line of such a list."""

    text: str
    status: Status = "open"


def plan_of(name: str, arguments: Json) -> tuple[Step, ...] | None:
    """Give the list that a call puts in the place of the one before; None where it does no such thing.

    Args:
        name: The tool.
        arguments: What it was called with.
    """
    if not isinstance(arguments, dict):
        return None
    named = _is_telling(name[:200])
    for key, value in list(arguments.items())[:50]:
        plain = _plain_key(key[:100])
        if plain not in _LISTS or not (named or plain in {"todos", "plan"}):
            continue
        steps = _boxes(value.split("\n", MOST)[:MOST]) if isinstance(value, str) else _steps(value)
        if steps is not None:
            return steps
    return None


@lru_cache(maxsize=1024)
def _is_telling(name: str) -> bool:
    return _TELLING.search(name) is not None


@lru_cache(maxsize=1024)
def _plain_key(key: str) -> str:
    return _KEY.sub("", key.lower())


def _steps(value: Json) -> tuple[Step, ...] | None:
    if not isinstance(value, list):
        return None
    if value and all(isinstance(item, str) for item in value):
        return _boxes([item for item in value[:MOST] if isinstance(item, str)])
    steps: list[Step] = []
    said = not value
    for item in value[:MOST]:
        if not isinstance(item, dict):
            return None
        text = next((found for key in _TEXTS if isinstance(found := item.get(key), str) and found), None)
        if text is None:
            return None
        word = item.get("status", item.get("state"))
        flag = next((found for key in _FLAGS if isinstance(found := item.get(key), bool)), None)
        said = said or isinstance(word, str) or flag is not None
        status = _WORDS.get(_KEY.sub("", word.lower()), "open") if isinstance(word, str) else "open"
        steps.append(Step(text[:_LONGEST], "done" if flag else status))
    return tuple(steps) if said else None


def _boxes(rows: list[str]) -> tuple[Step, ...] | None:
    found = [box for row in rows if (box := _BOX.fullmatch(row[:_LONGEST])) is not None]
    return tuple(Step(box[2], _BOXES.get(box[1], "open")) for box in found) or None
