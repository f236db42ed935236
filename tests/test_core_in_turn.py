"""Work done beside its owner: in order, all of it, and never too much of it waiting."""

from __future__ import annotations

import threading

from refold.core.store.in_turn import InTurn


def test_all_of_it_is_done_in_order_before_it_is_closed() -> None:
    done: list[int] = []
    beside = InTurn()
    for number in range(3):
        beside.do(lambda number=number: done.append(number))  # type: ignore[misc]
    beside.close()
    beside.close()

    assert done == [0, 1, 2]


def test_nobody_waits_for_the_first_pieces_and_too_many_are_done_at_once() -> None:
    going = threading.Event()
    done: list[threading.Thread] = []
    beside = InTurn()
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
    beside = InTurn()
    beside.do(lambda: done.append(1))
    beside.close()
    beside.do(lambda: done.append(2))
    beside.close()

    assert done == [1, 2]
