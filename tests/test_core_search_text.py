"""What a query means: the same words for SQLite's index, for decoded text and for the bytes of a line."""

from __future__ import annotations

import json
import re
import sqlite3
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refold.core.search_hits import shown_text
from refold.core.search_record import Document, read_line, read_messages
from refold.core.search_text import SCOPES, QueryError, Scope, Term, column, folded, parse_query

ODD = 'aAbBz09_-. \n\t"*:ßẞİıſK\u0301\u0307éÉΣσςΑﬁ²µ—…日本語ไทย한글한\U0001f680\0\x80\u00ad\u200d'
TEXT = st.text(st.one_of(st.sampled_from(ODD), st.characters(exclude_categories=["Cs"])), max_size=24)
WORD = st.text(st.sampled_from("aAbB9_-éÉΣς日本ßſK"), min_size=1, max_size=4)


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A query of one to three terms, some in quotes, some behind a scope, some with a star."""
    made = []
    for words in draw(st.lists(st.lists(WORD, min_size=1, max_size=3), min_size=1, max_size=3)):
        term = f'"{" ".join(words)}"' if len(words) > 1 or draw(st.booleans()) else words[0]
        scope = draw(st.sampled_from(["", "", "prompt:", "results:", "answer:"]))
        made.append(f"{scope}{term}{draw(st.sampled_from(['', '*']))}")
    return " ".join(made)


@pytest.mark.parametrize(
    ("typed", "terms"),
    [
        ("read_file", [Term(("read", "file"))]),
        ('"no such file"', [Term(("no", "such", "file"))]),
        ('"no such file', [Term(("no", "such", "file"))]),
        ("econn* refused", [Term(("econn",), prefix=True), Term(("refused",))]),
        ('"no such fi"*', [Term(("no", "such", "fi"), prefix=True)]),
        ("result:Timeout", [Term(("timeout",), scopes=("result",))]),
        ('PROMPTS:"add a"', [Term(("add", "a"), scopes=("prompt",))]),
        ("https://x.org/a?b", [Term(("https", "x", "org", "a", "b"))]),
        ("a a A", [Term(("a",))]),
        ("... -- word", [Term(("word",))]),
        ("日本", [Term(("日", "本"))]),
        ("Cafe\u0301", [Term(("café",))]),
        ("ΟΔΟΣ", [Term(("οδοσ",))]),
    ],
)
def test_what_is_typed_is_understood(typed: str, terms: list[Term]) -> None:
    assert list(parse_query(typed).terms) == terms


@pytest.mark.parametrize("typed", ["", "   ", '""', "*", "...", "prompt:", "—", "\ud800"])
def test_a_query_without_a_word_is_refused_with_a_remedy(typed: str) -> None:
    with pytest.raises(QueryError, match="nothing to look for") as caught:
        parse_query(typed)
    assert "word" in caught.value.remedy


@pytest.mark.parametrize(
    ("typed", "text", "found"),
    [
        ("file", "no such file or directory", True),
        ("fil", "no such file", False),
        ("fil*", "no such file", True),
        ("ile*", "no such file", False),
        ("read_file", "calls Read File now", True),
        ("read_file", "read the file", False),
        ("such file", "file such", True),
        ('"such file"', "file such", False),
        ("STRASSE", "straße", False),
        ("STRAßE", "straẞe", True),
        ("本語", "日本語のテキスト", True),
        ("café", "CAFE\u0301", True),
    ],
)
def test_what_is_found(typed: str, text: str, found: bool) -> None:
    assert (parse_query(typed).match({"result": [text]}) is not None) is found


def test_a_phrase_does_not_go_from_one_text_into_the_next() -> None:
    query = parse_query('"one two"')
    assert query.match({"answer": ["one", "two"]}) is None
    assert query.match({"answer": ["zero", "one two"]}) is not None


def test_terms_may_stand_apart_but_each_where_it_was_asked_for() -> None:
    texts: dict[Scope, list[str]] = {"prompt": ["alpha"], "result": ["beta"]}
    assert parse_query("alpha beta").match(texts) is not None
    assert parse_query("alpha result:beta").match(texts) is not None
    assert parse_query("prompt:beta alpha").match(texts) is None


def test_a_prompt_is_worth_more_than_a_result_and_a_short_text_more_than_a_long_one() -> None:
    query = parse_query("word")

    def score(scope: Scope, text: str) -> float:
        found = query.match({scope: [text]})
        assert found is not None
        return found.score

    assert score("prompt", "word") > score("answer", "word") > score("argument", "word")
    assert score("argument", "word") > score("result", "word") > score("result", "word" + " x" * 5000)
    assert score("result", "word word") > score("result", "word")


def test_no_character_beyond_ascii_becomes_a_letter_of_it() -> None:
    every = [chr(code) for code in range(0x80, 0x1_0000) if not 0xD800 <= code < 0xE000]
    assert set(re.findall("[\x00-\x7f]", folded("".join(every)))) <= set(" ;`")
    assert not re.search("[0-9a-z]", "".join(folded(char) for char in every[:0x2200]))


@settings(max_examples=100)
@given(text=TEXT)
def test_folded_text_holds_no_capitals_and_only_words_beyond_ascii(text: str) -> None:
    for char in folded(text):
        assert not ("A" <= char <= "Z")
        assert char.isascii() or unicodedata.category(char)[0] in "LNM"


@settings(max_examples=120)
@given(typed=queries(), texts=st.lists(st.lists(TEXT, max_size=3), min_size=4, max_size=4))
@example(typed="a b", texts=[["a"], ["b"], [], []])
@example(typed='"a b"', texts=[["a\x80b"], [], [], ["b a", "b"]])
@example(typed="a*", texts=[["\0a\0b"], [], [], []])
def test_the_index_finds_what_the_text_tells(typed: str, texts: list[list[str]]) -> None:
    try:
        query = parse_query(typed)
    except QueryError:
        return
    by_scope = dict(zip(SCOPES, texts, strict=True))
    database = sqlite3.connect(":memory:")
    database.execute(
        f"CREATE VIRTUAL TABLE words USING fts5({', '.join(SCOPES)}, content='', tokenize='ascii')"
    )
    columns = [column(by_scope[scope]) if by_scope[scope] else None for scope in SCOPES]
    database.execute("INSERT INTO words VALUES (?, ?, ?, ?)", columns)
    found = database.execute("SELECT count(*) FROM words WHERE words MATCH ?", (query.expression,)).fetchone()
    database.close()
    assert bool(found[0]) is (query.match(by_scope) is not None)


@settings(max_examples=120)
@given(typed=queries(), texts=st.lists(TEXT, max_size=3), ascii_only=st.booleans())
@example(typed="k", texts=["\u212a"], ascii_only=True)
@example(typed="abc", texts=["a\u0062c"], ascii_only=True)
def test_no_line_with_a_hit_is_passed_over(typed: str, texts: list[str], *, ascii_only: bool) -> None:
    try:
        query = parse_query(typed)
    except QueryError:
        return
    value = {"seq": 1, "user": {"message": {"role": "user", "content": texts}}}
    plain = json.dumps(value, ensure_ascii=ascii_only)
    escaped = json.dumps(json.dumps(value))[1:-1].replace("a", "\\u0061")
    for line in (plain.encode(), escaped.encode()):
        if query.match(read_line(line).texts) is not None:
            assert query.possible(line)


@settings(max_examples=60)
@given(typed=queries(), text=TEXT)
def test_the_line_that_is_shown_comes_from_the_text(typed: str, text: str) -> None:
    try:
        query = parse_query(typed)
    except QueryError:
        return
    document = Document({"result": [text]}, "tool_result")
    found = query.match(document.texts)
    if found is not None:
        assert shown_text(query, document, found.scopes).strip("…") in text


def test_a_long_line_is_shown_around_the_word() -> None:
    query = parse_query("needle")
    shown = shown_text(query, Document({"result": ["x " * 900 + "needle" + " y" * 900]}, ""), ("result",))
    assert "needle" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) <= 302


V2 = b"""{"seq":3,"protocol":"p","assistant":{"message":{"content":[{"text":"Hi","type":"text"},
{"id":"c","input":{"path":"a.py","n":3},"name":"read","type":"tool_use"}],"role":"assistant"}}}"""
V3 = b"""{"seq":3,"protocol":"p","assistant":{"message":{"role":"assistant","content":[
{"tool_use":{"id":"c","name":"read","input":{"q":1.5}}}]}}}"""
PACKED = rb"""{"seq":4,"tool_result":{"tool_use_id":"c","result":{
"content":"{\"output\":\"one\\ntwo\",\"exit_code\":7}"}}}"""
EVENT = b"""{"sequence":2,"event_type":"tool.completed","data":{"preview":"ok"}}"""


@pytest.mark.parametrize(
    ("line", "kind", "texts"),
    [
        (V2, "assistant", {"answer": ["Hi"], "argument": ["c", "path", "a.py", "n", "3", "read"]}),
        (V3, "assistant", {"argument": ["c", "read", "q"]}),
        (PACKED, "tool_result", {"result": ["c", "output", "one\ntwo", "exit_code", "7"]}),
        (EVENT, "tool.completed", {"result": ["ok"]}),
        (b'torn {"a":"one\\ntwo \\u00e9', "damage", {"result": ['torn {"a":"one two é']}),
        (b"[" * 5000, "damage", {"result": ["[" * 5000]}),
        (b'{"a":"\\ud800 x"}', "damage", {"result": ['{"a":"\ud800 x"}']}),
        (b'\xff\xfe"', "damage", {"result": ['\ufffd\ufffd"']}),
    ],
)
def test_the_texts_of_a_line(line: bytes, kind: str, texts: dict[str, list[str]]) -> None:
    document = read_line(line)
    assert (document.kind, document.texts) == (kind, texts)


def test_what_lies_deep_is_a_text_too() -> None:
    line = b'{"assistant":' + b"[" * 400 + b'"bottom"' + b"]" * 400 + b"}"
    assert read_line(line) == Document({"answer": ["bottom"]}, "assistant")


def test_a_line_of_too_many_values_is_searched_by_its_bytes() -> None:
    line = b'{"assistant":[' + b"{}," * 300_000 + b'"word"]}'
    document = read_line(line)
    assert (document.kind, list(document.texts)) == ("damage", ["result"])
    packed = json.dumps({"assistant": line.decode()}).encode()
    assert read_line(packed).texts == {"answer": [line.decode()]}


def test_a_manifest_of_millions_of_messages_is_read_in_steps_up_to_a_bound() -> None:
    data = b'{"messages":[' + b"{}," * 20_000 + b'"said",' * 2 + b'"{}[],",7,["behind"]]}'
    found = list(read_messages(data))
    assert found.count(None) > 5
    assert [each[0] for each in found if each is not None] == [20_000, 20_001, 20_002, 20_004]
    cut = [each for each in read_messages(data, most=60_005) if each is not None]
    assert [number for number, _ in cut] == [20_000, 20_001, 20_002]
    assert cut[-1][1] == Document({"result": ['"{}[],",7,["behind"]]']}, "message")


def test_of_a_crowded_message_the_bytes_are_searched_and_the_next_one_as_ever() -> None:
    data = b'{"messages":[["deep",' + b"[]," * 300_000 + b'7],{"role":"user","content":"go"}]}'
    (first, second) = [each for each in read_messages(data) if each is not None]
    assert "deep" in first[1].texts["result"][0]
    assert second == (1, Document({"prompt": ["go"]}, "message user"))


def test_the_messages_of_a_manifest() -> None:
    manifest = {
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "so", "tool_calls": [{"name": "w", "arguments": {"k": "v"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
            7,
        ]
    }
    found = read_messages(json.dumps(manifest).encode())
    assert [(each[0], each[1].texts) for each in found if each is not None] == [
        (0, {"prompt": ["go"]}),
        (1, {"answer": ["so"], "argument": ["w", "k", "v"]}),
        (2, {"result": ["c1", "done"]}),
    ]
    for data in (b"{}", b"torn", b"[]", b'{"messages":[]}', b'{"messages":{"a":["b"]}}', b'{"messages":"x"}'):
        assert list(read_messages(data)) == []
