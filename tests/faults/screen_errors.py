"""Keys on the full screen while one of its calls answers with an error: a disk that fails in mid-scroll."""

from __future__ import annotations

import random
from pathlib import Path

from tests.faults.goals import Goal, Share
from tests.faults.home import forked, store
from tests.faults.part_commands import CODES
from tests.faults.screen_kills import ACTS, contents
from tests.faults.screen_reads import KEYS
from tests.terminal import wire
from tests.terminal.forks import Forks

ERRORS: dict[Share, int] = {"ci": 5, "quick": 60, "long": 3_000}
PRESSED = 14


def errors(goal: Goal, directory: Path, share: Share) -> None:
    """Press keys, let a call fail, and leave: no fault is in the log, no run is another."""
    rng = random.Random(goal.seed)
    with Forks() as forks:
        for number in range(ERRORS[share]):
            if goal.over and number:
                break
            call = rng.choice(list(CODES))
            fail = (call, 1 + int(rng.expovariate(0.05)), rng.choice(CODES[call]))
            name = rng.choice([*ACTS, "", "", ""])
            keys = (
                [key for _, keys in ACTS[name].steps for key in keys]
                if name
                else rng.choices(KEYS, k=PRESSED)
            )
            with goal.attempt(f"{number}: {' '.join(keys)}: {fail[2]} at {call} {fail[1]}"):
                _press(directory / "error", forks, name, keys, fail)


def _press(place: Path, forks: Forks, name: str, keys: list[str], fail: tuple[str, int, str]) -> None:
    store(place)
    if name:
        ACTS[name].begin(place)
    before = contents(place)
    with forked(forks, place, (*fail, str(place))) as terminal:
        # Where the list itself cannot be read, it says so.
        terminal.wait(lambda screen: "refold" in screen and "help" in screen)
        terminal.settle(0.1)
        terminal.press(*keys, settle=0.04)
        # One of these may leave already.
        for key in (*("escape",) * 4, "ctrl+q"):
            if terminal.alive:
                terminal.press(key, settle=0.04)
        code, sent = terminal.ended(), bytes(terminal.sent)
    log = place / "home" / "state" / "refold" / "refold.log"
    assert not log.exists(), " < ".join(reversed([row.strip() for row in log.read_text().split("\n")][-14:]))
    assert code == 0, code
    assert b"Traceback" not in sent
    assert wire.not_restored(sent) == []
    after = contents(place)
    for run_name, data in before.items():
        if name in {"repair", "delete"} and run_name == "run-0.json":
            continue
        assert after.get(run_name) == data, run_name
