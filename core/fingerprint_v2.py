"""The hashes of fisk-ai runs of version 2 and older: the same configuration hashes otherwise there.

A tool is spelled as the provider's client of that time did, and where one is deferred a search tool is put
behind the tools of commands (formats/fisk-ai.md 4).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from refold.core.fingerprint import canonical_json
from refold.core.formats.gojson import string
from refold.core.records import Json

SEARCH_TOOL = '{"type":"tool_search_tool_bm25","name":"tool_search_tool_bm25"}'
"""What stands in the tool set where a tool is deferred."""

_FIRST = ("properties", "required", "type")


def system_text(segments: Iterable[str]) -> bytes:
    """Give the text of the system prompt's segments that is hashed."""
    blocks = [f'{{"text":{string(segment)},"type":"text"}}' for segment in segments]
    return f"[{','.join(blocks)}]".encode()


def tools_text(tools: Sequence[Mapping[str, Json]], built_in: Sequence[Mapping[str, Json]] = ()) -> bytes:
    """Give the text of a tool set that is hashed.

    Args:
        tools: those of commands and other agents, with Name, Description, InputSchema and DeferLoading.
        built_in: the program's own, which stand behind the search tool.
    """
    deferred = any(tool.get("DeferLoading") for tool in (*tools, *built_in))
    spelled = [*map(_tool, tools), *([SEARCH_TOOL] if deferred else []), *map(_tool, built_in)]
    return f"[{','.join(spelled)}]".encode()


def system_hash(segments: Iterable[str]) -> str:
    """Give the hash of the system prompt's segments, in order."""
    return hashlib.sha256(system_text(segments)).hexdigest()


def tools_hash(tools: Sequence[Mapping[str, Json]], built_in: Sequence[Mapping[str, Json]] = ()) -> str:
    """Give the hash of a tool set, in order; the arguments are those of `tools_text`."""
    return hashlib.sha256(tools_text(tools, built_in)).hexdigest()


def _tool(tool: Mapping[str, Json]) -> str:
    members = (
        ("input_schema", _schema(tool.get("InputSchema"))),
        ("name", canonical_json(tool.get("Name", "")).decode()),
        ("defer_loading", "true" if tool.get("DeferLoading") else "false"),
        ("description", canonical_json(tool.get("Description", "")).decode()),
        ("type", '"custom"'),
    )
    return "{" + ",".join(f"{string(key)}:{value}" for key, value in members) + "}"


def _schema(schema: Json) -> str:
    """Spell a schema: three keys first, the rest sorted behind them."""
    given = dict(schema) if isinstance(schema, dict) else {}
    given.setdefault("type", "object")
    keys = [*(key for key in _FIRST if key in given), *sorted(key for key in given if key not in _FIRST)]
    return "{" + ",".join(f"{string(key)}:{canonical_json(given[key]).decode()}" for key in keys) + "}"
