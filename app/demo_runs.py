"""The runs of the demo: one for each way in which a run can stand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import NoReturn

import msgspec

from refold.app.demo_agent import PROMPT, agent, replace_text
from refold.app.demo_story import Call, Story, age
from refold.core.agent import ToolResult
from refold.core.runner import Runner
from refold.core.store.fork import carry_out, plan_at
from refold.core.store.journal import JournalStore
from refold.core.store.reader import RunReader

LIVE = "billing-sweep"
KILLED = "fix-date-parser"
FORK_AT = 6
WITH_AGENT = (KILLED, f"{KILLED}-again")
"""The runs that the demo's agent goes on with."""

_PACES = (0.0, 0.0, 3.2, 0.4, 0.4, 3.2, 2.6, 3.2)
"""Seconds before each record of the killed run."""


def killed(store: Path, now: datetime, stuck: Callable[[datetime], NoReturn]) -> None:
    """Let the demo's agent work until an edit is made but not recorded; whoever runs this is killed there.

    Args:
        store: the directory of the run.
        now: when the demo is looked at.
        stuck: called once nothing more will be recorded, with the time of the last record; must not return.
    """
    moment = now - timedelta(hours=1, minutes=4)
    paces = iter(_PACES)

    def clock() -> datetime:
        nonlocal moment
        moment += timedelta(seconds=next(paces, 0.0))
        return moment

    async def edit(**given: str) -> ToolResult:
        await replace_text(**given)
        stuck(moment)

    made = agent(pace=0)
    tools = [
        msgspec.structs.replace(tool, run=edit) if tool.effect == "write" else tool for tool in made.tools
    ]
    made = msgspec.structs.replace(made, tools=tools)
    with JournalStore(store, clock=clock).create(KILLED, made.opening(PROMPT)) as journal:
        asyncio.run(Runner(made, journal).run(PROMPT))


def fork(store: Path, now: datetime) -> Path:
    """A fork of the killed run from before the trouble, with nothing appended yet."""
    made = now - timedelta(minutes=38)
    with RunReader.open(JournalStore(store).path_of(KILLED)) as reader:
        item = reader.index_all().item_at(FORK_AT)
        plan = plan_at(
            reader,
            item or 0,
            child=f"{KILLED}-again",
            reason="go on before the edit whose outcome is unknown",
        )
    path = carry_out(plan, now=lambda: made).path
    age(path, made)
    return path


def suspended(store: Path, now: datetime) -> Path:
    """A chat that was left at its prompt."""
    story = Story(store, "summarise-tickets", now - timedelta(minutes=16))
    story.begin(
        "Summarise the open tickets of the last week.",
        model="sonnet-5",
        tools=("search_tickets", "read_ticket"),
        interactive=True,
    )
    found = "T-1182  export hangs on large files\nT-1187  links unreadable\nT-1190  wrong total after refund"
    story.turn(
        "Let me look for them.", Call("search_tickets", {"query": "is:open", "days": 7}, found, seconds=1.1)
    )
    story.turn(
        "I read the three that are open.",
        Call(
            "read_ticket", {"id": "T-1182"}, "Exporting more than 2 GB never ends; no message.", seconds=0.7
        ),
        Call("read_ticket", {"id": "T-1187"}, "Links have the colour of the background.", seconds=0.6),
        Call("read_ticket", {"id": "T-1190"}, "no permission to read T-1190", error=True, seconds=0.3),
    )
    story.turn("Three tickets are open: a hang on export, an unreadable colour, and one that I may not read.")
    story.ask("Which of them would you fix first?")
    story.turn("The hang on export: it loses work and gives no message. The colour is a one-line change.")
    return story.end("suspended").close()


def completed(store: Path, now: datetime) -> Path:
    """A longer run that reached its end: many files, some errors on the way, one compact summary."""
    story = Story(store, "refactor-imports", now - timedelta(days=1, hours=2))
    story.begin("Replace all relative imports by absolute ones; keep the tests green.", max_iterations=80)
    packages = ("billing", "calendar", "export", "ledger", "mail", "search", "tax")
    listing = "\n".join(
        f"{package}/__init__.py\n{package}/model.py\n{package}/views.py" for package in packages
    )
    story.turn("First an overview.", Call("list_files", {"path": "."}, listing))
    for number, package in enumerate(packages):
        path = f"{package}/views.py"
        story.turn(
            f"Next: {path}.",
            Call(
                "read_file", {"path": path}, f"from .model import {package.title()}\nfrom ..core import log\n"
            ),
            Call(
                "replace_text",
                {"path": path, "old": "from .model", "new": f"from app.{package}.model"},
                "1 place changed",
            ),
            Call(
                "replace_text",
                {"path": path, "old": "from ..core", "new": "from app.core"},
                "1 place changed",
            ),
            seconds=2.0 + number % 3,
        )
        broken = number in (2, 5)
        said = (
            f"E   ImportError: cannot import name 'log' from 'app.core' ({package})"
            if broken
            else "58 passed in 1.4s"
        )
        story.turn(
            f"Now the tests of {package}.",
            Call("run_tests", {"path": f"tests/{package}"}, said, error=broken, seconds=3.1 + number / 2),
        )
        if broken:
            story.turn(
                "The name moved: it is in app.core.logging now.",
                Call(
                    "replace_text",
                    {"path": path, "old": "app.core import log", "new": "app.core.logging import log"},
                    "1 place changed",
                ),
                Call("run_tests", {"path": f"tests/{package}"}, "58 passed in 1.4s", seconds=3.0),
                thinking="The traceback names the module, so the import is wrong and not the code behind it.",
            )
    story.turn(
        "All relative imports are gone; the tests pass. Two packages take `log` from app.core.logging now."
    )
    return story.end("completed").close()


def failed(store: Path, now: datetime) -> Path:
    """The model could not be reached."""
    story = Story(store, "migrate-schema", now - timedelta(hours=5))
    story.begin(
        "Write the migration that splits customer.name into two columns.", tools=("read_file", "write_file")
    )
    story.turn(
        "I read the current schema.",
        Call("read_file", {"path": "schema.sql"}, "create table customer (id int, name text);"),
    )
    return story.end("error", "llm call: 529 Overloaded").close()


def budget(store: Path, now: datetime) -> Path:
    """The token budget was used up before the last calls were allowed to run."""
    story = Story(store, "crawl-docs", now - timedelta(hours=9))
    story.begin(
        "Collect every page that mentions the old endpoint.",
        model="sonnet-5",
        tools=("fetch",),
        max_tokens=20_000,
    )
    for page in range(1, 6):
        story.turn(
            "",
            Call(
                "fetch",
                {"url": f"https://docs.example/page/{page}"},
                "<p>…the old endpoint…</p>\n" * 40,
                seconds=0.8,
            ),
        )
    story.turn("Two more pages are left.", Call("fetch", {"url": "https://docs.example/page/6"}, None))
    return story.end("budget").close()


def out_of_turns(store: Path, now: datetime) -> Path:
    """The limit of iterations was reached."""
    story = Story(store, "flaky-test-hunt", now - timedelta(days=2, hours=3))
    story.begin("Find out why test_upload fails once in a while.", tools=("run_tests",), max_iterations=6)
    for attempt in range(1, 7):
        story.turn(
            f"Attempt {attempt}.",
            Call(
                "run_tests", {"path": "tests/test_upload.py", "count": 20}, "20 passed in 11.2s", seconds=11.3
            ),
        )
    return story.end("max_iterations").close()


def cancelled(store: Path, now: datetime) -> Path:
    """The user pressed the key that ends it."""
    story = Story(store, "translate-strings", now - timedelta(days=3))
    story.begin(
        "Translate the messages to German. 翻訳は要りません。",
        model="haiku-4-5",
        tools=("read_file", "write_file"),
    )
    story.turn(
        "Ich lese zuerst die Quelle.",
        Call("read_file", {"path": "messages.toml"}, 'hello = "Hello"\nbye = "Good bye"\n'),
    )
    return story.end("cancelled").close()


def torn(store: Path, now: datetime) -> Path:
    """The machine went down while a record was being written: the last line is half a record."""
    story = Story(store, "index-photos", now - timedelta(days=4))
    story.begin("Tag the photos of 2025 by place.", model="haiku-4-5", tools=("list_files", "tag"))
    story.turn("", Call("list_files", {"path": "2025"}, "0001.jpg\n0002.jpg\n0003.jpg"))
    story.turn(
        "",
        Call("tag", {"path": "2025/0001.jpg", "place": "harbour"}, "ok"),
        Call("tag", {"path": "2025/0002.jpg", "place": "old town"}, "ok"),
    )
    path = story.close()
    data = path.read_bytes()
    path.write_bytes(data[: data.rfind(b"\n", 0, -1) + 1 + 70])
    age(path, story.now)
    return path


def damaged(store: Path, now: datetime) -> Path:
    """A completed run; one of its lines was overwritten long after."""
    story = Story(store, "rename-notes", now - timedelta(days=6))
    story.begin("Rename the notes by date and first words.", tools=("list_files", "rename"))
    story.turn("", Call("list_files", {"path": "notes"}, "a.txt\nb.txt\nc.txt"))
    for name, to in (("a", "2026-03-02 rent"), ("b", "2026-03-09 dentist"), ("c", "2026-04-01 books")):
        story.turn("", Call("rename", {"from": f"{name}.txt", "to": f"{to}.txt"}, "renamed"))
    story.turn("The three notes are renamed.")
    path = story.end("completed").close()
    lines = path.read_bytes().split(b"\n")
    lines[6] = lines[6][:60] + b"\0" * 48 + lines[6][108:]
    path.write_bytes(b"\n".join(lines))
    age(path, story.now)
    return path


def newer(store: Path, now: datetime) -> Path:
    """Written by a version that is not out yet."""
    story = Story(store, "from-a-newer-version", now - timedelta(days=8))
    story.begin("Turn the release notes into a page.", model="opus-5")
    path = story.turn("The page is written.").end("completed").close()
    path.write_bytes(path.read_bytes().replace(b'"version":2', b'"version":7', 1))
    age(path, story.now)
    return path


def empty(store: Path, now: datetime) -> Path:
    """The writer died before its first record."""
    return _bytes(store, "never-began", b"", now - timedelta(days=9))


def unreadable(store: Path, now: datetime) -> Path:
    """Something that is no journal has the name of one."""
    return _bytes(
        store, "not-a-journal", b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\x4a\xe1\n" * 3, now - timedelta(days=11)
    )


def foreign_completed(store: Path, now: datetime) -> Path:
    """A run of fisk-ai, in its newest version."""
    story = Story(store, "3MqGT45w9QhVAxv4SGKRdE66WHD", now - timedelta(hours=7), foreign=True)
    story.begin("summarise the PAYMENTS stream", tools=("stream_info", "consumer_list"))
    story.turn(
        "Checking the stream.",
        Call(
            "stream_info",
            {"name": "PAYMENTS"},
            '{"command":"nats stream info","exit_code":0,"output":"messages: 1,204,551\\nconsumers: 3"}',
            seconds=0.9,
        ),
    )
    story.turn(
        "And its consumers.",
        Call(
            "consumer_list",
            {"stream": "PAYMENTS"},
            '{"command":"nats consumer ls","exit_code":0,"output":"audit\\nledger\\nmail"}',
            seconds=0.8,
        ),
    )
    story.turn("PAYMENTS holds 1.2 million messages; three consumers read it and none of them lags.")
    return story.end("completed").close()


def foreign_resumed(store: Path, now: datetime) -> Path:
    """A run of fisk-ai that was suspended, resumed and then crashed."""
    story = Story(store, "nightly-audit", now - timedelta(hours=30), foreign=True)
    story.begin("audit the access log of last night", model="sonnet-5", tools=("read_log",))
    story.turn(
        "I begin with the first half.",
        Call("read_log", {"from": "00:00", "to": "03:00"}, "18,220 lines, nothing unusual", seconds=2.2),
    )
    story.end("suspended")
    story.turn(
        "Going on with the second half.",
        Call("read_log", {"from": "03:00", "to": "06:00"}, None),
        seconds=3600,
    )
    return story.close()


STORIES = (
    fork,
    suspended,
    completed,
    failed,
    budget,
    out_of_turns,
    cancelled,
    torn,
    damaged,
    newer,
    empty,
    unreadable,
)
"""What this program writes itself; the killed run comes first, for the fork is taken from it."""

FOREIGN = (foreign_completed, foreign_resumed)


def _bytes(store: Path, run_id: str, data: bytes, moment: datetime) -> Path:
    path = JournalStore(store).path_of(run_id)
    path.touch(mode=0o600)
    path.write_bytes(data)
    age(path, moment)
    return path
