"""The durable loop: its order, what a call gives, how it stops, and how a conversation goes on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.scripted import (
    ROOMY,
    Step,
    World,
    agent,
    begin,
    call_id,
    in_memory,
    kinds,
    on_disk,
    resume,
)

from refold.core.agent import Agent, Budgets, Tool, Turn, Usage
from refold.core.control import Control
from refold.core.errors import RunExists
from refold.core.records import (
    Decision,
    Json,
    Record,
    TerminalRecord,
    ToolResultRecord,
)
from refold.core.resume import ResumeRefused, ResumeRequest
from refold.core.runner import MemoryLog, Outcome, Progress, Runner
from refold.core.store.journal import JournalStore


@pytest.fixture
def store(tmp_path: Path) -> JournalStore:
    return JournalStore(tmp_path / "runs")


def test_a_run_without_a_journal_lives_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    world = World()
    outcome, records = in_memory(agent([Step(("write", "read")), Step()], world))
    assert kinds(records) == ["meta", "turn", "result", "result", "turn", "completed"]
    assert (outcome.reason, outcome.text) == ("completed", "so be it 1")
    assert outcome.state.counters.llm_calls == 2
    assert outcome.state.counters.tokens == 26
    assert world.ran == Counter({call_id(0, 0): 1, call_id(0, 1): 1})
    assert list(tmp_path.iterdir()) == []


class Ordered:
    """A log that notes what was begun before which record was kept."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.seq = 0

    def append(self, record: Record) -> int:
        self.events.append(kinds([record])[0])
        self.seq += 1
        return self.seq


def test_nothing_runs_before_what_led_to_it_is_kept() -> None:
    log = Ordered()
    said = iter(["more", None])

    async def follow_up() -> str | None:
        log.events.append("asked")
        return next(said)

    async def model(messages: Sequence[Mapping[str, Json]], tools: Sequence[Tool]) -> Turn:
        log.events.append("model")
        calls: list[Json] = [
            {"type": "tool_use", "id": f"{len(messages)}{n}", "name": "t", "input": {}} for n in range(2)
        ]
        last = messages[-1]["content"]
        assert isinstance(last, list)
        return Turn([{"type": "text", "text": "x"}] if len(messages) % 4 == 3 else calls)

    async def run() -> str:
        log.events.append("tool")
        return "ok"

    made = Agent("p", "m", "", (Tool("t", "", {}, "write", run),), model)
    outcome = asyncio.run(Runner(made, log, follow_up=follow_up).run("go", interactive=True))
    assert outcome.reason == "suspended"
    one = ["model", "turn", "tool", "result", "tool", "result", "model", "turn", "asked"]
    assert log.events == ["meta", *one, "user", *one, "suspended"]


def test_reads_run_side_by_side_and_writes_alone_and_in_order() -> None:
    running: list[str] = []
    most: dict[str, int] = {}
    begun: list[str] = []

    def tool(name: str, effect: Literal["read", "idempotent", "write", "unknown"]) -> Tool:
        async def run(n: int) -> str:
            begun.append(f"{name}{n}")
            running.append(name)
            most[name] = max(most.get(name, 0), len(running))
            await asyncio.sleep(0.01 * (4 - n))
            running.remove(name)
            return f"{name}{n}"

        return Tool(name, "", {}, effect, run)

    async def model(messages: Sequence[Mapping[str, Json]], tools: Sequence[Tool]) -> Turn:
        if len(messages) > 1:
            return Turn([])
        names = ["r", "r", "i", "w", "w", "u", "r", "r"]
        return Turn(
            [
                {"type": "tool_use", "id": str(n), "name": name, "input": {"n": n % 3}}
                for n, name in enumerate(names)
            ]
        )

    tools = (tool("r", "read"), tool("i", "idempotent"), tool("w", "write"), tool("u", "unknown"))
    outcome, records = in_memory(Agent("p", "m", "", tools, model))
    assert most == {"r": 2, "i": 3, "w": 1, "u": 1}
    answered = [record.tool_use_id for record in records if isinstance(record, ToolResultRecord)]
    assert answered == ["2", "1", "0", "3", "4", "5", "7", "6"]
    assert outcome.reason == "completed"


def test_progress_tells_what_happens(store: JournalStore) -> None:
    told: list[Progress] = []
    made = agent([Step(("read", "read", "write")), Step()], World())
    asyncio.run(begin(store, made, watch=told.append))
    assert Counter(p.kind for p in told) == Counter(turn=2, call=3, result=3, end=1)
    results = {p.name: p for p in told if p.kind == "result"}
    assert results["do_write"].is_error
    assert results["do_read"].text.startswith("did call-0-")
    assert [p.seq for p in told if p.seq] == sorted(p.seq for p in told if p.seq)
    assert next(p for p in told if p.kind == "call").input == {
        "id": "call-0-0",
        "deep": {"list": [1, 2.5, None]},
    }


def test_neither_model_nor_tool_can_change_what_was_said() -> None:
    async def model(messages: Sequence[Mapping[str, Json]], tools: Sequence[Tool]) -> Turn:
        first = messages[0]["content"]
        assert isinstance(first, list)
        assert first == [{"text": "go", "type": "text"}]
        first.append({"type": "text", "text": "cached"})
        if len(messages) > 1:
            made = messages[1]["content"]
            assert made == [{"type": "tool_use", "id": "a", "name": "t", "input": {"x": [1]}}]
            return Turn([])
        return Turn([{"type": "tool_use", "id": "a", "name": "t", "input": {"x": [1]}}])

    async def run(x: list[int]) -> str:
        x.append(2)
        return "ok"

    outcome, _ = in_memory(Agent("p", "m", "", (Tool("t", "", {}, "read", run),), model))
    assert (outcome.reason, outcome.message) == ("completed", "")


async def _ok(**_: Json) -> str:
    return "ok"


async def _wrong(**_: Json) -> Any:
    return {"a": 1}


async def _raises(**_: Json) -> str:
    raise ValueError("no such file")


async def _mute(**_: Json) -> str:
    raise KeyError


async def _exits(**_: Json) -> str:
    raise SystemExit(3)


async def _gives_up(**_: Json) -> str:
    raise asyncio.CancelledError


def _not_async(**_: Json) -> Any:
    return "text"


class Panic(BaseException):
    """As extension modules raise it."""


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


async def _panics(**_: Json) -> str:
    raise Panic("index out of bounds")


async def _speechless(**_: Json) -> str:
    raise Speechless


@pytest.mark.parametrize(
    ("run", "given", "text", "is_error"),
    [
        (_ok, {}, "missing: path", True),
        (_ok, [1], "the input of a call must be an object", True),
        (_ok, {"path": 1}, "ok", False),
        (_wrong, {"path": 1}, "t gave dict, which is no text", True),
        (_raises, {"path": 1}, "ValueError: no such file", True),
        (_mute, {"path": 1}, "KeyError", True),
        (_exits, {"path": 1}, "Withdrawn: wanted the program to end (3)", True),
        (_gives_up, {"path": 1}, "Withdrawn: cancelled from within", True),
        (_not_async, {"path": 1}, "text", False),
        (_panics, {"path": 1}, "Withdrawn: Panic: index out of bounds", True),
        (_speechless, {"path": 1}, "Speechless, whose text fails with ValueError", True),
        (None, {"path": 1}, "there is no tool 't'", True),
    ],
)
def test_a_call_always_has_a_result(run: Any, given: Json, text: str, is_error: bool) -> None:
    async def model(messages: Sequence[Mapping[str, Json]], tools: Sequence[Tool]) -> Turn:
        call: Json = {"type": "tool_use", "id": "a", "name": "t", "input": given}
        return Turn([] if len(messages) > 1 else [call])

    schema: dict[str, Json] = {"type": "object", "required": [{}, "path", 7]}
    tools = () if run is None else (Tool("t", "", schema, "write", run),)
    outcome, records = in_memory(Agent("p", "m", "", tools, model))
    assert outcome.reason == "completed"
    (result,) = (record.result for record in records if isinstance(record, ToolResultRecord))
    assert isinstance(result, dict)
    assert (result["content"], result["is_error"]) == ([{"text": text, "type": "text"}], is_error)


def one_turn(turn: Any) -> Agent:
    async def model(messages: Sequence[Mapping[str, Json]], tools: Sequence[Tool]) -> Turn:
        if isinstance(turn, BaseException):
            raise turn
        made: Turn = turn
        return made

    return Agent("p", "m", "", (Tool("t", "", {}, "read", _ok),), model)


def use(call: str, given: Json = None) -> Json:
    return {"type": "tool_use", "id": call, "name": "t", "input": given}


DEEP: Json = []
for _ in range(300):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        (RuntimeError("529 overloaded"), "RuntimeError: 529 overloaded"),
        (SystemExit(1), "Withdrawn: wanted the program to end (1)"),
        (asyncio.CancelledError(), "Withdrawn: cancelled from within"),
        (Panic("overflow"), "Withdrawn: Panic: overflow"),
        (Speechless(), "Speechless, whose text fails with ValueError"),
        (None, "BadRecord: the model gave no Turn"),
        ({"content": []}, "BadRecord: the model gave no Turn"),
        (Turn([], usage=None), "BadRecord: the model gave no Turn"),  # type: ignore[arg-type]
        (Turn("so be it"), "BadRecord: the content of a turn is a list of blocks"),
        (Turn([{"type": "text", "text": "x"}, "y"]), "BadRecord: the content of a turn is a list of blocks"),
        (Turn({"type": "text"}), "BadRecord: the content of a turn is a list of blocks"),  # type: ignore[arg-type]
        (Turn([], usage=Usage(10, -5)), "BadRecord: its usage has out_tokens -5: tokens are a whole number"),
        (Turn([], usage=Usage(True)), "BadRecord: its usage has in_tokens True"),
        (Turn([], usage=Usage(1.5)), "BadRecord: its usage has in_tokens 1.5"),  # type: ignore[arg-type]
        (Turn([use("a"), use("a")]), "BadRecord: the calls of a turn need ids, each its own"),
        (Turn([use("")]), "BadRecord: the calls of a turn need ids, each its own"),
        (Turn([use("a", float("nan"))]), "BadRecord"),
        (Turn([use("a", DEEP)]), "BadRecord"),
        (Turn([{"type": "text", "text": object()}]), ""),  # type: ignore[dict-item]
    ],
)
def test_a_model_that_fails_ends_the_run_and_can_be_asked_again(
    turn: Any, said: str, store: JournalStore
) -> None:
    outcome = asyncio.run(begin(store, one_turn(turn)))
    assert outcome.reason == "error"
    assert outcome.message.startswith("llm call: " + said)
    assert kinds(on_disk(store)) == ["meta", "error"]
    assert asyncio.run(resume(store, one_turn(Turn([])))).reason == "completed"
    assert kinds(on_disk(store)) == ["meta", "error", "turn", "completed"]


def test_text_that_is_no_unicode_is_what_a_reader_would_see() -> None:
    outcome, _ = in_memory(one_turn(Turn([{"type": "text", "text": "a\ud800b"}])))
    assert outcome.text == "a\ufffdb"


@pytest.mark.parametrize(
    ("script", "budgets", "reason", "message"),
    [
        ([Step(stop="refusal")], ROOMY, "error", "the model refused"),
        ([Step(("read",), "refusal")], ROOMY, "error", "the model refused"),
        ([Step(("read",), "max_tokens")], ROOMY, "error", "the reply was cut off"),
        ([Step(("read",), tokens=50)], Budgets(53, 5), "budget", "53 of 53 tokens used"),
        ([Step(("read",))] * 3, Budgets(0, 2), "max_iterations", "2 turns"),
    ],
)
def test_a_stop_withholds_its_calls(
    script: list[Step], budgets: Budgets, reason: str, message: str, store: JournalStore
) -> None:
    world = World()
    outcome = asyncio.run(begin(store, agent(script, world, budgets=budgets)))
    assert outcome.reason == reason
    assert outcome.message.startswith(message)
    withheld = outcome.state.pending is not None
    assert withheld == bool(script[0].calls and reason != "max_iterations")
    with pytest.raises(ResumeRefused) as refused:
        asyncio.run(resume(store, agent(script, world, budgets=budgets)))
    codes = {r.code for r in refused.value.plan.reasons}
    assert codes == {"withheld"} if withheld else codes <= {"ended", "max_iterations"}
    assert sum(world.ran.values()) == (2 if reason == "max_iterations" else 0)


def test_a_withheld_call_runs_when_told_to(store: JournalStore) -> None:
    world = World()
    script = [Step(("read", "write", "write"), "max_tokens"), Step()]
    made = agent(script, world)
    asyncio.run(begin(store, made))
    decisions = {
        call_id(0, 0): Decision("rerun"),
        call_id(0, 1): Decision("failed"),
        call_id(0, 2): Decision("done", "it is there"),
    }
    outcome = asyncio.run(resume(store, made, ResumeRequest(decisions=decisions)))
    assert outcome.reason == "completed"
    assert world.ran == Counter({call_id(0, 0): 1})
    records = on_disk(store)
    assert kinds(records) == ["meta", "turn", "error", "result", "result", "result", "turn", "completed"]
    found = [(r.tool_use_id, r.decision, r.resumed) for r in records if isinstance(r, ToolResultRecord)]
    order = [call_id(0, number) for number in (1, 2, 0)]
    assert [(call, decision) for call, decision, _ in found] == [(call, decisions[call]) for call in order]
    assert [r is not None for _, _, r in found] == [True, False, False]
    texts = [r.result["content"][0]["text"] for r in records if isinstance(r, ToolResultRecord)]  # type: ignore[index,call-overload]
    assert texts == ["outcome unknown: recorded as failed", "it is there", "did call-0-0"]


def test_a_paused_turn_goes_on(store: JournalStore) -> None:
    world = World()
    outcome = asyncio.run(begin(store, agent([Step(stop="pause_turn"), Step()], world)))
    assert (outcome.reason, world.asked) == ("completed", Counter({0: 1, 1: 1}))


def test_a_done_task_whose_end_was_not_recorded_needs_no_model(store: JournalStore) -> None:
    world = World()
    made = agent([Step()], world)
    asyncio.run(begin(store, made))
    path = store.path_of("run")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    outcome = asyncio.run(resume(store, made))
    assert (outcome.reason, world.asked) == ("completed", Counter({0: 1}))
    last = on_disk(store)[-1]
    assert isinstance(last, TerminalRecord)
    assert last.resumed is not None


def test_a_completed_run_is_not_resumed_and_an_id_is_begun_once(store: JournalStore) -> None:
    made = agent([Step()], World())
    asyncio.run(begin(store, made))
    before = store.path_of("run").read_bytes()
    with pytest.raises(ResumeRefused, match="completed"):
        asyncio.run(resume(store, made))
    with pytest.raises(RunExists):
        asyncio.run(begin(store, made))
    assert store.path_of("run").read_bytes() == before


def test_only_an_accepted_plan_is_carried_out(store: JournalStore) -> None:
    made = agent([Step(("write",)), Step()], World())
    asyncio.run(begin(store, made))
    with pytest.raises(ResumeRefused) as refused:
        asyncio.run(resume(store, made))
    with pytest.raises(ResumeRefused):
        asyncio.run(Runner(made).go_on([], refused.value.plan))


async def _never() -> str | None:
    await asyncio.sleep(3600)
    return "too late"


def answers(*texts: str | None) -> Any:
    rest = iter(texts)

    async def follow_up() -> str | None:
        return next(rest)

    return follow_up


def test_a_conversation_ends_where_the_user_speaks_and_reopens_there(store: JournalStore) -> None:
    world = World()
    made = agent([Step(), Step(("read",)), Step(), Step()], world, budgets=Budgets(0, 2))
    assert asyncio.run(begin(store, made, interactive=True)).reason == "suspended"
    assert asyncio.run(resume(store, made)).reason == "suspended"
    assert world.asked == Counter({0: 1})
    outcome = asyncio.run(resume(store, made, follow_up=answers("and then?", "more", None)))
    assert outcome.reason == "suspended"
    assert world.asked == Counter({0: 1, 1: 1, 2: 1, 3: 1})
    assert kinds(on_disk(store)) == [
        *("meta", "turn", "suspended", "suspended"),
        *("user", "turn", "result", "turn", "user", "turn", "suspended"),
    ]
    assert outcome.state.interactive


def test_many_follow_ups_do_not_nest(store: JournalStore) -> None:
    turns = 250
    made = agent([Step()] * (turns + 1), World(), budgets=Budgets(0, 5))
    outcome, _ = asyncio.run(_talk(made, turns))
    assert outcome.state.counters.llm_calls == turns + 1


async def _talk(made: Agent, turns: int) -> tuple[Outcome, MemoryLog]:
    log = MemoryLog()
    said = answers(*["x"] * turns, None)
    return await Runner(made, log, follow_up=said).run("go", interactive=True), log


@pytest.mark.parametrize("times", [1, 2])
def test_a_stop_at_the_input_suspends_at_once(times: int, store: JournalStore) -> None:
    async def scene() -> Outcome:
        control, asked = Control(), asyncio.Event()

        async def follow_up() -> str | None:
            asked.set()
            return await _never()

        task = asyncio.create_task(
            begin(store, agent([Step()], World()), interactive=True, control=control, follow_up=follow_up)
        )
        await asyncio.wait_for(asked.wait(), 5)
        for _ in range(times):
            control.stop()
        return await asyncio.wait_for(task, 5)

    assert asyncio.run(scene()).reason == "suspended"


def test_what_was_typed_before_a_stop_is_kept(store: JournalStore) -> None:
    control = Control()

    async def follow_up() -> str | None:
        control.stop()
        return "typed"

    world = World()
    made = agent([Step(), Step()], world)
    outcome = asyncio.run(begin(store, made, interactive=True, control=control, follow_up=follow_up))
    assert outcome.reason == "suspended"
    assert kinds(on_disk(store)) == ["meta", "turn", "user", "suspended"]
    asyncio.run(resume(store, made))
    assert world.asked == Counter({0: 1, 1: 1})


def test_a_question_that_fails_while_it_stops_is_a_stop(store: JournalStore) -> None:
    async def scene() -> Outcome:
        control, asked = Control(), asyncio.Event()

        async def follow_up() -> str | None:
            asked.set()
            try:
                return await _never()
            finally:
                raise OSError("the terminal is gone")

        task = asyncio.create_task(
            begin(store, agent([Step()], World()), interactive=True, control=control, follow_up=follow_up)
        )
        await asyncio.wait_for(asked.wait(), 5)
        control.stop()
        return await task

    assert asyncio.run(scene()).reason == "suspended"


def test_refused_or_cut_off_conversations_reopen(store: JournalStore) -> None:
    world = World()
    made = agent([Step(stop="refusal"), Step()], world)
    assert asyncio.run(begin(store, made, interactive=True)).reason == "error"
    assert asyncio.run(resume(store, made, follow_up=answers("please", None))).reason == "suspended"
    assert world.asked == Counter({0: 1, 1: 1})
