"""The Timeline says for every prefix what the strict fold of that prefix says."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.core.buckets import buckets
from refold.core.columns import Columns, PackedColumns
from refold.core.errors import FoldError
from refold.core.journal_text import fold_bytes
from refold.core.records import Json
from refold.core.state import RunState
from refold.core.state_json import state_json
from refold.core.store.growing import Change
from refold.core.store.reader import RunReader
from refold.core.timeline import Timeline

FIXTURES = sorted((Path(__file__).parent / "data" / "fisk-ai").glob("v?/*.json"))
JOURNALS = [path for path in FIXTURES if path.name != "expected.json"]


def outcome(state: RunState | FoldError) -> Json:
    """Give a state, or the class and text of the error, as something to compare."""
    if isinstance(state, FoldError):
        text = str(state)
        return [state.error_class, text.split(": ", 2)[1] if "line " in text else text]
    return state_json(state)


def by_timeline(reader: RunReader, item: int) -> Json:
    """State after an item, by the index."""
    try:
        return outcome(reader.state_at(item))
    except FoldError as error:
        return outcome(error)


def by_fold(data: bytes, hint: str = "fisk-ai") -> Json:
    """State of some bytes, by the fold."""
    try:
        return outcome(fold_bytes(data, hint=hint))
    except FoldError as error:
        return outcome(error)


def columns_of(timeline: Timeline) -> dict[str, Any]:
    """Everything a timeline holds, as plain values."""
    columns = {
        name: list(getattr(timeline.columns, name)) for name in timeline.columns.__slots__ if name[0] != "_"
    }
    columns["seconds"] = [repr(value) for value in columns["seconds"]]
    return columns | {
        "calls": [timeline.names[index] for index in timeline.call_names],
        "iterations": list(timeline.iterations),
        "stop": [timeline.names[index] for index in timeline.stop_reasons],
        "reasons": timeline.reasons,
        "marks": timeline.marks,
        "loose": timeline.loose_ids,
        "bad": timeline.bad_line,
        "error": timeline.fold_error and (timeline.fold_error[0], str(timeline.fold_error[1])),
        "torn": timeline.last_line_mark,
    }


def check_every_prefix(path: Path) -> None:
    data = path.read_bytes()
    with RunReader.open(path, hint="fisk-ai") as reader:
        timeline = reader.index_all()
        if not timeline.items:
            assert by_fold(data) == ["empty", "no records"]
            return
        for item in range(timeline.items):
            line_end = timeline.span(item).end
            newline = data.find(b"\n", line_end)
            prefix = data if newline < 0 else data[: newline + 1]
            assert by_timeline(reader, item) == by_fold(prefix), item


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_prefix_of_every_fixture_is_the_fold_of_its_bytes(path: Path) -> None:
    check_every_prefix(path)


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_whole_run_folds_as_its_bytes_do(path: Path) -> None:
    data = path.read_bytes()
    with RunReader.open(path, hint="fisk-ai") as reader:
        timeline = reader.index_all()
        whole = by_fold(data)
        error = timeline.strict_error
        if error is not None:
            assert outcome(error) == whole
        else:
            assert by_timeline(reader, timeline.items - 1) == whole


@pytest.mark.parametrize("blank", ["", " \r", "\v", "\u0085", "\u00a0", "\u2003\u3000"])
def test_a_blank_line_is_no_damage(blank: str, tmp_path: Path) -> None:
    path = tmp_path / "blank.json"
    path.write_bytes(
        JOURNALS[0].parent.joinpath("completed-simple.json").read_bytes() + f"{blank}\n".encode()
    )
    with RunReader.open(path, hint="fisk-ai") as reader:
        timeline = reader.index_all()
        assert timeline.findings == ()
        assert by_timeline(reader, timeline.items - 1) == by_fold(path.read_bytes())


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_run_that_grew_byte_by_byte_ends_as_one_read_at_once(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    grown = tmp_path / "grown.json"
    grown.write_bytes(b"")
    with RunReader.open(grown, hint="fisk-ai") as reader:
        step = max(1, len(data) // 97)
        for position in range(0, len(data), step):
            with grown.open("ab") as file:
                file.write(data[position : position + step])
            assert reader.poll() is Change.GREW
            reader.index_all()
        with RunReader.open(path, hint="fisk-ai") as whole:
            assert columns_of(reader.timeline) == columns_of(whole.index_all())


def meta(version: int) -> dict[str, Json]:
    return {
        "version": version,
        "run_id": "made",
        "created": "2026-07-24T09:15:30Z",
        "fingerprint": {},
        "prompt": "do it",
    }


CALL_IDS = ["a", "b", "c"]


@st.composite
def lines(draw: st.DrawFn) -> list[bytes]:
    """Lines that are mostly a run, with anything that goes wrong in real ones."""
    version = draw(st.sampled_from([2, 3]))
    prefix = "io.choria.fisk-ai.v1.session."
    made: list[bytes] = []
    seq = 1

    def add(kind: str, payload: Json, *, number: int | None = None) -> None:
        body: dict[str, Json] = {"seq": number if number is not None else seq, "protocol": prefix + kind}
        body[kind] = payload
        made.append(json.dumps(body, separators=(",", ":")).encode())

    add("meta", meta(version))
    for _ in range(draw(st.integers(0, 12))):
        seq += draw(st.sampled_from([1, 1, 1, 1, 1, 1, 2, 0, -1]))
        what = draw(st.sampled_from("aaarrrrruutxmnbg"))
        ids = draw(st.lists(st.sampled_from(CALL_IDS), max_size=3))
        if version == 3:
            calls: list[Json] = [{"tool_use": {"id": i, "name": "n" + i, "input": {}}} for i in ids]
            blocks: list[Json] = [{"text": {"text": "x"}}, *calls]
            result: Json = {"tool_use_id": "a", "content": "r"}
            said: list[Json] = [{"text": {"text": "more"}}]
        else:
            calls = [{"type": "tool_use", "id": i, "name": "n" + i, "input": {}} for i in ids]
            blocks = [{"type": "text", "text": "x"}, *calls]
            result = {
                "type": "tool_result",
                "tool_use_id": "a",
                "is_error": False,
                "content": [{"type": "text", "text": "r"}],
            }
            said = [{"type": "text", "text": "more"}]
        if what == "a":
            role = draw(st.sampled_from(["assistant", "assistant", "assistant", "user"]))
            content: Json = draw(st.sampled_from([blocks, blocks, None]))
            payload: Json = {
                "iteration": draw(st.integers(0, 5)),
                "message": {"role": role, "content": content},
                "stop_reason": draw(st.sampled_from(["", "tool_use", "end_turn"])),
                "in_tokens": draw(st.sampled_from([3, 3, -1, 2**63 - 1, -(2**63)])),
                "out_tokens": 2,
                "cache_read_tokens": 1,
            }
            add("assistant", payload)
        elif what == "r":
            add(
                "tool_result",
                {
                    "tool_use_id": draw(st.sampled_from([*CALL_IDS, "z"])),
                    "result": result,
                    "remote": draw(st.booleans()),
                },
            )
        elif what == "u":
            role = draw(st.sampled_from(["user", "user", "assistant"]))
            add("user", {"message": {"role": role, "content": draw(st.sampled_from([said, said, None]))}})
        elif what == "t":
            add("terminal", {"reason": draw(st.sampled_from(["suspended", "completed", "error"]))})
        elif what == "x":
            add("heartbeat", {})
        elif what == "m":
            add("meta", meta(version))
        elif what == "n":
            add("assistant", None)
        elif what == "b":
            made.append(
                draw(
                    st.sampled_from(
                        [
                            b"",
                            b"  ",
                            b"\r",
                            b"\xc2\xa0",
                            b"\x1c",
                            b"{",
                            b"[]",
                            b'{"seq":',
                            b"null",
                            b"\0\0",
                            b"no",
                        ]
                    )
                )
            )
        else:
            made[-1] = made[-1][: draw(st.integers(1, 40))] + made[-1]
    return made


@settings(max_examples=250, deadline=None)
@given(made=lines(), ended=st.booleans())
def test_every_prefix_of_a_made_run_is_the_fold_of_its_bytes(
    made: list[bytes], ended: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:  # fmt: skip
    path = tmp_path_factory.mktemp("made") / "made.json"
    path.write_bytes(b"\n".join(made) + (b"\n" if ended else b""))
    check_every_prefix(path)


@settings(max_examples=120, deadline=None)
@given(made=lines(), cuts=st.lists(st.integers(0, 3000), max_size=5))
def test_growth_in_any_pieces_gives_the_same_columns(
    made: list[bytes], cuts: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:  # fmt: skip
    data = b"\n".join(made) + b"\n"
    folder = tmp_path_factory.mktemp("grow")
    whole, grown = folder / "whole.json", folder / "grown.json"
    whole.write_bytes(data)
    grown.write_bytes(b"")
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    with RunReader.open(grown, hint="fisk-ai") as reader, RunReader.open(whole, hint="fisk-ai") as other:
        for start, end in itertools.pairwise(edges):
            with grown.open("ab") as file:
                file.write(data[start:end])
            reader.index_all()
        assert columns_of(reader.timeline) == columns_of(other.index_all())


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """A run with one record of 9 MB between ordinary ones."""
    source = (
        (Path(__file__).parent / "data" / "fisk-ai" / "v3" / "completed-two-tools.json")
        .read_bytes()
        .split(b"\n")
    )
    record = json.loads(source[2])
    record["tool_result"]["result"]["content"] = 'a "quoted" \\ line\n' * 500_000
    source[2] = json.dumps(record, separators=(",", ":")).encode()
    path = tmp_path / "big.json"
    path.write_bytes(b"\n".join(source))
    return path


def test_a_huge_record_is_a_row_like_any_other(big: Path) -> None:
    with RunReader.open(big, hint="fisk-ai") as reader:
        timeline = reader.index_all()
        assert [timeline.kind(item) for item in range(timeline.items)] == [
            "meta", "assistant", "result", "result", "assistant", "terminal",
        ]  # fmt: skip
        assert timeline.findings == ()
        assert timeline.span(2).end - timeline.span(2).start > 9_000_000
        assert by_timeline(reader, timeline.items - 1) == by_fold(big.read_bytes())


def test_the_cached_index_gives_the_same_answer_and_reads_little(big: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    os.utime(big, (1_700_000_000, 1_700_000_000))
    with RunReader.open(big, hint="fisk-ai") as reader:
        first = columns_of(reader.index_all())
        assert reader.keep_index(cache)
    with RunReader.open(big, hint="fisk-ai", cache=cache) as reader:
        assert columns_of(reader.index_all()) == first
        assert reader.bytes_read < 200_000
    more = b'{"seq":99,"protocol":"io.choria.fisk-ai.v1.session.terminal","terminal":{"reason":"error"}}\n'
    with big.open("ab") as file:
        file.write(more)
    with RunReader.open(big, hint="fisk-ai", cache=cache) as grown:
        with RunReader.open(big, hint="fisk-ai") as fresh:
            assert columns_of(grown.index_all()) == columns_of(fresh.index_all())
        assert grown.bytes_read < 200_000


def test_a_cached_index_of_other_bytes_is_not_used(big: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    os.utime(big, (1_700_000_000, 1_700_000_000))
    with RunReader.open(big, hint="fisk-ai") as reader:
        reader.index_all()
        assert reader.keep_index(cache)
    data = big.read_bytes()
    big.write_bytes(data.replace(b"Checking", b"Chekcing").replace(b'"in_tokens":', b'"in_tokens":1'))
    with (
        RunReader.open(big, hint="fisk-ai", cache=cache) as stale,
        RunReader.open(big, hint="fisk-ai") as fresh,
    ):
        assert columns_of(stale.index_all()) == columns_of(fresh.index_all())
    for file in (cache / "index").iterdir():
        file.write_bytes(file.read_bytes()[:100])
    with RunReader.open(big, hint="fisk-ai", cache=cache) as reader:
        assert reader.index_all().items > 0


def test_truncation_replacement_and_deletion_are_told_apart(tmp_path: Path) -> None:
    source = (Path(__file__).parent / "data" / "fisk-ai" / "v3" / "completed-two-tools.json").read_bytes()
    path = tmp_path / "run.json"

    def opened() -> RunReader:
        path.write_bytes(source)
        reader = RunReader.open(path)
        reader.index_all()
        assert reader.poll() is Change.SAME
        return reader

    with opened() as reader:
        os.truncate(path, len(source) - 10)
        assert reader.poll() is Change.SHRANK
    with opened() as reader:
        other = tmp_path / "other"
        other.write_bytes(source)
        other.rename(path)
        assert reader.poll() is Change.REPLACED
    with opened() as reader:
        path.unlink()
        assert reader.poll() is Change.GONE
    with opened() as reader:
        path.write_bytes(b"x" * (len(source) + 50))
        assert reader.poll() is Change.REPLACED


def test_rows_calls_and_links(tmp_path: Path) -> None:
    with RunReader.open(JOURNALS[0].parents[1] / "v3" / "completed-two-tools.json") as reader:
        timeline = reader.index_all()
        rows = [timeline.row(index) for index in range(timeline.rows)]
        assert [row.kind for row in rows] == [
            "meta", "assistant", "call", "call", "result", "result", "assistant", "terminal",
        ]  # fmt: skip
        assert [row.seq for row in rows] == [1, 2, 2, 2, 3, 4, 5, 6]
        assert timeline.link(2) == 4
        assert timeline.link(4) == 2
        assert timeline.link(3) == 5
        assert timeline.tool_name(2) == timeline.tool_name(4) != ""
        assert timeline.row_at(5) == 6
        assert timeline.next_turn(0, 1) == 1
        assert timeline.next_turn(1, 1) == 6
        assert timeline.next_turn(6, 1) is None
        assert timeline.next_turn(7, -1) == 6
        assert timeline.next_turn(6, -1) == 1
        assert timeline.next_turn(3, -1) == 1
        assert timeline.next_turn(1, -1) is None
        assert timeline.next_problem(0, 1) == 5
        assert timeline.next_problem(7, -1) == 5
        assert timeline.neighbours(4) == (3, 5)


@settings(max_examples=100, deadline=None)
@given(made=lines(), width=st.integers(1, 60))
def test_buckets_cover_every_row_once(
    made: list[bytes], width: int, tmp_path_factory: pytest.TempPathFactory
) -> None:  # fmt: skip
    path = tmp_path_factory.mktemp("buckets") / "made.json"
    path.write_bytes(b"\n".join(made) + b"\n")
    with RunReader.open(path) as reader:
        timeline = reader.index_all()
        made_of = buckets(timeline, width)
        assert len(made_of) == min(width, timeline.rows)
        covered = [row for bucket in made_of for row in range(bucket.first_row, bucket.last_row + 1)]
        assert covered == list(range(timeline.rows))
        for index in range(timeline.rows):
            row = timeline.row(index)
            assert timeline.first_row(row.item) + row.call + 1 == index
            linked = timeline.link(index)
            if linked is not None and row.kind == "call":
                assert timeline.link(linked) == index


@pytest.mark.parametrize(
    "spoil", ["a turn", "the last turn", "an entry", "a column", "part of an entry", "a type", "the types"]
)
def test_columns_that_do_not_belong_together_are_refused(journals: Path, spoil: str) -> None:
    with RunReader.open(journals / "v2" / "completed-simple.json") as reader:
        columns = reader.index_all().columns
    kept = columns.packed()
    codes = {"a type": "d" + kept.codes[1:], "the types": kept.codes[1:]}.get(spoil, kept.codes)
    data = [bytearray(column) for column in kept.data]
    turns = next(place for place, column in enumerate(columns.arrays()) if column is columns.llm)
    if spoil == "a turn":
        data[turns][0] ^= 64
    elif spoil == "the last turn":
        data[turns][-4] += 1
    elif spoil == "an entry":
        del data[0][:8]
    elif spoil == "a column":
        del data[-1]
    elif spoil == "part of an entry":
        del data[0][:3]
    with pytest.raises(ValueError):  # noqa: PT011 - of several kinds
        Columns().restore(PackedColumns([memoryview(column) for column in data], codes, kept.turns))
    again = Columns()
    again.restore(kept)
    assert again.packed() == kept
