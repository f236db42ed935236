"""A run is played in a real terminal by the real clock: it stops where it is told, and no byte changes."""

from __future__ import annotations

from pathlib import Path

from tests import run_story as story
from tests.terminal.program import environment, refold
from tests.terminal.terminal import Terminal


def test_a_run_is_played_to_a_breakpoint_and_to_its_end(tmp_path: Path) -> None:
    run = story.write(tmp_path / "fix-add.json", story.fix_add())
    before, looked = run.read_bytes(), run.stat()
    with Terminal(refold(f"{run}@1"), env=environment(tmp_path)) as terminal:
        terminal.wait("seq 1 / 9")
        terminal.press("b")
        terminal.wait(" breakpoints ")
        terminal.send(*"error:yes")
        terminal.press("enter")
        terminal.wait(lambda text: " breakpoints " not in text)
        terminal.press(*">" * 4)
        terminal.wait("16×")
        terminal.press("space")
        terminal.wait("■ error:yes at 6")
        terminal.press("space")
        terminal.wait("following")
        terminal.wait("seq 9 / 9")
        assert terminal.quit() == 0
    assert run.read_bytes() == before
    assert run.stat().st_mtime_ns == looked.st_mtime_ns
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["fix-add.json"]
