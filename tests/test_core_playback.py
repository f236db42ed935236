"""A played run keeps the clock: whatever delays the ticks, what is shown is what is due."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import accumulate

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from refold.core.playback import IDLE, SPEEDS, STEP, Loop, Pace, Playhead, advance, next_speed
from refold.core.timeline import Timeline

waits = st.lists(st.sampled_from([0.0, 0.001, 0.25, 1.0, 2.0]), min_size=1, max_size=40)


def tick(head: Playhead, now: float, wait: list[float]) -> Playhead:
    """Look at the clock once."""
    for moved in advance(head, now, lambda item: wait[item - 1], len(wait)):
        head = moved
    return head


def timed(seconds: list[float | None]) -> Timeline:
    """A timeline of which nothing is known but the times of its items."""
    timeline = Timeline()
    timeline.columns.seconds = array("d", [float("nan") if value is None else value for value in seconds])
    return timeline


@given(wait=waits, delays=st.lists(st.floats(0, 3), max_size=30), speed=st.sampled_from(SPEEDS))
def test_delayed_ticks_add_up_to_nothing(wait: list[float], delays: list[float], speed: float) -> None:
    """However late each tick comes, after it the run stands where the clock says: the bar is 5 %."""
    now = 1000.0
    head = Playhead(speed=speed).play(now)
    due = list(accumulate(wait))
    for delay in delays:
        now += delay
        head = tick(head, now, wait)
        passed = (now - 1000.0) * speed
        assume(all(abs(passed - moment) > 1e-6 for moment in due))
        assert head.item == bisect_right(due, passed)


def test_an_hour_at_sixteen_times_with_ticks_that_are_always_late() -> None:
    wait = [0.11] * 600_000
    head, now, start = Playhead(speed=16).play(0.0), 0.0, 0.0
    for number in range(3600 * 8):
        now += 0.033 + 0.092 * (number % 3 == 0) + 0.2 * (number % 97 == 0)
        head = tick(head, now, wait)
    played = head.item * 0.11 + head.passed(now)
    assert played == pytest.approx((now - start) * 16, rel=1e-9)


@given(
    wait=waits,
    changes=st.lists(st.tuples(st.floats(0.01, 2), st.sampled_from(SPEEDS), st.booleans()), max_size=12),
)
def test_another_speed_or_a_pause_is_no_jump(
    wait: list[float], changes: list[tuple[float, float, bool]]
) -> None:
    now, passed = 50.0, 0.0
    head = Playhead().play(now)
    due = list(accumulate(wait))
    for seconds, speed, paused in changes:
        before = head.passed(now)
        head = head.at_speed(speed, now)
        assert head.passed(now) == pytest.approx(before, abs=1e-9)
        if paused:
            head = tick(head.pause(now), now + seconds, wait)
            assert head.passed(now + seconds) == pytest.approx(before, abs=1e-9)
            head = head.play(now + seconds)
        else:
            passed += seconds * speed
        now += seconds
        head = tick(head, now, wait)
        assume(all(abs(passed - moment) > 1e-6 for moment in due))
        assert head.item == bisect_right(due, passed)


def test_a_playhead_that_is_sought_waits_anew() -> None:
    head = tick(Playhead().play(0.0), 2.5, [1.0] * 9)
    assert head.item == 2
    head = head.seek(6, 2.5)
    assert tick(head, 3.4, [1.0] * 9).item == 6
    assert tick(head, 3.5, [1.0] * 9).item == 7
    assert not Playhead(3).seek(4, 9.0).playing


def test_what_is_paused_is_never_due() -> None:
    head = Playhead(speed=4).play(0.0).pause(0.2)
    assert head.passed(99.0) == pytest.approx(0.8)
    assert head.due(0.0) == float("inf")
    assert head.play(100.0).due(1.0) == pytest.approx(100.05)
    assert head.play(5.0).play(7.0) == head.play(5.0)
    assert head.at_speed(0.25, 3.0).passed(9.0) == pytest.approx(0.8)


@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e9)), max_size=30), st.booleans())
def test_the_pace_is_the_recorded_one_with_idle_time_capped(
    seconds: list[float | None], recorded: bool
) -> None:
    timeline, pace = timed(seconds), Pace(recorded=recorded)
    now, before, due = 0.0, None, []
    for item, own in enumerate(seconds):
        if own is None or not recorded:
            now += STEP if item else 0.0
        elif before is not None:
            now += min(IDLE, max(0.0, own - before)) if item else 0.0
        before = own if own is not None else before
        due.append(now)
    assert list(pace.moments(timeline, len(seconds))) == pytest.approx(due)
    assert [pace.wait(timeline, item) for item in range(len(seconds))] == pytest.approx(
        [after - at for at, after in zip([0.0, *due], due, strict=False)]
    )


def test_a_time_behind_a_long_stretch_without_any_is_due_at_once() -> None:
    timeline = timed([0.0, *[None] * 500, 1000.0])
    assert Pace().wait(timeline, 501) == 0.0


def test_speeds_go_from_a_quarter_to_sixteen_and_stay_there() -> None:
    assert (SPEEDS[0], SPEEDS[-1]) == (0.25, 16)
    assert [next_speed(speed, 1) for speed in SPEEDS] == [*SPEEDS[1:], 16]
    assert [next_speed(speed, -1) for speed in SPEEDS] == [0.25, *SPEEDS[:-1]]


@settings(max_examples=50)
@given(st.integers(0, 50), st.integers(0, 50))
def test_a_loop_holds_both_of_its_ends_in_either_order(one: int, other: int) -> None:
    begun = Loop(one)
    assert not begun.holds(one)
    loop = begun.to(other)
    assert loop.holds(one)
    assert loop.holds(other)
    assert not loop.holds(min(one, other) - 1)
    assert not loop.holds(max(one, other) + 1)
