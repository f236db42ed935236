"""Each target on its seeds, on what is kept of earlier fuzzing, and on some changes of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.run import by_chance
from tests.fuzz.seeds import corpus
from tests.fuzz.targets import BETWEEN, TARGETS, Target

EXECUTIONS = {
    "scan": 1500,
    "filter": 4000,
    "id": 4000,
    "visible": 1500,
    "decode": 150,
    "manifest": 120,
    "own": 90,
}
"""By target; 250 where none is named."""
SEED = 1


@pytest.mark.parametrize("name", TARGETS)
def test_a_share_of_the_fuzzing(name: str) -> None:
    count, faults = by_chance(name, SEED, executions=EXECUTIONS.get(name, 250))

    assert faults == []
    assert count >= 90


@pytest.mark.parametrize("name", TARGETS)
def test_what_was_found_once_stays_mended(name: str) -> None:
    for data in corpus(name):
        TARGETS[name](data)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40)
@given(
    st.sampled_from([TARGETS["filter"], TARGETS["visible"], TARGETS["id"], TARGETS["template"]]), st.text()
)
def test_any_text(target: Target, text: str) -> None:
    target(text.encode("utf-8", "surrogatepass"))


@settings(max_examples=25)
@given(st.lists(_JSON, min_size=1, max_size=3))
def test_any_json_where_the_files_of_a_run_are(values: list[object]) -> None:
    import json

    data = BETWEEN.join(json.dumps(value).encode() for value in values)
    for name in ("manifest", "decode", "fold"):
        TARGETS[name](data)
