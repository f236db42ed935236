"""A text is found in a file whatever the size of its lines, and growth costs only what is new."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.core.search import Search
from refold.core.store import grep as module
from refold.core.store.grep import NOWHERE, Looked, grep


def finish(steps: Generator[None, None, Looked | None]) -> Looked | None:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Looked | None = end.value
            return result


def hits(path: Path, *queries: str, before: Looked = NOWHERE) -> set[int]:
    found = finish(grep(path, [Search(query) for query in queries], before))
    assert found is not None
    return set(found.hits)


def record(text: str) -> bytes:
    return msgspec.json.encode({"protocol": "io.choria.fisk-ai.v1.session.user", "text": text}) + b"\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    path.write_bytes(record("the needle") + record("hay") * 1000)
    return path


def test_says_which_of_several_texts_are_there(run: Path) -> None:
    assert hits(run, "needle", "thread", "HAY") == {0, 2}


def test_structure_is_no_hit_but_damage_is(run: Path) -> None:
    assert hits(run, "session") == set()
    with run.open("ab") as file:
        file.write(b'{"protocol":"io.choria.fisk-ai.v1.session.us')
    assert hits(run, "session") == {0}


@pytest.mark.parametrize(
    "size", [module._PIECE - 20, module._PIECE, 3 * module._DECODED, 3 * module._DECODED + 1]
)
def test_finds_a_text_around_every_edge_of_a_long_line(tmp_path: Path, size: int) -> None:
    path = tmp_path / "run.json"
    for shift in range(-14, 15, 7):
        path.write_bytes(record("x" * (size + shift) + "ne\u00e9dle" + "y" * 100) + record("end"))
        assert hits(path, "ne\u00e9dle", "end", "absent") == {0, 1}


def test_a_file_without_newline_is_searched_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(b'{"text":"needle')
    assert hits(path, "needle") == {0}
    path.write_bytes(b"")
    assert hits(path, "needle") == set()


def test_growth_costs_only_what_is_new(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run.open("ab") as file:
        file.write(b'{"text":"cut in the midd')
    search = [Search("thread"), Search("middle")]
    before = finish(grep(run, search))
    assert before is not None
    assert before.hits == frozenset()
    read: list[int] = []

    def counting(fd: int, count: int, offset: int) -> bytes:
        read.append(offset)
        return pread(fd, count, offset)

    pread = os.pread
    monkeypatch.setattr(os, "pread", counting)
    assert finish(grep(run, search, before)) == before
    assert read == []
    with run.open("ab") as file:
        file.write(b'le"}\n')
    after = finish(grep(run, search, before))
    assert after is not None
    assert after.hits == {1}
    assert min(read) == before.end == run.stat().st_size - len(b'{"text":"cut in the middle"}\n')


def test_a_replaced_or_shortened_file_is_read_from_the_start(run: Path) -> None:
    search = [Search("needle")]
    before = finish(grep(run, search))
    assert before is not None
    assert before.hits == {0}
    run.write_bytes(record("hay"))
    assert hits(run, "needle", before=before) == set()
    other = run.with_name("other")
    other.write_bytes(record("hay") * 5000)
    other.replace(run)
    assert hits(run, "needle", before=before) == set()


def test_what_cannot_be_read_has_no_answer(tmp_path: Path) -> None:
    assert finish(grep(tmp_path / "absent.json", [Search("x")])) is None
    assert finish(grep(tmp_path, [Search("x")])) is None
    os.mkfifo(tmp_path / "pipe.json")
    assert finish(grep(tmp_path / "pipe.json", [Search("x")])) is None


def test_every_step_is_short(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(record("stop_reason tool_use") * 200_000)
    steps = sum(1 for _ in grep(path, [Search("protocol"), Search("stop")]))
    assert steps > 20


LETTERS = st.sampled_from('ab\\"\n\u00e9')


@settings(max_examples=60)
@given(st.lists(st.text(LETTERS, max_size=30), max_size=12), st.text(LETTERS, min_size=1, max_size=3))
def test_pieces_and_lines_of_any_size_give_the_answer_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str
) -> None:
    path = tmp_path_factory.mktemp("grep") / "run.json"
    path.write_bytes(b"".join(msgspec.json.encode([text]) + b"\n" for text in texts))
    there = any(query in text for text in texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PIECE", 7)
        assert hits(path, query) == ({0} if there else set())
