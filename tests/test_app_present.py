"""What the timeline and the panes say about a run, without a screen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests import run_story as story

from refold.app import safe
from refold.app.lines import Line, cells, plain
from refold.app.present import landing, units
from refold.app.present.clip import clip
from refold.app.present.effects import effect_words
from refold.app.present.find import Hunt
from refold.app.present.json_text import json_lines
from refold.app.present.landing import Landing
from refold.app.present.layout import cell, flow
from refold.app.present.output import Output, unwrap
from refold.app.present.peek import completed
from refold.app.present.raw import RawRows
from refold.app.present.reading import Reading
from refold.app.present.record import READ, View, record_lines
from refold.app.present.rows import TimelineRows
from refold.app.present.ruler import TimeScale, cells_by_count, fraction_of_row, row_of_fraction
from refold.app.present.state import state_lines
from refold.core.records import Json
from refold.core.resume import Effect
from refold.core.search import text_pattern
from refold.core.store.reader import RunReader

FOLDED = View()
WIDTHS = (30, 59, 80, 120)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


def opened(path: Path) -> Reading:
    reader = RunReader.open(path)
    reader.index_all()
    return Reading(reader)


def told(tmp_path: Path, lines: list[bytes], name: str = "run") -> Reading:
    return opened(story.write(tmp_path / f"{name}.json", lines))


def words(lines: Iterator[Line | None]) -> str:
    return "\n".join(plain(line) for line in lines if line is not None)


def record_of(reading: Reading, index: int, width: int = 80, view: View = FOLDED) -> str:
    return words(record_lines(reading.subject(index), width, view))


def state_of(reading: Reading, index: int, width: int = 80) -> str:
    return words(state_lines(reading.state_view(reading.timeline.row(index).item), width))


def row_texts(rows: TimelineRows, width: int = 100) -> list[str]:
    return [plain(rows.line(index, width)) for index in range(len(rows))]


class TestPeek:
    @settings(max_examples=200)
    @given(st.dictionaries(st.text(max_size=4), JSON, min_size=1, max_size=4), st.data())
    def test_a_cut_text_parses_wherever_it_was_cut(self, value: dict[str, Json], data: st.DataObject) -> None:
        whole = json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode("utf-8", "surrogatepass")
        cut = data.draw(st.integers(1, len(whole)))
        for keep in (True, False):
            found = json.loads(completed(whole[:cut], keep_open_string=keep).decode("utf-8", "surrogatepass"))
            assert isinstance(found, dict)
            assert list(found) == list(value)[: len(found)]
            assert list(found.values())[:-1] == list(value.values())[: max(0, len(found) - 1)]

    @given(JSON)
    def test_a_whole_text_stays_as_it_is(self, value: Json) -> None:
        text = json.dumps([value]).encode()
        assert json.loads(completed(text)) == [value]

    @given(st.binary(max_size=60))
    def test_no_bytes_are_too_odd(self, data: bytes) -> None:
        for cut in (data, b'{"a":"' + data):
            closed = completed(cut)
            kept = next((at for at, (a, b) in enumerate(zip(closed, cut, strict=False)) if a != b), len(cut))
            assert set(closed[kept:]) <= set(b'"]}')

    def test_a_cut_string_keeps_what_was_read(self) -> None:
        assert completed(b'{"a":{"b":["one \\u00e') == b'{"a":{"b":["one "]}}'
        assert completed('{"a":"grün'.encode()[:-1]) == b'{"a":"gr\xc3\xbc"}'
        assert completed(b'{"a":12') == b"{}"

    def test_a_million_brackets_end_soon(self) -> None:
        assert len(completed(b"[" * 1_000_000)) < 1000


class TestRows:
    def test_a_row_a_record_and_one_a_call(self, tmp_path: Path) -> None:
        rows = told(tmp_path, story.fix_add()).rows()
        texts = row_texts(rows)
        assert [text[1:5].strip() for text in texts] == [
            "1┤", "2┆", "", "3┤", "4┆", "", "", "5┆", "6┤", "7┤", "8┤", "9┆", "",
        ]  # fmt: skip
        assert "◇  meta      Fix add() so the test passes." in texts[0]
        assert "├→ call      read_file  calc.py" in texts[2]
        assert "└  result    def add(a, b): return a - b  " in texts[3]
        assert "+3.1s ◆  assistant The sign is wrong." in texts[4]
        assert "1.4k tok" in texts[4]

    def test_results_of_a_batch_name_their_call(self, tmp_path: Path) -> None:
        texts = row_texts(told(tmp_path, story.fix_add()).rows())
        assert "├  result    read_file  def test_add(): assert add(2, 3) == 5" in texts[7]
        assert "└  result    ✗ run  exit 1  F. 1 failed" in texts[8]

    def test_a_call_without_a_result_says_so(self, tmp_path: Path) -> None:
        texts = row_texts(told(tmp_path, story.fix_add()).rows())
        assert "└→ call      replace_text  calc.py  old=a - b  new=a + b" in texts[12]
        assert texts[12].rstrip().endswith("no result")
        assert not any("no result" in text for text in texts[:12])

    def test_damage_stands_in_its_place(self, tmp_path: Path) -> None:
        texts = row_texts(told(tmp_path, story.damaged()).rows())
        assert any("⚠  damage    E_NUL_RUN  line 5, byte" in text for text in texts)
        assert any("recovered" in text and "suspended" in text for text in texts)
        assert "E_TORN_TAIL" in texts[-1]

    def test_inherited_records_are_dim(self, tmp_path: Path) -> None:
        origin = {"run_id": "parent", "seq": 3, "prefix_sha256": "", "reason": "try again"}
        lines = [story.meta(1, "child", "again", forked_from=origin), *story.fix_add()[1:]]
        rows = told(tmp_path, lines).rows()
        for index in range(len(rows)):
            roles = {role for text, role in rows.line(index, 80) if text.strip()}
            assert (roles == {"dim"}) is (rows.timeline.row(index).seq in (1, 2, 3))
        assert "ψ fork of parent at 3" in plain(rows.line(0, 80))

    def test_matches_stand_out(self, tmp_path: Path) -> None:
        rows = told(tmp_path, story.fix_add()).rows()
        rows.search = lambda _: text_pattern("SIGN")
        assert [text for text, role in rows.line(4, 100) if role == "match"] == ["sign"]

    def test_times_stand_only_where_they_are_recorded(self, tmp_path: Path, journals: Path) -> None:
        assert told(tmp_path, story.fix_add()).rows().has_times()
        assert not opened(journals / "v3" / "completed-simple.json").rows().has_times()

    def test_a_long_record_is_read_in_part(self, tmp_path: Path) -> None:
        lines = story.fix_add()
        lines[2] = story.result(3, "c1", "first line that is long\n" + "x" * 5_000_000)
        reading = told(tmp_path, lines)
        before = reading.reader.bytes_read
        assert "first line that is long …" in plain(reading.rows().line(3, 100))
        assert "5.0 MB" in plain(reading.rows().line(3, 100))
        assert reading.reader.bytes_read - before < 50_000

    def test_the_file_changes_under_the_rows(self, tmp_path: Path) -> None:
        reading = told(tmp_path, story.fix_add())
        rows = reading.rows()
        (tmp_path / "run.json").write_bytes(b"")
        assert len(row_texts(rows)) == 13

    def test_what_cannot_be_read_any_more_says_so(self, tmp_path: Path) -> None:
        reading = told(tmp_path, story.fix_add())
        rows = reading.rows()
        raw = RawRows(lambda start, size: reading.raw_part(2, start, size), 200, 0, 80)
        reading.reader.close()
        assert "run.json: cannot be read: Bad file" in plain(rows.line(3, 160))
        assert "run.json: cannot be read: Bad file" in plain(raw.line(0, 160))


class TestFixtures:
    @pytest.mark.parametrize("version", ["v2", "v3"])
    def test_every_line_fits(self, journals: Path, version: str) -> None:
        paths = sorted(path for path in (journals / version).glob("*.json") if path.name != "expected.json")
        assert len(paths) > 60
        for path in paths:
            reading = opened(path)
            rows = reading.rows()
            for width in WIDTHS:
                assert len(cells_by_count(reading.timeline, width)) == width
                for index in range(len(rows)):
                    check_row(reading, rows, index, width)

    def test_text_of_all_scripts_fits(self, tmp_path: Path) -> None:
        reading = told(tmp_path, story.hostile())
        rows = reading.rows()
        for width in WIDTHS:
            for index in range(len(rows)):
                check_row(reading, rows, index, width)

    @settings(max_examples=60)
    @given(st.text(max_size=60), st.integers(24, 130))
    @example("", 38)
    @example("\n\uaaf7\ud7fc", 24)
    def test_any_text_fits(self, tmp_path_factory: pytest.TempPathFactory, text: str, width: int) -> None:
        lines = [
            story.meta(1, "run", text),
            story.assistant(2, 0, story.text(text), story.call("a", text, **{text: text})),
        ]
        reading = told(tmp_path_factory.mktemp("any"), [*lines, story.result(3, "a", text)])
        rows = reading.rows()
        for index in range(len(rows)):
            check_row(reading, rows, index, width)


def check_row(reading: Reading, rows: TimelineRows, index: int, width: int) -> None:
    """Each line that stands for a row is as wide as it should be, and nothing in it commands a terminal."""
    item = reading.timeline.row(index).item
    assert cells(rows.line(index, width)) == width
    drawn: list[Line | None] = [rows.line(index, width)]
    drawn += record_lines(reading.subject(index), width, View())
    drawn += record_lines(reading.subject(index), width, View(thinking=True, unfolded=True))
    drawn += state_lines(reading.state_view(item), width)
    drawn += reading.conversation(item, width, View())
    where = reading.timeline.span(item)
    for as_hex in (False, True) if width >= 30 else ():
        raw = RawRows(
            lambda start, size: reading.raw_part(item, start, size),
            where.end - where.start,
            where.start,
            width,
            as_hex=as_hex,
        )
        drawn += [raw.line(line, width) for line in range(len(raw))]
    for line in drawn:
        assert line is None or cells(line) <= width, plain(line)
        assert line is None or all(safe.line(text) == text for text, _ in line)


class TestRecord:
    def test_a_reply(self, tmp_path: Path) -> None:
        shown = record_of(told(tmp_path, story.fix_add()), 4)
        assert "Assistant  seq 4  line 4  turn 2" in shown
        assert "900 in · 80 out · 400 cache read" in shown
        assert "▸ thinking, 61 characters  (z shows it)" in shown
        assert "before touching anything" not in shown
        assert "✓ answered at seq 5" in shown
        assert "✗ failed at seq 6" in shown
        assert '{"path": "test_calc.py"}' in shown

    def test_thinking_unfolds(self, tmp_path: Path) -> None:
        shown = record_of(told(tmp_path, story.fix_add()), 4, view=View(thinking=True))
        assert "Look at the test before touching anything." in shown

    def test_an_open_call(self, tmp_path: Path) -> None:
        shown = record_of(told(tmp_path, story.fix_add()), 12)
        assert "call replace_text" in shown
        assert "outcome unknown" in shown
        assert "I will edit" not in shown

    def test_the_envelope_of_a_command(self, tmp_path: Path) -> None:
        shown = record_of(told(tmp_path, story.fix_add()), 8)
        assert "$ pytest -q\nexit 1" in shown
        assert "F.\n1 failed, 1 passed in 0.03s" in shown
        assert "exit_code" not in shown

    def test_long_output_folds(self, tmp_path: Path) -> None:
        lines = story.fix_add()
        lines[2] = story.result(3, "c1", "\n".join(f"line {number}" for number in range(5000)))
        reading = told(tmp_path, lines)
        folded = record_of(reading, 3)
        assert "line 39\n⋯ 4,960 more lines  (Z shows them)" in folded
        assert "line 40" not in folded
        assert "line 4999" in record_of(reading, 3, view=View(unfolded=True))

    def test_a_huge_record_costs_what_is_shown(self, tmp_path: Path) -> None:
        lines = story.fix_add()
        lines[2] = story.result(3, "c1", "start\n" + "word " * 2_000_000)
        reading = told(tmp_path, lines)
        before = reading.reader.bytes_read
        shown = record_of(reading, 3, view=View(unfolded=True))
        assert reading.reader.bytes_read - before <= READ + 4096
        assert "start\nword word" in shown
        assert shown.endswith("⋯ 9.9 MB of this record not shown here; Raw shows all of it")

    def test_damage(self, tmp_path: Path) -> None:
        reading = told(tmp_path, story.damaged())
        row = next(
            index for index in range(len(reading.rows())) if reading.timeline.row(index).kind == "damage"
        )
        shown = record_of(reading, row)
        assert shown.startswith("Damage  line 5")
        assert "⚠ E_NUL_RUN" in shown
        assert "→ fork at the last sequence before it" in shown
        assert "␛[31m" in shown
        assert "‹xFE›" in shown

    def test_what_a_person_decided(self, tmp_path: Path) -> None:
        decided = story.result(10, "c4", "it ran", decision={"choice": "done", "text": "looked at it"})
        reading = told(tmp_path, [*story.fix_add(), decided])
        assert "decided by a person: done  looked at it" in record_of(reading, 13)
        assert "decided: done" in plain(reading.rows().line(13, 100))


class TestState:
    def test_what_a_record_changed(self, tmp_path: Path) -> None:
        shown = state_of(told(tmp_path, story.fix_add()), 9)
        assert "State after seq 7" in shown
        assert "▸ terminal      suspended" in shown
        assert "turn          2" in shown
        assert "▸ turn" not in shown
        assert "tool calls    3 results" in shown

    def test_open_calls(self, tmp_path: Path) -> None:
        reading = told(tmp_path, story.fix_add())
        shown = state_of(reading, 7)
        assert "1 of 2 calls so far" in shown
        assert "▸   ✓ read_file  test_calc.py" in shown
        assert "  · run  pytest -q" in shown
        assert "result at seq 6" in shown
        assert "the turn is closed" in state_of(reading, 8)

    def test_a_call_without_any_result(self, tmp_path: Path) -> None:
        shown = state_of(told(tmp_path, story.fix_add()), 12)
        assert "1 of 1 call: outcome unknown" in shown
        assert "  ? replace_text  calc.py" in shown

    def test_limits(self, tmp_path: Path) -> None:
        shown = state_of(told(tmp_path, story.fix_add()), 12)
        assert "21% of 20.0k tokens" in shown or "21% of 20k tokens" in shown
        assert "15% of 20" in shown

    def test_beyond_a_bad_line_it_is_reconstructed(self, tmp_path: Path) -> None:
        reading = told(tmp_path, story.damaged())
        last = len(reading.rows()) - 2
        assert "⚠ reconstructed: line 5 could not be read" in state_of(reading, last)
        assert "turn          3" in state_of(reading, last)
        assert "reconstructed" not in state_of(reading, 3)

    def test_a_newer_version_is_not_folded(self, journals: Path) -> None:
        shown = state_of(opened(journals / "v3" / "version-99.json"), 1)
        assert "unsupported snapshot version" in shown
        assert "not folded" in shown
        assert "turn  " not in shown

    def test_it_says_what_the_core_folds(self, journals: Path) -> None:
        for name in ("crashed-mid-tool-batch", "suspended-resumed-completed", "chat-consecutive-users"):
            reading = opened(journals / "v3" / f"{name}.json")
            for item in range(reading.timeline.items):
                state = reading.reader.state_at(item)
                view = reading.state_view(item)
                assert view.now is not None
                assert view.error is None
                assert view.now.counters == state.counters
                assert view.now.messages == len(state.messages)
                assert view.now.last_role == state.messages[-1].role
                assert view.now.next_iteration == state.next_iteration
                assert view.now.terminal == state.terminal
                waiting = () if view.now.calls is None else view.now.calls
                pending = state.pending.unanswered if state.pending is not None else ()
                assert [call.name for call in waiting if not call.answered] == [call.name for call in pending]
                assert [call.input for call in waiting if not call.answered] == [
                    call.input for call in pending
                ]

    def test_a_huge_open_turn_is_not_decoded(self, tmp_path: Path) -> None:
        lines = story.fix_add()[:1]
        lines.append(story.assistant(2, 0, story.text("t" * 3_000_000), story.call("c1", "write", path="a")))
        reading = told(tmp_path, lines)
        before = reading.reader.bytes_read
        assert "? write" in state_of(reading, 2)
        assert reading.reader.bytes_read - before < 200_000


class TestConversation:
    def shown(self, reading: Reading, index: int, **more: int) -> str:
        return words(reading.conversation(reading.timeline.row(index).item, 80, View(), **more))

    def test_the_open_turn_stands_apart(self, tmp_path: Path) -> None:
        shown = self.shown(told(tmp_path, story.fix_add()), 12)
        sent, _, pending = shown.partition("open turn not part of the conversation yet")
        assert "── 1 user" in sent
        assert "Go on, please." in sent
        assert "I will edit calc.py now." not in sent
        assert "I will edit calc.py now." in pending
        assert "? replace_text  calc.py  no result" in pending

    def test_it_ends_at_the_cursor(self, tmp_path: Path) -> None:
        shown = self.shown(told(tmp_path, story.fix_add()), 3)
        assert "return a - b" in shown
        assert "The sign is wrong" not in shown

    def test_only_a_window_is_laid_out(self, tmp_path: Path) -> None:
        lines = [story.meta(1, "long", "begin")]
        for turn in range(400):
            call_id = f"c{turn}"
            lines.append(story.assistant(2 + 2 * turn, turn, story.call(call_id, "read", path=str(turn))))
            lines.append(story.result(3 + 2 * turn, call_id, f"answer {turn}"))
        reading = told(tmp_path, lines)
        before = reading.reader.bytes_read
        shown = self.shown(reading, len(reading.rows()) - 1, window=50)
        assert "answer 399" in shown
        assert "answer 0\n" not in shown
        assert "earlier messages  (Z shows more)" in shown
        assert reading.reader.bytes_read - before < 20_000


class TestRaw:
    def rows(self, data: bytes, width: int, *, as_hex: bool = False) -> RawRows:
        return RawRows(lambda start, size: data[start : start + size], len(data), 1000, width, as_hex=as_hex)

    @given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=300), st.integers(20, 100))
    def test_no_character_is_lost(self, text: str, width: int) -> None:
        text = "".join(char for char in text if char.isprintable() and char not in "‹›")
        data = text.encode()
        rows = self.rows(data, width)
        shown = "".join(rows.line(index, width)[1].text.rstrip(" ") for index in range(len(rows)))
        if data and all(ord(char) < 0x300 for char in text):
            assert shown.replace(" ", "") == text.replace(" ", "")

    def test_what_is_no_text_is_written_out(self) -> None:
        rows = self.rows(b'{"a":"\x00\x1b\xff\n\t"}', 80)
        assert plain(rows.line(0, 80)).rstrip() == '1000  {"a":"␀␛‹xFF›␊␉"}'

    def test_hex(self) -> None:
        rows = self.rows(b"\x00ab\xff" * 8, 90, as_hex=True)
        assert len(rows) == 2
        assert plain(rows.line(1, 90)).startswith(
            "1016  00 61 62 ff 00 61 62 ff  00 61 62 ff 00 61 62 ff  ·ab··ab"
        )

    def test_only_the_part_in_sight_is_read(self) -> None:
        asked: list[int] = []

        def read(start: int, size: int) -> bytes:
            asked.append(size)
            return b"x" * min(size, 50_000_000 - start)

        rows = RawRows(read, 50_000_000, 0, 80)
        for index in range(len(rows) - 40, len(rows)):
            rows.line(index, 80)
        assert sum(asked) < 300_000


class TestFind:
    def hits(self, reading: Reading, query: str, start: int = 0) -> list[int]:
        hunt = Hunt(reading.reader, query, start)
        for _ in hunt.steps():
            pass
        assert hunt.complete
        return hunt.hits

    def test_what_a_reader_can_see(self, tmp_path: Path) -> None:
        reading = told(tmp_path, story.fix_add())
        assert self.hits(reading, "test_calc") == [3]
        assert self.hits(reading, "CALC.PY") == [1, 3, 8]
        assert self.hits(reading, "tool_use") == []
        assert self.hits(reading, "nowhere") == []

    def test_from_the_cursor_on(self, tmp_path: Path) -> None:
        reading = told(tmp_path, story.fix_add())
        hunt = Hunt(reading.reader, "calc", 4)
        for _ in hunt.steps():
            if hunt.hits:
                break
        assert hunt.hits == [8]
        for _ in hunt.steps():
            pass
        assert hunt.hits == [1, 3, 8]
        assert (hunt.after(3), hunt.after(8), hunt.before(3), hunt.before(1)) == (8, 1, 1, 8)
        assert (hunt.place(3), hunt.place(4)) == (2, None)

    def test_what_comes_later(self, tmp_path: Path) -> None:
        path = story.write(tmp_path / "run.json", story.fix_add())
        reading = opened(path)
        hunt = Hunt(reading.reader, "calc", 0)
        for _ in hunt.steps():
            pass
        with path.open("ab") as file:
            file.write(story.result(10, "c4", "calc.py changed"))
        reading.reader.index_all()
        assert hunt.outstanding
        for _ in hunt.steps():
            pass
        assert hunt.hits == [1, 3, 8, 9]
        assert not hunt.outstanding

    def test_across_chunks_and_in_long_records(self, tmp_path: Path) -> None:
        lines = [story.meta(1, "long", "begin needle")]
        for seq in range(2, 400):
            filler = "x" * (400_000 if seq == 200 else 900)
            needle = "needle" if seq % 7 == 0 or seq == 200 else ""
            lines.append(story.assistant(seq, seq, story.text(filler + needle), stop="end_turn"))
        reading = told(tmp_path, lines)
        expected = [0, *(seq - 1 for seq in range(2, 400) if seq % 7 == 0 or seq == 200)]
        assert self.hits(reading, "needle", 150) == expected


class TestRuler:
    def test_there_and_back(self, tmp_path: Path) -> None:
        timeline = told(tmp_path, story.fix_add()).timeline
        for row in range(timeline.rows):
            assert row_of_fraction(timeline, fraction_of_row(timeline, row)) == row

    def test_marks(self, tmp_path: Path) -> None:
        damaged = "".join(cell.glyph for cell in cells_by_count(told(tmp_path, story.damaged()).timeline, 60))
        assert "⚠" in damaged
        assert "✗" in damaged
        assert damaged.startswith("█")

    def test_errors_everywhere_leave_the_kinds_in_sight(self, tmp_path: Path) -> None:
        lines = [story.meta(1, "bad", "x")]
        for turn in range(200):
            lines.append(story.assistant(2 + 2 * turn, turn, story.call(f"c{turn}", "t")))
            lines.append(story.result(3 + 2 * turn, f"c{turn}", "no", error=turn % 4 < 2 or turn > 150))
        shown = "".join(cell.glyph for cell in cells_by_count(told(tmp_path, lines).timeline, 60))
        assert 0 < shown.count("✗") <= 20

    def test_time(self, tmp_path: Path) -> None:
        timeline = told(tmp_path, story.fix_add()).timeline
        scale = TimeScale(timeline)
        for _ in scale.extend():
            pass
        assert scale.complete
        assert scale.total == pytest.approx(4.0 + 2.0 + 3.8)
        shown = "".join(cell.glyph for cell in scale.cells(80))
        assert "⋯" in shown
        assert len(shown) == 80
        assert scale.item(scale.fraction(7)) == 7
        assert scale.fraction(timeline.items - 1) == 1.0
        assert "+0.0s" in plain(scale.labels(80))

    def test_a_clock_that_moves_back_takes_no_room(self, tmp_path: Path) -> None:
        lines = story.fix_add()
        lines[3] = lines[3].replace(b"09:15:03", b"08:00:00")
        timeline = told(tmp_path, lines).timeline
        scale = TimeScale(timeline)
        for _ in scale.extend():
            pass
        assert scale.total < 70
        assert len(scale.cells(40)) == 40


class TestWindow:
    def test_the_end_of_a_large_run(self, tmp_path: Path) -> None:
        lines = [story.meta(1, "large", "begin")]
        long = story.text("y" * 2000)
        lines += [story.assistant(2 + turn, turn, long, stop="end_turn") for turn in range(300)]
        reader = RunReader.open(story.write(tmp_path / "large.json", lines))
        window = Reading.of_end(reader)
        assert window is not None
        assert window.is_window
        assert reader.bytes_read < 200_000
        last = len(window.rows()) - 1
        assert " 301 " in plain(window.rows().line(last, 80))
        assert "seq 301" in record_of(window, last)
        assert "still reading" in state_of(window, last)

    def test_a_run_that_ended_is_shown_from_its_start(self, tmp_path: Path) -> None:
        lines = [story.meta(1, "large", "x" * 300_000), story.native(2, "terminal", {"reason": "completed"})]
        assert Reading.of_end(RunReader.open(story.write(tmp_path / "a.json", lines))) is None
        assert Reading.of_end(RunReader.open(story.write(tmp_path / "b.json", story.fix_add()))) is None


class TestSmallParts:
    def test_units(self) -> None:
        assert [units.size(count) for count in (0, 999, 1000, 52_400_000)] == [
            "0 B",
            "999 B",
            "1.0 KB",
            "52.4 MB",
        ]
        assert [units.short(count) for count in (7, 1000, 9_949, 21_400, 999_499, 2_340_000)] == [
            "7", "1.0k", "9.9k", "21k", "999k", "2.3M",
        ]  # fmt: skip
        assert [units.since_start(s) for s in (0.41, 9.96, 245, 11_520, -3)] == [
            "+0.4s",
            "+10s",
            "+4m05s",
            "+3h12m",
            "-3.0s",
        ]
        assert [units.ago(s) for s in (-5, 0, 59, 840, 7300, 200_000)] == [
            "clock ahead", "0s ago", "59s ago", "14m ago", "2h ago", "2d ago",
        ]  # fmt: skip
        assert units.place(1234, 1235) == "at byte 1,234, 1 byte"

    @given(st.integers(0, 10**14))
    def test_counts_and_times_stay_short(self, number: int) -> None:
        assert len(units.short(number)) <= 5
        assert len(units.size(number)) <= 8
        assert len(units.since_start(number % 10**8 / 10)) <= 8

    def test_unwrap(self) -> None:
        assert unwrap("plain") == Output("plain")
        assert unwrap('{"output":"x"}') == Output('{"output":"x"}')
        envelope = '{"command":"ls","exit_code":0,"output":"a\\nb","truncated":true}'
        assert unwrap(envelope) == Output("a\nb", "ls", 0, shortened=True)
        assert unwrap(envelope[: envelope.index("\\n")], whole=False) == Output("a", "ls", 0)
        assert unwrap('{"allowed":false,"reason":"not today"}') == Output("not today", denied=True)
        assert unwrap('{"command":"ls","exit_code":"0","output":[1]}').command == ""

    def test_clip(self) -> None:
        assert clip(b'{"a":1}') == ('{"a":1}', "Sent 7 B to the terminal's clipboard.", True)
        assert "not UTF-8" in clip(b"\xff").said
        assert "control characters" in clip(b"a\x1b[0m").said
        assert clip("grün ✓".encode()).exact
        assert clip(b"a\x1b[0m\xc2\x9bz", controls=False).text == "a␛[0m‹9B›z"
        assert "Pictures stand for its control characters" in clip(b"a\x1b[0m", controls=False).said
        assert clip("grün \u200b✓".encode(), controls=False) == clip("grün \u200b✓".encode())

    def test_landing(self, tmp_path: Path) -> None:
        timeline = told(tmp_path, story.fix_add()).timeline
        assert landing.parse(" 14 ") == Landing(seq=14)
        assert landing.parse("#3") == Landing(line=3)
        assert [landing.parse(text) for text in ("", "x", "-1", "#", "１", "9" * 30)] == [None] * 6
        assert landing.row_of(Landing(seq=4), timeline, complete=True) == 4
        assert landing.row_of(Landing(line=2), timeline, complete=True) == 1
        assert landing.row_of(Landing(seq=40), timeline, complete=False) is None
        assert (
            landing.absence(Landing(seq=40), timeline, complete=True)
            == "No record has seq 40. The nearest is 9."
        )

    def test_json(self) -> None:
        value: Json = {
            "text": "two\nlines",
            "list": [1, 2.5, None, True],
            "deep": {"a": {"b": [{}]}},
            "empty": {},
        }
        shown = words(iter(json_lines(value, 40)))
        assert shown.splitlines()[:5] == ["{", '  "text": "', "    two", "    lines", '  ",']
        assert '  "list": [1, 2.5, null, true],' in shown
        roles = {role for line in json_lines(value, 40) for _, role in line}
        assert {"json-key", "json-string", "json-number", "json-word"} <= roles


def test_a_word_that_begins_a_cell_is_not_broken_where_a_line_ends() -> None:
    said = flow((cell("first: a decision; "), cell("writes: "), cell("the next records")), 25, 4)
    assert [plain(line).rstrip() for line in said] == [
        "first: a decision;",
        "    writes: the next",
        "    records",
    ]
    glued = flow((cell("path/"), cell("name-that-is-longer")), 10, 2)
    assert [plain(line) for line in glued] == ["path/name-", "  that-is-", "  longer"]


def test_every_effect_has_one_word_and_a_run_directory_keeps_its_own() -> None:
    assert {effect: effect_words(effect) for effect in get_args(Effect)} == {
        "read": "reads only",
        "idempotent": "idempotent",
        "write": "writes",
        "unknown": "effect unknown",
    }
    assert effect_words("modify_execute") == "modify_execute"
