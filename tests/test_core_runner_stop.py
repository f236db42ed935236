"""How a run is stopped at once, what a failed write does, and which factories give no agent."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.scripted import (
    EFFECTS,
    Step,
    World,
    agent,
    begin,
    kinds,
    on_disk,
    resume,
)

from refold.core.agent import Agent, NoSuchAgent, Tool, Turn, load_agent
from refold.core.control import Control
from refold.core.errors import WriteFailed
from refold.core.records import (
    Json,
    Record,
)
from refold.core.runner import Outcome, Runner
from refold.core.store.journal import Journal, JournalStore


@pytest.fixture
def store(tmp_path: Path) -> JournalStore:
    return JournalStore(tmp_path / "runs")


async def until(true: Callable[[], bool]) -> None:
    """Let the others work until something is true."""
    for _ in range(5000):
        if true():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came true")


def slow(world: World, events: list[str]) -> Agent:
    """Give an agent whose first turn calls a quick write, a slow write and one that comes after."""

    async def run(name: str) -> str:
        events.append(name)
        world.ran[name] += 1
        await asyncio.sleep(0 if name == "a" else 30)
        return name

    async def model(messages: Sequence[Mapping[str, Json]], tools: Sequence[Tool]) -> Turn:
        world.asked[len(messages)] += 1
        if len(messages) > 1:
            events.append("model")
            await asyncio.sleep(30)
        return Turn(
            [{"type": "tool_use", "id": name, "name": "t", "input": {"name": name}} for name in "abc"]
        )

    return Agent("p", "m", "", (Tool("t", "", {}, "write", run),), model)


async def stopped_at(store: JournalStore, made: Agent, events: list[str], name: str, times: int) -> Outcome:
    control = Control()
    task = asyncio.create_task(begin(store, made, control=control))
    await until(lambda: name in events)
    for _ in range(times):
        control.stop()
    return await asyncio.wait_for(task, 5)


def test_a_second_stop_aborts_without_inventing_results(store: JournalStore) -> None:
    events: list[str] = []
    world = World()
    made = slow(world, events)
    outcome = asyncio.run(stopped_at(store, made, events, "b", 2))
    assert (outcome.reason, outcome.message) == ("cancelled", "stopped at once, as asked")
    assert kinds(on_disk(store)) == ["meta", "turn", "result", "cancelled"]
    assert outcome.state.pending is not None
    assert [call.id for call in outcome.state.pending.unanswered] == ["b", "c"]
    assert world.ran == Counter(a=1, b=1)


def test_an_abort_while_the_model_thinks_records_no_turn(store: JournalStore) -> None:
    events: list[str] = []
    world = World()
    made = slow(world, events)

    async def quick(name: str) -> str:
        return name

    made = msgspec.structs.replace(made, tools=(Tool("t", "", {}, "write", quick),))
    outcome = asyncio.run(stopped_at(store, made, events, "model", 2))
    assert outcome.reason == "cancelled"
    assert kinds(on_disk(store)) == ["meta", "turn", "result", "result", "result", "cancelled"]


@pytest.mark.parametrize("complains", [True, False])
def test_whatever_is_said_while_being_cancelled_is_no_answer(complains: bool, store: JournalStore) -> None:
    async def model(messages: Sequence[Mapping[str, Json]], tools: Sequence[Tool]) -> Turn:
        try:
            control.abort()
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            if complains:
                raise RuntimeError("connection lost") from None
        return Turn([])

    control = Control()
    outcome = asyncio.run(begin(store, Agent("p", "m", "", (), model), control=control))
    # One that answers all the same is believed: the answer exists.
    assert outcome.reason == ("cancelled" if complains else "completed")


def test_a_program_that_cancels_the_run_leaves_it_readable(store: JournalStore) -> None:
    async def scene() -> None:
        events: list[str] = []
        task = asyncio.create_task(begin(store, slow(World(), events)))
        await until(lambda: "b" in events)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())
    assert kinds(on_disk(store)) == ["meta", "turn", "result", "cancelled"]


def test_signals_suspend_then_abort_and_the_handlers_come_back(store: JournalStore) -> None:
    events: list[str] = []

    async def scene(*numbers: int) -> Outcome:
        control = Control()
        before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        with control.signals():
            task = asyncio.create_task(begin(store, slow(World(), events), control=control))
            await until(lambda: "b" in events)
            for number in numbers:
                os.kill(os.getpid(), number)
                await asyncio.sleep(0.01)
            outcome = await asyncio.wait_for(task, 5)
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
        return outcome

    assert asyncio.run(scene(signal.SIGINT, signal.SIGTERM)).reason == "cancelled"


class Failing:
    """A journal whose append of one number fails as a full disk does."""

    def __init__(self, journal: Journal, at: int) -> None:
        self.journal = journal
        self.left = at

    def append(self, record: Record) -> int:
        self.left -= 1
        if self.left == 0:
            self.journal.close()
            raise WriteFailed("no space left")
        return self.journal.append(record)


@pytest.mark.parametrize("at", range(2, 9))
def test_a_failed_write_ends_the_run_and_cancels_what_runs(at: int, store: JournalStore) -> None:
    started: list[str] = []
    finished: list[str] = []

    async def run(name: str) -> str:
        started.append(name)
        await asyncio.sleep(0.01 if name == "a" else 0.02)
        if name == "c":
            await asyncio.sleep(0.05)
        finished.append(name)
        return name

    async def model(messages: Sequence[Mapping[str, Json]], tools: Sequence[Tool]) -> Turn:
        if len(messages) > 3:
            return Turn([])
        calls: list[Json] = [
            {"type": "tool_use", "id": name, "name": "t", "input": {"name": name}} for name in "abc"
        ]
        return Turn(calls)

    made = Agent("p", "m", "", (Tool("t", "", {}, "read", run),), model)

    async def scene() -> None:
        with store.create("run", made.opening("go")) as journal:
            await Runner(made, Failing(journal, at)).run("go")

    with pytest.raises(WriteFailed, match="no space left"):
        asyncio.run(scene())
    if at == 3:
        assert (started, finished) == (["a", "b", "c"], ["a"])
    assert store.load("run").last_seq == at - 1
    assert asyncio.run(resume(store, made)).reason == "completed"


async def _ok(**_: Json) -> str:
    return "ok"


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("", "names no factory"),
        ("x", "names no factory"),
        (":x", "names no factory"),
        ("no_such_module_here:x", "No module named"),
        ("refold_made_up:missing", "has nothing of the name 'missing'"),
        ("refold_made_up:value", "has nothing callable of the name 'value'"),
        ("refold_made_up:text", "gives str, not a refold.core Agent"),
        (
            "refold_made_up:fails",
            r"failed: ZeroDivisionError: division by zero \(refold_made_up.py, line 3\)",
        ),
        ("refold_made_up:leaves", "failed: SystemExit"),
        ("refold_made_up:twice", "failed: ValueError: two tools are called t"),
        ("refold_made_up:loose", "failed: ValueError: no effect that is known .*: t"),
        ("refold_made_up:mute", r"failed: Mute, whose text fails with KeyError \(refold_made_up.py, line"),
        ("refold_made_up:panics", r"failed: Panic: overflow \(refold_made_up.py, line"),
        ("refold_broken:x", "cannot be imported: SyntaxError"),
        ("refold_panics:x", r"cannot be imported: BaseException: at import \(refold_panics.py, line 1\)"),
    ],
)
def test_a_factory_that_gives_no_agent_is_said(
    factory: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "refold_made_up.py").write_text(
        "value = 7\ndef text(): return 'x'\ndef fails(): return 1 / 0\ndef leaves(): raise SystemExit\n"
        "def twice():\n"
        "    from refold.core import Agent, Tool\n"
        "    t = Tool('t', '', {}, 'read', None)\n"
        "    return Agent('p', 'm', '', (t, t), None)\n"
        "def loose():\n"
        "    from refold.core import Agent, Tool\n"
        "    return Agent('p', 'm', '', (Tool('t', '', {}, 'reads', None),), None)\n"
        "class Mute(Exception):\n"
        "    def __str__(self): raise KeyError\n"
        "def mute(): raise Mute\n"
        "class Panic(BaseException): pass\n"
        "def panics(): raise Panic('overflow')\n"
    )
    (tmp_path / "refold_broken.py").write_text("def x(:\n")
    (tmp_path / "refold_panics.py").write_text("raise BaseException('at import')\n")
    with pytest.raises(NoSuchAgent, match=said):
        load_agent(factory)


def test_a_factory_gives_its_agent() -> None:
    made = load_agent("tests.scripted_factory:make")
    assert made.effects() == {f"do_{effect}": effect for effect in EFFECTS}


def test_the_fingerprint_follows_what_the_agent_is() -> None:
    world = World()
    made = agent([], world)
    same = agent([Step()], World())
    assert made.fingerprint() == same.fingerprint()
    other = agent([], world, system="other")
    assert made.fingerprint().system_hash != other.fingerprint().system_hash
    schema: dict[str, Json] = {"required": ["a"]}
    first = Agent("p", "m", "", (Tool("t", "", schema, "read", _ok),), made.model)
    loose: Any = {"required": ("a",)}
    second = Agent("p", "m", "", [Tool("t", "", loose, "write", _ok)], made.model)
    assert first.fingerprint() == second.fingerprint()
