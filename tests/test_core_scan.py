"""Lines out of bytes: what the scanner says of its way through a line that is longer than any memory."""

from __future__ import annotations

from pathlib import Path

from refold.core.store.reader import RunReader
from refold.core.store.scan import HUGE


def test_progress_goes_on_inside_a_line_that_does_not_end(tmp_path: Path) -> None:
    path = tmp_path / "nul.json"
    with path.open("wb") as file:
        file.truncate(8 * HUGE)
    seen: list[float] = []
    with RunReader.open(path) as reader:
        while not reader.step(0.0):
            seen.append(reader.progress)
        assert reader.progress == 1.0
    assert len(set(seen)) > 3
    assert seen == sorted(seen)
