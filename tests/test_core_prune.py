"""What a rule takes, what it spares, and that it takes nothing else."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.filter_terms import NUMBER, FilterError, Term, limit
from refold.core.keeping import Kept
from refold.core.prune import BadRule, Rule, bytes_of, plan_prune, seconds_of
from refold.core.status import STATUSES
from refold.core.summary import RunSummary

NOW = 1_000_000.0
RUNS = st.lists(
    st.builds(
        RunSummary,
        id=st.sampled_from("abcde"),
        path=st.from_regex(r"/r/(subagents/)?[a-z]{1,6}", fullmatch=True),
        status=st.sampled_from([*STATUSES]),
        updated=st.floats(0, 2 * NOW),
        size=st.integers(0, 1000),
        fork_of=st.sampled_from(["", "a", "b"]),
        complete=st.booleans(),
        kept=st.builds(
            Kept,
            star=st.booleans(),
            tags=st.sampled_from([(), ("x",)]),
            note=st.sampled_from(["", "n"]),
            trouble=st.sampled_from(["", "newer"]),
        ),
    ),
    unique_by=lambda run: run.path,
)


@given(RUNS, st.floats(0, NOW), st.integers(0, 500), st.booleans(), st.booleans())
def test_a_rule_takes_what_it_names_and_spares_the_rest(
    runs: list[RunSummary], older: float, larger: int, starred: bool, noted: bool
) -> None:
    plan = plan_prune(runs, runs, Rule(older, larger, starred, noted), NOW)
    taken, spared = [each.run for each in plan.taken], [each.run for each in plan.spared]
    named = [run for run in runs if NOW - run.updated >= older and (not larger or run.size > larger)]
    assert sorted(run.path for run in (*taken, *spared)) == sorted(run.path for run in named)
    for run in taken:
        assert run.status != "running"
        assert run.complete
        assert "/subagents/" not in run.path
        assert starred or not run.kept.star
        assert noted or not (run.kept.tags or run.kept.note)
        assert not run.kept.trouble
    assert all(each.why for each in plan.spared)
    assert [run.updated for run in taken] == sorted(run.updated for run in taken)
    going = {run.path for run in taken}
    for each in plan.taken:
        staying = [run.id for run in runs if run.fork_of == each.run.id and run.path not in going]
        assert sorted(each.forks) == sorted(staying)
    assert plan == plan_prune(runs[::-1], runs, Rule(older, larger, starred, noted), NOW)._replace(
        taken=plan.taken
    )


def test_nothing_is_taken_of_nothing() -> None:
    run = RunSummary("a", "/a", status="completed")
    assert plan_prune([], [run], Rule(), NOW) == ((), ())
    held = msgspec.structs.replace(run, status="running")
    assert plan_prune([held], [held], Rule(), NOW).spared[0].why == "a process holds it"


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", 2_592_000), ("1d12h", 129_600), ("2W", 1_209_600), ("0s", 0)]
)
def test_lengths_of_time(text: str, seconds: int) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(("text", "size"), [("500", 500), ("20MB", 20 * 10**6), ("1.5gb", 1_500_000_000)])
def test_sizes(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["1T", "2.5tb", "100k", "7", "1GB", "x", "1P"])
def test_a_rule_and_a_filter_take_the_same_sizes(text: str) -> None:
    def understood(ask: Callable[[], float]) -> float | None:
        try:
            return ask()
        except (BadRule, FilterError):
            return None

    term = Term("size", (text,), False, 0, 5, 6, ">")
    assert understood(lambda: bytes_of(text)) == understood(lambda: limit(term, NUMBER))


@pytest.mark.parametrize("text", ["", "d", "1y", "-1d", "1 d", "\x1b", "9" * 99])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(BadRule, match="is no"):
        seconds_of(text)
    if text != "9" * 99:
        with pytest.raises(BadRule, match="is no"):
            bytes_of(text)
