"""The hashes of version 2 are those of the original, text by text."""

from __future__ import annotations

import json
from pathlib import Path

from refold.core.fingerprint_v2 import SEARCH_TOOL, system_hash, system_text, tools_hash, tools_text
from refold.core.records import Json

TOOL: dict[str, Json] = {
    "Name": "stream_ls",
    "Description": "List streams",
    "InputSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "all": {"type": "boolean", "description": "a < b & c"},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
}
SYSTEMS = {"one block": ["You run the payments desk."], "with notes": ["base", "note <2> & \u2028 é"]}
TOOL_SETS = {
    "no tools": [],
    "one tool": [TOOL],
    "deferred tool plus search tool": [TOOL | {"DeferLoading": True}],
}


def test_every_hash_of_the_original(journals: Path) -> None:
    cases = json.loads((journals / "hash-v2.json").read_text())
    assert {case["name"] for case in cases} == {*SYSTEMS, *TOOL_SETS}
    for case in cases:
        name, text = case["name"], case["hashed_text"].encode()
        if case["kind"] == "system":
            assert system_text(SYSTEMS[name]) == text
            assert system_hash(SYSTEMS[name]) == case["hex"]
        else:
            assert tools_text(TOOL_SETS[name]) == text
            assert tools_hash(TOOL_SETS[name]) == case["hex"]


def test_the_search_tool_stands_before_the_built_in_ones() -> None:
    own: dict[str, Json] = {"Name": "memory", "Description": "", "InputSchema": None}
    text = tools_text([TOOL | {"DeferLoading": True}], [own]).decode()
    assert text.index('"stream_ls"') < text.index(SEARCH_TOOL) < text.index('"memory"')
    assert '"input_schema":{"type":"object"},"name":"memory"' in text
