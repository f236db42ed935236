"""Which items of a conversation the events up to a point prove (design/contracts.md "Forks").

The manifest keeps the conversation as it stands now; the events keep only previews of it. So the turns of the
one are laid beside the `model.completed` of the other, and taken as long as both name the same calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from refold.core.records import Json
from refold.core.rivumi.events import Event
from refold.core.rivumi.items import usage
from refold.core.rivumi.manifest import Call, Manifest, tokens_of
from refold.core.rivumi.members import Members, capped

_COMPACTED = "context_pressure.summary_fallback_applied"
_COUNTS = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")


class Carried(msgspec.Struct, frozen=True):
    """What comes along of a conversation."""

    items: tuple[Json, ...]
    turns: int
    """Turns of the model among them."""
    step: int
    """Turns that the prefix proves."""
    usage: dict[str, Json]
    unanswered: tuple[Call, ...]
    """Calls of the last turn that have no observation among the items."""
    notes: tuple[str, ...]


class _Lost:
    """Counts what an original of the first generation could not read."""

    def __init__(self) -> None:
        self.injected = 0
        self.metadata = 0

    def item(self, item: dict[str, Json]) -> dict[str, Json] | None:
        """Give an item with the members of the first generation; None where it has no such form."""
        if "item_type" in item:
            self.injected += 1
            return None
        kept = self._plain(item)
        calls = item.get("tool_calls")
        if isinstance(calls, list):
            kept["tool_calls"] = [self._plain(call) if isinstance(call, dict) else call for call in calls]
        return kept

    def _plain(self, item: dict[str, Json]) -> dict[str, Json]:
        self.metadata += bool(item.get("provider_metadata"))
        return {name: value for name, value in item.items() if name != "provider_metadata"}

    def notes(self) -> Iterator[str]:
        if self.injected:
            yield f"left out: {self.injected} injected texts, which earlier programs refuse"
        if self.metadata:
            yield f"left out: what the provider added to {self.metadata} messages; earlier programs refuse it"


def carry(manifest: Manifest, events: Sequence[Event], prefix: Sequence[Event]) -> Carried:
    """Give what the prefix of a log proves of a conversation.

    Args:
        manifest: holds the conversation as it stands now.
        events: the whole log: what was compacted later is gone too.
        prefix: the events up to the point, in order.
    """
    completed = [event for event in prefix if event.event_type == "model.completed"]
    inherited = _inherited(prefix)
    step, used = _used(completed)
    if any(event.event_type == _COMPACTED for event in events):
        note = "none of the conversation comes along: it was compacted, and the earlier form is not kept"
        return Carried((), 0, step, used, (), (note,))
    lost = _Lost()
    taken: list[Json] = []
    turns, notes = 0, []
    blocks = _blocks(manifest.messages, inherited)
    for number, block in enumerate(blocks):
        if number == 0:
            # The task as it was put to the model; with a fork also what it brought along.
            kept = block
            turns += sum(isinstance(item, dict) and item.get("role") == "assistant" for item in block)
        elif number > len(completed):
            break
        elif not _same_calls(block[0], completed[number - 1]):
            notes.append(f"from model turn {number} on the manifest does not agree with the events: left out")
            break
        else:
            turns += 1
            kept = _proved(block, number, completed, prefix)
        for item in kept:
            plain = lost.item(item) if isinstance(item, dict) else None
            if plain is not None:
                taken.append(plain)
    else:
        if len(blocks) - 1 < len(completed):
            missing = len(completed) - len(blocks) + 1
            notes.append(f"{missing} turns up to here are not in the manifest and do not come along")
    return Carried(tuple(taken), turns, step, used, _unanswered(taken), (*notes, *lost.notes()))


def _inherited(prefix: Sequence[Event]) -> int:
    """How many items a run that is a fork itself began with."""
    first = prefix[0] if prefix else None
    if first is None or first.event_type != "run.forked":
        return 0
    return Members(first.data).whole("messages_included", 0)


def _blocks(messages: Sequence[Json], inherited: int) -> list[list[Json]]:
    """Cut a conversation before each turn of the model; the first block is what stood before any."""
    blocks: list[list[Json]] = [list(messages[:inherited])]
    for item in messages[inherited:]:
        if isinstance(item, dict) and item.get("role") == "assistant":
            blocks.append([])
        blocks[-1].append(item)
    return blocks


def _same_calls(turn: Json, event: Event) -> bool:
    """Say whether a turn calls what its event says it does; an event that does not say agrees."""
    named = event.data.get("tool_calls")
    if not isinstance(turn, dict) or not isinstance(named, list):
        return isinstance(turn, dict)
    made = [call.get("name") for call in Members(turn).many("tool_calls") if isinstance(call, dict)]
    return made == named


def _proved(
    block: Sequence[Json], number: int, completed: Sequence[Event], prefix: Sequence[Event]
) -> list[Json]:
    """Give a turn and what follows it, as far as the prefix proves it."""
    began = completed[number - 1].sequence
    end = completed[number].sequence if number < len(completed) else None
    after = [event for event in prefix if event.sequence > began and (end is None or event.sequence < end)]
    if end is not None or any(event.event_type == "model.requested" for event in after):
        # The next request was sent with all of it.
        return list(block)
    ended = {
        Members(event.data).text("tool_call_id")
        for event in after
        if event.event_type in {"tool.completed", "subagents.transaction_completed"}
    }
    ended |= {
        Members(event.data).text("action_id") for event in after if event.event_type == "approval.abandoned"
    }
    return [
        item
        for place, item in enumerate(block)
        if place == 0 or (isinstance(item, dict) and "ok" in item and item.get("tool_call_id") in ended)
    ]


def _unanswered(items: Sequence[Json]) -> tuple[Call, ...]:
    answered: set[Json] = set()
    for item in reversed(items):
        if not isinstance(item, dict):
            continue
        if "ok" in item:
            answered.add(item.get("tool_call_id"))
        elif item.get("role") == "assistant":
            calls = [Members(call) for call in Members(item).many("tool_calls") if isinstance(call, dict)]
            return tuple(
                Call(own.text("tool_call_id"), own.text("name"), own.raw.get("arguments"))
                for own in calls
                if own.raw.get("tool_call_id") not in answered
            )
    return ()


def _used(completed: Sequence[Event]) -> tuple[int, dict[str, Json]]:
    """Give the turns and tokens that the prefix proves; those of a parent are not counted again."""
    counts = dict.fromkeys(_COUNTS, 0)
    total = 0
    for event in completed:
        raw = Members(event.data).object("usage") or {}
        own = Members(raw)
        for name in _COUNTS:
            counts[name] = capped(counts[name] + max(0, own.whole(name, 0)))
        total = capped(total + max(0, tokens_of(raw).total))
    step = max((Members(event.data).whole("step", 0) for event in completed), default=0)
    used = usage(
        given=counts["input_tokens"],
        made=counts["output_tokens"],
        cached=counts["cached_input_tokens"],
        reasoning=counts["reasoning_tokens"],
        total=total if completed else None,
    )
    return max(step, 0), used
