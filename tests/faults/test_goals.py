"""A short share of the fault goals, always the same; `python -m tests.faults.run` tries the rest."""

from __future__ import annotations

import pytest
from tests.faults.goals import Goal, as_json, require, table
from tests.faults.run import measure
from tests.faults.victims import traces

SEED = 1
TRIES = {"kill": 40, "errors": 12, "crash": 120, "damage": 300, "tail": 300, "race": 300, "screen": 10}
"""By part: what has to be tried at least."""
needs_strace = pytest.mark.skipif(not traces(), reason="strace cannot watch a child here")


@pytest.mark.parametrize(
    "part", ["kill", "errors", pytest.param("crash", marks=needs_strace), "damage", "tail", "race", "screen"]
)
def test_a_share_of_the_goals(part: str) -> None:
    require(list(measure(part, "ci", SEED)), tries=TRIES[part])


def test_what_fails_is_a_row_and_does_not_end_the_others() -> None:
    goal = Goal("G0", "tries", seed=7)
    with goal.attempt("first"):
        raise ValueError("lost a record")
    with goal.attempt("second"):
        goal.count("seen")
    with pytest.raises(AssertionError, match="lost a record"):
        require([goal], tries=1)
    assert "G0    tries; 1 seen      2         1     7      0.0" in table([goal])
    assert "FAILED G0: first: ValueError: lost a record" in table([goal])
    (row,) = as_json([goal])
    assert (row["tries"], row["failures"], row["seed"], row["seen"]) == (2, 1, 7, 1)
