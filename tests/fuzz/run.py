"""Fuzz what reads untrusted bytes, and print how often each target ran.

    python -m tests.fuzz.run                     every target for some seconds
    python -m tests.fuzz.run --long              every target for some minutes
    python -m tests.fuzz.run decode --seconds 60 one of them

Guided by coverage where atheris is installed (`pip install refold[fuzz]`), else by chance: the seeds of each
target are changed in every way that its readers care about. An input that fails is kept where the line about
it says, and belongs into `corpus/` once its fault is mended.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NoReturn

from tests.fuzz.seeds import mutated, seeds

SECONDS = {"quick": 5, "long": 240}
HANGS = 60
"""Seconds of a processor after which an input is taken to hang, so that its fuzzing ends."""
MEMORY = 512
"""Megabytes that a target may ever need."""
_SMALL = 1024
_MOST_KEPT = 10


def main(arguments: list[str] | None = None) -> int:
    """Fuzz the targets that were asked for; 1 when one failed."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["--guided"]:
        return guide(words[1], words[2:])
    from tests.fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(description="Fuzz the readers of Refold.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"any of {', '.join(TARGETS)}")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--seconds", type=int, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="copy small inputs that went new ways there")
    given = parser.parse_args(arguments)
    seconds = given.seconds or SECONDS["long" if given.long else "quick"]
    failed = 0
    for name in given.targets or TARGETS:
        count, faults, how = fuzz(name, seconds, given.seed, given.keep)
        failed += len(faults)
        sys.stdout.write(
            f"{name:9} {count:>12,} executions, {len(faults)} faults, {how}, seed {given.seed}\n"
        )
        sys.stdout.write("".join(f"  {fault}\n" for fault in faults[:10]))
        sys.stdout.flush()
    return 1 if failed else 0


def fuzz(name: str, seconds: float, seed: int, keep: Path | None = None) -> tuple[int, list[str], str]:
    """Fuzz a target; gives how often it ran, what failed, and how the inputs were found."""
    if importlib.util.find_spec("atheris") is None:
        count, faults = by_chance(name, seed, seconds=seconds)
        return count, faults, "by chance"
    with tempfile.TemporaryDirectory(prefix="refold-fuzz-") as directory:
        inputs = Path(directory) / "inputs"
        inputs.mkdir()
        for number, data in enumerate(seeds(name)):
            (inputs / str(number)).write_bytes(data)
        limits = [
            f"-max_total_time={seconds:.0f}",
            f"-seed={seed}",
            f"-rss_limit_mb={MEMORY}",
            f"-timeout={5 * HANGS}",
        ]
        where = [f"-artifact_prefix={directory}/", "-print_final_stats=1", "-max_len=65536"]
        command = [sys.executable, "-m", "tests.fuzz.run", "--guided", name]
        # A child begins with the peak of memory of who started it, and that may be above the limit.
        alone = ["sh", "-c", '"$@"; exit $?', "sh"]
        done = subprocess.run(
            [*alone, *command, str(inputs), *limits, *where], capture_output=True, check=False
        )
        told = done.stderr.decode("utf-8", "replace")
        ran = re.search(r"stat::number_of_executed_units: *(\d+)", told)
        faults = []
        if done.returncode != 0:
            said = re.findall(r"^[\w.]+(?:Error|Exception|Exceeded)\b.*$", told, re.MULTILINE)
            faults = [f"{said[-1] if said else told[-300:]}: {_kept(name, Path(directory))}"]
        if keep is not None:
            _copy_new(inputs, keep / name)
        return int(ran[1]) if ran else 0, faults, "guided by coverage"


def _copy_new(inputs: Path, target: Path) -> None:
    """Copy the smallest of the inputs that were found on the way."""
    found = [path for path in inputs.iterdir() if not path.name.isdigit() and path.stat().st_size <= _SMALL]
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(found, key=lambda path: path.stat().st_size)[-_MOST_KEPT:]:
        shutil.copyfile(path, target / path.name[:12])


def _kept(name: str, directory: Path) -> str:
    """Move what failed to where it outlasts this process; gives the place."""
    place = Path(tempfile.gettempdir()) / "refold-fuzz-failures"
    place.mkdir(exist_ok=True)
    told = []
    for path in directory.iterdir():
        if path.is_file():
            target = place / f"{name}-{path.name[:60]}"
            target.write_bytes(path.read_bytes())
            told.append(str(target))
    return ", ".join(told)


class Hangs(Exception):
    """An input came to no end."""


def by_chance(
    name: str, seed: int, *, seconds: float | None = None, executions: int | None = None
) -> tuple[int, list[str]]:
    """Run a target on its seeds and on what comes of them; gives how often, and what failed."""
    from tests.fuzz.targets import TARGETS

    target, pool, rng = TARGETS[name], seeds(name), random.Random(f"{seed} {name}")
    end = time.monotonic() + (seconds if seconds is not None else 1e9)
    count = 0
    faults: list[str] = []

    def hangs(*_: object) -> NoReturn:
        raise Hangs

    before = signal.signal(signal.SIGVTALRM, hangs)
    try:
        while time.monotonic() < end and count < (executions or 1 << 62) and len(faults) < 5:
            data = pool[count] if count < len(pool) else mutated(rng, pool)
            # Of a processor that works for this process: whatever else the machine does is not counted.
            signal.setitimer(signal.ITIMER_VIRTUAL, HANGS)
            try:
                target(data)
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{place.filename.rpartition('/')[2]}:{place.lineno}"
                faults.append(f"{type(error).__name__}: {str(error)[:200]} ({where}) on {data[:200]!r}")
            count += 1
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return count, faults


def guide(name: str, arguments: list[str]) -> int:
    """Be the process that libFuzzer drives; it ends by itself."""
    atheris = importlib.import_module("atheris")
    for module in [module for module in sys.modules if module.partition(".")[0] == "refold"]:
        del sys.modules[module]
    sys.modules.pop("tests.fuzz.targets", None)
    with atheris.instrument_imports(include=["refold"]):
        targets = importlib.import_module("tests.fuzz.targets")
    atheris.Setup([sys.argv[0], *arguments], targets.TARGETS[name])
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
