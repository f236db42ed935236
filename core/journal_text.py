"""The strict reading of a whole journal: bytes to records to state, as the original program does it.

A line that cannot be read is an error, except the last one, which counts as torn and is dropped
(formats/fisk-ai.md 3.3, 3.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from refold.core.errors import BadRecord, CorruptJournal
from refold.core.fold import fold
from refold.core.formats import Decoder
from refold.core.formats.registry import format_of
from refold.core.records import Record
from refold.core.state import RunState


def is_blank(line: bytes) -> bool:
    """Say whether a line holds nothing but Unicode white space."""
    if len(line) > 1 and line[0] == 0x7B:
        return False
    stripped = line.strip()
    if not stripped or stripped[0] < 0x80:
        return not stripped
    return not stripped.decode("utf-8", "replace").strip(_WHITE_SPACE)


_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    chr(code) for code in range(0x2000, 0x200B)
)
"""White space as the original sees it; Python's own notion has four control characters more."""


def strict_records(lines: Iterable[bytes], decoder: Decoder) -> Iterator[Record]:
    r"""Decode the lines of a journal in order, blank ones skipped.

    Args:
        lines: the bytes of the file split at `\n`, with or without an empty one for a final newline.
        decoder: the rules of the version that the run was written in.

    Raises:
        CorruptJournal: a line before the last cannot be read.
    """
    torn: CorruptJournal | None = None
    ended = False
    for number, line in enumerate(lines, 1):
        if torn is not None and (line or ended):
            raise torn
        if torn is not None:
            ended = True
            continue
        if is_blank(line):
            continue
        try:
            record = decoder.record(line)
        except BadRecord as error:
            torn = CorruptJournal(f"line {number}: {error.reason}", line=number)
        else:
            yield record


def fold_bytes(data: bytes, *, hint: str = "refold") -> RunState:
    """Fold a whole journal to the state it stands for.

    Args:
        data: the file.
        hint: the format to take where the bytes do not tell.

    Raises:
        FoldError: it does not fold.
    """
    decoder = format_of(data, hint=hint).decoder(data)
    return fold(strict_records(data.split(b"\n"), decoder), decoder)
