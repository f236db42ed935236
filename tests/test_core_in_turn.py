"""Work done beside its owner: in order, all of it, and never too much of it waiting."""

from __future__ import annotations

import threading

import pytest

from refold.core.store.in_turn import InTurn


def never(error: Exception) -> None:
    raise error


def test_all_of_it_is_done_in_order_before_it_is_closed() -> None:
    done: list[int] = []
    beside = InTurn(never)
    for number in range(3):
        beside.do(lambda number=number: done.append(number))  # type: ignore[misc]
    beside.close()
    beside.close()

    assert done == [0, 1, 2]


def test_nobody_waits_for_the_first_pieces_and_too_many_are_done_at_once() -> None:
    going = threading.Event()
    done: list[threading.Thread] = []
    beside = InTurn(never)
    beside.do(lambda: going.wait(20))
    for _ in range(12):
        beside.do(lambda: done.append(threading.current_thread()))

    assert threading.current_thread() in done
    assert len(done) >= 7
    going.set()
    beside.close()
    assert len(done) == 12


def test_it_goes_on_after_it_was_closed() -> None:
    done: list[int] = []
    beside = InTurn(never)
    beside.do(lambda: done.append(1))
    beside.close()
    beside.do(lambda: done.append(2))
    beside.close()

    assert done == [1, 2]


def test_work_that_fails_stops_nothing_and_is_told_at_the_end() -> None:
    def fails() -> None:
        raise MemoryError("no room")

    done: list[int] = []
    told: list[Exception] = []
    going = threading.Event()
    beside = InTurn(told.append)
    beside.do(fails)
    beside.do(lambda: going.wait(20))
    for number in range(9):
        beside.do(fails)
        beside.do(lambda number=number: done.append(number))  # type: ignore[misc]
    assert told == []
    going.set()
    beside.close()

    assert sorted(done) == list(range(9))
    assert [type(error) for error in told] == [MemoryError] * 10
    beside.close()
    assert len(told) == 10


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_waits_for_a_thread_that_has_ended() -> None:
    def ends() -> None:
        going.wait(20)
        raise SystemExit

    going = threading.Event()
    done: list[int] = []
    beside = InTurn(never)
    beside.do(ends)
    for number in range(9):
        beside.do(lambda number=number: done.append(number))  # type: ignore[misc]
    going.set()
    beside.close()
    beside.do(lambda: done.append(99))
    beside.close()

    assert done[-1] == 99
