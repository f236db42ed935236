"""The order of the list: sorted, filtered, and right after every change."""

from __future__ import annotations

import operator
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.app.present.run_list import NUMBERS, TEXTS, RunList, Sort
from refold.core.filter import Filter, parse_filter
from refold.core.keeping import Kept
from refold.core.status import STATUSES
from refold.core.summary import RunSummary

KEYS = [*NUMBERS, *TEXTS]
RUNS = st.builds(
    RunSummary,
    id=st.sampled_from(["a", "B", "b", "fix-add", "Z"]),
    path=st.sampled_from([f"/{n % 2}/{n}" for n in range(12)]),
    status=st.sampled_from(STATUSES),
    updated=st.sampled_from([0.0, 1.5, 2.0]),
    turns=st.integers(0, 2),
    model=st.sampled_from(["", "opus", "gpt"]),
    prompt=st.sampled_from(["", "Fix add()", "rename"]),
)
SORTS = st.builds(Sort, st.sampled_from(KEYS), st.booleans())
FILTERS = st.sampled_from(["", "fix", "-status:crashed", "model:opus,gpt", "zzz"])


def run(name: str, updated: float = 0.0, prompt: str = "", **more: object) -> RunSummary:
    return RunSummary(id=name, path=f"/{name}", updated=updated, prompt=prompt, **more)  # type: ignore[arg-type]


def drive(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


def listed(*runs: RunSummary, sort: Sort | None = None, wanted: str = "") -> RunList:
    made = RunList()
    for each in runs:
        made.put(each)
    if sort is not None:
        made.sort_by(sort)
    if wanted:
        drive(made.narrow(parse_filter(wanted, 0.0)))
    return made


def ids(runs: RunList) -> list[str]:
    return [each.id for each in runs.shown()]


def test_newest_first_ties_by_id() -> None:
    assert ids(listed(run("b", 1.0), run("a", 1.0), run("new", 2.0), run("old", 0.5))) == [
        "new",
        "a",
        "b",
        "old",
    ]


@pytest.mark.parametrize("key", KEYS)
def test_every_key_sorts_both_ways(key: str) -> None:
    low = RunSummary(id="a", path="/1/a", status="running", format="a", model="a", created="1", prompt="a")
    high = RunSummary(
        id="b",
        path="/2/b",
        status="newer",
        format="b",
        model="b",
        created="2",
        prompt="b",
        turns=1,
        calls=1,
        errors=1,
        tokens=1,
        updated=1.0,
        size=1,
        kept=Kept(star=True, tags=("b",)),
    )
    assert ids(listed(high, low, sort=Sort(key, descending=False))) == ["a", "b"]
    assert ids(listed(low, high, sort=Sort(key, descending=True))) == ["b", "a"]


def test_a_filter_hides_and_counts() -> None:
    runs = listed(run("a", prompt="fix"), run("b"), run("c", prompt="Fix it"), wanted="fix")
    assert ids(runs) == ["a", "c"]
    assert (len(runs), runs.total, runs.hidden) == (2, 3, 1)
    drive(runs.narrow(Filter()))
    assert runs.hidden == 0


def test_rows_that_come_change_and_go_under_a_filter() -> None:
    runs = listed(run("a", prompt="fix"), wanted="fix")
    runs.put(run("b", 2.0, prompt="fix too"))
    runs.put(run("c", 3.0))
    assert ids(runs) == ["b", "a"]
    runs.put(run("b", 2.0, prompt="other"))
    assert ids(runs) == ["a"]
    runs.put(run("c", 3.0, prompt="fix"))
    assert ids(runs) == ["c", "a"]
    runs.drop("/a")
    runs.drop("/never")
    assert ids(runs) == ["c"]
    assert runs.index_of("/c") == 0
    assert runs.index_of("/b") is None
    assert runs.index_of("/a") is None


def test_a_row_that_changes_while_a_filter_passes_over_the_rows_is_not_lost() -> None:
    runs = listed(*(run(f"r{number}", prompt="old") for number in range(2500)))
    steps = runs.narrow(parse_filter("wanted", 0.0))
    next(steps)
    runs.put(run("r3", prompt="wanted"))
    runs.put(run("late", prompt="wanted"))
    runs.put(run("gone", prompt="wanted"))
    runs.drop("/gone")
    drive(steps)
    assert ids(runs) == ["late", "r3"]


def test_text_terms_show_only_what_was_searched_and_found() -> None:
    runs = listed(run("a"), run("b"), run("c", prompt="x"))
    hits: dict[str, bool] = {}
    drive(runs.narrow(parse_filter("text:needle", 0.0), hits))
    assert ids(runs) == []
    hits["/a"] = True
    runs.found("/a")
    assert ids(runs) == ["a"]
    assert [each.id for each in runs.candidates()] == ["a", "b", "c"]
    hits["/c"] = True
    runs.found("/c")
    runs.found("/c")
    assert ids(runs) == ["a", "c"]
    hits["/a"] = False
    runs.found("/a")
    runs.found("/unknown")
    assert ids(runs) == ["c"]


@settings(max_examples=150)
@given(
    st.lists(
        st.one_of(
            RUNS,
            SORTS,
            FILTERS,
            st.sampled_from([f"/{n % 2}/{n}" for n in range(12)]).map(lambda path: ("drop", path)),
        ),
        max_size=30,
    )
)
def test_any_sequence_of_changes_ends_as_if_made_at_once(changes: list[object]) -> None:
    runs = RunList()
    kept: dict[str, RunSummary] = {}
    sort, wanted = Sort(), Filter()
    for change in changes:
        match change:
            case RunSummary():
                runs.put(change)
                kept[change.path] = change
            case Sort():
                runs.sort_by(change)
                sort = change
            case str():
                wanted = parse_filter(change, 0.0)
                drive(runs.narrow(wanted))
            case (_, str(path)):
                runs.drop(path)
                kept.pop(path, None)
    expected = sorted(kept.values(), key=operator.attrgetter("id", "path"))
    value = NUMBERS.get(sort.key) or TEXTS[sort.key]
    expected.sort(key=value, reverse=sort.descending)
    shown = [each for each in expected if wanted.matches(each)]
    # A stable sort the other way round keeps ties in their order, and so does the list.
    assert runs.shown() == shown
    assert len(runs) == len(shown)
    assert runs.hidden == len(kept) - len(shown)
    for index, each in enumerate(shown):
        assert runs.index_of(each.path) == index
        assert runs[index] is kept[each.path]
        assert runs.run(each.path) is kept[each.path]
