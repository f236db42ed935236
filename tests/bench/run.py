"""Measure the program against its goals and print one table.

    python tests/bench/run.py                 everything, 1 GB and 10,000 runs
    python tests/bench/run.py open list       some of it
    python tests/bench/run.py --quick         a tenth of the data, for a first look
    python tests/bench/run.py --json OUT      the figures for a file as well

Data is generated into a directory under REFOLD_BENCH_DIR (default: the temporary directory) and deleted
afterwards. Compare ratios, not milliseconds: the cases of a ratio take turns.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[:] = [str(ROOT), *(part for part in sys.path if Path(part) != Path(__file__).parent)]

from tests.bench.data import Data  # noqa: E402
from tests.bench.figures import Figure, as_json, table  # noqa: E402

PARTS = ("open", "scrub", "index", "list", "tail", "append", "compare")


def main(arguments: list[str] | None = None) -> int:
    """Run the parts that were asked for; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description="Measure Refold against its goals.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    directory = Path(tempfile.mkdtemp(prefix="refold-bench-", dir=os.environ.get("REFOLD_BENCH_DIR")))
    figures: list[Figure] = []
    try:
        big, runs = (100 << 20, 1_000) if given.quick else (1 << 30, 10_000)
        data = Data(directory, big=big, runs=runs, seed=given.seed)
        for name in given.parts or PARTS:
            started = time.perf_counter()
            figures += importlib.import_module(f"tests.bench.{name}").measure(data, given.rounds)
            sys.stderr.write(f"{name}: {time.perf_counter() - started:.0f} s\n")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    sys.stdout.write(table(figures) + "\n")
    if given.json:
        report = {"seed": given.seed, "rounds": given.rounds, "bytes": big, "runs": runs}
        given.json.write_text(
            json.dumps(report | {"figures": as_json(figures)}, indent=1) + "\n", encoding="utf-8"
        )
    return int(any(item.met is False for item in figures))


if __name__ == "__main__":
    raise SystemExit(main())
