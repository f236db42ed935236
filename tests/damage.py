"""Ways in which a journal can be damaged, each repeatable from a seed.

`damage(kind, seed, data)` takes the bytes of a good journal. `KINDS` maps a kind to the code that a reader
should give for it (design of the damage codes: `refold.core.findings`); None where the file alone cannot
tell, or where the code depends on the place.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

Damage = Callable[[random.Random, list[bytes]], bytes]
"""Gets the lines with their newlines and gives the damaged file."""


def _pick(rng: random.Random, lines: list[bytes], *, first: int = 1) -> int:
    """Choose an interior line, never the last and never one before `first`."""
    return rng.randrange(first, max(first + 1, len(lines) - 1))


def _torn(rng: random.Random, lines: list[bytes]) -> bytes:
    last = lines[-1]
    return b"".join(lines[:-1]) + last[: rng.randrange(1, len(last) - 2)]


def _no_final_newline(_rng: random.Random, lines: list[bytes]) -> bytes:
    return b"".join(lines)[:-1]


def _torn_with_newline(rng: random.Random, lines: list[bytes]) -> bytes:
    return _torn(rng, lines) + b"\n"


def _glued(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    return b"".join([*lines[:at], lines[at].rstrip(b"\n"), *lines[at + 1 :]])


def _glued_to_torn(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    cut = lines[at][: rng.randrange(1, len(lines[at]) - 2)]
    return b"".join([*lines[:at], cut, *lines[at + 1 :]])


def _spliced(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    host, guest = lines[at], lines[at + 1]
    cut = rng.randrange(1, len(host) - 2)
    return b"".join([*lines[:at], host[:cut], guest, host[cut:], *lines[at + 2 :]])


def _nul_after_record(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    padded = lines[at].rstrip(b"\n") + b"\0" * rng.choice((1, 512, 4096))
    return b"".join([*lines[:at], padded + b"\n", *lines[at + 1 :]])


def _nul_line(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    return b"".join([*lines[:at], b"\0" * rng.choice((1, 512, 4096)) + b"\n", *lines[at:]])


def _nul_hole(rng: random.Random, lines: list[bytes]) -> bytes:
    data = bytearray(b"".join(lines))
    first = len(lines[0])
    at = rng.randrange(first, max(first + 1, len(data) - 1024))
    data[at : at + 512] = b"\0" * len(data[at : at + 512])
    return bytes(data)


def _nul_tail(rng: random.Random, lines: list[bytes]) -> bytes:
    return b"".join(lines) + b"\0" * rng.choice((1, 512, 4096, 1 << 20))


def _bom_at_start(_rng: random.Random, lines: list[bytes]) -> bytes:
    return b"\xef\xbb\xbf" + b"".join(lines)


def _bom_inside(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    return b"".join([*lines[:at], b"\xef\xbb\xbf", *lines[at:]])


def _crlf(_rng: random.Random, lines: list[bytes]) -> bytes:
    return b"".join(line.rstrip(b"\n") + b"\r\n" for line in lines)


def _lone_cr(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    return b"".join([*lines[:at], lines[at].rstrip(b"\n") + b"\r", *lines[at + 1 :]])


def _blank_lines(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    return b"".join([b"\n", *lines[:at], b"  \n\n", *lines[at:], b"\n"])


def _utf16(_rng: random.Random, lines: list[bytes]) -> bytes:
    return b"".join(lines).decode("utf-8", "replace").encode("utf-16")


def _in_string(rng: random.Random, lines: list[bytes], payload: bytes) -> bytes:
    """Put bytes into the text of one record."""
    at = _pick(rng, lines)
    where = lines[at].find(b'"text":"')
    where = where + 8 if where >= 0 else lines[at].rfind(b'":"') + 3
    return b"".join([*lines[:at], lines[at][:where] + payload + lines[at][where:], *lines[at + 1 :]])


def _bad_utf8(rng: random.Random, lines: list[bytes]) -> bytes:
    return _in_string(
        rng, lines, rng.choice((b"\xc0\xaf", b"\xe2\x82", b"\xff\xfe", b"\xf8\x88\x80\x80\x80", b"\x80"))
    )


def _cesu_surrogate(rng: random.Random, lines: list[bytes]) -> bytes:
    return _in_string(rng, lines, b"\xed\xa0\xbd\xed\xb8\x80")


def _surrogate_escape(rng: random.Random, lines: list[bytes]) -> bytes:
    return _in_string(rng, lines, rng.choice((b"\\ud83d", b"\\ude00", b"\\ude00\\ud83d")))


def _separators(rng: random.Random, lines: list[bytes]) -> bytes:
    return _in_string(rng, lines, b"\xe2\x80\xa8a\xe2\x80\xa9b\xc2\x85c\\u001cd")


def _raw_newlines(rng: random.Random, lines: list[bytes]) -> bytes:
    return _in_string(rng, lines, b"one\ntwo\nthree ")


def _raw_controls(rng: random.Random, lines: list[bytes]) -> bytes:
    return _in_string(rng, lines, bytes((rng.choice((1, 7, 8, 9, 13, 27)),)))


def _seq(rng: random.Random, lines: list[bytes], spelling: bytes) -> bytes:
    at = _pick(rng, lines)
    changed = re.sub(rb'^\{"seq":(\d+)', b'{"seq":' + spelling.replace(b"\\", b"\\\\"), lines[at], count=1)
    return b"".join([*lines[:at], changed, *lines[at + 1 :]])


def _seq_odd(rng: random.Random, lines: list[bytes]) -> bytes:
    spelling = rng.choice(
        (b'"1"', b"true", b"1.5", b"-3", b"18446744073709551616", b"1" * 4301, b"null", b"[]", b"{}")
    )
    return _seq(rng, lines, spelling)


def _not_finite(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    value = rng.choice((b"NaN", b"Infinity", b"-Infinity"))
    changed = lines[at].rstrip(b"\n")[:-1] + b',"more":' + value + b"}\n"
    return b"".join([*lines[:at], changed, *lines[at + 1 :]])


def _huge_number(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    value = rng.choice((b"1e999", b"9007199254740993", b"9" * 4301, b"-0"))
    changed = lines[at].rstrip(b"\n")[:-1] + b',"more":' + value + b"}\n"
    return b"".join([*lines[:at], changed, *lines[at + 1 :]])


def _duplicate_key(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    return b"".join([*lines[:at], b'{"seq":900,' + lines[at][1:], *lines[at + 1 :]])


def _deep(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    depth = rng.choice((201, 1_100, 5_000, 100_000))
    changed = lines[at].rstrip(b"\n")[:-1] + b',"more":' + b"[" * depth + b"]" * depth + b"}\n"
    return b"".join([*lines[:at], changed, *lines[at + 1 :]])


def _deep_unclosed(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    return b"".join([*lines[:at], b"[" * 1_000_000 + b"\n", *lines[at:]])


def _duplicate_line(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    return b"".join([*lines[: at + 1], lines[at], *lines[at + 1 :]])


def _duplicate_block(rng: random.Random, lines: list[bytes]) -> bytes:
    data = b"".join(lines)
    first = len(lines[0])
    at = rng.randrange(first, max(first + 1, len(data) - 8192))
    return data[: at + 4096] + data[at : at + 4096] + data[at + 8192 :]


def _swapped(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    return b"".join([*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]])


def _missing_line(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    return b"".join([*lines[:at], *lines[at + 1 :]])


def _foreign(rng: random.Random, lines: list[bytes]) -> bytes:
    """Put the whole journal of another run behind this one."""
    other = [re.sub(rb'"run_id":"[^"]*"', b'"run_id":"another-run"', line) for line in lines]
    return b"".join([*lines, *other])


def _two_writers(_rng: random.Random, lines: list[bytes]) -> bytes:
    """Two writers, whole lines in turn, the second with other content at the same sequences."""
    second = [re.sub(rb'"iteration":(\d+)', b'"iteration":77', line) for line in lines[1:]]
    return lines[0] + b"".join(a + b for a, b in zip(lines[1:], second, strict=True))


def _unknown_kind(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    changed = re.sub(rb"session\.\w+", b"session.checkpoint", lines[at], count=1)
    return b"".join([*lines[:at], changed, *lines[at + 1 :]])


def _wrong_shape(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    payload = rng.choice((b"null", b'"text"', b"[1,2]", b"7", b'{"message":"words"}', b'{"result":[[]]}'))
    changed = re.sub(rb'("protocol":"[^"]*\.(\w+)",).*\n', rb"\1", lines[at], count=1, flags=re.DOTALL)
    name = re.search(rb"session\.(\w+)", lines[at])
    key = name.group(1) if name else b"meta"
    return b"".join([*lines[:at], changed + b'"' + key + b'":' + payload + b"}\n", *lines[at + 1 :]])


def _garbage_line(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    garbage = rng.choice(
        (b"iVBORw0KGgoAAAANSUhEUgAA" * 20, b"not json at all", b"}{", b'"', rng.randbytes(300))
    )
    return b"".join([*lines[:at], garbage.replace(b"\n", b" ") + b"\n", *lines[at:]])


def _bit_flip(rng: random.Random, lines: list[bytes]) -> bytes:
    data = bytearray(b"".join(lines))
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    return bytes(data)


def _empty(_rng: random.Random, _lines: list[bytes]) -> bytes:
    return b""


def _blank_only(_rng: random.Random, _lines: list[bytes]) -> bytes:
    return b"\n \n\t\n"


def _newer(_rng: random.Random, lines: list[bytes]) -> bytes:
    return re.sub(rb'"version":\d+', b'"version":99', b"".join(lines), count=1)


def _no_meta(_rng: random.Random, lines: list[bytes]) -> bytes:
    return b"".join(lines[1:])


def _half_meta(rng: random.Random, lines: list[bytes]) -> bytes:
    return lines[0][: rng.randrange(1, len(lines[0]) - 2)]


def _after_completed(_rng: random.Random, lines: list[bytes]) -> bytes:
    match = re.match(rb'\{"seq":(\d+)', lines[-1])
    last = int(match.group(1)) if match else len(lines)
    more = re.sub(rb'^\{"seq":\d+', b'{"seq":%d' % (last + 1), lines[1], count=1)
    return b"".join([*lines, more])


def _renumbered(lines: list[bytes]) -> bytes:
    """Number the lines as a writer that knows of nothing would."""
    numbered = (re.sub(rb'^\{"seq":\d+', b'{"seq":%d' % number, line) for number, line in enumerate(lines, 1))
    return b"".join(numbered)


def _of_kind(rng: random.Random, lines: list[bytes], kind: bytes) -> int:
    """Choose a line of a kind of record.

    Raises:
        ValueError: there is none.
    """
    places = [at for at, line in enumerate(lines) if b'session.%b"' % kind in line[:90]]
    if not places:
        raise ValueError(f"no {kind.decode()} record")
    return rng.choice(places)


def _orphan_result(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _of_kind(rng, lines, b"tool_result")
    changed = re.sub(rb'"tool_use_id":"[^"]*"', b'"tool_use_id":"of-nobody"', lines[at], count=2)
    return b"".join([*lines[:at], changed, *lines[at + 1 :]])


def _second_result(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _of_kind(rng, lines, b"tool_result")
    return _renumbered([*lines[: at + 1], lines[at], *lines[at + 1 :]])


def _missing_result(rng: random.Random, lines: list[bytes]) -> bytes:
    """Take the result of a call away, and let the run go on as if nothing were missing."""
    at = _of_kind(rng, lines[:-2], b"tool_result")
    return _renumbered([*lines[:at], *lines[at + 1 :]])


def _result_of_two(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _of_kind(rng, lines, b"tool_result")
    first = lines[at].find(b'"tool_use_id":"')
    inner = lines[at].find(b'"tool_use_id":"', first + 1) + len(b'"tool_use_id":"')
    return b"".join([*lines[:at], lines[at][:inner] + b"other-" + lines[at][inner:], *lines[at + 1 :]])


def _second_meta(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    return _renumbered([*lines[:at], lines[0], *lines[at:]])


def _no_payload(rng: random.Random, lines: list[bytes]) -> bytes:
    at = _pick(rng, lines)
    head = re.match(rb'\{"seq":\d+,"protocol":"[^"]*"', lines[at])
    if head is None:
        raise ValueError("no record there")
    return b"".join([*lines[:at], head.group() + b"}\n", *lines[at + 1 :]])


def _iteration_back(_rng: random.Random, lines: list[bytes]) -> bytes:
    places = [place for place, line in enumerate(lines) if b'session.assistant"' in line[:90]]
    at = places[-1]
    changed = re.sub(rb'"iteration":\d+', b'"iteration":0', lines[at], count=1)
    return b"".join([*lines[:at], changed, *lines[at + 1 :]])


def _cut_between_records(rng: random.Random, lines: list[bytes]) -> bytes:
    return b"".join(lines[: _pick(rng, lines)])


def _odd_version(rng: random.Random, lines: list[bytes]) -> bytes:
    version = rng.choice((b'"2"', b"2.0", b"-1", b"null", b"1", b"0", b"18446744073709551617"))
    return re.sub(rb'"version":\d+', b'"version":' + version, b"".join(lines), count=1)


def _odd_times(rng: random.Random, lines: list[bytes]) -> bytes:
    """Give every time there is one of those that a clock may not show."""
    times = (
        *(b"1970-01-01T00:00:00Z", b"9999-12-31T23:59:60Z", b"10000-01-01T00:00:00Z", b"2026-03-04", b""),
        *(b"2026-03-04T09:15:30+14:00", b"2026-03-04T09:15:30-12:00", b"2036-03-04T09:15:30", b"yesterday"),
    )
    stamps = rb'"(time|created)":"[^"]*"'
    return re.sub(stamps, lambda found: b'"%b":"%b"' % (found[1], rng.choice(times)), b"".join(lines))


_DAMAGES: dict[str, tuple[Damage, str | None]] = {
    "torn": (_torn, "E_TORN_TAIL"),
    "torn-newline": (_torn_with_newline, "E_TORN_TAIL"),
    "no-final-newline": (_no_final_newline, "E_NO_FINAL_NL"),
    "glued": (_glued, "E_GLUED"),
    "glued-to-torn": (_glued_to_torn, None),
    "spliced": (_spliced, "E_SPLICED"),
    "nul-after-record": (_nul_after_record, "E_NUL_RUN"),
    "nul-line": (_nul_line, "E_NUL_RUN"),
    "nul-hole": (_nul_hole, None),
    "nul-tail": (_nul_tail, "E_TORN_TAIL"),
    "bom-at-start": (_bom_at_start, "E_BOM"),
    "bom-inside": (_bom_inside, "E_BOM"),
    "crlf": (_crlf, None),
    "lone-cr": (_lone_cr, "E_GLUED"),
    "blank-lines": (_blank_lines, None),
    "utf16": (_utf16, None),
    "bad-utf8": (_bad_utf8, "E_BAD_UTF8"),
    "cesu-surrogate": (_cesu_surrogate, "E_BAD_UTF8"),
    "surrogate-escape": (_surrogate_escape, "E_SURROGATE"),
    "separators": (_separators, None),
    "raw-newlines": (_raw_newlines, None),
    "raw-controls": (_raw_controls, "E_BAD_JSON"),
    "seq-odd": (_seq_odd, None),
    "not-finite": (_not_finite, "E_NONFINITE"),
    "huge-number": (_huge_number, None),
    "duplicate-key": (_duplicate_key, "E_DUP_KEY"),
    "deep": (_deep, "E_TOO_DEEP"),
    "deep-unclosed": (_deep_unclosed, "E_TOO_DEEP"),
    "duplicate-line": (_duplicate_line, "E_SEQ_DUP"),
    "duplicate-block": (_duplicate_block, None),
    "swapped": (_swapped, "E_SEQ_BACK"),
    "missing-line": (_missing_line, "E_SEQ_GAP"),
    "foreign": (_foreign, None),
    "two-writers": (_two_writers, "E_SEQ_DUP"),
    "unknown-kind": (_unknown_kind, "E_UNKNOWN_KIND"),
    "wrong-shape": (_wrong_shape, None),
    "garbage-line": (_garbage_line, None),
    "bit-flip": (_bit_flip, None),
    "empty": (_empty, "E_EMPTY"),
    "blank-only": (_blank_only, "E_EMPTY"),
    "newer": (_newer, "E_NEWER_VERSION"),
    "no-meta": (_no_meta, "E_NO_META"),
    "half-meta": (_half_meta, "E_TORN_TAIL"),
    "after-completed": (_after_completed, "E_AFTER_TERMINAL"),
    "orphan-result": (_orphan_result, "E_TOOL_ORPHAN"),
    "second-result": (_second_result, "E_TOOL_DUP"),
    "missing-result": (_missing_result, "E_CALL_UNANSWERED"),
    "result-of-two": (_result_of_two, "E_RESULT_ID"),
    "second-meta": (_second_meta, "E_DUP_META"),
    "no-payload": (_no_payload, "E_NO_PAYLOAD"),
    "iteration-back": (_iteration_back, "E_ITERATION"),
    "cut-between-records": (_cut_between_records, None),
    "odd-version": (_odd_version, None),
    "odd-times": (_odd_times, None),
}

SHOWS_BEFORE = frozenset({"missing-result"})
"""Kinds that show at an earlier record than the one that was changed: at the call that nobody answered."""
EITHER = {
    "glued-to-torn": {"E_GLUED"},
    "spliced": {"E_SPLICED", "E_GLUED"},
    "nul-hole": {"E_NUL_RUN"},
    "utf16": {"E_NUL_RUN"},
    "raw-newlines": {"E_BAD_JSON"},
    "seq-odd": {"E_BAD_RECORD", "E_SEQ_BACK"},
    "foreign": {"E_FOREIGN_RUN"},
    "wrong-shape": {"E_BAD_RECORD", "E_NO_PAYLOAD", "E_UNKNOWN_KEY", "E_CALL_UNANSWERED"},
    "garbage-line": {"E_BAD_JSON", "E_NUL_RUN", "E_BAD_UTF8"},
}
"""Of kinds whose code depends on the place: one of these is found."""
HARMLESS = frozenset({"crlf", "blank-lines", "separators", "huge-number", "cut-between-records"})
"""Kinds that are no damage: nothing but a remark is found."""
KINDS: dict[str, str | None] = {kind: code for kind, (_, code) in _DAMAGES.items()}


def damage(kind: str, seed: int, data: bytes) -> bytes:
    """Give the bytes of a good journal of at least four records, damaged in one way."""
    lines = [line + b"\n" for line in data.split(b"\n") if line]
    return _DAMAGES[kind][0](random.Random(f"{kind} {seed}"), lines)
