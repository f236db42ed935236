"""The help page: keys from the one table, then signs, statuses and words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from refold.app import glyphs, keys, safe
from refold.app.lines import Cell, Line
from refold.app.present.status import status_cell
from refold.app.safe import Safe
from refold.core.status import StatusName

PLACES: Final[dict[keys.Place, str]] = {
    "runs": "In the list of runs",
    "run": "In a run",
    "list": "In every list",
    "pager": "In every text",
    "lineage": "In the lineage",
    "compare": "Between two runs",
    "postmortem": "In a post-mortem",
    "mend": "Before a repair, a salvage or a move to the trash",
    "trash": "In the trash",
    "resume": "Before a resume",
    "fork": "Before a fork",
    "history": "In the list of conversations",
    "search": "In the search of all runs",
    "chat": "In a conversation",
    "chatfork": "Before a fork of a conversation",
    "copymenu": "What a run is called by",
    "export": "Before an export",
    "directories": "Where directories are shown",
    "columns": "Where columns are chosen",
    "prompt": "Where something is asked",
    "dialog": "In help and notices",
    "blind": "Where / or : means nothing",
    "app": "Everywhere",
}

STATUSES: Final[dict[StatusName, str]] = {
    "running": "a process is seen holding its lock",
    "ready": "a fork or a fresh run: nothing was added since it was made",
    "suspended": "its last record says that it was put aside to go on later",
    "crashed": "it ends without a terminal record, or goes on after one; no process is seen holding it",
    "completed": "its last record says that the work was done",
    "failed": "its last record names an error",
    "cancelled": "its last record says that somebody stopped it",
    "budget": "the token budget was used up",
    "max-iterations": "the limit of turns was reached",
    "unreadable": "there is no readable first record; it opens all the same",
    "empty": "there is not one record in the file",
    "newer": "it was written by a version that this Refold does not read",
}

WORDS: Final[tuple[tuple[str, str], ...]] = (
    (
        "replay",
        "moves a cursor over what was recorded. It never executes anything: no tool runs, no model is asked.",
    ),
    ("open turn", "a turn whose calls do not all have their results. A resume goes on with it."),
    ("run", "one piece of work of an agent, kept as a journal on disk."),
    (
        "record",
        "one line of the journal. What was written is never changed; new records are added at the end.",
    ),
    (
        "turn",
        "a reply of the model and its calls, counted from 1; what a journal calls iteration counts from 0.",
    ),
    ("seq", "the sequence number of a record, as the journal itself counts."),
    (
        "state",
        "what the records up to the cursor fold to: the conversation, the counters, the pending calls.",
    ),
    ("damage", "a place that cannot be read. It is a row of its own, and what is good around it is shown."),
    (
        "torn tail",
        "a last line that was cut off while it was written: the trace of a crash, not counted as damage.",
    ),
    (
        "recovered",
        "a record that stands where no reader of the journal looks; shown, but not part of the state.",
    ),
    (
        "pending",
        "a call without a result yet, at the record under the cursor, or in a fork in which it did not run.",
    ),
    (
        "in flight",
        "a pending call at the end of a run that stopped. It was asked for here, and may have run.",
    ),
    (
        "effect",
        "what a tool does: reads only, idempotent (twice is as good as once), writes; unknown is as that.",
    ),
    (
        "decision",
        "what you say of a call in flight: rerun, done, or failed: the model is told so, it may have run.",
    ),
    (
        "outcome unknown",
        "a call without a result: it may have run, or not, and nobody can know from the journal.",
    ),
    ("updated", "when the file was last written, where the records themselves carry no time."),
)


_LABEL: Final = max(len(key.label) for key in keys.TABLE) + 2
_WIDE: Final = 90
"""From this width on there is room for the second sentence of a key."""


def lines(width: int, place: str, keymap: Mapping[str, str]) -> list[Line]:
    """The whole page for this width; the keys of the place that it was opened from come first."""
    page: list[Line] = []
    for each in sorted(PLACES, key=lambda one: one != place):
        page += [*_heading(PLACES[each]), *_keys(each, keymap, width), ()]
    page += [*_heading("Signs"), *_explained(glyphs.MEANINGS, 12, width), ()]
    page += [*_heading("Status, and the rule behind it"), *_statuses(width), ()]
    page += [*_heading("Words"), *_explained(WORDS, 18, width)]
    return page


def _heading(text: str) -> list[Line]:
    return [(Cell(Safe(f" {text}"), "accent"),), ()]


def _keys(place: keys.Place, keymap: Mapping[str, str], width: int) -> Iterator[Line]:
    """One row an action, its group named once."""
    group = ""
    for row in sorted(keys.rows(place), key=lambda one: keys.GROUPS.index(one.group)):
        pressed = safe.line(" ".join(map(keys.shown, keys.keys_of(row, keymap))))
        cells = (
            Cell(safe.fit(Safe(f"   {row.group if row.group != group else ''}"), 12), "dim"),
            Cell(safe.fit(pressed, 16), "key"),
            Cell(safe.fit(Safe(row.label), _LABEL)),
        )
        group = row.group
        if width < _WIDE:
            yield cells
            continue
        before = 28 + _LABEL
        for number, part in enumerate(safe.wrap(Safe(row.tooltip), width - before - 1)):
            yield (*(cells if number == 0 else (Cell(Safe(" " * before)),)), Cell(part, "dim"))


def _statuses(width: int) -> Iterator[Line]:
    """Every status as it is shown, and its rule."""
    for name, rule in STATUSES.items():
        yield from _beside(status_cell(name), rule, 18, width)


def _explained(entries: tuple[tuple[str, str], ...], column: int, width: int) -> Iterator[Line]:
    """A word and what it means."""
    for word, meaning in entries:
        yield from _beside(Cell(Safe(word), "strong"), meaning, column, width)


def _beside(head: Cell, text: str, column: int, width: int) -> Iterator[Line]:
    """A text wrapped beside its head."""
    for number, row in enumerate(safe.wrap(Safe(text), max(20, width - column - 4))):
        left = head.text if number == 0 else safe.EMPTY
        yield (Cell(Safe("   ")), Cell(safe.fit(left, column), head.role), Cell(row))
