"""Two at once on one run: of two resumers one wins and the other is told so; a forker disturbs nobody.

Each race is a function of two racers, a store that holds a suspended run, and how often they race.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from tests.faults.victims import ROOT
from tests.scripted import Step, World, agent
from tests.terminal.program import HANGS

from refold.core.records import TerminalRecord
from refold.core.store.journal import JournalStore

RACER = Path(__file__).with_name("racer.py")


class Racer:
    """One resumer, a process of its own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, RACER],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")


Racers: TypeAlias = tuple[Racer, Racer]
Race: TypeAlias = Callable[[Racers, JournalStore, int], None]


@contextmanager
def two_racers() -> Iterator[Racers]:
    """Start both; they end with this."""
    both = (Racer(), Racer())
    try:
        yield both
    finally:
        for racer in both:
            try:
                racer.process.communicate(timeout=HANGS)
            except subprocess.TimeoutExpired:
                racer.process.kill()
                racer.process.communicate()


def suspended(directory: Path) -> JournalStore:
    """Give a store with a run that can be resumed."""
    store = JournalStore(directory)
    with store.create("run", agent([Step()], World()).opening("go")) as journal:
        journal.append(TerminalRecord("suspended"))
    return store


def one_wins_and_the_other_is_told(racers: Racers, store: JournalStore, races: int) -> None:
    wins: Counter[int] = Counter()
    last = 2
    for number in range(races):
        order = racers if number % 2 else racers[::-1]
        for racer in order:
            racer.tell(f"go {store.directory} run")
        said = [racer.hear() for racer in order]
        assert sorted(text.split()[0] for text in said) == ["locked", "won"], said
        first = 0 if said[0].startswith("won") else 1
        winner, loser = order[first], said[1 - first]
        assert said[first] == f"won {last}"
        # Where the winner had the lock, but the loser looked before it showed in /proc, nobody can be named.
        assert re.search(rf"run is already locked by (process {winner.process.pid} |another process)", loser)
        wins[first] += 1
        winner.tell("end")
        last += 1
        assert winner.hear() == f"appended {last}"
    assert store.load("run").last_seq == last
    assert len(store.path_of("run").read_bytes().splitlines()) == last


def nobody_writes_where_the_lock_file_is_gone(racers: Racers, store: JournalStore, races: int) -> None:
    first, second = racers
    before = store.path_of("run").read_bytes()
    for number in range(races):
        first.tell(f"go {store.directory} run")
        assert first.hear() == "won 2"
        (store.directory / "run.lock").unlink()
        if number % 2:
            (store.directory / "run.lock").touch()
        second.tell(f"go {store.directory} run")
        assert second.hear().startswith("locked")
        first.tell("end")
        assert "the lock file was removed or replaced" in first.hear()
    assert store.path_of("run").read_bytes() == before


def a_forker_and_a_resumer_do_not_disturb_each_other(racers: Racers, store: JournalStore, races: int) -> None:
    path, child = store.path_of("run"), store.path_of("child")
    lock = path.with_suffix(".lock").stat()
    meta, _, prefix = path.read_bytes().partition(b"\n")
    last = 2
    for number in range(races):
        resumer, forker = racers if number % 2 else racers[::-1]
        before = path.read_bytes()
        for first in ((resumer, forker), (forker, resumer))[number // 2 % 2]:
            first.tell(
                f"go {store.directory} run" if first is resumer else f"fork {store.directory} run 2 child"
            )
        assert resumer.hear() == f"won {last}"
        assert forker.hear() == "made child"
        assert path.read_bytes() == before
        assert child.read_bytes().partition(b"\n")[2] == prefix
        child.unlink()
        # Once more beside the append: what is taken ends before it, or with it.
        forker.tell(f"fork {store.directory} run {last} child")
        resumer.tell("end")
        last += 1
        assert resumer.hear() == f"appended {last}"
        assert forker.hear() == "made child"
        assert path.read_bytes().startswith(before)
        assert child.read_bytes().partition(b"\n")[2] == before[len(meta) + 1 :]
        child.unlink()
    assert store.load("run").last_seq == last
    now = path.with_suffix(".lock").stat()
    assert (now.st_ino, now.st_mtime_ns, now.st_size) == (lock.st_ino, lock.st_mtime_ns, lock.st_size)
    assert sorted(each.name for each in store.directory.iterdir()) == ["run.json", "run.lock"]


def a_fork_is_resumed_whole_or_not_there_yet(racers: Racers, store: JournalStore, races: int) -> None:
    child = store.path_of("child")
    for number in range(races):
        resumer, forker = racers if number % 2 else racers[::-1]
        forker.tell(f"fork {store.directory} run 2 child")
        # Ever later, so that both outcomes are met.
        time.sleep(number % 20 / 5_000)
        resumer.tell(f"go {store.directory} child")
        answer = resumer.hear()
        assert forker.hear() == "made child"
        if answer.startswith("won"):
            assert answer == "won 2"
            resumer.tell("end")
            assert resumer.hear() == "appended 3"
        else:
            # Its maker holds it for a moment longer than it takes to get its name.
            assert answer.split()[0] in ("missing", "locked"), answer
        assert store.load("child").last_seq == 2 + answer.startswith("won")
        child.unlink()
    assert not store.load("run").completed


def of_two_forkers_to_one_name_one_wins(racers: Racers, store: JournalStore, races: int) -> None:
    child = store.path_of("child")
    prefix = store.path_of("run").read_bytes().partition(b"\n")[2]
    for number in range(races):
        order = racers if number % 2 else racers[::-1]
        for racer in order:
            racer.tell(f"fork {store.directory} run 2 child")
        assert sorted(racer.hear().split()[0] for racer in order) == ["exists", "made"]
        assert child.read_bytes().partition(b"\n")[2] == prefix
        child.unlink()
    assert sorted(each.name for each in store.directory.iterdir()) == ["run.json", "run.lock"]


ALL: dict[str, Race] = {
    "one wins and the other is told": one_wins_and_the_other_is_told,
    "nobody writes where the lock file is gone": nobody_writes_where_the_lock_file_is_gone,
    "a forker and a resumer do not disturb each other": a_forker_and_a_resumer_do_not_disturb_each_other,
    "a fork is resumed whole or not there yet": a_fork_is_resumed_whole_or_not_there_yet,
    "of two forkers to one name one wins": of_two_forkers_to_one_name_one_wins,
}
