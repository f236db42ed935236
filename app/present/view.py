"""What the reader of a pane has unfolded, and how much there is to see before."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from refold.app.present.times import Times

Scope: TypeAlias = Literal["record", "sum", "whole"]
"""Which changes are shown: of the record, all up to it with long ones folded, all up to it."""

SCOPES: Final[tuple[Scope, ...]] = ("record", "sum", "whole")

WINDOW: Final = 400
"""So many lines are laid out before the reader asks for earlier messages."""


class View(NamedTuple):
    """What the reader has unfolded, and the keys that do it."""

    thinking: bool = False
    unfolded: bool = False
    scope: Scope = "record"
    times: Times = "recorded"
    thinking_key: str = "z"
    unfold_key: str = "Z"
