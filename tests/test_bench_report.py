"""What is printed of measured figures: bars, distances, and the table in the README."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.bench import report
from tests.bench.figures import Figure, as_json, from_json, interleaved, not_run, percentile, ratio, table


def test_a_figure_says_whether_its_bar_is_reached_and_how_far_it_is() -> None:
    reached = Figure("list", "warm", 1.2, "x", 1.25)
    missed = Figure("list", "warm", 2.5, "x", 1.25)
    least = Figure("index", "naive / build", 2.0, "x", 3.5, at_least=True)

    assert (reached.met, reached.bar, reached.verdict) == (True, "≤ 1.25 x", "reached")
    assert (missed.met, missed.verdict) == (False, "missed by 2.00x")
    assert (least.met, least.bar, least.verdict) == (False, "≥ 3.5 x", "missed by 1.75x")
    assert Figure("list", "warm", 3.0, "ms").met is None


def test_what_was_not_run_says_why() -> None:
    item = not_run("beside others", "lnav", "ms", "not installed", of="G1")

    assert (item.met, item.shown, item.verdict) == (None, "not run", "not installed")
    assert "not installed" in table([item])


def test_cases_take_turns() -> None:
    order: list[str] = []

    def case(name: str) -> Callable[[], float]:
        def run() -> float:
            order.append(name)
            return 1.0

        return run

    cases = {name: case(name) for name in "abc"}

    taken = interleaved(cases, 2)

    assert order == ["a", "b", "c", "c", "b", "a"]
    assert ratio("x", "y", taken["a"], taken["b"]).value == 1.0
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0


def test_the_table_stands_between_its_markers_and_nothing_else_changes(project: Path) -> None:
    readme = (project / "README.md").read_text(encoding="utf-8")
    figures = [Figure("list", "a | b", 1.0, "x", 1.25, of="G5"), Figure("list", "shown only", 3.0, "ms")]
    run = json.loads(json.dumps({**report.surroundings(), "figures": as_json(figures)}))

    assert from_json(run["figures"]) == figures
    made = report.section(run, from_json(run["figures"]))
    text = report.placed(readme, made)

    assert "| G5 | list: a / b | 1.00 x | ≤ 1.25 x | reached |" in text
    assert "shown only" not in text
    assert report.placed(text, made) == text
    assert text.partition(report.BEGIN)[0] == readme.partition(report.BEGIN)[0]
    assert text.partition(report.END)[2] == readme.partition(report.END)[2]
    with pytest.raises(ValueError, match="has no"):
        report.placed("nothing", made)
