"""What tests of the screen need: settings without a home, a bounded wait, and the text that is shown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from rich.segment import Segment
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input

from refold.app.settings import Settings
from refold.app.widgets.prompt_bar import PromptBar

DEMO_TIME = datetime(2026, 7, 24, 12, 0, tzinfo=UTC)
"""The moment from which the runs of the demo are as old as they say."""


def settings(
    directory: Path,
    *,
    theme: str = "refold-dark",
    keymap: Mapping[str, str] | None = None,
    no_color: bool = False,
    ascii_only: bool = False,
) -> Settings:
    """Settings that point nowhere but into one directory."""
    return Settings(
        roots=(),
        state_dir=directory / "state",
        cache_dir=None,
        config_file=directory / "config.toml",
        theme=theme,
        keymap=keymap or {},
        no_color=no_color,
        ascii=ascii_only,
        utc=True,
        log_file=directory / "state" / "refold.log",
    )


async def until(pilot: Pilot[None], condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Let the app work until a condition holds.

    Raises:
        AssertionError: It does not hold in time; the screen is in the message.
    """
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain; screen:\n" + "\n".join(shown(pilot.app))
        await pilot.pause()
        await asyncio.sleep(0.005)
    await pilot.pause()


def shown(app: App[None]) -> list[str]:
    """The rows of the topmost screen as they are sent to the terminal, without styles."""
    return ["".join(segment.text for segment in row) for row in segments(app)]


def segments(app: App[None]) -> list[list[Segment]]:
    """The rows of the topmost screen with their styles, after every filter."""
    return [list(strip) for strip in app.screen._compositor.render_strips(app.size)]


async def type_into(pilot: Pilot[None], key: str, text: str) -> None:
    """Open a prompt of the dialog, put a text in the place of what stands in it, and accept."""
    await pilot.press(key)
    prompt = pilot.app.screen.query_one(PromptBar)
    await until(pilot, lambda: prompt.is_open)
    prompt.query_one(Input).value = text
    await pilot.press("enter")
    await until(pilot, lambda: not prompt.is_open)
