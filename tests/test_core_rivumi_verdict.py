"""The resume verdict: the table of formats/rivumi.md 5, and where ours is stricter than the original."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.rivumi_cases import BASE, CASES, DATA, EDGES, apply, canonical, expected, make

from refold.core.rivumi.budget import seconds_left, seconds_of
from refold.core.rivumi.events import read_log
from refold.core.rivumi.findings import findings
from refold.core.rivumi.manifest import read_manifest
from refold.core.rivumi.snapshot import Part, Snapshot, Workspace
from refold.core.rivumi.verdict import verdict, verdict_json, workspace_problem
from refold.core.store.session_files import read_run

OURS = {
    "01-created-no-workspace": ("refuse", {"workspace"}),
    "02-manifest-only-no-events": ("refuse", {"workspace"}),
    "04-tail-tool-started": ("ask", {"uncertain_effect"}),
    "05-tail-verification-started": ("ask", {"uncertain_effect"}),
    "08-tail-tool-completed-dangling": ("ask", {"dangling_call"}),
    "09-manifest-behind-one": ("refuse", {"manifest_behind"}),
    "11-manifest-ahead-two": ("refuse", {"manifest_ahead"}),
    "12-terminal-completed": ("refuse", {"terminal"}),
    "14-terminal-cancelled": ("refuse", {"terminal"}),
    "15-terminal-flag-no-run-event": ("refuse", {"terminal"}),
    "18-duplicate-sequence": ("refuse", {"not_contiguous"}),
    "20-run-id-drift": ("refuse", {"foreign_event"}),
    "21-task-id-drift": ("refuse", {"foreign_event"}),
    "22-torn-tail": ("refuse", {"torn_tail"}),
    "24-invalid-json-interior": ("refuse", {"invalid_event", "not_contiguous"}),
    "28-sequence-gap": ("refuse", {"not_contiguous"}),
    "29-out-of-order": ("refuse", {"not_contiguous"}),
    "30-request-base-sha-mismatch": ("refuse", {"request"}),
    "34-forked-run": ("refuse", {"fork"}),
    "35-copied-directory": ("refuse", {"copied_directory"}),
    "37-external-cli-run": ("refuse", {"manifest_missing"}),
}
CODES = {
    "01-created-no-workspace": ["E_WORKSPACE"],
    "02-manifest-only-no-events": ["E_MANIFEST_AHEAD", "E_MISSING", "E_WORKSPACE"],
    "04-tail-tool-started": ["E_UNCERTAIN_EFFECT"],
    "05-tail-verification-started": ["E_UNCERTAIN_EFFECT"],
    "06-manifest-ahead-one": ["E_MANIFEST_AHEAD"],
    "08-tail-tool-completed-dangling": ["E_DANGLING"],
    "09-manifest-behind-one": ["E_MANIFEST_BEHIND"],
    "11-manifest-ahead-two": ["E_MANIFEST_AHEAD"],
    "18-duplicate-sequence": ["E_SEQ_DUP"],
    "20-run-id-drift": ["E_FOREIGN_RUN"],
    "21-task-id-drift": ["E_FOREIGN_RUN"],
    "22-torn-tail": ["E_MANIFEST_AHEAD", "E_TORN_TAIL"],
    "24-invalid-json-interior": ["E_BAD_JSON", "E_SEQ_GAP"],
    "28-sequence-gap": ["E_SEQ_GAP"],
    "29-out-of-order": ["E_SEQ_BACK", "E_SEQ_GAP"],
    "30-request-base-sha-mismatch": ["E_REQUEST"],
    "32-extra-manifest-field": ["E_BAD_MANIFEST"],
    "34-forked-run": ["E_BAD_MANIFEST"],
    "35-copied-directory": ["E_FOREIGN_RUN"],
}
STRICTER = {
    "08-tail-tool-completed-dangling",
    "35-copied-directory",
}
"""Cases that the original resumes and we do not without a word."""


def read(case: str, name: str) -> Part:
    data = (DATA / case / name).read_bytes()
    return Part(name, "read", data, len(data))


def snapshot_of(case: str) -> Snapshot:
    """A case as the store reads it, made without a disk."""
    return Snapshot(
        case,
        read(case, "session.json"),
        read(case, "request.json"),
        read(case, "events.jsonl"),
        workspace=Workspace("git", BASE),
        lock="file",
    )


def changed(part: Part, change: Callable[[dict[str, Any]], object]) -> Part:
    value = json.loads(part.data)
    change(value)
    data = canonical(value)
    return Part(part.name, "read", data, len(data))


def appended(snapshot: Snapshot, *events: tuple[str, dict[str, object]]) -> Snapshot:
    """Add events to the log and count them in the manifest."""
    rows = [json.loads(row) for row in snapshot.events.data.split(b"\n")[:-1]]
    for kind, data in events:
        rows.append({**rows[-1], "sequence": len(rows), "event_type": kind, "data": data})
    log = b"".join(canonical(row) + b"\n" for row in rows)
    return msgspec.structs.replace(
        snapshot,
        events=Part("events.jsonl", "read", log, len(log)),
        manifest=changed(snapshot.manifest, lambda o: o.update(last_event_sequence=len(rows) - 1)),
    )


TAILS: dict[str, tuple[str, tuple[tuple[str, dict[str, object]], ...]]] = {
    "model.requested": ("03-running-clean", ()),
    "tool.started": ("04-tail-tool-started", ()),
    "verification.started": ("05-tail-verification-started", ()),
    "started, hidden": ("04-tail-tool-started", (("hook.completed", {"hook_event": "x"}),)),
}


def _update(claim: dict[str, object], value: dict[str, Any]) -> None:
    value.update(claim)


@pytest.mark.parametrize("ahead", [-2, -1, 0, 1, 2, 3])
@pytest.mark.parametrize("tail", TAILS)
def test_the_table_of_section_5(tail: str, ahead: int) -> None:
    case, more = TAILS[tail]
    whole = appended(snapshot_of(case), *more)
    at = json.loads(whole.manifest.data)["last_event_sequence"]
    for terminal, request, workspace in itertools.product((False, True), repeat=3):
        claim: dict[str, object] = {"last_event_sequence": at + ahead}
        if terminal:
            claim.update(terminal=True, phase="completed", pending_action=None)
        moved = changed(whole.manifest, partial(_update, claim))
        snapshot = msgspec.structs.replace(
            whole,
            manifest=moved,
            request=whole.request if request else Part("request.json"),
            workspace=whole.workspace if workspace else Workspace("missing"),
        )
        found = verdict(snapshot)
        started = tail in {"tool.started", "verification.started"}
        if not request:
            code = "request_missing"
        elif ahead not in {0, 1}:
            code = "sequence_mismatch"
        elif ahead == 0 and started:
            code = "in_flight_side_effect"
        elif not workspace:
            code = "workspace"
        else:
            code = "terminal" if terminal else "ok"
        assert (found.original.code, found.original.ok) == (code, code == "ok")
        assert found.original.repaired == (request and ahead == 1)
        incoherent = not request or not workspace or terminal or ahead not in {0, 1}
        ours = "refuse" if incoherent else "ask" if tail != "model.requested" else "accept"
        assert found.ours.outcome == ours
        assert found.outcome == ours
        assert bool(found.reasons) == (ours != "accept")


@pytest.mark.parametrize("case", CASES)
def test_our_answer_on_every_fixture(case: str, tmp_path: Path) -> None:
    snapshot = read_run(make(case, tmp_path))
    found = verdict(snapshot)
    outcome, codes = OURS.get(case, ("accept", set()))
    assert found.ours.outcome == outcome
    assert {reason.code for reason in found.ours.reasons} == codes
    theirs = expected(case)["resume_with_workspace"]["ok"]
    if theirs:
        assert found.outcome == outcome
        assert (outcome != "accept") == (case in STRICTER)
    else:
        assert found.outcome == ("ask" if outcome == "ask" else "refuse")
        assert found.reasons[0].code == f"original:{found.original.code}"
    named = findings(snapshot)
    assert sorted(finding.code for finding in named) == CODES.get(case, [])
    assert all(finding.allowed.resume == (found.outcome == "accept") for finding in named)


@pytest.mark.parametrize("edge", sorted(name for name, row in EDGES.items() if "resume" in row))
def test_ours_is_never_laxer_than_the_original(edge: str, tmp_path: Path) -> None:
    run = make("03-running-clean", tmp_path)
    apply(edge, run)
    snapshot = read_run(run)
    found = verdict(snapshot)
    if not EDGES[edge]["resume"]["ok"]:
        assert found.outcome == ("ask" if found.original.code == "in_flight_side_effect" else "refuse") or (
            found.outcome == "refuse"
        )
    findings(snapshot, found=found)


def test_json_of_a_verdict() -> None:
    made = verdict_json(verdict(snapshot_of("04-tail-tool-started")))
    assert json.loads(json.dumps(made)) == {
        "run_id": "04-tail-tool-started",
        "outcome": "ask",
        "original": {"ok": False, "code": "in_flight_side_effect"},
        "replay": {"ok": True, "code": "ok"},
        "ours": "ask",
        "reasons": [
            {
                "code": "original:in_flight_side_effect",
                "message": "its own program: session stopped during a side effect; automatic resume cannot "
                "prove whether the action completed",
            },
            {
                "code": "uncertain_effect",
                "message": "call_edit_1 (replace_text) was started, and no end of it is recorded",
            },
        ],
        "notes": [],
        "calls": [{"id": "call_edit_1", "name": "replace_text", "effect": "modify", "verdict": "unknown"}],
    }


def test_one_ahead_over_a_lost_start_is_asked_about() -> None:
    ahead = snapshot_of("06-manifest-ahead-one")
    assert verdict(ahead).outcome == "accept"
    cleared = changed(ahead.manifest, lambda o: o.update(pending_action=None))
    found = verdict(msgspec.structs.replace(ahead, manifest=cleared))
    assert found.original.ok
    assert found.outcome == "ask"
    assert "lost_start" in {reason.code for reason in found.reasons}
    assert [call.id for call in found.ours.uncertain] == ["call_edit_1"]


def test_an_open_read_is_no_uncertain_effect() -> None:
    whole = snapshot_of("03-running-clean")
    call: dict[str, object] = {"tool_call_id": "r", "name": "read_file", "effect": "read"}
    found = verdict(appended(whole, ("tool.started", call), ("hook.completed", {})))
    assert (found.outcome, found.ours.uncertain) == ("ask", ())
    assert [reason.code for reason in found.reasons] == ["open_read"]


def _replaced(**fields: object) -> Snapshot:
    return msgspec.structs.replace(snapshot_of("03-running-clean"), **fields)


@pytest.mark.parametrize(
    ("snapshot", "code"),
    [
        (_replaced(holder="process 7"), "locked"),
        (_replaced(lock="link"), "lock"),
        (_replaced(moving=True), "moving"),
        (_replaced(name="copy"), "copied_directory"),
        (_replaced(manifest=Part("session.json", "read", b"[1]", 3)), "manifest_unreadable"),
        (_replaced(manifest=Part("session.json", "not_permitted")), "manifest_unreadable"),
        (_replaced(request=Part("request.json", "read", b"\xff", 1)), "request"),
        (_replaced(request=Part("request.json", "read", b"{}", 2)), "request_schema"),
        (_replaced(events=Part("events.jsonl", "link", target="outside")), "not_regular"),
        (_replaced(workspace=Workspace("unknown")), "workspace"),
    ],
)
def test_what_else_we_refuse(snapshot: Snapshot, code: str) -> None:
    found = verdict(snapshot)
    assert found.outcome == "refuse"
    assert code in {reason.code for reason in found.ours.reasons}
    assert found.reasons


def test_a_log_without_its_last_line_end_is_refused_though_the_original_goes_on() -> None:
    whole = snapshot_of("03-running-clean")
    cut = whole.events.data[:-1]
    found = verdict(msgspec.structs.replace(whole, events=Part("events.jsonl", "read", cut, len(cut))))
    assert found.original.ok
    assert [reason.code for reason in found.ours.reasons] == ["no_final_newline"]
    assert found.replay.code == "partial_final_line"


def test_a_newer_manifest_is_refused_and_an_unknown_key_is_not() -> None:
    whole = snapshot_of("03-running-clean")
    newer = changed(whole.manifest, lambda o: o.update(schema_version=2, surprise=1))
    found = verdict(msgspec.structs.replace(whole, manifest=newer))
    assert [reason.code for reason in found.ours.reasons] == ["manifest_schema"]
    extra = changed(whole.manifest, lambda o: o.update(surprise=1))
    found = verdict(msgspec.structs.replace(whole, manifest=extra))
    assert (found.ours.outcome, found.outcome) == ("accept", "refuse")
    assert found.ours.notes[0].code == "manifest_extra"
    other = changed(whole.request, lambda o: o.update(task_id="x", base_sha=None))
    found = verdict(msgspec.structs.replace(whole, request=other))
    assert found.original.code == "request_task_id"
    assert "of task x" in found.ours.reasons[0].message


def test_the_time_since_its_death_is_charged() -> None:
    whole = snapshot_of("03-running-clean")
    manifest = read_manifest(whole.manifest.data)
    started = seconds_of(manifest.active_started_at)
    assert started is not None
    assert seconds_left(manifest, None, started + 100) == pytest.approx(800)
    found = verdict(whole, now=started + 100)
    assert (found.outcome, found.ours.notes[0].code) == ("accept", "time_left")
    found = verdict(whole, now=started + 1000)
    assert (found.original.ok, found.outcome) == (True, "ask")
    assert found.reasons[0].code == "wall_time"
    assert verdict(whole, now=started - 10).ours.notes[0].code == "clock"
    paused = changed(
        whole.manifest, lambda o: o.update(active_started_at=None, active_wall_time_seconds=899.5)
    )
    found = verdict(msgspec.structs.replace(whole, manifest=paused), now=started + 10**9)
    assert (found.outcome, found.ours.notes[0].code) == ("accept", "time_left")


def test_times() -> None:
    assert seconds_of("1970-01-01T00:00:01Z") == 1
    assert seconds_of("1970-01-01T00:00:01") == 1
    assert seconds_of("yesterday") is None
    assert seconds_of("0001-01-01T00:00:00+14:00") is None or seconds_of("9999-12-31T23:59:59-14:00")


@pytest.mark.parametrize(
    ("workspace", "words"),
    [
        (Workspace("git", BASE.upper()), ""),
        (Workspace("git", ""), "commit unknown"),
        (Workspace("missing"), "missing"),
        (Workspace("link"), "a symbolic link"),
        (Workspace("no_git", detail="odd"), "no clone of its own: odd"),
    ],
)
def test_a_workspace_is_described(workspace: Workspace, words: str) -> None:
    problem = workspace_problem(workspace, BASE)
    assert words in problem
    assert bool(problem) == bool(words)


def test_findings_on_files() -> None:
    whole = snapshot_of("03-running-clean")
    empty = Part("events.jsonl", "read", b"", 0)
    big = Part("events.jsonl", "read", whole.events.data, 17 << 20)
    for fields, code in (
        ({"events": empty}, "E_EMPTY"),
        ({"events": big}, "E_OVERSIZE"),
        ({"events": Part("events.jsonl", "too_large", size=1 << 40)}, "E_OVERSIZE"),
        ({"verification": Part("verification.json", "not_permitted")}, "E_PERM"),
        ({"result": Part("result.json", "link", target="inside")}, "E_NOT_REGULAR"),
        ({"lock": "other"}, "E_NOT_REGULAR"),
        ({"holder": "process 7"}, "E_LOCKED"),
        ({"manifest": Part("session.json", "read", b"{", 1)}, "E_BAD_MANIFEST"),
        ({"request": Part("request.json", "read", b"{", 1)}, "E_REQUEST"),
        ({"manifest": Part("session.json"), "events": Part("events.jsonl")}, "E_MISSING"),
        ({"litter": (".session.json.x1",)}, "E_FORK_PARTIAL"),
        ({"request": changed(whole.request, lambda o: o.update(task_id="x"))}, "E_REQUEST"),
    ):
        snapshot = msgspec.structs.replace(whole, **fields)
        assert code in {finding.code for finding in findings(snapshot)}


def test_findings_on_lines_name_their_place() -> None:
    whole = snapshot_of("03-running-clean")
    rows = whole.events.data.split(b"\n")[:-1]
    second = rows[1].replace(b'"sequence":1', b'"sequence":7').replace(b"6802afb8", b"0000afb8")
    strange = rows[2].replace(b"model.requested", b"zzz.new").replace(b'"data"', b'"extra":1,"data"')
    long = rows[3].replace(b"I will", b"y" * 140_000)
    log = b"\xef\xbb\xbf" + b"\n".join([rows[0], second, strange, long, rows[7], rows[8]])
    found = findings(msgspec.structs.replace(whole, events=Part("events.jsonl", "read", log, len(log))))
    by_code = {finding.code: finding for finding in found}
    assert {"E_BOM", "E_UNKNOWN_KIND", "E_BAD_RECORD", "E_OVERSIZE", "E_SEQ_DUP", "E_NO_FINAL_NL"} <= set(
        by_code
    )
    assert by_code["E_UNKNOWN_KIND"].severity == "info"
    twice = by_code["E_SEQ_DUP"]
    assert (twice.line, twice.seq) == (5, 7)
    assert "another event as on line 2" in twice.message
    assert log[twice.start : twice.end] == rows[7]
    again = rows[0] + b"\n" + rows[0] + b"\n"
    found = findings(msgspec.structs.replace(whole, events=Part("events.jsonl", "read", again, len(again))))
    assert any("the same event again" in finding.message for finding in found)
    assert found[0].allowed.fork_to == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"created_at": "yesterday"}, "its own program refuses created_at: "),
        ({"created_at": "2026-13-40T00:00:00Z"}, "its own program refuses created_at: "),
        ({"sequence": 4, "run_id": ""}, "its own program refuses run_id: "),
        ({"data": {"text": "a\u2028b"}}, "a text holds U+2028, at which its own program cuts the line"),
    ],
)
def test_a_line_that_only_the_original_refuses_is_named(change: dict[str, object], words: str) -> None:
    whole = snapshot_of("03-running-clean")
    rows = whole.events.data.split(b"\n")[:-1]
    rows[4] = canonical({**json.loads(rows[4]), **change})
    log = b"".join(row + b"\n" for row in rows)
    snapshot = msgspec.structs.replace(whole, events=Part("events.jsonl", "read", log, len(log)))
    found = [one for one in findings(snapshot) if one.code == "E_BAD_RECORD"]
    assert [(one.line, one.seq) for one in found] == [(5, 4)]
    assert found[0].message.startswith(f"line 5: {words}")
    assert log[found[0].start : found[0].end] == rows[4]
    assert verdict(snapshot).original.code == "invalid_event"


@pytest.mark.parametrize("name", ["session.json", "request.json"])
def test_a_file_that_is_not_utf8_is_named_with_its_byte(name: str) -> None:
    whole = snapshot_of("03-running-clean")
    part = whole.manifest if name == "session.json" else whole.request
    at = part.data.index(b"scripted" if name == "session.json" else b"calc")
    data = part.data[:at] + b"\xff" + part.data[at:]
    broken = Part(name, "read", data, len(data))
    snapshot = (
        msgspec.structs.replace(whole, manifest=broken)
        if name == "session.json"
        else msgspec.structs.replace(whole, request=broken)
    )
    found = [one for one in findings(snapshot) if one.code == "E_BAD_UTF8"]
    assert [(one.start, one.end, one.severity) for one in found] == [(at, at + 1, "error")]
    assert found[0].message == f"{name}: byte {at} is not UTF-8: its own program cannot read the file"
    assert verdict(snapshot).outcome == "refuse"


def test_a_long_list_of_findings_is_cut() -> None:
    whole = snapshot_of("03-running-clean")
    log = b"\n".join([b"{"] * 5000 + [b""])
    found = findings(msgspec.structs.replace(whole, events=Part("events.jsonl", "read", log, len(log))))
    assert len(found) < 120
    assert len(read_log(log).bad) == 5000
