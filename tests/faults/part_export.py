"""Exports of runs full of what breaks out, what is secret, and damage (design/safety.md 5, G18)."""

from __future__ import annotations

import contextlib
import functools
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from tests import generate
from tests.damage import KINDS, damage
from tests.faults.goals import Goal, Share, Work, carry_out
from tests.faults.victims import ROOT, scratch
from tests.secret_story import clean_texts, secrets
from tests.terminal import hostile
from tests.terminal.payloads import PAYLOADS
from tests.test_app_export import BREAKOUTS, CHECKS, TEXT_FORMATS, drawn, words_of, write

from refold.app.exporting import text_of
from refold.core.redact import Redactor
from refold.core.store.export import Source
from refold.core.store.reader import RunReader

EXPORTS: dict[Share, int] = {"ci": 24, "quick": 600, "long": 100_000}
LEAKY: dict[Share, int] = {"ci": 0, "quick": 6, "long": 400}
"""Runs of 500 secrets, each exported in every format."""
CLEAN: dict[Share, int] = {"ci": 1, "quick": 8, "long": 200}
"""Heaps of texts without a secret."""
DRAWN = {"cast", "svg"}
DRAWN_OF = 24
"""One run of so many is drawn: that takes a hundred times as long as to write text."""
MOST_TOUCHED = 0.02


def measure(share: Share, seed: int, seconds: float) -> Iterator[Goal]:
    """Export, and read what came out."""
    whats = (
        ("G18", "exports that parse and hold nothing live", _parse, EXPORTS, 100_000),
        ("G18", "secrets of 500 kinds of text that left in no export", _leak, LEAKY, 500),
        ("G18", "texts without a secret that stay as they are", _clean, CLEAN, 0),
    )
    # A number of five thousand digits is JSON, whatever the interpreter thinks of it.
    most_digits = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        with scratch() as directory:
            work: list[Work] = [
                (
                    Goal(name, what, 0, seed, asked),
                    functools.partial(act, directory=directory, most=most[share]),
                )
                for name, what, act, most, asked in whats
            ]
            yield from carry_out(work, seconds)
    finally:
        sys.set_int_max_str_digits(most_digits)


def _parse(goal: Goal, directory: Path, most: int) -> None:
    rng = random.Random(goal.seed)
    number = 0
    while goal.tries < most and not goal.over:
        run = directory / "run.json"
        kind, data = _run(rng)
        run.write_bytes(data)
        number += 1
        for name in TEXT_FORMATS:
            if name in DRAWN and number % DRAWN_OF != 1:
                continue
            with goal.attempt(f"{number}: {kind} as {name}"), RunReader.open(run, hint="fisk-ai") as reader:
                CHECKS[name](
                    "".join(text_of(name, Source(reader, Redactor()), drawn, ascii_text=rng.random() < 0.2))
                )
            goal.count(name)


def _run(rng: random.Random) -> tuple[str, bytes]:
    """Give a run that says hostile things, or is damaged, or both."""
    style = rng.choice(generate.STYLES)
    texts = [*PAYLOADS.values(), *BREAKOUTS, *(_brackets(rng) for _ in range(20))]
    some = rng.sample(texts, rng.randint(1, 3))
    data = hostile.journal(some, style=style, run_id=some[0], raw=rng.random() < 0.5)
    kind = "hostile"
    if rng.random() < 0.5:
        kind = rng.choice([each for each in KINDS if "deep" not in each])
        # What is said may be too odd to be damaged in that way.
        with contextlib.suppress(ValueError, IndexError):
            data = damage(kind, rng.randrange(10**6), data)
    return f"{kind} {style}", data


def _brackets(rng: random.Random) -> str:
    return "".join(
        rng.choice(("[", "]", "/", "<", ">", "&", "`", '"', "'", "@", "=", "\\", "x", "\n", "{"))
        for _ in range(30)
    )


def _leak(goal: Goal, directory: Path, most: int) -> None:
    for number in range(most):
        if goal.over:
            break
        every = secrets(goal.seed * 1000 + number)
        run = write(directory / "leaky.json", *(each.text for each in every))
        for name in TEXT_FORMATS:
            with goal.attempt(f"{number} as {name}"), RunReader.open(run, hint="fisk-ai") as reader:
                said = "".join(text_of(name, Source(reader, Redactor(on=True)), drawn, ascii_text=False))
                words = words_of(said + said.replace("\\n", "\n").replace('\\"', '"'))
                assert [secret.core for secret in every if secret.core in words] == []
            goal.tries += len(every) - 1


def _clean(goal: Goal, directory: Path, most: int) -> None:
    touched = 0
    for number in range(most):
        if goal.over:
            break
        for text in clean_texts(goal.seed * 1000 + number, ROOT):
            goal.tries += 1
            line = json.dumps([text]).encode()
            touched += Redactor().text(text) != text or Redactor().line(line) != line
    goal.count("replaced", touched)
    if touched > goal.tries * MOST_TOUCHED:
        goal.failures.append(f"{touched} of {goal.tries} texts without a secret were changed")
