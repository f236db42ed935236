"""Columns take any number that a record may hold, and are the same numbers when they come from a cache."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.columns import Columns, place_of

_LARGE = [0, 1, 127, 128, 255, 256, 65_535, 65_536, 2**31, 2**32 - 1, 2**32, 2**63 - 1]
LARGE = st.sampled_from([*_LARGE, 2**63, 2**64 - 1])
SMALL = st.integers(0, 255)
TOKENS = st.sampled_from([*_LARGE, -1, -(2**31), -(2**63)])
ROW = st.tuples(
    *(LARGE, LARGE, LARGE, LARGE, SMALL, SMALL, st.just(0), LARGE, LARGE, LARGE, LARGE, LARGE, LARGE),
    st.sampled_from([-1, *_LARGE]),
    st.floats(allow_nan=False),
)


def held(columns: Columns) -> list[tuple[int | float, ...]]:
    """Give the rows of columns."""
    return list(zip(*columns.arrays()[:15], strict=True))


def with_turns(rows: Sequence[tuple[int | float, ...]], turn: int) -> list[tuple[int | float, ...]]:
    return [(*row[:6], turn, *row[7:]) for row in rows]


@given(
    st.lists(
        st.tuples(st.lists(ROW, min_size=1, max_size=4), st.tuples(TOKENS, TOKENS, TOKENS, TOKENS)),
        max_size=5,
    )
)
def test_any_number_is_kept_as_it_is(
    turns: list[tuple[list[tuple[int | float, ...]], tuple[int, ...]]],
) -> None:
    columns = Columns()
    wanted: list[tuple[int | float, ...]] = []
    sums = [(0, 0, 0, 0)]
    for number, (rows, tokens) in enumerate(turns, 1):
        columns.begin_turn(tokens[0], tokens[1], tokens[2], tokens[3], number)
        sums.append((tokens[0], tokens[1], tokens[2], tokens[3]))
        wanted += with_turns(rows, number)
        columns.add(with_turns(rows, number))
    # A turn has a row at least.
    wanted += with_turns([(0,) * 13 + (-1, 0.0)], len(turns))
    columns.add(wanted[-1:])
    assert held(columns) == wanted
    again = Columns()
    again.restore(columns.packed())
    for each in (columns, again):
        assert held(each) == wanted
        for item, row in enumerate(wanted):
            turn = int(row[6])
            found = (
                each.in_tokens[item],
                each.out_tokens[item],
                each.cache_read[item],
                each.cache_create[item],
            )
            assert found == sums[turn]
            assert each.last_assistant[item] == turn
    more = with_turns([(2**64 - 1,) * 4 + (1, 2, 0) + (2**40,) * 6 + (2**20, 1.5)], len(turns))
    again.add(more)
    assert held(again) == wanted + more
    assert held(columns) == wanted
    again.cut(len(wanted))
    assert held(again) == wanted
    assert again.packed().turns == columns.packed().turns


def test_a_number_of_more_than_64_bits_is_refused_and_nothing_is_added() -> None:
    columns = Columns()
    row = (0, 0, 0, 5, *(0,) * 9, -1, 0.0)
    columns.begin_turn(1, 2, 3, 4, 1)
    columns.add([(*row[:6], 1, *row[7:])])
    before = columns.packed()
    with pytest.raises(OverflowError):
        columns.add([row, (2**33, 2**33, 0, 2**64, *(0,) * 9, -1, 0.0)])
    assert {len(column) for column in columns.arrays()[:15]} == {1}
    assert held(columns) == [(*row[:6], 1, *row[7:])]
    with pytest.raises(OverflowError):
        columns.begin_turn(2**33, 5, 2**64, 5, 5)
    assert {len(column) for column in columns.arrays()[15:]} == {2}
    columns.begin_turn(5, 6, 7, 8, 2)
    columns.add([(*row[:6], 2, *row[7:])])
    assert [columns.in_tokens[1], columns.cache_create[1], columns.last_assistant[1]] == [5, 8, 2]
    assert before.turns != columns.packed().turns


@pytest.mark.parametrize("steps", range(22))
def test_columns_from_a_cache_grow_one_at_a_time_and_hold_the_same_meanwhile(steps: int) -> None:
    columns = Columns()
    for turn in (1, 2):
        columns.begin_turn(turn, 2**40, 3, 4, turn)
        columns.add([(7, 2**33, 0, turn, 0, 0, turn, *(0,) * 6, -1, 0.5)])
    again = Columns()
    again.restore(columns.packed())
    views = sum(isinstance(column, memoryview) for column in again.arrays())
    assert views == 20
    growing = again.growing()
    for done in range(1, steps):
        next(growing, None)
        left = sum(isinstance(column, memoryview) for column in again.arrays())
        assert left == max(0, views - done)
        assert again.packed() == columns.packed()
    del growing
    for each in (columns, again):
        each.begin_turn(9, 9, 9, 9, 3)
        each.add([(8, 2**34, 0, 3, 0, 0, 3, *(0,) * 6, -1, 0.5)])
        assert [each.in_tokens[item] for item in range(3)] == [1, 2, 9]
    assert again.packed() == columns.packed()
    assert list(again.growing()) == []


def test_a_value_is_found_in_a_column_that_grows_and_in_one_from_a_cache() -> None:
    columns = Columns()
    columns.add([(0, 0, 0, seq, *(0,) * 9, -1, 0.0) for seq in (1, 2, 7, 2, 2**40)])
    again = Columns()
    again.restore(columns.packed())
    for each in (columns, again):
        assert [place_of(2, each.seq, start) for start in (0, 1, 2)] == [1, 1, 3]
        assert place_of(2**40, each.seq, 0) == 4
        with pytest.raises(ValueError):  # noqa: PT011 - of two kinds of column
            place_of(9, each.seq, 0)
