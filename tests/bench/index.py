"""What it costs to index a run, against the bare decoding of the same lines and a search for newlines."""

from __future__ import annotations

import os
import random
import time
from array import array
from pathlib import Path

import msgspec
from tests.bench.data import Data
from tests.bench.figures import Figure, figure, interleaved, percentile, ratio

from refold.core.store.reader import RunReader


class _Block(msgspec.Struct):
    type: str = ""
    id: str = ""
    name: str = ""


class _Message(msgspec.Struct):
    content: tuple[_Block, ...] | None = None


class _Turn(msgspec.Struct):
    iteration: int = 0
    message: _Message | None = None
    stop_reason: str = ""
    in_tokens: int = 0
    out_tokens: int = 0
    cache_read_tokens: int = 0


class _Answer(msgspec.Struct):
    is_error: bool = False


class _Result(msgspec.Struct):
    tool_use_id: str = ""
    result: _Answer | None = None
    remote: bool = False


class _Row(msgspec.Struct):
    """All that a row of the timeline needs, and nothing of what is said."""

    seq: int
    protocol: str
    time: str = ""
    assistant: _Turn | None = None
    tool_result: _Result | None = None


def _index(path: Path) -> float:
    started = time.perf_counter()
    with RunReader.open(path) as reader:
        reader.index_all()
    return (time.perf_counter() - started) * 1000


def _decode(path: Path) -> float:
    """Decode every line partially and keep nothing: the limit for an index that looks at each record."""
    decode = msgspec.json.Decoder(_Row).decode
    started = time.perf_counter()
    with path.open("rb", buffering=1 << 20) as file:
        for line in file:
            decode(line)
    return (time.perf_counter() - started) * 1000


def _newlines(path: Path) -> float:
    offsets = array("Q")
    started = time.perf_counter()
    position = 0
    with path.open("rb", buffering=1 << 20) as file:
        for line in file:
            offsets.append(position)
            position += len(line)
    return (time.perf_counter() - started) * 1000


def _slices(path: Path) -> list[float]:
    """Give how long each slice of 3 ms really took, in milliseconds."""
    taken = []
    with RunReader.open(path) as reader:
        complete = False
        while not complete:
            started = time.perf_counter()
            complete = reader.step(0.003)
            taken.append((time.perf_counter() - started) * 1000)
    return taken


def _states(path: Path, tries: int = 400) -> list[float]:
    """Give how long the state at a random record takes, in microseconds."""
    rng = random.Random(1)
    taken = []
    with RunReader.open(path) as reader:
        timeline = reader.index_all()
        for item in [rng.randrange(timeline.items) for _ in range(tries)]:
            started = time.perf_counter()
            reader.state_at(item)
            taken.append((time.perf_counter() - started) * 1e6)
    return taken


def _open_bytes(path: Path) -> float:
    with RunReader.open(path) as reader:
        reader.step(0.0)
        return reader.bytes_read / 1024


def measure(data: Data, rounds: int) -> list[Figure]:
    """Index build, slices, state at any record, bytes read before the first rows."""
    for path in (data.middle, data.big):
        os.sched_yield()
        _newlines(path)
    taken = interleaved(
        {
            "index": lambda: _index(data.middle),
            "decode": lambda: _decode(data.middle),
            "newlines": lambda: _newlines(data.middle),
            "index big": lambda: _index(data.big),
        },
        rounds,
    )
    slices, huge = _slices(data.big), _slices(data.huge_record)
    states, states_small = _states(data.big), _states(data.small)
    group = "index"
    growth = (data.big.stat().st_size / data.middle.stat().st_size) * 1.1
    return [
        figure(group, "a tenth of the large run", taken["index"], "ms"),
        figure(group, "large run", taken["index big"], "ms"),
        ratio(group, "build / bare msgspec decode", taken["index"], taken["decode"], 1.3),
        ratio(group, "build / newline scan", taken["index"], taken["newlines"]),
        ratio(group, "large run / a tenth of it", taken["index big"], taken["index"], growth),
        Figure(group, "slice of 3 ms, p99", percentile(slices, 0.99), "ms", 4.0, len(slices)),
        Figure(group, "slice of 3 ms, longest", max(slices), "ms", 16.0, len(slices)),
        Figure(group, "slice over a 50 MB record, longest", max(huge), "ms", 16.0, len(huge)),
        Figure("state", "at any record, p50", percentile(states, 0.5), "µs", None, len(states)),
        Figure("state", "at any record, p99", percentile(states, 0.99), "µs", 2000.0, len(states)),
        Figure(
            "state",
            "p50 large / small",
            percentile(states, 0.5) / percentile(states_small, 0.5),
            "x",
            1.5,
            400,
        ),
        figure(group, "bytes read before the first rows", [_open_bytes(data.big)], "KiB", 512.0),
    ]
