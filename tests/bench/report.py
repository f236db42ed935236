"""The measured table as a section of the README, between two markers."""

from __future__ import annotations

import datetime as dt
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.figures import Figure

from refold.core.version import __version__

BEGIN, END = "<!-- bench -->", "<!-- /bench -->"


def surroundings() -> dict[str, object]:
    """Give the date and what it was measured on."""
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "version": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    names = [row.partition(":")[2].strip() for row in text.split("\n") if row.startswith("model name")]
    return names[0] if names else platform.machine()


def section(run: Mapping[str, object], figures: Sequence[Figure]) -> str:
    """Give the table of everything that has a bar, and of what others take."""
    size = "a tenth of the data" if run.get("quick") else "1 GB, 10,000 and 50,000 runs"
    machine = f"{run['processor']}, {run['cores']} cores, {run['system']}, Python {run['python']}"
    lines = [
        f"Measured on {run['date']}: {machine}, {size}, load {run['load']} at its end.",
        "",
        "| | what | measured | bar | |",
        "| --- | --- | ---: | ---: | --- |",
    ]
    for item in figures:
        if item.goal is not None or item.value is None or item.group.startswith("beside others"):
            cells = (item.of, f"{item.group}: {item.name}", item.shown, item.bar, item.verdict)
            lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines)


def placed(text: str, made: str) -> str:
    """Put the section between its markers.

    Raises:
        ValueError: the markers are not there.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the README has no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{made}\n{END}{after}"
