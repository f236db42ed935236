"""What the preview tells beyond the row, read from the index of one run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from refold.app.loading import until_done
from refold.app.present.run_preview import NOTHING_KNOWN, Details, details
from refold.core.errors import StoreError
from refold.core.store.reader import RunReader
from refold.core.summary import RunSummary

_MOST: Final = 16 << 20
"""Longer runs show only what their last bytes tell: nobody waits for a preview."""


async def read_details(run: RunSummary) -> Details:
    """Read the details of a run in slices; nothing where it cannot be read."""
    try:
        reader = RunReader.open(Path(run.path), hint=run.format)
    except StoreError:
        return NOTHING_KNOWN
    with reader:
        if run.size > _MOST:
            return details(reader.tail_timeline())
        await until_done(reader.step)
        return details(reader.timeline)
