"""Untrusted text: what is shown for each character, and how wide it is."""

from __future__ import annotations

import ast
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from refold.app import glyphs, safe
from refold.app.forbidden import FORBIDDEN
from refold.app.gate import Colourless, LastGate, OnlyAscii
from refold.app.safe import Safe

APP = Path(safe.__file__).parent
SOURCES = [*sorted((APP / "present").glob("*.py")), *sorted((APP / "screens").glob("*.py")), APP / "keys.py"]

NEVER_DRAWN = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}

NASTY = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from(
            "\x00\t\n\r\x1b\x7f\x85\x9b\xad\u0301\u034f\u200b\u200d\u202e\u2066\u2028\u3164\ufe0e\ufe0f"
        ),
        st.sampled_from("👨👩❤🏽🇩🇪漢각ᅡᆨ\u0e33 a1‹›◌…⏎"),
        st.sampled_from("\ud800\udfff\U000e0041\U000e0100\ufdd0\U0010ffff\ue0b0"),
    ),
    max_size=60,
)


def drawable(text: str) -> bool:
    """No character that a terminal obeys, hides, or does not know."""
    return all(unicodedata.category(character) not in NEVER_DRAWN for character in text)


def test_every_code_point() -> None:
    seen: set[str] = set()
    for start in range(0, 0x110000, 256):
        text = "x".join(map(chr, range(start, start + 256)))
        row = safe.line(text)
        drawn = "".join(set(row))
        assert drawable(drawn), ascii(row)
        assert FORBIDDEN.search(drawn) is None, ascii(row)
        seen.update(drawn)
        if start < 0x20000:
            assert safe.line(row) == row, ascii(row)
            assert cell_len(row) == safe.width(row), ascii(row)

    assert len(seen) > 100_000
    assert {character for character in seen if cell_len(character) != safe.width(character)} == set()


@given(NASTY)
def test_shown_text_is_drawable_stable_and_measured(text: str) -> None:
    row = safe.line(text)

    assert drawable(row)
    assert safe.line(row) == row
    assert cell_len(row) == safe.width(row)
    for part in safe.block(text):
        assert drawable(part)
        assert safe.block(part) == [part]
        assert cell_len(part) == safe.width(part)


@given(NASTY, st.integers(0, 70))
def test_a_limit_reads_no_further(text: str, limit: int) -> None:
    row = safe.line(text, limit)

    assert row == (safe.line(text) if len(text) <= limit else safe.line(text[:limit]) + "…")
    assert drawable(row)
    assert safe.line(row) == row


@given(st.binary(max_size=60))
def test_bytes_are_shown_whatever_they_are(data: bytes) -> None:
    row = safe.from_bytes(data)

    assert drawable(row)
    assert cell_len(row) == safe.width(row)
    assert row.count("‹x") >= sum(byte >= 0xF8 for byte in data)


@given(NASTY, st.integers(0, 40), st.sampled_from(["left", "right"]))
def test_fit_fills_its_cells(text: str, cells: int, align: str) -> None:
    fitted = safe.fit(safe.line(text), cells, "left" if align == "left" else "right")

    assert cell_len(fitted) == cells
    assert drawable(fitted)


@given(NASTY, st.integers(0, 40))
def test_cut_loses_nothing(text: str, cells: int) -> None:
    row = safe.line(text)
    kept, rest = safe.cut(row, cells)

    assert kept + rest == row
    assert cell_len(kept) <= cells
    assert not rest or cell_len(kept + rest[0]) > cells


@given(NASTY, st.integers(0, 40))
def test_wrap_keeps_every_character(text: str, cells: int) -> None:
    row = safe.line(text)
    hard = list(safe.wrap(row, cells, words=False))
    soft = list(safe.wrap(row, cells))

    assert "".join(hard) == row
    assert "".join(soft).replace(" ", "") == row.replace(" ", "")
    assert all(cell_len(one) <= max(2, cells) for one in (*hard, *soft))
    assert hard
    assert soft


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("\x00\x07\x1b\x7f", "␀␇␛␡"),
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("\x9b2J", "‹9B›2J"),
        ("\x85", "‹NEL›"),
        ("a\u202eb", "a‹RLO›b"),
        ("a\u2066b\u2069", "a‹LRI›b‹PDI›"),
        ("a\u200bb\ufeff", "a‹ZWSP›b‹BOM›"),
        ("\u2028\u2029", "‹LS›‹PS›"),
        ("\u3164\uffa0", "‹HF›‹HHF›"),
        ("\ud800", "‹D800›"),
        ("\udc80", "‹DC80›"),
        ("\ufdd0\U0010ffff", "‹U+FDD0›‹U+10FFFF›"),
        ("\ue0b0", "‹U+E0B0›"),
        ("\U000e0041", "‹TAG A›"),
        ("x\U000e0100", "x‹VS17›"),
        ("x\ufe00", "x‹VS1›"),
        ("a\r\nb", "a␍⏎b"),
        ("a\tb", "a b"),
        ("e\u0301", "e\u0301"),
        ("e" + "\u0301" * 300, "e" + "\u0301" * 4 + "‹+296›"),
        ("\u0301x", "◌\u0301x"),
        ("👨\u200d👩\u200d👧", "👨👩👧"),
        ("👍🏽", "👍"),
        ("🏽", "‹U+1F3FD›"),
        ("❤\ufe0f!", "❤!"),
        ("1\ufe0f\u20e3", "1\u20e3"),
        ("क्\u200dष", "क्‹ZWJ›ष"),
        ("❤" + "\ufe0f" * 3, "❤‹VS16›‹VS16›‹VS16›"),
        ("\u00a0漢字", "\u00a0漢字"),
    ],
    ids=ascii,
)
def test_pictures(text: str, expected: str) -> None:
    assert safe.line(text) == expected


def test_block_splits_at_line_feeds_only() -> None:
    assert safe.block("a\tb\n\u2028\rc\x85\n\x0b") == ["a   b", "‹LS›␍c‹NEL›", "␋"]
    assert safe.block("漢\tb") == ["漢  b"]
    assert safe.block("\x1b\tb") == ["␛   b"]
    assert safe.block("") == [""]
    assert safe.block("abcdef\ngh", 4) == ["abcd", "…"]


def test_bytes_that_are_no_text() -> None:
    assert safe.from_bytes(b"a\xff\x1b\xc3\xa4") == "a‹xFF›␛ä"
    assert safe.from_bytes("aä漢".encode(), 4) == "aä…"
    assert safe.from_bytes("aä漢".encode(), 2) == "a…"
    assert safe.from_bytes(b"\xe6\xbc", 1) == "…"
    assert safe.from_bytes(b"\x80\x80\x80\x80\x80", 4) == "‹x80›" * 4 + "…"


def test_words_wrap_at_spaces() -> None:
    assert list(safe.wrap(Safe("the quick brown fox"), 9)) == ["the quick", "brown fox"]
    assert list(safe.wrap(Safe("incomprehensible"), 6)) == ["incomp", "rehens", "ible"]
    assert next(safe.wrap(Safe("    indented-word-that-is-long"), 10)) == "    indent"
    assert list(safe.wrap(safe.EMPTY, 10)) == [""]


def test_a_limit_costs_what_it_says() -> None:
    huge = "\x1bä" * 5_000_000
    start = time.process_time()
    row = safe.line(huge, 200)

    assert time.process_time() - start < 0.05
    assert safe.width(row) == 201


def test_the_memory_of_pictures_is_bounded() -> None:
    for start in range(0, 0x30000, 4096):
        safe.line("".join(map(chr, range(start, start + 4096))))

    assert len(safe._PICTURES) <= safe._MEMORY
    assert len(safe._WIDTHS) <= safe._MEMORY
    assert len(safe._PLAIN) < safe._MEMORY + 4096


BACKGROUND = Color(0, 0, 0)


@given(st.lists(NASTY, max_size=5))
def test_what_was_met_before_changes_nothing(texts: list[str]) -> None:
    before = [safe.line(text) for text in texts]
    for memory in (safe._PLAIN, safe._PICTURES, safe._WIDTHS):
        memory.clear()

    assert [safe.line(text) for text in reversed(texts)] == before[::-1]


@given(NASTY)
def test_the_last_gate_lets_nothing_through(text: str) -> None:
    (passed,) = LastGate().apply([Segment(text, Style(link="file:///\x1b[2J", bold=True))], BACKGROUND)

    assert FORBIDDEN.search(passed.text) is None
    assert passed.style is not None
    assert passed.style.link is None
    assert passed.style.bold


def test_the_last_gate_leaves_the_rest_alone() -> None:
    kept = [Segment("plain", Style(bold=True)), Segment("漢é…"), Segment("\x1b[2J", None, [(1,)])]  # type: ignore[list-item]

    assert LastGate().apply(kept, BACKGROUND) == kept


@given(NASTY)
def test_ascii_takes_the_same_cells(text: str) -> None:
    row = safe.line(text)
    (drawn,) = OnlyAscii().apply([Segment(row)], BACKGROUND)

    assert drawn.text.isascii()
    assert len(drawn.text) == safe.width(row)


def test_each_glyph_takes_one_cell_and_so_does_its_ascii() -> None:
    assert {glyph: safe.width(glyph) for glyph in glyphs.ASCII} == dict.fromkeys(glyphs.ASCII, 1)
    assert all(len(plain) == 1 and plain.isascii() for plain in glyphs.ASCII.values())


def test_no_colour_keeps_weight() -> None:
    style = Style(color="red", bgcolor="blue", bold=True, reverse=True)
    (bare,) = Colourless().apply([Segment("x", style)], BACKGROUND)

    assert bare.style == Style(bold=True, reverse=True)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_every_glyph_that_is_drawn_has_its_ascii(path: Path) -> None:
    texts = [
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    drawn = {one for text in texts for one in text if one > "\x7f" and not "\u2400" <= one <= "\u2421"}

    assert drawn <= set(glyphs.ASCII)
