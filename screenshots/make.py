"""Makes what the README shows from the program itself: the pictures, and the table of keys.

Run it from the root of the tree after a visible change: `.venv/bin/python screenshots/make.py`.
The clock stands still, times are in UTC, and the runs are those of the demo, so that the same
program makes the same pictures.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

if TYPE_CHECKING:
    from textual.app import App
    from textual.pilot import Pilot

    from refold.app.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
RUNS = Path("/tmp/refold-pictures")
NOW = datetime(2026, 7, 24, 12, 0, tzinfo=UTC)
SIZE = (120, 34)
SMALL = (104, 26)
"""Of the pictures that stand two beside each other."""


def key_tables() -> str:
    """The keys of each place as Markdown, from the one table that the program itself uses."""
    from refold.app import keys
    from refold.app.present.help import PLACES

    parts: list[str] = []
    for place, title in PLACES.items():
        parts += [f"**{title}**", "", "| keys | what | id |", "| --- | --- | --- |"]
        for key in keys.rows(place):
            shown = " ".join(f"`{keys.shown(name)}`" for name in keys.keys_of(key, {}))
            parts.append(f"| {shown} | {key.label} | `{key.id}` |")
        parts.append("")
    return "\n".join(parts)


def with_keys(readme: str) -> str:
    """The README with its table of keys as it is now."""
    begin, end = "<!-- keys -->", "<!-- /keys -->"
    head, _, rest = readme.partition(begin)
    _, _, tail = rest.partition(end)
    return f"{head}{begin}\n\n{key_tables()}\n{end}{tail}"


@contextmanager
def runs() -> Iterator[None]:
    """Make the runs of the demo at a fixed place and time; one of them is held as if it grew."""
    from refold.app import demo
    from refold.app.demo_story import age
    from refold.app.demo_writer import begin_live
    from refold.core.store import sizes

    with RUNS.with_suffix(".lock").open("w") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        shutil.rmtree(RUNS, ignore_errors=True)
        before = Path.cwd()
        demo.make(RUNS, NOW)
        story, records = begin_live(demo.roots(RUNS)[0].path, NOW)
        for _ in islice(records, 17):
            pass
        age(story.journal.path, NOW)
        os.chdir(RUNS)
        try:
            # Every disk has as much room: the picture of the directories is the same on all machines.
            with patch.object(sizes, "_free", return_value=120 << 30):
                yield
        finally:
            os.chdir(before)
            story.journal.close()
            shutil.rmtree(RUNS)


def settings_of(theme: str) -> Settings:
    """Settings for the runs of the demo and nothing else."""
    import msgspec

    from refold.app import demo
    from refold.app.settings import Settings

    return Settings(
        # As they would be seen by whose runs they are.
        roots=tuple(msgspec.structs.replace(root, origin="default") for root in demo.roots(RUNS)),
        state_dir=RUNS / "refold",
        conversations=(demo.conversations(RUNS),),
        cache_dir=RUNS / "cache",
        config_file=RUNS / "config.toml",
        theme=theme,
        utc=True,
    )


async def picture(
    first: str, theme: str, keys: tuple[str, ...], name: str, size: tuple[int, int] = SIZE
) -> str:
    """Show a screen, press keys, and give the SVG."""
    from textual.screen import Screen

    from refold.app.main import RefoldApp
    from refold.app.picturing import without_network
    from refold.app.screens.run import RunScreen
    from refold.app.screens.runs import RunsScreen

    settings = settings_of(theme)
    roots = settings.roots

    def screen() -> Screen[None]:
        if first:
            return RunScreen(roots[0].path / f"{first}.json", settings=settings)
        return RunsScreen(settings, now=NOW.timestamp)

    app = RefoldApp(settings, screen)
    async with app.run_test(size=size) as pilot:
        svg = await settled(app, pilot, name)
        for key in keys:
            await pilot.press({" ": "space"}.get(key, key))
            svg = await settled(app, pilot, name)
    return without_network(svg)


@contextmanager
def in_the_trash(*runs: tuple[str, str, str, int]) -> Iterator[None]:
    """Let runs lie in the trash while the block runs, each with its status, its prompt and the days since."""
    from refold.core.store.trash import carry_out, plan_for
    from refold.core.store.trash_list import entries, restore

    directory = settings_of("refold-dark").roots[0].path
    for number, (name, status, prompt, days) in enumerate(runs, 0x3F7A):
        plan = plan_for(directory / f"{name}.json", suffix=f"{number:08x}")
        carry_out(plan, status=status, prompt=prompt, now=NOW - timedelta(days=days))
    try:
        yield
    finally:
        for entry in list(entries([directory])):
            restore(entry)


async def settled(app: App[None], pilot: Pilot[None], name: str, *, same_for: int = 6) -> str:
    """The picture once it stays the same: the screen polls its files, so it never comes to rest by itself."""
    from textual.widgets import Input

    svg, same = "", 0
    while same < same_for:
        await pilot.pause(0.1)
        for field in app.screen.query(Input):
            field.cursor_blink = False
        now = app.export_screenshot(title=name)
        svg, same = now, same + 1 if now == svg and _READING not in now else 0
    return svg


_READING = "reading&#160;the&#160;run"
"""Stands in a dialog while the run is read and its agent asked."""

PICTURES = {
    "runs": ("", "refold-dark", ("down", "down", "down")),
    "run": ("refactor-imports", "refold-dark", ("home", "right_curly_bracket", "right", "z")),
    "state": ("fix-date-parser", "refold-light", ("end", "2")),
    "changes": ("refactor-imports", "refold-dark", ("end", "4", "Z")),
    "resume": ("fix-date-parser", "refold-dark", ("r", "x")),
    "post-mortem": ("fix-date-parser", "refold-dark", ("d",)),
    "rivumi": ("", "refold-dark", ("down", "down", "down", "down", "enter", "2")),
    "fork": ("fix-date-parser", "refold-dark", ("f",)),
    "lineage": ("", "refold-dark", ("down", "down", "l")),
    "compare": ("", "refold-dark", ("down", "down", "c")),
    "search": ("", "refold-dark", ("ctrl+f", *"tests", "down")),
    "export": ("fix-date-parser", "refold-dark", ("e",)),
    "trash": ("", "refold-dark", ("X",)),
    "conversations": ("", "refold-dark", ("h",)),
    "conversation": ("", "refold-dark", ("h", "enter")),
    "help": ("fix-date-parser", "refold-dark", ("question_mark",)),
    "columns": ("", "refold-dark", ("C", "down", "down")),
    "directories": ("", "refold-dark", ("D",)),
    "copy-menu": ("fix-date-parser", "refold-dark", ("Y",)),
    "mend-plan": ("index-photos", "refold-dark", ("d", "m")),
    "trash-plan": ("", "refold-dark", ("down", "down", "down", "x")),
}
"""By name: the run that is shown, the theme, and the keys that are pressed."""
BESIDE = (
    *("fork", "lineage", "compare", "search", "export", "trash", "conversations", "conversation"),
    *("help", "columns", "directories", "copy-menu", "mend-plan", "trash-plan"),
)
"""Those that stand two beside each other."""
TRASHED = (
    ("translate-strings", "cancelled", "Translate the messages of the app.", 2),
    ("never-began", "empty", "", 33),
)
"""What lies in the trash where that is shown: run, status, prompt, and the days since."""


FILM = "replay"
FILM_SIZE = (104, 27)
FILM_RUN = "refactor-imports"
FILM_STOP = "tool:run_tests error:yes"
FILM_WATCHED = "tokens"


async def replay() -> str:
    """A run of the demo, played until a breakpoint stops it; then back to where what is watched changed."""
    from refold.app.main import RefoldApp
    from refold.app.screens.run import RunScreen

    sys.path.insert(0, str(ROOT))
    from screenshots.film import Shown, film

    now = 0.0
    settings = settings_of("refold-dark")
    path = settings.roots[0].path / f"{FILM_RUN}.json"
    screen = RunScreen(path, settings=settings, clock=lambda: now)
    app = RefoldApp(settings, lambda: screen)
    shown: list[Shown] = []
    async with app.run_test(size=FILM_SIZE) as pilot:

        async def shoot(seconds: float) -> None:
            shown.append(Shown(await settled(app, pilot, "Refold", same_for=3), seconds))

        async def typed(key: str, text: str, seconds: float) -> None:
            await pilot.press({" ": "space"}.get(key, key))
            for letter in text:
                await pilot.press(letter if letter.isalnum() else _KEYS[letter])
                if letter in " :":
                    await shoot(0.25)
            await shoot(seconds)
            await pilot.press("enter")

        await settled(app, pilot, "Refold")
        await pilot.press("home", "2")
        await shoot(1.0)
        await typed("b", FILM_STOP, 0.9)
        await pilot.press("greater_than_sign", "greater_than_sign", "space")
        reader = screen.reader
        while reader is not None and screen.player.playing:
            due = screen.player.due(reader.timeline)
            await shoot(due - now)
            now, item = due + 1e-6, screen.player.head.item
            while screen.player.head.item == item:
                await pilot.pause(0.02)
        await shoot(2.5)
        await typed("w", FILM_WATCHED, 0.7)
        await pilot.press("comma")
        await shoot(2.5)
    stop = next(number for number, one in enumerate(shown) if "■" in one.svg)
    return film(shown, still=stop)


_KEYS = {"_": "underscore", ":": "colon", " ": "space"}


def make(only: Sequence[str] = ()) -> dict[str, str]:
    """Give every picture by its name, or some of them."""
    os.environ.update(TZ="UTC", LC_ALL="C.UTF-8", TEXTUAL_ANIMATIONS="none", COLORTERM="truecolor")
    os.environ.pop("NO_COLOR", None)
    with runs():
        made: dict[str, str] = {}
        for name, (first, theme, keys) in PICTURES.items():
            if only and name not in only:
                continue
            with in_the_trash(*TRASHED) if name == "trash" else nullcontext():
                size = SMALL if name in BESIDE else SIZE
                made[name] = asyncio.run(picture(first, theme, keys, "Refold", size))
        if not only or FILM in only:
            made[FILM] = asyncio.run(replay())
        return made


def main() -> int:
    """Write the README and all pictures, or those named; with `--check` only say what is stale, and fail."""
    readme = ROOT / "README.md"
    only = [name for name in sys.argv[1:] if not name.startswith("-")]
    made = {ROOT / "screenshots" / f"{name}.svg": svg for name, svg in make(only).items()}
    made[readme] = with_keys(readme.read_text())
    stale = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)} {'is stale' if '--check' in sys.argv else 'written'}")
        if "--check" not in sys.argv:
            path.write_text(made[path])
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
