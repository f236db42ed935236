"""What leaves an open run by a key: the clipboard, an export, another program; and what is hidden of it."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import stat
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import cast

import msgspec
import pytest
from tests import story
from tests.on_screen import settings, shown, type_into, until
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

from refold.app import launch
from refold.app.cli import main
from refold.app.exporting import FORMATS
from refold.app.main import RefoldApp
from refold.app.outside import NoProgram, as_text, command_of, show_outside
from refold.app.present.copies import copies
from refold.app.present.export_plan import ExportPlan, plan_lines
from refold.app.present.landing import Landing
from refold.app.present.lens import Lens
from refold.app.screens.export import ExportScreen
from refold.app.screens.going_on import Chosen
from refold.app.screens.run import RunScreen
from refold.app.screens.runs import RunsScreen
from refold.app.screens.standing import AS_PRINTED
from refold.app.settings import Settings
from refold.app.shell_name import shell_name
from refold.core.store.bundle import open_bundle
from refold.core.store.reader import RunReader
from refold.core.store.roots import Root

TOKEN = "ghp_aB3dE6gH9jK2mN5pQ8sTuV1wX4yZ7bC0dF3h"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "runs" / "leaky.json"
    path.parent.mkdir()
    writing = story.Writing("leaky", "set the root password to hunter2").turn(f"use {TOKEN}", "bash:make")
    path.write_bytes(writing.results("all is well").end("completed").data)
    return path


@asynccontextmanager
async def opened(run: Path, chosen: Settings) -> AsyncIterator[tuple[Pilot[None], RunScreen]]:
    screen = RunScreen(run, settings=chosen, hint="fisk-ai")
    async with RefoldApp(chosen, lambda: screen).run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: screen.reader is not None and screen.reader.complete)
        await until(pilot, lambda: screen.item is not None)
        yield pilot, screen


def told(app: App[None]) -> str:
    return " ".join(note.message for note in app._notifications)


def clipboard(app: App[None]) -> str:
    return app.clipboard


async def test_copy_hides_secrets_and_another_key_sends_them(run: Path, tmp_path: Path) -> None:
    async with opened(run, settings(tmp_path / "own")) as (pilot, _):
        lines = run.read_text().split("\n")
        await pilot.press("y")
        await until(pilot, lambda: bool(clipboard(pilot.app)))
        assert clipboard(pilot.app) == lines[0].replace("hunter2", "[redacted: password]")
        await until(pilot, lambda: "^y sends the record as it is" in told(pilot.app))
        for _ in range(2):
            pilot.app.clear_notifications()
            await until(pilot, lambda: not told(pilot.app))
            await pilot.press("y")
            await until(pilot, lambda: "sends the record" in told(pilot.app))
            assert "hunter2" not in clipboard(pilot.app)
        await pilot.press("ctrl+y")
        await until(pilot, lambda: clipboard(pilot.app) == lines[0])
        await pilot.press("down", "y")
        await until(pilot, lambda: "[redacted: github token]" in clipboard(pilot.app))
        await pilot.press("ctrl+y")
        await until(pilot, lambda: clipboard(pilot.app) == lines[1])
        await pilot.press("end", "y")
        await until(pilot, lambda: clipboard(pilot.app) == lines[3])


async def test_what_commands_a_terminal_is_copied_only_when_it_is_asked_for(tmp_path: Path) -> None:
    run = tmp_path / "hostile.json"
    bad = b'{"evil \x1b]52;c;cm0gLXJm\x07'
    run.write_bytes(story.Writing("hostile", "x").data + bad + b"\n")
    async with opened(run, settings(tmp_path / "own")) as (pilot, _):
        await pilot.press("end", "y")
        await until(pilot, lambda: clipboard(pilot.app) == '{"evil ␛]52;c;cm0gLXJm␇')
        await until(pilot, lambda: "^y sends the record as it is" in told(pilot.app))
        await pilot.press("ctrl+y")
        await until(pilot, lambda: clipboard(pilot.app) == bad.decode())
        assert "It contains control characters" in told(pilot.app)


async def test_the_lens_hides_in_rows_and_panes_and_counts(run: Path, tmp_path: Path) -> None:
    async with opened(run, settings(tmp_path / "own")) as (pilot, screen):
        await until(pilot, lambda: "\n".join(shown(pilot.app)).count("hunter2") == 2)
        await pilot.press("v")
        await until(pilot, lambda: "2 secrets hidden (1 × " in "\n".join(shown(pilot.app)))
        await until(pilot, lambda: "hunter2" not in "\n".join(shown(pilot.app)))
        assert TOKEN not in "\n".join(shown(pilot.app))
        await pilot.press("3", "end")
        await until(pilot, lambda: screen.pane.open_pane == "conversation")
        await until(pilot, lambda: "use [redacted: github token]" in "\n".join(shown(pilot.app)))
        with run.open("ab") as file:
            file.write(
                story.Writing("x", "").turn(f"and {TOKEN} again").lines[1].replace(b'"seq":2', b'"seq":5')
            )
        await until(pilot, lambda: "3 secrets hidden" in "\n".join(shown(pilot.app)))
        await pilot.press("v", "1", "home")
        await until(pilot, lambda: "hunter2" in "\n".join(shown(pilot.app)))
        assert "hidden" not in "\n".join(shown(pilot.app))
    allowing = msgspec.structs.replace(settings(tmp_path / "own"), allow=("hunter*",))
    async with opened(run, allowing) as (pilot, _):
        await pilot.press("v", "home")
        await until(pilot, lambda: "2 secrets hidden (2 × github token)" in "\n".join(shown(pilot.app)))
        assert "hunter2" in "\n".join(shown(pilot.app))


async def test_a_count_that_is_begun_anew_ends_the_one_before(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops: list[Callable[[], bool]] = []
    gate = threading.Event()

    def held(lens: Lens, items: int, stop: Callable[[], bool]) -> None:
        stops.append(stop)
        gate.wait(20)

    async with opened(run, settings(tmp_path / "own")) as (pilot, screen):
        with monkeypatch.context() as patch:
            patch.setattr(Lens, "count", held)
            await pilot.press("v")
            await until(pilot, lambda: len(stops) == 1)
            assert not stops[0]()
            screen.lens_follows()
            await until(pilot, lambda: len(stops) == 2)
            assert [stop() for stop in stops] == [True, False]
        gate.set()
        await until(pilot, lambda: "2 secrets hidden (1 × " in "\n".join(shown(pilot.app)))


async def test_export_asks_and_writes(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with opened(run, settings(tmp_path / "own")) as (pilot, screen):
        await pilot.press("e")
        await until(pilot, lambda: isinstance(pilot.app.screen, ExportScreen))
        await until(pilot, lambda: "2 secrets will be hidden" in "\n".join(shown(pilot.app)))
        await until(pilot, lambda: str(tmp_path / "leaky.md") in "\n".join(shown(pilot.app)))
        await pilot.press("enter")
        await until(pilot, lambda: pilot.app.screen is screen)
        said = (tmp_path / "leaky.md").read_text()
        assert "[redacted: password]" in said
        assert "hunter2" not in said
        await until(pilot, lambda: "2 secrets were replaced" in told(pilot.app))
        # What is there is replaced only when that is said twice; the redaction can be switched off.
        await pilot.press("e")
        await until(pilot, lambda: isinstance(pilot.app.screen, ExportScreen))
        await pilot.press("x", "enter")
        await until(pilot, lambda: "already there: Enter once more" in "\n".join(shown(pilot.app)))
        assert (tmp_path / "leaky.md").read_text() == said
        await pilot.press("enter")
        await until(pilot, lambda: pilot.app.screen is screen)
        assert "hunter2" in (tmp_path / "leaky.md").read_text()


async def test_an_export_that_cannot_be_says_so_and_leaves_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent)
    held = msgspec.structs.replace(
        settings(tmp_path / "own"), roots=(Root(run.parent, "fisk-ai", "default"),)
    )
    async with opened(run, held) as (pilot, _):
        await pilot.press("e")
        await until(pilot, lambda: isinstance(pilot.app.screen, ExportScreen))
        dialog = pilot.app.screen
        assert isinstance(dialog, ExportScreen)
        # Never into a directory that holds runs.
        await until(pilot, lambda: dialog.plan.target == Path.home() / "leaky.md")
        for named, why in (
            (str(run), "this is the run itself"),
            (str(run.parent / "more.json"), "would be taken for one"),
            (str(tmp_path / "no" / "file.md"), "no such directory"),
        ):
            await type_into(pilot, "f", named)
            await pilot.press("enter")
            if named == str(run):
                await until(pilot, lambda: "already there" in dialog.plan.said)
                await pilot.press("enter")
            await until(pilot, lambda why=why: why in dialog.plan.said)  # type: ignore[misc]
        full = tmp_path / "full.md"
        real = os.write

        def failing(fd: int, data: bytes) -> int:
            if Path(f"/proc/self/fd/{fd}").readlink().is_relative_to(tmp_path):
                raise OSError(28, "No space left on device")
            return real(fd, data)

        await type_into(pilot, "f", str(full))
        monkeypatch.setattr(os, "write", failing)
        await pilot.press("enter")
        await until(pilot, lambda: "No space left on device" in dialog.plan.said)
        monkeypatch.undo()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]
        assert sorted(path.name for path in run.parent.iterdir()) == ["leaky.json"]
        await pilot.press("escape")


async def test_what_was_read_of_a_run_that_vanished_is_exported(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = run.read_bytes()
    async with opened(run, settings(tmp_path / "own")) as (pilot, screen):
        run.unlink()
        await until(pilot, lambda: "what was read stays on the screen" in "\n".join(shown(pilot.app)))
        await pilot.press("e")
        await until(pilot, lambda: isinstance(pilot.app.screen, ExportScreen))
        await pilot.press("left", "x", "enter")
        await until(pilot, lambda: pilot.app.screen is screen)
    assert open_bundle(tmp_path / "leaky.refold-bundle", into=tmp_path).run.read_bytes() == data


async def test_marked_runs_are_exported_together(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (run.parent / "other.json").write_bytes(story.Writing("other", "hello").end("completed").data)
    held = msgspec.structs.replace(
        settings(tmp_path / "own"), roots=(Root(run.parent, "fisk-ai", "default"),)
    )
    screen = RunsScreen(held)
    async with RefoldApp(held, lambda: screen).run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: len(screen.listing.rows) == 2)
        await pilot.press("space", "down", "space", "e")
        await until(pilot, lambda: isinstance(pilot.app.screen, ExportScreen))
        await until(pilot, lambda: "Export 2 runs" in "\n".join(shown(pilot.app)))
        await pilot.press("right", "enter")
        await until(pilot, lambda: pilot.app.screen is screen)
        assert {path.name for path in tmp_path.glob("*.html")} == {"leaky.html", "other.html"}
        await pilot.press("Y", "i")
        await until(pilot, lambda: clipboard(pilot.app) in {"leaky", "other"})


async def test_each_run_that_cannot_be_exported_is_named(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    for name in ("one", "two", "three", "four"):
        (runs / f"{name}.json").write_bytes(story.Writing(name, "hello").end("completed").data)
    gone = [str(runs / "one.json"), str(runs / "three.json")]
    for path in gone:
        Path(path).unlink()
    chosen = settings(tmp_path / "own")
    dialog = ExportScreen(
        tuple(Chosen(runs / f"{name}.json", "refold", chosen) for name in ("one", "two", "three", "four")),
        lambda run: RunReader.open(run.path, hint=run.hint),
        AS_PRINTED,
    )
    async with RefoldApp(chosen, lambda: cast("Screen[None]", dialog)).run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: dialog.plan.looked_at == 1 and "2 of 4" in "\n".join(shown(pilot.app)))
        said = "\n".join(shown(pilot.app))
        assert "2 of 4 could not be looked at" in said
        assert [each.partition(": No such")[0] for each in dialog.plan.unread] == gone
        assert "none found in what could be looked at" in said
        assert "nothing looks like a secret" not in said
        await type_into(pilot, "f", str(tmp_path))
        await pilot.press("enter")
        await until(pilot, lambda: "2 files written; 2 of 4 could" in "\n".join(shown(pilot.app)))
        said = " ".join("\n".join(shown(pilot.app)).split())
        assert [each.partition(": No such")[0] for each in dialog.plan.unwritten] == gone
        assert said.count("No such file") == 2
        assert sorted(path.name for path in tmp_path.glob("*.md")) == ["four.md", "two.md"]


async def test_another_format_gives_another_ending(run: Path, tmp_path: Path) -> None:
    async with opened(run, settings(tmp_path / "own")) as (pilot, _):
        await pilot.press("e")
        await until(pilot, lambda: isinstance(pilot.app.screen, ExportScreen))
        dialog = pilot.app.screen
        assert isinstance(dialog, ExportScreen)
        await type_into(pilot, "f", str(tmp_path / "mine.md"))
        await until(pilot, lambda: dialog.plan.target == tmp_path / "mine.md")
        for name in ("mine.html", "mine.export.json", "mine.jsonl"):
            await pilot.press("right")
            assert dialog.plan.target == tmp_path / name
            assert not dialog.plan.said
        await type_into(pilot, "f", str(tmp_path / "mine.txt"))
        await until(pilot, lambda: dialog.plan.target == tmp_path / "mine.txt")
        await pilot.press("left")
        assert dialog.plan.target == tmp_path / "mine.txt"
        assert dialog.plan.said == "mine.txt keeps its name; what is in it will be json"
        await type_into(pilot, "f", str(tmp_path / "mine.html"))
        await until(pilot, lambda: dialog.plan.said == "mine.html is called html; what is in it will be json")
        await pilot.press("escape")


async def test_the_dialog_asks_the_file_system_aside(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []
    async with opened(run, settings(tmp_path / "own")) as (pilot, screen):
        loop = threading.get_ident()

        def watch(name: str) -> None:
            real = getattr(Path, name)

            def watched(*arguments: object, **named: object) -> object:
                if threading.get_ident() == loop and "export" in sys._getframe(1).f_code.co_filename:
                    asked.append(name)
                return real(*arguments, **named)

            monkeypatch.setattr(Path, name, watched)

        for name in ("exists", "is_dir", "stat", "resolve"):
            watch(name)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(pilot.app.screen, ExportScreen))
        await type_into(pilot, "f", str(tmp_path))
        await pilot.press("enter")
        await until(pilot, lambda: pilot.app.screen is screen)
        assert (tmp_path / "leaky.md").exists()
    assert asked == []


def test_a_guess_is_said_as_one() -> None:
    plan = ExportPlan(("a", "b"), FORMATS[0], Path("/x"), redact=True, hidden=Counter(), looked_at=0.024)

    def said(plan: ExportPlan) -> str:
        return "\n".join("".join(cell.text for cell in line) for line in plan_lines(plan, 200))

    assert "none found so far, 2% looked at" in said(plan)
    assert "none found so far, 99% looked at" in said(plan._replace(looked_at=0.999))
    assert "nothing looks like a secret" in said(plan._replace(looked_at=1.0))
    unread = said(plan._replace(looked_at=1.0, unread=("b is gone",)))
    assert "nothing looks like a secret" not in unread
    assert "1 of 2 could not be looked at:\nb is gone" in unread


async def test_what_a_run_is_called_by_is_copied(run: Path, tmp_path: Path) -> None:
    async with opened(run, settings(tmp_path / "own")) as (pilot, _):
        await pilot.press("down")
        for key, text in (
            ("i", "leaky"),
            ("p", str(run)),
            ("l", f"{run}@2"),
            ("r", f"refold resume {run}"),
        ):
            await pilot.press("Y")
            await until(pilot, lambda: "deep link" in "\n".join(shown(pilot.app)))
            await pilot.press(key)
            await until(pilot, lambda text=text: clipboard(pilot.app) == text)  # type: ignore[misc]


def test_the_command_names_a_run_so_that_it_is_found_again(tmp_path: Path) -> None:
    chosen = settings(tmp_path / "own")
    path = tmp_path / "a b.json"
    named = [copy.text for copy in copies(path, None, chosen)]
    assert named == ["a b", str(path), f"'{path}'", f"refold resume '{path}'"]
    known = msgspec.structs.replace(chosen, roots=(Root(tmp_path, "refold", "default"),))
    (tmp_path / "a-b.json").touch()
    # No command takes this for an id.
    assert [copy.text for copy in copies(path, None, known)] == named
    assert copies(tmp_path / "a-b.json", Landing(None, 7), known)[2:] == (
        ("link", "deep link", "a-b@#7"),
        ("resume", "resume command", "refold resume a-b"),
    )
    # Directories of the demo and of --root are looked into by no other command.
    for origin in ("demo", "--root"):
        here = msgspec.structs.replace(chosen, roots=(Root(tmp_path, "refold", origin),))
        assert copies(tmp_path / "a-b.json", None, here)[3].text == f"refold resume {tmp_path / 'a-b.json'}"


def test_an_id_that_two_runs_have_names_neither(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = {origin: tmp_path / origin for origin in ("default", "config", "demo")}
    for place in places.values():
        place.mkdir()
    roots = tuple(Root(place, "fisk-ai", origin) for origin, place in places.items())
    chosen = msgspec.structs.replace(settings(tmp_path / "own"), roots=roots)
    ours, other, of_demo = (place / "one.json" for place in places.values())
    for path in (ours, of_demo):
        path.write_bytes(story.Writing("one", "hello").turn("look").data)
    # No command looks into the directories of the demo by itself.
    assert shell_name(ours, chosen) == "one"
    assert shell_name(of_demo, chosen) == str(of_demo)
    other.write_bytes(ours.read_bytes())
    for path in (ours, other):
        assert shell_name(path, chosen) == str(path)
        for copy in copies(path, Landing(2), chosen)[2:]:
            assert str(path) in copy.text
        assert main(["show", shell_name(path, chosen)]) == 0
    both = ["--only", "--root", str(ours.parent), "--root", str(other.parent)]
    assert main([*both, "show", "one"]) != 0
    assert "names 2 runs" in capsys.readouterr().err
    ours.unlink()
    assert shell_name(other, chosen) == "one"
    other.unlink()
    other.with_suffix("").mkdir()
    (other.with_suffix("") / "events.jsonl").touch()
    other.write_bytes(of_demo.read_bytes())
    # A journal and a run directory of one id beside each other.
    assert shell_name(other, chosen) == str(other)


@pytest.mark.parametrize("name", ["away", "it's a", "-x", "a@2"])
@pytest.mark.parametrize("known", [True, False])
def test_every_link_opens(
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    known: bool,
) -> None:
    path = tmp_path / f"{name}.json"
    path.write_bytes(story.Writing("away", "hello").turn("look").data)
    held = settings(tmp_path / "own")
    if known:
        held = msgspec.structs.replace(held, roots=(Root(tmp_path, "fisk-ai", "default"),))
    roots = ["--root", str(tmp_path), "--only"] if known else []
    for at, row in ((Landing(2), 2), (Landing(None, 1), 1), (None, None)):
        (place,) = (copy.text for copy in copies(path, at, held) if copy.name == "link")
        assert main([*roots, "show", *shlex.split(place), "--json"]) == 0
        rows = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
        assert [each["line"] for each in rows] == ([row] if row is not None else [1, 2])


def test_a_record_in_another_program(tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = tmp_path / "program"
    script.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        f"open({str(told)!r}, 'w').write(json.dumps([sys.argv[1:], open(sys.argv[-1]).read(),"
        " os.stat(sys.argv[-1]).st_mode, os.stat(os.path.dirname(sys.argv[-1])).st_mode]))\n"
    )
    script.chmod(0o700)
    chosen = msgspec.structs.replace(
        settings(tmp_path / "own"), editor=f"'{script}' --wait 'a b'", pager=str(script)
    )
    raw = b'{"a":"\\u001b[2J \xc3\xa9","b":[1.50]}'
    assert show_outside("editor", "run-7", as_text(raw), chosen, nullcontext).fine
    arguments, text, mode, directory = json.loads(told.read_text())
    assert arguments[:3] == ["--wait", "a b", "--"]
    assert Path(arguments[3]).name == "run-7.json"
    assert Path(arguments[3]).is_absolute()
    assert json.loads(text) == {"a": "\x1b[2J é", "b": [1.5]}
    assert stat.S_IMODE(mode) == 0o400
    assert stat.S_IMODE(directory) == 0o700
    assert not Path(arguments[3]).parent.exists()
    assert show_outside("pager", "../../x", as_text(b"{torn \x1b]0;x\x07"), chosen, nullcontext).fine
    arguments, text, _, _ = json.loads(told.read_text())
    assert Path(arguments[1]).name == "record.json"
    assert text == "{torn ␛]0;x␇\n"


def test_a_program_that_is_none(tmp_path: Path) -> None:
    chosen = settings(tmp_path / "own")
    with pytest.raises(NoProgram, match="EDITOR is not set"):
        command_of("editor", chosen)
    with pytest.raises(NoProgram, match="No closing quotation"):
        command_of("editor", msgspec.structs.replace(chosen, editor="vim '"))
    missing = msgspec.structs.replace(chosen, editor="/no/such/editor")
    ended = show_outside("editor", "x", "{}", missing, nullcontext)
    assert not ended.fine
    assert "was not started" in ended.sentence
    failing = msgspec.structs.replace(chosen, editor="false")
    assert show_outside("editor", "x", "{}", failing, nullcontext).sentence == "ended with exit code 1"


def test_the_copy_is_gone_before_a_key_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[list[Path]] = []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(launch, "_await_enter", lambda: left.append(list(tmp_path.iterdir())))
    failing = msgspec.structs.replace(settings(tmp_path), editor="false")
    show_outside("editor", "x", "{}", failing, nullcontext)
    assert left == [[]]


async def test_an_editor_that_is_not_set_is_said(run: Path, tmp_path: Path) -> None:
    async with opened(run, settings(tmp_path / "own")) as (pilot, _):
        await pilot.press("O")
        await until(pilot, lambda: "EDITOR is not set" in "\n".join(shown(pilot.app)))
        await asyncio.sleep(0)
