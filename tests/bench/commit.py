"""What an atomic replacement and a fork cost, against the bare system calls that they cannot do without."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.bench.data import Data
from tests.bench.figures import Figure, figure, interleaved, ratio

from refold.core.store.files import replace_atomically
from refold.core.store.fork import carry_out, plan_at
from refold.core.store.reader import RunReader

MANIFEST = b'{"state":"%b"}\n' % (b"x" * 12_000)
REPLACED = 120


def _replaced(path: Path) -> float:
    started = time.perf_counter()
    replace_atomically(path, MANIFEST)
    return (time.perf_counter() - started) * 1e6


def _bare(path: Path) -> float:
    """Write beside, sync, rename, sync the directory: nothing more."""
    started = time.perf_counter()
    new = path.with_name(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.write(descriptor, MANIFEST)
    os.fsync(descriptor)
    os.close(descriptor)
    os.rename(new, path)  # noqa: PTH104 - the bare call is what is measured
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(directory)
    os.close(directory)
    return (time.perf_counter() - started) * 1e6


def _forked(path: Path, directory: Path, parts: dict[str, list[float]]) -> float:
    with RunReader.open(path) as reader:
        timeline = reader.index_all()
        item = timeline.legal_item(timeline.items * 9 // 10)
        assert item is not None
        started = time.perf_counter()
        plan = plan_at(reader, item)
        parts.setdefault("plan", []).append((time.perf_counter() - started) * 1000)
        made = carry_out(plan, directory=directory)
    taken = (time.perf_counter() - started) * 1000
    made.path.unlink()
    return taken


def _copied(path: Path, directory: Path) -> float:
    """Copy as many bytes as a fork takes along, to the disk."""
    size = path.stat().st_size * 9 // 10
    started = time.perf_counter()
    source = os.open(path, os.O_RDONLY)
    target = os.open(directory / "copy", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    while size:
        size -= os.copy_file_range(source, target, size)
    os.fsync(target)
    os.close(source)
    os.close(target)
    taken = (time.perf_counter() - started) * 1000
    (directory / "copy").unlink()
    return taken


def measure(data: Data, rounds: int) -> list[Figure]:
    """Replace a manifest, and fork a tenth of the large run near its end."""
    directory = data.directory / "commit"
    directory.mkdir(mode=0o700)
    ours, bare = directory / "ours.json", directory / "bare.json"
    replaced = interleaved({"ours": lambda: _replaced(ours), "bare": lambda: _bare(bare)}, REPLACED)
    parts: dict[str, list[float]] = {}
    forked = interleaved(
        {
            "fork": lambda: _forked(data.middle, directory, parts),
            "copy": lambda: _copied(data.middle, directory),
        },
        max(rounds, 5),
    )
    group = "commit"
    return [
        ratio(
            group, "manifest / write, sync, rename, sync", replaced["ours"], replaced["bare"], 1.1, of="G15"
        ),
        figure(group, "write, sync, rename, sync", replaced["bare"], "µs"),
        ratio(
            "fork", "of a tenth of the large run / cp to disk", forked["fork"], forked["copy"], 1.2, of="G15"
        ),
        figure("fork", "of a tenth of the large run", forked["fork"], "ms"),
        figure("fork", "its plan alone", parts["plan"], "ms"),
    ]
