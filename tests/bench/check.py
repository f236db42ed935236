"""What it costs to check every record of a run, against a model of pydantic for the same records."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.bench.data import Data
from tests.bench.figures import Figure, figure, interleaved, not_run, ratio

_CHECK = """
import json, sys, time
from pathlib import Path
from refold.core.store.examining import examine
from refold.core.store.reader import RunReader

started = time.process_time()
with RunReader.open(Path(sys.argv[1])) as reader:
    found = sum(finding.severity != "info" for finding in examine(reader))
taken = time.process_time() - started
peak = next(int(row.split()[1]) for row in open("/proc/self/status") if row.startswith("VmHWM"))
print(json.dumps([taken * 1000, peak / 1024, found]))
"""
_PYDANTIC = """
import json, sys, time
from typing import Literal, Union
from pydantic import BaseModel, ConfigDict, TypeAdapter

class Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

class Text(Strict):
    type: Literal["text"]
    text: str
class Thinking(Strict):
    type: Literal["thinking"]
    thinking: str
    signature: str
class Call(Strict):
    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, object]
class Message(Strict):
    role: str
    content: list[Union[Text, Thinking, Call]]
class Assistant(Strict):
    iteration: int
    message: Message
    stop_reason: str
    in_tokens: int
    out_tokens: int
    cache_read_tokens: int = 0
    cache_create_tokens: int = 0
class Result(Strict):
    type: Literal["tool_result"]
    tool_use_id: str
    is_error: bool = False
    content: list[Text]
class Answer(Strict):
    tool_use_id: str
    result: Result
    remote: bool = False
class Terminal(Strict):
    reason: str
    message: str = ""
class Line(Strict):
    seq: int
    protocol: str
    time: str | None = None
    meta: dict[str, object] | None = None
    assistant: Assistant | None = None
    tool_result: Answer | None = None
    user: dict[str, object] | None = None
    terminal: Terminal | None = None

validate = TypeAdapter(Line).validator.validate_json
started = time.process_time()
with open(sys.argv[1], "rb") as file:
    for line in file:
        validate(line)
print(json.dumps([(time.process_time() - started) * 1000]))
"""


def _run(code: str, path: Path) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", code, path], check=True, capture_output=True, text=True
    )  # fmt: skip
    return [float(one) for one in json.loads(done.stdout)]


def measure(data: Data, rounds: int) -> list[Figure]:
    """Check a tenth of the large run; the peak on the large one."""
    rounds = min(rounds, 3)
    taken = interleaved(
        {"check": lambda: _run(_CHECK, data.middle)[0], "pydantic": lambda: _run(_PYDANTIC, data.middle)[0]},
        rounds,
    )
    _, peak, found = _run(_CHECK, data.big)
    assert not found, "a generated run has findings"
    group = "check every record"
    go = "no Go program for these records here" if shutil.which("go") else "no go"
    return [
        ratio(group, "pydantic / check", taken["pydantic"], taken["check"], 2, of="G13", at_least=True),
        not_run(group, "Go encoding/json / check", "x", go, of="G13"),
        Figure(group, "peak memory, large run", peak, "MB", 40, of="G13"),
        figure(group, "a tenth of the large run", taken["check"], "ms"),
    ]
