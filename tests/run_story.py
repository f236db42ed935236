"""Runs to look at one by one: one of each kind of record, times, damage, and text of all scripts."""

from __future__ import annotations

import json
from pathlib import Path

PRINT = {
    "model": "gpt-5",
    "system_hash": "4a1f" * 16,
    "tools_hash": "77c2" * 16,
    "thinking_mode": "summarized",
    "max_tokens": 20_000,
    "max_iterations": 20,
}

HOSTILE = (
    "clear \x1b[2J, title \x1b]0;pwned\x07, NUL \x00, DEL \x7f, C1 \x9b31m",
    "核对发票与对账单，第三季度 注文の再送キュー 배포가 완료되었습니다",
    "emoji 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪 ✓",
    "rtl \u202egnp.exe\u202c تحقق من أن السجل مغلق שלום",
    "zalgo " + "e" + "\u0301" * 40 + " flood",
    "[bold]x[/nope] [@click=app.quit]y[/] \\[z] [$primary]",
    "line\u2028sep\u2029par\u0085nel\x0bvt\x0cff\rcr\ttab",
    "zero\u200bwidth\u2060join\ufeffbom\u3164filler \U000e0041\U000e0042",
)


def native(seq: int, kind: str, payload: object, *, time: str = "") -> bytes:
    """One line of a native journal."""
    record: dict[str, object] = {"seq": seq, "protocol": f"refold.v1.session.{kind}"}
    if time:
        record["time"] = time
    record[kind] = payload
    return json.dumps(record, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def meta(seq: int, run_id: str, prompt: str, *, time: str = "", **more: object) -> bytes:
    """The first line."""
    payload = {
        "version": 2,
        "run_id": run_id,
        "created": "2026-07-24T09:15:30Z",
        "fingerprint": PRINT,
        "prompt": prompt,
        **more,
    }
    return native(seq, "meta", payload, time=time)


def assistant(
    seq: int,
    iteration: int,
    *blocks: dict[str, object],
    time: str = "",
    stop: str = "tool_use",
    tokens: int = 900,
) -> bytes:
    """One reply."""
    payload = {
        "iteration": iteration,
        "message": {"role": "assistant", "content": list(blocks)},
        "stop_reason": stop,
        "in_tokens": tokens,
        "out_tokens": 80,
        "cache_read_tokens": 400,
    }
    return native(seq, "assistant", payload, time=time)


def text(words: str) -> dict[str, object]:
    """A block of text."""
    return {"type": "text", "text": words}


def thinking(words: str) -> dict[str, object]:
    """A block of thinking."""
    return {"type": "thinking", "thinking": words, "signature": "c2ln"}


def call(call_id: str, name: str, **arguments: object) -> dict[str, object]:
    """A block that asks for a tool."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(
    seq: int, call_id: str, words: str, *, time: str = "", error: bool = False, **more: object
) -> bytes:
    """One answer of a tool."""
    block = {
        "type": "tool_result",
        "tool_use_id": call_id,
        "is_error": error,
        "content": [{"type": "text", "text": words}],
    }
    return native(seq, "tool_result", {"tool_use_id": call_id, "result": block, **more}, time=time)


def at(seconds: float) -> str:
    """A recorded time, so many seconds after the start."""
    whole = int(seconds)
    return f"2026-07-24T09:{15 + whole // 60:02}:{whole % 60:02}.{round(seconds % 1 * 1000):03}Z"


def fix_add() -> list[bytes]:
    """A crashed run with a call whose outcome nobody knows."""
    command = json.dumps(
        {"command": "pytest -q", "exit_code": 1, "output": "F.\n1 failed, 1 passed in 0.03s\n"}
    )
    return [
        meta(1, "fix-add", "Fix add() so the test passes.", time=at(0)),
        assistant(2, 0, text("I will read the file."), call("c1", "read_file", path="calc.py"), time=at(0.4)),
        result(3, "c1", "def add(a, b):\n    return a - b\n", time=at(0.6)),
        assistant(
            4,
            1,
            thinking("The sign is wrong.\nLook at the test before touching anything."),
            text("The sign is wrong. I will look at the test, and run it."),
            call("c2", "read_file", path="test_calc.py"),
            call("c3", "run", command="pytest -q"),
            time=at(3.1),
        ),
        result(5, "c2", "def test_add():\n    assert add(2, 3) == 5\n", time=at(3.2)),
        result(6, "c3", command, time=at(3.9), error=True),
        native(7, "terminal", {"reason": "suspended"}, time=at(4)),
        native(8, "user", {"message": {"role": "user", "content": [text("Go on, please.")]}}, time=at(95)),
        assistant(
            9,
            2,
            text("I will edit calc.py now."),
            call("c4", "replace_text", path="calc.py", old="a - b", new="a + b"),
            time=at(98.8),
        ),
    ]


def damaged() -> list[bytes]:
    """The same run with a bad line in the middle, a glued record and a torn tail."""
    lines = fix_add()
    lines[4] = lines[4][:90] + b"\x00\x01\xfe garbage \x1b[31m\n"
    lines[6] = b'{"seq":7,"prot' + lines[6]
    return [*lines, lines[8][:120]]


def hostile() -> list[bytes]:
    """A run in which every text is of the worst kind."""
    lines = [meta(1, "hostile", HOSTILE[0] + "\n" + HOSTILE[1])]
    seq = 2
    for number, words in enumerate(HOSTILE):
        blocks = [text(words), call(f"h{number}", f"tool {words}", path=words, **{words[:20]: [words]})]
        lines.append(assistant(seq, number, *blocks))
        lines.append(result(seq + 1, f"h{number}", f"{words}\n{words}", error=number % 3 == 0))
        seq += 2
    return lines


def write(path: Path, lines: list[bytes]) -> Path:
    """Write a run."""
    path.write_bytes(b"".join(lines))
    return path
