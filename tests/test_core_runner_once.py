"""Every call once, over any number of suspends; and what a kill at any append leaves."""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scripted import (
    EFFECTS,
    Step,
    World,
    agent,
    begin,
    call_id,
    on_disk,
    resume,
)

from refold.core.agent import Agent
from refold.core.barred import ends_on_reply
from refold.core.control import Control
from refold.core.errors import StoreError
from refold.core.records import (
    AssistantRecord,
    Decision,
    Record,
    ToolResultRecord,
)
from refold.core.resume import ResumeRefused, ResumeRequest
from refold.core.runner import Outcome, Progress, Runner
from refold.core.state import RunState
from refold.core.store.journal import Journal, JournalStore
from refold.core.store.resume import open_to_resume


@pytest.fixture
def store(tmp_path: Path) -> JournalStore:
    return JournalStore(tmp_path / "runs")


EXAMPLES = int(os.environ.get("REFOLD_EXAMPLES", "1000"))
"""How many random scripts are tried."""
SCRATCH = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where an fsync costs nothing: what is measured here is order, not the disk."""


steps = st.builds(
    Step,
    st.lists(st.sampled_from(EFFECTS), max_size=3).map(tuple),
    st.sampled_from(["", "", "", "pause_turn"]),
    st.integers(1, 9),
)
scripts = st.lists(steps, max_size=5).map(
    lambda found: [s._replace(stop="" if s.calls else "pause_turn") for s in found]
)


def until_done(
    store: JournalStore, made: Agent, stops: set[int], said: list[str], *, interactive: bool
) -> RunState:
    """Drive a run to its end, stopped at some of the things that happen, each time by a fresh runner."""
    happened = itertools.count()
    rest = list(said)

    async def follow_up() -> str | None:
        return rest.pop(0) if rest else None

    async def life(first: bool) -> Outcome:
        control = Control()

        def watch(_: Progress) -> None:
            if next(happened) in stops and not control.suspending:
                control.stop()

        options: Any = {"control": control, "watch": watch, "follow_up": follow_up}
        if first:
            return await begin(store, made, interactive=interactive, **options)
        return await resume(store, made, **options)

    outcome = asyncio.run(life(True))
    lives = 1
    while outcome.reason == "suspended" and (rest or not _waits(outcome.state)):
        outcome = asyncio.run(life(False))
        lives += 1
        assert lives < 60
    assert outcome.reason == ("suspended" if interactive else "completed")
    return outcome.state


def _waits(state: RunState) -> bool:
    """Say whether a conversation has nothing left to do but to wait for the user."""
    return state.interactive and ends_on_reply(state)


def check_every_call_once(
    middle: list[Step], tails: list[list[Step]], stops: set[int], interactive: bool
) -> None:
    parts = [middle, *tails] if interactive else [middle]
    script = [step for part in parts for step in (*part, Step())]
    said = [f"follow-up {number}" for number in range(len(parts) - 1)]
    states, worlds = [], []
    for chosen in (stops, set[int]()):
        with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
            world = World()
            made = agent(script, world)
            store = JournalStore(Path(directory))
            state = until_done(store, made, chosen, said, interactive=interactive)
            assert _ageless(store.load("run")) == _ageless(state)
            states.append(_ageless(state))
            worlds.append(world)
    interrupted, straight = worlds
    assert (
        interrupted.ran
        == straight.ran
        == Counter({call_id(t, n): 1 for t, step in enumerate(script) for n, _ in enumerate(step.calls)})
    )
    assert interrupted.asked == straight.asked == Counter(dict.fromkeys(range(len(script)), 1))
    assert interrupted.seen == straight.seen
    assert states[0] == states[1]


def _ageless(state: RunState) -> RunState:
    """Give a state without what differs between two runs that did the same."""
    return msgspec.structs.replace(state, created="", run_id="", last_seq=0)


class Killed(BaseException):
    """The process ends here."""


class Deadly:
    """A journal whose process is killed before or after the append of one number."""

    def __init__(self, journal: Journal, at: int, *, after: bool) -> None:
        self.journal = journal
        self.left = at
        self.after = after

    def append(self, record: Record) -> int:
        self.left -= 1
        if self.left < 0 or (self.left == 0 and not self.after):
            raise Killed
        seq = self.journal.append(record)
        if self.left == 0:
            raise Killed
        return seq


def check_a_kill(middle: list[Step], kills: list[tuple[int, bool]]) -> None:
    script = [*middle, Step()]
    world = World()
    made = agent(script, world)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        store = JournalStore(Path(directory))
        store.create("run", made.opening("go")).close()
        decided: set[str] = set()
        for at, after in [*kills, (10_000, False)]:
            durable = [r.tool_use_id for r in on_disk(store) if isinstance(r, ToolResultRecord)]
            turns = sum(isinstance(r, AssistantRecord) for r in on_disk(store))
            assert max(Counter(durable).values(), default=1) == 1
            before = (world.ran.copy(), world.asked.copy())
            if store.load("run").completed:
                break
            outcome = _life_or_death(store, made, at, after=after, decided=decided)
            if outcome is not None:
                assert outcome.reason == "completed"
                break
            assert all(world.ran[call] == before[0][call] for call in durable)
            assert all(world.asked[turn] == before[1][turn] for turn in range(turns))
        state = store.load("run")
        assert state.completed
        assert state.counters.tool_calls == sum(len(step.calls) for step in script)
        repeated = {call for call, times in world.ran.items() if times > 1}
        effects = {call_id(t, n): e for t, step in enumerate(script) for n, e in enumerate(step.calls)}
        assert all(call in decided for call in repeated if effects[call] in {"write", "unknown"})
        assert all(times == 1 for turn, times in world.asked.items() if turn < state.next_iteration) or kills


def _life_or_death(
    store: JournalStore, made: Agent, at: int, *, after: bool, decided: set[str]
) -> Outcome | None:
    """Give how a life ended; None where it was killed."""
    try:
        return asyncio.run(_life(store, made, at, after=after, decided=decided))
    except BaseException as error:
        if not _is_kill(error):
            raise
        return None


def _is_kill(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_kill(inner) for inner in error.exceptions)
    return isinstance(error, Killed)


async def _life(store: JournalStore, made: Agent, at: int, *, after: bool, decided: set[str]) -> Outcome:
    try:
        opened = open_to_resume(store, "run", made)
    except ResumeRefused as refused:
        if {reason.code for reason in refused.plan.reasons} != {"unknown_call"}:
            raise
        unknown = [call.id for call in refused.plan.calls if call.verdict == "unknown"]
        decided.update(unknown)
        request = ResumeRequest(decisions={call: Decision("rerun") for call in unknown})
        opened = open_to_resume(store, "run", made, request=request)
    with opened:
        log = Deadly(opened.journal, at, after=after)
        return await Runner(made, log).go_on(opened.records(), opened.plan)


suspends = st.fixed_dictionaries(
    {
        "middle": scripts,
        "tails": st.lists(scripts, max_size=2),
        "stops": st.sets(st.integers(0, 25), max_size=6),
        "interactive": st.booleans(),
    }
)
"""A script, and at which of the things that happen it is suspended."""
kills = st.fixed_dictionaries(
    {
        "middle": scripts,
        "kills": st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=4),
    }
)
"""A script, and at which appends it is killed."""


@pytest.mark.parametrize(
    ("strategy", "check"),
    [
        pytest.param(suspends, check_every_call_once, id="every call once whatever the suspends"),
        pytest.param(kills, check_a_kill, id="a kill repeats nothing whose result is on disk"),
    ],
)
def test_random_scripts(strategy: st.SearchStrategy[dict[str, Any]], check: Callable[..., None]) -> None:
    tried = 0

    @settings(max_examples=EXAMPLES)
    @given(strategy)
    def each(made: dict[str, Any]) -> None:
        nonlocal tried
        check(**made)
        tried += 1

    each()
    assert tried >= EXAMPLES


def test_a_locked_run_has_one_runner(store: JournalStore) -> None:
    made = agent([Step()], World())
    with store.create("run", made.opening("go")), pytest.raises(StoreError, match="locked"):
        open_to_resume(store, "run", made)
