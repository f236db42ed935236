"""Runs the calls of a turn: in order, side by side where order cannot matter; each result is told at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from refold.core.agent import Tool, ToolResult
from refold.core.control import Control, settled
from refold.core.errors import StoreError, said
from refold.core.records import Json
from refold.core.resume import PlannedCall

Begun = Callable[[PlannedCall], None]
Answered = Callable[[PlannedCall, ToolResult], None]
"""Makes a result durable; called the instant it exists, with no other task in between."""


class Calls:
    """The tools of an agent, ready to be called."""

    def __init__(self, tools: Sequence[Tool], control: Control, begun: Begun, answered: Answered) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._control = control
        self._begun = begun
        self._answered = answered

    async def run(self, calls: Sequence[PlannedCall]) -> None:
        """Run calls in order; neighbours that only read, or are as good twice, run side by side.

        Raises:
            Aborted: the run was told to stop; calls without a result have none.
            StoreError: a result could not be made durable; calls that were still running are cancelled.
        """
        group: list[PlannedCall] = []
        for call in calls:
            if self._may_overlap(call):
                group.append(call)
                continue
            await self._together(group)
            await self._together([call])
            group = []
        await self._together(group)

    def _may_overlap(self, call: PlannedCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is None or tool.effect in {"read", "idempotent"}

    async def _together(self, calls: Sequence[PlannedCall]) -> None:
        if calls:
            await self._control.unless_aborted(self._group(calls))

    async def _group(self, calls: Sequence[PlannedCall]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    group.create_task(self._one(call))
        except* StoreError as failed:
            # The first one is why the others were cancelled, or found the journal closed.
            raise failed.exceptions[0] from None

    async def _one(self, call: PlannedCall) -> None:
        self._begun(call)
        self._answered(call, await self._result(call))

    async def _result(self, call: PlannedCall) -> ToolResult:
        tool = self._tools.get(call.name)
        if tool is None:
            return ToolResult(f"there is no tool {call.name!r}", is_error=True)
        if not isinstance(call.input, dict):
            return ToolResult("the input of a call must be an object", is_error=True)
        missing = missing_input(tool, call.input)
        if missing:
            return ToolResult(f"missing: {', '.join(missing)}", is_error=True)
        try:
            # A copy: what a tool does to its input must not change what the model asked for.
            result: object = await settled(tool.run(**own_copy(call.input)))
        except Exception as error:
            return ToolResult(said(error), is_error=True)
        if isinstance(result, str):
            return ToolResult(result)
        if isinstance(result, ToolResult) and isinstance(result.content, str):
            return result
        return ToolResult(f"{call.name} gave {type(result).__name__}, which is no text", is_error=True)


def missing_input(tool: Tool, given: dict[str, Json]) -> list[str]:
    """Give the names of the inputs that a tool requires and a call lacks."""
    required = tool.input_schema.get("required")
    names = required if isinstance(required, list | tuple) else ()
    return [name for name in names if isinstance(name, str) and name not in given]


def own_copy(given: dict[str, Json]) -> dict[str, Json]:
    """Give a copy of a JSON object that shares no object or list with it."""
    return {key: value if isinstance(value, str) else _copy(value) for key, value in given.items()}


def _copy(value: Json) -> Json:
    if isinstance(value, dict):
        return own_copy(value)
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value
