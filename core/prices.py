"""What tokens cost by a table that the user wrote; without a row for a model nothing is worked out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from refold.core.records import Json

_MILLION = 1_000_000
SEVERAL = "several models took tokens: how many each of them took is not known here"
_LESS = "the recorded sums of tokens grow smaller"


class Price(msgspec.Struct, frozen=True):
    """What a million tokens of each kind cost with one model."""

    input: float
    output: float
    cache_read: float | None = None
    """None: not said; then tokens of this kind leave the cost unknown."""
    cache_create: float | None = None
    context: int = 0
    """How many tokens the model can be sent; 0 where that is not said."""
    currency: str = ""


class Spent(msgspec.Struct, frozen=True):
    """Tokens of each kind."""

    input: int = 0
    """Without those that were read from a cache or written to it."""
    output: int = 0
    cache_read: int = 0
    cache_create: int = 0

    def less(self, part: Spent) -> Spent:
        """Give what is left without a part."""
        return Spent(
            self.input - part.input,
            self.output - part.output,
            self.cache_read - part.cache_read,
            self.cache_create - part.cache_create,
        )

    @property
    def sent(self) -> int:
        """What was sent to the model."""
        return self.input + self.cache_read + self.cache_create


class Bill(msgspec.Struct, frozen=True):
    """What tokens cost, or why that cannot be said."""

    amount: float | None
    """None where it is not known."""
    currency: str = ""
    missing: tuple[str, ...] = ()
    """What the table lacks, as keys of it."""
    reason: str = ""
    """Why it cannot be said whatever the table holds; empty where it could be."""


def bill(prices: Mapping[str, Price], spent: Iterable[tuple[str, Spent]]) -> Bill:
    """Work out what tokens cost.

    Args:
        prices: By the name of the model.
        spent: The models with what each of them took.
    """
    total = 0.0
    missing: dict[str, None] = {}
    reasons: dict[str, None] = {}
    currencies: dict[str, None] = {}
    for model, took in spent:
        if took == Spent():
            continue
        if min(took.input, took.output, took.cache_read, took.cache_create) < 0:
            reasons[_LESS] = None
            continue
        if not model:
            reasons["no model is recorded"] = None
            continue
        price = prices.get(model)
        if price is None:
            missing[f'prices."{model}"'] = None
            continue
        currencies[price.currency] = None
        for name, tokens in (
            ("input", took.input),
            ("output", took.output),
            ("cache_read", took.cache_read),
            ("cache_create", took.cache_create),
        ):
            each: float | None = getattr(price, name)
            if each is not None:
                total += tokens * each / _MILLION
            elif tokens:
                missing[f'prices."{model}".{name}'] = None
    if len(currencies) > 1:
        reasons["its models are paid in several currencies"] = None
    if missing or reasons:
        return Bill(None, missing=tuple(missing), reason="; ".join(reasons))
    return Bill(total, next(iter(currencies), ""))


def amount(found: Bill) -> str:
    """Write an amount with its currency."""
    return "–" if found.amount is None else f"{written(found.amount)} {found.currency}".rstrip()[:40]


def written(value: float) -> str:
    """Write an amount."""
    digits = 2 if abs(value) >= 1 or value == 0 else 4
    return f"{value:,.{digits}f}" if abs(value) < 1e15 else f"{value:.3g}"


def bill_json(found: Bill) -> dict[str, Json]:
    """Give a bill for scripts."""
    return {
        "amount": found.amount,
        "currency": found.currency,
        "unknown": list(found.missing),
        "reason": found.reason or None,
    }


def filled(price: Price | None, last: Spent) -> float | None:
    """Give how much of what the model can be sent the last turn has filled; None where that is not known."""
    return last.sent / price.context if price is not None and price.context > 0 and last.sent >= 0 else None


def by_model(models: Sequence[tuple[int, str]], spent: Sequence[Spent]) -> list[tuple[str, Spent]]:
    """Join models with what each took.

    Args:
        models: From which item on which model was used, in order.
        spent: What was spent in all up to the end of each stretch.
    """
    before = Spent()
    found: list[tuple[str, Spent]] = []
    for (_, model), upto in zip(models, spent, strict=False):
        found.append((model, upto.less(before)))
        before = upto
    return found
