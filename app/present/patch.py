"""A patch that a run left beside its records, file by file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from refold.app.lines import Line
from refold.app.present.changes import file_title
from refold.app.present.diff import laid_lines, lay
from refold.app.present.layout import BLANK, cell, flow
from refold.app.present.view import View
from refold.core.composing import Piece
from refold.core.patch_text import reading_patch
from refold.core.rivumi.snapshot import Part

_FOLDED: Final = 60
_UNFOLDED: Final = 5_000


def left_lines(patch: Part, width: int, view: View) -> Iterator[Line | None]:
    """Give what a run left, as it recorded it itself; nothing where it recorded nothing."""
    if not patch.known and not patch.detail:
        return
    yield BLANK
    yield from flow((cell("What the run left  ", "strong"), cell("changes.patch", "dim")), width)
    if patch.state == "missing":
        said = "it is not there: its program writes it when a run ends"
        yield from flow((cell(said, "dim"),), width, 2)
        return
    if not patch.known:
        yield from flow((cell(f"it cannot be read: {patch.detail}", "warn", 400),), width, 2)
        return
    files = []
    for read in reading_patch(patch.data.decode("utf-8", "backslashreplace")):
        if read is None:
            yield None
        else:
            files.append(read)
    if not files:
        yield (
            cell(
                "it changed nothing"
                if not patch.data.strip()
                else "it is no patch: Raw bytes stay in the file",
                "dim",
            ),
        )
    left = _FOLDED if view.scope != "whole" else _UNFOLDED
    for file in files:
        if left <= 0:
            yield (cell(f"⋯ more  ({view.unfold_key})", "dim"),)
            return
        laid = []
        for hunk in file.hunks:
            piece = Piece(hunk.old, hunk.new, (), line=0 if hunk.line is None else hunk.line + (not hunk.old))
            laid.append((yield from lay(piece, left)))
        added, removed = sum(one.added for one in laid), sum(one.removed for one in laid)
        yield file_title(file.path, added, removed, width, gone=file.kind == "delete")
        for one in laid:
            for line in laid_lines(one, file.path, width, max(0, left)):
                left -= line is not None
                yield line
