"""Lines to records and back: two readings that agree, the original's tolerance, and nothing hostile."""

from __future__ import annotations

import inspect
import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refold.core.errors import BadRecord
from refold.core.formats import HEAD_BYTES, CallColumns, Columns
from refold.core.formats.exact import _read, read
from refold.core.formats.fields import is_time
from refold.core.formats.gojson import SpelledObject, compact, encode
from refold.core.formats.journal import FISK_AI, NATIVE
from refold.core.formats.line_decoder import LineDecoder
from refold.core.formats.neutral_decoder import NeutralDecoder
from refold.core.formats.neutral_quick import read_neutral
from refold.core.formats.registry import FORMATS, by_name, format_of
from refold.core.formats.tolerant import parse, plain, too_deep
from refold.core.formats.wire_decoder import WireDecoder
from refold.core.formats.wire_quick import read_wire
from refold.core.records import (
    AssistantRecord,
    Decision,
    Fingerprint,
    ForkOrigin,
    IncompleteRecord,
    Json,
    Message,
    MetaRecord,
    Record,
    Resumed,
    TerminalRecord,
    ToolResultRecord,
    UnknownRecord,
    UserRecord,
)

FIXTURES = Path(__file__).parent / "data" / "fisk-ai"
JOURNALS = sorted(path for path in FIXTURES.glob("v?/*.json") if path.name != "expected.json")
LINES = sorted({line for path in JOURNALS for line in path.read_bytes().split(b"\n") if line.strip()})
V3, V2, OURS = FISK_AI.decoder_for(3), FISK_AI.decoder_for(2), NATIVE.decoder_for(2)
DECODERS = (V3, V2, OURS)
P = "io.choria.fisk-ai.v1.session."


def outcome(decode: Callable[[bytes], Record | Columns], line: bytes) -> Record | Columns | str:
    """What a reading gives: a value, or the code of its refusal."""
    try:
        return decode(line)
    except BadRecord as error:
        return error.code if error.reason else "no reason"


def columns_of(record: Record | Columns | str, decoder: LineDecoder) -> Columns | str:
    """The columns that a record has, put together without the quick reading."""
    if isinstance(record, str | Columns):
        return record
    seq, at = record.seq, record.time
    if isinstance(record, AssistantRecord):
        return Columns(
            "assistant",
            seq,
            at,
            role=record.message.role,
            iteration=record.iteration,
            stop_reason=record.stop_reason,
            in_tokens=record.in_tokens,
            out_tokens=record.out_tokens,
            cache_read_tokens=record.cache_read_tokens,
            cache_create_tokens=record.cache_create_tokens,
            calls=tuple(CallColumns(id_, name) for id_, name, _ in decoder.calls(record.message.content)),
        )
    if isinstance(record, ToolResultRecord):
        error = isinstance(record.result, dict) and record.result.get("is_error") is True
        return Columns(
            "tool_result", seq, at, tool_use_id=record.tool_use_id, remote=record.remote, is_error=error
        )
    if isinstance(record, UserRecord):
        return Columns("user", seq, at, role=record.message.role)
    if isinstance(record, TerminalRecord):
        return Columns("terminal", seq, at, reason=record.reason)
    if isinstance(record, IncompleteRecord):
        return Columns(f"incomplete:{record.kind}", seq, at)
    return Columns("meta" if isinstance(record, MetaRecord) else f"unknown:{record.protocol}", seq, at)


def check_the_readings_agree(line: bytes) -> None:
    for decoder in (V3, V2, OURS, FISK_AI.decoder_for(4)):
        exact = outcome(partial(_read, dialect=decoder.dialect), line)
        assert outcome(partial(read, dialect=decoder.dialect), line) == exact
        assert outcome(decoder.record, line) == exact
        assert outcome(decoder.columns, line) == columns_of(exact, decoder)


def assistant(content: Json, **more: Json) -> bytes:
    """A version 3 assistant line around some content."""
    payload: dict[str, Json] = {
        "iteration": 0,
        "message": {"role": "assistant", "content": content},
        "in_tokens": 1,
        "out_tokens": 2,
    }
    return json.dumps({"seq": 2, "protocol": f"{P}assistant", "assistant": payload | more}).encode()


def line(kind: str, payload: str, *, seq: str = "2", before: str = "", after: str = "") -> bytes:
    """A line of fisk-ai's put together from text, so that anything can be wrong with it."""
    return f'{{{before}"seq":{seq},"protocol":"{P}{kind}","{kind}":{payload}{after}}}'.encode()


def is_canonical(record: bytes, decoder: LineDecoder) -> bool:
    try:
        return FISK_AI.encode(decoder.record(record), decoder.version) == record + b"\n"
    except BadRecord:
        return False


NOT_OURS = {
    # Payloads that do not belong to the protocol are no part of a record.
    "v2/meta-wrong-protocol",
    "v3/meta-wrong-protocol",
    "v3/extra-payload",
    # Written by one version, read by us with the rules of the version that their meta names.
    "v2/version-3",
    "v2/version-4",
    "v3/version-0",
    "v3/version-1",
    "v3/version-2",
}


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_reading_and_writing_a_line_gives_its_bytes_wherever_the_original_gives_them(version: str) -> None:
    table = json.loads((FIXTURES / version / "expected.json").read_bytes())
    for path in (path for path in JOURNALS if path.parent.name == version):
        if f"{version}/{path.stem}" in NOT_OURS or not table[path.stem].get("byte_canonical", True):
            continue
        decoder = FISK_AI.decoder(path.read_bytes())
        for number, text in enumerate(path.read_bytes().split(b"\n"), 1):
            assert not text or is_canonical(text, decoder), (path.stem, number)


def test_only_lines_that_the_original_rewrites_are_not_canonical() -> None:
    odd = ["crlf-lines", "duplicate-json-keys", "invalid-utf8", "keys-case-insensitive", "unknown-fields"]
    for name in [*odd, "v3-fingerprint-no-provider"]:
        lines = (FIXTURES / "v3" / f"{name}.json").read_bytes().split(b"\n")
        assert not all(is_canonical(text, V3) for text in lines if text), name


@pytest.mark.parametrize("decoder", DECODERS, ids=["v3", "v2", "native"])
def test_the_quick_and_the_exact_reading_agree_on_every_fixture_line(decoder: LineDecoder) -> None:
    for text in LINES:
        check_the_readings_agree(text)
        if decoder is OURS:
            check_the_readings_agree(text.replace(P.encode(), b"refold.v1.session."))


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("version", ["v2", "v3"])
def test_the_usual_lines_of_a_run_are_read_quickly(version: str, ending: bytes) -> None:
    quick: Callable[[bytes], object] = read_neutral if version == "v3" else read_wire
    names = ["completed-two-tools", "chat-consecutive-users", "cache-tokens", "tool-input-numbers"]
    if version == "v3":
        names += ["thinking-and-provider-blocks", "v3-thinking-minimal", "v3-raw-compacted", "v3-empty-block"]
        names += ["empty-assistant-content"]
    every = b"\n".join((FIXTURES / version / f"{name}.json").read_bytes() for name in names)
    for text in every.split(b"\n"):
        if text and b'"meta":{' not in text and b'"terminal":{' not in text:
            assert quick(text + ending) is not None, text


KEYS = [
    *("seq", "SEQ", "protocol", "time", "meta", "assistant", "user", "tool_result", "terminal", "message"),
    *("role", "content", "Content", "iteration", "stop_reason", "in_tokens", "out_tokens", "reason"),
    *("text", "thinking", "signature", "tool_use", "id", "name", "input", "provider", "kind", "raw", "type"),
    *("tool_use_id", "result", "re\u017fult", "remote", "is_error", "version", "fingerprint", "created", "x"),
]
SCALARS = [
    *("null", "true", "false", "0", "1", "7", "-1", "-0", "2.0", "1e3", "1e999", "9" * 19, "1" + "0" * 20),
    *(
        '""',
        '"x"',
        '"\\ud800"',
        '"\\u0041"',
        '"aGk="',
        '"***"',
        '"assistant"',
        f'"{P}user"',
        "[]",
        "{}",
        "NaN",
    ),
    *("[1,2]", "[[[]]]", '"2026-01-02T03:04:05Z"', '"\ud7ff\x7f"'),
]


def render(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return f"[{','.join(render(item) for item in value)}]"
    return "{" + ",".join(f'"{key}":{render(member)}' for key, member in value) + "}"


def pairs(value: Any) -> Any:
    """A JSON value as text and pairs, so that a key can stand twice."""
    if isinstance(value, dict):
        return tuple((key, pairs(member)) for key, member in value.items())
    if isinstance(value, list):
        return [pairs(item) for item in value]
    return json.dumps(value)


SOUND = [pairs(json.loads(text)) for text in LINES if text.isascii() and is_canonical(text, V3)]
SOUND += [pairs(json.loads(text)) for text in LINES if text.isascii() and is_canonical(text, V2)]


def objects(value: Any) -> list[Any]:
    """Every object inside a value."""
    inner = (
        [member for _, member in value]
        if isinstance(value, tuple)
        else value
        if isinstance(value, list)
        else []
    )
    found = [value] if isinstance(value, tuple) else []
    return found + [each for item in inner for each in objects(item)]


@st.composite
def bent(draw: st.DrawFn) -> bytes:
    """A sound line with a few members of its objects added, doubled, renamed, replaced or dropped."""
    value = draw(st.sampled_from(SOUND))
    for _ in range(draw(st.integers(1, 3))):
        every = objects(value)
        target = draw(st.sampled_from(every))
        other = draw(st.sampled_from(every))
        members = list(target)
        place = draw(st.integers(0, len(members)))
        fresh = draw(st.one_of(st.sampled_from(SCALARS), st.just(other)))
        what = draw(st.sampled_from(["add", "double", "rename", "replace", "drop"]))
        if what == "add" or place == len(members):
            members.insert(place, (draw(st.sampled_from(KEYS)), fresh))
        elif what == "double":
            members.insert(draw(st.integers(0, len(members))), (members[place][0], fresh))
        elif what == "rename":
            members[place] = (draw(st.sampled_from([members[place][0].upper(), *KEYS])), members[place][1])
        elif what == "replace":
            members[place] = (members[place][0], fresh)
        else:
            del members[place]
        value = replaced(value, target, tuple(members))
    return render(value).encode("utf-8", "surrogatepass")


def replaced(value: Any, old: Any, new: Any) -> Any:
    if value is old:
        return new
    if isinstance(value, tuple):
        return tuple((key, replaced(member, old, new)) for key, member in value)
    if isinstance(value, list):
        return [replaced(item, old, new) for item in value]
    return value


@given(bent())
def test_the_two_readings_agree_on_lines_with_odd_members(text: bytes) -> None:
    check_the_readings_agree(text)
    check_the_readings_agree(text.replace(P.encode(), NATIVE.prefix.encode()))


@given(st.sampled_from(LINES), st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=3)), max_size=3))
@example(b'{"seq":1}\n', [])
def test_the_two_readings_agree_on_damaged_bytes(text: bytes, cuts: list[tuple[int, bytes]]) -> None:
    for place, piece in cuts:
        at = place % (len(text) + 1)
        text = text[:at] + piece + text[at + len(piece) + place % 2 :]
    check_the_readings_agree(text)


@given(st.binary(max_size=60))
def test_any_bytes_give_a_record_or_a_refusal(text: bytes) -> None:
    check_the_readings_agree(text)
    assert FISK_AI.meta(text) is None
    assert FISK_AI.decoder(text).version == 0


HOSTILE = {
    "": "E_BAD_JSON",
    "garbage": "E_BAD_JSON",
    '{"seq":1': "E_BAD_JSON",
    '{"seq":"un': "E_BAD_JSON",
    '{"seq":1}{"seq":2}': "E_BAD_JSON",
    '{"seq":1}\x00': "E_BAD_JSON",
    '\ufeff{"seq":1}': "E_BAD_JSON",
    '{"a":"\x01"}': "E_BAD_JSON",
    '{"a":"\\x"}': "E_BAD_JSON",
    '{"a":01}': "E_BAD_JSON",
    '{"a":+1}': "E_BAD_JSON",
    '{"a":1,}': "E_BAD_JSON",
    '{"a":NaN}': "E_NONFINITE",
    '{"a":[-Infinity]}': "E_NONFINITE",
    "[]": "E_BAD_RECORD",
    "7": "E_BAD_RECORD",
    '"text"': "E_BAD_RECORD",
    '{"seq":-2}': "E_BAD_RECORD",
    '{"seq":-0}': "E_BAD_RECORD",
    '{"seq":2.0}': "E_BAD_RECORD",
    '{"seq":1e3}': "E_BAD_RECORD",
    '{"seq":"2"}': "E_BAD_RECORD",
    '{"seq":true}': "E_BAD_RECORD",
    '{"seq":18446744073709551616}': "E_BAD_RECORD",
    '{"protocol":7}': "E_BAD_RECORD",
    '{"meta":[]}': "E_BAD_RECORD",
    '{"meta":{"version":9223372036854775808}}': "E_BAD_RECORD",
    '{"meta":{"created":"2026-07-24 09:15:30Z"}}': "E_BAD_RECORD",
    '{"meta":{"created":5}}': "E_BAD_RECORD",
    '{"meta":{"fingerprint":"f"}}': "E_BAD_RECORD",
    '{"user":{"message":{"content":"plain"}}}': "E_BAD_RECORD",
    '{"user":{"message":{"role":1}}}': "E_BAD_RECORD",
    '{"terminal":{"reason":{}}}': "E_BAD_RECORD",
    '{"tool_result":{"remote":"yes"}}': "E_BAD_RECORD",
    "[" * 201 + "]" * 201: "E_TOO_DEEP",
    '{"a":' * 201 + "1" + "}" * 201: "E_TOO_DEEP",
    "[" * 100_000: "E_TOO_DEEP",
}


@pytest.mark.parametrize(("text", "code"), HOSTILE.items(), ids=[repr(text)[:40] for text in HOSTILE])
def test_a_hostile_line_is_refused_with_its_code(text: str, code: str) -> None:
    for decoder in DECODERS:
        assert outcome(decoder.record, text.encode()) == code
        assert outcome(decoder.columns, text.encode()) == code


def test_bytes_that_are_not_utf_8_are_named_outside_of_texts_and_replaced_inside() -> None:
    assert outcome(V3.record, b'{"seq":1}\xff') == "E_BAD_JSON"
    assert outcome(V3.record, b'\xff{"seq":1}') == "E_BAD_UTF8"
    record = V3.record(line("terminal", '{"reason":"a?b"}').replace(b"?", b"\xe2\x82\xf0\x9f\xed\xa0\x80"))
    assert record == TerminalRecord("a" + "\ufffd" * 7 + "b", seq=2)


V3_ONLY = {
    '[{"text":"flat"}]': "text",
    '[{"text":{"text":5}}]': "text",
    '[{"thinking":{"signature":"***"}}]': "signature",
    '[{"thinking":{"signature":"abc"}}]': "signature",
    '[{"tool_use":{"id":5}}]': "id",
    '[{"tool_result":{"content":[]}}]': "content",
    '[{"tool_result":{"is_error":1}}]': "is_error",
    '[{"provider":[]}]': "provider",
    '["text"]': "block",
    "{}": "content",
}


@pytest.mark.parametrize(("content", "word"), V3_ONLY.items())
def test_version_3_checks_its_blocks_and_says_which_member_is_wrong(content: str, word: str) -> None:
    text = line("user", f'{{"message":{{"role":"user","content":{content}}}}}')
    with pytest.raises(BadRecord, match=word):
        V3.record(text)
    with pytest.raises(BadRecord, match=word):
        V3.columns(text)
    if content != "{}":
        record = V2.record(text)
        assert isinstance(record, UserRecord)
        assert record.message.content == tuple(json.loads(content))


def test_nesting_is_allowed_to_its_limit_and_not_beyond() -> None:
    def deep(levels: int) -> bytes:
        inner = '{"a":[' * (levels // 2) + "]}" * (levels // 2)
        block = f'{{"tool_use":{{"id":"i","name":"n","input":{inner}}}}}'
        return line("user", f'{{"message":{{"role":"assistant","content":[{block}]}}}}')

    for levels, fits in ((194, True), (196, False), (2000, False)):
        for decoder in DECODERS:
            assert outcome(decoder.columns, deep(levels)) == (
                columns_of(decoder.record(deep(levels)), decoder) if fits else "E_TOO_DEEP"
            )
    brackets_in_a_text = line("terminal", json.dumps({"reason": '["' * 5000}))
    assert isinstance(V3.record(brackets_in_a_text), TerminalRecord)
    assert not too_deep(b"[],{}," * 5000)


@pytest.mark.parametrize(
    "text",
    [b"[" * 1_000_000, b'{"a":' * 1_000_000, b'"[' * 1_000_000],
    ids=["lists", "objects", "texts"],
)
def test_a_million_brackets_are_refused_at_once(text: bytes) -> None:
    spent = []
    for decode in (V3.columns, V2.record, OURS.columns):
        began = time.process_time()
        with pytest.raises(BadRecord):
            decode(text)
        spent.append(time.process_time() - began)
    assert min(spent) < 0.05 or sys.gettrace() is not None


@pytest.mark.parametrize("decoder", DECODERS, ids=["v3", "v2", "native"])
def test_the_columns_of_a_huge_record_take_no_memory(decoder: LineDecoder) -> None:
    inner: Json = "0123456789abcdef\\n" * 1_000_000
    result: dict[str, Json] = {"tool_use_id": "a", "content": inner}
    if decoder is not V3:
        result = {"tool_use_id": "a", "content": [{"type": "text", "text": inner}], "type": "tool_result"}
    payload: Json = {"tool_use_id": "a", "result": result}
    text = encode({"seq": 3, "protocol": f"{decoder.dialect.prefix}tool_result", "tool_result": payload})
    tracemalloc.start()
    columns = decoder.columns(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert columns == Columns("tool_result", 3, tool_use_id="a")
    assert peak < 100_000


def test_repeated_members_merge_as_in_the_original() -> None:
    first = '{"message":{"content":[{"text":{"text":"a"}},{"text":{"text":"b"}}]}}'
    second = '{"message":{"role":"user","content":[{"provider":{"kind":"k"}}]}}'
    both = V3.record(line("user", first, after=f',"user":{second}'))
    block: Json = {"text": {"text": "a"}, "provider": {"kind": "k", "raw": None}}
    assert both == UserRecord(Message("user", (block,)), seq=2)
    gone = V3.record(line("terminal", '{"reason":"a"}', after=',"terminal":null'))
    assert gone == IncompleteRecord("terminal", seq=2)
    back = V3.record(line("terminal", "null", after=',"Terminal":{"reason":"b"}'))
    assert back == TerminalRecord("b", seq=2)
    later = V3.record(line("terminal", '{"reason":"a"}', after=f',"protocol":"{P}user"'))
    assert later == IncompleteRecord("user", seq=2)
    kept = V3.record(line("terminal", '{"reason":"a","message":"m","reason":null}', after=',"seq":9'))
    assert kept == TerminalRecord("a", "m", seq=9)


def test_null_changes_a_scalar_not_at_all_and_takes_a_variant_away() -> None:
    twice: dict[str, Json] = {
        "text": {"text": "t"},
        "thinking": {"text": "t", "signature": "aGk="},
        "tool_use": {"id": "i", "name": "n", "input": 1},
        "tool_result": {"tool_use_id": "i", "content": "c", "is_error": True},
        "provider": {"kind": "k", "raw": 1},
    }
    for name, inner in twice.items():
        assert isinstance(inner, dict)
        scalars = {key: None for key in inner if key not in {"input", "raw", "signature"}}
        kept = f'{{"{name}":{json.dumps(inner)},"{name}":{json.dumps(scalars)},"x":0}}'
        gone = f'{{"{name}":{json.dumps(inner)},"{name}":null}}'
        record = V3.record(line("user", f'{{"message":{{"role":null,"content":[{kept},{gone}]}}}}'))
        assert record == UserRecord(Message("", ({name: inner}, {})), seq=2)
    numbers = '"iteration":4,"iteration":null,"in_tokens":null,"stop_reason":null,"message":null'
    assert V3.record(line("assistant", f"{{{numbers}}}")) == AssistantRecord(Message(), 4, seq=2)
    assert V3.record(line("tool_result", '{"remote":true,"remote":null,"result":null}')) == ToolResultRecord(
        "", {"tool_use_id": "", "content": ""}, True, seq=2
    )
    meta = V3.record(line("meta", '{"version":null,"created":null,"fingerprint":null,"interactive":null}'))
    assert meta == MetaRecord(seq=2)
    assert V3.record(b'{"seq":3,"seq":null,"protocol":null}') == UnknownRecord("", seq=3)


def test_a_line_is_refused_when_python_itself_has_no_room_left() -> None:
    text = b"[" * 190 + b"]" * 190

    def dive(levels: int) -> str:
        if levels:
            return dive(levels - 1)
        with pytest.raises(BadRecord) as refused:
            parse(text)
        return refused.value.code

    assert dive(sys.getrecursionlimit() - len(inspect.stack()) - 150) == "E_TOO_DEEP"


@pytest.mark.parametrize("key", ["SEQ", "\u017feq", "Seq", "\\u0073eq", "s\\u0045q"])
def test_keys_are_compared_without_case(key: str) -> None:
    record = V3.record(f'{{"{key}":5,"protocol":"{P}terminal","terminal":{{"REA\u017fON":"x"}}}}'.encode())
    assert record == TerminalRecord("x", seq=5)


def test_lines_that_are_records_of_nothing() -> None:
    for text in (b"null", b"{}", b" null \r"):
        assert V3.record(text) == UnknownRecord("", seq=0)
    assert V3.record(b'{"seq":18446744073709551615,"protocol":"p"}') == UnknownRecord("p", seq=2**64 - 1)
    assert V3.columns(b'{"seq":4,"protocol":"p"}') == Columns("unknown:p", 4)
    assert V3.columns(line("meta", "null")) == Columns("incomplete:meta", 2)
    assert NATIVE.decoder_for(2).record(line("terminal", "{}")) == UnknownRecord(f"{P}terminal", seq=2)


def test_a_version_3_message_is_what_the_original_would_write_after_reading_it() -> None:
    given_: list[Json] = [
        {},
        None,
        {"thinking": {"text": "", "signature": ""}},
        {"thinking": {"signature": [104, 105]}},
        {"thinking": {"signature": "aG\nk="}},
        {"tool_use": {"name": "n"}},
        {"tool_result": {"content": "c", "is_error": False}},
        {"provider": {"raw": {"b": 1, "a": 2}}, "text": {}},
    ]
    record = V3.record(assistant(given_))
    assert isinstance(record, AssistantRecord)
    assert record.message.content == (
        {},
        {},
        {"thinking": {}},
        {"thinking": {"signature": "aGk="}},
        {"thinking": {"signature": "aGk="}},
        {"tool_use": {"id": "", "name": "n", "input": None}},
        {"tool_result": {"tool_use_id": "", "content": "c"}},
        {"text": {"text": ""}, "provider": {"kind": "", "raw": {"b": 1, "a": 2}}},
    )
    assert V3.calls(record.message.content) == (("", "n", None),)


def test_the_input_of_a_call_keeps_its_numbers_and_its_spelling() -> None:
    spelled = '{"z":1.0,"e":1e5,"n":-0,"big":12345678901234567890123,"far":1e999,"s":"\\u00e9 < \\/","s":"é"}'
    digits = "9" * 5000
    text = line(
        "assistant",
        '{"iteration":0,"message":{"role":"assistant","content":[{"tool_use":{"id":"i","name":"n",'
        f'"input":{spelled}}}}},{{"provider":{{"kind":"k","raw":[ {digits} ]}}}}]}},'
        '"in_tokens":0,"out_tokens":0}',
    )
    record = V3.record(text)
    assert isinstance(record, AssistantRecord)
    (_, _, arguments), *_ = V3.calls(record.message.content)
    assert isinstance(arguments, dict)
    assert arguments["big"] == 12345678901234567890123
    assert arguments["far"] == sys.float_info.max
    written = FISK_AI.encode(record, 3)
    assert compact(spelled.encode()) in written
    assert json.dumps(arguments)
    assert isinstance(arguments, SpelledObject)
    assert FISK_AI.encode(V3.record(written), 3) == written


CREATED = {
    "2026-07-24T09:15:30Z": True,
    "2026-07-24T09:15:30.123456789+03:00": True,
    "2026-07-24T09:15:30,5-23:59": True,
    "2026-07-24T9:15:30Z": True,
    "2024-02-29T00:00:00Z": True,
    "2026-07-24T09:15:30+24:60": True,
    "2026-02-29T00:00:00Z": False,
    "2026-07-24t09:15:30Z": False,
    "2026-07-24T09:15:30z": False,
    "2026-07-24 09:15:30Z": False,
    "2026-13-24T09:15:30Z": False,
    "2026-07-00T09:15:30Z": False,
    "2026-07-24T24:15:30Z": False,
    "2026-07-24T09:60:30Z": False,
    "2026-07-24T09:15:60Z": False,
    "2026-07-24T09:15:30.Z": False,
    "2026-07-24T09:15:30": False,
    "2026-07-24T09:15:30+25:00": False,
    "2026-07-24T09:15:30Z\n": False,
    "\u0662026-07-24T09:15:30Z": False,
    "": False,
}


@pytest.mark.parametrize(("text", "good"), CREATED.items())
def test_times_that_the_original_takes(text: str, good: bool) -> None:
    assert is_time(text) is good
    meta = line("meta", json.dumps({"version": 3, "created": text}))
    assert (outcome(V3.record, meta) == "E_BAD_RECORD") is not good
    lenient = FISK_AI.meta(meta)
    assert lenient is not None
    assert (lenient.created, lenient.version) == (text if good else "", 3)


def test_a_list_reads_what_it_can_of_a_meta_record() -> None:
    odd = '{"version":"x","run_id":"r","fingerprint":{"model":"m","max_tokens":"many"},"prompt":7,"new":1}'
    assert FISK_AI.meta(line("meta", odd)) == MetaRecord(run_id="r", fingerprint=Fingerprint("m"), seq=2)
    assert FISK_AI.meta(line("meta", "[]")) == MetaRecord(seq=2)
    assert FISK_AI.meta(line("meta", "null")) is None
    assert FISK_AI.meta(line("user", "{}")) is None
    assert NATIVE.meta(line("meta", "{}")) is None


def test_the_version_decides_the_rules() -> None:
    def version_of(version: str) -> LineDecoder:
        return FISK_AI.decoder(line("meta", f'{{"version":{version}}}') + b"\n")

    for version in ("-7", "0", "1", "2", "null"):
        assert isinstance(version_of(version), WireDecoder)
        assert version_of(version).readable
    assert isinstance(version_of("3"), NeutralDecoder)
    assert version_of("3").readable
    assert not version_of("4").readable
    assert NATIVE.decoder_for(2).readable
    assert not NATIVE.decoder_for(3).readable
    assert (version_of("9").version, version_of("9").supported, OURS.supported) == (9, 3, 2)


def test_the_version_is_found_in_a_head_that_says_it_in_any_way() -> None:
    meta = line("meta", '{"version":3,"prompt":"' + "p" * HEAD_BYTES + '"}')
    assert FISK_AI.decoder(meta[:HEAD_BYTES]).version == 3
    assert FISK_AI.decoder(b"garbage\n\n" + line("meta", '{"version":3}')).version == 3
    assert FISK_AI.decoder(line("meta", '{"version":3}')[:-1] + b"\n{}\n").version == 3
    assert FISK_AI.decoder(b"torn\n" + assistant([{"text": {"text": "a"}}]).replace(b" ", b"")).version == 3
    assert NATIVE.decoder(b"torn\n" + assistant([{"text": {"text": "a"}}]).replace(b" ", b"")).version == 0
    assert FISK_AI.decoder(b"").version == 0


def test_lines_of_a_newer_version_are_shown_as_far_as_they_can_be_read() -> None:
    newer = FISK_AI.decoder_for(4)
    future: Json = [{"text": "flat"}, {"hologram": 1}]
    record = newer.record(assistant(future, in_tokens="many", mood="fine"))
    assert isinstance(record, AssistantRecord)
    assert record.message.content == tuple(json.loads(json.dumps(future)))
    assert (record.in_tokens, record.out_tokens, record.seq) == (0, 2, 2)
    assert newer.columns(assistant(future)) == Columns(
        "assistant", 2, role="assistant", in_tokens=1, out_tokens=2
    )
    assert outcome(newer.record, b"{") == "E_BAD_JSON"


def test_the_first_protocol_id_of_a_file_tells_its_format() -> None:
    ours = NATIVE.encode(MetaRecord(version=2, prompt="about io.choria.fisk-ai.v1.session.meta", seq=1))
    theirs = FISK_AI.encode(MetaRecord(version=3, prompt="about refold.v1.session.meta", seq=1))
    for hint in ("refold", "fisk-ai"):
        assert format_of(ours, hint=hint) is NATIVE
        assert format_of(theirs, hint=hint) is FISK_AI
        assert format_of(b"nothing", hint=hint) is by_name(hint)
    assert [form.name for form in FORMATS.values()] == ["refold", "fisk-ai"]


NATIVE_RECORDS: list[Record] = [
    MetaRecord(
        version=2,
        run_id="r",
        created="2026-01-02T03:04:05.5Z",
        fingerprint=Fingerprint("m", "s", "t", "off", 1, 2, "p"),
        prompt="<&>\u2028",
        interactive=True,
        forked_from=ForkOrigin("parent", 7, "ab", "why"),
        seq=1,
        time="2026-01-02T03:04:05Z",
    ),
    AssistantRecord(
        Message(
            "assistant", ({"type": "tool_use", "id": "a", "name": "n", "input": {"x": [1, None, "\n"]}},)
        ),
        3,
        "tool_use",
        1,
        2,
        3,
        4,
        seq=2,
        time="t",
        resumed=Resumed(True, "disk full", Fingerprint("m2")),
    ),
    ToolResultRecord(
        "a",
        {"type": "tool_result", "tool_use_id": "a", "is_error": True, "content": "c"},
        True,
        Decision("done", "by hand"),
        seq=3,
        time="t",
        resumed=Resumed(),
    ),
    ToolResultRecord("a", None, decision=Decision("failed"), seq=4),
    UserRecord(Message("user", ()), seq=5, time="t", resumed=Resumed(reason="r")),
    TerminalRecord("error", "m", seq=6, time="t", resumed=Resumed(forced=True)),
    TerminalRecord("suspended", seq=7),
    IncompleteRecord("user", 8),
    UnknownRecord("refold.v1.session.note", 9, "t"),
]


@pytest.mark.parametrize("record", NATIVE_RECORDS, ids=lambda record: type(record).__name__)
def test_our_own_records_come_back_whole(record: Record) -> None:
    text = NATIVE.encode(record)
    assert text.endswith(b"\n")
    assert text.count(b"\n") == 1
    assert OURS.record(text) == record
    assert OURS.columns(text) == columns_of(record, OURS)
    keys = list(json.loads(text))
    assert keys[:2] == ["seq", "protocol"]
    assert keys[2:3] == ["time"] or record.time is None


def test_the_additions_of_our_journal_are_unknown_keys_to_fisk_ai() -> None:
    for record in NATIVE_RECORDS[:-1]:
        text = NATIVE.encode(record).replace(b"refold.v1.session.", P.encode())
        read_ = V2.record(text)
        assert read_.time is None
        assert getattr(read_, "resumed", None) is None
        assert getattr(read_, "decision", None) is None
        assert getattr(read_, "forked_from", None) is None
        assert FISK_AI.encode(record, 2) == FISK_AI.encode(read_, 2)


NATIVE_WRONG = [
    '{"seq":1,"protocol":"refold.v1.session.terminal","time":5,"terminal":{}}',
    '{"seq":1,"protocol":"refold.v1.session.terminal","terminal":{"resumed":[]}}',
    '{"seq":1,"protocol":"refold.v1.session.terminal","terminal":{"resumed":{"forced":1}}}',
    '{"seq":1,"protocol":"refold.v1.session.tool_result","tool_result":{"decision":{"choice":1}}}',
    '{"seq":1,"protocol":"refold.v1.session.meta","meta":{"forked_from":{"seq":-1}}}',
]


@pytest.mark.parametrize("text", NATIVE_WRONG)
def test_the_additions_are_checked(text: str) -> None:
    assert outcome(OURS.record, text.encode()) == "E_BAD_RECORD"
    assert outcome(OURS.columns, text.encode()) == "E_BAD_RECORD"
    empty = text.replace("[]", "null").replace('{"choice":1}', "null").replace('{"seq":-1}', "null")
    assert (
        outcome(OURS.record, empty.replace("5", "null").replace("1}}", "true}}").encode()) != "E_BAD_RECORD"
    )


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (float("nan"), "E_NONFINITE"),
        ([float("-inf")], "E_NONFINITE"),
        ({"a": 10**5000}, "E_BAD_RECORD"),
        (json.loads("[" * 300 + "]" * 300), "E_TOO_DEEP"),
    ],
    ids=["nan", "infinity", "digits", "deep"],
)
def test_what_has_no_json_is_not_written(value: Json, code: str) -> None:
    with pytest.raises(BadRecord) as refused:
        NATIVE.encode(ToolResultRecord("a", value, seq=1))
    assert refused.value.code == code


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
def test_any_value_comes_back_from_its_text(value: Json) -> None:
    text = encode(value)
    assert plain(parse(text)) == value
    assert json.loads(text) == value
    assert compact(text) == text
    assert not set(text) & set(b"<>&\n\r\t")


@given(values, st.booleans())
def test_a_compacted_text_means_the_same(value: Json, wide: bool) -> None:
    spaced = json.dumps(value, indent=1 if wide else None, ensure_ascii=wide).encode()
    assert json.loads(compact(spaced)) == value
    assert compact(compact(spaced)) == compact(spaced)


@given(values)
def test_an_encoded_call_of_version_3_is_canonical(value: Json) -> None:
    block: Json = {"tool_use": {"id": "i", "name": "n", "input": value}}
    text = FISK_AI.encode(AssistantRecord(Message("assistant", (block,)), seq=2), 3)
    record = V3.record(text)
    assert FISK_AI.encode(record, 3) == text
    assert record == AssistantRecord(Message("assistant", (block,)), seq=2)
