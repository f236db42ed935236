"""A small directory of runs that never changes: every status, every kind of trouble, names of all scripts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

NOW = datetime(2026, 7, 24, 15, 30, tzinfo=UTC).timestamp()
"""The moment at which the story is looked at."""

MINUTE, HOUR, DAY = 60, 3600, 86_400

Value = Mapping[str, object]


class Writing:
    """Writes the lines of one fisk-ai run, version 3."""

    def __init__(self, run_id: str, prompt: str, *, model: str = "claude-opus-4-8", version: int = 3) -> None:
        self.lines: list[bytes] = []
        fingerprint = {
            "provider": "anthropic",
            "model": model,
            "system_hash": "f8" * 32,
            "tools_hash": "4f" * 32,
            "thinking_mode": "off",
            "max_tokens": 200_000,
            "max_iterations": 50,
        }
        self._add(
            "meta",
            {
                "version": version,
                "run_id": run_id,
                "created": "2026-07-24T09:15:30.123456789Z",
                "fingerprint": fingerprint,
                "prompt": prompt,
            },
        )

    def _add(self, kind: str, payload: Value) -> Writing:
        record = {
            "seq": len(self.lines) + 1,
            "protocol": f"io.choria.fisk-ai.v1.session.{kind}",
            kind: payload,
        }
        self.lines.append(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        return self

    def turn(self, text: str, *calls: str, tokens: int = 1000) -> Writing:
        """One reply of the model, with calls that are named `tool:argument`."""
        turn = len(self.lines)
        blocks: list[Value] = [{"text": {"text": text}}]
        for number, call in enumerate(calls):
            name, _, argument = call.partition(":")
            blocks.append(
                {"tool_use": {"id": f"t{turn}-{number}", "name": name, "input": {"path": argument}}}
            )
        payload = {
            "iteration": turn,
            "message": {"role": "assistant", "content": blocks},
            "stop_reason": "tool_use" if calls else "end_turn",
            "in_tokens": tokens,
            "out_tokens": 100,
        }
        self._last = (turn, len(calls))
        return self._add("assistant", payload)

    def results(self, *texts: str, failed: bool = False) -> Writing:
        """Results of the first calls of the last turn."""
        turn, _ = self._last
        for number, text in enumerate(texts):
            key = f"t{turn}-{number}"
            result: dict[str, object] = {"tool_use_id": key, "content": text}
            if failed:
                result["is_error"] = True
            self._add("tool_result", {"tool_use_id": key, "result": result})
        return self

    def end(self, reason: str) -> Writing:
        """A terminal record."""
        return self._add("terminal", {"reason": reason})

    @property
    def data(self) -> bytes:
        """All lines."""
        return b"".join(self.lines)


def put(directory: Path, name: str, data: bytes | Writing, age: float) -> Path:
    """Write a run whose file changed so many seconds before the story is looked at."""
    path = directory / f"{name}.json"
    path.write_bytes(data.data if isinstance(data, Writing) else data)
    os.utime(path, (NOW - age, NOW - age))
    return path


def tell(directory: Path) -> None:
    """Write the whole story."""
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    for name, data, age in _ordinary():
        put(directory, name, data, age)
    damaged = Writing("nightly-0712", "rename the notes by date").turn("First the list.", "list_files:notes")
    damaged.results("a.md b.md")
    glued = damaged.data[:-1] + Writing("nightly-0712", "").turn("Then.").lines[1]
    put(directory, "nightly-0712", glued + b'{"seq":9,"protocol":"io.cho', 2 * DAY)
    put(directory, "a-run-of-v4", Writing("a-run-of-v4", "from tomorrow", version=4), 8 * DAY)
    put(
        directory,
        "half-a-meta",
        b'{"seq":1,"protocol":"io.choria.fisk-ai.v1.session.meta","meta":{"ver',
        9 * DAY,
    )
    put(directory, "nothing-yet", b"", 10 * DAY)
    (directory / "a-directory.json").mkdir()
    os.utime(directory / "a-directory.json", (NOW - 11 * DAY, NOW - 11 * DAY))
    put(directory, "clock-ahead", Writing("clock-ahead", "what day is it?").turn("Tomorrow."), -5 * HOUR)


def _ordinary() -> Iterable[tuple[str, Writing, float]]:
    sweep = Writing("billing-sweep", "reconcile the invoices of July with the ledger")
    for number in range(12):
        sweep.turn(
            f"Invoice batch {number}.", "search:ledger", "read_file:inv.csv", tokens=3000 * (1 + number % 5)
        )
        sweep.results("found", "rows", failed=number == 3)
    yield "billing-sweep", sweep.end("completed"), 14 * MINUTE
    yield (
        "2JfKqX8w1m4n6p8r9s0t2u4v9dQ",
        Writing("2JfKqX8w1m4n6p8r9s0t2u4v9dQ", "summarise open PAYMENTS streams")
        .turn("I need the stream first.", "stream_info:PAYMENTS", tokens=58_000)
        .results("1,204 messages")
        .end("suspended"),
        40 * MINUTE,
    )
    yield (
        "fix-add",
        Writing("fix-add", "Fix add() so the test passes.", model="gpt-5")
        .turn("I will read the file.", "read_file:calc.py", tokens=7000)
        .results("def add(a, b): return a - b")
        .turn("I will edit calc.py now.", "replace_text:calc.py", "run_tests:.", tokens=14_000),
        HOUR,
    )
    budget = Writing("refactor-io", "split io.py along its jobs").turn(
        "One by one.", "bash:wc", tokens=1_199_900
    )
    yield "refactor-io", budget.end("budget"), 4 * DAY
    yield "onboarding", Writing("onboarding", "write CONTRIBUTING.md").turn("Done.").end("error"), 6 * DAY
    yield (
        "endless",
        Writing("endless", "count").turn("1", "bash:1").results("1").end("max_iterations"),
        7 * DAY,
    )


def tell_hostile(directory: Path) -> None:
    """Write runs whose texts try to break the table or the terminal."""
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    texts = {
        "cjk": ("结算流水与对账单不一致，请重新核对第三季度的发票。", "模型"),
        "emoji": ("👩‍👩‍👧‍👦 family 🚀🚀🚀 🇩🇪 flag ✈️ plane 👍🏽 thumb", "🤖"),
        "rtl": ("تحقق من أن السجل مغلق \u202eevil\u202c وأن المجموع صحيح", "שלום"),
        "combining": (
            "z" + "\u0301" * 200 + "algo Z\u0324\u0308\u0304ero e\u0301 a\u0308\u0304",
            "o\u0308" * 9,
        ),
        "control": ("\x1b[2J\x1b]52;c;cm0gLXJm\x07 \x00 \x9b31m \r\n\tend\u200b\u2028\ufeff", "\x1b[31m"),
        "markup": ("[/nope] [bold]x[/] [type=a, v={'b[0]'}] [$y] [@click=app.quit]z[/]", "[link=x]"),
    }
    for age, (name, (prompt, model)) in enumerate(texts.items()):
        words = Writing(name, prompt, model=model).turn(prompt, f"{prompt[:12]}:x")
        put(directory, name, words, HOUR * (age + 1))
