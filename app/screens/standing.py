"""How a screen stands: what a picture of a run is taken of."""

from __future__ import annotations

from typing import Final, NamedTuple

from refold.app.present.view import View
from refold.app.screens.run_pane import PaneName


class Stand(NamedTuple):
    """Where the cursor is, and what is shown beside it."""

    size: tuple[int, int]
    """Cells across, and rows."""
    row: int | None = None
    """The row under the cursor; None where the screen would open."""
    top: int | None = None
    """The first row in sight; None where the cursor decides it."""
    pane: PaneName = "record"
    view: View = View()


AS_PRINTED: Final = Stand((120, 40))
"""What the command line draws."""
