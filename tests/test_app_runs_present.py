"""What rows, header, top bar and preview say, and that each takes the cells it is given."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.app import safe
from refold.app.lines import Line, cells, plain
from refold.app.present.run_list import Forks, RunList
from refold.app.present.run_preview import NO_FORKS, Details, Verdict, preview, sparkline
from refold.app.present.runs import (
    FIELDS,
    KEYS,
    USUAL,
    Loading,
    RunRows,
    chosen,
    columns,
    counted,
    created,
    middle,
    moment,
    nothing_there,
    top_left,
    top_right,
    updated,
)
from refold.app.safe import Safe
from refold.core.filter import parse_filter
from refold.core.findings import CODES
from refold.core.keeping import Kept
from refold.core.status import STATUSES, StatusName
from refold.core.store.roots import Root, RootReport
from refold.core.summary import RunSummary

NOW = datetime(2026, 7, 24, 15, 30, tzinfo=UTC).timestamp()
NASTY = "漢字 😀👩‍👩‍👧 e\u0301\u0301\u0301\u0301\u0301 \u202eevil\u202c ‮ \x1b[2J \x00\t\n\u200b\ud800 שלום"
TEXT = st.one_of(st.text(max_size=60), st.just(NASTY), st.text(st.characters(), max_size=20))
RUNS = st.builds(
    RunSummary,
    id=TEXT,
    path=TEXT.map(lambda text: f"/runs/{text}"),
    format=st.sampled_from(["refold", "fisk-ai", NASTY]),
    status=st.sampled_from(STATUSES),
    rule=TEXT,
    model=TEXT,
    created=TEXT,
    updated=st.sampled_from([NOW - 5, NOW + 5, NOW + 9e6, -1e20, 1e300, 0.0]),
    size=st.integers(0, 10**13),
    turns=st.integers(0, 10**6),
    calls=st.integers(0, 10**6),
    errors=st.integers(0, 10**6),
    tokens=st.integers(0, 10**12),
    prompt=TEXT,
    problems=st.lists(st.sampled_from([*CODES, NASTY]), max_size=4).map(tuple),
    damaged=st.integers(0, 2000),
    torn=st.booleans(),
    in_flight=st.lists(TEXT, max_size=5).map(tuple),
    last_words=TEXT,
    fork_of=st.one_of(st.just(""), TEXT),
    provider_version=TEXT,
    note=st.one_of(st.just(""), TEXT),
    complete=st.booleans(),
)


def rows(*runs: RunSummary, keys: tuple[str, ...] = USUAL, wanted: str = "") -> RunRows:
    made = RunList()
    for run in runs:
        made.put(run)
    for _ in made.narrow(parse_filter(wanted, NOW)):
        pass
    return RunRows(made, keys, lambda: NOW, UTC)


def row(run: RunSummary, width: int = 118, *, keys: tuple[str, ...] = USUAL, wanted: str = "") -> str:
    return plain(rows(run, keys=keys, wanted=wanted).line(0, width))


def said(
    run: RunSummary,
    width: int = 118,
    height: int = 9,
    known: Details = Details(),  # noqa: B008
    forks: Forks = NO_FORKS,
) -> str:
    lines = preview(run, width, height, NOW, zone=UTC, known=known, forks=forks)
    return "\n".join(plain(line).rstrip() for line in lines)


def roles(line: Line, role: str) -> list[str]:
    return [cell.text.strip() for cell in line if cell.role == role]


@settings(max_examples=200)
@given(RUNS, st.integers(20, 220), st.permutations(KEYS), st.integers(1, len(KEYS)))
def test_every_row_takes_exactly_its_width(run: RunSummary, width: int, keys: list[str], count: int) -> None:
    made = rows(run, keys=tuple(keys[:count]))
    line = made.line(0, width)
    assert sum(safe.width(cell.text) for cell in line) == cells(line) == max(width, cells(line))
    laid = made.columns(width)
    assert sum(column.width + column.gap for column in laid) == cells(line)
    assert all(safe.line(cell.text) == cell.text for cell in line)


@settings(max_examples=200)
@given(RUNS, st.integers(20, 220), st.integers(1, 20))
def test_every_line_of_the_preview_takes_exactly_its_width(run: RunSummary, width: int, height: int) -> None:
    for line in preview(
        run, width, height, NOW, zone=UTC, known=Details((1, 5, 2), 31, Verdict("ask", "ok", run.rule))
    ):
        assert cells(line) == width
        assert all(safe.line(cell.text) == cell.text for cell in line)


@pytest.mark.parametrize(
    ("width", "keys"),
    [
        (58, ["status", "id", "updated", "prompt"]),
        (78, ["status", "id", "turns", "errors", "updated", "prompt"]),
        (118, list(USUAL)),
        (198, list(USUAL)),
    ],
)
def test_narrow_terminals_keep_what_is_needed_most(width: int, keys: list[str]) -> None:
    laid = columns(USUAL, width)
    assert [column.key for column in laid] == keys
    assert sum(column.width + column.gap for column in laid) == width
    prompt = laid[-1]
    assert prompt.width >= 14


def test_columns_can_be_chosen_and_unknown_ones_are_passed_over() -> None:
    assert chosen(["prompt", "size", "colour", "size"]) == ("prompt", "size")
    assert chosen([]) == chosen(["colour"]) == USUAL
    assert [column.key for column in columns(KEYS, 400)] == list(KEYS)
    assert len({field.key for field in FIELDS}) == len(FIELDS)


def test_a_row_says_what_experience_promises() -> None:
    run = RunSummary(
        id="fix-add",
        path="/r/fix-add.json",
        format="fisk-ai",
        status="crashed",
        model="claude-opus-4-8",
        updated=NOW - 3600,
        turns=3,
        calls=15,
        errors=1,
        tokens=412_000,
        prompt="Fix add()\nso the test passes.",
        damaged=2,
        in_flight=("shell",),
    )
    text = row(run)
    assert text.startswith("✗ crashed ⚠ 2    fix-add            fisk-ai  claude-opus-4-8 ")
    assert "1h ago  1 in flight · Fix" in text
    line = rows(run).line(0, 118)
    assert roles(line, "problem") == ["✗", "crashed", "⚠ 2", "1"]


@pytest.mark.parametrize("format_", ["fisk-ai", "refold", "rivumi"])
@pytest.mark.parametrize("width", [58, 78, 118, 158, 198])
def test_what_is_in_flight_is_said_however_long_the_id_is(width: int, format_: str) -> None:
    long = "7f3c2a9e4b1d4c0f9a6be85d2b90c1e374"
    crashed = RunSummary(
        id=long, path="/r", format=format_, status="crashed", prompt="Fix add()", in_flight=("a", "b")
    )
    line = rows(crashed).line(0, width)
    assert "2 in flight" in roles(line, "warn")
    assert "7f3c2" in plain(line), "the id can still be told"
    beside = plain(line).index("2 in flight") < plain(line).index("ago")
    assert beside == (width > 120), "at one width it stands in one place for all"
    short = rows(msgspec.structs.replace(crashed, id="a")).line(0, width)
    assert (plain(short).index("2 in flight") < plain(short).index("ago")) == beside
    without = row(crashed, width, keys=("id",))
    assert "2 in flight" in without


def test_damage_keeps_its_count_beside_the_longest_status() -> None:
    text = row(RunSummary(id="a", path="/a", status="max-iterations", damaged=12))
    assert text.startswith("■ max-iter… ⚠ 12 a ")


def test_a_fork_is_marked() -> None:
    assert " ψ" in row(RunSummary(id="child", path="/c", status="ready", fork_of="parent"))


@pytest.mark.parametrize("noted", [False, True])
def test_where_there_is_room_a_fork_names_its_parent_before_the_prompt_of_both(noted: bool) -> None:
    kept = Kept(fork_of="3MqGT45w9QhVAxv4SGKRdE66WHD") if noted else Kept()
    parent = "" if noted else "3MqGT45w9QhVAxv4SGKRdE66WHD"
    fork = RunSummary(id="child", path="/c", status="ready", prompt="Fix add()", fork_of=parent, kept=kept)
    assert row(fork, 198).rstrip().endswith("ψ of 3MqGT45w9Q…KRdE66WHD · Fix add()")
    narrow = row(fork, 118)
    assert "child ψ" in narrow
    assert narrow.rstrip().endswith("Fix add()")
    assert "3MqG" not in narrow


def test_noted_records_are_counted_in_the_row() -> None:
    assert "a ▪3 " in row(RunSummary(id="a", path="/a", status="crashed", kept=Kept(records=3)))
    assert "a ▪ " in row(RunSummary(id="a", path="/a", status="crashed", kept=Kept(note="why")))


def test_the_preview_says_where_a_run_comes_from_and_what_came_of_it() -> None:
    run = RunSummary(id="a", path="/a", status="crashed", fork_of="older")
    text = said(run, 100, known=Details(forked_at=6, fork_points=1_204), forks=Forks(2, ("b", "c")))
    assert "Lineage     parent ψ older up to seq 6 · forks 2: b, c · fork points 1,204" in text
    noted = RunSummary(id="a", path="/a", status="crashed", kept=Kept(fork_of="older", fork_at=4))
    assert "parent ψ older up to seq 4 · forks – · fork points 0" in said(
        noted, 78, known=Details(fork_points=0)
    )
    assert "Kept" not in said(noted, 78)
    many = said(
        run, 78, known=Details(fork_points=7), forks=Forks(900, tuple(f"fork-number-{n}" for n in range(8)))
    )
    line = next(line for line in many.split("\n") if line.startswith("Lineage"))
    assert "forks 900: fork-number-0" in line
    assert line.endswith("fork points 7")


def test_the_forks_of_a_run_are_known_while_rows_come_change_and_go() -> None:
    runs = RunList()
    parent, other = RunSummary(id="a", path="/a"), RunSummary(id="b", path="/b", fork_of="gone")
    for each in (RunSummary(id="z", path="/z", fork_of="a"), other, parent):
        runs.put(each)
    runs.put(RunSummary(id="c", path="/c", kept=Kept(fork_of="a")))
    runs.put(RunSummary(id="a", path="/elsewhere/a", fork_of="a"))
    assert runs.forks(parent) == (3, ("a", "c", "z"))
    assert runs.forks(RunSummary(id="a", path="/elsewhere/a")) == (2, ("c", "z"))
    runs.put(RunSummary(id="z", path="/z"))
    runs.drop("/elsewhere/a")
    assert runs.forks(parent) == (1, ("c",))
    runs.drop("/c")
    assert runs.forks(parent) == NO_FORKS
    for number in range(2_000):
        runs.put(RunSummary(id=f"f{number}", path=f"/f{number}", fork_of="a"))
    assert runs.forks(parent).total == 2_000
    assert len(runs.forks(parent).named) == 8


def test_counters_that_are_not_known_are_not_shown_as_zero() -> None:
    loading = row(RunSummary(id="a", path="/a", status="crashed", complete=False))
    assert loading.count("⋯") == 4
    newer = row(RunSummary(id="a", path="/a", status="newer", rule="written as version 4"))
    assert newer.count("–") == 5
    assert "written as" in newer


def test_a_run_that_cannot_be_read_gives_its_reason() -> None:
    text = row(RunSummary(id="a", path="/a", status="unreadable", note="not permitted to read it"), 150)
    assert "not permitted" in text


def test_long_ids_are_cut_in_the_middle() -> None:
    assert middle(Safe("2JfKqX8w1m4n6p8r9s0t2u4v9dQ"), 11) == "2JfKq…4v9dQ"
    assert middle(Safe("漢字漢字漢字"), 6) == "漢…字"
    assert middle(Safe("short"), 11) == "short"
    assert middle(Safe("abc"), 1) == "…"
    assert middle(Safe("abc"), 0) == ""


@settings(max_examples=200)
@given(TEXT, st.integers(0, 30))
def test_the_middle_cut_never_takes_more_than_its_cells(text: str, width: int) -> None:
    assert safe.width(middle(safe.line(text), width)) <= width


def test_the_time_of_a_file_is_an_age_or_a_moment_never_a_guess_about_the_future() -> None:
    def at(seconds: float) -> str:
        return updated(RunSummary(id="a", path="/a", updated=seconds), NOW, UTC)

    assert at(NOW - 2) == "2s ago"
    assert at(NOW + 0.5) == "0s ago"
    assert at(NOW - 40 * 86_400) == "40d ago"
    assert at(NOW + 7200) == "17:30:00"
    assert at(NOW + 86_400) == "2026-07-25"
    assert at(1e300) == "far ahead"
    assert moment(1e300) == "beyond any calendar"
    assert moment(NOW, UTC) == "2026-07-24 15:30:00 UTC"


def test_recorded_times_with_nine_digits_are_read_and_nonsense_is_shown() -> None:
    assert created("2026-07-24T10:00:00.123456789Z", UTC) == "2026-07-24 10:00"
    assert created("2026-07-24T10:00:00.123456789+02:00", UTC) == "2026-07-24 08:00"
    assert created("soon\x1b") == "soon␛"
    assert created("") == "–"


def test_words_of_the_filter_stand_out_in_id_and_prompt() -> None:
    run = RunSummary(id="fix-add", path="/f", status="completed", prompt="Please FIX it")
    line = rows(run, wanted="fix").line(0, 118)
    assert roles(line, "match") == ["fix", "FIX"]


def test_the_preview_names_what_nobody_can_know() -> None:
    run = RunSummary(
        id="fix-add",
        path="/runs/fix-add.json",
        format="fisk-ai",
        status="crashed",
        rule="ends without a terminal record; no holder seen from here",
        model="opus",
        updated=NOW - 60,
        size=12_345,
        turns=3,
        calls=5,
        errors=1,
        tokens=21_000,
        prompt="Fix add()",
        problems=("E_GLUED", "E_TORN_TAIL"),
        damaged=1,
        torn=True,
        in_flight=("shell", "shell", "read_file"),
        last_words="I will edit it now.",
        fork_of="parent-1",
        provider_version="fisk-ai v3",
        created="2026-07-24T10:00:00Z",
    )
    text = said(run, 130, known=Details((1, 1, 8), 31))
    assert "✗ crashed  ends without a terminal record; no holder seen from here" in text
    assert "In flight   shell ×2, read_file  no result recorded: outcome unknown" in text
    assert "⚠ 1 damaged place · torn tail: 31 bytes, as a crash leaves it · records glued on one" in text
    assert "E_TORN_TAIL" not in text
    assert "21k in 3 turns · 5 calls · 1 error   ▁▁█ tokens a turn" in text
    assert "Prompt      Fix add()" in text
    assert "Last words  I will edit it now." in text
    assert "fix-add · fisk-ai v3 · opus · created 2026-07-24 10:00" in text
    assert "Lineage     parent ψ parent-1 · forks – · fork points –" in text
    assert "/runs/fix-add.json · 12.3 KB · file changed 1m ago, 2026-07-24 15:29:00 UTC" in text


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("running", "no result yet"),
        ("budget", "Withheld    shell"),
        ("max-iterations", "before this was allowed to run"),
        ("crashed", "outcome unknown"),
        ("suspended", "outcome unknown"),
        ("failed", "outcome unknown"),
    ],
)
def test_calls_in_flight_are_judged_by_how_the_run_stands(status: StatusName, outcome: str) -> None:
    run = RunSummary(id="a", path="/a", status=status, in_flight=("shell",))
    assert outcome in said(run)


def test_the_preview_does_not_say_in_five_hours() -> None:
    text = said(RunSummary(id="a", path="/a", updated=NOW + 18_000))
    assert "file changed 2026-07-24 20:30:00 UTC, which our clock has not reached" in text
    assert "ago" not in text


def test_a_torn_tail_alone_is_named_and_not_counted() -> None:
    text = said(RunSummary(id="a", path="/a", status="crashed", torn=True, problems=("E_TORN_TAIL",)))
    assert "Problems    torn tail, as a crash leaves it" in text
    assert "⚠" not in text
    assert "⚠" not in row(RunSummary(id="a", path="/a", status="crashed", torn=True))


def test_a_long_prompt_takes_what_the_rest_leaves() -> None:
    run = RunSummary(id="a", path="/a", status="completed", prompt="word " * 200, last_words="bye")
    assert len(said(run, 60, 8).split("\n")) <= 8
    assert len(said(run, 60, 14).split("\n")) > len(said(run, 60, 8).split("\n"))


def test_a_sparkline_is_as_long_as_its_values() -> None:
    assert sparkline((0, 1, 7)) == "▁▂█"
    assert sparkline((5,)) == "█"
    assert sparkline((0, 0)) == sparkline(()) == ""


def test_the_top_bar_counts_and_says_the_mode() -> None:
    done = Loading(finished=True)
    assert plain(top_left(148, 3, done, "watching")) == "148 runs · 3 directories   ● watching"
    assert plain(top_left(1, 1, done, "polling")) == "1 run · 1 directory   ⚠ polling"
    assert (
        plain(top_left(50, 3, Loading(312, 1024), "watching"))
        == "50 runs · 3 directories   reading 312 of 1,024 …"
    )
    assert plain(top_left(0, 0, Loading(), "")) == "0 runs · 0 directories   reading …"


def test_a_filter_always_says_how_many_it_hides() -> None:
    made = RunList()
    for name in "abc":
        made.put(RunSummary(id=name, path=f"/{name}"))
    assert top_right(made) == ()
    for _ in made.narrow(parse_filter("a", NOW)):
        pass
    assert counted(made) == "1 of 3 · 2 hidden"
    assert plain(top_right(made, "searched 1 of 3")).startswith("/ a ")
    assert plain(top_right(made, "searched 1 of 3")).endswith("  searched 1 of 3 · 1 of 3 · 2 hidden")
    for _ in made.narrow(parse_filter("b status:unreadable,crashed,suspended", NOW)):
        pass
    assert plain(top_right(made, room=40)) == "/ b status:unreadabl…  1 of 3 · 2 hidden"


def test_an_empty_list_says_where_it_looked_and_why_there_is_nothing() -> None:
    home = Root(Path("/home/x/runs"), "refold", "default")
    given = Root(Path("/data\x1b"), "refold", "--root")
    reports = [
        RootReport(home, "missing", detail="it does not exist"),
        RootReport(given, "not-permitted", detail="not permitted"),
    ]
    text = "\n".join(map(plain, nothing_there(reports)))
    assert "/home/x/runs\n    it does not exist" in text
    assert "/data␛  (--root)\n    not permitted" in text
    assert "refold demo" in text


@pytest.mark.parametrize(
    ("outcome", "words"), [("accept", "can go on"), ("ask", "needs a decision"), ("refuse", "refused")]
)
def test_the_preview_says_whether_a_run_can_go_on_and_what_its_own_program_answers(
    outcome: str, words: str
) -> None:
    known = Details(verdict=Verdict(outcome, "in_flight_side_effect", "call_1 was started"))
    text = said(RunSummary(id="a", path="/a", status="crashed", format="rivumi"), known=known)
    line = next(line for line in text.split("\n") if line.startswith("Resume"))
    assert f"{words} · call_1 was started · its own program: in_flight_side_effect" in line
    final = Details(verdict=Verdict(outcome, "in_flight_side_effect", "call_1 was started", final=True))
    text = said(RunSummary(id="a", path="/a", status="crashed", format="rivumi"), known=final)
    assert "its own program refuses it: in_flight_side_effect · call_1 was started" in text


def test_the_preview_says_why_a_run_leads_nowhere() -> None:
    run = RunSummary(id="a", path="/a", status="failed", barred="the model refused, and nothing follows it")
    assert "Resume      refused · the model refused, and nothing follows it" in said(run)
    completed = RunSummary(id="a", path="/a", status="completed", barred="the run is completed")
    assert "Resume" not in said(completed)
