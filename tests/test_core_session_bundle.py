"""A bundle of a run directory shows another Refold what its directory shows here, its verdict too."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.on_screen import settings
from tests.rivumi_cases import BASE, CASES, canonical, edit, make

from refold.app.bundles import unpacked, words
from refold.app.cli import main
from refold.app.present.copies import copies
from refold.app.present.landing import Landing
from refold.core.findings import finding_json
from refold.core.records import Json
from refold.core.redact import Redactor
from refold.core.rivumi.verdict import verdict
from refold.core.store.bundle import BadBundle, Opened, open_bundle
from refold.core.store.bundle_parts import DEEPEST
from refold.core.store.bundle_writing import write_bundle
from refold.core.store.export import Source
from refold.core.store.export_target import write_file
from refold.core.store.reader import RunReader
from refold.core.store.session_files import read_run
from refold.core.store.session_names import PART_NAMES

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECRET = "ghp_aB3dE6gH9jK2mN5pQ8sTuV1wX4yZ7bC0dF3h"


@pytest.fixture(autouse=True)
def _unpacks_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    unpacked.cache_clear()
    yield
    unpacked.cache_clear()


def bundled(run: Path, out: Path, *, on: bool = True) -> Opened:
    with RunReader.open(run) as reader:
        source = Source(reader, Redactor(on=on))
        write_file(out, lambda fd: write_bundle(fd, source, NOW))
    return open_bundle(out, into=out.parent)


def told(run: Path) -> list[dict[str, Json]]:
    with RunReader.open(run) as reader:
        assert reader.session is not None
        return [finding_json("", finding) for finding in reader.session.examine()]


@pytest.mark.parametrize("case", CASES)
def test_a_bundle_holds_the_very_run_and_its_verdict(case: str, tmp_path: Path) -> None:
    run = make(case, tmp_path / "here")
    opened = bundled(run, tmp_path / "out.refold-bundle")
    assert opened.run.name == case
    assert opened.manifest["redacted"] == {}
    for name in PART_NAMES:
        here, there = run / name, opened.run / name
        assert there.is_file() == here.is_file(), name
        if here.is_file():
            assert there.read_bytes() == here.read_bytes(), name
            assert there.stat().st_mode & 0o777 == 0o600
    assert verdict(read_run(opened.run)) == verdict(read_run(run))
    before, after = (
        [each for each in told(path) if each["code"] != "E_BAD_MODE"] for path in (run, opened.run)
    )
    assert after == before


def test_the_commands_that_read_take_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, out = make("04-tail-tool-started", tmp_path / "here"), tmp_path / "out.refold-bundle"
    assert main(["export", str(run), "--format", "bundle", "-o", str(out)]) == 0
    for command in (["state", "--json"], ["replay", "--canonical"], ["show", "--json"], ["verify", "--json"]):
        answers = []
        for path in (run, out):
            capsys.readouterr()
            code = main([command[0], str(path), *command[1:]])
            answers.append((code, capsys.readouterr().out.replace(str(path), "RUN")))
        assert answers[0] == answers[1], command
    assert main(["resume", str(out), "--plan"]) == 1
    assert "is a bundle, and only read" in capsys.readouterr().err
    assert "without its workspace" in words(unpacked(str(out)))


def test_what_is_left_out_is_named(tmp_path: Path) -> None:
    run = make("03-running-clean", tmp_path / "here")
    (run / ".writer.lock").write_text(f"pid=1 token={SECRET}\n")
    (run / "cache-traces.jsonl").write_text("{}\n")
    (run / "review.md").symlink_to("/etc/passwd")
    opened = bundled(run, tmp_path / "out.refold-bundle")
    assert opened.manifest["left_out"] == [".writer.lock", "cache-traces.jsonl", "review.md", "workspace"]
    assert {path.name for path in opened.run.iterdir()} <= PART_NAMES | {"workspace"}
    assert sorted(path.name for path in opened.run.rglob("workspace/**/*")) == [
        ".git",
        "HEAD",
        "objects",
        "refs",
    ]
    assert (opened.run / "workspace/.git/HEAD").read_text() == f"{BASE}\n"


def test_runs_within_a_run_come_along(tmp_path: Path) -> None:
    run = make("03-running-clean", tmp_path / "here")
    inner = run
    for deep in range(DEEPEST + 1):
        inner = make("12-terminal-completed", inner / "subagents").rename(
            inner / "subagents" / f"scout{deep}"
        )
    opened = bundled(run, tmp_path / "out.refold-bundle")
    deepest = "/".join(f"subagents/scout{deep}" for deep in range(DEEPEST + 1))
    left_out = opened.manifest["left_out"]
    assert isinstance(left_out, list)
    assert [each for each in left_out if not str(each).endswith("workspace")] == [deepest]
    place = opened.run
    for deep in range(DEEPEST):
        with RunReader.open(place) as reader:
            assert reader.session is not None
            assert reader.session.inner_runs() == (f"scout{deep}",)
        place = place / "subagents" / f"scout{deep}"
        assert (place / "result.json").is_file()


def test_what_is_copied_of_a_run_within_a_run_names_the_bundle(tmp_path: Path) -> None:
    make("12-terminal-completed", make("03-running-clean", tmp_path / "here") / "subagents")
    out = tmp_path / "out.refold-bundle"
    assert (
        main(["export", str(tmp_path / "here" / "03-running-clean"), "--format", "bundle", "-o", str(out)])
        == 0
    )
    opened = unpacked(str(out))
    chosen = settings(tmp_path)
    assert copies(opened.run, Landing(2), chosen)[1:] == (
        ("path", "path", str(out)),
        ("link", "deep link", f"{out}@2"),
    )
    assert copies(opened.run / "subagents" / "12-terminal-completed", Landing(2), chosen) == (
        ("id", "id", "12-terminal-completed"),
        ("path", "path", str(out)),
    )


def test_no_secret_leaves_in_any_file(tmp_path: Path) -> None:
    run = make("12-terminal-completed", tmp_path / "here")
    inner = make("03-running-clean", run / "subagents")
    files = ["request.json", "result.json", "verification.json", "checkpoint.json", "session.json"]
    for file in (*(run / name for name in files), inner / "session.json", inner / "events.jsonl"):
        file.write_bytes(file.read_bytes().replace(b"add", SECRET.encode()) + f'\n"{SECRET}"'.encode())
    for name in ("changes.patch", "test.log", "review.md"):
        (run / name).write_text(f"+key = {SECRET}\n-----BEGIN RSA PRIVATE KEY-----\nMIIEabcd\n" + "x" * 99)
    opened = bundled(run, tmp_path / "out.refold-bundle")
    every = [path for path in opened.run.rglob("*") if path.is_file()]
    assert len(every) > 13
    assert [path for path in every if SECRET in path.read_text()] == []
    assert [path for path in every if "MIIEabcd" in path.read_text()] == []
    counts = opened.manifest["redacted"]
    assert isinstance(counts, dict)
    assert int(str(counts["github token"])) >= len(files) + 5


def test_a_password_in_a_long_manifest_is_told_by_its_name(tmp_path: Path) -> None:
    run = make("03-running-clean", tmp_path / "here")
    said: dict[str, Json] = {
        "role": "user",
        "content": "look at this\n" * 2000,
        "tool_calls": [],
        "provider_metadata": {},
    }
    call: dict[str, Json] = {
        "tool_call_id": "c",
        "name": "login",
        "arguments": {"password": "tr0ub4dor&3"},
        "provider_metadata": {},
    }
    told_at: dict[str, Json] = {
        "role": "assistant",
        "content": None,
        "tool_calls": [call],
        "provider_metadata": {},
    }
    edit(run / "session.json", lambda o: o.update(messages=[*[said] * 150, told_at, *[said] * 150]))
    assert (run / "session.json").stat().st_size > 5 << 20
    opened = bundled(run, tmp_path / "out.refold-bundle")
    text = (opened.run / "session.json").read_bytes()
    assert b"tr0ub4dor" not in text
    assert len(json.loads(text)["messages"]) == 301
    assert (
        bundled(run, tmp_path / "all", on=False).run.joinpath("session.json").read_bytes()
        == (run / "session.json").read_bytes()
    )


class Writing(Redactor):
    """A redactor at whose work a writer goes on."""

    def __init__(self, run: Path) -> None:
        super().__init__()
        self._run = run

    def pieces(self, parts: object) -> Iterator[bytes]:
        manifest = json.loads((self._run / "session.json").read_bytes())
        manifest["last_event_sequence"] += 1
        (self._run / "session.json").write_bytes(canonical(manifest))
        with (self._run / "events.jsonl").open("ab") as log:
            last = json.loads((self._run / "events.jsonl").read_bytes().split(b"\n")[-2])
            log.write(canonical({**last, "sequence": manifest["last_event_sequence"]}) + b"\n")
        return super().pieces(parts)  # type: ignore[arg-type]


def test_a_run_that_goes_on_is_written_as_it_was_at_one_moment(tmp_path: Path) -> None:
    run = make("03-running-clean", tmp_path / "here")
    before = (run / "events.jsonl").read_bytes(), (run / "session.json").read_bytes()
    with RunReader.open(run) as reader:
        source = Source(reader, Writing(run))
        write_file(tmp_path / "out", lambda fd: write_bundle(fd, source, NOW))
    opened = open_bundle(tmp_path / "out", into=tmp_path)
    assert ((opened.run / "events.jsonl").read_bytes(), (opened.run / "session.json").read_bytes()) == before
    assert (run / "events.jsonl").read_bytes() != before[0]


@pytest.mark.parametrize(
    "name",
    [
        "run/r/.writer.lock.x",
        "run/r/workspace/calc.py",
        "run/r/workspace/.git/hooks/post-checkout",
        "run/r/subagents/../session.json",
        "run/r/subagents/.hidden/session.json",
        "run/r/subagents/a",
        "run/other/session.json",
        "run/r/" + "subagents/a/" * (DEEPEST + 1) + "session.json",
        "run/r.json",
    ],
)
def test_what_no_run_directory_has_is_not_unpacked(name: str, tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    path = tmp_path / "bad.refold-bundle"
    with zipfile.ZipFile(path, "w") as made:
        for each in ("run/r/session.json", name, "manifest.json"):
            made.writestr(each, b'{"bundle":1}')
    with pytest.raises(BadBundle, match="no file of a run has"):
        open_bundle(path, into=into)
    assert not list(into.iterdir())
