"""The generated runs that the measurements read; made when first asked for, in a directory of its own."""

from __future__ import annotations

import functools
import shutil
import time
from pathlib import Path

from tests import generate
from tests.rivumi_cases import make

SETTLED = 2.2
"""Seconds after which a file is old enough for a cache to trust its times."""


class Data:
    """Runs by size and number; each is written when first asked for and read by every part after that."""

    def __init__(self, directory: Path, *, quick: bool, seed: int) -> None:
        """Keep everything under `directory`; `quick` makes a tenth of it."""
        self.directory = directory
        self.seed = seed
        part = 10 if quick else 1
        self.big_bytes = (1 << 30) // part
        self.run_count = 10_000 // part
        self.large_count = 1_000 // part
        self.small_count = 50_000 // part
        self.session_count = 1_000 // part

    @functools.cached_property
    def small(self) -> Path:
        """A run of 1 MB."""
        return self._journal("small", 1 << 20)

    @functools.cached_property
    def ten(self) -> Path:
        """A run of a hundredth of the large one."""
        return self._journal("ten", self.big_bytes // 100)

    @functools.cached_property
    def middle(self) -> Path:
        """A tenth of the large run."""
        return self._journal("middle", self.big_bytes // 10)

    @functools.cached_property
    def big(self) -> Path:
        """The large run, 1 GB unless asked otherwise."""
        return self._journal("big", self.big_bytes)

    @functools.cached_property
    def short_records(self) -> Path:
        """A tenth of the large run in records of about 300 bytes."""
        path = self._directory("short") / "short.json"
        bodies = generate.short_bodies(self.seed)
        lines = generate.journal(seed=self.seed, size=self.big_bytes // 10, run_id="short", bodies=bodies)
        generate.write(path, lines)
        return path

    @functools.cached_property
    def huge_record(self) -> Path:
        """A run with one record of 50 MB."""
        path = self._directory("one") / "huge.json"
        generate.write(path, generate.huge_record(50 << 20, seed=self.seed))
        return path

    @functools.cached_property
    def runs(self) -> Path:
        """A directory of runs of 70 KB."""
        directory = self.directory / "many"
        generate.runs(directory, self.run_count, size=70_000, seed=self.seed)
        time.sleep(SETTLED)
        return directory

    @functools.cached_property
    def large_runs(self) -> Path:
        """A directory of runs of 2 MB."""
        directory = self.directory / "large"
        generate.runs(directory, self.large_count, size=2_000_000, seed=self.seed)
        time.sleep(SETTLED)
        return directory

    @functools.cached_property
    def library(self) -> Path:
        """A thousandth of the large run a thousand times; `search` puts words into them."""
        directory = self.directory / "library"
        generate.runs(directory, 1_000, size=self.big_bytes // 1_000, seed=self.seed)
        return directory

    @functools.cached_property
    def small_runs(self) -> Path:
        """A directory of very many runs of a few short records."""
        directory = self.directory / "swarm"
        generate.small_runs(directory, self.small_count, seed=self.seed)
        time.sleep(SETTLED)
        return directory

    @functools.cached_property
    def sessions(self) -> Path:
        """A directory of runs that are directories: manifest, request and log of a Rivumi run."""
        store = self._directory("sessions")
        first = make("12-terminal-completed", store)
        shutil.rmtree(first / "workspace", ignore_errors=True)
        for number in range(1, self.session_count):
            shutil.copytree(first, store / f"run-{number}")
        time.sleep(SETTLED)
        return store

    def _directory(self, name: str) -> Path:
        directory = self.directory / name
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return directory

    def _journal(self, name: str, size: int) -> Path:
        path = self._directory(name) / f"{name}.json"
        generate.write(path, generate.journal(seed=self.seed, size=size, run_id=name))
        return path

    def home(self, name: str) -> Path:
        """Give a fresh place for state, cache and config, so that no measurement warms another."""
        number = len(list(self.directory.glob(f"home-{name}-*")))
        return self._directory(f"home-{name}-{number}")
