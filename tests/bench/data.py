"""The generated journals that the measurements read; made once a run, in a directory of its own."""

from __future__ import annotations

import functools
from pathlib import Path

from tests import generate


class Data:
    """Journals by size; each is written when first asked for."""

    def __init__(self, directory: Path, *, big: int, runs: int, seed: int) -> None:
        """Keep everything under `directory`; `big` is the size of the large run, `runs` their number."""
        self.directory = directory
        self.big_bytes = big
        self.run_count = runs
        self.seed = seed

    @functools.cached_property
    def small(self) -> Path:
        """A run of 1 MB."""
        return self._journal("small", 1 << 20)

    @functools.cached_property
    def middle(self) -> Path:
        """A tenth of the large run."""
        return self._journal("middle", self.big_bytes // 10)

    @functools.cached_property
    def big(self) -> Path:
        """The large run, 1 GB unless asked otherwise."""
        return self._journal("big", self.big_bytes)

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
        return directory

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
