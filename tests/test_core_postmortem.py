"""The verdicts, as they are read at night: a table of them for every fixture and every run of the demo.

The table is `data/verdicts.txt`; `python -m tests.test_core_postmortem` writes it anew, to be read before it
is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from tests import rivumi_cases

from refold.app import demo
from refold.app.demo_runs import KILLED
from refold.core.errors import RefoldError
from refold.core.findings import UNPAIRED
from refold.core.fork_point import propose
from refold.core.postmortem import DAMAGED, Postmortem, examine_stopped, with_rewritten
from refold.core.resume import Effect
from refold.core.rewritten import Rewritten, rewritten_finding
from refold.core.rivumi.postmortem import explain_session
from refold.core.store.lock import RunLock
from refold.core.store.postmortem import known_of
from refold.core.store.reader import RunReader
from refold.core.store.resume import facts_of
from refold.core.store.session_postmortem import known_session

DATA = Path(__file__).parent / "data"
FIXTURES = DATA / "fisk-ai"
TABLE = DATA / "verdicts.txt"
NOW = datetime(2026, 7, 24, 12, 0, tzinfo=UTC)
LOOKED = datetime(2026, 11, 30, 18, 40, tzinfo=UTC)
"""Minutes after the writers of the fixtures died."""
GROWING = "billing-sweep"


def explain(path: Path, effects: dict[str, Effect] | None = None) -> Postmortem:
    with RunReader.open(path, hint="fisk-ai") as reader:
        reader.index_all()
        return examine_stopped(known_of(reader, facts_of(reader, effects=effects)), reader.bytes_at)


def entries(paths: Iterator[Path] | list[Path], root: Path) -> Iterator[str]:
    """Write one entry of the table for each run."""
    for path in sorted(paths):
        post = explain(path)
        name = path.relative_to(root).with_suffix("")
        yield f"{name} [{post.status.name}]\n    {post.verdict.happened}\n    {post.verdict.safe}\n"


def fixtures() -> list[Path]:
    return [
        path
        for version in ("v2", "v3")
        for path in FIXTURES.glob(f"{version}/*.json")
        if path.stem != "expected"
    ]


def demo_runs(directory: Path) -> list[Path]:
    return [
        path
        for root in ("refold/runs", "fisk-ai/runs")
        for path in (directory / root).glob("*.json")
        if path.stem != GROWING and not path.stem.startswith("3")
    ]


def explain_directory(path: Path, now: datetime) -> Postmortem:
    with RunReader.open(path) as reader:
        reader.index_all()
        assert reader.session is not None
        known = known_session(reader.session, now=now.timestamp())
        return explain_session(known, reader.bytes_at)


def directories(directory: Path) -> list[tuple[str, Path, datetime]]:
    """Give the run directories of the fixtures, with a repository that is there, and those of the demo."""
    found: list[tuple[str, Path, datetime]] = []
    cases = directory / "cases"
    if not cases.exists():
        (directory / "repository").mkdir()
        there = str(directory / "repository")
        for case in rivumi_cases.CASES:
            run = rivumi_cases.make(case, cases)
            if (run / "request.json").exists():
                rivumi_cases.edit(run / "request.json", lambda task: task.update(repository=there))
    found += [(f"rivumi/{case}", cases / case, LOOKED) for case in rivumi_cases.CASES]
    root = directory / "rivumi" / "runs"
    found += [(f"demo/{path.name}", path, NOW) for path in sorted(root.iterdir()) if path.is_dir()]
    return found


def directory_entries(directory: Path) -> Iterator[str]:
    for name, path, now in directories(directory):
        post = explain_directory(path, now)
        yield f"{name} [{post.status.name}]\n    {post.verdict.happened}\n    {post.verdict.safe}\n"


def table(directory: Path) -> str:
    every = [*entries(fixtures(), FIXTURES), *entries(demo_runs(directory), directory)]
    return "\n".join([*every, *directory_entries(directory)])


def test_the_table_of_verdicts(demo_directory: Path) -> None:
    assert table(demo_directory) == TABLE.read_text()


def test_every_verdict_names_what_was_in_flight_and_what_is_safe(demo_directory: Path) -> None:
    for path in [*fixtures(), *demo_runs(demo_directory)]:
        post = explain(path)
        for each in post.in_flight if post.status.name != "newer" else ():
            assert each.call.name in post.verdict.happened or "more" in post.verdict.happened, path
        assert post.verdict.safe.endswith(".")
        assert len(post.verdict.sentence) < 600
        possible = {action.name for action in post.actions if action.possible}
        for name, key in (
            ("resume", "resume (r)"),
            ("fork", "(f)"),
            ("salvage", "(s)"),
            ("repair", "repair (m"),
        ):
            assert key not in post.verdict.safe or name in possible, (path, name)
        for action in post.actions:
            assert bool(action.writes) == action.possible
            assert bool(action.why_not) != action.possible
            assert action.name != "fork" or (action.at is not None) == action.possible


def test_a_conversation_with_a_hole_is_forked_before_it(demo_directory: Path) -> None:
    seen: set[str] = set()
    for path in [*fixtures(), *demo_runs(demo_directory)]:
        post = explain(path)
        fork = next(action for action in post.actions if action.name == "fork")
        for each in post.damage if post.status.name != "newer" else ():
            if each.finding.code in UNPAIRED:
                seen.add(each.finding.code)
                assert "no obstacle" not in post.verdict.happened, path
                goes_on = "Safe: resume" in post.verdict.safe
                assert not goes_on, path
                assert fork.at is None or each.finding.seq is None or fork.at < each.finding.seq, path
    assert seen == UNPAIRED


def test_every_verdict_on_a_directory_names_what_was_in_flight_and_what_is_safe(demo_directory: Path) -> None:
    for name, path, now in directories(demo_directory):
        post = explain_directory(path, now)
        for each in post.in_flight:
            assert each.call.name in post.verdict.happened, name
        assert post.verdict.safe.endswith(".")
        assert len(post.verdict.sentence) < 600, name
        possible = {action.name for action in post.actions if action.possible}
        for action, key in (("resume", "resume (r)"), ("fork", "(f)"), ("repair", "(m)")):
            then = action == "resume" and "then resume" in post.verdict.safe and "repair" in possible
            assert key not in post.verdict.safe or action in possible or then, (name, action)
        for each_action in post.actions:
            assert bool(each_action.writes) == each_action.possible
            assert bool(each_action.why_not) != each_action.possible
            assert each_action.name != "fork" or (each_action.at is not None) == each_action.possible


def test_where_the_two_files_of_a_directory_stand_is_said(demo_directory: Path) -> None:
    directories(demo_directory)
    cases = demo_directory / "cases"
    assert explain_directory(cases / "03-running-clean", LOOKED).position.claims[0] == (
        "session.json and the log end at the same event, seq 9"
    )
    ahead = explain_directory(cases / "11-manifest-ahead-two", LOOKED).position.claims
    assert ahead[0] == "session.json is 2 ahead of the log: events 10 to 11 are lost"
    assert ahead[-1].startswith("its writer last wrote 7 min ago")
    died = next((demo_directory / "rivumi" / "runs").glob("7f3c*"))
    assert "the lease is that of the last writer" in explain_directory(died, NOW).position.claims[1]
    (died / ".writer.lock").write_text(f"pid=77 token={'a' * 32}\n")
    assert explain_directory(died, NOW).position.claims[1] == (
        "process 77 took the lock after the last writer, and wrote nothing: "
        "whoever still has the old lease is fenced off"
    )


def test_damage_of_a_directory_is_peeked_at_in_the_file_it_is_in(tmp_path: Path) -> None:
    run = rivumi_cases.make("03-running-clean", tmp_path)
    whole = (run / "session.json").read_bytes()
    (run / "session.json").write_bytes(whole[:300])
    rows = rivumi_cases.lines(run)
    rows[3] = b"\0" * 40
    rivumi_cases.write_lines(run, rows)

    post = explain_directory(run, LOOKED)

    by_code = {each.finding.code: each for each in post.damage}
    assert by_code["E_BAD_MANIFEST"].peek == whole[252:300]
    assert by_code["E_NUL_RUN"].peek == bytes(40)
    assert post.verdict.happened.startswith("Its session.json cannot be read: ")


def test_very_much_damage_of_a_directory_is_counted(tmp_path: Path) -> None:
    run = rivumi_cases.make("03-running-clean", tmp_path)
    with (run / "events.jsonl").open("ab") as log:
        log.write(b"bad\n" * 20_000)

    post = explain_directory(run, LOOKED)

    assert len(post.damage) <= DAMAGED
    assert len(post.damage) + post.more_damage == 20_000


def test_what_a_tool_does_decides_what_is_safe(demo_directory: Path) -> None:
    path = demo_directory / "refold" / "runs" / f"{KILLED}.json"

    unknown, reads = explain(path), explain(path, {"replace_text": "read"})

    assert "look first whether it did" in unknown.verdict.safe
    assert unknown.in_flight[0].outcome == "outcome unknown: it may have run without a result"
    assert reads.verdict.safe == (
        "Safe: resume (r) runs replace_text (dates/parser.py) again, which changes nothing twice."
    )
    assert reads.in_flight[0].outcome.startswith("no result; it reads only")


def test_a_held_run_is_not_to_be_resumed(demo_directory: Path, tmp_path: Path) -> None:
    path = tmp_path / f"{KILLED}.json"
    path.write_bytes((demo_directory / "refold" / "runs" / path.name).read_bytes())
    lock = RunLock.take(path.with_suffix(".lock"))
    try:
        post = explain(path)
    finally:
        lock.release()
    assert post.verdict.happened == (
        "An agent is at work on it now, with replace_text (dates/parser.py) in flight."
    )
    assert "do not resume it" in post.verdict.safe
    assert post.position.sentence.startswith("held by process ")
    possible = {action.name for action in post.actions if action.possible}
    assert possible == {"fork", "nothing"}


def test_damage_is_peeked_at_where_it_is(tmp_path: Path) -> None:
    lines = (FIXTURES / "v3" / "completed-two-tools.json").read_bytes().splitlines(keepends=True)
    broken = lines[2][:200] + bytes(30) + lines[2][230:]
    path = tmp_path / "r.json"
    path.write_bytes(b"".join([*lines[:2], broken, *lines[3:]]) + b'{"seq":7,"proto')

    post = explain(path)

    nul = next(each for each in post.damage if each.finding.code == "E_NUL_RUN")
    start = len(lines[0]) + len(lines[1])
    assert nul.peek_at == start + 200 - 16
    assert nul.peek == path.read_bytes()[nul.peek_at : nul.peek_at + 48]
    assert post.damage[-1].peek == b'{"seq":7,"proto'


def test_only_so_many_damaged_places_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    first = (FIXTURES / "v3" / "meta-only.json").read_bytes()
    path.write_bytes(first + b"bad\n" * (DAMAGED + 20))

    post = explain(path)

    assert len(post.damage) == DAMAGED
    assert post.more_damage == 20


@pytest.mark.parametrize("size", [0, 1, 40, 300, 900])
def test_any_beginning_of_a_run_is_explained(tmp_path: Path, size: int) -> None:
    path = tmp_path / "r.json"
    path.write_bytes((FIXTURES / "v3" / "completed-two-tools.json").read_bytes()[:size])
    assert explain(path).verdict.safe


def test_arguments_of_any_kind_are_named(tmp_path: Path) -> None:
    line = (FIXTURES / "v3" / "crashed-mid-tool-batch.json").read_bytes().split(b"\n")
    for given in (None, [], [1], {"path": "\x1b[2J\n" * 500}, {"n": 1}, "text"):
        record = json.loads(line[1])
        record["assistant"]["message"]["content"] = [
            {"tool_use": {"id": "t", "name": "\x1b]0;x\x07" * 40, "input": given}}
        ]
        path = tmp_path / "r.json"
        path.write_bytes(line[0] + b"\n" + json.dumps(record).encode() + b"\n")
        try:
            post = explain(path)
        except RefoldError:
            continue
        assert len(post.verdict.sentence) < 800


def test_facts_of_nothing_do_not_fail() -> None:
    path = FIXTURES / "v3" / "crashed-mid-tool-batch.json"
    with RunReader.open(path, hint="fisk-ai") as reader:
        reader.index_all()
        known = msgspec.structs.replace(known_of(reader, facts_of(reader)), state=None)
        assert examine_stopped(known, reader.bytes_at).in_flight == ()


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        demo.make(Path(scratch), NOW)
        TABLE.write_text(table(Path(scratch)))


def test_rewritten_history_stands_at_the_item_whose_bytes_it_begins_in() -> None:
    for path in fixtures():
        post = explain(path)
        with RunReader.open(path, hint="fisk-ai") as reader:
            timeline = reader.index_all()
            ends = [timeline.span(item).end for item in range(timeline.items)]
            for start in range(0, reader.size + 2, 7):
                found = Rewritten(start, start + 1, 1, 1, reader.size, reader.size)
                finding = rewritten_finding(timeline, found)
                first = with_rewritten(post, finding, timeline, reader.bytes_at).damage[0]
                expected = next((item for item, end in enumerate(ends) if end > start), -1)
                assert first.item == expected, (path.name, start)


def test_a_fork_before_a_turn_says_which_results_it_leaves_behind(demo_directory: Path) -> None:
    """Where a turn has results beside the call without one, the model would ask for all of them again."""
    post = explain(next(demo_directory.glob("*/runs/index-photos.json")))
    left = "one result of that turn stays behind, a fork after seq 5 keeps it"
    assert f"fork it after seq 3 (f), before that whole turn: {left}." in post.verdict.safe
    fork = next(action for action in post.actions if action.name == "fork")
    assert (fork.at, fork.left, fork.keeps) == (3, 1, 5)
    assert fork.writes.endswith(f"; {left}")
    with RunReader.open(next(demo_directory.glob("*/runs/index-photos.json"))) as reader:
        point = propose(reader.index_all())
        assert point is not None
        assert point.phrase == f"before the turn whose calls have no result; {left}"
        keeping = reader.timeline.item_at(5)
        assert keeping is not None
        assert reader.timeline.is_legal(keeping)
    alone = explain(next(demo_directory.glob("*/runs/fix-date-parser.json")))
    assert "fork it after seq 6 (f), before that call." in alone.verdict.safe
    assert next(action.left for action in alone.actions if action.name == "fork") == 0
