"""Which directories are watched, how big they are, and who may read what lies in them."""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests import story
from tests.on_screen import settings, shown, until

from refold.app.main import RefoldApp
from refold.app.screens.directories import DirectoriesScreen
from refold.app.screens.runs import RunsScreen
from refold.core.store.exposure import is_exposed
from refold.core.store.roots import Root
from refold.core.store.sizes import Measured, measure


def test_a_directory_is_measured_step_by_step(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir(mode=0o700)
    for number in range(500):
        (tmp_path / "below" / str(number)).write_bytes(b"12")
    (tmp_path / "loop").symlink_to(tmp_path)
    steps = list(measure(tmp_path))
    assert len(steps) == 3
    assert [step.done for step in steps] == [False, False, True]
    last = steps[-1]
    assert (last.files, last.bytes, last.hidden) == (500, 1000, 0)
    assert last.free is not None
    assert last.mode == tmp_path.stat().st_mode & 0o777
    assert list(measure(tmp_path / "none")) == [Measured(hidden=1, done=True)]


def test_who_may_read_a_run(tmp_path: Path) -> None:
    run = tmp_path / "one.json"
    run.write_bytes(b"")
    for around, own, exposed in ((0o755, 0o644, True), (0o700, 0o644, False), (0o755, 0o600, False)):
        tmp_path.chmod(around)
        run.chmod(own)
        assert is_exposed(str(run)) == exposed
    assert not is_exposed(str(tmp_path / "none"))


async def test_the_dialog_and_the_flag_in_the_preview(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    runs.chmod(0o755)
    run = runs / "one.json"
    run.write_bytes(story.Writing("one", "hello").end("completed").data)
    run.chmod(0o644)
    roots = (Root(runs, "fisk-ai", "default"), Root(tmp_path / "none", "refold", "config"))
    held = msgspec.structs.replace(settings(tmp_path), roots=roots)
    screen = RunsScreen(held)
    async with RefoldApp(held, lambda: screen).run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: len(screen.listing.rows) == 1)
        await until(pilot, lambda: "others on this machine can read it" in "\n".join(shown(pilot.app)))
        await pilot.press("D")
        await until(pilot, lambda: isinstance(pilot.app.screen, DirectoriesScreen))
        await until(pilot, lambda: "1 run · " in "\n".join(shown(pilot.app)))
        said = "\n".join(shown(pilot.app))
        assert f"{run.stat().st_size} B in 1 file" in said
        assert "mode 0755" in said
        assert "chmod 700" in said
        assert "from the configuration" in said
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is screen)
