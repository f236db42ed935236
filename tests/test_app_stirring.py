"""A file that stirs ends a wait at once; where nothing is reported, the time does."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from tests import generate

from refold.app.screens import run_file
from refold.app.stirring import Stirring
from refold.core.store.reader import RunReader

LONG = 20.0
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system reports nothing")


async def ends(stirring: Stirring) -> bool:
    """Say whether a long wait ends before its time."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await stirring.wait(LONG)
    return loop.time() - began < LONG / 2


def descriptors() -> set[str]:
    """What this process has open."""
    return {path.name for path in Path("/proc/self/fd").iterdir()}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    generate.write(path, generate.journal(records=6, ending="crashed"))
    return path


async def test_an_append_a_new_mode_a_replacement_and_a_removal_are_reported(run: Path) -> None:
    stirring = Stirring(run)
    try:
        assert stirring.told
        for stir in (
            lambda: run.open("ab").write(b"x"),
            lambda: run.chmod(0o400),
            lambda: run.write_bytes(b""),
            run.unlink,
        ):
            stir()
            assert await ends(stirring)
    finally:
        stirring.close()


async def test_what_is_replaced_inside_a_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "new").write_text("x")
    stirring = Stirring(tmp_path)
    try:
        (tmp_path / "new").replace(tmp_path / "session.json")
        assert await ends(stirring)
    finally:
        stirring.close()


async def test_silence_ends_with_the_time_and_a_missing_path_is_no_error(run: Path) -> None:
    for path in (run, run.with_name("missing")):
        stirring = Stirring(path)
        await stirring.wait(0.01)
        stirring.close()
        stirring.close()
    assert not stirring.told


async def test_no_descriptor_is_left(run: Path) -> None:
    before = descriptors()
    for _ in range(3):
        events = run_file.follow(lambda: RunReader.open(run))
        assert isinstance(await anext(events), run_file.Opened)
        assert isinstance(await anext(events), run_file.Read)
        await events.aclose()  # type: ignore[attr-defined]

    assert descriptors() == before


async def test_an_open_run_reads_an_append_before_it_would_look(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_file, "POLL", LONG)
    events = run_file.follow(lambda: RunReader.open(run))
    opened = await anext(events)
    assert isinstance(opened, run_file.Opened)
    while await anext(events) != run_file.Read(finished=True):
        pass
    items = opened.reader.timeline.items
    with run.open("ab") as file:
        file.write(list(generate.journal(records=3, seed=2))[1])

    assert await asyncio.wait_for(anext(events), LONG / 2) == run_file.Read(finished=True)
    assert opened.reader.timeline.items == items + 1
    await events.aclose()  # type: ignore[attr-defined]
