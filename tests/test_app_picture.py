"""The picture of a run is its screen as it stands: cursor, pane, theme and size; and nothing secret on it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from tests import run_story, story
from tests.on_screen import settings, shown, type_into, until
from tests.secret_story import secrets
from tests.test_app_export import check_svg, shown_in, words_of, write
from textual.pilot import Pilot

from refold.app import themes
from refold.app.cli import main
from refold.app.forking import notes_of
from refold.app.main import RefoldApp
from refold.app.picturing import _Pictured, picture
from refold.app.present.view import View
from refold.app.screens.export import ExportScreen, Stopped
from refold.app.screens.run import RunScreen
from refold.app.screens.run_pane import PaneName
from refold.app.screens.runs import RunsScreen
from refold.app.screens.standing import AS_PRINTED, Stand
from refold.app.settings import Settings
from refold.core.redact import Redactor
from refold.core.store.export import Source
from refold.core.store.reader import RunReader
from refold.core.store.roots import Root

TOKEN = "ghp_aB3dE6gH9jK2mN5pQ8sTuV1wX4yZ7bC0dF3h"
PANES: tuple[PaneName, ...] = get_args(PaneName)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return run_story.write(tmp_path / "runs" / "fix-add.json", run_story.fix_add())


def settings_for(run: Path, tmp_path: Path) -> Settings:
    """Settings that look into the directory of a run."""
    roots = (Root(run.parent, "fisk-ai", "config"),)
    return msgspec.structs.replace(settings(tmp_path / "own"), roots=roots)


async def exported(pilot: Pilot[None], out: Path) -> str:
    """Ask for the picture in the dialog, as a person does."""
    under = pilot.app.screen
    await pilot.press("e")
    await until(pilot, lambda: isinstance(pilot.app.screen, ExportScreen))
    dialog = pilot.app.screen
    assert isinstance(dialog, ExportScreen)
    while dialog.plan.format.name != "svg":
        await pilot.press("right")
    await type_into(pilot, "f", str(out))
    await until(pilot, lambda: dialog.plan.target == out)
    await pilot.press("enter")
    await until(pilot, lambda: pilot.app.screen is under, seconds=20)
    return out.read_text()


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_the_dialog_draws_the_screen_under_it(run: Path, tmp_path: Path, size: tuple[int, int]) -> None:
    chosen = settings_for(run, tmp_path)
    screen = RunScreen(run, settings=chosen, hint="fisk-ai")
    async with RefoldApp(chosen, lambda: screen).run_test(size=size) as pilot:
        await until(pilot, lambda: screen.reader is not None and screen.reader.complete)
        pilot.app.theme = themes.LIGHT.name
        await pilot.press("home", "right", "right", "right", "2")
        await until(pilot, lambda: "State after seq 3" in "\n".join(shown(pilot.app)))
        before = [row.rstrip() for row in shown(pilot.app)]
        cursor = screen.timeline.cursor
        svg = await exported(pilot, tmp_path / "screen.svg")
        check_svg(svg)
        assert screen.timeline.cursor == cursor
        drawn = [row.rstrip() for row in shown_in(svg)]
        assert drawn == [row for row in before if row.strip()]
        assert themes.LIGHT.background is not None
        assert themes.LIGHT.background.lower() in svg.lower()


async def test_from_the_list_each_run_gets_the_picture_of_its_screen(run: Path, tmp_path: Path) -> None:
    run_story.write(run.with_name("other.json"), run_story.fix_add())
    chosen = settings_for(run, tmp_path)
    async with RefoldApp(chosen, lambda: RunsScreen(chosen)).run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "fix-add" in "\n".join(shown(pilot.app)))
        svg = await exported(pilot, tmp_path / "screen.svg")
        said = "\n".join(shown_in(svg))
        assert "Conversation" in said
        assert "seq 9 / 9" in said


def picture_of(run: Path, own: Path, stand: Stand, *, on: bool) -> tuple[str, Redactor]:
    redactor = Redactor(on=on)
    with RunReader.open(run, hint="fisk-ai") as reader:
        reader.index_all()
        return picture(Source(reader, redactor), stand, settings(own)), redactor


@pytest.mark.parametrize("pane", PANES)
def test_no_pane_shows_a_secret(pane: PaneName, tmp_path: Path) -> None:
    every = secrets(7)[:24]
    run = write(tmp_path / "leaky.json", *(each.text for each in every))
    view = View(thinking=True, unfolded=True, scope="whole")
    told, hidden = 0, 0
    for row in (0, 1, 3, 9, 26):
        stand = AS_PRINTED._replace(row=row, pane=pane, view=view)
        svg, redactor = picture_of(run, tmp_path / "own", stand, on=True)
        check_svg(svg)
        words = words_of("\n".join(shown_in(svg)))
        assert [each for each in every if each.core in words] == []
        whole = re.sub(r"[\s│▌▐]+", "", "".join(shown_in(svg)))
        assert [each for each in every if each.core in whole] == []
        hidden += redactor.total
        kept, off = picture_of(run, tmp_path / "own", stand, on=False)
        told += sum(each.core in words_of("\n".join(shown_in(kept))) for each in every)
        assert not off.total
    assert hidden
    # The state names no text of a record, and bash tells of no change to a file.
    assert told or pane in {"state", "changes"}, "with the redaction off they are there"


def test_what_is_said_of_a_run_by_name_and_note_is_redacted_too(tmp_path: Path) -> None:
    run = tmp_path / f"{TOKEN}.json"
    run.write_bytes(story.Writing(TOKEN, "hello").turn("on").data)
    own = settings(tmp_path / "own")
    assert main(["note", str(run), f"the key is {TOKEN}"]) == 0
    svg, redactor = picture_of(run, tmp_path / "own", AS_PRINTED._replace(row=0), on=True)
    assert TOKEN not in svg
    assert TOKEN[4:20] not in svg
    assert redactor.counts["github token"] > 0
    assert notes_of(own).directory.is_relative_to(tmp_path)


def test_the_command_line_draws_the_screen_at_a_record(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seq, kind in ((1, "Meta"), (2, "Assistant")):
        assert main(["export", f"{run}@{seq}", "--format", "svg"]) == 0
        rows = shown_in(capsys.readouterr().out)
        assert any(f"seq {seq} /" in row for row in rows), rows
        assert any(f"{kind}  seq" in row for row in rows), rows
        assert max(map(len, rows)) == 120


def test_a_screen_that_ends_before_it_was_read_is_said_and_not_waited_for(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunScreen, "on_screen_resume", lambda screen: screen.app.exit(), raising=False)
    monkeypatch.setattr(_Pictured, "stands", lambda _: False)
    assert main(["export", str(run), "--format", "svg"]) != 0
    assert "the picture was not drawn" in capsys.readouterr().err


def test_whoever_stops_the_export_stops_the_drawing(run: Path, tmp_path: Path) -> None:
    def stopped(_: int) -> None:
        raise Stopped

    with RunReader.open(run, hint="fisk-ai") as reader:
        reader.index_all()
        with pytest.raises(Stopped):
            picture(Source(reader, Redactor(), watch=stopped), AS_PRINTED, settings(tmp_path / "own"))


def test_only_a_picture_imports_textual(run: Path) -> None:
    program = (
        "import sys; from refold.app.cli import main; main(sys.argv[1:]); print('textual' in sys.modules)"
    )
    for name, wanted in (("md", "False"), ("svg", "True")):
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                program,
                "export",
                str(run),
                "--format",
                name,
                "-o",
                str(run.parent.parent / name),
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert done.stdout.strip() == wanted
