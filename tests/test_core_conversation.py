"""Conversations: folded to turns, listed newest first, and forked before a prompt."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conversation_story import CHAT, chat, events_of, hexed, manifest_of, put_events, put_manifest
from tests.terminal.program import run as run_program
from tests.terminal.program import without_privileges
from tests.test_readonly import picture

from refold.core.errors import AmbiguousRun, RunExists, RunNotFound, StoreError
from refold.core.repair import PlanOutdated
from refold.core.rivumi.conversation import (
    Conversation,
    conversation_json,
    find_turn,
    fold_conversation,
    matches,
)
from refold.core.rivumi.conversation_fork import NoFork, fork_json
from refold.core.store import conversations, files
from refold.core.store.conversations import (
    carry_out_fork,
    find_conversation,
    in_order,
    list_conversations,
    load_conversation,
    plan_fork_before,
)
from refold.core.store.roots import Root

TURNS = (
    ("Fix add()", "I will |fix it.", "completed"),
    ("Now the tests", "", "failed"),
    ("And docs", "Done.", "completed"),
)


def roots(*directories: Path) -> list[Root]:
    return [Root(directory, "rivumi", "default") for directory in directories]


def test_a_conversation_is_folded_to_its_turns(tmp_path: Path) -> None:
    found = load_conversation(chat(tmp_path, *TURNS))
    assert (found.refusal, found.ahead, found.torn, found.damaged) == ("", False, False, 0)
    assert [(turn.number, turn.prompt, turn.reply, turn.end, turn.why) for turn in found.turns] == [
        (1, "Fix add()", "I will fix it.", "completed", ""),
        (2, "Now the tests", "", "failed", "429 from upstream"),
        (3, "And docs", "Done.", "completed", ""),
    ]
    assert (found.completed, found.last_sequence, found.open_turn) == (2, 9, None)
    assert (found.label, found.runtime) == ("Fix the parser", "rivumi-agent")
    shown = conversation_json(found, "/c", turns=True)
    assert (shown["turns"], shown["completed"], shown["model"], shown["refusal"]) == (3, 2, None, None)
    assert json.loads(json.dumps(shown))["conversation"][1]["why"] == "429 from upstream"


def test_without_a_title_the_id_is_the_label(tmp_path: Path) -> None:
    found = load_conversation(chat(tmp_path, title=" "))
    assert found.label == CHAT[:12]
    assert (found.turns, found.refusal) == ((), "")


def test_an_open_turn_and_a_log_one_ahead(tmp_path: Path) -> None:
    run = chat(tmp_path, ("One", "Half", ""))
    found = load_conversation(run)
    assert found.open_turn is not None
    assert (found.open_turn.reply, found.open_turn.end, found.refusal) == ("Half", "", "")
    events = [*events_of(run), {"event_type": "turn.completed", "turn_id": hexed(1)}]
    put_events(run, [{k: v for k, v in e.items() if k != "sequence"} for e in events])
    found = load_conversation(run)
    assert (found.ahead, found.refusal, found.open_turn) == (True, "", None)


def test_a_changed_context(tmp_path: Path) -> None:
    run = chat(tmp_path, TURNS[0], runtime="codex-cli", model="gpt-5")
    events = events_of(run)
    put_events(
        run,
        [
            events[0],
            {"event_type": "context.changed", "runtime": "claude-code"},
            {"event_type": "context.compacted", "text": "so far"},
            *[{k: v for k, v in e.items() if k != "sequence"} for e in events[1:]],
            {"event_type": "context.changed", "runtime": "codex-cli", "model_override": "gpt-5"},
        ],
    )
    put_manifest(run, {**manifest_of(run), "last_event_sequence": 7})
    assert load_conversation(run).refusal == ""
    put_manifest(run, {**manifest_of(run), "runtime": "pi"})
    assert "another runtime" in load_conversation(run).refusal


def event(place: int, **change: Any) -> Callable[[Path], None]:
    def edit(run: Path) -> None:
        events = events_of(run)
        events[place].update(change)
        put_events(run, [{k: v for k, v in e.items() if v != "gone"} for e in events])

    return edit


def manifest(**change: Any) -> Callable[[Path], None]:
    return lambda run: put_manifest(run, {**manifest_of(run), **change})


def _bytes(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def edit(run: Path) -> None:
        (run / name).write_bytes(change((run / name).read_bytes()))

    return edit


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "gap": (event(4, sequence=9), "has sequence 9, not 4"),
    "of another": (event(2, conversation_id="b" * 32), "of another conversation"),
    "unknown key": (event(2, extra=1), "does not know"),
    "unknown type": (event(2, event_type="assistant.thought"), "unknown type"),
    "created twice": (event(2, event_type="conversation.created", turn_id=None, text=None), "stand first"),
    "not created": (event(0, event_type="context.compacted", text="x"), "stand first"),
    "overlap": (event(2, event_type="user.message", text="again"), "overlap"),
    "no reply": (
        _bytes("events.jsonl", lambda data: data.replace(b"assistant.chunk", b"context.compacted")),
        "has members of another type",
    ),
    "other turn": (event(4, turn_id=hexed(77)), "belongs to no open turn"),
    "no turn": (event(4, turn_id=None), "lacks one"),
    "blank text": (event(2, text=""), "blank"),
    "long text": (event(2, text="x" * 16_001), "longer than 16000"),
    "nul": (event(2, text="a\0b"), "NUL"),
    "bad id": (event(2, event_id="XY"), "event_id is no id"),
    "reason": (event(6, reason="a\nb"), "reason is not printable"),
    "torn": (_bytes("events.jsonl", lambda data: data[:-1]), "no line end"),
    "cut": (_bytes("events.jsonl", lambda data: data[:-40]), "line 10: "),
    "blank line": (_bytes("events.jsonl", lambda data: data + b"\n"), "line 11 is empty"),
    "not JSON": (_bytes("events.jsonl", lambda data: b"{]\n" + data), "line 1: "),
    "empty": (_bytes("events.jsonl", lambda data: b""), "holds no event"),
    "long line": (
        _bytes("events.jsonl", lambda data: data[:-2] + b" " * 131_073 + data[-2:]),
        "longer than 128 KiB",
    ),
    "manifest behind two": (manifest(last_event_sequence=7), "another last event"),
    "manifest ahead": (manifest(last_event_sequence=10), "another last event"),
    "turns": (manifest(turn_count=3), "counts other turns"),
    "active": (manifest(active_turn_id=hexed(3)), "another open turn"),
    "runtime": (manifest(runtime=""), "names no runtime"),
    "title": (manifest(title="x" * 201), "at most 200"),
    "model": (manifest(model_override="a\tb"), "no printable name"),
    "version": (manifest(schema_version=2), "another version"),
    "manifest key": (manifest(session="x"), "does not know"),
    "manifest of another": (manifest(conversation_id="b" * 32), "conversation.json is of another"),
    "manifest odd": (manifest(turn_count="2"), "turn_count is no whole number"),
    "manifest torn": (_bytes("conversation.json", lambda data: data[:50]), "conversation.json: "),
    "manifest list": (_bytes("conversation.json", lambda data: b"[]"), "conversation.json: "),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_the_original_would_not_load_is_shown_with_its_reason(kind: str, tmp_path: Path) -> None:
    change, words = REFUSED[kind]
    run = chat(tmp_path, *TURNS)
    change(run)
    found = load_conversation(run)
    assert words in found.refusal
    assert found.turns or kind == "empty" or kind.startswith("no")
    good = load_conversation(chat(tmp_path / "good", *TURNS))
    with pytest.raises(NoFork, match="would not load") as refused:
        plan_fork_before(run, good.turns[1])
    assert refused.value.remedy


def test_files_that_are_none(tmp_path: Path) -> None:
    run = chat(tmp_path / "a", *TURNS)
    (run / "events.jsonl").rename(run / "moved")
    assert "missing" in load_conversation(run).refusal
    (run / "events.jsonl").symlink_to("moved")
    assert "a symbolic link" in load_conversation(run).refusal
    (run / "events.jsonl").unlink()
    os.mkfifo(run / "events.jsonl")
    assert "events.jsonl: it is a named pipe" in load_conversation(run).refusal
    (tmp_path / "link").symlink_to(run)
    assert "a symbolic link" in load_conversation(tmp_path / "link").refusal
    assert load_conversation(tmp_path / "gone").refusal


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_no_bytes_are_too_strange(manifest_bytes: bytes, log: bytes) -> None:
    found = fold_conversation(CHAT, manifest_bytes, log)
    assert found.refusal
    json.dumps(conversation_json(found, "/c", turns=True))


def names(listed: list[conversations.Listed]) -> list[str]:
    return [one.conversation.name[:2] for one in listed]


def test_the_list_is_that_of_the_original_and_what_it_leaves_out(tmp_path: Path) -> None:
    first, second = tmp_path / "rivumi", tmp_path / "looplane"
    for minute, name in ((3, "aa"), (9, "bb"), (1, "cc")):
        chat(first, *TURNS, name=name * 16, minute=minute, title=f"title {name}")
    chat(second, ("Übung", "ok", "completed"), name="dd" * 16, minute=5)
    broken = chat(first, name="ee" * 16, minute=7)
    (broken / "events.jsonl").write_bytes(b"")
    trash = chat(first / ".trash", name="ff" * 16)
    (first / "nothing").mkdir()
    (first / "file").touch()
    listed = in_order(
        [one for one in list_conversations(roots(first, second, first, tmp_path / "no")) if one]
    )
    assert names(listed) == ["bb", "ee", "dd", "aa", "cc"]
    assert [bool(one.conversation.refusal) for one in listed] == [False, True, False, False, False]
    assert trash.exists()
    assert [
        one.conversation.name[:2] for one in listed if matches(one.conversation, "TITLE bb", one.hay)
    ] == ["bb"]
    assert [one.conversation.name[:2] for one in listed if matches(one.conversation, "übung")] == ["dd"]
    assert all(matches(one.conversation, "") for one in listed)


@pytest.mark.skipif(sys.platform != "linux", reason="holders are known from /proc")
def test_a_held_conversation_is_marked(tmp_path: Path) -> None:
    run = chat(tmp_path, *TURNS)
    with (run / ".writer.lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert [one.held for one in list_conversations(roots(tmp_path)) if one] == [True]
    assert [one.held for one in list_conversations(roots(tmp_path)) if one] == [False]


def test_a_conversation_is_found_by_id_beginning_path_and_last(tmp_path: Path) -> None:
    one = chat(tmp_path / "a", *TURNS, name="ab" * 16, minute=1)
    two = chat(tmp_path / "a", *TURNS, name="ac" * 16, minute=2)
    chat(tmp_path / "a", name="ad" * 16, minute=3, turn_count=9)
    where = roots(tmp_path / "a")
    assert find_conversation("ab" * 16, where) == one
    assert find_conversation("ac", where) == two
    assert find_conversation(str(one / "conversation.json"), []) == one
    assert find_conversation("last", where) == two
    with pytest.raises(AmbiguousRun) as many:
        find_conversation("a", where)
    assert len(many.value.candidates) == 3
    for text in ("zz", "", "./nowhere", "a\0b/"):
        with pytest.raises(RunNotFound):
            find_conversation(text, where)


def test_a_turn_is_found_by_number_and_id(tmp_path: Path) -> None:
    found = load_conversation(chat(tmp_path, *TURNS))
    assert [find_turn(found, text) for text in ("2", hexed(2), "0", "4", "zz", "")] == [
        found.turns[1], found.turns[1], None, None, None, None,
    ]  # fmt: skip
    assert find_turn(found, "0000") is None


def test_a_fork_holds_what_stood_before_the_prompt(tmp_path: Path) -> None:
    run = chat(tmp_path, *TURNS, title="Fix é", model="gpt-5")
    before = picture(run)
    source = load_conversation(run)
    plan = plan_fork_before(run, source.turns[2])
    assert set(os.listdir(tmp_path)) == {run.name}  # noqa: PTH208 - names are compared
    made = carry_out_fork(run, plan)
    assert picture(run) == before
    child = load_conversation(made)
    assert (child.refusal, child.title, child.model, child.runtime) == ("", "", "gpt-5", "rivumi-agent")
    assert [turn.prompt for turn in child.turns] == ["Fix add()", "Now the tests"]
    assert made.name == plan.conversation_id != run.name
    theirs, ours = events_of(run)[:7], events_of(made)
    assert [e["event_id"] for e in ours] == [e["event_id"] for e in theirs]
    assert {e["conversation_id"] for e in ours} == {made.name}
    assert [{**e, "conversation_id": run.name} for e in ours] == theirs
    assert list(ours[1]) == [
        "schema_version", "conversation_id", "sequence", "event_id", "event_type", "turn_id", "text",
        "created_at",
    ]  # fmt: skip
    claims = manifest_of(made)
    assert (claims["turn_count"], claims["last_event_sequence"], claims["active_turn_id"]) == (1, 6, None)
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in made.iterdir()} == {0o600}
    shown = fork_json(plan, str(made), made=True)
    assert (shown["turn"], shown["prompt"], shown["events"], shown["turns"]) == (3, "And docs", 7, 2)


def test_a_fork_before_the_first_prompt_is_an_empty_conversation(tmp_path: Path) -> None:
    run = chat(tmp_path, *TURNS)
    made = carry_out_fork(run, plan_fork_before(run, load_conversation(run).turns[0]))
    child = load_conversation(made)
    assert (child.turns, child.last_sequence, child.refusal) == ((), 0, "")


def test_no_fork_of_what_is_open_or_ahead(tmp_path: Path) -> None:
    run = chat(tmp_path, *TURNS, ("Go on", "", ""))
    with pytest.raises(NoFork, match="turn 4 is open"):
        plan_fork_before(run, load_conversation(run).turns[0])
    ahead = chat(
        tmp_path, *TURNS, name="bb" * 16, last_event_sequence=8, turn_count=1, active_turn_id=hexed(3)
    )
    assert load_conversation(ahead).ahead
    with pytest.raises(NoFork, match="one event ahead"):
        plan_fork_before(ahead, load_conversation(ahead).turns[0])


def test_a_fork_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = chat(tmp_path, *TURNS)
    plan = plan_fork_before(run, load_conversation(run).turns[1])
    (tmp_path / plan.conversation_id).mkdir()
    with pytest.raises(RunExists):
        carry_out_fork(run, plan)
    (tmp_path / plan.conversation_id).rmdir()
    real = files.write_all

    def full(fd: int, data: bytes) -> None:
        if data == plan.manifest:
            raise OSError(28, "No space left on device")
        real(fd, data)

    with monkeypatch.context() as patched:
        patched.setattr(conversations, "write_all", full)
        with pytest.raises(StoreError, match="No space left"):
            carry_out_fork(run, plan)
    assert [path.name for path in tmp_path.iterdir()] == [run.name]
    event(2, text="Another reply")(run)
    with pytest.raises(PlanOutdated):
        carry_out_fork(run, plan)
    assert [path.name for path in tmp_path.iterdir()] == [run.name]


def test_reading_changes_nothing(tmp_path: Path) -> None:
    for number, kind in enumerate(REFUSED):
        REFUSED[kind][0](chat(tmp_path, *TURNS, name=hexed(number)))
    before = picture(tmp_path)
    every = [one.conversation for one in list_conversations(roots(tmp_path)) if one]
    assert len(every) == len(REFUSED)
    assert all(isinstance(one, Conversation) for one in every)
    assert picture(tmp_path) == before


@pytest.mark.parametrize(
    ("value", "good"),
    [
        ("2026-11-30T18:33:03Z", True),
        ("2026-11-30T18:33:03.123456+02:00", True),
        ("1764527583", True),
        (1764527583.5, True),
        ("yesterday", False),
        ("2026-13-40T00:00:00Z", False),
        ("", False),
        (None, False),
        (True, False),
        ([], False),
    ],
)
def test_a_time_that_is_none_is_flagged(tmp_path: Path, value: object, good: bool) -> None:
    run = chat(tmp_path, TURNS[0])
    whole = manifest_of(run)
    for key in ("created_at", "updated_at"):
        put_manifest(run, {**whole, key: value})
        assert (f"{key} of conversation.json is no time" in load_conversation(run).refusal) != good
    put_manifest(run, whole)
    event(1, created_at=value)(run)
    assert ("line 2: created_at is no time" in load_conversation(run).refusal) != good


@pytest.mark.parametrize("kind", ["pipe", "directory", "link"])
def test_a_lock_that_is_no_file_is_flagged(tmp_path: Path, kind: str) -> None:
    run = chat(tmp_path, TURNS[0])
    lock = run / ".writer.lock"
    lock.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(lock)
    elif kind == "directory":
        lock.mkdir()
    else:
        lock.symlink_to(run / "events.jsonl")
    [listed] = [one for one in list_conversations(roots(tmp_path)) if one is not None]
    assert listed.conversation.refusal.startswith(".writer.lock is a")
    assert not listed.held
    assert len(listed.conversation.turns) == 1


def test_what_may_not_be_read_is_a_row_that_says_so(tmp_path: Path) -> None:
    """A directory, a log and a manifest without any right: none is left out."""
    root = tmp_path / "state" / "rivumi" / "conversations"
    names = ("1" * 32, "2" * 32, "3" * 32)
    for name in names:
        chat(root, TURNS[0], name=name)
    closed = (root / names[0], root / names[1] / "events.jsonl", root / names[2] / "conversation.json")
    modes = [path.stat().st_mode for path in closed]
    for path in closed:
        path.chmod(0)
    try:
        done = run_program("history", "--json", home=tmp_path, rights=without_privileges)
    finally:
        for path, mode in zip(closed, modes, strict=True):
            path.chmod(mode)
    rows = {row["id"]: row["refusal"] for row in map(json.loads, done.stdout.splitlines())}
    assert rows[names[0]] == "the directory cannot be looked into: permission denied"
    assert rows[names[1]] == "events.jsonl: not permitted to read it"
    assert rows[names[2]] == "conversation.json: not permitted to read it"
