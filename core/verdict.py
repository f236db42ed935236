"""The verdict on a run that stopped: how it ended, what was in flight and what is safe, in plain sentences.

Pure. The sentences follow what `core.postmortem` found; they decide nothing themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from refold.core.barred import ends_on_reply
from refold.core.columns import ASSISTANT, DAMAGE, META, RESULT
from refold.core.findings import LEFT_BY_A_CRASH, UNPAIRED, Finding
from refold.core.fork_point import left_behind

if TYPE_CHECKING:
    from refold.core.postmortem import Action, ActionName, Damage, InFlight, Known
    from refold.core.records import Json
    from refold.core.state import RunState, ToolCall
    from refold.core.timeline import Timeline

_NAMED: Final = 3
_ARGUMENT: Final = 40
_REASON: Final = 160
_TELLING: Final = ("path", "file_path", "file", "filename", "command", "cmd", "url", "query", "name", "id")
STOPPED: Final = {
    "budget": "It stopped because its token budget was used up",
    "max-iterations": "It stopped because it had made as many turns as it may",
    "cancelled": "It was cancelled",
}
"""How a run is said to have ended by its status."""
NOTHING_LOST: Final = "Nothing was done yet and nothing is lost: start the task anew."
_UNPAIRED: Final[Mapping[str, str]] = {
    "E_TOOL_ORPHAN": "A result that answers no call stands in the conversation",
    "E_TOOL_DUP": "One call has two results in the conversation",
}
_RUN_TOGETHER: Final = frozenset({"E_GLUED", "E_SPLICED"})
_LOOKED_AT: Final = 10_000
_CORRUPT: Final = "corrupt record sequence: "


class Verdict(NamedTuple):
    """What a person who opens the run in the night has to know."""

    happened: str
    """How it ended, and what was in flight."""
    safe: str
    """What is safe to do now."""

    @property
    def sentence(self) -> str:
        """Both."""
        return f"{self.happened} {self.safe}"


def verdict_on(
    known: Known, flying: Sequence[InFlight], damage: Sequence[Damage], actions: Sequence[Action]
) -> Verdict:
    """Put what was found into words.

    Args:
        known: What was read of the run.
        flying: The calls without a result.
        damage: What is damaged.
        actions: What can be done.
    """
    by_name = {action.name: action for action in actions}
    timeline, name = known.timeline, known.status.name
    if not timeline.items or _only_torn(timeline):
        began = "before the first one" if not timeline.items else "while it wrote the first one"
        return Verdict(
            f"It holds no record: its writer died {began}.",
            NOTHING_LOST,
        )
    if name == "newer":
        return newer(known.status.rule)
    happened = _happened(known, flying)
    if name != "running" and timeline.strict_error is not None:
        lost = [each for each in damage if each.finding.code == "E_CALL_UNANSWERED"]
        broken = " ".join(filter(None, (_broken(known, happened, flying), _unpaired(known, lost))))
        return Verdict(broken, _safe_broken(known, flying, by_name))
    unpaired = _unpaired(known, damage)
    happened = " ".join(filter(None, (happened, _hint(flying, damage), unpaired, _odd(known, damage))))
    return Verdict(happened, _safe(known, flying, by_name, unpaired=bool(unpaired)) + _mending(known, damage))


def _only_torn(timeline: Timeline) -> bool:
    return timeline.items == 1 and timeline.torn is not None


def _hint(flying: Sequence[InFlight], damage: Sequence[Damage]) -> str:
    """Say that a result was being written, where the torn end shows it."""
    if not flying or not any(each.is_result for each in damage):
        return ""
    if len(flying) == 1:
        return "The torn end begins like its result, so it most likely ran."
    return "The torn end begins like a result, so one of them most likely ran."


def _odd(known: Known, damage: Sequence[Damage]) -> str:
    """Name what is not as it should be and yet stops nothing."""
    repair = known.facts.repair
    end = known.timeline.span(known.timeline.items - 1).end if repair is None else repair.keep
    odd: list[Finding] = [
        each.finding
        for each in damage
        if each.finding.code not in LEFT_BY_A_CRASH | UNPAIRED
        and (repair is None or each.finding.start < end)
    ]
    if not odd:
        return ""
    more = f", and {len(odd) - 1:,} more" if len(odd) > 1 else ""
    return f"Odd, but no obstacle: {short(odd[0].message, _REASON)} (line {odd[0].line}){more}."


def _unpaired(known: Known, damage: Sequence[Damage]) -> str:
    """Name what stands alone in the middle of the run; empty where every call has its one result."""
    found = next((each for each in damage if each.finding.code in UNPAIRED), None)
    if found is None:
        return ""
    if found.finding.code in _UNPAIRED:
        return f"{_UNPAIRED[found.finding.code]} (line {found.finding.line:,})."
    lost = _lost(known.timeline, found.item)
    named = [short(name, _ARGUMENT) for name in lost[:_NAMED]]
    named += [f"{len(lost) - _NAMED:,} more"] if len(lost) > _NAMED else []
    have = "has no result" if len(lost) == 1 else "have no results"
    changes = any(known.facts.effects.get(name, "unknown") in ("write", "unknown") for name in lost)
    ran = f": nobody can say whether {'it' if len(lost) == 1 else 'they'} ran" if changes else ""
    where = f"turn {known.timeline.turn(found.item):,}, line {found.finding.line:,}"
    return f"{listed(named)} ({where}) {have} that can be read, and the run went on{ran}."


def _lost(timeline: Timeline, item: int) -> list[str]:
    """Give the tools of the calls of a reply that have no result."""
    columns = timeline.columns
    answered: set[int] = set()
    for at in range(item + 1, min(timeline.items, item + 1 + _LOOKED_AT)):
        if columns.last_assistant[at] != item + 1:
            break
        if columns.kind[at] == RESULT:
            answered.add(columns.link[at])
    calls = range(timeline.own_calls(item))
    return [timeline.call_name(item, call) for call in calls if call not in answered] or ["a call"]


def _happened(known: Known, flying: Sequence[InFlight]) -> str:
    """Say how the run ended, and what was in flight."""
    name, state = known.status.name, known.state
    message = state.terminal.message if state is not None and state.terminal is not None else ""
    said = f": “{short(message, _REASON)}”" if message else ""
    if name == "running":
        return at_work(flying)
    if name == "completed":
        return "It completed: its task is done, and nothing is in flight."
    if name == "crashed":
        return _crashed(known, flying)
    if name == "ready":
        return f"It is a fork that nobody has gone on with yet{_begins_with(flying)}."
    if name == "suspended":
        if flying and not flying[0].withheld:
            return f"It was suspended while {names(flying)} {was(flying)} in flight."
        return f"It was suspended{_open(flying)}."
    if name == "failed":
        return f"It ended in an error{said or f' ({known.status.rule})'}{_open(flying)}."
    return f"{STOPPED.get(name, 'It stopped')}{said}{_open(flying)}."


def _begins_with(flying: Sequence[InFlight]) -> str:
    """Say with which calls a fresh fork begins, and what is known of a single one."""
    if not flying:
        return ""
    said = f", with {names(flying)} still to be answered"
    if not all(each.elsewhere for each in flying):
        return said
    return f"{said}: {flying[0].elsewhere}" if len(flying) == 1 else f"{said}: not run in this fork"


def _open(flying: Sequence[InFlight]) -> str:
    if not flying:
        return "; nothing was in flight"
    if flying[0].withheld:
        return f"; {names(flying)} {was(flying)} asked for and not run"
    return f"; {names(flying)} {was(flying)} in flight and {_has(flying)} no result"


def _crashed(known: Known, flying: Sequence[InFlight]) -> str:
    timeline, state = known.timeline, known.state
    last = _last_item(timeline)
    turn = timeline.turn(last)
    if flying:
        result = _answered(state)
        have = "has its result" if result == 1 else "have their results"
        reused = f" ({_count(result, 'other call')} of that turn {have})" if result else ""
        if flying[0].withheld:
            return f"It died in turn {turn}: {names(flying)} {was(flying)} asked for and not run{reused}."
        return f"It died in turn {turn} while {names(flying)} {was(flying)} in flight{reused}."
    kind = timeline.columns.kind[last]
    if state is not None and kind == ASSISTANT and ends_on_reply(state):
        return (
            f"It died after the model's reply in turn {turn}, before the end was recorded; "
            "nothing was in flight."
        )
    if kind == RESULT:
        return (
            f"It died between turns: all calls of turn {turn} have their results, and no tool was in flight."
        )
    if kind == META or turn == 0:
        return "It died before the model's first reply; no tool was in flight."
    return f"It died after turn {turn}, before the model's next reply; no tool was in flight."


def _answered(state: RunState | None) -> int:
    if state is None or state.pending is None:
        return 0
    return len(state.pending.calls) - len(state.pending.unanswered)


def _last_item(timeline: Timeline) -> int:
    """Give the last item that is a record."""
    kinds = timeline.columns.kind
    return next((item for item in range(timeline.items - 1, -1, -1) if kinds[item] != DAMAGE), 0)


def _broken(known: Known, happened: str, flying: Sequence[InFlight]) -> str:
    """Say that the records do not fold, and where the first damage is."""
    error = str(known.timeline.strict_error).removeprefix(_CORRUPT)
    if known.status.name == "unreadable":
        open_ = f" {names(flying)} {was(flying)} in flight." if flying else ""
        return f"It has no beginning that can be read: {error}.{open_}"
    sound = known.timeline.legal_fork(known.timeline.strict_end - 1)
    until = "nothing before that is sound" if sound is None else f"all is sound up to seq {sound}"
    return f"It is damaged ({error}); {until}. {happened}"


def _safe_broken(known: Known, flying: Sequence[InFlight], by_name: Mapping[ActionName, Action]) -> str:
    ways: list[str] = []
    if by_name["fork"].possible:
        at = by_name["fork"].at
        sound = known.timeline.legal_fork(known.timeline.strict_end - 1)
        before = "" if at == sound else ", before the turn that is not whole"
        ways.append(f"fork it after seq {at} (f){before}")
    if by_name["salvage"].possible:
        ways.append("salvage its good records into a new run (s)")
    look = _look(flying)
    if not ways:
        return f"{look}No agent can go on with it; its bytes stay as they are and can be read."
    return f"It cannot be resumed. {look}Safe: {', or '.join(ways)}; this file stays as it is."


def _look(flying: Sequence[InFlight]) -> str:
    those = unsure(flying)
    return f"Look first whether {names(those)} ran. " if those else ""


def unsure(flying: Sequence[InFlight]) -> list[InFlight]:
    """Give the calls of which nobody knows whether they changed something."""
    return [
        each
        for each in flying
        if not each.withheld and not each.elsewhere and each.effect in ("write", "unknown")
    ]


def _safe(
    known: Known, flying: Sequence[InFlight], by_name: Mapping[ActionName, Action], *, unpaired: bool
) -> str:
    """Say what is safe."""
    name, resume, fork = known.status.name, by_name["resume"], by_name["fork"]
    forking = way_to_fork(fork)
    if name == "running":
        return while_held(fork)
    if name == "completed":
        return f"Nothing has to be done; to go on from an earlier point, {forking or 'there is no way'}."
    if not resume.possible:
        rest = f" Safe: {forking}." if forking else ""
        return f"{_look(flying)}It cannot be resumed: {resume.why_not}.{rest}"
    if unpaired:
        instead = f" Safe: {forking}, before that." if forking else ""
        resuming = _resuming(known, flying, resume, None).replace("Safe: resume (r)", "Else: resume (r)", 1)
        return f"A model may refuse to go on from there.{instead} {resuming}"
    return _resuming(known, flying, resume, fork)


def _resuming(known: Known, flying: Sequence[InFlight], resume: Action, fork: Action | None) -> str:
    """Say what a resume does, and what can be done instead."""
    forking = "" if fork is None else way_to_fork(fork)
    if known.plan.missing:
        asks = bool(unsure(flying)) or _asks(flying)
        then = "resume (r) and decide" if asks else f"resume (r) goes on after seq {known.plan.last_seq}"
        return without_program(known.plan.missing, flying, fork, then)
    if asked := unsure(flying):
        before = f", or {forking}, {before_calls(flying, fork)}" if forking else ""
        did = "it did" if len(asked) == 1 else "they did"
        return (
            f"Nobody can say for sure whether {names(asked)} ran: look first whether {did}, "
            f"then resume (r) and decide{before}."
        )
    again = " (unchanged limits stop it again)" if known.status.name in ("budget", "max-iterations") else ""
    if _asks(flying):
        them = "it" if len(flying) == 1 else "them"
        instead = f", or {forking}" if forking else ""
        return f"Safe: resume (r), which asks what becomes of {them}{again}{instead}."
    if flying and flying[0].elsewhere:
        return f"Safe: resume (r) runs {names(flying)}, which changes nothing twice{again}."
    if flying:
        return f"Safe: resume (r) runs {names(flying)} again, which changes nothing twice{again}."
    needed = f"; first {resume.first}" if resume.first and known.facts.repair is None else ""
    return f"Safe: resume (r) goes on after seq {known.plan.last_seq}{again}{needed}."


def _asks(flying: Sequence[InFlight]) -> bool:
    """Say whether a resume asks what becomes of calls that did not run here."""
    changes = any(each.effect in ("write", "unknown") for each in flying)
    return bool(flying) and bool(flying[0].withheld or (flying[0].elsewhere and changes))


def _mending(known: Known, damage: Sequence[Damage]) -> str:
    plan = known.facts.repair
    if plan is None:
        return ""
    if plan.action == "complete":
        return " Its last record lacks only its newline; repair (m, or the resume itself) adds it."
    size = _count(plan.torn_bytes, "byte")
    if any(each.finding.start >= plan.keep and each.finding.code in _RUN_TOGETHER for each in damage):
        return (
            f" Its last {size} hold records that ran together: salvage (s) keeps what is good of them; "
            "repair (m, or the resume itself) sets them aside."
        )
    are = "is" if plan.torn_bytes == 1 else "are"
    return (
        f" Its last {size} {are} no whole record, as a crash leaves them; "
        "repair (m, or the resume itself) keeps them aside."
    )


def newer(rule: str) -> Verdict:
    """Give the verdict on a run that only a newer program reads; `rule` says by what that was told."""
    return Verdict(
        f"A newer program wrote it: {rule}.",
        "Update Refold, or use the program that wrote it; nothing here writes to it.",
    )


def at_work(flying: Sequence[InFlight]) -> str:
    """Say that a run is going on, and what is in flight."""
    doing = f", with {names(flying)} in flight" if flying else ""
    return f"An agent is at work on it now{doing}."


def while_held(fork: Action) -> str:
    """Say what is safe while a run is held."""
    where = f" after seq {fork.at} (f)" if fork.possible else ""
    return f"Safe: read on, or fork it{where}; do not resume it while it is held."


def without_program(missing: str, flying: Sequence[InFlight], fork: Action | None, then: str) -> str:
    """Say what is safe where what would go on with a run cannot be started here.

    Args:
        missing: Why it cannot.
        flying: The calls without a known end.
        fork: How it is forked; None where that is not said.
        then: What can be done once it is there.
    """
    asked = unsure(flying)
    look = doubt = ""
    if asked:
        doubt = f"Nobody can say for sure whether {names(asked)} ran. "
        look = f"look first whether {'it' if len(asked) == 1 else 'they'} did, then "
    forking = "" if fork is None else way_to_fork(fork)
    before = f", {before_calls(flying, fork)}" if asked else ""
    safe = f"Safe now: {look}{forking}{before}. " if forking else ""
    why = f"What goes on with it cannot be started here: {short(missing, _REASON)}."
    return f"{doubt}{safe}{why} Once it can, {then}."


def before_calls(flying: Sequence[InFlight], fork: Action | None) -> str:
    """Say that a fork stands before calls; where their turn has results, that these stay behind."""
    if fork is None or not fork.left:
        return "before that call" if len(flying) == 1 else "before those calls"
    return f"before that whole turn: {left_behind(fork.left, fork.keeps)}"


def way_to_fork(fork: Action) -> str:
    """Say from where it can be forked, as part of a sentence; empty where it cannot."""
    return f"fork it after seq {fork.at} (f)" if fork.possible else ""


def names(flying: Sequence[InFlight]) -> str:
    """Name calls by tool and most telling argument."""
    named = [_name(each.call) for each in flying[:_NAMED]]
    if len(flying) > _NAMED:
        named.append(f"{len(flying) - _NAMED:,} more")
    return listed(named)


def listed(named: Sequence[str]) -> str:
    """Join names as in a sentence; at least one."""
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def _name(call: ToolCall) -> str:
    given = telling(call.input)
    return short(call.name, _ARGUMENT) + (f" ({short(given, _ARGUMENT)})" if given else "")


def telling(given: Json) -> str:
    """Give the argument that says most about a call; empty where none is a text."""
    if not isinstance(given, dict):
        return ""
    for name in (*_TELLING, *given):
        value = given.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return ""


def short(text: str, limit: int) -> str:
    """Give a text on one line, cut to so many characters."""
    text = " ".join(text[: 4 * limit].split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def was(flying: Sequence[InFlight]) -> str:
    """Give the verb that fits the number of calls."""
    return "was" if len(flying) == 1 else "were"


def _has(flying: Sequence[InFlight]) -> str:
    return "has" if len(flying) == 1 else "have"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun if number == 1 else noun + 's'}"
