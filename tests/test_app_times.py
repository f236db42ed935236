"""Times stand in one zone wherever they stand, and a key changes it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import story
from tests.on_screen import settings, shown, until

from refold.app.main import RefoldApp
from refold.app.present.times import clock, told
from refold.app.screens.run import RunScreen
from refold.app.screens.runs import RunsScreen
from refold.core.store.roots import Root


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_a_recorded_time_in_another_zone() -> None:
    recorded = "2026-07-24T22:15:30.123456789Z"
    assert clock(recorded, "recorded") == clock(recorded, "utc") == recorded
    assert clock(recorded, "local") == "2026-07-25T07:15:30.123456789+09:00"
    assert clock("2026-07-24T22:15:30+02:00", "utc") == "2026-07-24T20:15:30Z"
    for odd in ("", "yesterday", "2026-07-24T22:15:30", "9999-12-31T23:59:59Z", "x" * 100):
        assert clock(odd, "local") == odd
    assert told(0, utc=True) == "times in UTC"
    assert told(0, utc=False) == "local time +09:00"


@given(st.text(max_size=70))
def test_any_text_is_no_trouble(text: str) -> None:
    clock(text, "local")


@pytest.mark.usefixtures("tokyo")
async def test_a_key_changes_the_zone_everywhere(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "one.json"
    run.parent.mkdir()
    run.write_bytes(story.Writing("one", "hello").end("completed").data)
    # Long ago: written as a date and a clock.
    os.utime(run, (1_700_000_000, 1_700_000_000))
    held = msgspec.structs.replace(settings(tmp_path), roots=(Root(run.parent, "fisk-ai", "default"),))
    screen = RunsScreen(held, now=lambda: 1_800_000_000.0)
    async with RefoldApp(held, lambda: screen).run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: len(screen.listing.rows) == 1)
        await until(pilot, lambda: "times in UTC" in shown(pilot.app)[0])
        await until(pilot, lambda: "created 2026-07-24 09:15" in "\n".join(shown(pilot.app)))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        await until(pilot, lambda: "2026-07-24T09:15:30.123456789Z" in "\n".join(shown(pilot.app)))
        await pilot.press("U")
        await until(pilot, lambda: "2026-07-24T18:15:30.123456789+09:00" in "\n".join(shown(pilot.app)))
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is screen)
        await until(pilot, lambda: "local time +09:00" in shown(pilot.app)[0])
        await until(pilot, lambda: "created 2026-07-24 18:15" in "\n".join(shown(pilot.app)))
