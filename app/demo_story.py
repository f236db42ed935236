"""Writes a believable run through the real journal: what was said, what was called, what came of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Self

from refold.core.fingerprint import system_hash, tools_hash
from refold.core.formats.journal import FISK_AI, NATIVE
from refold.core.records import (
    AssistantRecord,
    Fingerprint,
    ForkOrigin,
    Json,
    Message,
    MetaRecord,
    TerminalRecord,
    ToolResultRecord,
    UserRecord,
)
from refold.core.store.journal import Journal, JournalStore

_SYSTEM = ("You work in a repository. Read before you write, and say what you changed.",)


class Call(NamedTuple):
    """A call of a tool, and what comes of it."""

    name: str
    input: Mapping[str, Json]
    result: str | None = ""
    """None where no result was ever recorded."""
    error: bool = False
    seconds: float = 0.4


class Story:
    """One run being written. Its clock goes on with each record, so that recorded times look like work."""

    def __init__(self, store: Path, run_id: str, began: datetime, *, foreign: bool = False) -> None:
        """Prepare a run.

        Args:
            store: the directory of the run.
            run_id: its id.
            began: the time of its first record.
            foreign: write it in the format of fisk-ai, as its version 3 does.
        """
        self.now = began
        self.live = False
        """True where the clock is the system's."""
        self._foreign = foreign
        self._store = JournalStore(store, FISK_AI if foreign else NATIVE, clock=lambda: self.now)
        self._run_id = run_id
        self._journal: Journal | None = None
        self._iteration = 0
        self._read = 1800
        self._calls = 0

    @property
    def journal(self) -> Journal:
        """The journal, once the run has begun."""
        if self._journal is None:
            raise ValueError("the run has not begun")
        return self._journal

    def begin(
        self,
        prompt: str,
        *,
        model: str = "opus-4-8",
        tools: tuple[str, ...] = ("list_files", "read_file", "replace_text", "run_tests"),
        max_tokens: int = 200_000,
        max_iterations: int = 50,
        interactive: bool = False,
        forked_from: ForkOrigin | None = None,
        created: datetime | None = None,
    ) -> Self:
        """Write the meta record."""
        definitions: list[dict[str, Json]] = [
            {"Name": name, "Description": name.replace("_", " "), "InputSchema": None, "DeferLoading": False}
            for name in tools
        ]
        meta = MetaRecord(
            version=3 if self._foreign else 2,
            created=(created or self.now).isoformat().replace("+00:00", "Z"),
            fingerprint=Fingerprint(
                model=model,
                system_hash=system_hash(_SYSTEM),
                tools_hash=tools_hash(definitions),
                thinking_mode="summarized",
                max_tokens=max_tokens,
                max_iterations=max_iterations,
                provider="anthropic",
            ),
            prompt=prompt,
            interactive=interactive,
            forked_from=forked_from,
        )
        self._journal = self._store.create(self._run_id, meta)
        return self

    def turn(self, text: str, *calls: Call, seconds: float = 3.2, thinking: str = "") -> Self:
        """Write one reply of the model, then the results of its calls up to the first that has none."""
        for _ in self.steps(text, *calls, seconds=seconds, thinking=thinking):
            pass
        return self

    def steps(self, text: str, *calls: Call, seconds: float = 3.2, thinking: str = "") -> Iterator[None]:
        """Write a turn record by record; each `next` writes one."""
        self._pass(seconds)
        made = [(self._call_id(), call) for call in calls]
        blocks: list[Json] = [self._thinking(thinking)] if thinking else []
        if text:
            blocks.append(self._text(text))
        blocks += [self._tool_use(call_id, call) for call_id, call in made]
        out = 12 + len(text) // 3 + 40 * len(calls) + len(thinking) // 3
        cached = self._read if self._iteration else 0
        self.journal.append(
            AssistantRecord(
                message=Message("assistant", tuple(blocks)),
                iteration=self._iteration,
                stop_reason="tool_use" if calls else "end_turn",
                in_tokens=180 if cached else self._read,
                out_tokens=out,
                cache_read_tokens=cached,
            )
        )
        self._iteration += 1
        self._read += out + 180
        yield
        for call_id, call in made:
            if call.result is None:
                return
            self._pass(call.seconds)
            self._answer(call_id, call.result, error=call.error)
            yield

    def _answer(self, call_id: str, text: str, *, error: bool) -> None:
        inner: dict[str, Json]
        if self._foreign:
            inner = {"tool_use_id": call_id, "content": text, **({"is_error": True} if error else {})}
        else:
            content: list[Json] = [{"type": "text", "text": text}]
            inner = {"type": "tool_result", "tool_use_id": call_id, "is_error": error, "content": content}
        self._read += len(text) // 3
        self.journal.append(ToolResultRecord(tool_use_id=call_id, result=inner))

    def ask(self, text: str, *, seconds: float = 40) -> Self:
        """Write a follow-up of the user."""
        self._pass(seconds)
        self.journal.append(UserRecord(message=Message("user", (self._text(text),))))
        return self

    def end(self, reason: str, message: str = "") -> Self:
        """Write the terminal record."""
        self._pass(0.1)
        self.journal.append(TerminalRecord(reason=reason, message=message))
        return self

    def close(self) -> Path:
        """Give the run up, and let its file be as old as its last record; give its path."""
        path = self.journal.path
        self.journal.close()
        age(path, self.now)
        return path

    def _pass(self, seconds: float) -> None:
        self.now = datetime.now(UTC) if self.live else self.now + timedelta(seconds=seconds)

    def _call_id(self) -> str:
        self._calls += 1
        return f"toolu_{self._calls:02}{self._iteration:02X}"

    def _text(self, text: str) -> Json:
        return {"text": {"text": text}} if self._foreign else {"type": "text", "text": text}

    def _thinking(self, text: str) -> Json:
        if self._foreign:
            return {"thinking": {"text": text, "signature": "RXFRQkNrWUk9"}}
        return {"type": "thinking", "thinking": text, "signature": "EqQBCkYI"}

    def _tool_use(self, call_id: str, call: Call) -> Json:
        inner: dict[str, Json] = {"id": call_id, "name": call.name, "input": dict(call.input)}
        return {"tool_use": inner} if self._foreign else {"type": "tool_use", **inner}


def age(path: Path, moment: datetime) -> None:
    """Give a file the modification time of a moment."""
    seconds = moment.timestamp()
    os.utime(path, (seconds, seconds))
