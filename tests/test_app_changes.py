"""The Changes pane: what a record changes in files, and what all up to it came to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from tests import run_story as story
from tests.at_once import at_once
from tests.rivumi_cases import make

from refold.app.lines import plain
from refold.app.present import code
from refold.app.present.changing import Changing
from refold.app.present.lens import Lens
from refold.app.present.reading import Reading, reading_of
from refold.app.present.view import Scope, View
from refold.core.composing import Files
from refold.core.records import Decision
from refold.core.rivumi.events_state import EventsState
from refold.core.rivumi.timeline import EventTimeline
from refold.core.store.reader import RunReader
from refold.core.store.session import SessionStore
from refold.core.store.touching import TouchReader
from refold.core.touches import DELETED, MOVED, READ, WRITTEN

PATCH = "*** Begin Patch\n*** Update File: notes.md\n@@\n a\n-b\n+c\n*** End Patch\n"


def edited() -> list[bytes]:
    """A run with edits that went well, one that failed, one that was denied, and one without an end."""
    call, result = story.call, story.result
    return [
        story.meta(1, "edited", "Edit."),
        story.assistant(
            2,
            0,
            call("c1", "read_file", path="calc.py"),
            call("c2", "replace_text", path="calc.py", old="a - b", new="a + b"),
        ),
        result(3, "c1", "x"),
        result(4, "c2", "ok"),
        story.assistant(5, 1, call("c3", "write_file", path="notes.md", content="a\nb\n")),
        result(6, "c3", "ok"),
        story.assistant(
            7,
            2,
            call("c4", "apply_patch", input=PATCH),
            call("c5", "replace_text", path="gone.py", old="x", new="y"),
            call("c6", "write_file", path="denied.py", content="x"),
        ),
        result(8, "c4", "ok"),
        result(9, "c5", "no such file", error=True),
        result(10, "c6", json.dumps({"allowed": False, "reason": "no"})),
        story.assistant(11, 3, call("c7", "replace_text", path="calc.py", old="a + b", new="b + a")),
        result(12, "c7", "ok"),
        story.assistant(13, 4, call("c8", "move_file", source="notes.md", destination="n.md")),
        result(14, "c8", "ok"),
        story.assistant(15, 5, call("c9", "delete_file", path="calc.py")),
    ]


@pytest.fixture
def reading(tmp_path: Path) -> Iterator[Reading]:
    with RunReader.open(story.write(tmp_path / "edited.json", edited())) as reader:
        reader.index_all()
        yield reading_of(reader)


def said(reading: Reading, seq: int, scope: Scope = "record", *, call: int = -1, width: int = 60) -> str:
    item = reading.timeline.item_at(seq)
    assert item is not None
    row = reading.timeline.first_row(item) + call + 1
    lines = reading.changes(row, width, View(scope=scope))
    return "\n".join(plain(line).rstrip() for line in lines if line is not None)


def test_a_record_shows_the_edits_of_its_calls_and_what_became_of_them(reading: Reading) -> None:
    text = said(reading, 2)
    assert "Changes of seq 2" in text
    assert "replace_text  ✓ done at seq 4" in text
    assert "▾ calc.py  +1 −1" in text
    assert "- a - b\n+ a + b" in text
    assert "read_file" not in text
    assert said(reading, 4) == text.replace("seq 2 ", "seq 4 ")
    assert "This record changes no file." in said(reading, 1)
    assert "These calls change no file." in said(reading, 2, call=0)


def test_what_did_not_happen_says_so(reading: Reading) -> None:
    text = said(reading, 7)
    assert "replace_text  ✗ failed at seq 9: not counted as a change" in text
    assert "write_file  ✗ denied at seq 10: it changed nothing" in text
    assert "delete_file  ? no result recorded: outcome unknown" in said(reading, 15)
    assert "no result yet" in "\n".join(
        plain(line) for line in reading.changes(reading.timeline.rows - 1, 60, View(), held=True) if line
    )


def test_a_patch_of_a_file_that_was_written_before_shows_the_lines_around_it(reading: Reading) -> None:
    text = said(reading, 8)
    assert "     1 a\n-    2 b\n+    2 c" in text


def test_a_patch_of_a_file_that_nobody_wrote_shows_each_of_its_stretches(tmp_path: Path) -> None:
    rows = "".join(f"@@ -{at},2 +{at},2 @@\n same{at}\n-old{at}\n+new{at}\n" for at in (10, 200, 3000))
    patch = f"--- a/far.py\n+++ b/far.py\n{rows}"
    lines = [
        story.meta(1, "far", "Edit."),
        story.assistant(2, 0, story.call("c1", "apply_patch", patch=patch)),
        story.result(3, "c1", "ok"),
    ]
    with RunReader.open(story.write(tmp_path / "far.json", lines)) as reader:
        reader.index_all()
        text = said(reading_of(reader), 2)
    assert text.count("▾ far.py  +3 −3") == 1
    for at in (10, 200, 3000):
        for mark, word in (("-", "old"), ("+", "new")):
            assert f"{mark}{at + 1:>5} {word}{at}\n" in f"{text}\n"


def test_all_up_to_a_record_is_summed_up(reading: Reading) -> None:
    text = said(reading, 12, "sum")
    assert "All changes up to seq 12" in text
    assert "2 files  +3 −1  by 4 calls" in text
    # Two edits of one place are one.
    assert "- a - b\n+ b + a" in text
    assert "written whole: what stood there before is not recorded" in text
    assert "+    1 a\n+    2 c" in text
    assert "gone.py" not in text
    assert "denied.py" not in text


def test_an_open_edit_is_named_and_not_summed_up(reading: Reading) -> None:
    text = said(reading, 15, "whole", width=100)
    assert "? seq 15 may have changed calc.py: outcome unknown, it is not in the sum" in text
    assert "▾ n.md  +2 −0   seq 5, 7, 13\n  renamed from notes.md" in text
    assert "+ b + a" in text
    # Going back in time is beginning again, not taking back.
    assert said(reading, 4, "sum").count("▾") == 1
    assert said(reading, 1, "sum").endswith("No call that came to its end changed a file.")
    assert said(reading, 15, "whole", width=100) == text


def test_source_text_has_colours_once_they_are_loaded(reading: Reading) -> None:
    item = reading.timeline.item_at(5)
    assert item is not None
    code.wanted.clear()
    said(reading, 2)
    code.load()
    assert not code.wanted
    rows = [line for line in reading.changes(reading.timeline.first_row(1), 60, View()) if line]
    assert [cell.role for line in rows for cell in line if cell.text == "a - b"] == []
    found = code.parts("x.py", ["def f(a):", '    """one', '    two"""', "    return 1  # end", ""])
    lines = [line for line in found if line is not None]
    assert ["".join(text for text, _ in line) for line in lines] == [
        "def f(a):", '    """one', '    two"""', "    return 1  # end", "",
    ]  # fmt: skip
    assert ("def", "json-word") in lines[0]
    assert lines[2][-1][1] == "json-string"
    assert ("# end", "dim") in lines[3]


@pytest.mark.parametrize("width", [4, 12, 59, 200])
@pytest.mark.parametrize("scope", get_args(Scope))
def test_hostile_text_stays_on_its_lines(tmp_path: Path, scope: Scope, width: int) -> None:
    lines = [story.meta(1, "hostile", "x")]
    for number, words in enumerate(story.HOSTILE):
        seq = 2 + 2 * number
        lines.append(
            story.assistant(
                seq, number, story.call("c", "write_file", path=words.replace("\0", ""), content=words)
            )
        )
        lines.append(story.result(seq + 1, "c", "ok"))
    with RunReader.open(story.write(tmp_path / "hostile.json", lines)) as reader:
        reader.index_all()
        reading = reading_of(reader)
        for row in range(0, reading.timeline.rows, 2):
            for line in reading.changes(row, width, View(scope=scope)):
                text = plain(line) if line is not None else ""
                assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in text)


def test_a_call_of_many_megabytes_is_named_and_not_taken_apart(tmp_path: Path) -> None:
    lines = [
        story.meta(1, "long", "x"),
        story.assistant(2, 0, story.call("c1", "write_file", content="line\n" * 600_000, path="long.txt")),
        story.result(3, "c1", "ok"),
    ]
    with RunReader.open(story.write(tmp_path / "long.json", lines)) as reader:
        reader.index_all()
        reading = reading_of(reader)
        for scope in get_args(Scope):
            text = said(reading, 3, scope)
            assert "long.txt" in text
            assert "is too long to be shown here: Raw shows it" in text.replace("\n  ", " ")
        assert reading.changing.touches.counts(2) == (1, 0)


def test_touches_are_a_cut_at_any_record(reading: Reading) -> None:
    timeline, index = reading.timeline, TouchReader(reading.reader)
    for _ in index.extend(timeline.items):
        pass
    touches = index.touches

    def at(seq: int) -> list[tuple[str, int]]:
        item = timeline.item_at(seq)
        assert item is not None
        return [(touch.path, touch.kind) for touch in touches.latest(item, 100)]

    assert at(2) == []
    assert at(3) == [("calc.py", READ)]
    assert at(4) == [("calc.py", WRITTEN), ("calc.py", READ)]
    assert at(10) == [("notes.md", WRITTEN), ("calc.py", WRITTEN), ("calc.py", READ)]
    assert at(14) == [("n.md", WRITTEN), ("notes.md", MOVED), ("calc.py", WRITTEN), ("calc.py", READ)]
    last = timeline.items - 1
    assert touches.counts(last) == (3, 1)
    # The delete that never came to its end is open, not done.
    assert [touch.kind for touch in touches.latest(last, 100) if touch.path == "calc.py"] == [WRITTEN, READ]
    assert len(touches.open_keys()) == 1
    assert DELETED not in [touch.kind for touch in touches.latest(last, 100)]
    assert [touch.path for touch in touches.latest(last, 2)] == ["n.md", "notes.md"]


def test_a_call_that_a_later_turn_leaves_behind_has_an_unknown_outcome(tmp_path: Path) -> None:
    lines = [
        *edited(),
        story.native(16, "user", {"message": {"role": "user", "content": [story.text("Go on")]}}),
    ]
    with RunReader.open(story.write(tmp_path / "left.json", lines)) as reader:
        reader.index_all()
        reading = reading_of(reader)
        assert "may have changed calc.py: outcome unknown" in said(reading, 16, "sum")
        assert "The last change before it is of seq 15." in said(reading, 16)
        found = [touch for touch in reading.changing.touches.latest(15, 100) if touch.unknown]
        assert [(touch.path, touch.kind) for touch in found] == [("calc.py", DELETED)]


UNKNOWN = "outcome unknown: recorded as failed"


def decided(words: str = UNKNOWN, choice: str = "") -> list[bytes]:
    """A run in which a call that was in flight was decided to count as failed, and that went on."""
    more: dict[str, Any] = {"decision": {"choice": choice}} if choice else {}
    result = story.result(3, "c1", words, error=choice != "done", **more)
    return [
        story.meta(1, "decided", "Edit."),
        story.assistant(2, 0, story.call("c1", "write_file", path="a.py", content="x\n")),
        result,
        story.assistant(4, 1, story.text("Done."), stop="end_turn"),
    ]


@pytest.mark.parametrize("choice", ["", "failed"], ids=["of others", "our own"])
def test_a_call_that_was_decided_to_have_failed_keeps_its_unknown_outcome(
    tmp_path: Path, choice: str
) -> None:
    with RunReader.open(story.write(tmp_path / "decided.json", decided(choice=choice))) as reader:
        reader.index_all()
        reading = reading_of(reader)
        for seq in (2, 3):
            assert "write_file  ? recorded as failed at seq 3: outcome unknown" in said(reading, seq)
        for seq in (3, 4):
            total = said(reading, seq, "sum", width=100)
            assert "? seq 2 may have changed a.py: outcome unknown, it is not in the sum" in total
            row = next(line for line in state(reading, seq).split("\n") if "a.py" in line)
            assert row.replace("▸", "").split() == [
                "written?",
                "a.py",
                *["outcome", "unknown", "·", "seq", "3"],
            ]
        assert "? recorded as failed at seq 3: outcome unknown" in record(reading, 1)
        shown = record(reading, 2)
        assert "? outcome unknown: it was recorded as failed, and may have run" in shown
        assert "the tool reported an error" not in shown
        rows = reading.rows()
        assert f"? {UNKNOWN}" in plain(rows.line(reading.timeline.first_row(2), 200)).replace(
            "decided: failed  ", ""
        )


def test_a_failure_that_a_tool_reported_is_one(tmp_path: Path) -> None:
    """Only what nobody saw is unknown: neither a text that is like it nor another decision makes it so."""
    for words, choice in (("outcome unknown", ""), ("ok", "done")):
        path = story.write(tmp_path / "decided.json", decided(words, choice))
        with RunReader.open(path) as reader:
            reader.index_all()
            text = said(reading_of(reader), 3)
        assert ("✗ failed at seq 3" in text, "✓ done at seq 3" in text) == (not choice, bool(choice))


def record(reading: Reading, item: int) -> str:
    row = reading.timeline.first_row(item)
    return "\n".join(plain(line).rstrip() for line in reading.record(row, 100, View()))


@pytest.mark.parametrize("choice", ["failed", "rerun", "done"])
def test_a_run_directory_keeps_what_was_decided_of_an_end_that_nobody_saw(
    tmp_path: Path, choice: str
) -> None:
    run = make("04-tail-tool-started", tmp_path)
    runs = SessionStore(tmp_path)
    text = "it is there" if choice == "done" else ""
    with runs.claim_and_validate_resume(run.name, decisions={"call_edit_1": Decision(choice, text)}):
        pass
    with RunReader.open(run) as reader:
        reader.index_all()
        reading = reading_of(reader)
        timeline = reading.timeline
        end = max(at for at in range(timeline.items) if timeline.kind(at) == "result")
        seq = timeline.seq(end)
        assert seq is not None
        total, here = said(reading, seq, "sum", width=100), said(reading, seq, width=100)
        shown, stands = record(reading, end), state(reading, seq, 100)
        listed = plain(reading.rows().line(end, 200))
    unknown = choice != "done"
    word = {"failed": "recorded as failed", "rerun": "runs again", "done": ""}[choice]
    assert ("may have changed calc.py: outcome unknown, it is not in the sum" in total) == unknown
    assert ("written? calc.py" in stands) == unknown
    assert ("1 of unknown outcome" in stands) == unknown
    assert (f"{word}: outcome unknown" in shown) == unknown
    assert (f"at seq {seq}: outcome unknown" in here) == unknown
    assert ("? replace_text" in listed) == unknown


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "in flight"])
def test_a_call_that_ran_again_counts_and_its_first_run_stays_unknown(tmp_path: Path, ended: bool) -> None:
    run = make("04-tail-tool-started", tmp_path)
    runs = SessionStore(tmp_path)
    with runs.claim_and_validate_resume(run.name, decisions={"call_edit_1": Decision("rerun")}) as session:
        given = {"tool_call_id": "call_edit_1", "name": "replace_text", "effect": "modify"}
        session.emit("tool.started", given)
        if ended:
            session.emit("tool.completed", {**given, "ok": True, "error": None, "preview": "replaced"})
    with RunReader.open(run) as reader:
        reader.index_all()
        reading = reading_of(reader)
        last = reading.timeline.last_seq
        assert last is not None
        total, here = said(reading, last, "sum", width=100), said(reading, last, width=100)
        stands = state(reading, last, 100)
    assert total.count("? seq 11 may have changed calc.py: outcome unknown, it is not in the sum") == 1
    assert ("by 1 call" in total) == ended
    assert ("- a - b\n+ a + b" in total) == ended
    assert "replace_text" in here
    assert (f"✓ done at seq {last}" in here) == ended
    assert ("started, no end recorded: outcome unknown" in here) == (not ended)
    assert ("written? calc.py" in stands) == (not ended)
    assert ("written  calc.py" in stands) == ended


def test_a_run_directory_shows_its_edits_and_what_it_left(tmp_path: Path) -> None:
    with RunReader.open(make("12-terminal-completed", tmp_path)) as reader:
        reader.index_all()
        reading = reading_of(reader)
        timeline = reading.timeline
        calls = [row for row in range(timeline.rows) if timeline.row(row).kind == "call"]
        texts = [
            "\n".join(plain(line).rstrip() for line in reading.changes(row, 70, View()) if line)
            for row in calls
        ]
        edit = next(text for text in texts if "replace_text" in text)
        assert "✓ done at seq" in edit
        assert "- a - b\n+ a + b" in edit
        last = [
            plain(line).rstrip() for line in reading.changes(timeline.rows - 1, 70, View(scope="sum")) if line
        ]
        assert "What the run left  changes.patch" in last
        assert any(line.startswith("-") and "return a - b" in line for line in last)


def test_a_run_directory_names_an_edit_without_an_end(tmp_path: Path) -> None:
    with RunReader.open(make("04-tail-tool-started", tmp_path)) as reader:
        reader.index_all()
        reading = reading_of(reader)
        last = [
            plain(line) for line in reading.changes(reading.timeline.rows - 1, 70, View(scope="sum")) if line
        ]
        assert any("may have changed calc.py" in line for line in last)
        # It died before its program would have written what it changed.
        assert any("it is not there: its program writes it when a run ends" in line for line in last)
        assert not any("cannot be read" in line for line in last)


def test_the_files_of_a_part_go_on_by_themselves() -> None:
    assert len(Files().part({"a"})) == 0


def state(reading: Reading, seq: int, width: int = 60) -> str:
    item = reading.timeline.item_at(seq)
    assert item is not None
    return "\n".join(plain(line).rstrip() for line in reading.state(item, width) if line is not None)


def test_state_names_the_files_and_what_last_touched_each(reading: Reading) -> None:
    text = state(reading, 14)
    assert "Files  3 changed · 1 read" in text
    assert "▸ written  n.md" in text
    assert "▸ moved    notes.md" in text
    row = next(line for line in text.split("\n") if "calc.py" in line)
    assert row.split() == ["written", "calc.py", "read", "3", "·", "seq", "12"]
    assert "written? calc.py" in state(reading, 15)
    assert "outcome unknown · seq 15" in state(reading, 15)
    assert "Files" not in state(reading, 1)


def test_state_says_of_a_fresh_fork_that_nothing_ran_yet(tmp_path: Path) -> None:
    origin = {"run_id": "parent", "seq": 2, "prefix_sha256": ""}
    lines = [
        story.meta(1, "fork", "Edit.", forked_from=origin),
        story.assistant(2, 0, story.call("c1", "read_file", path="a.py")),
    ]
    for more, words in (
        ([], "ψ a fork that nobody has gone on with yet, with 1 call of its parent pending"),
        ([story.result(3, "c1", "x")], "✗ end of file: no terminal record"),
    ):
        with RunReader.open(story.write(tmp_path / "fork.json", [*lines, *more])) as reader:
            reader.index_all()
            text = state(reading_of(reader), 2 + len(more), 100)
        assert text.split("\n")[1] == words
        assert ("no terminal record" in text) == bool(more)


def test_state_says_since_when_each_line_holds(reading: Reading) -> None:
    rows = {line.split()[0]: line.split()[-2:] for line in state(reading, 6).split("\n") if line.strip()}
    assert rows["turn"] == rows["next"] == rows["stop"] == rows["tokens"] == ["seq", "5"]
    assert "▸ tool calls    3 results" in state(reading, 6)
    rows = {line.split()[0]: line.split()[-2:] for line in state(reading, 5).split("\n") if line.strip()}
    assert rows["tool"] == ["seq", "4"]
    # A turn that is open is no message yet.
    assert rows["messages"] == ["last", "user"]


def test_state_shows_the_plan_of_the_agent(tmp_path: Path) -> None:
    def todos(*steps: tuple[str, str]) -> dict[str, object]:
        listed = [{"content": text, "status": status} for text, status in steps]
        return story.call("c", "todo_write", todos=listed)

    lines = [
        story.meta(1, "plan", "x"),
        story.assistant(2, 0, todos(("read", "in_progress"), ("write", "pending"))),
        story.result(3, "c", "ok"),
        story.assistant(4, 1, todos(("read", "completed"), ("write", "pending"))),
        story.result(5, "c", "ok"),
        story.assistant(6, 2, story.text("Done."), stop="end_turn"),
    ]
    with RunReader.open(story.write(tmp_path / "plan.json", lines)) as reader:
        reader.index_all()
        reading = reading_of(reader)
        assert "Plan" not in state(reading, 2)
        assert "Plan  0 of 2 steps done\n▸ ▶ read" in state(reading, 3)
        text = state(reading, 6)
        assert "Plan  1 of 2 steps done" in text
        rows = [line.split() for line in text.split("\n") if line.split()[1:2] in (["read"], ["write"])]
        assert rows == [["✓", "read", "seq", "5"], ["·", "write", "seq", "3"]]


def test_the_lens_takes_secrets_out_of_changes_and_files(tmp_path: Path) -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    lines = [
        story.meta(1, "secret", "x"),
        story.assistant(
            2, 0, story.call("c", "write_file", path=f"a/{secret}.txt", content=f"token = {secret}\n")
        ),
        story.result(3, "c", "ok"),
    ]
    with RunReader.open(story.write(tmp_path / "secret.json", lines)) as reader:
        reader.index_all()
        reading = reading_of(reader)
        assert secret in said(reading, 3, "sum", width=200)
        reading.lens = Lens(reader)
        for text in (said(reading, 3, width=200), said(reading, 3, "sum", width=200), state(reading, 3, 200)):
            assert secret not in text
            assert "a/" in text


@pytest.mark.parametrize("case", ["12-terminal-completed", "36-event-catalog"])
def test_a_state_of_events_says_since_when_each_line_holds(tmp_path: Path, case: str) -> None:
    with RunReader.open(make(case, tmp_path)) as reader:
        reader.index_all()
        timeline = reader.timeline
        assert isinstance(timeline, EventTimeline)
        for item in range(timeline.items):
            now, since = timeline.state_at(item), timeline.since(item)
            for name in ("phase", "step", "tokens", "resumes"):
                at = getattr(since, name)
                value = getattr(now, name)
                before = EventsState() if at is None or at == 0 else timeline.state_at(at - 1)
                assert at is None or at <= item
                assert getattr(timeline.state_at(item if at is None else at), name) == value
                if at is not None and at > 0 and name != "phase":
                    assert getattr(before, name) != value


async def test_a_step_reads_what_it_shows_and_not_the_run_again(tmp_path: Path) -> None:
    """Bytes asked of the system by State and Changes, once the calls are known: bounded at any place."""
    lines = [story.meta(1, "many", "x")]
    for number in range(2_000):
        path = f"src/file{number % 500}.py"
        edit = story.call("c", "write_file", path=path, content=f"x = {number}\n" * 20)
        lines.append(story.assistant(2 + 2 * number, number, edit))
        lines.append(story.result(3 + 2 * number, "c", "ok" * 100))
    with RunReader.open(story.write(tmp_path / "many.json", lines)) as reader:
        reader.index_all()
        reading, timeline = reading_of(reader), reader.timeline
        assert list(reading.changing.know(timeline.items - 1))
        read = reader.bytes_read
        again = list(reading.changing.know(timeline.items - 1))
        assert not again
        assert reader.bytes_read == read
        for item in (10, 1_000, 2_500, timeline.items - 1):
            before = reader.bytes_read
            lines_ = [line for line in reading.state(item, 60) if line is not None]
            assert len(lines_) < 90
            assert reader.bytes_read - before < 32_768
            before = reader.bytes_read
            assert list(reading.changes(timeline.first_row(item), 60, View()))
            assert reader.bytes_read - before < 32_768


def test_a_sum_that_was_left_in_the_middle_of_a_call_counts_nothing_twice(tmp_path: Path) -> None:
    edits = [{"path": name, "old": "a", "new": "b"} for name in ("one", "two", "three")]
    records = [
        story.meta(1, "many", "Edit."),
        story.assistant(2, 0, story.call("c1", "edit_files", edits=edits)),
        story.result(3, "c1", "ok"),
    ]
    with RunReader.open(story.write(tmp_path / "many.json", records)) as reader:
        reader.index_all()
        left = reading_of(reader).changing
        steps = sum(1 for _ in Changing(reader).summed(2))
        for upto in range(steps):
            work = left.summed(2)
            for _ in zip(range(upto), work, strict=False):
                pass
            work.close()
        files = at_once(left.summed(2)).files
        assert [held.moments for held in files.latest_first()] == [[1], [1], [1]]
        assert [len(held.pieces) for held in files.latest_first()] == [1, 1, 1]


def test_a_long_record_of_many_short_texts_is_taken_apart_in_small_steps(tmp_path: Path) -> None:
    call = story.call("c1", "write_file", path="a.py", content="x", tags=["ab"] * 80_000)
    records = [story.meta(1, "long", "Write."), story.assistant(2, 0, call), story.result(3, "c1", "ok")]
    with RunReader.open(story.write(tmp_path / "long.json", records)) as reader:
        reader.index_all()
        touching = TouchReader(reader)
        assert sum(1 for _ in touching.extend(3)) > 40
        assert [touch.path for touch in touching.touches.latest(2, 10)] == ["a.py"]
