"""Copies of the Rivumi fixtures with a workspace in them, and the edits of edge-results.json carried out."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data" / "rivumi"
CASES = sorted(path.name for path in DATA.iterdir() if path.is_dir())
EDGES: dict[str, dict[str, Any]] = json.loads((DATA / "edge-results.json").read_bytes())
BASE = "2731567c6f326d1a315b591b3d48465cbe72235a"

Edit = Callable[[Path], object]


def expected(case: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((DATA / case / "expected.json").read_bytes())
    return answer


def make(case: str, directory: Path) -> Path:
    """Copy a case under its own name, with the clone that it needs."""
    run = directory / case
    run.mkdir(parents=True)
    for file in (DATA / case).iterdir():
        if not file.name.startswith("expected"):
            shutil.copyfile(file, run / file.name)
    if expected(case).get("workspace_present"):
        workspace(run)
    return run


def workspace(run: Path, head: str = BASE) -> None:
    """Lay out what a clone looks like, as far as it is looked at; a test compares it with git's own."""
    git = run / "workspace" / ".git"
    for name in ("objects", "refs/heads"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text(head + "\n")
    (run / "workspace" / "calc.py").write_text("def add(a, b):\n    return a - b\n")


def lines(run: Path) -> list[bytes]:
    return (run / "events.jsonl").read_bytes().split(b"\n")[:-1]


def write_lines(run: Path, rows: list[bytes]) -> None:
    (run / "events.jsonl").write_bytes(b"".join(row + b"\n" for row in rows))


def canonical(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def last(change: Callable[[dict[str, Any]], object]) -> Edit:
    """Change the last event."""

    def edit_last(run: Path) -> None:
        rows = lines(run)
        event = json.loads(rows[-1])
        change(event)
        write_lines(run, [*rows[:-1], canonical(event)])

    return edit_last


def raw(change: Callable[[bytes], bytes]) -> Edit:
    """Change the bytes of the last line."""

    def edit_raw(run: Path) -> None:
        rows = lines(run)
        write_lines(run, [*rows[:-1], change(rows[-1])])

    return edit_raw


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the object of a file."""
    value = json.loads(path.read_bytes())
    change(value)
    path.write_bytes(canonical(value))


def _link(name: str) -> Edit:
    def put(run: Path) -> None:
        (run / name).rename(run / f"{name}.real")
        (run / name).symlink_to(f"{name}.real")

    return put


def _no_events(run: Path) -> None:
    (run / "events.jsonl").unlink()
    edit(run / "session.json", lambda o: o.update(last_event_sequence=-1))


def _empty_events(run: Path) -> None:
    (run / "events.jsonl").write_bytes(b"")
    edit(run / "session.json", lambda o: o.update(last_event_sequence=0))


def _terminal_in_flight(run: Path) -> None:
    old = json.loads((run / "session.json").read_bytes())
    rows = []
    for row in (DATA / "04-tail-tool-started" / "events.jsonl").read_bytes().split(b"\n")[:-1]:
        event = json.loads(row)
        event.update(run_id=old["run_id"], task_id=old["task_id"])
        rows.append(canonical(event))
    write_lines(run, rows)
    edit(
        run / "session.json",
        lambda o: o.update(last_event_sequence=len(rows) - 1, phase="completed", terminal=True),
    )


def _lock_link(run: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        (run / ".writer.lock").unlink()
    (run / ".writer.lock").symlink_to("nowhere")


def _head_moved(run: Path) -> None:
    (run / "workspace" / ".git" / "HEAD").write_text("0" * 40 + "\n")


_IN_WORDS: dict[str, Edit] = {
    "no_events_manifest_minus1": _no_events,
    "empty_events_manifest_0": _empty_events,
    "session_json_symlink": _link("session.json"),
    "events_symlink": _link("events.jsonl"),
    "request_symlink": _link("request.json"),
    "workspace_symlink": _link("workspace"),
    "writer_lock_symlink": _lock_link,
    "workspace_head_moved": _head_moved,
    "terminal_and_tail_tool_started": _terminal_in_flight,
}
_NAMES: dict[str, object] = {
    "lines": lines,
    "write_lines": write_lines,
    "last": last,
    "raw": raw,
    "edit": edit,
    "shutil": shutil,
    "os": os,
}


def apply(edge: str, run: Path) -> None:
    """Carry out the edit of a row."""
    change = _IN_WORDS.get(edge)
    if change is None:
        change = eval(EDGES[edge]["edit"], dict(_NAMES))
    change(run)


def same_words(ours: str, theirs: str) -> bool:
    """Compare two errors up to numbers and paths."""
    return _plain(ours) == _plain(theirs)


def _plain(text: str) -> str:
    return re.sub(r"\d+|'[^']*'", "", re.sub(r"\[Errno \d+\] ", "", text)).strip(": ")
