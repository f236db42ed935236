"""Every row of what the original answers (formats/rivumi.md 5 and 10): a row of a table in `data`, a test.

Section 5 also in full: each position of the manifest with each tail, ended or not, with and without request
and workspace, asked with and without leave to take up runs that have ended.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from tests import rivumi_cases
from tests.rivumi_cases import BASE, CASES, DATA, canonical

from refold.core.rivumi.original import replay_of_original, resume_of_original
from refold.core.rivumi.snapshot import RESUME_LIMIT, Part, Snapshot, Workspace
from refold.core.rivumi.verdict import verdict
from refold.core.store.session_files import read_run

Row = dict[str, str]

TAILS = {
    "-": "03-running-clean",
    "model.requested": "03-running-clean",
    "tool.started": "04-tail-tool-started",
    "verification.started": "05-tail-verification-started",
    "hook.completed": "04-tail-tool-started",
}
WORKSPACES = {
    "there": Workspace("git", BASE),
    "dirty": Workspace("git", BASE, "calc.py was changed"),
    "capitals": Workspace("git", BASE.upper()),
    "moved": Workspace("git", "f" * 40),
    "missing": Workspace("missing"),
    "link": Workspace("link"),
    "a file": Workspace("not_directory"),
    "no git": Workspace("no_git"),
}
REQUESTS: dict[str, dict[str, object]] = {
    "fits": {},
    "other task": {"task_id": "another"},
    "no base": {"base_sha": None},
    "other base": {"base_sha": "f" * 40},
    "both other": {"task_id": "another", "base_sha": "f" * 40},
    "capitals": {"base_sha": BASE.upper()},
    "moved": {"repository": "/not/there"},
    "no checks": {"verification": []},
}


def table(name: str) -> list[Row]:
    lines = (Path(__file__).parent / "data" / name).read_text().split("\n")
    cells = [[cell.strip() for cell in line.split("|")] for line in lines if line and line[0] != "#"]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]


def part(name: str, data: bytes) -> Part:
    return Part(name, "read", data, len(data))


def snapshot_of(row: Row) -> Snapshot:
    """Lay out what a row says."""
    case = DATA / TAILS[row["tail"]]
    events = [json.loads(line) for line in (case / "events.jsonl").read_bytes().split(b"\n")[:-1]]
    if row["tail"] == "hook.completed":
        events.append({**events[-1], "sequence": len(events), "event_type": "hook.completed", "data": {}})
    assert events[-1]["event_type"] == row["tail"] or row["tail"] == "-"
    events = [] if row["log"] in {"empty", "missing"} else events
    log = Part("events.jsonl")
    if row["log"] != "missing":
        log = part("events.jsonl", b"".join(canonical(event) + b"\n" for event in events))
    manifest = json.loads((case / "session.json").read_bytes())
    manifest["last_event_sequence"] = len(events) - 1 + int(row["position"])
    if row["terminal"] == "yes":
        manifest.update(terminal=True, phase="completed", pending_action=None)
    return Snapshot(
        case.name,
        part("session.json", canonical(manifest)),
        request_of(row["request"], case),
        log,
        workspace=WORKSPACES[row["workspace"]],
        lock="file",
    )


def request_of(name: str, case: Path) -> Part:
    match name:
        case "missing":
            return Part("request.json")
        case "no json":
            return part("request.json", b'{"task_id": ')
        case "too large":
            return Part("request.json", "read", b"{}", RESUME_LIMIT + 1)
    task = json.loads((case / "request.json").read_bytes())
    return part("request.json", canonical({**task, **REQUESTS[name]}))


@pytest.mark.parametrize("row", table("rivumi-resume.txt"), ids=lambda row: row["row"])
def test_a_row_of_section_5(row: Row) -> None:
    answer = resume_of_original(snapshot_of(row), allow_terminal=row["allow"] == "yes")
    assert answer.code == row["code"]
    assert answer.ok == (row["code"] == "ok")
    assert answer.rewritten == (row["rewritten"] == "yes")
    assert answer.repaired == (row["repaired"] == "yes")
    assert (answer.last_sequence is not None) == (row["code"] == "ok")


@pytest.mark.parametrize("row", table("rivumi-cases.txt"), ids=lambda row: row["case"])
def test_a_row_of_section_10(row: Row, tmp_path: Path) -> None:
    snapshot = read_run(rivumi_cases.make(row["case"], tmp_path))
    assert resume_of_original(snapshot).code == row["resume"]
    assert replay_of_original(snapshot).code == row["replay"]


def test_section_10_names_every_case() -> None:
    assert sorted(row["case"] for row in table("rivumi-cases.txt")) == CASES


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("position", [-2, -1, 0, 1, 2, 3])
def test_section_5_in_full(tail: str, position: int) -> None:
    """The order of the steps says it all; the stricter answer never goes past the original's refusal."""
    logs = ("empty", "missing") if tail == "-" else ("whole",)
    ways = itertools.product(
        logs, ("no", "yes"), ("fits", "missing", "other task"), WORKSPACES, (False, True)
    )
    for log, terminal, request, workspace, allowed in ways:
        if log != "whole" and position < 0:
            continue
        row = {"log": log, "position": str(position), "tail": tail, "terminal": terminal}
        snapshot = snapshot_of({**row, "request": request, "workspace": workspace})
        steps = {
            "request_missing": request == "missing",
            "request_task_id": request == "other task",
            "events_missing": log == "missing" and position != 0,
            "sequence_mismatch": position not in {0, 1},
            "in_flight_side_effect": position == 0 and tail in {"tool.started", "verification.started"},
            "workspace": workspace not in {"there", "dirty", "capitals"},
            "terminal": terminal == "yes" and not allowed,
        }
        code = next((name for name, fails in steps.items() if fails), "ok")
        answer = resume_of_original(snapshot, allow_terminal=allowed)
        assert answer.code == code, (row, request, workspace, allowed)
        assert answer.repaired == (
            position == 1 and code not in {"request_missing", "request_task_id", "events_missing"}
        )
        if not allowed:
            found = verdict(snapshot)
            assert found.original == answer
            assert found.outcome != "accept" or code == "ok"
