"""Rows that are painted before the screen is there: the same as the screen's, and never left behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyte
import pytest
from tests import generate, run_story, session_story
from tests.terminal import wire
from tests.terminal.program import environment, refold
from tests.terminal.terminal import Terminal

from refold.app import settings as settings_of
from refold.app.first_rows import ENTER, painting
from refold.app.present.run_room import room_of
from refold.app.safe import width
from refold.app.settings import Settings, terminal_size
from refold.core.store.reader import RunReader

SIZES = [(60, 20), (80, 24), (120, 40), (200, 60), (99, 21), (100, 31), (41, 9)]
_DRAWS = re.compile(r"\x1b\[[\d;]*[A-Za-z]\Z")
_HEX = re.compile("[0-9a-f]{6}")
TAKEN = b"\x1b[?7l"
LEAVE = b"\x1b[?1049l"
STUCK = (
    "import sys, time, refold.app.cli_screen as screen\n"
    "def wait(*_): {}\n"
    "screen.import_without = wait\n"
    "from refold.app.cli import main\n"
    "sys.exit(main())\n"
)
"""The program, held where its rows are painted and its screen is not there."""


def ended(path: Path) -> Path:
    generate.write(path, generate.journal(seed=5, size=20_000))
    return path


def going(path: Path) -> Path:
    return run_story.write(path, run_story.fix_add())


def hostile(path: Path) -> Path:
    return run_story.write(path, run_story.hostile())


def damaged(path: Path) -> Path:
    return run_story.write(path, run_story.damaged())


def with_lanes(path: Path) -> Path:
    generate.write(path, generate.journal(seed=4, size=100_000, ending="crashed"))
    return path


def session(path: Path) -> Path:
    run = session_story.begin(session_story.store(path.parent))
    session_story.ask(run)
    session_story.start(run)
    run.close()
    return run.directory


def looks(home: Path, **more: str) -> Settings:
    return settings_of.load(environ=environment(home, **more))


def drawn(text: str, columns: int, rows: int) -> pyte.Screen:
    """What a terminal shows of a text."""
    screen = pyte.Screen(columns, rows)
    pyte.Stream(screen).feed(text)
    return screen


def first_drawing(sent: bytes, columns: int, rows: int) -> pyte.Screen:
    """What stands on the screen once its last row was drawn for the first time, its colours too."""
    screen = pyte.Screen(columns, rows)
    stream = pyte.Stream(screen)
    for kind, value in wire.tokens(sent[sent.index(TAKEN) :]):
        if kind in {"text", "control"} or _DRAWS.match(value):
            stream.feed(value)
            if screen.display[-1].strip():
                return screen
    raise AssertionError("nothing was drawn")


def cells(screen: pyte.Screen, columns: int, rows: int) -> list[list[Seen]]:
    """What is seen of the cells of the timeline, without the column of its scroll bar."""
    room = room_of(columns, rows)
    lines = range(room.top, room.top + room.height)
    return [[seen(screen.buffer[y][x]) for x in range(room.width - 1)] for y in lines]


def seen(char: pyte.screens.Char) -> Seen:
    """A cell as the eye has it: a blank has no colour of its own."""
    blank = char.data == " " and not char.reverse
    ground = f"{char.reverse} {char.underscore} {not blank and char.bold}"
    return Seen(char.data, ground, channels(char.bg) + (() if blank else channels(char.fg)))


def channels(name: str) -> tuple[int, ...]:
    """A colour as numbers; one of the terminal's own as that of its name."""
    if _HEX.fullmatch(name):
        return tuple(int(name[at : at + 2], 16) for at in (0, 2, 4))
    return tuple(name.encode())


def unlike(found: list[list[Seen]], wanted: list[list[Seen]]) -> list[tuple[Seen, Seen]]:
    """The cells that differ: Textual mixes some colours from numbers with a point, and is off by one bit."""
    pairs = [pair for rows in zip(found, wanted, strict=True) for pair in zip(*rows, strict=True)]
    return [(one, other) for one, other in pairs if not alike(one, other)]


def alike(one: Seen, other: Seen) -> bool:
    same = one[:2] == other[:2] and len(one.colours) == len(other.colours)
    return same and all(abs(a - b) <= 1 for a, b in zip(one.colours, other.colours, strict=True))


class Seen(NamedTuple):
    text: str
    weight: str
    colours: tuple[int, ...]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("make", [ended, going, with_lanes])
def test_they_are_the_rows_that_the_screen_draws(
    make: Callable[[Path], Path], size: tuple[int, int], tmp_path: Path
) -> None:
    path = make(tmp_path / "run.json")
    columns, rows = size
    with RunReader.open(path) as reader:
        early = drawn(painting(reader, looks(tmp_path), columns, rows), columns, rows)
    with Terminal(refold("open", path), columns=columns, rows=rows, env=environment(tmp_path)) as terminal:
        terminal.wait(lambda screen: "├" in screen or "●" in screen or "◆" in screen)
        assert terminal.sent.count(ENTER.encode()) == 1
        terminal.settle(0.2)
        later = first_drawing(bytes(terminal.sent), columns, rows)
        assert terminal.quit() == 0
        assert terminal.sent.count(LEAVE) == 1
    found, wanted = cells(early, columns, rows), cells(later, columns, rows)
    assert [row_text(row) for row in found] == [row_text(row) for row in wanted]
    assert unlike(found, wanted) == []


def row_text(row: list[Seen]) -> str:
    return "".join(one.text for one in row).rstrip()


@pytest.mark.parametrize(
    ("theme", "more"),
    [
        ("refold-light", {}),
        ("refold-contrast", {}),
        ("refold-ansi", {}),
        ("refold-dark", {"NO_COLOR": "1"}),
        ("refold-dark", {"LC_ALL": "C"}),
    ],
)
@pytest.mark.parametrize("make", [hostile, damaged])
def test_they_look_as_the_screen_does(
    make: Callable[[Path], Path], theme: str, more: dict[str, str], tmp_path: Path
) -> None:
    path = make(tmp_path / "run.json")
    place = tmp_path / "config" / "refold"
    place.mkdir(parents=True)
    (place / "config.toml").write_text(f'theme = "{theme}"\n', encoding="utf-8")
    with RunReader.open(path) as reader:
        early = drawn(painting(reader, looks(tmp_path, **more), 120, 40), 120, 40)
    with Terminal(refold("open", path), env=environment(tmp_path, **more)) as terminal:
        terminal.wait(lambda screen: "seq" in screen)
        terminal.settle(0.2)
        later = first_drawing(bytes(terminal.sent), 120, 40)
    assert unlike(cells(early, 120, 40), cells(later, 120, 40)) == []


@pytest.mark.parametrize(("ending", "shown"), [("completed", "first"), ("crashed", "last")])
def test_of_a_long_run_only_what_is_shown_is_read(
    ending: generate.Ending, shown: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.json"
    generate.write(path, generate.journal(seed=4, size=4_000_000, ending=ending))
    with RunReader.open(path) as reader:
        early = drawn(painting(reader, looks(tmp_path), 120, 40), 120, 40)
        assert reader.progress < 0.2
    rows = [row_text(row) for row in cells(early, 120, 40)]
    rows = [row for row in rows if row]
    assert len(rows) > 3
    assert rows[0].startswith("▌   1┤") == (shown == "first")
    assert rows[-1].startswith("▌") == (shown == "last")


def test_of_dense_garbage_a_few_lines_are_enough(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(b"{}\n" * 1_000_000)
    with RunReader.open(path) as reader:
        window = reader.tail_timeline()
        assert 100 < window.items <= 400
        assert window.span(window.items - 1).end == reader.size - 1
    path.write_bytes(b"".join(run_story.fix_add()))
    with RunReader.open(path) as reader:
        whole = reader.index_all()
        window = reader.tail_timeline()
        assert [window.span(i)[:2] for i in range(window.items)] == [
            whole.span(i)[:2] for i in range(whole.items)
        ]


def test_nothing_of_the_toolkit_is_needed_for_them(tmp_path: Path) -> None:
    path = going(tmp_path / "run.json")
    code = (
        "import sys\nfrom pathlib import Path\nfrom refold.app.first_rows import painting\n"
        "from refold.app.settings import load\nfrom refold.core.store.reader import RunReader\n"
        f"with RunReader.open(Path({str(path)!r})) as reader:\n"
        "    assert 'read_file' in painting(reader, load(), 120, 40)\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules} & {'textual', 'rich', 'asyncio'}))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_before_the_screen_is_there_gives_the_terminal_back(number: int, tmp_path: Path) -> None:
    path = going(tmp_path / "run.json")
    with held(path, tmp_path, "time.sleep(600)") as terminal:
        terminal.shows_early = True
        terminal.wait("read_file")
        terminal.signal(number)
        code = terminal.ended()
        assert code == 128 + number
        assert bytes(terminal.sent).endswith(b"\x1b[?25h" + LEAVE)


def test_a_terminal_is_given_back_before_the_program_stops(tmp_path: Path) -> None:
    path = going(tmp_path / "run.json")
    shell = [
        "/bin/sh",
        "-i",
        "-c",
        'set -m; "$0" -c "$1" open "$2"; echo "stopped with $?"; fg >/dev/null; echo "ended with $?"',
        sys.executable,
        STUCK.format("time.sleep(2)"),
        str(path),
    ]
    with Terminal(shell, env=environment(tmp_path)) as terminal:
        terminal.shows_early = True
        terminal.wait("read_file")
        terminal.shows_early = False
        terminal.send("\x1a")
        terminal.wait("stopped with", limit=60)
        before = bytes(terminal.sent).partition(b"stopped with")[0]
        assert before.count(ENTER.encode()) == before.count(LEAVE) == 1
        assert before.index(TAKEN) < before.index(LEAVE)
        terminal.wait("seq", limit=60)
        terminal.settle(0.3)
        terminal.send("q")
        terminal.wait("ended with 0", limit=60)


def test_a_screen_that_cannot_be_made_gives_the_terminal_back(tmp_path: Path) -> None:
    path = going(tmp_path / "run.json")
    with held(path, tmp_path, "raise OSError(28, 'No space left on device')") as terminal:
        assert terminal.ended() != 0
        assert b"\x1b[?25h" + LEAVE in terminal.sent


def held(path: Path, home: Path, doing: str) -> Terminal:
    command = [sys.executable, "-c", STUCK.format(doing), "open", str(path)]
    return Terminal(command, env=environment(home))


def test_nothing_is_painted_where_the_screen_will_look_otherwise(tmp_path: Path) -> None:
    path = going(tmp_path / "run.json")
    with RunReader.open(path) as reader:
        assert painting(reader, looks(tmp_path), 120, 40)
    for more in ({"TEXTUAL_DRIVER": "x:WebDriver"},):
        with RunReader.open(path) as reader:
            assert painting(reader, looks(tmp_path, **more), 120, 40) == ""
    place = tmp_path / "config" / "refold"
    place.mkdir(parents=True)
    (place / "config.toml").write_text('theme = "nord"\n', encoding="utf-8")
    with RunReader.open(path) as reader:
        assert painting(reader, looks(tmp_path), 120, 40) == ""


def test_nothing_is_painted_of_a_run_without_records(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(b"")
    with RunReader.open(path) as reader:
        assert painting(reader, looks(tmp_path), 120, 40) == ""


@pytest.mark.parametrize("columns", [1, 2, 3, 12])
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_the_smallest_terminal_holds_what_is_painted(columns: int, rows: int, tmp_path: Path) -> None:
    with RunReader.open(hostile(tmp_path / "run.json")) as reader:
        data = painting(reader, looks(tmp_path), columns, rows)
    drawn_rows = [
        "".join(value for kind, value in wire.tokens(piece.encode()) if kind == "text")
        for piece in re.split(r"\x1b\[\d+;1H", data)[1:]
    ]
    assert [width(row) for row in drawn_rows] == [columns] * rows


def test_a_place_that_is_asked_for_is_left_to_the_screen(tmp_path: Path) -> None:
    path = going(tmp_path / "run.json")
    with Terminal(refold("open", f"{path}@3"), env=environment(tmp_path)) as terminal:
        terminal.wait("read_file")
        assert bytes(terminal.sent).startswith(ENTER.encode() + b"\x1b[?1000h")
        assert terminal.quit() == 0


def test_keys_that_come_before_the_screen_do_not_harm(tmp_path: Path) -> None:
    path = going(tmp_path / "run.json")
    with Terminal(refold("open", path), env=environment(tmp_path)) as terminal:
        terminal.shows_early = True
        terminal.wait("read_file")
        terminal.send("j", "enter")
        terminal.shows_early = False
        terminal.wait("seq")
        terminal.settle(0.3)
        assert terminal.quit() == 0


def test_nothing_is_painted_in_the_background(tmp_path: Path) -> None:
    path = going(tmp_path / "run.json")
    shell = ["/bin/sh", "-i", "-c", 'set -m; "$0" -c "$1" open "$2" & sleep 3; kill -KILL $!; echo "behind"']
    command = [*shell, sys.executable, STUCK.format("time.sleep(600)"), str(path)]
    with Terminal(command, env=environment(tmp_path)) as terminal:
        terminal.wait("behind", limit=60)
        assert ENTER.encode() not in terminal.sent


def test_a_signal_that_was_swallowed_is_heeded_by_the_screen(tmp_path: Path) -> None:
    path = going(tmp_path / "run.json")
    doing = (
        "\n    class Gone:\n        def __del__(self): signal.raise_signal(signal.SIGTERM)\n"
        "    import signal\n    Gone()"
    )
    with held(path, tmp_path, doing) as terminal:
        assert terminal.ended() == 128 + signal.SIGTERM
        assert terminal.sent.count(ENTER.encode()) == terminal.sent.count(LEAVE) == 1
        assert TAKEN in terminal.sent


@pytest.mark.parametrize("number", ["100000", "99999999999999999999"])
@pytest.mark.parametrize("variable", ["COLUMNS", "LINES"])
def test_a_size_that_nobody_has_does_no_harm(variable: str, number: str, tmp_path: Path) -> None:
    path = going(tmp_path / "run.json")
    with Terminal(refold("open", path), env=environment(tmp_path, **{variable: number})) as terminal:
        terminal.arrival(" refold ", limit=120)
        terminal.send("q")
        assert terminal.ended(120) == 0


@pytest.mark.parametrize(
    ("said", "size"),
    [
        ({"COLUMNS": "70", "LINES": "20"}, (70, 20)),
        ({"COLUMNS": "70", "LINES": "0"}, (70, 24)),
        ({"COLUMNS": "x"}, (80, 24)),
    ],
)
def test_the_size_is_what_the_toolkit_takes(
    said: dict[str, str], size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_terminal(number: int) -> object:
        raise OSError(number)

    monkeypatch.setattr("os.get_terminal_size", no_terminal)
    assert terminal_size(said) == size
