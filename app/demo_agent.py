"""The agent of the demo: its model follows a script, its tools work on real files of a scratch directory."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from refold.core.agent import Agent, Budgets, Model, Tool, ToolResult, Turn, Usage
from refold.core.blocks import result_is_error, result_text
from refold.core.records import Json

FACTORY: Final = "refold.app.demo_agent:agent"
PROMPT: Final = "parse() rejects ISO dates like 2026-07-24. Make it accept both forms, then run the tests."
PARSER: Final = "dates/parser.py"
TESTS: Final = "tests/test_dates.py"
PACE: Final = 0.6
"""Seconds that the model takes for a turn, so that it can be watched."""

_BEFORE: Final = """\
    day, month, year = text.split("/")
    return date(int(year), int(month), int(day))
"""
_AFTER: Final = """\
    if "-" in text:
        return date.fromisoformat(text)
    day, month, year = text.split("/")
    return date(int(year), int(month), int(day))
"""
_FILES: Final = {
    PARSER: f"from datetime import date\n\n\ndef parse(text: str) -> date:\n{_BEFORE}",
    TESTS: """\
import unittest
from datetime import date

from dates.parser import parse


class Dates(unittest.TestCase):
    def test_slashes(self):
        self.assertEqual(parse("24/07/2026"), date(2026, 7, 24))

    def test_iso(self):
        self.assertEqual(parse("2026-07-24"), date(2026, 7, 24))
""",
}
_MADE: Final = "fromisoformat"
"""What stands in the parser once it was edited."""
_SYSTEM: Final = "You work in a repository. Read before you write, and say what you changed."
_PATH: Final[Mapping[str, Json]] = {"type": "object", "properties": {"path": {"type": "string"}}}


def furnish(directory: Path) -> None:
    """Put the files that the agent works on into a directory."""
    for name, text in _FILES.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def agent(*, pace: float = PACE) -> Agent:
    """Give the agent; its tools reach no further than the directory that it is started in."""
    return Agent(
        provider="refold-demo",
        model_name="scripted",
        system=_SYSTEM,
        tools=(
            Tool("read_file", "Read a file.", {**_PATH, "required": ["path"]}, "read", read_file),
            Tool("run_tests", "Run the tests of a file.", {**_PATH, "required": ["path"]}, "read", run_tests),
            Tool(
                "replace_text",
                "Replace a text that stands in a file once.",
                {
                    "type": "object",
                    "properties": {name: {"type": "string"} for name in ("path", "old", "new")},
                    "required": ["path", "old", "new"],
                },
                "write",
                replace_text,
            ),
        ),
        model=_model(pace),
        budgets=Budgets(max_tokens=200_000, max_iterations=20),
    )


async def read_file(path: str) -> str | ToolResult:
    """Give the text of a file."""
    return _inside(path).read_text()


async def replace_text(path: str, old: str, new: str) -> str | ToolResult:
    """Replace a text that stands in a file exactly once."""
    file = _inside(path)
    text = file.read_text()
    if text.count(old) != 1:
        return ToolResult(f"the text stands in {path} {text.count(old)} times, not once", is_error=True)
    file.write_text(text.replace(old, new))
    return "1 place changed"


async def run_tests(path: str) -> str | ToolResult:
    """Run the tests of a file in a process of their own, and say in a line or two how they went."""
    _inside(path)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-B", "-m", "unittest", path),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said = (await process.communicate())[0].decode(errors="replace")
    ran = re.search("Ran ([0-9]+) tests?", said)
    count = ran[1] if ran else "no"
    if process.returncode == 0:
        return f"{count} tests passed"
    failed = [line for line in said.split("\n") if line.startswith(("ERROR: ", "FAIL: "))]
    errors = [line for line in said.split("\n") if re.match("[A-Za-z]+Error", line)]
    told = "\n".join([*failed, *errors[-1:]])
    return ToolResult(f"{count} tests, {len(failed)} failed\n{told}", is_error=True)


def _inside(name: str) -> Path:
    """Give the path of a file in the directory that the agent works in.

    Raises:
        ValueError: it lies elsewhere.
    """
    here = Path.cwd().resolve()
    path = (here / name).resolve()
    if not path.is_relative_to(here):
        raise ValueError(f"{name} lies outside of the directory")
    return path


class _Done(NamedTuple):
    """A call that has its result."""

    name: str
    path: str
    result: str
    failed: bool


def _model(pace: float) -> Model:
    async def model(messages: Sequence[Mapping[str, Json]], tools: Sequence[Tool]) -> Turn:
        await asyncio.sleep(pace)
        content, read = _next(_history(messages)), sum(len(str(message)) for message in messages) // 4
        stop = "tool_use" if any(_is_call(block) for block in content) else "end_turn"
        return Turn(content, stop, Usage(in_tokens=900 + read, out_tokens=40 + len(str(content)) // 4))

    return model


def _is_call(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_use"


def _next(done: Sequence[_Done]) -> list[Json]:
    """Give what the model says next; it looks at nothing but what came of its calls."""
    if not done:
        return [
            {
                "type": "thinking",
                "thinking": "Two files matter. Reading both before I touch either is cheaper than guessing.",
                "signature": "scripted",
            },
            _text("I will read the parser and its tests first."),
            _call(done, "read_file", path=PARSER),
            _call(done, "read_file", 1, path=TESTS),
        ]
    last = done[-1]
    if last.name == "run_tests" and not last.failed:
        return [_text("parse() accepts both forms now; all tests pass.")]
    if last.name == "replace_text" and last.failed:
        said = "That edit cannot be relied on: I look at the file before I do anything else."
        return [_text(said), _call(done, "read_file", path=PARSER)]
    tried = any(each.name == "run_tests" for each in done)
    if last.name == "read_file" and not tried:
        return [_text("The tests should fail in one place only."), _call(done, "run_tests", path=TESTS)]
    if last.name == "replace_text" or (last.name == "read_file" and _MADE in last.result):
        said = "The file holds the edit. Now the tests." if last.name == "read_file" else "Now the tests."
        return [_text(said), _call(done, "run_tests", path=TESTS)]
    edit = _call(done, "replace_text", path=PARSER, old=_BEFORE, new=_AFTER)
    return [_text("As expected. I replace the body of parse()."), edit]


def _text(said: str) -> Json:
    return {"type": "text", "text": said}


def _call(done: Sequence[_Done], name: str, number: int = 0, **given: Json) -> Json:
    return {"type": "tool_use", "id": f"toolu_{len(done) + number + 1:02}", "name": name, "input": given}


def _history(messages: Sequence[Mapping[str, Json]]) -> list[_Done]:
    """Give the calls so far with their results, in the order of the results."""
    calls: dict[str, tuple[str, str]] = {}
    done: list[_Done] = []
    for message in messages:
        content = message.get("content")
        for block in content if isinstance(content, list) else []:
            if not isinstance(block, dict):
                continue
            if block.get("type") == "tool_use":
                given = block.get("input")
                path = given.get("path") if isinstance(given, dict) else ""
                calls[str(block.get("id"))] = (str(block.get("name")), str(path))
            elif block.get("type") == "tool_result":
                name, path = calls.get(str(block.get("tool_use_id")), ("", ""))
                done.append(_Done(name, path, result_text(block), result_is_error(block)))
    return done
