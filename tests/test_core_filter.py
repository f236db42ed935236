"""What a filter lets through, and what it says about a filter it cannot understand."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.core.filter import KEYS, FilterError, haystack, parse_filter, settled
from refold.core.status import STATUSES, StatusName
from refold.core.summary import RunSummary

NOW = datetime(2026, 7, 24, 15, 30, tzinfo=UTC).timestamp()
DAY = 86_400

RUN = RunSummary(
    id="Fix-Add",
    path="/runs/Fix-Add.json",
    format="fisk-ai",
    status="crashed",
    model="claude-opus-4-8",
    updated=NOW - 3 * 3600,
    errors=2,
    turns=7,
    calls=9,
    tokens=120_000,
    prompt="Rename the notes, by date",
    problems=("E_GLUED", "E_TORN_TAIL"),
    damaged=1,
    torn=True,
    tools=("read_file", "shell"),
    fork_of="nightly-0712",
)
CLEAN = RunSummary(
    id="clean", path="/runs/clean.json", format="refold", status="completed", updated=NOW - 9 * DAY
)


def matches(text: str, run: RunSummary = RUN) -> bool:
    return parse_filter(text, NOW, zone=UTC).matches(run)


def fault_of(text: str) -> FilterError | None:
    try:
        parse_filter(text, NOW, zone=UTC).matches(RUN)
    except FilterError as error:
        return error
    return None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "fix",
        "FIX notes",
        '"the notes, by"',
        "notes,",
        "status:crashed",
        "STATUS:crashed",
        "status:crash",
        "status:completed,crashed",
        "status:crashed,",
        "-status:completed",
        "agent:fisk",
        "model:Opus",
        'model:"opus-4"',
        "tool:read",
        "tool:bash,shell",
        "resume:yes",
        "-resume:no",
        "uncertain:no",
        "-uncertain:yes",
        "error:yes",
        "-error:no",
        "problem:yes",
        "problem:glued",
        "problem:E_GLUED",
        "problem:torn",
        "after:4h",
        "after:today",
        "after:2026-07-24",
        "after:2026-07",
        "after:2026",
        "after:12:30",
        "after:9:30:00",
        "after:2026-07-24T12:30",
        "after:2026-07-24T12:30Z",
        "after:2026-07-24T14:30+02:00",
        "after:1d12h",
        "before:2h",
        "before:2026-07-25",
        "-before:yesterday",
        "fork:yes",
        "fork:nightly",
        "-completed",
        '-"no such phrase"',
        'fi"x-a"dd',
        "after:yesterday before:1h status:crashed rename",
        "tokens>100k",
        "tokens>=120000 tokens<=120k -tokens<0.1M",
        "Turns=7 errors>1 calls<1k",
        "-turns>7",
    ],
)
def test_lets_the_run_through(text: str) -> None:
    assert matches(text)


@pytest.mark.parametrize(
    "text",
    [
        "clean",
        "fix completed",
        '"notes the"',
        "status:completed",
        "status:completed,suspended",
        "-status:crashed",
        "agent:rivumi",
        "model:gpt",
        "tool:bash",
        "-tool:bash,shell",
        "error:no",
        "problem:no",
        "problem:spliced",
        "-problem:torn",
        "after:2h",
        "after:12:31",
        "before:2026-07-24",
        "before:4h",
        "fork:no",
        "-fork:nightly",
        "-rename",
        '-"the notes"',
        "tokens>120k",
        "turns<7",
        "errors=0",
        "-calls>8",
        "tokenz>5",
    ],
)
def test_holds_the_run_back(text: str) -> None:
    assert not matches(text)


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("fix colour:red", 4, "there is no key colour:"),
        ("-x:y", 1, "there is no key x:"),
        ("statsu:crashed", 0, "there is no key statsu:; did you mean status:?"),
        ("status:crahsed", 7, "no status begins with “crahsed”; did you mean crashed?"),
        ("http://x", 0, "there is no key http:"),
        ('fix "open', 4, "this quote is not closed"),
        ('model:"opus', 6, "this quote is not closed"),
        ("status:", 0, "status: needs a value"),
        ("a status:,", 2, "status: needs a value"),
        ("status:crashed,lost", 7, "no status begins with “lost”"),
        ("error:perhaps", 6, "error: is yes or no, not “perhaps”"),
        ("after:soon", 6, "“soon” is no date or time"),
        ("after:2026-13-01", 6, "“2026-13-01” is no date or time"),
        ("after:25:00", 6, "“25:00” is no date or time"),
        ("after:9999999w", 6, None),
        ("after:1d,2d", 6, "after: takes one date"),
        ("fix -", 4, "nothing to look for here"),
        ('""', 0, "nothing to look for here"),
        ("text:", 0, "text: needs a value"),
        ("fix tokens>lots", 11, "“lots” is no number"),
        ("tokens>", 0, "tokens> needs a value"),
        ("tokens:5", 0, "tokens is a number"),
    ],
)
def test_says_what_is_wrong_and_where(text: str, position: int, message: str | None) -> None:
    if message is None:
        assert matches(text)
        return
    with pytest.raises(FilterError) as caught:
        parse_filter(text, NOW, zone=UTC)
    assert str(caught.value) == message
    assert caught.value.position == position
    assert caught.value.remedy
    assert 0 < caught.value.length <= len(text) - position


def test_every_example_of_a_key_is_a_filter() -> None:
    for examples in KEYS.values():
        for example in examples.replace(" or ", ", ").split(", "):
            parse_filter(example.removesuffix(" of the parent"), NOW)


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_has_its_filter(status: StatusName) -> None:
    run = RunSummary(id="x", path="/x", status=status)
    assert matches(f"status:{status}", run)
    assert not matches(f"-status:{status}", run)


def test_runs_without_damage_and_without_parent() -> None:
    assert matches("problem:no fork:no error:no", CLEAN)
    assert not matches("problem:yes", CLEAN)
    assert not matches("fork:yes", CLEAN)


@pytest.mark.parametrize("status", STATUSES)
def test_what_can_be_resumed_has_begun_and_stopped_before_its_end(status: StatusName) -> None:
    run = RunSummary(id="x", path="/x", status=status)
    stopped = status not in {"running", "completed", "unreadable", "empty", "newer"}
    assert matches("resume:yes", run) == stopped
    assert not matches("resume:yes", msgspec.structs.replace(run, barred="its records do not fold"))


@pytest.mark.parametrize("status", STATUSES)
def test_a_call_may_have_run_in_every_run_that_stopped_with_it(status: StatusName) -> None:
    """However it stopped: but not where nothing ran yet, or where the stop kept the call from running."""
    run = RunSummary(id="x", path="/x", status=status, format="refold", in_flight=("send_mail",))
    sure = {"running", "ready", "completed", "unreadable", "empty", "newer"}
    assert matches("uncertain:yes", run) == (status not in sure | {"budget", "max-iterations"})
    assert not matches("uncertain:yes", msgspec.structs.replace(run, in_flight=()))
    started = msgspec.structs.replace(run, format="rivumi")
    assert matches("uncertain:yes", started) == (status not in sure)


def test_a_run_that_cannot_be_read_is_a_problem() -> None:
    assert matches("problem:yes", RunSummary(id="x", path="/x", note="permission denied"))


def test_dates_count_in_the_given_zone() -> None:
    west = timezone(timedelta(hours=-8))
    midnight_there = parse_filter("after:today", NOW, zone=west)
    just_before = RunSummary(id="x", path="/x", updated=datetime(2026, 7, 24, 7, 59, tzinfo=UTC).timestamp())
    just_after = RunSummary(id="x", path="/x", updated=datetime(2026, 7, 24, 8, 0, tzinfo=UTC).timestamp())
    assert not midnight_there.matches(just_before)
    assert midnight_there.matches(just_after)


def test_text_terms_are_left_to_a_search_of_the_bytes() -> None:
    found = parse_filter('fix text:"no such file",ENOENT -text:ok', NOW)
    assert [([s.query for s in term.searches], term.negated) for term in found.text] == [
        (["no such file", "ENOENT"], False),
        (["ok"], True),
    ]
    assert found.matches(RUN)
    assert found.words == ("fix",)


def test_an_empty_filter_is_false() -> None:
    assert not parse_filter(" ", NOW)
    assert parse_filter("a", NOW)
    assert parse_filter("text:a", NOW)


@pytest.mark.parametrize(
    ("typed", "applied"),
    [
        ("sta", ""),
        ("fix sta", "fix "),
        ("fix -Mod", "fix "),
        ("status", ""),
        ("status ", "status "),
        ("status:cr", "status:cr"),
        ("statute", "statute"),
        ('"sta', '"sta'),
        ("a.e", "a.e"),
        ("fix tok", "fix "),
        ("", ""),
    ],
)
def test_a_word_that_may_become_a_key_waits(typed: str, applied: str) -> None:
    assert settled(typed) == applied


@given(st.text(max_size=40))
def test_any_text_is_a_filter_or_an_error_inside_it(text: str) -> None:
    fault = fault_of(text)
    assert fault is None or 0 <= fault.position < fault.position + fault.length <= len(text)


@given(st.text(min_size=1, max_size=20).filter(lambda word: not word.isspace()), st.text(max_size=9))
def test_a_quoted_phrase_is_taken_literally(phrase: str, before: str) -> None:
    quoted = phrase.replace("\\", "\\\\").replace('"', '\\"')
    found = parse_filter(f'"{quoted}"', NOW)
    assert found.matches(RunSummary(id="x", path="/x", prompt=before + phrase))
    assert found.words == (phrase.casefold(),)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["fix", "status:crashed", "-model:gpt", "after:2d", "error:no"]), max_size=5))
def test_terms_join_by_and_in_any_order(terms: list[str]) -> None:
    assert matches(" ".join(terms)) is all(matches(term) for term in terms)
    assert matches(" ".join(reversed(terms))) is matches(" ".join(terms))


def test_ten_thousand_runs_pass_a_filter_in_less_than_a_key_takes() -> None:
    runs = [
        RunSummary(id=f"run-{n}", path=f"/{n}", prompt="summarise open payments " * 8) for n in range(10_000)
    ]
    folded = [haystack(run) for run in runs]
    wanted = parse_filter('run-99 "payments summ" -status:crashed after:1000w', NOW)
    best = min(_seconds(wanted.matches, runs, folded) for _ in range(3))
    assert best < 0.05


def _seconds(test: object, runs: list[RunSummary], folded: list[str]) -> float:
    assert callable(test)
    start = time.process_time()
    assert sum(map(test, runs, folded)) == 0
    return time.process_time() - start
