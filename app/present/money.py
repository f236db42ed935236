"""What a run cost, and how full its context is, by the prices of the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from refold.app.lines import Cell, Line, Role
from refold.app.present import units
from refold.app.present.layout import cell, flow
from refold.core.prices import Bill, Price, Spent, amount, bill, bill_json, by_model, filled, written
from refold.core.records import Json

if TYPE_CHECKING:
    from refold.core.timeline import Timeline

Prices = Mapping[str, Price]

_LABEL = 14


class Money(NamedTuple):
    """What is known of it after one item."""

    here: Bill
    """Up to the cursor."""
    whole: Bill
    """Of all that was read."""
    inherited: Bill | None = None
    """What a fork took over from its parent, and its parent had paid for."""
    last: Spent = Spent()
    """What the last turn up to the cursor took."""
    model: str = ""
    price: Price | None = None


def spent_at(timeline: Timeline, item: int) -> Spent:
    """Give the tokens up to and including an item."""
    if item < 0:
        return Spent()
    counters = timeline.counters(item)
    return Spent(
        counters.in_tokens, counters.out_tokens, counters.cache_read_tokens, counters.cache_create_tokens
    )


def bill_at(timeline: Timeline, item: int, models: Sequence[tuple[int, str]], prices: Prices) -> Bill:
    """Give what a run cost up to and including an item.

    Args:
        timeline: The index of the run.
        item: The item.
        models: From which item on which model was used, in order.
        prices: By the name of the model.
    """
    begun = [(first, model) for first, model in models if first <= item]
    ends = [first - 1 for first, _ in begun[1:]]
    return bill(prices, by_model(begun, [spent_at(timeline, end) for end in (*ends, item)]))


def money_at(
    timeline: Timeline,
    item: int,
    models: Sequence[tuple[int, str]],
    prices: Prices,
    *,
    inherited: int | None = None,
) -> Money:
    """Give what is known of cost and context after an item; `inherited` is the last one of the parent's."""
    turn = timeline.columns.last_assistant[item] - 1
    model = next((model for first, model in reversed(models) if first <= item), "")
    return Money(
        bill_at(timeline, item, models, prices),
        bill_at(timeline, timeline.items - 1, models, prices),
        None if inherited is None else bill_at(timeline, min(item, inherited), models, prices),
        spent_at(timeline, turn).less(spent_at(timeline, turn - 1)) if turn >= 0 else Spent(),
        model,
        prices.get(model),
    )


def money_lines(money: Money, width: int) -> Iterator[Line]:
    """Give the lines of cost and context."""
    here = money.here
    if here.amount is None:
        lacks = f"no {', '.join(f'[{key}]' for key in here.missing)} configured" if here.missing else ""
        why = f"not known: {here.reason}" if here.reason else ""
        yield from _row("cost", (cell("; ".join(filter(None, (lacks, why))), "dim", 400),), width)
    else:
        cells = [cell(amount(here))]
        if money.whole.amount is not None and money.whole != here:
            cells.append(cell(f"  of {amount(money.whole)} in all", "dim"))
        if money.inherited is not None and money.inherited.amount:
            own = here.amount - money.inherited.amount
            text = f"  {amount(money.inherited)} inherited"
            cells.append(cell(text if own < 0 else f"{text}, {written(own)} own", "fork"))
        yield from _row("cost", cells, width)
    share = filled(money.price, money.last)
    if share is not None and money.price is not None:
        window = f"  {units.grouped(money.last.sent)} of {units.short(money.price.context)} tokens sent"
        role: Role = "problem" if share >= 1 else "warn" if share >= 0.8 else "text"
        yield from _row("context", (cell(f"{share:.0%}", role), cell(window, "dim")), width)


def money_json(money: Money | None) -> dict[str, Json] | None:
    """Give the same for scripts; None where no tokens are recorded."""
    if money is None:
        return None
    inherited = money.inherited.amount if money.inherited is not None else None
    share = filled(money.price, money.last)
    return {
        **bill_json(money.here),
        "inherited": inherited,
        "run": money.whole.amount,
        "context": None if share is None else round(share, 6),
    }


def _row(name: str, cells: Sequence[Cell], width: int) -> Iterator[Line]:
    yield from flow((cell(f"  {name:<{_LABEL}}", "dim"), *cells), width, _LABEL + 2)
