"""The writing processes of the demo: one is killed in the middle of a call, one goes on until let go."""

from __future__ import annotations

import itertools
import os
import select
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

from refold.app.demo_agent import furnish
from refold.app.demo_runs import LIVE, killed
from refold.app.demo_story import Call, Story

PACE = 0.7
"""Seconds between two records of the run that grows."""
_BEFORE = 14
_CUSTOMERS = (
    "harbour cafe",
    "nordlicht gmbh",
    "olive & co",
    "paper mill",
    "riverside school",
    "studio 7",
    "tram works",
)


def begin_live(store: Path, now: datetime) -> tuple[Story, Iterator[None]]:
    """Begin the run that grows, and give what writes its next record."""
    story = Story(store, LIVE, now - timedelta(seconds=75))
    story.begin(
        "Reconcile the invoices of July with the bank statement; list what does not match.",
        tools=("read_invoice", "find_payment", "note"),
        max_tokens=5_000_000,
        max_iterations=500,
    )
    return story, _invoices(story)


def _invoices(story: Story) -> Iterator[None]:
    for number in itertools.count(1):
        customer = _CUSTOMERS[number % len(_CUSTOMERS)]
        amount = f"{(number * 7919) % 9000 + 120},{(number * 31) % 100:02}"
        missing = number % 6 == 0
        yield from story.steps(
            f"Invoice {2600 + number} next, {customer}.",
            Call(
                "read_invoice",
                {"number": 2600 + number},
                f"{customer}\ntotal {amount} EUR\ndue 2026-07-{number % 28 + 1:02}",
            ),
            Call(
                "find_payment",
                {"amount": amount, "customer": customer},
                "no payment of this amount" if missing else f"paid 2026-07-{(number + 9) % 28 + 1:02}",
                error=missing,
            ),
            seconds=2.1,
            thinking="The amount is odd, so I compare the total and not the lines."
            if number % 5 == 2
            else "",
        )
        if missing:
            yield from story.steps(
                f"Nothing matches invoice {2600 + number}; I note it.",
                Call("note", {"invoice": 2600 + number, "customer": customer}, "noted"),
            )


def _write_live(store: Path, scratch: Path | None) -> None:
    """Append a record every `PACE` seconds until standard input ends: then whoever started this has gone."""
    story, records = begin_live(store, datetime.now(UTC))
    for _ in itertools.islice(records, _BEFORE):
        pass
    story.live = True
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], PACE)[0]:
        next(records)
    story.end("suspended").close()
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)


def _write_killed(store: Path, now: datetime, work: Path) -> None:
    """Work up to the call, say so, and wait for the end."""
    furnish(work)
    os.chdir(work)

    def stuck(moment: datetime) -> NoReturn:
        print(moment.isoformat(), flush=True)
        sys.stdin.read()
        os._exit(1)

    killed(store, now, stuck)


def main() -> None:
    """Run as `live STORE [SCRATCH]` or as `killed STORE MOMENT DIRECTORY`."""
    what, store, *more = sys.argv[1:]
    if what == "live":
        _write_live(Path(store), Path(more[0]) if more else None)
    else:
        _write_killed(Path(store), datetime.fromisoformat(more[0]), Path(more[1]))


if __name__ == "__main__":
    main()
