"""Two at once on one run: of two resumers one wins and the other is told so; a forker disturbs nobody."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scripted import Step, World, agent

from refold.core.records import TerminalRecord
from refold.core.store.journal import JournalStore

RACES = int(os.environ.get("REFOLD_RACES", "150"))
"""How many races of each kind are run; the full measure is 1000."""
RACER = Path(__file__).with_name("racer.py")


class Racer:
    """One resumer, a process of its own."""

    def __init__(self, project: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, RACER],
            env={**os.environ, "PYTHONPATH": str(project)},
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


@pytest.fixture(scope="module")
def racers(project: Path) -> Iterator[tuple[Racer, Racer]]:
    both = (Racer(project), Racer(project))
    yield both
    for racer in both:
        racer.process.communicate(timeout=30)


@pytest.fixture
def store(tmp_path: Path) -> JournalStore:
    store = JournalStore(tmp_path / "runs")
    with store.create("run", agent([Step()], World()).opening("go")) as journal:
        journal.append(TerminalRecord("suspended"))
    return store


def test_one_wins_and_the_other_is_told(racers: tuple[Racer, Racer], store: JournalStore) -> None:
    wins: Counter[int] = Counter()
    last = 2
    for number in range(RACES):
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


def test_nobody_writes_beside_the_winner_when_the_lock_file_is_gone(
    racers: tuple[Racer, Racer], store: JournalStore
) -> None:
    first, second = racers
    before = store.path_of("run").read_bytes()
    for number in range(max(RACES // 5, 1)):
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


def test_a_forker_and_a_resumer_do_not_disturb_each_other(
    racers: tuple[Racer, Racer], store: JournalStore
) -> None:
    path, child = store.path_of("run"), store.path_of("child")
    lock = path.with_suffix(".lock").stat()
    meta, _, prefix = path.read_bytes().partition(b"\n")
    last = 2
    for number in range(RACES):
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


def test_a_fork_is_resumed_whole_or_not_there_yet(racers: tuple[Racer, Racer], store: JournalStore) -> None:
    child = store.path_of("child")
    for number in range(RACES):
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


def test_of_two_forkers_to_one_name_one_wins(racers: tuple[Racer, Racer], store: JournalStore) -> None:
    child = store.path_of("child")
    prefix = store.path_of("run").read_bytes().partition(b"\n")[2]
    for number in range(RACES):
        order = racers if number % 2 else racers[::-1]
        for racer in order:
            racer.tell(f"fork {store.directory} run 2 child")
        assert sorted(racer.hear().split()[0] for racer in order) == ["exists", "made"]
        assert child.read_bytes().partition(b"\n")[2] == prefix
        child.unlink()
    assert sorted(each.name for each in store.directory.iterdir()) == ["run.json", "run.lock"]
