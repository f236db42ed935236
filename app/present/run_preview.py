"""The panel below the list: how the selected run stands, why, and what it said last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Final, NamedTuple

from refold.app import safe
from refold.app.lines import Cell, Line, Role
from refold.app.present.kept import kept_cells
from refold.app.present.layout import cell, fit, span
from refold.app.present.run_list import Forks
from refold.app.present.runs import created, damaged_places, middle, moment, updated
from refold.app.present.status import status_cell
from refold.app.present.units import plural, short, size
from refold.app.safe import Safe
from refold.core.findings import CODES, LEFT_BY_A_CRASH
from refold.core.summary import RunSummary
from refold.core.timeline import Timeline

TURNS: Final = 32
"""So many turns, the last ones, are drawn."""
_WORTH_DRAWING: Final = 3
_LABEL: Final = 12
_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_TEXT: Final = 2000
_STRETCH: Final = 500
"""Records that are asked about in one step."""
_NAMED_ROOM: Final = 8
"""Cells from which on forks are named."""
_FORKED: Final = Cell(Safe("ψ "), "fork")
_BEGAN_NOT: Final = frozenset({"unreadable", "empty", "newer"})


class Verdict(NamedTuple):
    """Whether a run that is a directory can go on."""

    outcome: str
    """accept, ask or refuse: the stricter of both answers."""
    original: str
    """What its own program would answer: ok, or the code of its reason."""
    reason: str
    """Our first reason; empty where we have none."""
    final: bool = False
    """Its own program refuses it whatever is decided."""


class Details(NamedTuple):
    """What only the index of a run tells."""

    turn_tokens: tuple[int, ...] = ()
    """Tokens of each of the last turns."""
    torn_bytes: int = 0
    verdict: Verdict | None = None
    exposed: bool = False
    """Others on this machine can read it."""
    forked_at: int | None = None
    """The last sequence that it took of its parent."""
    fork_points: int | None = None
    """After how many of its records a fork is legal; None where nobody counted them."""


NOTHING_KNOWN: Final = Details()
NO_FORKS: Final = Forks()


def details(timeline: Timeline) -> Details:
    """Take the details from the index of a run; the end of a long run is enough."""
    tokens: list[int] = []
    item = timeline.items - 1
    while item >= 0 and len(tokens) < TURNS:
        if timeline.kind(item) == "assistant":
            tokens.append(timeline.own_tokens(item))
        item -= 1
    torn = timeline.torn
    return Details(tuple(reversed(tokens)), torn.end - torn.start if torn is not None else 0)


def count_points(timeline: Timeline) -> Iterator[int | None]:
    """Count the records after which a fork is legal: None for work without a result, at last the number."""
    count = 0
    for start in range(0, timeline.strict_end, _STRETCH):
        count += sum(map(timeline.is_legal, range(start, min(start + _STRETCH, timeline.strict_end))))
        yield None
    yield count


def preview(
    run: RunSummary,
    width: int,
    height: int,
    now: float,
    *,
    zone: tzinfo | None = None,
    known: Details = NOTHING_KNOWN,
    forks: Forks = NO_FORKS,
) -> list[Line]:
    """Say of one run what a row cannot hold, the most needed first.

    Args:
        run: The selected run.
        width: Cells of a line.
        height: Lines that are in sight; texts take what the rest leaves.
        now: The time that ages count from.
        zone: The zone that times are written in; None for the local one.
        known: What the index of the run tells, once it is read.
        forks: What was forked from it.
    """
    head = [*_standing(run, width), *_in_flight(run, width), *_resume(run, known.verdict, width)]
    head += _lineage(run, width, known, forks)
    head += _problems(run, width, known)
    head += _kept(run, width)
    foot = [*_numbers(run, width, known), *_identity(run, width, zone), *_file(run, width, now, zone)]
    if known.exposed:
        foot.append(_labelled("", [cell("⚠ others on this machine can read it: chmod 600", "warn")], width))
    left = max(2, height - len(head) - len(foot))
    prompt = list(_wrapped("Prompt", run.prompt.strip(), width, max(1, left // 2)))
    words = list(_wrapped("Last words", run.last_words.strip(), width, max(1, left - len(prompt))))
    return [*head, *prompt, *words, *foot]


def _standing(run: RunSummary, width: int) -> Iterator[Line]:
    status = status_cell(run.status)
    lead = safe.width(status.text) + 2
    rule = safe.line(run.rule, _TEXT)
    if run.note and run.note not in run.rule:
        rule = Safe(f"{rule}; {safe.line(run.note, _TEXT)}" if rule else safe.line(run.note, _TEXT))
    rows = list(safe.wrap(rule, max(8, width - lead)))
    yield fit([status, Cell(Safe("  ")), Cell(rows[0], "text")], width)
    for row in rows[1:3]:
        yield fit([Cell(Safe(" " * lead)), Cell(row, "text")], width)


def _in_flight(run: RunSummary, width: int) -> Iterator[Line]:
    if not run.in_flight:
        return
    label = "In flight"
    role: Role = "warn"
    if run.status == "running":
        outcome, role = "no result yet", "dim"
    elif run.withheld:
        label, outcome = "Withheld", "the run stopped before this was allowed to run"
    elif run.status == "ready":
        label, outcome, role = "Pending", "asked for in its parent; no result in this fork", "text"
    else:
        outcome = "no result recorded: outcome unknown"
    counted: dict[str, int] = {}
    for name in run.in_flight:
        counted[name] = counted.get(name, 0) + 1
    named = [f"{name} ×{count}" if count > 1 else name for name, count in counted.items()]
    names = safe.line(", ".join(named), _TEXT)
    room = max(8, width - _LABEL - safe.width(Safe(outcome)) - 2)
    shown = safe.fit(names, min(room, safe.width(names)))
    yield _labelled(label, [Cell(shown, "call"), Cell(Safe("  ")), Cell(Safe(outcome), role)], width)


_ANSWERS: Final[Mapping[str, tuple[str, Role]]] = {
    "accept": ("can go on", "good"),
    "ask": ("needs a decision", "warn"),
    "refuse": ("refused", "problem"),
}


def _resume(run: RunSummary, verdict: Verdict | None, width: int) -> Iterator[Line]:
    if verdict is None:
        if run.barred and run.status != "completed":
            yield _labelled(
                "Resume", [cell("refused", "problem"), cell(f" · {run.barred}", "text", _TEXT)], width
            )
        return
    answer, role = _ANSWERS[verdict.outcome]
    reason = cell(f" · {verdict.reason}" if verdict.reason else "", "text", _TEXT)
    original = cell(f" · its own program: {verdict.original}", "dim")
    if verdict.final:
        answer, role = f"its own program refuses it: {verdict.original}", "problem"
        original = cell("")
    yield _labelled("Resume", [cell(answer, role, _TEXT), reason, original], width)


def _lineage(run: RunSummary, width: int, known: Details, forks: Forks) -> Iterator[Line]:
    """Say where it was forked from, what was forked from it, and after how many records it can be."""
    if run.status in _BEGAN_NOT and not forks.total:
        return
    points = "–" if known.fork_points is None else f"{known.fork_points:,}"
    end = [cell(" · fork points ", "dim"), cell(points)]
    count = [cell(" · forks ", "dim"), cell(f"{forks.total:,}" if forks.total else "–")]
    said = [cell("parent ", "dim")]
    if run.parent:
        at = known.forked_at if run.fork_of else run.kept.fork_at
        place = cell("" if at is None else f" up to seq {at:,}")
        room = width - _LABEL - span((*said, _FORKED, place, *count, *end))
        said += [_FORKED, Cell(middle(safe.line(run.parent, _TEXT), max(8, room)), "fork"), place]
    else:
        said.append(cell("–"))
    said += count
    room = width - _LABEL - span((*said, *end))
    if forks.named and room > _NAMED_ROOM:
        more = ", …" if forks.total > len(forks.named) else ""
        named = safe.line(f": {', '.join(forks.named)}{more}", _TEXT)
        said.append(Cell(safe.fit(named, min(room, safe.width(named))), "fork"))
    yield _labelled("Lineage", [*said, *end], width)


def _problems(run: RunSummary, width: int, known: Details) -> Iterator[Line]:
    said: list[list[Cell]] = []
    damaged = damaged_places(run)
    if damaged:
        said.append([cell(f"⚠ {plural(damaged, 'damaged place')}", "problem")])
    if run.torn:
        torn = f"torn tail: {plural(known.torn_bytes, 'byte')}" if known.torn_bytes else "torn tail"
        said.append([cell(torn, "warn"), cell(", as a crash leaves it", "dim")])
    elif "E_NO_FINAL_NL" in run.problems:
        said.append([cell("no final newline", "warn")])
    if damaged:
        named = [code for code in run.problems if code not in LEFT_BY_A_CRASH]
        meanings = [f"{CODES[code].meaning} ({code})" if code in CODES else code for code in named]
        said.append([cell(", ".join(meanings))])
    if said:
        joined = [part for phrase in said for part in (cell(" · ", "dim"), *phrase)]
        yield _labelled("Problems", joined[1:], width)


def _kept(run: RunSummary, width: int) -> Iterator[Line]:
    if run.kept:
        yield _labelled("Kept", list(kept_cells(run.kept, name=True)), width)


def _numbers(run: RunSummary, width: int, known: Details) -> Iterator[Line]:
    if not run.complete:
        yield _labelled("Tokens", [cell("not counted yet", "dim")], width)
        return
    if not run.turns:
        return
    counts = f"{short(run.tokens)} in {plural(run.turns, 'turn')} · {plural(run.calls, 'call')}"
    said = [cell(counts)]
    if run.errors:
        said += [cell(" · ", "text"), cell(plural(run.errors, "error"), "problem")]
    bars = sparkline(known.turn_tokens)
    if (
        len(known.turn_tokens) >= _WORTH_DRAWING
        and _LABEL + sum(len(c.text) for c in said) + len(bars) + 20 < width
    ):
        said += [cell("   "), Cell(bars, "accent"), cell(" tokens a turn", "dim")]
    yield _labelled("Tokens", said, width)


def _identity(run: RunSummary, width: int, zone: tzinfo | None) -> Iterator[Line]:
    said = [cell(run.id, "strong")]
    parts = [run.provider_version or run.format, run.model]
    if run.created:
        parts.append(f"created {created(run.created, zone)}")
    said += [cell(f" · {part}", "text", _TEXT) for part in parts if part]
    yield _labelled("Run", said, width)


def _file(run: RunSummary, width: int, now: float, zone: tzinfo | None) -> Iterator[Line]:
    when = updated(run, now, zone)
    exact = moment(run.updated, zone)
    if run.updated > now + 1:
        changed = f"file changed {exact}, which our clock has not reached"
    else:
        changed = f"file changed {when}, {exact}"
    path = safe.line(run.path)
    tail = Safe(f" · {size(run.size)} · {changed}")
    if _LABEL + safe.width(path) + safe.width(tail) <= width:
        yield _labelled("File", [Cell(path), Cell(tail, "dim")], width)
        return
    yield _labelled("File", [Cell(Safe(tail.removeprefix(" · ")), "dim")], width)
    for row in safe.wrap(path, max(8, width - _LABEL), words=False):
        yield _labelled("", [Cell(row)], width)


def _wrapped(label: str, text: str, width: int, most: int) -> Iterator[Line]:
    if not text:
        return
    rows: list[Safe] = []
    shown = safe.line(text, _TEXT)
    for row in safe.wrap(shown, max(8, width - _LABEL)):
        if len(rows) == most:
            rows[-1] = safe.fit(Safe(f"{rows[-1]} …"), min(width - _LABEL, safe.width(rows[-1]) + 2))
            break
        rows.append(row)
    for number, row in enumerate(rows):
        yield _labelled("" if number else label, [Cell(row)], width)


def _labelled(label: str, said: Sequence[Cell], width: int) -> Line:
    return fit([Cell(safe.fit(Safe(label), _LABEL), "dim"), *said], width)


def sparkline(values: Sequence[int]) -> Safe:
    """Draw numbers as a row of blocks, the largest full."""
    top = max(values, default=0)
    if top <= 0:
        return Safe("")
    last = len(_BLOCKS) - 1
    return Safe("".join(_BLOCKS[min(last, max(0, value) * last // top)] for value in values))
