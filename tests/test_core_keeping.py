"""What may be kept about a run: what is taken can be shown, everything else is refused with a reason."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.app.safe import line
from refold.core.keeping import (
    LONGEST_NAME,
    LONGEST_NOTE,
    LONGEST_TAG,
    MOST_RECORDS,
    MOST_TAGS,
    BadNote,
    Kept,
    RecordNote,
    changed_records,
    changed_tags,
    checked_name,
    checked_note,
    checked_tag,
    within_bounds,
    words_of,
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "at least one"),
        ("a b", "no blank"),
        ("a,b", "no comma"),
        ("a\x1b[31m", "no escape"),
        ("a\x9b31m", "no U+009B"),
        ("a\u202eb", "no U+202E"),
        ("a\u200db", "no U+200D"),
        ("a\udcffb", "no U+DCFF"),
        ("a\x00", "no NUL"),
        ("+a", "begin with"),
        ("-a", "begin with"),
        ('"a', "no quote"),
        ("x" * (LONGEST_TAG + 1), "at most 40"),
    ],
)
def test_a_tag_that_is_none_is_refused_with_a_reason(text: str, said: str) -> None:
    with pytest.raises(BadNote, match=said.replace("+", "[+]")) as refused:
        checked_tag(text)
    assert str(refused.value).isprintable()
    assert str(refused.value).isascii()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "at least one"),
        (" \n ", "at least one"),
        ("a/b", "no /"),
        ("-a", "begin with -"),
        ("run@14", "place"),
        ("run@#14", "place"),
        ("x" * 10_000, "at most 100 characters, not 10,000"),
        ("a\x1b]0;b\x07", "no escape"),
    ],
)
def test_a_name_that_is_none_is_refused_with_a_reason(text: str, said: str) -> None:
    with pytest.raises(BadNote, match=said):
        checked_name(text)


def test_names_and_notes_are_one_line() -> None:
    assert checked_name("  july\t sweep\n") == "july sweep"
    assert checked_note("one\r\ntwo") == "one two"
    assert checked_note("\U0001f469\u200d\U0001f52c") == "\U0001f469\u200d\U0001f52c"
    with pytest.raises(BadNote, match="at most 4,000"):
        checked_note("x" * (LONGEST_NOTE + 1))


@given(st.text())
def test_what_is_taken_has_nothing_that_commands_a_terminal(text: str) -> None:
    for check, longest in (
        (checked_tag, LONGEST_TAG),
        (checked_name, LONGEST_NAME),
        (checked_note, LONGEST_NOTE),
    ):
        try:
            kept = check(text)
        except BadNote:
            continue
        assert 0 < len(kept) <= longest
        assert check(kept) == kept
        assert not any(unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in kept)
        assert "\x1b" not in line(kept)


@given(st.lists(st.sampled_from(["a", "B", "b", "c"])), st.lists(st.sampled_from(["A", "b", "d"])))
def test_tags_are_a_set_whatever_their_case(add: list[str], remove: list[str]) -> None:
    tags = changed_tags(("x",), add=add, remove=remove)
    folded = [tag.casefold() for tag in tags]
    assert len(folded) == len(set(folded))
    assert set(folded) == {"x"} | {tag.casefold() for tag in add}
    assert {tag.casefold() for tag in changed_tags(tags, remove=remove)} == set(folded) - {
        tag.casefold() for tag in remove
    }
    assert changed_tags(tags, add=tags) == tags


def test_tags_have_a_number() -> None:
    assert words_of("a, b  a") == ("a", "b")
    assert len(changed_tags((), add=map(str, range(MOST_TAGS)))) == MOST_TAGS
    with pytest.raises(BadNote, match="at most 32 tags, not 33"):
        changed_tags((), add=map(str, range(MOST_TAGS + 1)))


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["", "a", "b"]))))
def test_a_record_has_one_note(steps: list[tuple[int, str]]) -> None:
    notes: tuple[RecordNote, ...] = ()
    expected: dict[int, str] = {}
    for seq, text in steps:
        notes = changed_records(notes, seq, "0" * 64, text)
        expected[seq] = text
    assert [(note.seq, note.text) for note in notes] == sorted((s, t) for s, t in expected.items() if t)


def test_notes_on_records_have_a_number() -> None:
    notes = tuple(RecordNote(seq, "", "a") for seq in range(MOST_RECORDS))
    with pytest.raises(BadNote, match="at most"):
        changed_records(notes, MOST_RECORDS, "", "a")
    assert len(changed_records(notes, 0, "", "b")) == MOST_RECORDS


def test_what_others_wrote_is_cut() -> None:
    kept = within_bounds(Kept(tags=("x" * 999,) * 99, name="x" * 9999, note="x" * 99_999))
    assert (len(kept.tags), len(kept.tags[0])) == (MOST_TAGS, LONGEST_TAG)
    assert (len(kept.name), len(kept.note)) == (LONGEST_NAME, LONGEST_NOTE)
