"""The messages of a run directory, cut back to what its events prove at any of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rivumi_cases import make

from refold.app.lines import plain
from refold.app.present.reading import reading_of
from refold.app.present.view import View
from refold.core.records import Json
from refold.core.rivumi.sent import sent_at
from refold.core.store.reader import RunReader
from refold.core.store.session_reader import SessionReader

USER: Json = {"role": "user", "content": "Task"}
CALLS: Json = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"tool_call_id": "a"}, {"tool_call_id": "b"}],
}
A: Json = {"tool_call_id": "a", "ok": True, "content": "A"}
B: Json = {"tool_call_id": "b", "ok": True, "content": "B"}
LAST: Json = {"role": "assistant", "content": "Done"}
ALL = (USER, CALLS, A, B, LAST)


@pytest.mark.parametrize(
    ("turns", "ended", "asked", "sent"),
    [
        (0, (), False, (USER,)),
        (1, (), False, (USER, CALLS)),
        (1, ("b",), False, (USER, CALLS, B)),
        (1, ("a", "b"), False, (USER, CALLS, A, B)),
        (1, (), True, (USER, CALLS, A, B)),
        (2, (), False, ALL),
        (3, (), False, None),
    ],
)
def test_messages_up_to_a_point(
    turns: int, ended: tuple[str, ...], *, asked: bool, sent: tuple[Json, ...] | None
) -> None:
    assert sent_at(ALL, turns, ended, asked=asked) == sent


def test_what_a_fork_began_with_is_none_of_its_turns() -> None:
    assert sent_at((*ALL, CALLS, A), 0, (), inherited=5) == ALL
    assert sent_at((*ALL, CALLS, A), 1, ("a",), inherited=5) == (*ALL, CALLS, A)


@given(st.lists(st.sampled_from([USER, CALLS, A, B, LAST, None, 7]), max_size=9), st.integers(0, 4))
def test_what_is_sent_is_a_part_of_the_conversation_in_its_order(messages: list[Json], turns: int) -> None:
    sent = sent_at(messages, turns, ("a",))
    if sent is not None:
        rest = iter(messages)
        assert all(any(one is message for one in rest) for message in sent)


def test_the_pane_shows_the_conversation_at_the_cursor(tmp_path: Path) -> None:
    with RunReader.open(make("12-terminal-completed", tmp_path)) as reader:
        assert isinstance(reader, SessionReader)
        timeline = reader.index_all()
        assert reader.manifest is not None
        reading = reading_of(reader)

        def said(item: int) -> str:
            return "\n".join(plain(line) for line in reading.conversation(item, 200, View()) if line)

        before = said(2)
        assert "First the model is sent its tools: they are not recorded." in before
        assert f"cut back to the cursor, 2 of {len(reader.manifest.messages)} messages." in before
        assert "replace_text" not in before
        edit = next(
            at for at in range(timeline.items) if reader.timeline.type_of(at) == "tool.requested" and at > 9
        )
        assert "call replace_text" in said(edit)
        assert "⚠ replace_text" in said(edit)
        assert "cut back" not in said(timeline.items - 1)
        lengths = [said(item).count("──") for item in range(timeline.items)]
        assert lengths == sorted(lengths)
