"""refold-bench: measure the program against its goals, print one table, and write it down.

    .ci/refold-bench                    everything: 1 GB, 10,000 and 50,000 runs
    .ci/refold-bench open list          some of it
    .ci/refold-bench --quick            a tenth of the data, for a first look
    .ci/refold-bench --readme           put the table into README.md as well
    .ci/refold-bench --from FILE        print (or --readme) what was measured before

Run it with nothing else running. Data is generated into a directory under
REFOLD_BENCH_DIR (default: the temporary directory), read by all parts and deleted afterwards. Compare ratios,
not milliseconds: the cases of a ratio take turns.
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
from typing import Any

from tests.bench import report
from tests.bench.data import Data
from tests.bench.figures import Figure, as_json, from_json, not_run, table

PARTS = (
    "open", "index", "state", "scrub", "play", "list", "tail", "append", "commit", "check", "start", "peers",
    "compare", "search",
)  # fmt: skip
README = Path(__file__).parent.parent.parent / "README.md"


def main(arguments: list[str] | None = None) -> int:
    """Run the parts that were asked for; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(prog="refold-bench", description="Measure Refold against its goals.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    parser.add_argument("--rounds", type=int, help="how often each case takes its turn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", default=Path("refold-bench.json"))
    parser.add_argument("--from", type=Path, metavar="FILE", dest="source", help="measure nothing: read FILE")
    parser.add_argument("--readme", action="store_true", help="put the table into README.md")
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    if given.source is not None:
        figures = _told(json.loads(given.source.read_bytes()), given)
    else:
        directory = Path(tempfile.mkdtemp(prefix="refold-bench-", dir=os.environ.get("REFOLD_BENCH_DIR")))
        try:
            run = _measured(given, directory)
            given.json.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
            figures = _told(run, given)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    return int(any(item.met is False for item in figures))


def _told(run: dict[str, Any], given: argparse.Namespace) -> list[Figure]:
    """Print what was measured, and put it into the README where that was asked for; give the figures."""
    figures = from_json(run["figures"])
    sys.stdout.write(table(figures) + "\n")
    if given.readme:
        text = README.read_text(encoding="utf-8")
        README.write_text(report.placed(text, report.section(run, figures)), encoding="utf-8")
    return figures


def _measured(given: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Run the parts; give what is known of the run and its figures, ready to be written."""
    rounds = given.rounds or (3 if given.quick else 5)
    data = Data(directory, quick=given.quick, seed=given.seed)
    figures: list[Figure] = []
    began = time.perf_counter()
    for name in given.parts or PARTS:
        started = time.perf_counter()
        try:
            figures += importlib.import_module(f"tests.bench.{name}").measure(data, rounds)
        except Exception as error:  # the other parts are worth their time
            figures.append(not_run(name, "all of it", "", f"{type(error).__name__}: {error}"[:200]))
        sys.stderr.write(f"{name}: {time.perf_counter() - started:.0f} s\n")
    return {
        **report.surroundings(),
        "quick": given.quick,
        "seconds": round(time.perf_counter() - began),
        "seed": given.seed,
        "rounds": rounds,
        "bytes": data.big_bytes,
        "runs": data.run_count,
        "figures": as_json(figures),
    }


if __name__ == "__main__":
    raise SystemExit(main())
