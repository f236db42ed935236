"""What must be the same for a run to go on: compared field by field, prompts only as hashes.

The order and the words of the differences, and what is hashed, are formats/fisk-ai.md 4.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal

from refold.core.errors import BadRecord
from refold.core.formats.gojson import string
from refold.core.records import Fingerprint, Json


def differences(saved: Fingerprint, current: Fingerprint) -> tuple[str, ...]:
    """Name each field in which two fingerprints differ, in fixed order; the provider is a gate of its own."""
    lines: list[str] = []
    if saved.model != current.model:
        lines.append(f"model: {saved.model} -> {current.model}")
    if saved.system_hash != current.system_hash:
        lines.append("system prompt: changed")
    if saved.tools_hash != current.tools_hash:
        lines.append("tool set: changed")
    if saved.thinking_mode != current.thinking_mode:
        lines.append(f"thinking: {saved.thinking_mode} -> {current.thinking_mode}")
    if saved.max_tokens != current.max_tokens:
        lines.append(f"max_tokens: {saved.max_tokens} -> {current.max_tokens}")
    if saved.max_iterations != current.max_iterations:
        lines.append(f"max_iterations: {saved.max_iterations} -> {current.max_iterations}")
    return tuple(lines)


def provider_refuses(saved: Fingerprint, current: Fingerprint) -> bool:
    """Say whether the provider forbids a resume, which nothing can force.

    None means that the version which wrote the run knows no provider: then there is nothing to compare.
    """
    return saved.provider is not None and saved.provider != (current.provider or "")


def system_hash(segments: Iterable[str]) -> str:
    """Give the hash of the system prompt's segments, in order."""
    return _sha256(canonical_json(list(segments)))


def tools_hash(tools: Iterable[Mapping[str, Json]]) -> str:
    """Give the hash of a tool set, in order.

    Args:
        tools: objects with Name, Description, InputSchema and DeferLoading; what is missing counts as
            empty, null or false.
    """
    return _sha256(canonical_tools(tools))


def canonical_tools(tools: Iterable[Mapping[str, Json]]) -> bytes:
    """Give the text of a tool set that is hashed: four keys in the order of their declaration."""
    return b"[" + b",".join(_tool(tool) for tool in tools) + b"]"


def canonical_json(value: Json) -> bytes:
    """Give a value as the original hashes it: compact, keys sorted, numbers as floats.

    Raises:
        BadRecord: a number that is none in JSON.
    """
    return _canonical(value).encode()


def number_text(value: int | float) -> str:
    """Give a number as Go writes a float64: 1.0 as 1, 1e21 as 1e+21, 1e-7 as 1e-7.

    Raises:
        BadRecord: it is not finite, or too large for a float.
    """
    try:
        number = float(value)
    except OverflowError:
        raise BadRecord("a number beyond the range of a float", code="E_NONFINITE") from None
    if not math.isfinite(number):
        raise BadRecord(f"{number} is no JSON number", code="E_NONFINITE")
    if number == 0 or 1e-6 <= abs(number) < 1e21:
        return f"{Decimal(repr(number)):f}".removesuffix(".0")
    mantissa, _, power = repr(number).partition("e")
    return f"{mantissa.removesuffix('.0')}e{power[0]}{power[1:].lstrip('0')}"


def _tool(tool: Mapping[str, Json]) -> bytes:
    members = (
        ("Name", tool.get("Name", "")),
        ("Description", tool.get("Description", "")),
        ("InputSchema", tool.get("InputSchema")),
        ("DeferLoading", tool.get("DeferLoading", False)),
    )
    return b"{" + b",".join(f'"{key}":{_canonical(value)}'.encode() for key, value in members) + b"}"


def _canonical(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return string(value)
    if isinstance(value, int | float):
        return number_text(value)
    if isinstance(value, list):
        return f"[{','.join(_canonical(item) for item in value)}]"
    pairs = sorted(value.items(), key=lambda pair: pair[0].encode("utf-8", "replace"))
    return f"{{{','.join(f'{string(key)}:{_canonical(member)}' for key, member in pairs)}}}"


def _sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
