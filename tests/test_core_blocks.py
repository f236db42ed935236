"""Blocks of every version read alike, nothing refused, and the mapping from wire blocks to version 3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.blocks import Block, read_blocks, result_id, result_is_error, result_text
from refold.core.records import Json, Message

FIXTURES = Path(__file__).parent / "data" / "fisk-ai"
PAIRS: list[dict[str, Any]] = json.loads((FIXTURES / "message-v2-to-v3.json").read_bytes())


def message_of(shape: dict[str, Any]) -> Message:
    return Message(shape["role"], None if shape["content"] is None else tuple(shape["content"]))


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair["name"])
def test_both_shapes_of_a_message_say_the_same(pair: dict[str, Any]) -> None:
    def seen(shape: dict[str, Any]) -> list[tuple[object, ...]]:
        blocks = read_blocks(message_of(shape).content)
        return [(b.kind, b.text, b.name, b.input, b.is_error) for b in blocks]

    assert seen(pair["v2"]) == seen(pair["v3"])


def test_each_kind_of_block() -> None:
    wire: list[Json] = [
        {"type": "text", "text": "t"},
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "tool_use", "id": "a", "name": "n", "input": {"x": 1}},
        {"type": "tool_result", "tool_use_id": "a", "is_error": True, "content": "c"},
        {"type": "server_tool_use", "id": "s", "name": "web"},
        {"type": "text", "text": 5},
        {"type": 5},
        "bare",
        7,
        None,
        {},
        {"text": {"text": "1"}, "tool_use": {"id": "b", "name": "m", "input": None}},
        {"provider": {"kind": "k", "raw": {}}},
        {"text": None},
    ]
    assert read_blocks(wire) == (
        Block("text", "t", raw=wire[0]),
        Block("thinking", "hm", raw=wire[1]),
        Block("call", id="a", name="n", input={"x": 1}, raw=wire[2]),
        Block("result", "c", id="a", is_error=True, raw=wire[3]),
        Block("other", id="s", name="server_tool_use", raw=wire[4]),
        Block("text", "", raw=wire[5]),
        Block("other", raw=wire[6]),
        Block("text", "bare", raw="bare"),
        Block("other", raw=7),
        Block("other", raw=None),
        Block("other", raw={}),
        Block("text", "1", raw=wire[11]),
        Block("call", id="b", name="m", raw=wire[11]),
        Block("other", name="k", raw=wire[12]),
        Block("other", raw=wire[13]),
    )
    assert read_blocks(None) == ()


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"content": "plain"}, "plain"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"content": ["a", {"type": "image"}, {"text": {"text": "b"}}, 7]}, "a\nb"),
        ({"content": {"text": "odd"}}, ""),
        ({"content": None}, ""),
        ({}, ""),
        ("bare", "bare"),
        (None, ""),
        ([{"text": "listed"}], "listed"),
    ],
)
def test_the_text_of_a_result(result: Json, text: str) -> None:
    assert result_text(result) == text


def test_what_else_a_result_says() -> None:
    assert result_is_error({"is_error": True})
    assert not result_is_error({"is_error": "true"})
    assert not result_is_error(None)
    assert result_id({"tool_use_id": "a"}) == "a"
    assert result_id({"tool_use_id": 5}) == ""
    assert result_id([]) == ""


keys = st.sampled_from(
    ["type", "text", "thinking", "tool_use", "tool_result", "provider", "content", "id", "is_error"]
)
words = st.sampled_from(["text", "tool_use", "tool_result", "thinking", "x"])
anything: st.SearchStrategy[Json] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=10,
)


@given(st.lists(anything, max_size=4))
def test_no_block_is_refused_and_none_is_lost(content: list[Json]) -> None:
    blocks = read_blocks(content)
    assert len(blocks) >= len(content)
    assert [block.raw for block in blocks if block.raw not in content] == []
