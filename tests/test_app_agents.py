"""Which program goes on with a run: argument lists, directories, and what an agent says it is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from refold.app.agents import (
    BUILT_IN,
    AgentEntry,
    Description,
    NoAgent,
    RunAgent,
    agent_of,
    known_agents,
    merged,
    problem_of,
    runnable,
    spelled,
)
from refold.app.cli_parser import parse
from refold.app.cli_resume import decisions
from refold.app.config import ConfigError
from refold.app.settings import Settings, load
from refold.core.records import Decision, Fingerprint, ForkOrigin
from refold.core.resume import PlannedCall, ResumeRequest
from refold.core.store.notes import Notes

FINGERPRINT = Fingerprint("opus", "5" * 64, "7" * 64, "off", 1000, 10, "anthropic")


def settings_of(home: Path, text: str) -> Settings:
    path = home / ".config" / "refold" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return load(environ={"HOME": str(home), "LANG": "C.UTF-8"})


def entry(**said: Any) -> AgentEntry:
    return AgentEntry("tool", format="fisk-ai", **{"resume": (sys.executable, "{id}"), **said})


def agent(
    found: AgentEntry, run: str = "/runs/one.json", notes: Notes | None = None, **named: str
) -> RunAgent:
    return RunAgent(found, Path(run), notes or Notes(), **named)


def test_the_arguments_of_the_tools_that_are_known(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "")
    lists = {
        name: agent_of(Path("/runs") / run, name, settings, Notes()).command()
        for name, run in (("fisk-ai", "one.json"), ("rivumi", "one"), ("looplane", "one"))
    }
    assert lists == {
        "fisk-ai": ("fisk-ai", "run", "--resume", "one", "--state-dir", "/runs"),
        "rivumi": ("rivumi", "resume", "one", "--run-root", "/runs"),
        "looplane": ("looplane", "resume", "one", "--run-root", "/runs"),
    }
    fisk = agent_of(Path("/runs/one.json"), "fisk-ai", settings, Notes(), config="/c.yaml")
    forced = fisk.command(ResumeRequest(force=True, reason="x"))
    assert forced == (*lists["fisk-ai"], "--config", "/c.yaml", "--force")
    assert not fisk.in_screen
    assert (
        agent_of(Path("/r/x.json"), "strange", settings, Notes()).problem().startswith("how strange resumes")
    )


def test_a_native_run_is_resumed_by_this_program() -> None:
    found = agent(AgentEntry("refold"), notes=Notes(agent="a.b:make"))
    assert found.in_screen
    assert found.command() == ("refold", "resume", "/runs/one.json", "--agent", "a.b:make")
    request = ResumeRequest(
        force=True,
        reason="a; b",
        decisions={"c=1": Decision("done", "x:y"), "d": Decision("failed")},
        repair=True,
    )
    assert found.command(request, expected=7)[5:] == (
        *("--force", "--reason=a; b", "--decide=c=1=done:x:y", "--decide=d=failed"),
        *("--repair", "--expect", "7"),
    )
    odd = ["a=done:b", "\0", "#1", "", "a=b:c"]
    calls = [PlannedCall(each, "write", "write", "unknown") for each in odd]
    request = ResumeRequest(decisions={each: Decision("done", each[:1] and "x=failed") for each in odd})
    said = found.command(request, calls=calls)
    typed = decisions(parse(said[1:]).own.decide)
    assert typed == dict(zip(("#1", "#2", "#3", "#4", "a=b:c"), request.decisions.values(), strict=True))
    assert "\0" not in "".join(said)
    dashed = ResumeRequest(force=True, reason="-x", decisions={"--force": Decision("failed")})
    read = parse(found.command(dashed)[1:]).own
    assert (read.reason, decisions(read.decide)) == ("-x", dashed.decisions)
    assert runnable(found.command())[:3] == (sys.executable, "-m", "refold.app")
    assert runnable(("fisk-ai", "x")) == ("fisk-ai", "x")
    assert spelled(("a b", "c")) == "'a b' c"


@pytest.mark.parametrize(
    "run", ["/runs/-x.json", "/runs/a b.json", "/runs/x;y.json", "/runs/.json", "/r/ü.json"]
)
def test_what_is_no_id_is_given_to_no_program(run: str) -> None:
    for found in (agent(entry(), run), agent(AgentEntry("refold"), run, factory="a:b")):
        assert found.command() == ()
        assert "is no run id" in found.problem()


def test_what_is_named_now_wins_over_notes_and_configuration(tmp_path: Path) -> None:
    configured = AgentEntry("mine", agent="conf:make", config="/conf", cwd="here")
    notes = Notes(agent="noted:make", config="/noted", cwd=str(tmp_path))
    assert agent(configured).factory == "conf:make"
    noted = agent(configured, notes=notes)
    assert (noted.factory, noted.config, noted.directory) == ("noted:make", "/noted", str(tmp_path))
    named = agent(configured, notes=notes, factory="now:make", config="/now")
    assert (named.factory, named.config, named.directory) == ("now:make", "/now", str(Path.cwd()))
    gone = agent(configured, notes=Notes(cwd="/no/such/place"))
    assert gone.directory == str(Path.cwd())


def test_where_it_is_started() -> None:
    assert agent(entry(cwd="run")).directory == "/runs"
    assert agent(entry(cwd="/elsewhere")).directory == "/elsewhere"
    assert agent(entry(cwd="/elsewhere")).problem() == "the directory /elsewhere is not there"
    assert agent(AgentEntry("refold")).problem().startswith("which agent it runs is not known")


def test_placeholders_are_replaced_inside_one_argument_and_once() -> None:
    words = ("x", "--at={directory}/{id}", "{path}", "{config}{config}", "{id}{other}", "{{id}}")
    found = agent(entry(resume=words), config="{id}")
    assert found.command() == ("x", "--at=/runs/one", "/runs/one.json", "{id}{id}", "one{other}", "{one}")


def test_an_option_without_its_value_is_left_out() -> None:
    words = ("x", "run", "{config}", "-c", "{config}", "--config={config}", "last")
    found = agent(entry(resume=words))
    assert found.command() == ("x", "run", "last")
    assert found.asks_config
    assert not agent(entry(resume=words), config="/c").asks_config
    assert not agent(entry()).asks_config


def test_a_tool_that_knows_no_force_has_no_command_for_it() -> None:
    assert agent(entry()).command(ResumeRequest(force=True, reason="x")) == ()


def test_a_fork_goes_on_by_an_argument_list_of_its_own_where_one_is_configured() -> None:
    words = ("y", "{id}", "--config={config}")
    found = entry(fork=words, resume=("x", "{id}"), force=("x", "{id}", "--force"))
    noted = Notes(forked_from=ForkOrigin("parent", 3))
    assert agent(found, notes=noted, config="/c").command() == ("y", "one", "--config=/c")
    assert agent(found, notes=noted).asks_config
    assert not agent(found).asks_config
    assert agent(found).command() == ("x", "one"), "it is no fork"
    forced = ResumeRequest(force=True, reason="x")
    assert agent(found, notes=noted).command(forced) == ("x", "one", "--force")
    assert agent(entry(resume=("x", "{id}")), notes=noted).command() == ("x", "one"), "none is configured"


def test_the_agent_of_the_directory_comes_before_the_one_of_the_format(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    settings = settings_of(
        tmp_path,
        """
[agents.special]
format = "fisk-ai"
directory = "~/runs"
resume = ["special", "{id}"]
[agents.fisk-ai]
config = "agent.yaml"
effects = { look = "read" }
[agents.mine]
agent = "a:make"
cwd = "~/work"
""",
    )
    special = agent_of(tmp_path / "runs" / "one.json", "fisk-ai", settings, Notes())
    assert (special.entry.name, special.command()) == ("special", ("special", "one"))
    assert special.command(ResumeRequest(force=True, reason="x")) == ()
    plain = agent_of(tmp_path / "one.json", "fisk-ai", settings, Notes())
    assert plain.command()[-2:] == ("--config", str(tmp_path / ".config" / "refold" / "agent.yaml"))
    assert plain.describe() == Description(None, {"look": "read"})
    mine = agent_of(tmp_path / "one.json", "refold", settings, Notes())
    assert (mine.factory, mine.directory) == ("a:make", str(tmp_path / "work"))
    names = [each.name for each in known_agents(settings.agents)]
    assert names == ["special", "fisk-ai", "mine", "refold", "rivumi", "looplane"]


def test_an_entry_says_only_what_is_different() -> None:
    fisk = next(each for each in BUILT_IN if each.name == "fisk-ai")
    assert merged(AgentEntry("fisk-ai", cwd="run"), fisk).resume == fisk.resume
    own = merged(AgentEntry("fisk-ai", resume=("x",)), fisk)
    assert (own.resume, own.force) == (("x",), ())
    assert merged(AgentEntry("other", format="fisk-ai"), fisk).name == "other"
    assert merged(AgentEntry("other"), None) == AgentEntry("other")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[agents.x]\nagent = "nothing"', "agents.x.agent: 'nothing' names no factory"),
        ("[agents.x]\nresume = []", "agents.x.resume: the first word must be the program"),
        ('[agents.x]\nresume = [""]', "the first word must be the program"),
        ('[agents.x]\nresume = ["a", "{idd}"]', "no placeholder is called 'idd'; did you mean id?"),
        ('[agents.x]\nresume = "a {id}"', "agents.x.resume: must be a list"),
        ('[agents.x]\nagent = "a:b"\nresume = ["a"]', "leave the argument lists out"),
        ('[agents.x]\nformat = "other"', "agents.x.format"),
        ('[agents.x]\neffects = { a = "maybe" }', "agents.x.effects.a"),
        ("[agents.x]\nshell = true", "agents.x.shell: no such setting"),
    ],
)
def test_what_the_configuration_says_wrongly_is_named(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as wrong:
        settings_of(tmp_path, text)
    assert said in str(wrong.value)


# what an agent says it is


def test_a_native_agent_is_asked_in_a_process_of_its_own(project: Path) -> None:
    found = agent(AgentEntry("refold", cwd=str(project)), factory="tests.scripted_factory:make")
    said = found.describe()
    assert said.fingerprint is not None
    assert (said.fingerprint.model, said.effects["do_write"]) == ("script-1", "write")
    assert "tests.scripted_factory" not in sys.modules or "pytest" in sys.modules


def test_a_native_agent_that_fails_says_why(project: Path, tmp_path: Path) -> None:
    with pytest.raises(NoAgent, match="No module named 'nowhere'"):
        agent(AgentEntry("refold", cwd=str(project)), factory="nowhere:make").describe()
    with pytest.raises(NoAgent, match="which agent it runs is not known"):
        agent(AgentEntry("refold")).describe()
    (tmp_path / "loud.py").write_text("print('x' * 10)\nraise SystemExit('\\x1b[2J')")
    with pytest.raises(NoAgent, match=r"^'loud:make': the module cannot be imported: SystemExit"):
        agent(AgentEntry("refold", cwd=str(tmp_path)), factory="loud:make").describe()


def says(text: str) -> AgentEntry:
    return entry(fingerprint=(sys.executable, "-c", text), effects={"mine": "read"})


def test_another_tool_prints_its_fingerprint_last() -> None:
    values = {name: getattr(FINGERPRINT, name) for name in FINGERPRINT.__struct_fields__}
    plain = agent(says(f"print('starting'); print({json.dumps(values)!r})")).describe()
    assert plain == Description(FINGERPRINT, {"mine": "read"})
    effects = {"a": "write", "mine": "write"}
    both = agent(says(f"print({json.dumps({'fingerprint': values, 'effects': effects})!r})")).describe()
    assert both == Description(FINGERPRINT, {"a": "write", "mine": "read"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pass", "printed no fingerprint"),
        ("print('nothing')", "printed no fingerprint"),
        ("print('[]')", "printed no fingerprint"),
        ("print('[' * 100000)", "printed no fingerprint"),
        ("import sys; sys.stdout.buffer.write(bytes([255]))", "printed no fingerprint"),
        ("""print('{"model": 7}')""", "printed no fingerprint"),
        ("""print('{"fingerprint": {}, "effects": {"a": "maybe"}}')""", "printed no fingerprint"),
        ("print('x' * 2_000_000)", "printed 2000001 bytes"),
        ("import sys; sys.exit('no \\x1bkey')", "ended with 1: no"),
        ("import time; time.sleep(30)", "gave no answer within 0.5 seconds"),
    ],
)
def test_what_is_no_answer_is_said(text: str, said: str) -> None:
    with pytest.raises(NoAgent) as wrong:
        agent(says(text)).describe(seconds=0.5 if "sleep" in text else 30)
    assert said in str(wrong.value)


def test_what_cannot_be_asked_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoAgent, match="is not installed"):
        agent(entry(fingerprint=("no-such-program",))).describe()
    tool = tmp_path / "tool"
    tool.write_text("no script at all")
    tool.chmod(0o755)
    with pytest.raises(NoAgent, match="cannot be started"):
        agent(entry(fingerprint=(str(tool),))).describe()
    assert problem_of(str(tool), str(tmp_path)) == ""
