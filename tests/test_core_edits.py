"""What calls do to files, by the shape of their arguments, and what such edits come to in a row."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.at_once import at_once

from refold.core.composing import Files, Holding, may_touch
from refold.core.edits import (
    Change,
    Delete,
    Edit,
    Insert,
    Look,
    Move,
    Patch,
    Replace,
    Unclear,
    Write,
    editing,
    edits_of,
)
from refold.core.line_diff import Compared, compare
from refold.core.patch_text import Hunk, read_patch
from refold.core.patching import apply_hunks
from refold.core.records import Json

BEGIN = """*** Begin Patch
*** Add File: new.py
+x = 1
*** Update File: old.py
*** Move to: newer.py
@@ def f():
 a
-b
+c
*** Delete File: gone.py
*** End Patch
"""

UNIFIED = """diff --git a/calc.py b/calc.py
index 1..2 100644
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,3 @@ def
 def add(a, b):
-    return a - b
+    # sum
+    return a + b
diff --git a/n.txt b/n.txt
new file mode 100644
--- /dev/null
+++ b/n.txt
@@ -0,0 +1 @@
+one
\\ No newline at end of file
diff --git a/d.txt b/d.txt
deleted file mode 100644
--- a/d.txt
+++ /dev/null
@@ -1 +0,0 @@
-gone
"""

CALLS: list[tuple[str, Json, tuple[Edit, ...]]] = [
    ("replace_text", {"path": "c.py", "old_text": "a", "new_text": "b"}, (Replace("c.py", "a", "b"),)),
    ("replace_text", {"path": "c.py", "old": "a", "new": "b"}, (Replace("c.py", "a", "b"),)),
    (
        "Edit",
        {"file_path": "c", "old_string": "a", "new_string": "b", "replace_all": True},
        (Replace("c", "a", "b", every=True),),
    ),
    (
        "MultiEdit",
        {
            "file_path": "c",
            "edits": [{"old_string": "a", "new_string": "b"}, {"oldText": "b", "newText": ""}, 7],
        },
        (Replace("c", "a", "b"), Replace("c", "b", "")),
    ),
    ("write_file", {"path": "c", "content": "x"}, (Write("c", "x"),)),
    ("mcp__fs__write_file", {"path": "c", "content": "x"}, (Write("c", "x"),)),
    ("createFile", {"filePath": "c", "text": "x"}, (Write("c", "x"),)),
    ("write_file", {"content": "x", "filename": "c", "mode": "a"}, (Insert("c", "x"),)),
    ("append_to_file", {"path": "c", "text": "x"}, (Insert("c", "x"),)),
    (
        "write_files",
        {"files": [{"path": "a", "content": "1"}, {"path": "b", "content": "2"}]},
        (Write("a", "1"), Write("b", "2")),
    ),
    ("str_replace_based_edit_tool", {"command": "view", "path": "c"}, (Look("c"),)),
    ("str_replace_based_edit_tool", {"command": "create", "path": "c", "file_text": "x"}, (Write("c", "x"),)),
    (
        "str_replace_based_edit_tool",
        {"command": "str_replace", "path": "c", "old_str": "x"},
        (Replace("c", "x", ""),),
    ),
    (
        "str_replace_based_edit_tool",
        {"command": "insert", "path": "c", "insert_line": 2, "new_str": "x"},
        (Insert("c", "x", 2),),
    ),
    ("text_editor", {"command": "undo_edit", "path": "c"}, (Unclear("c", "the last edit was taken back"),)),
    (
        "NotebookEdit",
        {"notebook_path": "n.ipynb", "cell_id": "3", "new_source": "x"},
        (Unclear("n.ipynb", "cell 3 replaced", "x"),),
    ),
    (
        "edit_lines",
        {"path": "c", "start_line": 1, "end_line": 2, "new_text": "x"},
        (Unclear("c", "put in at a line that the tool counts in its own way", "x"),),
    ),
    ("delete_file", {"path": "c"}, (Delete("c"),)),
    ("move_file", {"source": "a", "destination": "b"}, (Move("a", "b"),)),
    ("read_file", {"path": "c"}, (Look("c"),)),
    ("Read", {"file_path": "c", "offset": 10, "limit": 5}, (Look("c"),)),
    ("read_many_files", {"paths": ["a", "b"]}, (Look("a"), Look("b"))),
    ("get_file_contents", {"path": "c"}, (Look("c"),)),
    (
        "apply_patch",
        {"input": BEGIN},
        (
            Write("new.py", "x = 1\n", new=True),
            Patch("old.py", (Hunk("a\nb\n", "a\nc\n"),)),
            Move("old.py", "newer.py"),
            Delete("gone.py"),
        ),
    ),
    (
        "shell",
        {"command": ["apply_patch", BEGIN.replace("*** Delete File: gone.py\n", "")]},
        (
            Write("new.py", "x = 1\n", new=True),
            Patch("old.py", (Hunk("a\nb\n", "a\nc\n"),)),
            Move("old.py", "newer.py"),
        ),
    ),
    ("apply_patch", BEGIN.partition("*** Update")[0], (Write("new.py", "x = 1\n", new=True),)),
    (
        "apply_patch",
        {"patch": UNIFIED},
        (
            Patch(
                "calc.py",
                (
                    Hunk(
                        "def add(a, b):\n    return a - b\n",
                        "def add(a, b):\n    # sum\n    return a + b\n",
                        1,
                    ),
                ),
            ),
            Write("n.txt", "one", new=True),
            Delete("d.txt"),
        ),
    ),
    ("apply_patch", {"path": "c", "patch": "@@ -1 +1 @@\n-a\n+b\n"}, (Patch("c", (Hunk("a\n", "b\n", 1),)),)),
    # What only looks alike.
    ("write_file", {"path": "p.patch", "content": UNIFIED}, (Write("p.patch", UNIFIED),)),
    ("run", {"command": "sed -i s/a/b/ c.py"}, ()),
    ("list_files", {"path": "."}, ()),
    ("search_text", {"path": ".", "pattern": "x"}, ()),
    ("rename_symbol", {"path": "c", "old": "a", "new": "b"}, ()),
    ("preview_edit", {"path": "c", "old": "a", "new": "b", "dry_run": True}, ()),
    ("add_comment", {"path": "c", "text": "looks good"}, ()),
    ("read_url", {"url": "https://x"}, ()),
    ("write_file", {"path": "", "content": "x"}, ()),
    ("write_file", {"path": "a\0b", "content": "x"}, ()),
    ("write_file", None, ()),
]


@pytest.mark.parametrize(
    ("name", "arguments", "edits"), CALLS, ids=[f"{n}-{call[0]}" for n, call in enumerate(CALLS)]
)
def test_what_a_call_does(name: str, arguments: Json, edits: tuple[Edit, ...]) -> None:
    assert edits_of(name, arguments) == edits


KEYS = st.sampled_from(
    [
        *(
            "path",
            "file_path",
            "files",
            "edits",
            "old",
            "new",
            "old_string",
            "new_string",
            "content",
            "command",
        ),
        *("patch", "insert_line", "replace_all", "start_line", "new_source", "to", "source", "paths", "mode"),
    ]
)
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            BEGIN,
            UNIFIED,
            "create",
            "insert",
            "a",
            "@@ -1 +1 @@\n\\ No newline\n",
            "--- a\n+++ b\n@@ -9,9 +0 @@",
        ]
    ),
)
ARGUMENTS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(KEYS, st.text(max_size=5)), inner, max_size=6)
    ),
    max_leaves=15,
)
NAMES = st.one_of(
    st.sampled_from(
        ["apply_patch", "edit", "write_file", "move_file", "read_file", "delete_file", "notebook_edit"]
    ),
    st.text(max_size=30),
)


@given(NAMES, ARGUMENTS)
def test_nothing_raises_whatever_the_arguments_are(name: str, arguments: Json) -> None:
    files = Files()
    for moment, edit in enumerate(edits_of(name, arguments)):
        assert edit.path
        if not isinstance(edit, Look):
            at_once(files.apply(edit, moment))


@given(
    st.lists(
        st.sampled_from([*BEGIN.split("\n"), *UNIFIED.split("\n"), "", "\\", "+", "@@ -1,5 +1,5 @@"]),
        max_size=30,
    )
)
def test_no_patch_raises_whatever_its_lines_are(rows: list[str]) -> None:
    for file in read_patch("\n".join(rows)):
        assert file.kind in {"add", "delete", "update"}


SMALL = st.text(alphabet="ab\n", max_size=12)


@settings(max_examples=300)
@given(st.data(), st.booleans())
def test_edits_come_to_what_they_do_to_a_real_text(data: st.DataObject, known: bool) -> None:
    real = base = data.draw(st.text(alphabet="abc\n", min_size=1, max_size=40))
    held = Holding("f")
    if known:
        at_once(held.apply(Write("f", base), 0))
    for moment in range(1, data.draw(st.integers(1, 8)) + 1):
        start = data.draw(st.integers(0, max(0, len(real) - 1)))
        old = real[start : start + data.draw(st.integers(1, 8))]
        if not old or real.count(old) != 1:
            continue
        new = data.draw(SMALL)
        at_once(held.apply(Replace("f", old, new), moment))
        real = real.replace(old, new)
    if known:
        assert held.text == real
        assert held.pieces[0].new == real
        return
    made = base
    for piece in held.pieces:
        assert piece.old is not None
        assert piece.new is not None
        assert made.count(piece.old) == 1
        made = made.replace(piece.old, piece.new)
    assert made == real


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_a_patch_made_by_difflib_gives_the_text_it_was_made_from(one: list[str], other: list[str]) -> None:
    old, new = "".join(f"{line}\n" for line in one), "".join(f"{line}\n" for line in other)
    text = "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), "f", "f"))
    files = read_patch(text)
    assert at_once(apply_hunks(old, files[0].hunks if files else ())) == new
    held = Holding("f")
    at_once(held.apply(Write("f", old), 0))
    at_once(held.apply(Patch("f", files[0].hunks if files else ()), 1))
    assert held.text == new


LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=14)


@given(LINES, LINES, st.booleans(), st.booleans())
def test_a_comparison_holds_both_texts_and_is_as_short_as_can_be(
    one: list[str],
    other: list[str],
    ends: bool,
    end: bool,
) -> None:
    old = "\n".join(one) + ("\n" if ends and one else "")
    new = "\n".join(other) + ("\n" if end and other else "")
    found = at_once(compare(old, new))
    before = [row.text for row in found.rows if row.tag != "+"]
    after = [row.text for row in found.rows if row.tag != "-"]
    assert "\n".join(before) == old.removesuffix("\n") or "\n".join(before) == old
    assert "\n".join(after) == new.removesuffix("\n") or "\n".join(after) == new
    assert (found.added, found.removed) == (len(after) - _same(found), len(before) - _same(found))
    longest = _longest_common(before, after)
    assert _same(found) == longest
    assert [row.line for row in found.rows if row.tag != "-"] == list(range(1, len(after) + 1))


def _same(found: Compared) -> int:
    return sum(row.tag == " " for row in found.rows)


def _longest_common(one: list[str], other: list[str]) -> int:
    lengths = [0] * (len(other) + 1)
    for a in one:
        before = lengths.copy()
        for at, b in enumerate(other, 1):
            lengths[at] = before[at - 1] + 1 if a == b else max(before[at], lengths[at - 1])
    return lengths[-1]


def test_texts_that_differ_too_much_are_shown_whole_and_said_to_be() -> None:
    old = "".join(f"{n}\n" for n in range(3_000))
    new = "".join(f"x{n}\n" for n in range(3_000))
    found = at_once(compare(old, new))
    assert (found.exact, found.added, found.removed) == (False, 3_000, 3_000)
    assert not at_once(compare("a\n" * 15_000 + "b\n", "c\n" + "a\n" * 15_000)).exact


def test_a_comparison_works_in_small_steps_and_not_in_too_many() -> None:
    """The pair that holds difflib for seconds: whoever waits has a turn after each difference looked for."""
    steps = sum(1 for _ in compare("a\nb\n" * 800, "b\na\na\n" * 600))
    assert 400 < steps < 1_100


def test_what_is_known_of_a_file_goes_with_it() -> None:
    files = Files()
    at_once(files.apply(Write("a", "one\ntwo\n", new=True), 1))
    alone = at_once(files.apply(Replace("a", "two", "2"), 2))
    assert (alone.old, alone.new) == ("one\ntwo\n", "one\n2\n")
    at_once(files.apply(Move("a", "b"), 3))
    held = files.holding("b")
    assert files.holding("a") is None
    assert held is not None
    assert (held.came_from, held.text) == ("a", "one\n2\n")
    assert held.pieces[0].old == ""
    at_once(files.apply(Delete("b"), 4))
    assert held.is_gone
    assert (held.pieces[0].old, held.pieces[0].new) == ("", None)


def test_an_edit_that_does_not_fit_what_was_written_says_so() -> None:
    held = Holding("f")
    at_once(held.apply(Write("f", "one\n"), 1))
    piece = at_once(held.apply(Replace("f", "two", "2"), 2))
    assert "something else changed the file" in piece.note
    assert held.text is None
    at_once(held.apply(Write("f", "aa\n"), 3))
    assert (held.overwritten, len(held.pieces)) == (2, 1)
    assert "several times" in at_once(held.apply(Replace("f", "a", "b"), 4)).note
    assert at_once(held.apply(Replace("f", "b", "c", every=True), 5)).every


def test_pieces_join_only_where_nothing_can_break() -> None:
    def pieces(*changes: Change) -> list[tuple[str | None, str | None]]:
        held = Holding("f")
        for moment, change in enumerate(changes):
            at_once(held.apply(change, moment))
        return [(piece.old, piece.new) for piece in held.pieces]

    inside = (Replace("f", "x", "one two"), Replace("f", "two", "2"))
    assert pieces(*inside) == [("x", "one 2")]
    assert pieces(Replace("f", "x", "one"), Replace("f", "one and", "1 &")) == [
        ("x", "one"),
        ("one and", "1 &"),
    ]
    # The first may have lost its end to the second: what follows is not put into it.
    beside = (Replace("f", "x", "one two"), Replace("f", "two three", "3"), Replace("f", "one", "1"))
    assert pieces(*beside) == [("x", "one two"), ("two three", "3"), ("one", "1")]
    assert pieces(Insert("f", "new", 3), Replace("f", "new", "newer")) == [("", "newer")]


def test_a_text_that_may_overlap_itself_is_not_looked_for_in_a_piece() -> None:
    held = Holding("f")
    for moment, (old, new) in enumerate([("aaa", "a\n"), ("b", "aaa"), ("aaa", "\n")]):
        at_once(held.apply(Replace("f", old, new), moment))
    # "aaaab" has become "a\naaaa": what stands there once begins before the piece that "b" became.
    assert [(piece.old, piece.new) for piece in held.pieces][1:] == [("b", "aaa"), ("aaa", "\n")]
    at_once(held.apply(Replace("f", "x", "a + a - a"), 3))
    at_once(held.apply(Replace("f", "- a", "* b"), 4))
    assert held.pieces[-1].new == "a + a * b"


@pytest.mark.parametrize(
    ("one", "other", "touches"),
    [
        ("abc", "b", True),
        ("abc", "cd", True),
        ("abc", "xa", True),
        ("abc", "d", False),
        ("", "a", True),
        ("ab", "ba", True),
    ],
)
def test_texts_that_may_share_a_place(one: str, other: str, touches: bool) -> None:
    assert may_touch(one, other) is touches
    assert may_touch(other, one) is touches


def naively(text: str, hunks: tuple[Hunk, ...]) -> str | None:
    """Lay a patch on a text stretch by stretch, each time on the text as it is by then."""
    done = shift = 0
    for hunk in hunks:
        starts = [0, *(at + 1 for at, letter in enumerate(text) if letter == "\n")]
        fits = [at for at in starts if at >= done and text.startswith(hunk.old, at)]
        line = None if hunk.line is None else hunk.line + shift + (not hunk.old)
        if line is not None and 1 <= line <= len(starts) and starts[line - 1] in fits:
            at = starts[line - 1]
        elif hunk.old and len(fits) == 1:
            (at,) = fits
        else:
            return None
        text = text[:at] + hunk.new + text[at + len(hunk.old) :]
        done = at + len(hunk.new)
        shift += hunk.new.count("\n") - hunk.old.count("\n")
    return text


@settings(max_examples=500)
@given(
    st.text(alphabet="ab\n", max_size=30),
    st.lists(st.builds(Hunk, SMALL, SMALL, st.none() | st.integers(0, 12)), max_size=4),
)
def test_one_pass_forward_gives_what_patching_again_and_again_gives(text: str, hunks: list[Hunk]) -> None:
    assert at_once(apply_hunks(text, tuple(hunks))) == naively(text, tuple(hunks))


@settings(max_examples=300)
@given(st.data())
def test_stretches_that_stand_in_a_text_are_laid_on_it_as_if_one_by_one(data: st.DataObject) -> None:
    """The same for patches that mostly fit."""
    text = data.draw(st.text(alphabet="ab\n", max_size=30))
    hunks: list[Hunk] = []
    at = 0
    while at < len(text) and len(hunks) < 4:
        start = data.draw(st.integers(at, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 8)))
        line = text[:start].count("\n") + (start < end)
        hunks.append(Hunk(text[start:end], data.draw(SMALL), data.draw(st.sampled_from([None, line]))))
        at = end
    assert at_once(apply_hunks(text, tuple(hunks))) == naively(text, tuple(hunks))


@pytest.mark.parametrize(
    "begins",
    ["--- a/f\n+++ b/f\n@@ -1,20000 +1,20000 @@", "*** Begin Patch\n*** Update File: f\n@@"],
)
def test_a_patch_is_read_in_small_steps(begins: str) -> None:
    rows = "\n".join(("-x", "+y")[at % 2] for at in range(19_000))
    steps = editing("apply_patch", {"patch": f"{begins}\n{rows}"})
    assert sum(1 for _ in steps) >= 18
    (*_, edit) = edits_of("apply_patch", {"patch": f"{begins}\n{rows}"})
    assert isinstance(edit, Patch)
    assert edit.hunks[-1].old.count("\n") >= 9_000


@pytest.mark.parametrize("path", [{"path": "a.py"}, {}])
def test_a_list_of_edits_is_read_in_small_steps(path: dict[str, Json]) -> None:
    items: list[Json] = [{"verse": number} for number in range(900)]
    items.append({"path": "a.py", "old_string": "one", "new_string": "two"})
    given: dict[str, Json] = {**path, "edits": items}
    assert sum(1 for _ in editing("multi_edit", given)) >= len(items)
    assert edits_of("multi_edit", given) == (Replace("a.py", "one", "two"),)


def test_a_patch_is_laid_in_small_steps() -> None:
    hunks = tuple(Hunk(f"{at}\n", f"{at}!\n", at + 1) for at in range(400))
    whole = Holding("f")
    at_once(whole.apply(Write("f", "".join(f"{at}\n" for at in range(20_000))), 0))
    pieces = Holding("f")
    for held in (whole, pieces):
        assert sum(1 for _ in held.apply(Patch("f", hunks), 1)) >= 400
    assert whole.text is not None
    assert whole.text.startswith("0!\n1!\n")
    assert len(pieces.pieces) == 400


def test_an_edit_is_held_against_many_long_pieces_in_small_steps() -> None:
    held = Holding("f")
    for at in range(20):
        at_once(held.apply(Replace("f", f"{at}<", f"[{at}]" * 9_000), at))
    assert sum(1 for _ in held.apply(Replace("f", "nowhere", "there"), 20)) >= 10


def test_what_is_left_in_the_middle_of_a_change_knows_nothing_of_it() -> None:
    files = Files()
    at_once(files.apply(Replace("f", "x", "y"), 1))
    hunks = (Hunk("a\n", "b\n"), Hunk("c\n", "d\n"))
    work = files.apply(Patch("f", hunks), 2)
    next(work)
    next(work)
    work.close()
    held = files.holding("f")
    assert held is not None
    assert (len(held.pieces), held.moments) == (1, [1])
    at_once(files.apply(Patch("f", hunks), 2))
    assert (len(held.pieces), held.moments) == (3, [1, 2])


def test_a_patch_of_too_many_stretches_is_said_to_be_one() -> None:
    rows = "".join(f"@@ -{at} +{at} @@\n-a\n+b\n" for at in range(1, 502))
    (edit,) = edits_of("apply_patch", {"path": "c", "patch": rows})
    assert isinstance(edit, Unclear)
    assert "501 stretches" in edit.what
    (edit,) = edits_of("apply_patch", {"path": "c", "patch": rows[: rows.rindex("@@ -")]})
    assert isinstance(edit, Patch)


@given(st.text(alphabet="ab", max_size=30), st.text(alphabet="ab", max_size=30))
def test_texts_that_share_a_place_are_those_whose_ends_meet(one: str, other: str) -> None:
    ends = any(
        first.endswith(second[:size])
        for first, second in ((one, other), (other, one))
        for size in range(1, min(len(one), len(other)) + 1)
    )
    assert may_touch(one, other) is (one in other or other in one or ends)
