"""Records to lines in two ways: the quick one gives what the exact one gives, and only what can be read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refold.core.errors import BadRecord
from refold.core.formats.gojson import (
    SpelledList,
    SpelledObject,
    encode,
    encode_exactly,
    encode_plain,
)
from refold.core.formats.journal import FISK_AI, NATIVE
from refold.core.formats.tolerant import MAX_DEPTH
from refold.core.records import (
    AssistantRecord,
    Json,
    Message,
    Record,
    Resumed,
    TerminalRecord,
    ToolResultRecord,
    UserRecord,
)

values: st.SearchStrategy[Json] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=12,
)


@given(values)
@example(
    {"<k>": ["&", "\u2028", '\u2029\x7f\x00\b\f\t\n\r\x1f"\\/', "\ud800x", 2**64, -(2**63) - 1, "\U0001f600"]}
)
@example({"\ud800": 1})
@example([SpelledObject({"a": 1e5}, b'{"a":1e5}'), SpelledList([1], b"[1.0]")])
def test_both_ways_to_encode_spell_alike(value: Json) -> None:
    exact = encode_exactly(value)
    assert encode(value) == exact
    assert encode_plain(value) in {None, exact}


@pytest.mark.parametrize(
    "value",
    [
        {"text": "<é\u2028 \U0001f600", "n": [1, True, None, {}, []], "": -(2**63), "big": 2**64},
        "".join(map(chr, range(0xD800))),
        "".join(map(chr, range(0xE000, 0x110000))),
    ],
)
def test_plain_values_are_encoded_the_quick_way(value: Json) -> None:
    assert encode_plain(value) == encode_exactly(value)


class _Word(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value", [0.5, "\ud800", pytest.param(10**5000, id="digits"), float("nan"), _Word("a"), {_Word("a"): 1}]
)
def test_what_is_not_plain_goes_the_exact_way(value: Json) -> None:
    assert encode_plain([value]) is None


def test_both_ways_to_encode_stop_at_the_same_depth() -> None:
    value: Json = "x"
    for depth in range(1, 260):
        value = [value] if depth % 2 else {"a": value}
        quick = encode_plain(value)
        if depth <= MAX_DEPTH:
            assert quick == encode_exactly(value)
        else:
            assert quick is None
            with pytest.raises(BadRecord):
                encode_exactly(value)


odd: st.SearchStrategy[Any] = st.one_of(
    st.integers(-3, 3), st.sampled_from([2**63, 2**64, -(2**63) - 1, True, 1.0, "", "a", "\ud800", None])
)
odd_records: st.SearchStrategy[Record] = st.one_of(
    st.builds(
        AssistantRecord,
        st.builds(Message, odd, st.lists(values | odd, max_size=3).map(tuple) | st.none()),
        *[odd] * 7,
        st.none() | odd,
    ),
    st.builds(
        UserRecord,
        st.builds(Message, odd, st.lists(values | odd, max_size=3).map(tuple) | st.none()),
        odd,
        st.none() | odd,
    ),
    st.builds(ToolResultRecord, odd, values | odd, odd, st.none(), odd, st.none() | odd),
    st.builds(TerminalRecord, odd, odd, odd, st.none() | odd),
    st.builds(TerminalRecord, st.just("a"), st.just("b"), st.just(3), st.none(), st.just(Resumed())),
)


@given(odd_records)
def test_a_plain_line_is_the_usual_one_and_is_always_read(record: Record) -> None:
    """What is not plain is left to be read back; what is can be read by whoever opens the run."""
    for format_, version in ((NATIVE, 2), (FISK_AI, 2), (FISK_AI, 3)):
        line = format_.plain_line(record, version)
        if line is not None:
            assert line == format_.encode(record, version)
            again = format_.decoder_for(version).record(line[:-1])
            assert type(again) is type(record)
            assert format_.encode(again, version) == line


@pytest.mark.parametrize("record", [
    AssistantRecord(Message("assistant", ({"type": "text", "text": "<a>"},)), 1, "tool_use", 2, 3, seq=2),
    UserRecord(Message("user", ()), seq=2, time="now"),
    ToolResultRecord("a", {"content": "x"}, seq=2),
    TerminalRecord("completed", "m", seq=2),
])  # fmt: skip
def test_usual_records_are_plain(record: Record) -> None:
    assert NATIVE.plain_line(record, 2) == NATIVE.encode(record, 2)
    assert FISK_AI.plain_line(record, 3) is None


def test_plain_records_nest_as_deep_as_others() -> None:
    value: Json = "x"
    for _ in range(MAX_DEPTH + 3):
        value = [value]
        for record in (
            ToolResultRecord("a", value, seq=2),
            UserRecord(Message("user", (value,)), seq=2),
            AssistantRecord(Message("assistant", ("b", value)), seq=2),
        ):
            line = NATIVE.plain_line(record, 2)
            if line is None:
                with pytest.raises(BadRecord):
                    NATIVE.encode(record, 2)
            else:
                assert NATIVE.encode(record, 2) == line
                NATIVE.decoder_for(2).record(line[:-1])
