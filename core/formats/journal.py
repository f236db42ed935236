"""The two formats that write a run into one file of JSON lines: our own journal, and fisk-ai's.

Both share envelope, kinds and counters. They differ in the protocol ids, in the newest version, and
in that ours adds `time` to the envelope, `forked_from` to meta, and `resumed` and `decision` to the
payload they concern (architecture.md "Native journal", formats/fisk-ai.md 1).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from refold.core.errors import BadRecord
from refold.core.formats.exact import Dialect, read
from refold.core.formats.names import is_own
from refold.core.records import VERSION, ForkOrigin, Json, MetaRecord, Record

if TYPE_CHECKING:
    from refold.core.formats.meta_line import MetaLine
    from refold.core.formats.neutral_decoder import NeutralDecoder
    from refold.core.formats.wire_decoder import WireDecoder

NEUTRAL_VERSION = 3
"""The version of fisk-ai whose blocks are objects of one key; older ones keep wire blocks."""

FOLLOW_UP_VERSION = 2
"""The first version of fisk-ai whose runs hold user records."""

_MOST_DECODERS = 16
"""Versions whose decoder is kept: a file may name any."""
_VERSION = re.compile(rb'"meta":\{"version":(-?[0-9]{1,18})[,}]')
_NEUTRAL_BLOCKS = re.compile(rb'"content":\[\{"(?:text|thinking|tool_use|provider)":\{')


class JournalFormat:
    """One of the formats that keep a run in a single journal."""

    def __init__(self, name: str, prefix: str, supported: int, neutral_since: int | None) -> None:
        self.name = name
        """The word the user sees."""
        self.prefix = prefix
        """What stands before the kind in every protocol id."""
        self.supported = supported
        """The newest version that we fold."""
        native = is_own(name)
        self.keeps_lineage = native
        """Whether a meta record names the run that it was forked from."""
        self._neutral_since = neutral_since
        self._neutral = Dialect(prefix, neutral=True, native=native)
        self._wire = Dialect(prefix, neutral=False, native=native)
        self._decoders: dict[int, NeutralDecoder | WireDecoder] = {}

    def decoder(self, head: bytes) -> NeutralDecoder | WireDecoder:
        """Give the decoder for a run whose file starts with these bytes, by its first readable meta line."""
        return self.decoder_for(self._version(head))

    def decoder_for(self, version: int) -> NeutralDecoder | WireDecoder:
        """Give the decoder for a version; the runs of one version share theirs, for it remembers nothing."""
        known = self._decoders.get(version)
        if known is None:
            if len(self._decoders) >= _MOST_DECODERS:
                self._decoders.clear()
            known = self._decoders[version] = self._new_decoder(version)
        return known

    def _new_decoder(self, version: int) -> NeutralDecoder | WireDecoder:
        # Each kind of run imports its own decoder: an opened run has but one.
        if self._is_neutral(version):
            from refold.core.formats.neutral_decoder import NeutralDecoder

            return NeutralDecoder(self._neutral, version, self.supported)
        from refold.core.formats.wire_decoder import WireDecoder

        return WireDecoder(self._wire, version, self.supported)

    def opens(self, head: bytes) -> bool:
        """Say whether a file that starts with these bytes has its decoder, whatever follows them."""
        end = head.find(b"\n")
        return end >= 0 and self._strict_meta(head[:end]) is not None

    def meta(self, line: bytes) -> MetaRecord | None:
        """Read a meta record leniently for a list; None where the line is none."""
        try:
            record = read(line, self._wire._replace(lenient=True))
        except BadRecord:
            return None
        return record if isinstance(record, MetaRecord) else None

    def encode(self, record: Record, version: int | None = None) -> bytes:
        """Give the one line, newline included, that stands for a record.

        Args:
            record: the record; a meta record carries its own version.
            version: the version of the run it is for; the newest one where not given.

        Raises:
            BadRecord: a value in it has no JSON text, or nests deeper than we read.
        """
        from refold.core.formats.writing import write

        if version is None:
            version = record.version if isinstance(record, MetaRecord) else self.supported
        return write(record, self._neutral if self._is_neutral(version) else self._wire)

    def plain_line(self, record: Record, version: int) -> bytes | None:
        """Give the same line for a record that is sure to be read again; None where only reading it tells."""
        return self._plain_writer(record, self._neutral if self._is_neutral(version) else self._wire)

    @cached_property
    def _plain_writer(self) -> Callable[[Record, Dialect], bytes | None]:
        # Imported when a record is first written, and not looked up again: readers do without it.
        from refold.core.formats.plain_writing import write_plain

        return write_plain

    def resumed_by(self, version: int) -> str:
        """Say who resumes a run of a version, as a phrase; empty where it is always we (2.3 and 8.17)."""
        if self.keeps_lineage:
            return ""
        whose = "today's" if version == self.supported else "only the"
        wrote = "" if version == self.supported else " that wrote it"
        return f"a run of version {version}: {whose} {self.name}{wrote} resumes it"

    def takes_follow_ups(self, version: int) -> bool:
        """Say whether a run of a version may hold user records (formats/fisk-ai.md 1.3, v1)."""
        return self.keeps_lineage or version >= FOLLOW_UP_VERSION

    def forked_meta(
        self, line: bytes, meta: MetaRecord, *, run_id: str, created: str, origin: ForkOrigin
    ) -> MetaLine:
        """Give the meta line of a fork, newline included, in the version of its parent.

        Args:
            line: the parent's meta line.
            meta: the parent's meta record.
            run_id: the id of the new run.
            created: when it is made.
            origin: where it comes from; left out where the format has no place for it.
        """
        from refold.core.formats.meta_line import renamed
        from refold.core.formats.writing import fork_origin_json

        changes: dict[str, Json] = {"run_id": run_id, "created": created}
        if self.keeps_lineage:
            changes["forked_from"] = fork_origin_json(origin)
        record = MetaRecord(
            version=meta.version,
            run_id=run_id,
            created=created,
            fingerprint=meta.fingerprint,
            prompt=meta.prompt,
            interactive=meta.interactive,
            forked_from=origin if self.keeps_lineage else None,
            seq=meta.seq,
            time=meta.time,
        )
        decoder = self.decoder_for(meta.version)
        return renamed(line, record, lambda made: self.encode(made, meta.version), decoder.record, changes)

    def _is_neutral(self, version: int) -> bool:
        return self._neutral_since is not None and version >= self._neutral_since

    def _version(self, head: bytes) -> int:
        start = 0
        while (end := head.find(b"\n", start)) >= 0:
            line = head[start:end]
            if b"meta" in line.lower() and (meta := self._strict_meta(line)) is not None:
                return meta.version
            start = end + 1
        if (meta := self._strict_meta(head[start:])) is not None:
            return meta.version
        # The meta line may be damaged, or its prompt may outrun the head: writers put the version first.
        if (found := _VERSION.search(head)) is not None:
            return int(found[1])
        # Without any meta line nothing folds; the shape of the blocks decides how the rest is shown.
        if self._neutral_since is not None and _NEUTRAL_BLOCKS.search(head):
            return self._neutral_since
        return 0

    def _strict_meta(self, line: bytes) -> MetaRecord | None:
        try:
            record = read(line, self._wire)
        except BadRecord:
            return None
        return record if isinstance(record, MetaRecord) else None


NATIVE = JournalFormat("refold", "refold.v1.session.", VERSION, None)
"""Our own journal."""

FISK_AI = JournalFormat("fisk-ai", "io.choria.fisk-ai.v1.session.", NEUTRAL_VERSION, NEUTRAL_VERSION)
"""The journal of fisk-ai, versions 1 to 3."""
