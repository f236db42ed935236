"""Lists of steps told by the shape of arguments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.at_once import at_once

from refold.core.plans import MOST, Step, plan_of
from refold.core.records import Json
from refold.core.touches import Touches

PLANS: list[tuple[str, Json, tuple[Step, ...] | None]] = [
    (
        "TodoWrite",
        {
            "todos": [
                {"content": "a", "status": "completed", "activeForm": "A"},
                {"content": "b", "status": "in_progress"},
                {"content": "c", "status": "pending"},
                {"content": "d", "status": "cancelled"},
            ]
        },
        (Step("a", "done"), Step("b", "doing"), Step("c"), Step("d", "dropped")),
    ),
    (
        "update_plan",
        {"explanation": "x", "plan": [{"step": "a", "status": "completed"}, {"step": "b", "status": "odd"}]},
        (Step("a", "done"), Step("b")),
    ),
    (
        "todo",
        {"items": [{"title": "a", "done": True}, {"title": "b", "done": False}]},
        (Step("a", "done"), Step("b")),
    ),
    (
        "set_plan",
        {"plan": "# Plan\n- [x] one\n- [ ] two\n3. [~] three\n"},
        (Step("one", "done"), Step("two"), Step("three", "doing")),
    ),
    ("plan", {"steps": ["- [ ] one"]}, (Step("one"),)),
    ("todo_write", {"todos": []}, ()),
    ("todo_write", {"todos": [{"content": "a"}]}, None),
    ("todo_write", {"todos": [7]}, None),
    ("create_order", {"items": [{"name": "bread", "status": "sold"}]}, None),
    ("plan_route", {"from": "a", "to": "b"}, None),
    ("todo_write", "x", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "steps"), PLANS)
def test_what_a_call_makes_of_the_list(name: str, arguments: Json, steps: tuple[Step, ...] | None) -> None:
    assert plan_of(name, arguments) == steps


@given(
    st.sampled_from(["todo_write", "update_plan", "x"]),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=9)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.sampled_from(["todos", "plan", "content", "status", "done", "x"]), inner),
        ),
        max_leaves=12,
    ),
)
def test_nothing_raises(name: str, arguments: Json) -> None:
    plan_of(name, arguments)


def test_of_a_very_long_list_the_first_steps_are_read() -> None:
    steps: list[Json] = [{"content": str(number), "status": "done"} for number in range(MOST + 50)]
    assert len(plan_of("todo_write", {"todos": steps}) or ()) == MOST


def test_each_step_knows_since_when_it_stands_as_it_does() -> None:
    touches = Touches()

    def write(item: int, *steps: tuple[str, str]) -> None:
        todos: list[Json] = [{"content": text, "status": status} for text, status in steps]
        at_once(touches.ask(0, item, 0, "todo_write", {"todos": todos}))
        touches.end(0, item + 1, ok=True)

    write(1, ("a", "pending"), ("b", "pending"))
    write(5, ("a", "completed"), ("b", "pending"), ("c", "pending"))
    write(9, ("b", "completed"), ("a", "completed"))
    at_once(touches.ask(0, 11, 0, "todo_write", {"todos": []}))
    touches.end(0, 12, ok=False)
    plans = [touches.plan(item) for item in (1, 2, 7, 20)]
    assert [None if plan is None else (plan.place.call, plan.since) for plan in plans] == [
        None,
        (1, (2, 2)),
        (5, (6, 2, 6)),
        (9, (10, 6)),
    ]
