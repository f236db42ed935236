"""Long work on the loop leaves room for everything else, and ends when it is told to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing

from refold.app.loading import SLICE, one_slice, slices, until_done


def busy(count: int, seconds: float, ended: list[str] | None = None) -> Iterator[int]:
    try:
        for number in range(count):
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                pass
            yield number
    finally:
        if ended is not None:
            ended.append("closed")


def test_a_slice_ends_with_its_time() -> None:
    work = busy(100, 0.001)
    produced, ended = one_slice(work)
    assert not ended
    assert 1 <= len(produced) <= SLICE / 0.001
    assert one_slice(iter(())) == ([], True)


async def test_everything_is_produced_in_order_while_others_have_their_turn() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    produced: list[int] = []
    batches = 0
    async for batch in slices(busy(60, 0.001)):
        produced += batch
        batches += 1
    task.cancel()
    assert produced == list(range(60))
    assert batches >= 60 * 0.001 / SLICE
    assert turns >= batches - 1


async def test_nothing_is_yielded_for_no_work() -> None:
    assert [batch async for batch in slices(iter(()))] == []


async def test_work_that_is_left_early_is_closed() -> None:
    ended: list[str] = []
    async with aclosing(slices(busy(100, 0.001, ended))) as batches:
        async for _ in batches:
            break
    assert ended == ["closed"]


async def test_a_step_is_called_until_it_says_that_all_is_done() -> None:
    given: list[float] = []

    def step(seconds: float) -> bool:
        given.append(seconds)
        return len(given) == 3

    await until_done(step)
    assert given == [SLICE] * 3
