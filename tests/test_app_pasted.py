"""What is copied or printed to be pasted into a shell runs nothing that a run or a path says."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import msgspec
import pytest
from tests import story
from tests.on_screen import settings
from tests.test_app_resume_screen import EFFECTS, NATIVE, PRINT, a_call

from refold.app.agents import RunAgent, asked_for
from refold.app.cli import main
from refold.app.cli_agent import resuming, stopped
from refold.app.cli_print import Printer
from refold.app.present.copies import copies
from refold.app.present.history import goes_on
from refold.app.present.landing import Landing
from refold.app.typed_resume import typed_resume
from refold.core.decisions import names_itself
from refold.core.errors import StoreError
from refold.core.records import AssistantRecord, Decision, Message, MetaRecord
from refold.core.resume import PlannedCall, ResumeFacts, ResumeRequest, plan_resume
from refold.core.rivumi.conversation import Conversation
from refold.core.store.journal import JournalStore
from refold.core.store.notes import Notes
from refold.core.store.resume import read_facts

RUNS = "x\x15touch PWNED\r"
"""Pasted, it empties the line that was begun, and enters another: the editor of a line knows no quotes."""
HOSTILE = [RUNS, "a\nb", "a\x1bb", "a\x9bb", "a\u202eb", "a\u200bb", "a\udcffb"]


@pytest.mark.parametrize("call_id", HOSTILE)
def test_a_call_whose_id_commands_a_terminal_goes_by_its_number(call_id: str) -> None:
    assert not names_itself(call_id)
    request = ResumeRequest(decisions={call_id: Decision("failed")})
    calls = tuple(PlannedCall(each, "replace_text", "write", "unknown") for each in ("first", call_id))
    assert asked_for(request, calls) == ["--decide=#2=failed"]


@pytest.fixture
def facts(tmp_path: Path) -> ResumeFacts:
    meta = MetaRecord(version=2, prompt="p", fingerprint=PRINT)
    with JournalStore(tmp_path).create("one", meta) as journal:
        calls = (a_call(RUNS, "replace_text", "a"), a_call("c2", "replace_text", "b"))
        journal.append(AssistantRecord(Message("assistant", calls), 0, "tool_use", in_tokens=1, out_tokens=1))
    return read_facts(tmp_path / "one.json", now=PRINT, effects=EFFECTS)


def test_the_resume_command_names_such_a_call_by_its_number(facts: ResumeFacts) -> None:
    agent = RunAgent(NATIVE, Path("/runs/one.json"), Notes(), factory="a:b")
    typed = typed_resume(agent, Notes(), plan_resume(facts, ResumeRequest()))
    assert typed[-2:] == ("--decide=#1=", "--decide=c2=")
    decided = ResumeRequest(decisions={RUNS: Decision("failed")})
    assert "--decide=#1=failed" in typed_resume(agent, Notes(), plan_resume(facts, decided))


@pytest.mark.parametrize("odd", HOSTILE)
def test_no_resume_command_is_given_where_a_word_of_it_cannot_be_pasted(odd: str, facts: ResumeFacts) -> None:
    plan = plan_resume(facts, ResumeRequest())
    at = RunAgent(NATIVE, Path(f"/runs/{odd}/one.json"), Notes(), factory="a:b")
    assert typed_resume(at, Notes(), plan) == ()
    agent = RunAgent(NATIVE, Path("/runs/one.json"), Notes(), factory="a:b")
    said = ResumeRequest(decisions={"c2": Decision("done", odd)})
    assert typed_resume(agent, Notes(), plan_resume(facts, said)) == ()


@pytest.mark.parametrize("run_id", ["-rf", "a b", "$(touch PWN)", "résumé"])
def test_no_resume_command_is_given_of_a_run_that_no_program_is_started_with(
    run_id: str, facts: ResumeFacts
) -> None:
    for factory in ("", "a:b"):
        agent = RunAgent(NATIVE, Path(f"/runs/{run_id}.json"), Notes(), factory=factory)
        refused = msgspec.structs.replace(facts, problem=agent.problem())
        assert typed_resume(agent, Notes(), plan_resume(refused, ResumeRequest())) == ()
    agent = RunAgent(NATIVE, Path("/runs/one.json"), Notes())
    unnamed = msgspec.structs.replace(facts, problem=agent.problem())
    assert "package.module:factory" in typed_resume(agent, Notes(), plan_resume(unnamed, ResumeRequest()))


@pytest.mark.parametrize("odd", HOSTILE)
def test_of_a_path_that_cannot_be_pasted_no_command_and_no_link_is_copied(odd: str, tmp_path: Path) -> None:
    copied = copies(tmp_path / odd / "a;b.json", Landing(2), settings(tmp_path / "own"))
    assert [copy.name for copy in copied] == ["id", "path"]
    # What is copied is not what it is called: that is said.
    assert [copy.label for copy in copied] == ["id", "pictured path"]
    copied = copies(tmp_path / f"{odd}.json", Landing(2), settings(tmp_path / "own"))
    assert [copy.name for copy in copied] == ["id", "path"]
    assert [copy.label for copy in copied] == ["pictured id", "pictured path"]
    for copy in copied:
        assert copy.text.isprintable()
        copy.text.encode()


def test_a_path_is_copied_as_it_is_whatever_else_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "grün 👍🏽 $(a); #é.json"
    copied = {copy.name: copy.text for copy in copies(path, Landing(2), settings(tmp_path / "own"))}
    assert (copied["id"], copied["path"]) == (path.stem, str(path))
    assert shlex.split(copied["link"]) == [f"{path}@2"]
    assert shlex.split(copied["resume"]) == ["refold", "resume", str(path)]


def open_run(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(story.Writing("one", "hello").turn("look", "bash:make").data)
    return path


def test_of_a_run_whose_path_cannot_be_pasted_why_gives_no_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = open_run(tmp_path / f"{RUNS}.json")
    main(["why", str(odd), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert any(action["possible"] for action in told["actions"])
    assert {action["command"] for action in told["actions"]} == {None}
    main(["why", str(odd)])
    assert "refold resume" not in capsys.readouterr().out


@pytest.mark.parametrize("form", ["md", "html"])
@pytest.mark.parametrize(
    ("name", "said"), [("a;touch PWNED", "refold 'a;touch PWNED'"), (RUNS, None), ("-x", None)]
)
def test_an_export_says_what_opens_it_so_that_it_can_be_pasted(
    form: str, name: str, said: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(open_run(tmp_path / f"{name}.json")), "--format", form]) == 0
    out = capsys.readouterr().out.replace("&#x27;", "'").replace("&#39;", "'")
    assert ("open it with" in out) == (said is not None)
    assert said is None or said in out


def test_what_puts_a_run_back_from_the_trash_can_be_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    place = tmp_path / "a b;touch PWNED"
    assert main(["trash", str(open_run(place / "one.json"))]) == 0
    said = capsys.readouterr().out
    assert f"; to put it back: refold restore one --root '{place}'" in said
    odd = tmp_path / RUNS
    assert main(["trash", str(open_run(odd / "one.json"))]) == 0
    assert "refold restore" not in capsys.readouterr().out


@pytest.mark.parametrize("name", HOSTILE)
def test_what_goes_on_with_a_conversation_commands_no_terminal(name: str) -> None:
    assert goes_on(Conversation(name)).isprintable()
    assert goes_on(msgspec.structs.replace(Conversation(name), name="0a")) == "/resume 0a"


@pytest.mark.parametrize(
    ("name", "said"),
    [("a b;touch PWNED", "refold resume '{}/one.json'\n"), (RUNS, "refold resume RUN\n")],
)
def test_what_goes_on_with_a_run_of_ours_can_be_pasted(
    name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / name
    monkeypatch.chdir(tmp_path)
    meta = MetaRecord(version=2, prompt="p", fingerprint=PRINT)
    with JournalStore(place).create("one", meta) as journal:
        again = resuming(journal, "a:b", settings(tmp_path / "own"), Printer())
        assert stopped(StoreError("the disk is full"), again, Printer()) != 0
    assert capsys.readouterr().err.endswith(f"what is on disk goes on with: {said.format(place)}")
