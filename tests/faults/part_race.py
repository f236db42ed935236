"""Several at once on one run, and files that change under the eyes of a list (design/safety.md 5, G13, G16).

Each racer is a process. Whoever holds a lock writes a number and reads it again; another holder would show in
between. Others take the lock file away or put a new one there meanwhile.
"""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests import generate
from tests.faults.goals import Goal, Share, Work, carry_out
from tests.faults.victims import ROOT, scratch

from refold.core.journal_text import fold_bytes
from refold.core.records import MetaRecord
from refold.core.store import repair
from refold.core.store.catalog import Catalog, Gone, Root
from refold.core.store.growing import Change
from refold.core.store.journal import JournalStore
from refold.core.store.reader import RunReader
from refold.core.summary import RunSummary

LOCKS: dict[Share, int] = {"ci": 300, "quick": 3_000, "long": 25_000}
"""Tries of each of four racers to hold one lock."""
WRITERS: dict[Share, int] = {"ci": 12, "quick": 60, "long": 1000}
"""Records that each of three writers appends, each under a lock of its own."""
CHANGES: dict[Share, int] = {"ci": 60, "quick": 400, "long": 10_000}
"""Changes of files that are being read and listed."""

HANDS_OF: dict[Share, int] = {"ci": 40, "quick": 400, "long": 10_000}
"""What each of four processes does to one run."""

LOCKER = """
import os, random, sys, time
from pathlib import Path
from refold.core.errors import StoreError
from refold.core.store.lock import RunLock
path, tries, seed, takes_away = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
end = time.monotonic() + float(sys.argv[5])
rng, held, refused = random.Random(seed), 0, 0
for number in range(tries):
    if time.monotonic() >= end:
        break
    if rng.random() < takes_away:
        try:
            path.unlink() if rng.random() < 0.5 else os.replace(path.with_name("new"), path)
        except OSError:
            path.with_name("new").touch()
        continue
    try:
        lock = RunLock.take(path)
    except StoreError:
        refused += 1
        continue
    held += 1
    owner = path.with_name("owner")
    owner.write_text(f"{seed} {number}")
    if not takes_away and owner.read_text() != f"{seed} {number}":
        print("two holders", flush=True)
    lock.release()
print(f"held {held} refused {refused}", flush=True)
"""

WRITER = """
import sys, time
from pathlib import Path
from refold.core.errors import StoreError
from refold.core.records import Message, UserRecord
from refold.core.store.journal import JournalStore
store, left = JournalStore(Path(sys.argv[1])), int(sys.argv[2])
end = time.monotonic() + float(sys.argv[4])
while left and time.monotonic() < end:
    text = {"type": "text", "text": f"{sys.argv[3]} {left}"}
    try:
        # Refused where another one holds the run, or the lock file was taken away: nothing is written then.
        with store.open("run") as journal:
            journal.append(UserRecord(Message("user", (text,))))
    except StoreError:
        time.sleep(0.0005)
        continue
    left -= 1
print("left", left, flush=True)
"""

HANDS = """
import json, random, sys, time
from pathlib import Path
from refold.core.errors import RefoldError
from refold.core.fork import legal_points
from refold.core.records import Message, UserRecord
from refold.core.store import fork, repair, salvage
from refold.core.store.catalog import Catalog, Root
from refold.core.store.journal import JournalStore
from refold.core.store.lock import RunLock
from refold.core.store.reader import RunReader
directory, tries, seed = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
store, rng, end = JournalStore(directory), random.Random(seed), time.monotonic() + float(sys.argv[4])
path, said, refused, done = directory / "run.json", [], 0, {}
def append(number):
    with store.open("run") as journal:
        journal.append(UserRecord(Message("user", ({"type": "text", "text": f"{seed} {number}"},))))
    said.append(f"{seed} {number}")
def tear(number):
    lock = RunLock.take(path.with_suffix(".lock"))
    with path.open("ab") as file:
        file.write(b'{"seq":' * (path.read_bytes()[-1:] == b"\\n"))
    lock.release()
def mend(number):
    with RunReader.open(path) as reader:
        plan = repair.plan_for(reader)
    if plan is not None:
        repair.repair(plan, "refold")
def branch(number):
    with RunReader.open(path) as reader:
        points = list(legal_points(reader.index_all()))
        fork.carry_out(fork.plan_at(reader, rng.choice(points[-3:]), child=f"fork-{number % 9}"))
def save(number):
    with RunReader.open(path) as reader:
        salvage.carry_out(salvage.salvage_of(reader, child=f"saved-{number % 9}"))
def listed(number):
    catalog = Catalog([Root(directory, "refold", "test")], cache=directory.parent / "cache")
    list(catalog.scan())
    catalog.close()
for number in range(tries):
    if time.monotonic() >= end:
        break
    act = rng.choice((append, append, append, tear, mend, mend, branch, save, listed))
    try:
        act(number)
    except RefoldError:
        refused += 1
    else:
        done[act.__name__] = done.get(act.__name__, 0) + 1
print(json.dumps({"said": said, "refused": refused, "done": done}), flush=True)
"""


def measure(share: Share, seed: int, seconds: float) -> Iterator[Goal]:
    """Let them race."""
    whats = (
        ("G16", "tries to hold one lock, its file taken away and replaced", _locks, 100_000),
        ("G16", "records of three writers at once, read beside them", _writers, 0),
        ("G16", "appends, repairs, forks, salvages and lists of one run by four at once", _hands, 0),
        ("G13", "files changed, cut, replaced, removed while they are read", _changes, 0),
    )
    with scratch() as directory:
        work: list[Work] = [
            (
                Goal(name, what, 0, seed, asked),
                functools.partial(act, directory=directory, share=share),
            )
            for name, what, act, asked in whats
        ]
        yield from carry_out(work, seconds)


def _started(script: str, *words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def _locks(goal: Goal, directory: Path, share: Share) -> None:
    for takes_away in (0.0, 0.05):
        place = directory / f"locks-{takes_away}"
        place.mkdir()
        racers = [
            _started(
                LOCKER,
                place / "run.lock",
                LOCKS[share] // 2,
                f"{goal.seed}-{n}",
                takes_away,
                max(1.0, (goal.until - time.monotonic()) / (2 if takes_away == 0 else 1)),
            )
            for n in range(4)
        ]
        for number, racer in enumerate(racers):
            said, _ = racer.communicate(timeout=3600)
            with goal.attempt(f"racer {number}, {takes_away}"):
                assert racer.returncode == 0, said
                assert "two holders" not in said
                words = said.split()
                goal.tries += int(words[words.index("held") + 1]) + int(words[words.index("refused") + 1])
                goal.count("won", int(words[words.index("held") + 1]))


def _writers(goal: Goal, directory: Path, share: Share) -> None:
    for name in ("writers", "writers whose lock file is taken away"):
        store = JournalStore(directory / name)
        store.create("run", MetaRecord(prompt="go")).close()
        count = WRITERS[share]
        seconds = max(2.0, (goal.until - time.monotonic()) / (2 if name == "writers" else 1))
        writers = [
            _started(WRITER, store.directory, count, f"{goal.seed}-{number}", seconds) for number in range(3)
        ]
        while any(writer.poll() is None for writer in writers):
            if name != "writers":
                store.path_of("run").with_suffix(".lock").unlink(missing_ok=True)
                time.sleep(0.002)
            with goal.attempt(f"reading beside {name}"), RunReader.open(store.path_of("run")) as reader:
                found = [one.code for one in reader.index_all().findings if one.code != "E_TORN_TAIL"]
                assert found == []
        with goal.attempt(f"the end of {name}"):
            left = [int(writer.communicate()[0].split()[1]) for writer in writers]
            data = store.path_of("run").read_bytes()
            written = 3 * count - sum(left)
            assert store.load("run").last_seq == written + 1 == data.count(b"\n")
            for number in range(3):
                those = range(left[number] + 1, count + 1)
                assert all(data.count(f'"{goal.seed}-{number} {n}"'.encode()) == 1 for n in those)
            goal.tries += written


def _hands(goal: Goal, directory: Path, share: Share) -> None:
    """Let four processes do everything to one run; whatever was said to be written is there once."""
    store = JournalStore(directory / "hands")
    store.create("run", MetaRecord(prompt="go")).close()
    path = store.path_of("run")
    seconds = max(3.0, goal.until - time.monotonic() - 2)
    hands = [
        _started(HANDS, store.directory, HANDS_OF[share], f"{goal.seed}-{number}", seconds)
        for number in range(4)
    ]
    told = [json.loads(hand.communicate(timeout=3600)[0] or "null") for hand in hands]
    with goal.attempt("the end"):
        assert [hand.returncode for hand in hands] == [0] * 4
        with RunReader.open(path) as reader:
            plan = repair.plan_for(reader)
        if plan is not None:
            repair.repair(plan, "refold")
        data = path.read_bytes()
        for one in told:
            goal.tries += one["refused"] + sum(one["done"].values())
            for name, number in one["done"].items():
                goal.count(name, number)
            assert all(data.count(f'"{text}"'.encode()) == 1 for text in one["said"])
        assert store.load("run").last_seq == data.count(b"\n")
        first = data.partition(b"\n")[2]
        for child in sorted(store.directory.glob("[fs]*-*.json")):
            taken = child.read_bytes()
            fold_bytes(taken, hint="refold")
            assert first.startswith(taken.partition(b"\n")[2]), child.name
        _check_list(
            Catalog([Root(store.directory, "refold", "test")], cache=directory / "cache"), store.directory
        )


def _changes(goal: Goal, directory: Path, share: Share) -> None:
    rng = random.Random(goal.seed)
    place = directory / "changes"
    acts = (_append, _cut, _replace, _remove, _rewrite, _torn, _directory_again)
    catalog = Catalog([Root(place, "refold", "test")], cache=directory / "cache")
    readers: dict[Path, RunReader] = {}
    for number in range(CHANGES[share]):
        if goal.over:
            break
        path = place / f"run-{rng.randrange(4)}.json"
        act = rng.choice(acts)
        with goal.attempt(f"{number}: {act.__name__[1:]} {path.stem}"):
            if not path.exists():
                _write(path, rng)
            reader = readers.get(path)
            if reader is None:
                reader = readers[path] = RunReader.open(path)
                reader.index_all()
            act(path, rng)
            change = reader.poll()
            if change in {Change.SAME, Change.GREW}:
                if change is Change.GREW:
                    reader.index_all()
                assert act in {_append, _torn}, change
                _check_same(reader, path)
            else:
                assert act not in {_append, _torn}, change
                for gone in [*readers] if act is _directory_again else [path]:
                    readers.pop(gone).close()
            _check_list(catalog, place)
    for reader in readers.values():
        reader.close()
    catalog.close()


def _check_same(reader: RunReader, path: Path) -> None:
    """Check that a run that was read on is as one that is read anew."""
    with RunReader.open(path) as other:
        timeline, again = reader.timeline, other.index_all()
        assert timeline.items == again.items
        assert [timeline.span(item) for item in range(timeline.items)] == [
            again.span(item) for item in range(again.items)
        ]


def _check_list(catalog: Catalog, place: Path) -> None:
    """Check that what a list was told since it began is what lies there."""
    shown = _SHOWN.setdefault(id(catalog), {})
    for item in catalog.scan():
        if isinstance(item, RunSummary):
            shown[item.path] = item
        elif isinstance(item, Gone):
            shown.pop(item.path, None)
    fresh = Catalog([Root(place, "refold", "test")], cache=None)
    there = {item.path: item for item in fresh.scan() if isinstance(item, RunSummary)}
    fresh.close()
    assert shown == there


_SHOWN: dict[int, dict[str, RunSummary]] = {}


def _write(path: Path, rng: random.Random) -> None:
    path.parent.mkdir(exist_ok=True)
    lines = generate.journal(
        records=rng.randint(2, 9), run_id=path.stem, seed=rng.randrange(5), ending="suspended"
    )
    path.write_bytes(b"".join(lines))


def _append(path: Path, _rng: random.Random) -> None:
    with path.open("ab") as file:
        file.write(b'{"seq":99,"protocol":"refold.v1.session.user","user":{}}\n')


def _cut(path: Path, rng: random.Random) -> None:
    os.truncate(path, rng.randrange(path.stat().st_size))


def _replace(path: Path, rng: random.Random) -> None:
    new = path.with_name("new")
    _write(new, rng)
    new.replace(path)


def _remove(path: Path, _rng: random.Random) -> None:
    path.unlink()


def _rewrite(path: Path, _rng: random.Random) -> None:
    """Write the same size with other bytes, as a restored copy may."""
    data = path.read_bytes()
    path.write_bytes(data[:-9] + bytes(byte ^ 1 for byte in data[-9:]))


def _torn(path: Path, rng: random.Random) -> None:
    with path.open("ab") as file:
        file.write(b'{"seq":' + b"9" * rng.randrange(9))


def _directory_again(path: Path, rng: random.Random) -> None:
    shutil.rmtree(path.parent)
    _write(path, rng)
