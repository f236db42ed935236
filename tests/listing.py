"""Runs on disk and the list of them, for the tests of the catalog."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from tests import generate

from refold.core.store.catalog import Catalog, Item, Root
from refold.core.summary import RunSummary

OLD = 1_700_000_000


def write_run(directory: Path, run_id: str, *, age: int = 0, **how: object) -> Path:
    """Write a small run whose mtime lies `age` seconds before a fixed time."""
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    path = directory / f"{run_id}.json"
    if "size" not in how:
        how.setdefault("records", 3)
    generate.write(path, generate.journal(run_id=run_id, **how))  # type: ignore[arg-type]
    os.utime(path, (OLD - age, OLD - age))
    return path


def catalog(*directories: Path, cache: Path | None = None) -> Catalog:
    return Catalog([Root(directory, "refold", "--root") for directory in directories], cache=cache)


def rows(items: Iterator[Item]) -> dict[str, RunSummary]:
    return {item.path: item for item in items if isinstance(item, RunSummary)}


def ids(items: Iterator[Item]) -> list[str]:
    return [item.id for item in items if isinstance(item, RunSummary) and item.complete]


def listed(*directories: Path, cache: Path | None = None) -> dict[str, RunSummary]:
    found = catalog(*directories, cache=cache)
    told = rows(found.scan())
    found.close()
    return told


def settle(*directories: Path) -> None:
    """Wait until what was written just now may be remembered."""
    newest = max(path.lstat().st_ctime for directory in directories for path in directory.iterdir())
    time.sleep(max(0.0, newest + 0.12 - time.time()))
