"""Hostile text in every field of every screen, while keys are pressed on each (design/safety.md 5: G11, G12).

Runs of every format, conversations, notes and a trash say what attacks a terminal or reads as markup. Each
session walks to the screens in an order of its own and presses keys there; whatever arrives at the pty is
taken apart. No query of a terminal was answered, no title was set, no fault is in the log.
"""

from __future__ import annotations

import asyncio
import functools
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.cells import cell_len
from tests import generate
from tests.conversation_story import chat
from tests.faults.goals import Goal, Share, Work, carry_out, shuffled
from tests.faults.victims import scratch
from tests.rivumi_cases import CASES, make
from tests.terminal import hostile, wire
from tests.terminal.payloads import PAYLOADS
from tests.terminal.program import environment, refold, run
from tests.terminal.terminal import Terminal
from textual.screen import Screen

from refold.app import safe
from refold.app.forbidden import FORBIDDEN
from refold.app.lines import Cell
from refold.app.main import RefoldApp
from refold.app.settings import Settings
from refold.app.widgets.painting import Painter
from refold.core.store.notes import NotesStore

SESSIONS: dict[Share, int] = {"ci": 1, "quick": 3, "long": 1000}
KEYS: dict[Share, int] = {"ci": 2, "quick": 8, "long": 14}
"""Keys that are pressed on each screen, after those that lead there."""
SCREENS_OF: dict[Share, int] = {"ci": 12, "quick": 99, "long": 99}
"""Screens of one session, drawn by lot."""
POINTS: dict[Share, int] = {"ci": 64, "quick": 1, "long": 1}
"""One stretch of 256 code points of so many is shown."""
DRAWN: dict[Share, int] = {"ci": 2_000, "quick": 100_000, "long": 1_000_000}
SIZES = ((120, 40), (80, 24), (60, 20), (200, 60), (40, 10))
BRACKETS = "[[[]]]//@=$#(){}'\"\\:, abc.x1\n"


class Tour(NamedTuple):
    """How a screen is reached from the list of runs, and what is pressed there."""

    there: tuple[str, ...]
    keys: tuple[str, ...]
    tell: str
    """What only this screen shows; empty where nothing is alike everywhere."""


MOVES = ("down", "up", "pagedown", "pageup", "end", "home")
SCREENS: dict[str, Tour] = {
    "list": Tour(("home",), (*MOVES, "s", "S", " ", "*", "?", "escape"), "refold"),
    "filter": Tour(("/", "a", "[", "/"), ("b", "backspace", "left", "down", "tab"), ""),
    "run": Tour(
        ("enter",), (*MOVES, *"12345[]-+{}()zZtbw,.LpnNFv", "tab", "left", "right", " ", "enter"), ""
    ),
    "record": Tour(("enter", "1", "enter"), (*MOVES, "z", "Z", "]", "[", "v"), ""),
    "state": Tour(("enter", "2", "enter"), (*MOVES, "]", "[", "tab"), ""),
    "conversation": Tour(("enter", "3", "enter"), (*MOVES, "z", "]", "["), ""),
    "changes": Tour(("enter", "4", "enter"), (*MOVES, ",", ".", "]"), ""),
    "raw": Tour(("enter", "5", "enter"), (*MOVES, "]", "[", "v"), ""),
    "search in a run": Tour(("enter", "/", "a", "enter"), ("n", "N", "down", "1", "5"), ""),
    "go to": Tour(("enter", ":", "3", "enter"), ("down", "up", "]"), ""),
    "play": Tour(("enter", "home", " "), (">", "<", " ", "B", "p"), ""),
    "breakpoints": Tour(("enter", "b"), ("down", "up", "escape"), ""),
    "watch for a change": Tour(("enter", "w"), ("down", "up", "escape"), ""),
    "post-mortem": Tour(("d",), (*MOVES, "l"), ""),
    "mend": Tour(("d", "m"), (*MOVES,), ""),
    "salvage": Tour(("d", "s"), (*MOVES,), ""),
    "lineage": Tour(("l",), (*MOVES, " "), ""),
    "fork": Tour(("f",), (*MOVES, "(", ")", "n", "escape"), ""),
    "resume": Tour(("r",), (*MOVES, "x", "u", "a", "F", "escape"), ""),
    "compare": Tour((" ", "down", " ", "c"), (*MOVES, "{", "}", "tab"), ""),
    "search": Tour(("ctrl+f", "a", "enter"), (*MOVES, "tab"), ""),
    "conversations": Tour(("h",), (*MOVES, "enter", "f", "escape"), ""),
    "move to the trash": Tour(("x",), (*MOVES,), ""),
    "trash": Tour(("X",), (*MOVES, "D", "escape"), ""),
    "directories": Tour(("D",), (*MOVES,), ""),
    "columns": Tour(("C",), (*MOVES, " ", "+", "-"), ""),
    "copy": Tour(("Y",), ("down", "up", "enter"), ""),
    "export": Tour(("e",), (*MOVES, "tab"), ""),
    "tags": Tour(("T", "a"), ("b", "backspace"), ""),
    "name": Tour(("E", "a"), ("b", "backspace"), ""),
    "note": Tour(("m", "a"), ("b", "backspace"), ""),
    "prune": Tour(("P",), (*MOVES,), ""),
    "help": Tour(("?",), (*MOVES,), ""),
    "commands": Tour(("ctrl+p", "e"), ("down", "up", "n", "backspace"), ""),
}


def measure(share: Share, seed: int, seconds: float) -> Iterator[Goal]:
    """Walk over hostile stores."""
    whats: tuple[tuple[str, str, int, Callable[[random.Random], list[str]]], ...] = (
        (
            "G11",
            f"keys on {len(SCREENS)} screens and dialogs full of {len(PAYLOADS)} payloads",
            100_000,
            _payloads,
        ),
        ("G12", "keys on the same screens full of random brackets", 0, _brackets),
    )
    with scratch() as directory:
        work: list[Work] = [
            (
                Goal(name, what, 0, seed, asked),
                functools.partial(_walk, directory=directory, share=share, texts_of=texts_of),
            )
            for name, what, asked, texts_of in whats
        ]
        points = Goal("G11", "code points, each as it is shown and as wide as it says", seed=seed)
        drawn = Goal("G12", "random brackets, drawn as the lines of every screen are", seed=seed)
        points.asked, drawn.asked = 0x110000, 1_000_000
        work += [
            (points, functools.partial(_code_points, step=POINTS[share])),
            (drawn, functools.partial(_drawn, most=DRAWN[share])),
        ]
        yield from carry_out(work, seconds)


def _payloads(rng: random.Random) -> list[str]:
    return rng.sample(list(PAYLOADS.values()), len(PAYLOADS))


def _brackets(rng: random.Random) -> list[str]:
    return ["".join(rng.choices(BRACKETS, k=rng.randint(2, 40))) for _ in range(150)]


def _code_points(goal: Goal, step: int) -> None:
    """Show each character by itself: what comes out is drawn, as wide as it says, and shown as it is."""
    for start in shuffled(range(256 * (goal.seed % step), 0x110000, 256 * step), goal.seed):
        if goal.over:
            break
        with goal.attempt(f"U+{start:04X} and those after it"):
            for character in map(chr, range(start, start + 256)):
                shown = safe.line(f"a{character}b")
                assert FORBIDDEN.search(shown) is None, ascii(character)
                assert cell_len(shown) == safe.width(shown), ascii(character)
                assert safe.line(shown) == shown, ascii(character)
            goal.tries += 255


def _drawn(goal: Goal, most: int) -> None:
    """Draw random brackets through the one place that draws: nothing in them is read as markup."""
    rng = random.Random(goal.seed)

    async def draw() -> None:
        app = RefoldApp(Settings((), Path("/nonexistent"), None, Path("/nonexistent")), Screen)
        async with app.run_test(notifications=True):
            painter = Painter(app.screen)
            while goal.tries < most and not goal.over:
                text = "".join(rng.choices(BRACKETS, k=rng.randint(2, 40)))
                with goal.attempt(repr(text)):
                    shown = safe.line(text)
                    strip = painter.strip((Cell(shown, "strong"),), 60)
                    assert strip.text == safe.fit(shown, 60), strip.text
                    assert not any(segment.style and segment.style.link for segment in strip)

    asyncio.run(draw())


def _walk(goal: Goal, directory: Path, share: Share, texts_of: Callable[[random.Random], list[str]]) -> None:
    for number in range(SESSIONS[share]):
        if goal.over and number:
            break
        rng = random.Random(f"{goal.seed} {number}")
        place = directory / "walk"
        shutil.rmtree(place, ignore_errors=True)
        texts = texts_of(rng)
        store(place, texts, rng)
        goal.count("texts", len(texts))
        with goal.attempt(f"session {number}"):
            goal.tries += _session(goal, place, rng, share)


def store(place: Path, texts: list[str], rng: random.Random) -> None:
    """Make runs, run directories, conversations, notes and a trash that say these texts."""
    runs = place / "runs"
    runs.mkdir(parents=True)
    for number, start in enumerate(range(0, len(texts), 24)):
        style = generate.STYLES[number % 3]
        some = texts[start : start + 24]
        path = runs / f"h{number}-{style}.json"
        path.write_bytes(hostile.journal(some, style=style, run_id=some[0], raw=bool(number % 2)))
    for text in rng.sample(texts, 6):
        hostile_name = text.replace("/", "∕").replace("\0", "␀").encode("utf-8", "replace")[:150]
        (Path(str(runs)) / (hostile_name.decode("utf-8", "ignore") + ".json")).write_bytes(
            hostile.journal([text], style="native", run_id=text)
        )
    for case in rng.sample(CASES, 6):
        hostile.directory_run(make(case, place / "rivumi"), texts, rng)
    said = [text.encode("utf-8", "replace").decode() for text in rng.sample(texts, 9)]
    for number in range(3):
        some = said[3 * number : 3 * number + 3]
        turns = [(text, text, end) for text, end in zip(some, ("completed", "failed", ""), strict=True)]
        chat(place / "conversations", *turns, name=f"{number:02x}" * 16, title=some[0], model=some[1])
    home = place / "home"
    home.mkdir()
    notes = NotesStore(home / "state" / "refold" / "notes")
    for path in sorted(runs.iterdir())[:5]:
        name, note, tag = rng.sample(said, 3)
        notes.update(path, functools.partial(msgspec.structs.replace, name=name, note=note, tags=(tag,)))
    run("trash", sorted(runs.glob("h*.json"))[0].stem, *_where(place), home=home)


def _where(place: Path) -> list[str | Path]:
    roots = (place / "runs", place / "rivumi", place / "conversations")
    return ["--only", *(word for root in roots for word in ("--root", root))]


def _session(goal: Goal, place: Path, rng: random.Random, share: Share) -> int:
    """Walk over the screens once; give how many keys were pressed."""
    columns, rows = rng.choice(SIZES)
    pressed: list[str] = []
    command = ["env", "-C", str(place), *refold(*_where(place))]
    with Terminal(command, env=environment(place / "home"), columns=columns, rows=rows) as terminal:
        terminal.wait("watching" if columns >= 80 else "refold")
        terminal.settle(0.3)
        try:
            for name in rng.sample(sorted(SCREENS), min(len(SCREENS), SCREENS_OF[share])):
                tour = SCREENS[name]
                pressed.append(f"({name}:")
                keys = [
                    *("escape",) * 4, "home", *("down",) * rng.randint(0, 9), *tour.there,
                    *(rng.choice(tour.keys) for _ in range(KEYS[share])), *("escape",) * 3,
                ]  # fmt: skip
                for key in keys:
                    pressed.append(key)
                    terminal.press(key, settle=0.01, limit=2.0)
                    assert terminal.alive, f"it ended: {terminal.text[-300:]} {_faults(place)}"
                goal.count("screens")
            terminal.press(*("escape",) * 5, settle=0.1)
            code = terminal.quit()
            sent = bytes(terminal.sent)
            found = {
                "exit code": code,
                "faults": _faults(place),
                "offences": wire.offences(sent, copies=True)[:5],
                "modes": wire.not_restored(sent),
                "replies": terminal.replies,
                "title": terminal.title,
            }
            assert not any(found.values()), {name: value for name, value in found.items() if value}
        except AssertionError as error:
            raise AssertionError(f"{error} after {' '.join(pressed[-30:])}".replace("\n", " ")) from error
    return len(pressed)


def _faults(place: Path) -> str:
    """Give what the log says went wrong: the kinds and the last places."""
    log = place / "home" / "state" / "refold" / "refold.log"
    if not log.exists():
        return ""
    rows = [row.strip().rpartition("/")[2] for row in log.read_text().split("\n") if "/textual/" not in row]
    return " < ".join(reversed(rows[-9:]))
