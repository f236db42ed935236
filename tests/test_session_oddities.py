"""Directories of runs that nobody would make on purpose: each is a row or an error, none takes for ever."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.rivumi_cases import canonical, lines, make, write_lines
from tests.terminal.program import run, without_privileges

from refold.core import Check, SessionStore, Task
from refold.core.errors import BadRecord, NotRegular
from refold.core.store.catalog import Catalog, Root
from refold.core.store.session_files import read_run
from refold.core.summary import RunSummary


def _rows(root: Path) -> dict[str, RunSummary]:
    catalog = Catalog((Root(root, "refold", "--root"),), cache=None)
    return {row.id: row for row in catalog.scan() if isinstance(row, RunSummary)}


def test_a_directory_that_may_not_be_looked_into_is_a_row_and_an_error(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    closed = make("04-tail-tool-started", root)
    closed.chmod(0)
    try:
        listed = run("ls", "--no-cache", "--only", "--root", root, home=tmp_path, rights=without_privileges)
        assert b"not permitted to look into it" in listed.stdout
        for command in (("show",), ("verify",), ("why",), ("state",), ("resume", "--plan")):
            done = run(*command, "--only", "--root", root, closed, home=tmp_path, rights=without_privileges)
            assert done.returncode in {1, 3}, (command, done.stderr)
            assert b"ermi" in done.stderr + done.stdout, command
    finally:
        closed.chmod(0o700)


def test_a_directory_that_was_named_and_is_not_there_is_said(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    make("04-tail-tool-started", root)
    done = run("ls", "--only", "--root", root, "--root", tmp_path / "gone", home=tmp_path)
    assert (done.returncode, done.stdout.count(b"04-tail")) == (0, 1)
    assert b"gone: the directory does not exist" in done.stderr


def test_links_among_nested_runs_are_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    outer = make("04-tail-tool-started", root)
    inner = make("12-terminal-completed", outer / "subagents")
    (outer / "subagents" / "loop").symlink_to("..")
    other = make("16-pending-approval", root)
    (other / "subagents").symlink_to("..")
    assert set(_rows(root)) == {outer.name, inner.name, other.name}


def test_sums_beyond_64_bits_stop_nothing(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    run_ = make("03-running-clean", root)
    rows = [json.loads(row) for row in lines(run_)]
    usage = {"input_tokens": 2**63 - 1, "output_tokens": 2**63 - 1, "provider_total_tokens": 2**63 - 1}
    for sequence in (len(rows), len(rows) + 1):
        rows.append(
            {**rows[0], "sequence": sequence, "event_type": "model.completed", "data": {"usage": usage}}
        )
    write_lines(run_, [canonical(row) for row in rows])
    other = make("12-terminal-completed", root)
    commands: list[tuple[str | Path, ...]] = [
        ("ls", "--root", root),
        ("show", run_),
        ("verify", run_),
        ("why", run_),
        ("state", "--json", run_),
        ("export", run_, "-o", tmp_path / "out.html"),
        ("diff", run_, other),
    ]
    for command in commands:
        done = run(*command, home=tmp_path)
        assert done.returncode in {0, 1}, (command, done.stderr)
        assert b"fault" not in done.stderr, (command, done.stderr)


def test_a_link_that_leads_to_itself_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(NotRegular, match="leads nowhere"):
        read_run(tmp_path / "loop")


def test_a_task_with_a_nul_in_it_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "runs")
    task = Task(repository="/a\0b", base_sha="0" * 40, instruction="x", checks=(Check("t", ("true",)),))
    with pytest.raises(BadRecord):
        store.create(task, provider="p", model="m", protocol="openai_chat")
    assert not (tmp_path / "runs").exists()


def test_a_log_of_one_line_costs_by_its_length(tmp_path: Path) -> None:
    def taken(size: int) -> float:
        root = tmp_path / str(size)
        with (make("04-tail-tool-started", root) / "events.jsonl").open("ab") as file:
            file.truncate(size)
        times = []
        for _ in range(3):
            started = time.process_time()
            assert len(_rows(root)) == 1
            times.append(time.process_time() - started)
        return min(times)

    # Joined anew with every piece it would be sixteen times as much.
    assert taken(28 << 20) < 9 * taken(7 << 20) + 0.05


def test_the_state_says_what_it_could_not_read(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    torn, silent = make("04-tail-tool-started", root), make("03-running-clean", root)
    (torn / "session.json").write_bytes((torn / "session.json").read_bytes()[:100])
    (silent / "events.jsonl").unlink()
    for directory, said in ((torn, b"session.json cannot be read"), (silent, b"events.jsonl is missing")):
        done = run("state", directory, home=tmp_path)
        assert said in done.stdout
        assert b"external" not in done.stdout
        assert said in run("state", "--json", directory, home=tmp_path).stdout
