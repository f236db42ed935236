"""What is printed into a pipe or a file has no secrets; JSON is as it stands until it is told otherwise."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import story
from tests.secret_story import secrets

from refold.app.cli import main
from refold.app.present.lens import Lens
from refold.app.present.reading import Reading, reading_of
from refold.core.store.reader import RunReader

TOKEN = "ghp_aB3dE6gH9jK2mN5pQ8sTuV1wX4yZ7bC0dF3h"
LONG = "sk-ant-api03-" + "aB3dE6gH9jK2mN5pQ8sT" * 5


def leaky(directory: Path) -> Path:
    run = directory / "leaky.json"
    writing = story.Writing("leaky", "set the root password to hunter2")
    writing = writing.turn(f"use {LONG} for it", f"bash:curl -u bob:{TOKEN} x").results(f"token={TOKEN}")
    run.write_bytes(writing.turn("again").data)
    return run


@pytest.mark.parametrize("command", ["show", "show@1", "show@2", "show@3", "state", "ls", "diff"])
def test_text_in_a_pipe_has_no_secrets(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = leaky(tmp_path)
    name, _, at = command.partition("@")
    first = (
        ["--root", str(tmp_path), "--only", name]
        if name == "ls"
        else [name, f"{run}@{at}" if at else str(run)]
    )
    words = [*first, f"{run}@2"] if name == "diff" else first
    main(words)
    printed = capsys.readouterr()
    for part in ("hunter2", TOKEN[4:20], "aB3dE6gH9jK2mN5pQ8sT"):
        assert part not in printed.out
    if name not in ("state", "diff"):
        assert "replaced: " in printed.err
        assert "--no-redact keeps" in printed.err
        main([*words, "--no-redact"])
        kept = capsys.readouterr()
        assert any(part in kept.out for part in ("hunter2", TOKEN[4:20], "aB3dE6gH9jK2mN5pQ8sT"))
        assert "replaced" not in kept.err


def test_json_is_as_it_stands_until_told_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = leaky(tmp_path)
    for words in (["show", f"{run}@3", "--json"], ["state", str(run), "--json"]):
        assert main(words) == 0
        assert TOKEN in capsys.readouterr().out
        assert main([*words, "--redact"]) == 0
        printed = capsys.readouterr()
        assert TOKEN not in printed.out
        assert "[redacted: " in str(json.loads(printed.out))
        assert "replaced: " in printed.err


@pytest.mark.parametrize(
    "words",
    [
        *(["search", "again"], ["lineage", "leaky"], ["verify", "leaky"], ["why", "leaky"], ["doctor"]),
        *(["resume", "leaky", "--plan"], ["salvage", "leaky", "--plan"], ["repair", "leaky", "--plan"]),
        *(["fork", "leaky", "--plan", "--prompt", f"with {TOKEN}"], ["note", "leaky", f"see {TOKEN}"]),
        *(["name", "leaky", TOKEN], ["note", "leaky@2", f"see {TOKEN}"], ["trash", "leaky", "--plan"]),
    ],
    ids=lambda words: words[0],
)
def test_no_command_prints_a_secret_into_a_pipe(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    leaky(tmp_path)
    main(["--root", str(tmp_path), "--only", *words])
    printed = capsys.readouterr()
    assert printed.out + printed.err
    for part in ("hunter2", TOKEN[4:20], "aB3dE6gH9jK2mN5pQ8sT"):
        assert part not in printed.out + printed.err
    if printed.err.endswith("--no-redact keeps them\n"):
        assert main(["--root", str(tmp_path), "--only", *words, "--no-redact"]) in (0, 1)
    capsys.readouterr()
    main(["--root", str(tmp_path), "--only", "ls"])
    assert TOKEN[4:20] not in capsys.readouterr().out


def test_the_lens_shows_what_an_export_would_hide(tmp_path: Path) -> None:
    with RunReader.open(leaky(tmp_path), hint="fisk-ai") as reader:
        reader.index_all()
        reading = reading_of(reader)
        plain = said(reading)
        assert TOKEN in plain
        assert "hunter2" in plain
        reading.lens = lens = Lens(reader)
        hidden = said(reading)
        for part in ("hunter2", TOKEN, LONG):
            assert part not in hidden
        lens.count(100, lambda: False)
        assert lens.counts == {"password": 1, "anthropic key": 1, "github token": 2}
        assert lens.seen == reader.timeline.items
        reading.lens = Lens(reader, ["hunter2"])
        assert "hunter2" in said(reading)
        assert TOKEN not in said(reading)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_that_begins_before_the_edge_of_what_is_shown_is_left(seed: int, tmp_path: Path) -> None:
    run = tmp_path / "long.json"
    for number, secret in enumerate(secrets(seed, 90)):
        begins = secret.text.index(secret.core)
        # The edge lies within the secret, eight characters of it still shown.
        before = "words " * 1500
        writing = story.Writing("long", "x").turn(before + secret.text + " and more" * 400)
        raw = writing.data.split(b"\n")[1]
        spelled = json.dumps(secret.core)[1:-1].encode()
        edge = raw.find(spelled) + 8
        assert edge > 8, (number, begins)
        run.write_bytes(writing.data)
        with RunReader.open(run, hint="fisk-ai") as reader:
            reader.index_all()
            shown_part = Lens(reader).head(1, edge)
        assert len(shown_part) == edge
        assert spelled[:8] not in shown_part, secret


def test_counts_cost_what_was_found_and_not_what_was_read(tmp_path: Path) -> None:
    run = tmp_path / "long.json"
    writing = story.Writing("long", "x")
    for number in range(300):
        writing.turn(f"use {TOKEN}" if number % 10 == 0 else "nothing")
    run.write_bytes(writing.data)
    with RunReader.open(run, hint="fisk-ai") as reader:
        items = reader.index_all().items
        lens = Lens(reader)
        lens.head(1, 20)
        lens.count(items, lambda: False)
        lens.head(11)
        assert lens.seen == items
        assert lens.counts == {"github token": 30}
        assert len(lens._counted) == 30
        taken = lens.counts
        taken["github token"] = 0
        assert lens.counts.total() == 30


def test_one_counts_at_a_time(tmp_path: Path) -> None:
    active: list[int] = []
    most: list[int] = []

    class Watched(Lens):
        def _count(self, item: int, stop: Callable[[], bool]) -> bool:
            active.append(item)
            most.append(len(active))
            time.sleep(0.001)
            try:
                return super()._count(item, stop)
            finally:
                active.pop()

    with RunReader.open(leaky(tmp_path), hint="fisk-ai") as reader:
        items = reader.index_all().items
        lens = Watched(reader)
        threads = [threading.Thread(target=lens.count, args=(items, lambda: False)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert lens.seen == items
        assert max(most) == 1
        assert len(most) == items


def test_a_count_ends_within_a_record_that_nobody_waits_for(tmp_path: Path) -> None:
    run = tmp_path / "long.json"
    writing = story.Writing("long", "x")
    writing.turn(f"{TOKEN} {'words and more ' * 800_000} {TOKEN}")
    run.write_bytes(writing.data)
    with RunReader.open(run, hint="fisk-ai") as reader:
        items = reader.index_all().items
        lens = Lens(reader)
        asked = iter(range(1000))
        lens.count(items, lambda: next(asked) >= 10)
        assert lens.seen == 1
        assert not lens.counts
        lens.count(items, lambda: False)
        assert lens.seen == items
        assert lens.counts == {"github token": 2}
        # A piece of it was looked at between two questions, not all twelve megabytes.
        assert next(asked) < 20


def said(reading: Reading) -> str:
    """All that rows and panes say of a run."""
    from refold.app.present.view import View

    view, rows = View(thinking=True, unfolded=True), reading.rows()
    lines = [rows.line(index, 200) for index in range(len(rows))]
    for index in range(len(rows)):
        lines += reading.record(index, 400, view)
    lines += [
        line for line in reading.conversation(reading.timeline.items - 1, 400, view) if line is not None
    ]
    lines += [line for line in reading.state(reading.timeline.items - 1, 400) if line is not None]
    return "\n".join("".join(cell.text for cell in line) for line in lines)
