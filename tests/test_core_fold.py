"""The fold: against what the original programs folded, against a plain model, and for every prefix."""

from __future__ import annotations

import ctypes
import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.errors import CorruptJournal, EmptyJournal, FoldError, NoMeta, UnsupportedVersion
from refold.core.fold import Fold, fold, salvage
from refold.core.formats.journal import FISK_AI, NATIVE
from refold.core.journal_text import fold_bytes, is_blank, strict_records
from refold.core.records import (
    AssistantRecord,
    IncompleteRecord,
    Json,
    Message,
    MetaRecord,
    Record,
    TerminalRecord,
    ToolResultRecord,
    UnknownRecord,
    UserRecord,
)
from refold.core.state import RunState
from refold.core.state_json import state_json

FIXTURES = Path(__file__).parent / "data" / "fisk-ai"
JOURNALS = sorted(path for path in FIXTURES.glob("v?/*.json") if path.name != "expected.json")

OURS: dict[str, Any] = {
    # One program read versions up to 2, the other 3 alone; we read all three (design/contracts.md, Versions).
    "v2/version-3": {"ok": True, "messages": 1, "version": 3},
    "v2/version-4": {"error": "unsupported snapshot version: snapshot version 4, supported 3"},
    "v3/version-0": {"ok": True, "messages": 2, "version": 0},
    "v3/version-1": {"ok": True, "messages": 2, "version": 1},
    "v3/version-2": {"ok": True, "messages": 2, "version": 2},
    "v3/version-missing": {"ok": True, "messages": 1, "version": 0},
}


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@cache
def outcomes(version: str) -> Any:
    return json.loads((FIXTURES / version / "expected.json").read_bytes())


def expected(path: Path) -> dict[str, Any]:
    """The recorded outcome of a fixture, its defaults filled in."""
    table = outcomes(path.parent.name)
    entry = dict(table[path.stem])
    if entry["ok"]:
        defaults = table["_defaults"]["state"]
        state = defaults | {"run_id": path.stem} | entry["state"]
        state["counters"] = defaults["counters"] | entry["state"].get("counters", {})
        if "lossless_messages" in entry:
            state["messages"] = entry["lossless_messages"]
        entry["state"] = state
    return entry


def test_all_fixtures_are_there() -> None:
    assert len(JOURNALS) == 167


@pytest.mark.parametrize("path", JOURNALS, ids=name_of)
def test_a_fixture_folds_as_the_original_folded_it(path: Path) -> None:
    ours = OURS.get(name_of(path), {})
    if ours.get("ok"):
        state = fold_bytes(path.read_bytes(), hint="fisk-ai")
        assert (len(state.messages), state.version, state.pending) == (
            ours["messages"],
            ours["version"],
            None,
        )
        return
    wanted = expected(path) | ours
    if wanted["ok"]:
        assert state_json(fold_bytes(path.read_bytes(), hint="fisk-ai")) == wanted["state"]
        return
    with pytest.raises(FoldError) as refused:
        fold_bytes(path.read_bytes(), hint="fisk-ai")
    assert refused.value.error_class == wanted["error_class"]
    place, _, _ = str(wanted["error"]).removeprefix("corrupt record sequence: ").partition(": ")
    if place.startswith("line "):
        assert str(refused.value).startswith(f"corrupt record sequence: {place}: ")
        assert isinstance(refused.value, CorruptJournal)
        assert refused.value.line == int(place.removeprefix("line "))
    else:
        assert str(refused.value) == wanted["error"]


@pytest.mark.parametrize("path", JOURNALS, ids=name_of)
def test_every_prefix_of_a_fixture_gives_the_state_of_the_incremental_fold(path: Path) -> None:
    data = path.read_bytes()
    decoder = FISK_AI.decoder(data)
    records: list[Record] = []
    try:
        records.extend(strict_records(data.split(b"\n"), decoder))
    except FoldError:
        return
    check_every_prefix(records, decoder.version)


def check_every_prefix(records: Sequence[Record], version: int) -> None:
    decoder = FISK_AI.decoder_for(version)
    folding = Fold(decoder)
    refused: FoldError | None = None
    for count, record in enumerate(records, 1):
        if refused is None:
            try:
                folding.feed(record)
            except FoldError as error:
                refused = error
        whole = outcome(records[:count], version)
        if refused is None:
            assert folding.state() == whole
        else:
            assert (type(refused), str(refused)) == whole


def outcome(records: Sequence[Record], version: int) -> RunState | tuple[type[FoldError], str]:
    try:
        return fold(records, FISK_AI.decoder_for(version))
    except FoldError as error:
        return type(error), str(error)


def test_the_big_case() -> None:
    lines = (FIXTURES / "v3" / "suspended-resumed-completed.json").read_bytes().split(b"\n")
    made: list[bytes] = []
    for seq, number in enumerate((1, 2, 3, 5, 6), 1):
        record = json.loads(lines[number - 1])
        record["seq"] = seq
        if "meta" in record:
            record["meta"]["run_id"] = "big-tool-result"
        if "tool_result" in record:
            record["tool_result"]["result"]["content"] = "0123456789abcdef" * 327_680
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        for mark in "<>&":
            text = text.replace(mark, f"\\u{ord(mark):04x}")
        made.append(text.encode() + b"\n")
    data = b"".join(made)
    assert len(data) == 5_244_189
    assert (
        hashlib.sha256(data).hexdigest() == "626c59ca92f05f7b36708594e004f09923f8993dcd606127ebcb317c5386dc02"
    )
    state = fold_bytes(data)
    counters = state.counters
    assert (counters.llm_calls, counters.tool_calls, counters.in_tokens, counters.out_tokens) == (
        2,
        1,
        2000,
        65,
    )
    assert (len(state.messages), state.next_iteration, state.completed) == (4, 2, True)


def test_an_unreadable_line_far_behind_is_reported_before_a_refusal() -> None:
    meta = FISK_AI.encode(MetaRecord(version=9, seq=1))
    with pytest.raises(UnsupportedVersion):
        fold_bytes(meta)
    with pytest.raises(CorruptJournal, match="line 2: "):
        fold_bytes(meta + b"garbage\n" + meta)


def test_no_records_at_all() -> None:
    for data in (b"", b"\n", b" \t\r\n\n", "\u00a0\u2003\n".encode(), b'{"seq":1', b"\xff\n"):
        with pytest.raises(EmptyJournal):
            fold_bytes(data)


@pytest.mark.parametrize(
    "blank", ["", " ", "\t\r", "\v\f", "\u0085", "\u00a0", "\u1680", "\u2028\u3000 ", " \u200a"]
)
def test_lines_that_count_as_blank(blank: str) -> None:
    assert is_blank(blank.encode())


@pytest.mark.parametrize("text", [b"\x00", b"\x1c", b"\xff", b"\xc2", b"{", b"{}", b" x", "\u200b".encode()])
def test_lines_that_do_not_count_as_blank(text: bytes) -> None:
    assert not is_blank(text)


def test_a_native_run_folds_with_its_optional_fields() -> None:
    data = b"".join(
        NATIVE.encode(record)
        for record in (
            MetaRecord(version=2, run_id="n", prompt="hi", seq=1, time="2026-01-02T03:04:05Z"),
            AssistantRecord(
                Message("assistant", ({"type": "text", "text": "ho"},)), 0, "end_turn", 3, 4, seq=2
            ),
            TerminalRecord("completed", seq=3, time="2026-01-02T03:04:09Z"),
        )
    )
    state = fold_bytes(data, hint="fisk-ai")
    assert (state.run_id, state.completed, state.last_seq, state.fingerprint.provider) == ("n", True, 3, None)
    assert [message.role for message in state.messages] == ["user", "assistant"]
    newer = NATIVE.encode(MetaRecord(version=3, seq=1))
    with pytest.raises(UnsupportedVersion, match="snapshot version 3, supported 2"):
        fold_bytes(newer)


def call(id_: str) -> Json:
    return {"tool_use": {"id": id_, "name": "t", "input": {}}}


ids = st.sampled_from(["a", "b", "c"])
texts = st.sampled_from(["", "x", "é"])
TOKENS = [*range(10), -1, 2**63 - 1, -(2**63)]
contents: st.SearchStrategy[tuple[Json, ...] | None] = st.one_of(
    st.none(),
    st.lists(st.one_of(texts.map(lambda text: {"text": {"text": text}}), ids.map(call)), max_size=3).map(
        tuple
    ),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Record]:
    """Records in an order that is mostly sound, with every kind of thing wrong now and then."""
    seq = 0
    made: list[Record] = []
    kinds = ["assistant"] * 4 + ["result"] * 5 + ["user"] * 2 + ["terminal"] * 2 + ["odd"]
    for place, kind in enumerate(["meta", *draw(st.lists(st.sampled_from(kinds), max_size=14))]):
        seq += draw(st.sampled_from([1] * 30 + [2, 7, 0, -1]))
        if place == 0 and draw(st.integers(0, 15)) == 0:
            kind = "odd"
        if kind == "meta":
            made.append(MetaRecord(version=3, run_id="r", prompt=draw(texts), seq=seq))
        elif kind == "assistant":
            role = draw(st.sampled_from(["assistant"] * 9 + ["user"]))
            iteration = draw(st.integers(0, 9))
            tokens = [draw(st.sampled_from(TOKENS)) for _ in range(4)]
            made.append(
                AssistantRecord(
                    message=Message(role, draw(contents)),
                    iteration=iteration,
                    stop_reason=draw(st.sampled_from(["", "tool_use", "end_turn"])),
                    in_tokens=tokens[0],
                    out_tokens=tokens[1],
                    cache_read_tokens=tokens[2],
                    cache_create_tokens=tokens[3],
                    seq=seq,
                )
            )
        elif kind == "result":
            answer: Json = {"tool_use_id": draw(ids), "content": draw(texts)}
            made.append(ToolResultRecord(draw(ids), answer, draw(st.booleans()), seq=seq))
        elif kind == "user":
            made.append(
                UserRecord(Message(draw(st.sampled_from(["user"] * 9 + ["x"])), draw(contents)), seq=seq)
            )
        elif kind == "terminal":
            made.append(
                TerminalRecord(draw(st.sampled_from(["completed", "suspended"])), draw(texts), seq=seq)
            )
        else:
            odd: list[Record] = [
                IncompleteRecord("meta", seq),
                IncompleteRecord("user", seq),
                UnknownRecord("p", seq),
            ]
            made.append(
                draw(st.sampled_from([*odd, MetaRecord(version=3, seq=seq), MetaRecord(version=4, seq=seq)]))
            )
    return made


def as_go_adds(numbers: Iterable[int]) -> int:
    return ctypes.c_int64(sum(numbers)).value


def model(records: Sequence[Record]) -> dict[str, Any] | str:
    """The algorithm of formats/fisk-ai.md 2.2 once more, whole and slow; a word where it ends in an error."""
    if not records:
        return "empty"
    first, *rest = records
    if not isinstance(first, MetaRecord):
        return "no_meta"
    if first.version > 3:
        return "version"
    seqs = [record.seq for record in records]
    if any(later <= earlier for earlier, later in pairwise(seqs)):
        return "corrupt"
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"text": {"text": first.prompt}}]}]
    turn: AssistantRecord | None = None
    results: list[ToolResultRecord] = []

    def commit(reply: AssistantRecord) -> None:
        content = reply.message.content
        messages.append({"role": reply.message.role, "content": None if content is None else [*content]})
        if results:
            messages.append(
                {"role": "user", "content": [{"tool_result": answer.result} for answer in results]}
            )

    for record in rest:
        if isinstance(record, MetaRecord | IncompleteRecord | UnknownRecord):
            return "corrupt"
        if isinstance(record, ToolResultRecord):
            if turn is None:
                return "corrupt"
            results.append(record)
        elif isinstance(record, AssistantRecord | UserRecord):
            if turn is not None:
                commit(turn)
            turn, results = (record, []) if isinstance(record, AssistantRecord) else (None, [])
            if isinstance(record, UserRecord):
                content = record.message.content
                if messages[-1]["role"] == "user":
                    if content:
                        messages[-1]["content"] = [*(messages[-1]["content"] or []), *content]
                else:
                    messages.append(
                        {"role": record.message.role, "content": None if content is None else [*content]}
                    )
    pending = None
    if turn is not None:
        blocks: Any = turn.message.content or ()
        wanted = [block["tool_use"]["id"] for block in blocks if "tool_use" in block]
        answered = sorted({answer.tool_use_id for answer in results})
        if all(id_ in answered for id_ in wanted):
            commit(turn)
        else:
            pending = {"answered": answered, "results": [answer.result for answer in results]}
    replies = [record for record in rest if isinstance(record, AssistantRecord)]
    answers = [record for record in rest if isinstance(record, ToolResultRecord)]
    ends = [record for record in rest if isinstance(record, TerminalRecord)]
    return {
        "messages": messages,
        "pending": pending,
        "next_iteration": replies[-1].iteration + 1 if replies else 0,
        "last_stop_reason": replies[-1].stop_reason if replies else "",
        "completed": bool(ends) and ends[-1].reason == "completed",
        "counters": {
            "llm_calls": len(replies),
            "tool_calls": len(answers),
            "remote_tool_calls": sum(answer.remote for answer in answers),
            "in_tokens": as_go_adds(reply.in_tokens for reply in replies),
            "out_tokens": as_go_adds(reply.out_tokens for reply in replies),
            "cache_read_tokens": as_go_adds(reply.cache_read_tokens for reply in replies),
            "cache_create_tokens": as_go_adds(reply.cache_create_tokens for reply in replies),
        },
    }


@given(histories())
def test_the_fold_is_the_model(records: list[Record]) -> None:
    wanted = model(records)
    whole = outcome(records, 3)
    if not isinstance(whole, RunState):
        assert whole[0].error_class == wanted
        return
    assert isinstance(wanted, dict)
    state: dict[str, Any] = state_json(whole)
    if state["pending"] is not None:
        state["pending"] = {key: state["pending"][key] for key in ("answered", "results")}
    assert {key: state[key] for key in wanted} == wanted


@given(histories())
def test_every_prefix_folds_as_the_incremental_fold_says(records: list[Record]) -> None:
    check_every_prefix(records, 3)


@given(histories())
def test_a_refused_record_changes_nothing(records: list[Record]) -> None:
    folding, accepted = Fold(FISK_AI.decoder_for(3)), list[Record]()
    for record in records:
        try:
            folding.feed(record)
        except FoldError:
            continue
        accepted.append(record)
    assert outcome(accepted, 3) == (folding.state() if accepted else (EmptyJournal, "no records"))


@given(histories())
def test_salvage_refuses_nothing_and_is_the_fold_where_that_succeeds(records: list[Record]) -> None:
    saved = salvage(records, FISK_AI.decoder_for(3))
    whole = outcome(records, 3)
    if isinstance(whole, RunState):
        assert saved == whole


def test_salvage_forgives_order_orphans_and_a_missing_meta() -> None:
    reply = AssistantRecord(Message("assistant", ({"text": {"text": "a"}},)), 4, in_tokens=5, seq=9)
    state = salvage(
        [ToolResultRecord("x", seq=3), reply, reply, UnknownRecord("p", seq=10)], FISK_AI.decoder_for(3)
    )
    assert (state.counters.llm_calls, state.counters.tool_calls, state.next_iteration, state.last_seq) == (
        2,
        0,
        5,
        9,
    )
    late = salvage([reply, MetaRecord(version=4, run_id="late", seq=1)], FISK_AI.decoder_for(4))
    assert (late.run_id, late.version) == ("late", 4)
    assert salvage([], FISK_AI.decoder_for(3)).counters.llm_calls == 0


def test_the_state_of_no_record_is_an_error() -> None:
    with pytest.raises(EmptyJournal):
        Fold(FISK_AI.decoder_for(3)).state()
    with pytest.raises(NoMeta):
        Fold(FISK_AI.decoder_for(3)).feed(IncompleteRecord("meta", 1))
