"""Fingerprints: what differs, what is hashed, and how a number is written, against golden data."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.errors import BadRecord
from refold.core.fingerprint import (
    canonical_json,
    canonical_tools,
    differences,
    number_text,
    provider_refuses,
    system_hash,
    tools_hash,
)
from refold.core.records import Fingerprint, Json

FIXTURES = Path(__file__).parent / "data" / "fisk-ai"
DIFFS: list[dict[str, Any]] = json.loads((FIXTURES / "fingerprint-diff.json").read_bytes())
HASHES: list[dict[str, Any]] = json.loads((FIXTURES / "hash-v3.json").read_bytes())


def case_name(case: dict[str, Any]) -> str:
    return str(case["name"])


@pytest.mark.parametrize("case", DIFFS, ids=case_name)
def test_differences_are_named_in_the_words_and_order_of_the_original(case: dict[str, Any]) -> None:
    saved = msgspec.convert(case["saved"], Fingerprint)
    current = msgspec.convert(case["current"], Fingerprint)
    assert list(differences(saved, current)) == case["diff"]
    assert (differences(saved, current) == ()) is case["equal"]
    assert provider_refuses(saved, current) is case["provider_gate_refuses"]


def test_a_provider_that_no_version_recorded_refuses_nothing() -> None:
    assert not provider_refuses(Fingerprint("m"), Fingerprint("m", provider="anthropic"))
    assert provider_refuses(Fingerprint("m", provider=""), Fingerprint("m", provider="anthropic"))
    assert provider_refuses(Fingerprint("m", provider="anthropic"), Fingerprint("m"))


@pytest.mark.parametrize("case", HASHES, ids=case_name)
def test_what_is_hashed_is_byte_for_byte_the_original(case: dict[str, Any]) -> None:
    given_ = case["input"]
    text = canonical_json(given_) if case["kind"] == "system" else canonical_tools(given_)
    assert text.decode() == case["hashed_text"]
    assert (system_hash(given_) if case["kind"] == "system" else tools_hash(given_)) == case["hex"]
    assert hashlib.sha256(text).hexdigest() == case["hex"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (-2.5, "-2.5"),
        (1e5, "100000"),
        (1e-6, "0.000001"),
        (1.5e-6, "0.0000015"),
        (9.999e-7, "9.999e-7"),
        (1e-10, "1e-10"),
        (123456789e12, "123456789000000000000"),
        (1e21, "1e+21"),
        (-1.25e300, "-1.25e+300"),
        (12345678901234567890, "12345678901234567000"),
        (5e-324, "5e-324"),
        (0.1 + 0.2, "0.30000000000000004"),
    ],
)
def test_numbers_are_written_as_the_original_writes_them(number: float, text: str) -> None:
    assert number_text(number) == text
    assert canonical_json([number]) == f"[{text}]".encode()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 10**400])
def test_numbers_without_a_text_are_refused(number: float) -> None:
    with pytest.raises(BadRecord):
        number_text(number)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_number_means_the_number(number: float) -> None:
    text = number_text(number)
    assert float(text) == number
    assert ("e" in text) is (number != 0 and not 1e-6 <= abs(number) < 1e21)


def test_keys_are_sorted_by_their_bytes_at_every_depth() -> None:
    value: Json = {"é": 1, "z": {"b": None, "a": [True, False]}, "\U0001f600": "<", "Z": 2, "\uffff": 3}
    assert canonical_json(value).decode() == (
        '{"Z":2,"z":{"a":[true,false],"b":null},"é":1,"\uffff":3,"\U0001f600":"\\u003c"}'
    )
