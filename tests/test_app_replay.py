"""`refold replay` and `refold state` on runs that are directories."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.rivumi_cases import CASES, DATA, edit, expected, last, lines, make, write_lines

from refold.app.cli import main

REFOLD = (sys.executable, "-c", "import sys; from refold.app.cli import main; sys.exit(main())")


@pytest.fixture
def refold(capsysbinary: pytest.CaptureFixture[bytes]) -> Any:
    def call(*arguments: object) -> tuple[int, bytes, str]:
        code = main([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        return code, out, err.decode()

    return call


@pytest.mark.parametrize("case", CASES)
def test_canonical_is_the_original_to_the_byte_or_its_error(case: str, refold: Any) -> None:
    theirs = expected(case)["replay"]
    code, out, err = refold("replay", DATA / case, "--canonical")
    if theirs["ok"]:
        assert code == 0
        assert hashlib.sha256(out).hexdigest() == theirs["canonical_sha256"]
        assert out == (DATA / case / "expected-replay.canonical.json").read_bytes()
    elif case == "02-manifest-only-no-events":
        assert (code, out) == (3, b"")
        assert "events.jsonl" in err
    else:
        assert (code, out) == (1, b"")
        assert theirs["error"] in err


def test_json_says_more_than_the_original(refold: Any) -> None:
    code, out, _ = refold("replay", DATA / "05-tail-verification-started", "--json")
    answer = json.loads(out)
    assert (code, answer["ok"]) == (0, True)
    assert answer["sha256"] == expected("05-tail-verification-started")["replay"]["canonical_sha256"]
    assert [call["state"] for call in answer["calls"]] == ["completed", "completed", "started"]
    assert answer["calls"][1]["decision"] == "allow_once"
    assert answer["events"]["open_calls"][0]["name"] == "check-1"


def test_a_refused_replay_says_why_in_json(refold: Any) -> None:
    code, out, _ = refold("replay", DATA / "26-nul-text", "--json")
    assert (code, json.loads(out)["code"]) == (1, "nul")


def test_a_missing_log_is_said_in_json_too(refold: Any) -> None:
    code, out, err = refold("replay", DATA / "02-manifest-only-no-events", "--json")
    answer = json.loads(out)
    assert (code, answer["ok"], answer["code"]) == (3, False, "unreadable")
    assert answer["error_class"] == "not_found"
    assert "events.jsonl" in err


def test_the_rows_are_printed_also_where_the_original_refuses(refold: Any) -> None:
    code, out, err = refold("replay", DATA / "22-torn-tail")
    assert code == 1
    assert out.count(b"\n") == 9
    assert "partial final line" in err


def test_an_empty_log_replays_to_nothing(tmp_path: Path, refold: Any) -> None:
    run = make("03-running-clean", tmp_path)
    (run / "events.jsonl").write_bytes(b"")
    wanted = b'{"completed_turn_ids":[],"event_count":0,"schema_version":1,"timeline":[]}'
    assert refold("replay", run, "--canonical")[:2] == (0, wanted)
    assert refold("replay", run)[0] == 0


def test_a_run_that_is_one_file_has_no_event_log(journals: Path, refold: Any) -> None:
    path = next((journals / "v3").glob("*.json"))
    code, out, err = refold("replay", path)
    assert (code, out) == (3, b"")
    assert "no event log" in err


def test_a_link_in_place_of_the_log_is_not_followed(tmp_path: Path, refold: Any) -> None:
    run = make("03-running-clean", tmp_path)
    (run / "events.jsonl").rename(tmp_path / "elsewhere")
    (run / "events.jsonl").symlink_to(tmp_path / "elsewhere")
    for command in ("replay", "state"):
        code, out, err = refold(command, run)
        assert (code, out) == (3, b"")
        assert "symbolic link" in err


def test_text_of_a_run_never_steers_the_terminal(tmp_path: Path) -> None:
    run = make("03-running-clean", tmp_path)
    last(lambda o: o["data"].update(text="a\x9b2Jb\u202ec", step=3))(run)
    ours, theirs = pty.openpty()
    done = subprocess.run([*REFOLD, "replay", run, "--canonical"], stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    seen = os.read(ours, 1 << 16)
    os.close(ours)
    assert done.returncode == 0
    assert b"escaped for the terminal" in done.stderr
    assert json.loads(seen)["timeline"][-1]["text"] == "a\x9b2Jb\u202ec"
    assert seen.isascii()
    piped = subprocess.run([*REFOLD, "replay", run, "--canonical"], stdout=subprocess.PIPE)
    assert "a\x9b2Jb\u202ec".encode() in piped.stdout


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*REFOLD, "replay", DATA / "03-running-clean", "--canonical"], stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 74
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("case", CASES)
def test_state_gives_manifest_and_events_side_by_side(case: str, refold: Any) -> None:
    code, out, _ = refold("state", DATA / case, "--json")
    answer = json.loads(out)
    if case == "24-invalid-json-interior":
        assert (code, answer["error_class"]) == (1, "corrupt")
        assert answer["error"].startswith("corrupt record sequence: line 4:")
        return
    assert (code, answer["ok"], answer["run"]) == (0, True, str(DATA / case))
    state = answer["state"]
    assert list(state) == ["run_id", "generation", "manifest", "events", "differences"]
    assert list(state["events"]) == [
        "phase",
        "step",
        "open_calls",
        "approvals",
        "tokens",
        "checks",
        "last_sequence",
    ]
    if case == "37-external-cli-run":
        assert (state["generation"], state["manifest"]) == ("external", None)
    else:
        assert state["manifest"] == json.loads((DATA / case / "session.json").read_bytes())


def test_state_at_a_sequence_and_its_text(refold: Any) -> None:
    run = DATA / "05-tail-verification-started"
    code, out, _ = refold("state", run, "--at", "14", "--json")
    state = json.loads(out)["state"]
    assert (code, state["events"]["last_sequence"]) == (0, 14)
    assert [call["id"] for call in state["events"]["open_calls"]] == ["call_edit_1"]
    assert state["differences"] == []
    assert json.loads(refold("state", run, "--at", "#15", "--json")[1])["state"] == state
    text = refold("state", run, DATA / "16-pending-approval", DATA / "09-manifest-behind-one")[1].decode()
    assert "open check-1  started at 20, no end: outcome unknown  verification:check-1" in text
    assert (
        "✗ end of the log: no event says that the run ended, 1 call without an end: outcome unknown" in text
    )
    assert "waits replace_text  waits for an answer, asked at" in text
    assert "the manifest is 1 behind the events" in text
    assert "\ngeneration external" in refold("state", DATA / "37-external-cli-run")[1].decode()


def test_the_text_of_a_state_tells_as_much_as_that_of_a_journal(refold: Any) -> None:
    run = DATA / "04-tail-tool-started"
    text = refold("state", run)[1].decode()
    for said in (
        "State after seq 14",
        "phase        running",
        "tokens       2,003 in (200 cached) · 80 out",
        "2 calls, 1 ended",
        "open replace_text  started at 14, no end: outcome unknown",
        "approvals    2 answered, 0 not",
        "✓ events and manifest agree",
        "written? calc.py",
        "outcome unknown",
    ):
        assert said in text, said
    last = text[text.index("\nLast events\n") :].splitlines()[2:]
    assert [row.split("│")[0].split("┤")[0].split("┆")[0].strip() for row in last] == [
        str(seq) for seq in range(9, 15)
    ]
    before = refold("state", f"{run}@8")[1].decode()
    assert "State after seq 8" in before
    assert "no event says" not in before
    assert "written?" not in before
    assert before.rstrip().splitlines()[-1].lstrip().startswith("8")
    nothing = refold("state", DATA / "02-manifest-only-no-events")[1].decode()
    assert "events.jsonl is missing: nothing is proven" in nothing
    assert "Last events" not in nothing


@pytest.mark.parametrize(
    ("place", "code", "words"),
    [
        ("99", 3, "no event has sequence 99; the last one is 9"),
        ("#99", 3, "no event stands on line 99"),
        ("5", 3, "its neighbours are 4 and 6"),
        ("0", 3, "the first one is 1"),
        ("x", 2, "'x' is no place in a run"),
    ],
)
def test_a_place_that_is_not_there(place: str, code: int, words: str, tmp_path: Path, refold: Any) -> None:
    run = make("03-running-clean", tmp_path)
    write_lines(run, [row for at, row in enumerate(lines(run)) if at not in {0, 5}])
    answer = refold("state", run, "--at", place)
    assert answer[0] == code
    assert words in answer[2]


def test_no_place_in_an_empty_log(tmp_path: Path, refold: Any) -> None:
    run = make("03-running-clean", tmp_path)
    (run / "events.jsonl").unlink()
    assert "there is no event at all" in refold("state", run, "--at", "1")[2]
    assert refold("state", run)[0] == 0


def test_damage_after_the_place_does_not_matter_and_salvage_skips_it(refold: Any) -> None:
    run = DATA / "24-invalid-json-interior"
    assert refold("state", run, "--at", "2")[0] == 0
    assert refold("state", run, "--at", "4")[0] == 1
    assert refold("state", run)[0] == 1
    code, out, _ = refold("state", run, "--salvage", "--json")
    assert (code, json.loads(out)["state"]["events"]["last_sequence"]) == (0, 9)


def test_a_run_is_named_by_its_directory_or_one_of_its_files(
    tmp_path: Path, refold: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make("03-running-clean", tmp_path)
    monkeypatch.chdir(tmp_path)
    names = (run, f"{run}/", run / "events.jsonl", run / "session.json", run.name)
    assert len({refold("replay", name)[1] for name in names}) == 1
    edit(run / "session.json", lambda o: o.update(surprise=2))
    assert json.loads(refold("state", run.name, "--json")[1])["state"]["manifest"]["surprise"] == 2


def test_looking_changes_nothing(tmp_path: Path, refold: Any) -> None:
    run = make("06-manifest-ahead-one", tmp_path)

    def picture() -> list[tuple[str, bytes, int, int]]:
        found = sorted(path for path in run.rglob("*") if path.is_file())
        return [(str(p), p.read_bytes(), p.stat().st_mtime_ns, p.stat().st_ino) for p in found]

    before, changed = picture(), run.stat().st_mtime_ns
    for arguments in (("replay",), ("replay", "--json"), ("replay", "--canonical"), ("state", "--json")):
        assert refold(*arguments, run)[0] == 0
    assert (picture(), run.stat().st_mtime_ns) == (before, changed)
