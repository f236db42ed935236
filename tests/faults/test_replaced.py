"""The directory of the runs gives way to something else while it is listed, and comes back (rows 25, 28)."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.home import screen, store


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        # The name of a socket is short: it is bound from within.
        here = os.open(path.parent, os.O_RDONLY)
        try:
            made.bind(f"/proc/self/fd/{here}/{path.name}")
        finally:
            os.close(here)


MADE: dict[str, Callable[[Path], object]] = {
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a file": lambda path: path.write_text("no directory"),
    "a pipe": os.mkfifo,
    "a socket": _socket,
}
LOOKS = ("enter", "1", "escape", "e", "escape", "d", "escape", "f", "escape", "x", "escape", "X", "escape")


@pytest.mark.parametrize("kind", MADE)
def test_another_thing_in_the_place_of_the_runs(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    runs = store(place)
    before = {path.name: path.read_bytes() for path in runs.iterdir()}
    with screen(place) as terminal:
        terminal.wait("3 runs")
        runs.rename(place / "away")
        MADE[kind](runs)
        terminal.wait("0 runs")
        terminal.press(*LOOKS, "ctrl+f", *"ledger", "enter", "escape", "escape", settle=0.05)
        assert terminal.alive
        runs.unlink()
        (place / "away").rename(runs)
        terminal.wait("3 runs")
        terminal.press("ctrl+q")
        assert terminal.ended() == 0
    assert not (place / "home" / "state" / "refold" / "refold.log").exists()
    assert {path.name: path.read_bytes() for path in runs.iterdir()} == before
