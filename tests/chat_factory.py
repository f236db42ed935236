"""An agent for tests that talks: it answers what the user said, and can be made to take its time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from refold.core.agent import Agent, Tool, Turn
from refold.core.records import Json

SLOW = Path("slow")
"""While this file lies in its directory, its tool takes a long time."""


async def model(messages: Sequence[Mapping[str, Json]], tools: Sequence[Tool]) -> Turn:
    """Call the tool where the user asks for work, else answer with what was said."""
    content = messages[-1].get("content")
    last = content[-1] if isinstance(content, list) else None
    said = str(last.get("text", "")) if isinstance(last, dict) else ""
    if "work" in said:
        call: Json = {"type": "tool_use", "id": f"c{len(messages)}", "name": "work", "input": {}}
        return Turn((call,), "tool_use")
    return Turn(({"type": "text", "text": f"heard: {said}"},))


async def work() -> str:
    """Do something, for as long as it takes."""
    while SLOW.exists():  # noqa: ASYNC110 - the file is the signal
        await asyncio.sleep(0.02)
    return "worked"


def agent() -> Agent:
    """Give the agent."""
    tool = Tool("work", "Works.", {"type": "object"}, "write", work)
    return Agent("test", "scripted", "You talk.", (tool,), model)
