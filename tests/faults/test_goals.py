"""A short share of the fault goals, always the same; `python -m tests.faults.run` tries the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.faults.goals import Goal, added, as_json, carry_out, from_json, require, table
from tests.faults.run import main, measure
from tests.faults.victims import traces

SEED = 1
TRIES = {
    "kill": 40,
    "errors": 12,
    "commands": 60,
    "crash": 120,
    "damage": 300,
    "tail": 300,
    "race": 300,
    "screen": 24,
    "looks": 400,
    "fold": 400,
    "export": 1000,
    "terminal": 100,
    "watch": 25,
    "resume": 300,
    "scale": 20,
}
"""By part: what has to be tried at least."""
needs_strace = pytest.mark.skipif(not traces(), reason="strace cannot watch a child here")


@pytest.mark.parametrize(
    "part",
    [
        *(
            "kill",
            "errors",
            "commands",
            "looks",
            "damage",
            "tail",
            "fold",
            "race",
            "screen",
            "export",
            "terminal",
            "watch",
            "resume",
            "scale",
        ),
        pytest.param("crash", marks=needs_strace),
    ],
)
def test_a_share_of_the_goals(part: str) -> None:
    require(list(measure(part, "ci", SEED)), tries=TRIES[part])


def test_what_fails_is_a_row_and_does_not_end_the_others() -> None:
    goal = Goal("G0", "tries", seed=7, asked=5000)
    with goal.attempt("first"):
        raise ValueError("lost a record")
    with goal.attempt("second"):
        goal.count("seen")
    with pytest.raises(AssertionError, match="lost a record"):
        require([goal], tries=1)
    assert "G0    tries; 1 seen      2  5,000         1     7      0.0" in table([goal])
    assert "FAILED G0: first: ValueError: lost a record" in table([goal])
    (row,) = as_json([goal])
    assert (row["tries"], row["failures"], row["seeds"], row["notes"]) == (2, 1, [7], {"seen": 1})


def test_figures_of_several_times_are_added() -> None:
    first, second, third = (Goal("G0", "tries", seed=seed) for seed in (1, 2, 4))
    for goal, milliseconds in ((first, 30), (second, 80), (third, 20)):
        with goal.attempt("one"):
            assert goal is not second, "lost"
        goal.count("seen")
        goal.count("ms at most", milliseconds)
    other = Goal("G0", "other tries", 5, seed=1)
    first.asked = 9
    (both, last) = added(from_json(as_json(added([first, other], [second]))), [third])
    assert (both.tries, both.asked, both.seeds, len(both.failures)) == (3, 9, (1, 2, 4), 1)
    assert both.notes == {"seen": 3, "ms at most": 80}
    assert (last.what, last.tries) == ("other tries", 5)
    assert "1-2, 4" in table([both])


def test_what_the_same_seed_tries_again_counts_once() -> None:
    first, again, other = (
        Goal("G0", "tries", 5, seed=1),
        Goal("G0", "tries", 9, seed=1),
        Goal("G0", "tries", 3, seed=2),
    )
    again.failures = ["lost"]
    (once,) = added([first], [again])
    assert (once.tries, once.seeds, once.failures) == (9, (1,), ["lost"])
    (both,) = added([once], [other])
    assert (both.tries, both.seeds, both.failures) == (12, (1, 2), ["lost"])
    (both,) = added(from_json(as_json([both])), [Goal("G0", "tries", 9, seed=1, failures=["lost", "torn"])])
    assert (both.tries, both.seeds, both.failures) == (12, (1, 2), ["lost", "torn"])


def test_what_lies_in_a_file_is_told_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    file.write_text(json.dumps(as_json([Goal("G0", "tries", 1234, seed=5, notes={"seen": 7})])))
    assert main(["--told", "--into", str(file)]) == 0
    assert "G0    tries; 7 seen  1,234                0     5" in capsys.readouterr().out


def test_two_seeds_at_once_are_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    assert main(["tail", "--share", "ci", "--at-once", "2", "--seed", "5", "--into", str(file)]) == 0
    (goal,) = from_json(json.loads(file.read_bytes()))
    assert goal.seeds == (5, 6)
    assert goal.tries >= 2 * TRIES["tail"]
    assert f"{goal.tries:,}" in capsys.readouterr().out


def test_a_part_ends_with_its_time() -> None:
    def forever(goal: Goal) -> None:
        while not goal.over:
            with goal.attempt("once more"):
                pass

    work = [(Goal("G0", name), forever) for name in ("first", "second")]
    assert all(goal.tries for goal in carry_out(work, 0.1))
