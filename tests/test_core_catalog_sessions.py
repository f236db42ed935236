"""Run directories in the list: each a row with its status and its reason, cheap to look at, never touched."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.listing import OLD, catalog, rows, write_run
from tests.rivumi_cases import CASES, DATA, canonical, edit, lines, make, write_lines
from tests.terminal.program import without_privileges
from tests.test_core_session_fork import repository

from refold.app.log import record_fault
from refold.core.findings import CODES
from refold.core.lineage import Branch, Sums
from refold.core.records import ForkOrigin
from refold.core.rivumi.events import read_log
from refold.core.rivumi.events_state import events_state
from refold.core.rivumi.findings import findings
from refold.core.rivumi.log_facts import LogFacts
from refold.core.rivumi.reading import read_snapshot
from refold.core.rivumi.summary import Found
from refold.core.rivumi.verdict import verdict
from refold.core.store import files, list_cache, session_cache, session_summary
from refold.core.store.catalog import Catalog, Gone, Progress, Root
from refold.core.store.forks import Fork, forks_of
from refold.core.store.lineage import read_family
from refold.core.store.notes import NotesStore
from refold.core.store.session_files import read_run
from refold.core.store.session_fork import carry_out_session, plan_session_at
from refold.core.summary import RunSummary

__all__ = ["repository"]


@pytest.fixture(autouse=True)
def quick_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file be old after a tenth of a second instead of two."""
    monkeypatch.setattr(list_cache, "_SETTLED_NS", 100_000_000)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    directory = tmp_path / "runs"
    directory.mkdir()
    return directory


def listing(*directories: Path, hint: str = "rivumi", cache: Path | None = None) -> Catalog:
    return Catalog([Root(directory, hint, "--root") for directory in directories], cache=cache)


def told(directory: Path, *, hint: str = "rivumi", cache: Path | None = None) -> dict[str, RunSummary]:
    found = listing(directory, hint=hint, cache=cache)
    named = {row.id: row for row in rows(found.scan()).values()}
    found.close()
    return named


def age(directory: Path) -> None:
    """Wait until what lies there may be remembered."""
    newest = max(path.lstat().st_ctime for path in directory.rglob("*"))
    time.sleep(max(0.0, newest + 0.12 - time.time()))
    for path in directory.rglob("*.json*"):
        os.utime(path, (OLD, OLD), follow_symlinks=False)
    time.sleep(0.12)


STATUS = {
    "01-created-no-workspace": "crashed",
    "04-tail-tool-started": "crashed",
    "12-terminal-completed": "completed",
    "14-terminal-cancelled": "cancelled",
    "15-terminal-flag-no-run-event": "completed",
    "16-pending-approval": "suspended",
    "34-forked-run": "ready",
    "36-event-catalog": "ready",
    "37-external-cli-run": "completed",
}


@pytest.mark.parametrize("case", CASES)
def test_every_recorded_run_is_a_row(case: str, store: Path) -> None:
    run = make(case, store)
    (row,) = told(store).values()
    assert (row.id, row.path, row.format, row.complete) == (case, str(run), "rivumi", True)
    assert row.status == STATUS.get(case, "crashed")
    assert row.rule
    assert row.prompt == "Fix add() so the test passes."
    reading = read_snapshot(read_run(run))
    open_calls = [call.name for call in reading.state.open_calls]
    assert list(row.in_flight) == open_calls
    assert row.last_seq == reading.state.last_sequence
    assert row.calls == sum(event.event_type == "tool.requested" for event in reading.log.events)
    assert row.torn == (case == "22-torn-tail")
    if reading.manifest is not None:
        assert (row.model, row.tokens) == (reading.manifest.model, reading.manifest.tokens.total)
    lineage = "12-terminal-completed" if case in {"34-forked-run", "36-event-catalog"} else ""
    assert row.fork_of == lineage


@pytest.mark.parametrize("case", CASES)
def test_what_the_list_finds_wrong_the_check_finds_too(case: str, store: Path) -> None:
    run = make(case, store)
    (row,) = told(store).values()
    assert set(row.problems) <= {finding.code for finding in findings(read_run(run))}


def test_the_words_of_a_row(store: Path) -> None:
    for case in ("04-tail-tool-started", "16-pending-approval", "37-external-cli-run", "22-torn-tail"):
        make(case, store)
    rows_ = told(store)
    assert rows_["04-tail-tool-started"].rule == "session.json says running; no holder seen from here"
    assert "it waits for an approval of replace_text;" in rows_["16-pending-approval"].rule
    assert rows_["16-pending-approval"].last_words == "I will read the file."
    assert rows_["16-pending-approval"].tools == ("read_file", "replace_text")
    assert rows_["16-pending-approval"].created == "2026-11-30T18:33:03.987132Z"
    assert rows_["37-external-cli-run"].model == "claude-code"
    assert rows_["37-external-cli-run"].provider_version == "rivumi, run by claude-code"
    assert rows_["37-external-cli-run"].reason == "verified"
    assert "a torn event follows" in rows_["22-torn-tail"].rule


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("max_steps_exceeded", "max-iterations"),
        ("token_budget_exceeded", "budget"),
        ("wall_time_exceeded", "failed"),
        ("", "failed"),
    ],
)
def test_why_a_run_failed(reason: str, status: str, store: Path) -> None:
    run = make("12-terminal-completed", store)
    rows_ = lines(run)
    last = json.loads(rows_[-1])
    last.update(event_type="run.failed", data={"terminal_reason": reason} if reason else {})
    write_lines(run, [*rows_[:-1], canonical(last)])
    edit(run / "session.json", lambda o: o.update(phase="failed"))
    (row,) = told(store).values()
    assert (row.status, row.reason) == (status, reason)


@pytest.mark.parametrize("phase", ["created", "preparing", "running", "verifying", "paused", "odd"])
def test_phases_without_an_end(phase: str, store: Path) -> None:
    run = make("03-running-clean", store)
    edit(run / "session.json", lambda o: o.update(phase=phase))
    (row,) = told(store).values()
    assert row.status == ("suspended" if phase == "paused" else "crashed")
    assert "no holder seen from here" in row.rule


def _vanish(run: Path) -> None:
    (run / "session.json").unlink()


def _put(name: str, what: str) -> Callable[[Path], None]:
    """Put something that is no file in the place of one."""

    def put(run: Path) -> None:
        (run / name).unlink()
        if what == "directory":
            (run / name).mkdir()
        elif what == "pipe":
            os.mkfifo(run / name)
        else:
            (run / name).symlink_to("nowhere")

    return put


def _link(name: str) -> Callable[[Path], None]:
    def put(run: Path) -> None:
        (run / name).rename(run.parent.parent / "elsewhere")
        (run / name).symlink_to(run.parent.parent / "elsewhere")

    return put


BAD: dict[str, tuple[Callable[[Path], object], str, str, str]] = {
    "manifest missing": (_vanish, "crashed", "there is no session.json", "E_MISSING"),
    "manifest empty": (
        lambda run: (run / "session.json").write_bytes(b""),
        "unreadable",
        "it is empty",
        "E_BAD_MANIFEST",
    ),
    "manifest torn": (
        lambda run: (run / "session.json").write_bytes((run / "session.json").read_bytes()[:300]),
        "unreadable",
        "session.json cannot be read: ",
        "E_BAD_MANIFEST",
    ),
    "manifest a list": (
        lambda run: (run / "session.json").write_bytes(b"[]"),
        "unreadable",
        "not an object",
        "E_BAD_MANIFEST",
    ),
    "manifest newer": (
        lambda run: edit(run / "session.json", lambda o: o.update(schema_version=2)),
        "newer",
        "version 2",
        "",
    ),
    "manifest of another run": (
        lambda run: edit(run / "session.json", lambda o: o.update(run_id="other")),
        "crashed",
        "running",
        "E_FOREIGN_RUN",
    ),
    "manifest a link": (_link("session.json"), "unreadable", "a symbolic link", "E_NOT_REGULAR"),
    "manifest a directory": (
        _put("session.json", "directory"),
        "unreadable",
        "a directory",
        "E_NOT_REGULAR",
    ),
    "events missing": (lambda run: (run / "events.jsonl").unlink(), "crashed", "running", "E_MISSING"),
    "events empty": (
        lambda run: (run / "events.jsonl").write_bytes(b""),
        "crashed",
        "running",
        "E_EMPTY",
    ),
    "events a pipe": (
        _put("events.jsonl", "pipe"),
        "crashed",
        "running",
        "E_NOT_REGULAR",
    ),
    "events a link": (_link("events.jsonl"), "crashed", "running", "E_NOT_REGULAR"),
    "request torn": (
        lambda run: (run / "request.json").write_bytes(b'{"task'),
        "crashed",
        "running",
        "E_REQUEST",
    ),
    "request missing": (lambda run: (run / "request.json").unlink(), "crashed", "running", "E_MISSING"),
    "lock a link": (
        _put(".writer.lock", "link"),
        "crashed",
        "running",
        "E_NOT_REGULAR",
    ),
    "bytes of no text": (
        lambda run: (run / "events.jsonl").write_bytes(b"\xff\xfe\n" + (run / "events.jsonl").read_bytes()),
        "crashed",
        "running",
        "E_BAD_UTF8",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_is_a_row_with_its_reason(kind: str, store: Path) -> None:
    change, status, words, code = BAD[kind]
    run = make("03-running-clean", store)
    make("12-terminal-completed", store)
    change(run)
    found = told(store)
    assert set(found) == {"03-running-clean", "12-terminal-completed"}
    row = found["03-running-clean"]
    assert (row.status, words in row.rule) == (status, True), row.rule
    assert code in row.problems or not code
    assert bool(row.damaged) == bool(code)
    assert bool(row.note) == (status == "unreadable")


@pytest.mark.parametrize("kind", [kind for kind in BAD if "vanish" not in kind])
def test_bad_input_is_a_finding_with_file_place_and_remedy(kind: str, store: Path) -> None:
    run = make("03-running-clean", store)
    BAD[kind][0](run)
    found = findings(read_run(run))
    assert found
    for each in found:
        assert each.file in {"session.json", "request.json", "events.jsonl", ".writer.lock", "workspace"}
        assert each.message
        assert each.remedy != CODES["E_NO_META"].remedy
        if each.line:
            data = (run / each.file).read_bytes()
            assert each.line == data.count(b"\n", 0, each.start) + 1
            assert each.start <= each.end <= len(data)
    torn = {"manifest torn": "session.json", "request torn": "request.json"}
    if kind in torn:
        (cut,) = (each for each in found if each.file == torn[kind] and each.line)
        assert (cut.line, cut.start) == (1, (run / cut.file).stat().st_size)
    if kind == "manifest newer":
        assert {each.code for each in found} == {"E_NEWER_VERSION"}


def test_what_lies_beside_runs(store: Path, tmp_path: Path) -> None:
    run = make("03-running-clean", store)
    (run / ".session.json.k2x").write_bytes(b"{")
    (store / "link").symlink_to("03-running-clean")
    (store / "nowhere").symlink_to("gone")
    (store / "nothing").mkdir()
    (store / ".hidden").mkdir()
    shutil.copytree(run, store / ".hidden" / "run")
    (store / "claimed").mkdir()
    (store / "claimed" / ".writer.lock").write_bytes(b"pid=1\n")
    (store / "littered").mkdir()
    (store / "littered" / ".session.json.x1").write_bytes(b"{")
    make("12-terminal-completed", store).rename(store / "named.json")
    found = told(store)
    assert set(found) == {"03-running-clean", "link", "claimed", "littered", "named.json"}
    assert (found["link"].status, found["link"].problems) == ("unreadable", ("E_NOT_REGULAR",))
    assert "a symbolic link" in found["link"].note
    assert {found["claimed"].status, found["littered"].status} == {"empty"}
    assert found["03-running-clean"].problems == ()
    reports = listing(store)
    list(reports.scan())
    assert reports.roots_report()[0].runs == 5


def test_one_directory_may_hold_runs_of_both_kinds(tmp_path: Path) -> None:
    write_run(tmp_path, "journal")
    make("03-running-clean", tmp_path)
    (tmp_path / "nothing").mkdir()
    (tmp_path / "claimed").mkdir()
    (tmp_path / "claimed" / ".writer.lock").touch()
    found = catalog(tmp_path)
    assert {row.id: row.format for row in rows(found.scan()).values()} == {
        "journal": "refold",
        "03-running-clean": "rivumi",
    }
    assert found.roots_report()[0].runs == 2


def test_nested_runs_are_rows_of_their_own(store: Path) -> None:
    run = make("12-terminal-completed", store)
    make("03-running-clean", run / "subagents")
    (run / "subagents" / "03-running-clean").rename(run / "subagents" / "scout1")
    (run / "subagents" / "no-run").mkdir()
    found = told(store)
    assert found["scout1"].path == str(run / "subagents" / "scout1")
    watched = listing(store)
    list(watched.scan())
    shutil.rmtree(run / "subagents" / "scout1")
    assert Gone(found["scout1"].path) in list(watched.refresh([store]))


@pytest.mark.parametrize("hint", ["rivumi", "refold"])
def test_a_directory_called_like_a_journal_is_one_row(store: Path, hint: str) -> None:
    run = make("12-terminal-completed", store).rename(store / "x.json")
    watched = listing(store, hint=hint)
    found = {row.path: row for row in watched.scan() if isinstance(row, RunSummary)}
    assert [row.format for row in found.values()] == ["rivumi"]
    (run / "changes.patch").write_text("")
    os.utime(run / "session.json")
    for item in watched.refresh([run, run / "session.json"]):
        if isinstance(item, RunSummary):
            found[item.path] = item
    assert list(found) == [str(run)]
    assert found[str(run)].status == "completed"
    shutil.rmtree(run)
    assert Gone(str(run)) in list(watched.refresh([run]))


def test_runs_nested_in_nested_runs_are_rows_too(store: Path) -> None:
    """At any depth that agents come to; where it is left at that, a row says so."""
    place = store
    for depth in range(16):
        run = make("03-running-clean", place)
        place = run.rename(run.with_name(f"level-{depth}")) / "subagents"
    found = told(store)
    assert {f"level-{depth}" for depth in range(13)} <= found.keys()
    assert "level-13" not in found
    assert found["subagents"].note == "runs nested more than 12 levels deep are not listed"
    shutil.rmtree(store / "level-0")
    wide = make("12-terminal-completed", store) / "subagents"
    for number in range(203):
        (wide / f"scout-{number:03}").mkdir(parents=True)
        (wide / f"scout-{number:03}" / "session.json").write_text("{}")
    assert told(store)["subagents"].note.startswith("more than 200 runs")


def test_not_permitted_is_a_row(store: Path) -> None:
    make("03-running-clean", store).chmod(0)
    run = make("12-terminal-completed", store)
    (run / "session.json").chmod(0)
    script = (
        "import sys; from pathlib import Path; from refold.core.store.catalog import *\n"
        "from refold.core.summary import RunSummary\n"
        "for row in Catalog([Root(Path(sys.argv[1]), 'rivumi', '')], cache=None).scan():\n"
        "    if isinstance(row, RunSummary): print(row.id, row.status, *row.problems, row.rule)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(store)],
        preexec_fn=without_privileges,
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(done.stdout.splitlines()) == [
        "03-running-clean unreadable E_PERM not permitted to look into it",
        "12-terminal-completed unreadable E_PERM session.json cannot be read: not permitted to read it",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="holders are known from /proc")
def test_a_held_run_is_running_and_nobody_is_asked(store: Path) -> None:
    run = make("03-running-clean", store)
    found = listing(store)
    (before,) = rows(found.scan()).values()
    with (run / ".writer.lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        (row,) = rows(found.refresh_holders()).values()
        assert (row.status, row.tokens) == ("running", before.tokens)
        assert told(store)["03-running-clean"].status == "running"
    (after,) = rows(found.refresh_holders()).values()
    assert after == before


def grow(run: Path) -> None:
    """Write one event as its program does: the manifest first."""
    last = json.loads(lines(run)[-1])
    last.update(sequence=last["sequence"] + 1, event_type="model.completed", data={"content": "Done so far."})
    new = run / ".session.json.new"
    shutil.copyfile(run / "session.json", new)
    edit(new, lambda o: o.update(last_event_sequence=last["sequence"]))
    new.rename(run / "session.json")
    with (run / "events.jsonl").open("ab") as file:
        file.write(canonical(last) + b"\n")


def test_growth_and_new_runs_are_seen(store: Path) -> None:
    run = make("03-running-clean", store)
    age(store)
    found = listing(store)
    (before,) = rows(found.scan()).values()
    assert list(rows(found.refresh_holders())) == []
    grow(run)
    (row,) = rows(found.refresh_holders()).values()
    assert (row.last_seq, row.turns, row.last_words) == (before.last_seq + 1, 2, "Done so far.")
    assert list(rows(found.refresh([run / "events.jsonl", run / "workspace" / "x"]))) == []
    (store / "new").mkdir()
    assert list(rows(found.refresh([store / "new"]))) == []
    shutil.copyfile(run / "session.json", store / "new" / "session.json")
    (new,) = rows(found.refresh_holders()).values()
    assert (new.id, new.status) == ("new", "crashed")
    shutil.rmtree(run)
    assert Gone(str(run)) in list(found.refresh_holders())
    assert [row.id for row in rows(listing(store).scan()).values()] == ["new"]


def test_growth_of_a_long_log_reads_what_is_new(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make("03-running-clean", store)
    long_log(run, 3000)
    found = listing(store)
    rows(found.scan())
    read: list[int] = []
    real = files.read_range

    def counting(fd: int, start: int, end: int, path: Path) -> bytes:
        data = real(fd, start, end, path)
        read.append(len(data))
        return data

    monkeypatch.setattr(session_summary, "read_range", counting)
    grow(run)
    (row,) = rows(found.refresh([run])).values()
    size = (run / "events.jsonl").stat().st_size
    assert row.last_seq == 3000
    assert sum(read) < size // 10
    data = (run / "events.jsonl").read_bytes()
    (run / "events.jsonl").unlink()
    (run / "events.jsonl").write_bytes(data[: len(data) // 2])
    (row,) = rows(found.refresh([run])).values()
    assert row.last_seq < 2000


def long_log(run: Path, count: int) -> None:
    event = json.loads(lines(run)[-1])
    every = []
    for sequence in range(count):
        event.update(sequence=sequence, event_type="model.requested", data={"step": sequence})
        every.append(canonical(event))
    write_lines(run, every)
    edit(run / "session.json", lambda o: o.update(last_event_sequence=count - 1))


@pytest.mark.parametrize("case", ["04-tail-tool-started", "12-terminal-completed", "16-pending-approval"])
def test_a_long_run_has_a_row_before_it_is_read(case: str, store: Path) -> None:
    run = make(case, store)
    rows_ = lines(run)
    first = json.loads(rows_[1])
    first["data"] = {"blob": "x" * 120_000}
    write_lines(run, [rows_[0], *[canonical(first)] * 10, *rows_[2:]])
    shown = [item for item in listing(store).scan() if isinstance(item, RunSummary)]
    assert [row.complete for row in shown] == [False, True]
    early, late = shown
    for name in ("status", "rule", "model", "prompt", "updated", "size", "last_seq", "in_flight"):
        assert getattr(early, name) == getattr(late, name), name
    assert early.last_words in {"", late.last_words}


def test_one_step_is_a_small_piece_of_work(store: Path) -> None:
    run = make("03-running-clean", store)
    long_log(run, 20_000)
    steps: list[float] = []
    scan: Iterator[object] = listing(store).scan()
    while True:
        started = time.process_time()
        item = next(scan, None)
        steps.append(time.process_time() - started)
        if item is None:
            break
    steps.sort()
    assert len(steps) > 10
    assert steps[int(len(steps) * 0.9)] < 0.02


def test_a_line_of_many_megabytes(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_summary, "_LONGEST_LINE", 300_000)
    run = make("03-running-clean", store)
    rows_ = lines(run)
    write_lines(run, [rows_[0], b"x" * 1_000_000, *rows_[1:]])
    (row,) = told(store).values()
    assert (row.problems, row.damaged, row.calls) == (("E_OVERSIZE",), 1, 1)


@pytest.mark.parametrize("case", CASES)
def test_folding_line_by_line_finds_what_the_whole_fold_finds(case: str) -> None:
    if not (DATA / case / "events.jsonl").exists():
        return
    data = (DATA / case / "events.jsonl").read_bytes()
    log = LogFacts()
    *whole, rest = data.split(b"\n")
    for line in whole:
        log.feed(line)
    if rest:
        log.feed(rest, ended=False)
    read = read_log(data)
    state = events_state(read.events)
    assert log.events == len(read.events)
    assert log.torn == (read.torn is not None)
    assert sorted(log.open_calls()) == sorted(call.name for call in state.open_calls)
    assert (log.last_sequence, log.tokens) == (state.last_sequence, state.tokens.total)


def test_a_vanishing_run_is_gone(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make("03-running-clean", store)
    real = session_summary.SessionReading.step

    def vanish(self: session_summary.SessionReading, seconds: float) -> bool:
        if run.exists():
            shutil.rmtree(run)
        return real(self, seconds)

    monkeypatch.setattr(session_summary.SessionReading, "step", vanish)
    assert told(store) == {}


def test_a_fault_of_ours_with_one_run_leaves_the_others(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make("03-running-clean", store)
    make("12-terminal-completed", store)
    real = session_summary.SessionReading.row

    def fail(self: session_summary.SessionReading, found: Found) -> RunSummary:
        if found.name.startswith("03"):
            raise ZeroDivisionError
        return real(self, found)

    monkeypatch.setattr(session_summary.SessionReading, "row", fail)
    found = told(store)
    assert "a fault in refold: ZeroDivisionError" in found["03-running-clean"].note
    log = store.parent / "refold.log"
    roots = [Root(store, "rivumi", "--root")]
    list(Catalog(roots, cache=None, fault=partial(record_fault, log)).scan())
    logged = log.read_text()
    assert "ZeroDivisionError" in logged
    assert "session_reads.py" in logged
    assert "calc" not in logged
    assert found["12-terminal-completed"].status == "completed"


def test_a_run_that_goes_while_the_cache_is_written_is_not_kept(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_cache, "_STRETCH", 1)
    for case in ("03-running-clean", "12-terminal-completed", "34-forked-run"):
        make(case, store)
    age(store)
    steps = sum(1 for _ in listing(store, cache=tmp_path / "counted").scan())
    for gone in list(store.iterdir()):
        for step in range(steps):
            cache = tmp_path / f"cache-{gone.name}-{step}"
            found = listing(store, cache=cache)
            scan = found.scan()
            for _ in range(step):
                next(scan)
            gone.rename(tmp_path / "away")
            list(found.refresh([gone]))
            list(scan)
            assert told(store, cache=cache) == told(store)
            (tmp_path / "away").rename(gone)


def test_the_cache_gives_rows_back_and_only_for_the_same_files(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for case in ("03-running-clean", "12-terminal-completed", "34-forked-run"):
        make(case, store)
    make("16-pending-approval", store).rename(store / os.fsdecode(b"caf\xe9"))
    age(store)
    cold = told(store, cache=tmp_path / "cache")
    opened: list[str] = []

    def counting(path: Path) -> int:
        opened.append(path.parent.name)
        return files.open_regular(path)

    monkeypatch.setattr(session_summary, "open_regular", counting)
    assert told(store, cache=tmp_path / "cache") == cold
    assert set(opened) == {"caf\udce9"}
    opened.clear()
    grow(store / "03-running-clean")
    warm = told(store, cache=tmp_path / "cache")
    assert set(opened) == {"03-running-clean", "caf\udce9"}
    assert warm["03-running-clean"].last_seq == cold["03-running-clean"].last_seq + 1
    damaged = (tmp_path / "cache" / "directories.cache").read_bytes()
    (tmp_path / "cache" / "directories.cache").write_bytes(damaged[:-7])
    assert told(store, cache=tmp_path / "cache") == warm


def test_what_the_system_failed_to_read_once_is_read_the_next_time(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("12-terminal-completed", store)
    age(store)
    open_ = os.open

    def full(path: str | Path, flags: int, *more: int, **where: int) -> int:
        if str(path).endswith("session.json"):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return open_(path, flags, *more, **where)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", full)
        (row,) = told(store, cache=tmp_path / "cache").values()
        assert row.status == "unreadable"
    (row,) = told(store, cache=tmp_path / "cache").values()
    assert row.status == "completed"


def test_progress_is_told_while_directories_are_looked_at(store: Path) -> None:
    for number in range(300):
        (store / f"run-{number}").mkdir()
        (store / f"run-{number}" / "session.json").touch()
    items = list(listing(store).scan())
    assert sum(isinstance(item, Progress) for item in items) >= 2
    assert {row.status for row in items if isinstance(row, RunSummary)} == {"empty"}


def test_a_fork_names_its_parent_and_is_found_from_it(store: Path) -> None:
    parent, child = make("12-terminal-completed", store), make("34-forked-run", store)
    write_run(store, "journal")
    make("37-external-cli-run", store)
    assert [fork for fork in forks_of(parent) if fork] == [Fork("34-forked-run", str(child), 11)]
    assert [fork for fork in forks_of(child) if fork] == []
    runs = list(told(store).values())
    for focus in (parent, child):
        *_, tree = (tree for tree in read_family(runs, str(focus)) if tree is not None)
        assert [(row.kin.id, row.depth, row.state) for row in tree.rows] == [
            ("12-terminal-completed", 0, "none"),
            ("34-forked-run", 1, "unchecked"),
        ]
        assert tree.rows[1].kin.origin == ForkOrigin("12-terminal-completed", 11)


def test_the_parent_of_a_fork_is_checked_by_the_hash_that_was_noted(
    store: Path, tmp_path: Path, repository: Path
) -> None:
    """The event of a fork has no place for it; what the run goes on to do is no part of its parent."""
    notes = NotesStore(tmp_path / "notes")
    parent = make("12-terminal-completed", store)
    edit(parent / "request.json", lambda o: o.update(repository=str(repository)))
    plan = plan_session_at(parent, 9, child="forked", reason="another way")
    carry_out_session(plan, notes=notes)

    def family() -> Branch:
        *_, tree = (
            tree
            for tree in read_family(told(store).values(), str(store / "forked"), notes=notes)
            if tree is not None
        )
        return tree.rows[1]

    row = family()
    assert (row.state, row.kin.inherited) == ("same", Sums())
    assert row.kin.origin is not None
    assert (row.kin.origin.seq, row.kin.origin.reason) == (9, "another way")
    events = (parent / "events.jsonl").read_bytes()
    (parent / "events.jsonl").write_bytes(events.replace(b"I will", b"I shall", 1))
    assert events != (parent / "events.jsonl").read_bytes()
    assert family().state == "rewritten"
    shutil.rmtree(notes.directory)
    assert family().state == "unchecked", "nothing tells what was taken"


def test_a_fork_counts_what_it_inherits(store: Path) -> None:
    parent = json.loads((make("04-tail-tool-started", store) / "session.json").read_bytes())
    child = make("34-forked-run", store)
    edit(child / "session.json", lambda o: o.update(messages=parent["messages"], usage=parent["usage"]))
    found = told(store)
    row, first = found["34-forked-run"], found["04-tail-tool-started"]
    assert (row.turns, row.calls, row.tokens) == (first.turns, first.calls, first.tokens)
    assert (row.status, row.last_words) == ("ready", first.last_words)


@pytest.mark.parametrize("case", CASES)
def test_a_row_is_barred_only_where_no_resume_is_accepted(case: str, store: Path) -> None:
    snapshot = read_run(make(case, store))
    found = verdict(snapshot)
    (row,) = told(store).values()
    # Of a call that was started last a decision can be noted; its own program refuses the run all the same.
    refused = found.outcome == "refuse" or found.original.code == "in_flight_side_effect"
    # A torn end can be mended, and a workspace put back: no row looks into that.
    passing = {reason.code for reason in found.ours.reasons} & {"workspace", "torn_tail"}
    assert not row.barred or refused
    assert bool(row.barred) >= (refused and not passing), (row.problems, found.reasons)
    assert row.can_be_resumed == (row.status not in {"completed", "newer", "unreadable"} and not row.barred)
