"""A text is found in every JSON spelling of it, and only where it stands."""

from __future__ import annotations

import json
import re
import string
import time
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from refold.core.records import Json
from refold.core.search import LONGEST, Search, pattern, text_pattern
from refold.core.search_record import read_line
from refold.core.texts import readable_texts

Writer = Callable[[Json], bytes]


def python_ascii(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=True).encode()


def python_raw(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def go(value: Json) -> bytes:
    """What encoding/json writes: HTML characters and line separators escaped, the rest raw."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    long = {"\\b": "\\u0008", "\\f": "\\u000c"}
    return re.sub(r"\\.", lambda found: long.get(found[0], found[0]), text).encode()


def every_unit(value: Json) -> bytes:
    """The longest lawful spelling: each UTF-16 unit of each text escaped, in upper case."""

    def spell(found: re.Match[str]) -> str:
        units = json.loads(found.group()).encode("utf-16-be")
        return '"' + "".join(f"\\u{units[i : i + 2].hex().upper()}" for i in range(0, len(units), 2)) + '"'

    return re.sub(r'"(?:[^"\\]|\\.)*"', spell, json.dumps(value, ensure_ascii=False)).encode()


def slashes(value: Json) -> bytes:
    return python_raw(value).replace(b"/", rb"\/")


WRITERS: tuple[Writer, ...] = (python_ascii, python_raw, msgspec.json.encode, go, slashes, every_unit)
TEXT = st.text(
    st.one_of(
        st.sampled_from('aAbBuU0019fFnrt\\\\\\"/<>&é ÉßİıſK\n\t\b\x7f\u2028😀漢'),
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from(string.ascii_letters),
    ),
    max_size=24,
)
QUERY = TEXT.filter(bool)


@settings(max_examples=300, deadline=None)
@given(TEXT, QUERY, TEXT, st.sampled_from(WRITERS), st.booleans())
def test_finds_a_text_whatever_its_spelling(
    before: str, query: str, after: str, write: Writer, ignore_case: bool
) -> None:
    line = write({"text": before + query + after})
    assert pattern(query, ignore_case=ignore_case).search(line)
    assert Search(query, ignore_case=ignore_case).in_record(line)


@settings(max_examples=600, deadline=None)
@given(TEXT, QUERY, st.sampled_from(WRITERS), st.booleans())
@example("\\u00e9", "0", python_ascii, True)
@example("\u00e9", "e9", python_ascii, True)
@example("a\nb", "nb", python_raw, True)
@example("\\nb", "nb", python_raw, True)
@example("\\\\nb", "\\nb", python_raw, True)
@example("\\\\\\", "\\", python_raw, True)
@example('"', '"', python_raw, True)
@example("\\uabcd", "abcd", go, True)
@example("\\u\nab", "ab", go, True)
@example("\x00", "00", python_ascii, True)
def test_finds_exactly_what_decoded_text_contains(
    text: str, query: str, write: Writer, ignore_case: bool
) -> None:
    line = write([text])
    inside = line[2:-2]  # without the brackets and quotes around the text
    there = text_pattern(query, ignore_case=ignore_case).search(text) is not None
    assert (pattern(query, ignore_case=ignore_case).search(inside) is not None) is there
    search = Search(query, ignore_case=ignore_case)
    assert (search.candidate(inside) >= 0) is there
    assert search.in_record(line) is there


@settings(deadline=None)
@given(TEXT, QUERY)
def test_the_text_pattern_is_containment(text: str, query: str) -> None:
    assert (text_pattern(query, ignore_case=False).search(text) is not None) is (query in text)


@settings(deadline=None)
@given(st.text("aAbBkKsS!\\", max_size=12), st.text("aAbBkKsS!\\", min_size=1, max_size=3))
def test_ascii_letters_have_two_cases(text: str, query: str) -> None:
    assert (text_pattern(query).search(text) is not None) is (query.lower() in text.lower())


@settings(deadline=None)
@given(TEXT, QUERY, st.sampled_from(WRITERS))
def test_a_hit_ends_where_the_text_ends(before: str, query: str, write: Writer) -> None:
    line = write([before + query])
    assume(query not in (before + query)[:-1])
    found = pattern(query, ignore_case=False).search(line)
    assert found is not None
    assert line[found.end() :].strip() == b'"]'


@pytest.mark.parametrize(
    ("query", "there"),
    [
        ("assistant", False),
        ("tool_use", False),
        ("input", False),
        ("path", True),
        ("notes.md", True),
        ("17", True),
        ("READ_FILE", True),
        ("toolu_1", True),
        ("seq", False),
    ],
)
def test_what_every_record_is_made_of_is_not_a_hit(query: str, there: bool) -> None:
    line = msgspec.json.encode(
        {
            "seq": 2,
            "protocol": "io.choria.fisk-ai.v1.session.assistant",
            "assistant": {
                "iteration": 0,
                "stop_reason": "tool_use",
                "message": {
                    "role": "assistant",
                    "content": [
                        {
                            "tool_use": {
                                "id": "toolu_1",
                                "name": "read_file",
                                "input": {"path": "notes.md", "line": 17},
                            }
                        }
                    ],
                },
            },
        }
    )
    assert Search(query).in_record(line) is there


def test_a_word_of_the_structure_is_found_where_someone_wrote_it() -> None:
    assert Search("assistant").in_record(b'{"role":"user","content":[{"text":"ask the assistant"}]}')
    assert Search("text").in_record(b'{"tool_use":{"input":{"type":"text"}}}')


@pytest.mark.parametrize("line", [b'{"text":"half a rec', b'{"text":"\xff half"}', b"[" * 200_000 + b'"half'])
def test_a_hit_in_a_line_that_cannot_be_decoded_counts(line: bytes) -> None:
    assert Search("half").in_record(line)
    assert not Search("whole").in_record(line)


def test_an_empty_query_matches_nothing() -> None:
    assert pattern("").search(b'{"text":""}') is None
    assert not Search("").in_record(b'{"text":""}')


def test_a_million_backslashes_take_linear_time() -> None:
    line = b'["' + b"\\" * 1_000_000 + b'"]'
    assert not Search("n").in_record(line)
    assert Search("\\").in_record(line)


def test_readable_texts_of_a_deep_value_need_no_recursion() -> None:
    value: Json = "bottom"
    for _ in range(5000):
        value = [value]
    assert list(readable_texts(value)) == ["bottom"]


@pytest.mark.parametrize(
    "value",
    [
        {"event_type": "needle", "run_id": "needle", "time": "needle", "data": {"x": "y"}},
        {"created_at": "needle", "finish_reason": "needle", "tools_hash": "needle", "data": {"x": "y"}},
        {"content": [{"type": "tool_use", "input": {"needle": 1}}]},
        {"tool_calls": [{"function": {"arguments": {"needle": True}}}]},
        {"arguments": {"needle": "y"}},
        {"needle": "only a name"},
        {"data": {"type": "needle", "kind": {"type": "x", "said": "needle"}}},
    ],
)
def test_the_filter_and_the_search_of_all_runs_take_the_same_for_text(value: Json) -> None:
    line = msgspec.json.encode(value)
    found = any("needle" in text for texts in read_line(line).texts.values() for text in texts)
    assert Search("needle").in_record(line) is found


@pytest.mark.parametrize("piece", ["lorem ipsum ", "é核 <&> "])
def test_a_text_pasted_by_mistake_does_not_hold_the_program_up(piece: str) -> None:
    pasted = (piece * 100_000)[:1_000_000]
    start = time.process_time()
    search = Search(pasted)
    assert time.process_time() - start < 1
    assert search.in_record(go({"text": f"{pasted[:LONGEST]} and so on"}))
    assert not search.in_record(go({"text": pasted[: LONGEST - 1]}))
    assert search.reach < 20 * LONGEST
