"""The moving picture of the README shows at every moment exactly one of the pictures that it is made of."""

from __future__ import annotations

import importlib.util
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest
from rich.text import Text
from textual.app import App, ComposeResult
from textual.widgets import Static

WORDS = (("one", "red"), ("one and two", "green"), ("three", "red"))
SECONDS = (1.0, 0.5, 2.5)


class Words(App[None]):
    """Two rows: one that stays and one that does not."""

    CSS = "Screen { background: #14161d; }"

    def compose(self) -> ComposeResult:
        yield Static("what stays <&>", markup=False)
        yield Static(id="changing")


@pytest.fixture(scope="module")
def film(project: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("film", project / "screenshots" / "film.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def shots() -> list[str]:
    made: list[str] = []
    app = Words()
    async with app.run_test(size=(40, 4)) as pilot:
        for words, colour in WORDS:
            app.query_one("#changing", Static).update(Text(words, style=f"{colour} on blue"))
            await pilot.pause()
            made.append(app.export_screenshot(title="film"))
    return made


def seen(svg: str, percent: float) -> list[str]:
    """The texts that are to be seen at a moment."""
    opacity: dict[str, int] = {}
    for name, body in re.findall(r"@keyframes (k\d+) \{(.*)\}\n", svg):
        steps = re.findall(r"([\d.]+)% \{ opacity: (\d) \}", body)
        opacity[name] = [int(value) for at, value in steps if float(at) <= percent][-1]
    root = ET.fromstring(svg)
    groups = [group for group in root.iter() if group.tag.endswith("}g")]
    return [
        "".join(element.itertext()).replace("\xa0", " ")
        for group in groups
        for element in group
        if element.tag.endswith("}text") and opacity.get(group.get("class") or "", 1)
    ]


async def test_each_picture_is_shown_for_its_time(film: ModuleType) -> None:
    svg = film.film([film.Shown(*one) for one in zip(await shots(), SECONDS, strict=True)], still=1)
    for moment, number in ((0, 0), (24.9, 0), (25.1, 1), (37.4, 1), (37.6, 2), (99.9, 2)):
        assert seen(svg, moment) == ["what stays <&>", WORDS[number][0]]
    assert svg.count("what&#160;stays") == 1, "what stays is drawn once"
    assert "animation: k0 4.00s step-end infinite" in svg


async def test_who_wants_no_motion_sees_one_picture(film: ModuleType) -> None:
    svg = film.film([film.Shown(*one) for one in zip(await shots(), SECONDS, strict=True)], still=1)
    assert svg.index("@media (prefers-reduced-motion: no-preference)") < svg.index("animation:")
    still = dict(re.findall(r"^\.(k\d+) \{ opacity: (\d) \}$", svg, re.MULTILINE))
    root = ET.fromstring(svg)
    shown = {
        "".join(element.itertext()).replace("\xa0", " ")
        for group in root.iter()
        if still.get(group.get("class") or "") == "1"
        for element in group
        if element.tag.endswith("}text")
    }
    assert shown == {"one and two"}


def test_the_picture_of_the_readme_is_small_and_calls_nothing(project: Path) -> None:
    svg = (project / "screenshots" / "replay.svg").read_text()
    assert len(svg.encode()) < 400_000
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
    assert not re.search("<script|@import|url\\((?!#)", svg)
    for moment in range(0, 100, 5):
        said = " ".join(seen(svg, moment))
        assert len(re.findall(r"after seq \d+", said)) == 1
    assert "■ tool:run_tests error:yes" in svg.replace("&#160;", " ")
