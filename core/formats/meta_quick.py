"""The quick reading of a meta line: a list of many runs reads one for each of them.

Whatever is unusual about a line (any other key, a fork, a payload that stands twice) is left to
`refold.core.formats.exact`.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from refold.core.formats.counted import Counted, Int, made, one_at_a_time
from refold.core.formats.fields import MAX_SEQ, is_time
from refold.core.records import Fingerprint, MetaRecord

PROVIDER_VERSION = 3
"""Since this version a fingerprint names its provider (formats/fisk-ai.md 2.5)."""


class _FingerprintPart(Counted, gc=False):
    model: str = ""
    system_hash: str = ""
    tools_hash: str = ""
    thinking_mode: str = ""
    max_tokens: Int = 0
    max_iterations: Int = 0
    provider: str | None = None


class _MetaPart(Counted, gc=False):
    version: Int
    run_id: str
    created: str
    fingerprint: _FingerprintPart
    prompt: str = ""
    interactive: bool = False


class _MetaLine(Struct, forbid_unknown_fields=True, gc=False):
    seq: int
    protocol: str
    meta: _MetaPart
    time: str | None = None


_decode = msgspec.json.Decoder(_MetaLine).decode


def read_meta(line: bytes, protocol: str, *, timed: bool) -> MetaRecord | None:
    """Read a meta line of the usual shape; None where its shape is any other.

    Args:
        line: its bytes, newline excluded.
        protocol: what it calls itself.
        timed: whether `time` is a key of the format; elsewhere it is an unknown one.
    """
    with one_at_a_time:
        try:
            found = _decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        finally:
            count = len(made)
            made.clear()
    meta = found.meta
    if count != 2 or found.protocol != protocol or not 0 < found.seq <= MAX_SEQ or not is_time(meta.created):
        return None
    part = meta.fingerprint
    if part.provider is None and meta.version >= PROVIDER_VERSION:
        return None
    return MetaRecord(
        meta.version,
        meta.run_id,
        meta.created,
        Fingerprint(
            model=part.model,
            system_hash=part.system_hash,
            tools_hash=part.tools_hash,
            thinking_mode=part.thinking_mode,
            max_tokens=part.max_tokens,
            max_iterations=part.max_iterations,
            provider=part.provider,
        ),
        meta.prompt,
        meta.interactive,
        seq=found.seq,
        time=found.time if timed else None,
    )
