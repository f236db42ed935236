"""An agent that does what a script says, a world that counts what was done, and the lives of its runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from refold.core.agent import Agent, Budgets, Tool, ToolResult, Turn, Usage
from refold.core.formats.journal import NATIVE
from refold.core.records import (
    AssistantRecord,
    Json,
    MetaRecord,
    Record,
    TerminalRecord,
    ToolResultRecord,
    UserRecord,
)
from refold.core.resume import Effect, ResumeRequest
from refold.core.runner import MemoryLog, Outcome, Runner
from refold.core.store.journal import JournalStore
from refold.core.store.resume import open_to_resume

ROOMY = Budgets()
EFFECTS: tuple[Effect, ...] = ("read", "idempotent", "write", "unknown")


class Step(NamedTuple):
    """One turn of the model: what it says, and the tools that it calls, by effect."""

    calls: tuple[Effect, ...] = ()
    stop: str = ""
    """Empty for tool_use or end_turn, as the calls have it."""
    tokens: int = 10
    text: str = "so be it"


@dataclass
class World:
    """What happened, over all lives of a run."""

    ran: Counter[str] = field(default_factory=Counter)
    """How often each call ran, by its id."""
    asked: Counter[int] = field(default_factory=Counter)
    """How often the model was asked for each turn."""
    seen: list[list[Mapping[str, Json]]] = field(default_factory=list)
    """The messages that it was given."""


def call_id(turn: int, number: int) -> str:
    return f"call-{turn}-{number}"


def turn_of(step: Step, index: int) -> Turn:
    content: list[Json] = [{"type": "text", "text": f"{step.text} {index}"}]
    for number, effect in enumerate(step.calls):
        given: Json = {"id": call_id(index, number), "deep": {"list": [1, 2.5, None]}}
        content.append(
            {"type": "tool_use", "id": call_id(index, number), "name": f"do_{effect}", "input": given}
        )
    stop = step.stop or ("tool_use" if step.calls else "end_turn")
    return Turn(content, stop, Usage(step.tokens, 1, 1, 1))


def agent(script: Sequence[Step], world: World, *, budgets: Budgets = ROOMY, system: str = "") -> Agent:
    """Give an agent that plays a script; where it stands the messages alone tell, as for a real model."""

    async def model(messages: Sequence[Mapping[str, Json]], tools: Sequence[Tool]) -> Turn:
        index = sum(message["role"] == "assistant" for message in messages)
        assert messages[-1]["role"] == "user" or script[index - 1].stop == "pause_turn"
        world.asked[index] += 1
        world.seen.append(list(messages))
        await asyncio.sleep(0)
        return turn_of(script[index], index)

    def tool(effect: Effect) -> Tool:
        async def run(id: str, deep: dict[str, Json]) -> str | ToolResult:  # noqa: A002
            world.ran[id] += 1
            deep["spoilt"] = True
            for _ in range(len(id) % 3):
                await asyncio.sleep(0)
            return ToolResult(f"no {id}", is_error=True) if id.endswith("2") else f"did {id}"

        schema: dict[str, Json] = {"type": "object", "required": ["id"], "properties": {"id": {}}}
        return Tool(f"do_{effect}", f"does something: {effect}", schema, effect, run)

    return Agent("scripted", "script-1", system, tuple(map(tool, EFFECTS)), model, budgets)


def kinds(records: Sequence[Record]) -> list[str]:
    """Give a word for each record; of a terminal one its reason."""
    names = {MetaRecord: "meta", AssistantRecord: "turn", UserRecord: "user", ToolResultRecord: "result"}
    return [names.get(type(r), r.reason if isinstance(r, TerminalRecord) else "?") for r in records]


def on_disk(store: JournalStore, run_id: str = "run") -> list[Record]:
    data = store.path_of(run_id).read_bytes()
    assert data.endswith(b"\n")
    decoder = NATIVE.decoder(data)
    return [decoder.record(line) for line in data[:-1].split(b"\n")]


def in_memory(made: Agent, **options: Any) -> tuple[Outcome, list[Record]]:
    log = MemoryLog()
    outcome = asyncio.run(Runner(made, log, **options).run("go"))
    return outcome, log.records


async def begin(store: JournalStore, made: Agent, *, interactive: bool = False, **options: Any) -> Outcome:
    with store.create("run", made.opening("go", interactive=interactive)) as journal:
        return await Runner(made, journal, **options).run("go", interactive=interactive)


async def resume(
    store: JournalStore, made: Agent, request: ResumeRequest | None = None, **options: Any
) -> Outcome:
    with open_to_resume(store, "run", made, request=request) as opened:
        return await Runner(made, opened.journal, **options).go_on(opened.records(), opened.plan)
