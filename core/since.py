"""Since which record each line of a state stands as it does: looked up in running sums, nothing is folded."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from refold.core.columns import RESULT, ByTurn, Columns
from refold.core.timeline import Timeline


class Since(NamedTuple):
    """For each line the item that changed it last; None where none did."""

    turn: int | None = None
    """The turn, and with it the next iteration and the stop reason."""
    messages: int | None = None
    tool_calls: int | None = None
    terminal: int | None = None
    pending: int | None = None
    in_tokens: int | None = None
    out_tokens: int | None = None
    cache_read: int | None = None
    cache_create: int | None = None

    @property
    def tokens(self) -> int | None:
        """The same for the tokens of all four kinds."""
        kinds = (self.in_tokens, self.out_tokens, self.cache_read, self.cache_create)
        return max((item for item in kinds if item is not None), default=None)


def since(timeline: Timeline, item: int) -> Since:
    """Give for each line of the state after an item the item that changed it last."""
    columns = timeline.columns
    turn = columns.last_assistant[item] - 1
    result = _grown(columns.results, item)
    in_turn = result if result is not None and result > turn else None
    is_open = timeline.open_calls(item) > 0
    messages = None
    if not is_open:
        # A turn joins the messages with its last result.
        known = [at for at in (_grown(columns.messages, item), in_turn) if at is not None]
        messages = max(known, default=None)
    ended = timeline.terminal(item)
    pending = in_turn if in_turn is not None else turn
    return Since(
        turn=turn if turn >= 0 else None,
        messages=messages,
        tool_calls=result,
        terminal=None if ended is None else ended[0],
        pending=pending if turn >= 0 and (is_open or columns.kind[pending] == RESULT) else None,
        in_tokens=_turned(columns, columns.in_tokens, item),
        out_tokens=_turned(columns, columns.out_tokens, item),
        cache_read=_turned(columns, columns.cache_read, item),
        cache_create=_turned(columns, columns.cache_create, item),
    )


def _turned(columns: Columns, column: ByTurn, item: int) -> int | None:
    """Give the item with which a sum that grows by the turn became what it is; None where it never grew."""
    turns = columns.llm[item]
    value = column.values[turns]
    if not value:
        return None
    return bisect_left(columns.llm, bisect_left(column.values, value, 0, turns + 1), 0, item + 1)


def _grown(column: Sequence[int], item: int) -> int | None:
    """Give the item with which a running sum became what it is; None where it never grew."""
    return bisect_left(column, column[item], 0, item + 1) if column[item] else None
