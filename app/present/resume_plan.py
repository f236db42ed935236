"""A resume before it is made: what is compared, what becomes of every open call, what will be written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from refold.app import safe
from refold.app.lines import Cell, Line, Role
from refold.app.present import units
from refold.app.present.effects import effect_words
from refold.app.present.layout import BLANK, cell, fit, flow, span, spread
from refold.app.present.limits import LIMIT_NAMES
from refold.app.present.rows import argument_cells
from refold.app.safe import Safe
from refold.core.decisions import decided_text
from refold.core.records import Decision
from refold.core.resume import (
    UNNAMED,
    Answer,
    FingerprintRow,
    PlannedCall,
    Reason,
    ResumePlan,
    TwoAnswers,
    Verdict,
)

_LABEL: Final = 17
_VALUE: Final = 24
_TEXT: Final = 2000
_SAID: Final = 3
"""How many reasons are told at once."""
OF_CALLS: Final = frozenset(
    {"unknown_call", "withheld", "lost_start", "uncertain_effect", "open_read", "dangling_call"}
)
"""Reasons that stand beside the call they are about."""

_VERDICTS: Final[dict[Verdict, tuple[str, Role]]] = {
    "reused": ("reused", "good"),
    "will_run": ("will run", "text"),
    "unknown": ("OUTCOME UNKNOWN", "problem"),
    "withheld": ("WITHHELD", "warn"),
}
_DECIDED: Final[dict[str, tuple[str, Role]]] = {
    "rerun": ("will run again", "accent"),
    "failed": ("recorded as failed", "accent"),
    "done": ("recorded as done", "accent"),
}
_OURS: Final[dict[Answer, Cell]] = {
    "accept": Cell(Safe("accepts"), "good"),
    "ask": Cell(Safe("asks"), "warn"),
    "refuse": Cell(Safe("refuses"), "problem"),
}


FINAL: Final = frozenset({"provider", "completed", "corrupt", "newer", "empty", "renamed", "ended"})
"""Reasons that no force goes past."""
_ITS_OWN: Final = "original:"
"""How a reason is called that the program of a run directory gives: it asks nobody."""

NOTHING_NOTED: Final[Mapping[str, Decision]] = MappingProxyType({})


class Keys(NamedTuple):
    """Keys as they are shown; empty where there is none, as on the command line."""

    agent: str = ""
    """Names the agent."""
    copy: str = ""
    """Copies what is typed."""


NO_KEYS: Final = Keys()


class Drawn(NamedTuple):
    """The lines of the dialog, and the number of the call that each of them speaks of; -1 for none."""

    lines: tuple[Line, ...]
    calls: tuple[int, ...]

    def first_line(self, call: int) -> int:
        """Give the line on which a call begins; the first one where it has none."""
        return self.calls.index(call) if call in self.calls else 0


def is_open(call: PlannedCall) -> bool:
    """Say whether something can be decided about a call: it has no result, and it is not simply run."""
    return call.decision is not None or call.verdict in ("unknown", "withheld")


def undecided(plan: ResumePlan) -> tuple[int, ...]:
    """Give the numbers of the calls that wait for a decision."""
    return tuple(n for n, call in enumerate(plan.calls) if call.verdict in ("unknown", "withheld"))


def resume_lines(
    plan: ResumePlan,
    width: int,
    *,
    shown: Sequence[str] = (),
    directory: str = "",
    workplace: str = "",
    news: Sequence[str] = (),
    noted: Mapping[str, Decision] = NOTHING_NOTED,
    typed: str = "",
    keys: Keys = NO_KEYS,
) -> Drawn:
    """Give everything the dialog says about a plan.

    Args:
        plan: What would be done.
        width: The cells of a line.
        shown: The command that does it, as it is typed; empty where there is none, or another one is shown.
        directory: Where it is started.
        workplace: Where relative paths of its calls begin; empty where nothing says.
        noted: What stands in the notes on a run directory already.
        news: What is noted about the agent for the next time, as phrases.
        typed: What resumes it from a shell with the answers that are asked for; empty where nothing does.
        keys: The keys that do something about what is said.
    """
    lines: list[Line] = []
    calls: list[int] = []

    def add(more: Iterator[Line], call: int = -1) -> None:
        for line in more:
            lines.append(line)
            calls.append(call)

    # Of a run that is refused the reasons come first: the command does nothing then.
    refused = plan.outcome == "refuse"
    where = directory if shown or plan.command is not None else ""
    add(_obstacles(plan, keys, width) if refused else _command(shown, where, width))
    add(_command(shown, where, width) if refused else _obstacles(plan, keys, width))
    add(_where(plan, width))
    add(_fingerprint(plan.fingerprint, width))
    if plan.calls:
        heading = "Calls of the open turn" if plan.answers is None else "Calls and checks without a known end"
        add(iter((BLANK, (cell(heading, "strong"),))))
        for number, call in enumerate(plan.calls):
            which = f"#{number + 1} " if len(plan.calls) > 1 else ""
            add(_call(call, which, width, noted=noted.get(call.id)), number)
            if workplace and call.verdict == "unknown":
                said = f"its agent works in {workplace}: relative paths begin there"
                add(flow((cell("    "), cell(said, "dim", _TEXT)), width, 4), number)
    add(_typed(plan, typed, keys, width))
    add(_writes(plan, news, width))
    return Drawn(tuple(lines), tuple(calls))


def title(plan: ResumePlan) -> Line:
    """Give the first row of the dialog."""
    return (Cell(Safe("Resume "), "accent"), cell(plan.run_id, "strong", 60))


def why_not(plan: ResumePlan, keys: Keys = NO_KEYS) -> str:
    """Say to Enter why the run does not go on now: in whole sentences, one a line."""
    if plan.outcome != "refuse":
        return f"First {', then '.join(_asked(plan))}."
    said = [_said(reason, keys) for reason in leading(plan) if reason.code not in OF_CALLS]
    said = said or [reason.message for reason in plan.reasons]
    return "\n".join(said[:_SAID] + ([f"and {len(said) - _SAID} more"] if len(said) > _SAID else []))


def leading(plan: ResumePlan) -> list[Reason]:
    """Give what stands in the way, first what nothing goes past: no agent and no decision helps there."""
    return sorted(plan.reasons, key=lambda reason: not is_final(reason))


def is_final(reason: Reason) -> bool:
    """Say whether neither a decision nor force goes past a reason."""
    return reason.code in FINAL or reason.code.startswith(_ITS_OWN)


def _said(reason: Reason, keys: Keys) -> str:
    """Say what stands in the way, and which key does something about it."""
    if keys.agent and reason.message == UNNAMED:
        return f"{UNNAMED.partition(':')[0]}: {keys.agent} names it"
    return reason.message


def verdict(plan: ResumePlan, keys: Keys = NO_KEYS) -> Line:
    """Say in one row whether the run can go on now, and what is missing."""
    if plan.outcome == "accept":
        changed = any(row.same is False for row in plan.fingerprint)
        forced = "" if not plan.forced else ", past the changed fingerprint" if changed else ", with force"
        return (Cell(Safe(f"✓ ready{forced}"), "good"),)
    if plan.refused_for_good:
        instead = "fork it, or decide for an agent of yours"
        return (Cell(Safe("✗ its own program refuses it  "), "problem"), cell(instead))
    if plan.outcome == "refuse":
        first = _said(leading(plan)[0], keys) if plan.reasons else ""
        more = sum(reason.code not in OF_CALLS for reason in plan.reasons) - 1
        rest = f"  and {more} more" if more > 0 else ""
        return (Cell(Safe("✗ refused  "), "problem"), cell(first, "text", _TEXT), Cell(Safe(rest), "dim"))
    return (Cell(Safe("? first: "), "warn"), cell(", then ".join(_asked(plan)), "text", _TEXT))


def _asked(plan: ResumePlan) -> list[str]:
    """What is to be answered before the run goes on."""
    waiting = len(undecided(plan))
    asked: list[str] = []
    if any(reason.code == "torn_tail" for reason in plan.reasons):
        asked.append("agree to the repair of the end")
    if any(reason.code == "wall_time" for reason in plan.reasons):
        asked.append("say why it is resumed although it ends at once, or fork it")
    if waiting:
        asked.append(f"decide about {units.plural(waiting, 'call')}")
    if plan.may_be_tried:
        asked.append("nobody can say whether it is held: it is locked first, then resumed")
    return asked


def _obstacles(plan: ResumePlan, keys: Keys, width: int) -> Iterator[Line]:
    """What stands in the way, and what is asked, beside what is asked about single calls."""
    before = ""
    for reason in leading(plan) if plan.outcome == "refuse" else plan.reasons:
        if reason.code in OF_CALLS:
            continue
        asks = reason.code in ("torn_tail", "lock_unsure", "wall_time") or plan.outcome == "ask"
        label, mark = (
            ("Asked", Cell(Safe("? "), "warn")) if asks else ("Refused", Cell(Safe("✗ "), "problem"))
        )
        said = (mark, cell(_said(reason, keys), "text", _TEXT))
        yield from _labelled("" if label == before else label, said, width)
        before = label


def _command(shown: Sequence[str], directory: str, width: int) -> Iterator[Line]:
    if shown:
        yield from _labelled("Starts", (cell(" ".join(shown), "strong", _TEXT),), width)
    if directory:
        yield from _labelled("in" if shown else "Starts in", (cell(directory, "dim", _TEXT),), width)


def typed_words(plan: ResumePlan) -> str:
    """Say what a command that is to be pasted answers by itself, and what is left open in it."""
    if undecided(plan):
        return "write rerun, failed or done:TEXT behind the last = of each --decide"
    return "as decided" if plan.request.decisions else "as shown"


def _typed(plan: ResumePlan, typed: str, keys: Keys, width: int) -> Iterator[Line]:
    """The command for a shell, and the key that copies it: what stands here is broken into rows."""
    if not typed:
        return
    yield BLANK
    yield from _labelled("In a shell", (cell(typed, "strong", _TEXT),), width)
    copies = f"; {keys.copy} copies it" if keys.copy else ""
    yield from _labelled("", (cell(f"{typed_words(plan)}{copies}", "dim"),), width)


def _where(plan: ResumePlan, width: int) -> Iterator[Line]:
    answers = plan.answers
    if answers is not None:
        yield from _labelled("Answers", _answers(answers), width)
    elif not plan.last_seq:
        return
    if plan.last_seq < 0 or any(is_final(reason) for reason in plan.reasons):
        return
    said = [f"after seq {plan.last_seq}, {units.plural(plan.next_iteration, 'turn')} made"]
    if plan.tokens_left is not None:
        said.append(f"{units.short(plan.tokens_left)} {'token' if plan.tokens_left == 1 else 'tokens'} left")
    if plan.iterations_left is not None:
        said.append(f"{units.plural(plan.iterations_left, 'turn')} left")
    label = "Would go on" if plan.outcome == "refuse" else "Goes on"
    yield from _labelled(label, (cell(" · ".join(said)),), width)
    for note in plan.notes:
        yield from _labelled("", (cell(note, "dim", _TEXT),), width)


def _answers(answers: TwoAnswers) -> tuple[Cell, ...]:
    """Say what its own program would answer, and what we do."""
    theirs: Cell = Cell(Safe("accepts"), "good")
    if answers.ok is None:
        theirs = cell(f"cannot be foretold ({answers.code})", "warn")
    elif not answers.ok:
        theirs = cell(f"refuses ({answers.code})", "problem")
    ours = _OURS[answers.ours]
    return (cell("its program "), theirs, cell(" · Refold "), ours, cell(" · the stricter decides", "dim"))


def _fingerprint(rows: Sequence[FingerprintRow], width: int) -> Iterator[Line]:
    if not rows:
        return
    value = max(8, min(_VALUE, (width - _LABEL - 16) // 2))
    yield BLANK
    yield fit(
        (
            cell(f"{'Fingerprint':{_LABEL}}", "strong"),
            cell(f"{'saved':{value}}", "dim"),
            cell(f"{'now':{value}}", "dim"),
        ),
        width,
    )
    for row in rows:
        word, role = _sameness(row)
        changed = row.same is False
        yield fit(
            (
                cell(f"  {LIMIT_NAMES.get(row.field, row.field):{_LABEL - 2}}", "text" if changed else "dim"),
                _value(row.saved, value),
                _value("–" if row.now is None else row.now or "none", value),
                Cell(Safe(word), role),
            ),
            width,
        )


def _sameness(row: FingerprintRow) -> tuple[str, Role]:
    if row.same is None:
        return "not known here", "dim"
    if row.same:
        return "same", "dim"
    return ("CHANGED", "problem") if row.forceable else ("CHANGED, final", "problem")


def _value(text: str, width: int) -> Cell:
    return Cell(Safe(safe.fit(safe.line(text or "none", 200), width - 2) + "  "), "text")


def _call(call: PlannedCall, number: str, width: int, *, noted: Decision | None = None) -> Iterator[Line]:
    word, role = _VERDICTS[call.verdict]
    if call.not_here and call.verdict == "unknown":
        word, role = "NOT RUN HERE", "warn"
    if call.decision is not None:
        word, role = _DECIDED.get(call.decision.choice, ("?", "problem"))
    which = cell(f"  {number}", "dim")
    name = cell(call.name or "unnamed tool", "call", 60)
    left = (which, name, cell("  "), *argument_cells(call.input, 120)[:1])
    effect = effect_words(call.effect)
    right = (cell(f"  {effect:<15}", "dim"), cell(f"{word:<18}", role))
    if span(right) + span((which, name)) + 8 <= width:
        yield spread(left, right, width)
    else:
        yield fit(left, width)
        yield fit((cell("    "), cell(word, role), cell(f"  {effect}", "dim")), width)
    yield from flow((cell("    "), *_why(call, noted)), width, 4)


def _why(call: PlannedCall, noted: Decision | None) -> tuple[Cell, ...]:
    """Say what a verdict rests on, or what a decision puts on record."""
    decision = call.decision
    if call.why:
        # Of a run directory: its own program goes on with it, and hears of no decision.
        said = "" if decision is None else f"; decided: {decision.choice} {decision.text}".rstrip()
        where = cell(", noted beside the run" if decision is not None and decision == noted else "", "dim")
        return (cell(call.why, "dim"), cell(said, "text", _TEXT), where)
    if decision is None:
        because = {
            "reused": "its result is in the journal",
            "will_run": "no result yet; running it again does no harm",
            "unknown": "no result in the journal: it may have run, and nobody can know",
            "withheld": "the run stopped before it was allowed to run",
        }
        return (cell(because[call.verdict], "dim"),)
    if decision.choice == "rerun":
        return (cell("it is run as you say; if it ran before, it runs a second time", "warn"),)
    if decision.choice == "failed":
        return (cell("its result will say: ", "dim"), cell(decided_text(decision), "text", _TEXT))
    return (cell("its result will be: ", "dim"), cell(decision.text, "text", _TEXT))


def _writes(plan: ResumePlan, news: Sequence[str], width: int) -> Iterator[Line]:
    """Everything that a resume puts on disk, before what the agent itself records."""
    if plan.outcome == "refuse":
        return
    yield BLANK
    yield (cell("What will be written", "strong"),)
    if plan.answers is not None:
        count = len(plan.request.decisions)
        if count:
            said = f"{units.plural(count, 'decision')}, in Refold's own notes on this run, once made"
            yield from flow((cell("  "), cell(said)), width, 2)
        then = "then what" if count else "what"
        yield from flow((cell(f"  {then} its program writes", "dim"),), width, 2)
        return
    written: list[tuple[str, Role]] = []
    if plan.repair is not None:
        written.append((plan.repair.sentence, "text" if plan.request.repair else "warn"))
    decided = [call for call in plan.calls if call.decision is not None and call.decision.choice != "rerun"]
    if decided:
        names = ", ".join(call.name for call in decided)
        written.append((f"{units.plural(len(decided), 'result')} as decided: {names}", "text"))
    where = "with the first new record" if plan.native else "in Refold's own notes on this run"
    kept = "the fingerprint in effect"
    if plan.forced:
        kept += f", that it was forced, and why: {plan.request.reason}"
    written.append((f"{kept}, {where}", "text"))
    if news:
        written.append((f"{', '.join(news)}, in Refold's own notes on this run", "text"))
    written.append((f"then what the agent records, from seq {plan.last_seq + 1} on", "dim"))
    for text, role in written:
        yield from flow((cell("  "), cell(text, role, _TEXT)), width, 2)


def _labelled(label: str, said: tuple[Cell, ...], width: int) -> Iterator[Line]:
    yield from flow((cell(f"{label:{_LABEL}}", "dim"), *said), width, _LABEL)
