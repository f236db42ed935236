"""What it costs to index a run and to open it again, against bare decoding and naive reading."""

from __future__ import annotations

import json
import mmap
import os
import time
from array import array
from pathlib import Path

import msgspec
from tests import generate
from tests.bench.data import SETTLED, Data
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
    started = time.process_time()
    with RunReader.open(path) as reader:
        reader.index_all()
    return (time.process_time() - started) * 1000


def _decode(path: Path) -> float:
    """Decode every line partially and keep nothing: the limit for an index that looks at each record."""
    decode = msgspec.json.Decoder(_Row).decode
    started = time.process_time()
    with path.open("rb", buffering=1 << 20) as file:
        for line in file:
            decode(line)
    return (time.process_time() - started) * 1000


def _newlines(path: Path) -> float:
    """Find every newline in the mapped file: the least that says where the records are."""
    offsets = array("Q")
    started = time.process_time()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        position = mapped.find(b"\n")
        while position >= 0:
            offsets.append(position)
            position = mapped.find(b"\n", position + 1)
    return (time.process_time() - started) * 1000


def _read(path: Path) -> float:
    """Read every byte into a buffer that is used again."""
    buffer = bytearray(1 << 20)
    started = time.process_time()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        while os.readv(descriptor, [buffer]):
            pass
    finally:
        os.close(descriptor)
    return (time.process_time() - started) * 1000


def naive(path: Path) -> float:
    """Parse and sum up with what comes with Python, as a script would: CPU milliseconds."""
    started = time.process_time()
    turns = calls = errors = tokens = 0
    with path.open("rb") as file:
        for line in file:
            record = json.loads(line)
            if reply := record.get("assistant"):
                turns += 1
                tokens += reply["in_tokens"] + reply["out_tokens"] + reply.get("cache_read_tokens", 0)
                calls += sum(block["type"] == "tool_use" for block in reply["message"]["content"])
            elif answer := record.get("tool_result"):
                errors += bool(answer["result"].get("is_error"))
    return (time.process_time() - started) * 1000


def _slices(path: Path) -> list[float]:
    """Give how long each slice of 1 ms really took, in milliseconds of CPU."""
    taken = []
    with RunReader.open(path) as reader:
        complete = False
        while not complete:
            started = time.thread_time()
            complete = reader.step(0.001)
            taken.append((time.thread_time() - started) * 1000)
    return taken


def _open_kib(path: Path) -> float:
    with RunReader.open(path) as reader:
        reader.step(0.0)
        reader.tail_timeline()
        return reader.bytes_read / 1024


def _keep(path: Path, cache: Path) -> float:
    """Keep the index of a run; give the milliseconds of CPU that it took."""
    with RunReader.open(path) as reader:
        reader.index_all()
        started = time.process_time()
        assert reader.keep_index(cache), "the index was not kept"
        return (time.process_time() - started) * 1000


def _reopen(path: Path, cache: Path, read: list[float]) -> float:
    started = time.process_time()
    with RunReader.open(path, cache=cache) as reader:
        reader.index_all()
        taken = (time.process_time() - started) * 1000
        read.append(reader.bytes_read / 1024)
        assert reader.timeline.items, "nothing was indexed"
    return taken


def _grow(path: Path, records: int) -> int:
    """Append so many good lines; give their bytes."""
    lines = list(generate.journal(records=records + 1, seed=7))[1:]
    with path.open("ab") as file:
        file.write(b"".join(lines))
    return sum(map(len, lines))


def _reopened(data: Data, rounds: int, build: list[float]) -> list[Figure]:
    """Open the large run again, unchanged and grown; it is a copy that grows."""
    cache = data.home("index")
    grown = data.directory / "grown" / "grown.json"
    grown.parent.mkdir(mode=0o700, exist_ok=True)
    os.link(data.big, grown)
    time.sleep(SETTLED)
    kept = _keep(data.big, cache)
    read: list[float] = []
    again = [_reopen(data.big, cache, read) for _ in range(max(5, rounds))]
    size = data.big.stat().st_size
    more = _grow(grown, 200)
    read_after: list[float] = []
    try:
        after = [_reopen(grown, cache, read_after) for _ in range(max(5, rounds))]
    finally:
        os.truncate(grown, size)
    group = "open again"
    return [
        ratio(group, "build / open with a kept index", build, again, 500, of="G3", at_least=True),
        figure(group, "of the journal read", read, "KiB", 64, of="G3"),
        figure(group, "with a kept index", again, "ms"),
        Figure(group, "to keep an index", kept, "ms"),
        figure(
            group, "grown by 200 records, beyond the unchanged one", [a - min(again) for a in after], "ms"
        ),
        Figure(group, "grown: read / appended", read_after[0] * 1024 / more, "x", 2, len(after), of="G4"),
    ]


def measure(data: Data, rounds: int) -> list[Figure]:
    """Index build, its slices, bytes before the first rows, opening again. All of it CPU time."""
    for path in (data.ten, data.middle, data.big):
        _read(path)
    cases = {
        "ten": lambda: _index(data.ten),
        "index": lambda: _index(data.middle),
        "short": lambda: _index(data.short_records),
        "decode": lambda: _decode(data.middle),
        "decode short": lambda: _decode(data.short_records),
        "newlines": lambda: _newlines(data.middle),
        "read": lambda: _read(data.middle),
        "naive": lambda: naive(data.middle),
    }
    taken = interleaved(cases, rounds)
    big = interleaved({"big": lambda: _index(data.big)}, min(rounds, 3))["big"]
    slices, short, huge = _slices(data.big), _slices(data.short_records), _slices(data.huge_record)
    group = "index"
    growth = data.big.stat().st_size / data.ten.stat().st_size
    linear = percentile(big, 0.5) / percentile(taken["ten"], 0.5) / growth
    return [
        ratio(group, "build / bare msgspec decode", taken["index"], taken["decode"], 1.3, of="G2"),
        ratio(group, "the same, records of 350 bytes", taken["short"], taken["decode short"], of="G2"),
        ratio(group, "build / newline scan", taken["index"], taken["newlines"], 4.5, of="G2"),
        ratio(group, "naive json / build", taken["naive"], taken["index"], 3.5, of="G2", at_least=True),
        Figure(group, "a byte of the large run / of a hundredth of it", linear, "x", 1.1, len(big), of="G2"),
        ratio(group, "build / read", taken["index"], taken["read"]),
        figure(group, "a tenth of the large run", taken["index"], "ms"),
        figure(group, "large run", big, "ms"),
        *_reopened(data, rounds, big),
        Figure(group, "slice of 1 ms, p99", percentile(slices, 0.99), "ms", 4.0, len(slices), of="G11"),
        Figure(group, "records of 350 bytes, p99", percentile(short, 0.99), "ms", 4.0, len(short), of="G11"),
        Figure(group, "a 50 MB record, longest", max(huge), "ms", 16.0, len(huge), of="G11"),
        figure(group, "read before the first rows", [_open_kib(data.big)], "KiB", 512.0, of="G1"),
    ]
