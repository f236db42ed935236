"""`refold run` and `refold resume` as they are used: real processes, real signals, a fake tool."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.terminal.program import environment, refold
from tests.terminal.terminal import Terminal

from refold.app.cli_exit import NOT_WRITTEN
from refold.app.cli_resume import WrongDecision, decisions
from refold.core.formats.journal import NATIVE
from refold.core.journal_text import fold_bytes
from refold.core.records import Decision, Record, TerminalRecord, ToolResultRecord
from refold.core.store.lock import RunLock
from refold.core.store.notes import NotesStore

AGENTS = """
import asyncio, os, sys
from pathlib import Path
from refold.core import Agent, Budgets, Tool, ToolResult, Turn, Usage

print("imported")  # what an agent's module prints is nobody's answer
PACE = float(os.environ.get("PACE", "0"))

def happened(text):
    with open("world", "a") as file:
        file.write(text + "\\n")

async def read(name: str) -> str:
    happened(f"began {name}")
    await asyncio.sleep(PACE)
    happened(f"ran {name}")
    return f"did {name}"

SCRIPT = [["read"], ["write", "read"], ["write"]]

async def model(messages, tools):
    turn = sum(message["role"] == "assistant" for message in messages)
    happened(f"asked {turn}")
    await asyncio.sleep(PACE)
    calls = [
        {"type": "tool_use", "id": f"c{turn}{n}", "name": name, "input": {"name": f"c{turn}{n}"}}
        for n, name in enumerate(SCRIPT[turn] if turn < len(SCRIPT) else [])
    ]
    said = messages[-1]["content"][-1].get("text", "")
    return Turn([{"type": "text", "text": f"Turn {turn}.\\x1b[2J {said}"}, *calls], "", Usage(10, 1))

async def echo(messages, tools):
    said = messages[-1]["content"][-1]["text"]
    return Turn([{"type": "text", "text": f"You said: {said}"}], "end_turn", Usage(10, 1))

def make(system=os.environ.get("SYSTEM", "be good"), provider="scripted"):
    tools = [Tool(name, "", {"required": ["name"]}, name, read) for name in ("read", "write")]
    return Agent(provider, "script-1", system, tools, model)

def other():
    return make(provider="elsewhere")

def newer():
    old = make()
    return Agent(old.provider, "script-2", old.system, old.tools, model)

def chat():
    return Agent("scripted", "echo-1", "", [], echo)

async def closes(messages, tools):
    getattr(sys, os.environ["CLOSES"]).close()
    return Turn([{"type": "text", "text": "so be it"}])

def mute():
    return Agent("scripted", "mute-1", "", [], closes)

def broken():
    raise OSError("no key")
"""

IGNORES = """
    while True:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            pass
"""

FISK_AI = """#!{python}
import fcntl, json, os, sys
from pathlib import Path
arguments = sys.argv[1:]
store, run = Path(arguments[arguments.index("--state-dir") + 1]), arguments[arguments.index("--resume") + 1]
print(json.dumps({{"arguments": arguments, "cwd": os.getcwd()}}), flush=True)
lock = open(store / f"{{run}}.lock", "a")
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
path = store / f"{{run}}.json"
last = json.loads(path.read_bytes().splitlines()[-1])["seq"]
kind = "io.choria.fisk-ai.v1.session.terminal"
record = {{"seq": last + 1, "protocol": kind, "terminal": {{"reason": "suspended"}}}}
with path.open("a") as file:
    file.write(json.dumps(record, separators=(",", ":")) + "\\n")
sys.exit(int(os.environ.get("FISK_EXIT", "0")))
"""


class Place:
    """A home of its own, a project with agents in it, and the program."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.project = directory / "project"
        self.tools = directory / "tools"
        for each in (self.home, self.project, self.tools):
            each.mkdir(parents=True)
        (self.project / "agents.py").write_text(AGENTS)
        self.store = self.home / "state" / "refold" / "runs"

    def environment(self, **more: str) -> dict[str, str]:
        plain = environment(self.home, **more)
        return {**plain, "PATH": f"{self.tools}{os.pathsep}{plain['PATH']}"}

    def start(self, *arguments: str | Path, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            refold(*arguments),
            cwd=self.project,
            env=self.environment(**more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, *arguments: str | Path, said: str = "", cwd: Path | None = None, limits: Any = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            refold(*arguments),
            cwd=cwd or self.project,
            env=self.environment(**more),
            input=said,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            preexec_fn=limits,
        )

    def records(self, run_id: str = "one") -> list[Record]:
        data = (self.store / f"{run_id}.json").read_bytes()
        decoder = NATIVE.decoder(data)
        return [decoder.record(line) for line in data[:-1].split(b"\n")]

    def reason(self, run_id: str = "one") -> str:
        last = self.records(run_id)[-1]
        return last.reason if isinstance(last, TerminalRecord) else "none"

    @property
    def world(self) -> Counter[str]:
        path = self.project / "world"
        return Counter(path.read_text().splitlines() if path.exists() else [])

    def cut(self, records: int, run_id: str = "one") -> Path:
        """Leave so many records of a run, as a kill would."""
        path = self.store / f"{run_id}.json"
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:records]))
        return path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


ALL = Counter(
    [f"asked {turn}" for turn in range(4)]
    + [f"{what} {call}" for what in ("began", "ran") for call in ("c00", "c10", "c11", "c20")]
)


def until(place: Place, line: str, running: subprocess.Popen[str]) -> None:
    """Wait until something has happened in the world of an agent."""
    while line not in place.world:
        assert running.poll() is None, running.communicate()
        time.sleep(0.005)


# refold run


def test_a_run_that_is_not_kept_leaves_nothing(place: Place) -> None:
    done = place.run("run", "agents:make", "do", "it")
    assert (done.returncode, done.stdout) == (0, "imported\nTurn 3.␛[2J\n")
    assert "    2  assistant Turn 0.␛[2J do it" in done.stderr
    assert 'call      write {"name":"c10"}' in done.stderr
    assert "   12  end       completed" not in done.stderr
    assert "end       completed" in done.stderr
    assert place.world == ALL
    assert not place.store.exists()
    assert sorted(path.name for path in place.project.iterdir() if path.suffix != "") == ["agents.py"]


def test_a_secret_is_left_out_of_what_is_said_of_a_run(place: Place) -> None:
    key = "ghp_" + "a1B2" * 9
    done = place.run("run", "agents:make", "--name", "one", f"use {key}")
    assert key not in done.stderr + done.stdout
    assert "assistant Turn 0.␛[2J use [redacted: " in done.stderr
    assert "--no-redact keeps them" in done.stderr
    assert key in place.run("run", "agents:make", "--no-redact", f"use {key}").stderr
    assert key not in place.run("run", "agents:make", "--json", f"use {key}").stderr


def test_a_plan_in_a_pipe_has_no_secrets(place: Place) -> None:
    key = "ghp_" + "a1B2" * 9
    place.run("run", "agents:make", "--name", "one", "do it")
    path = place.cut(4)
    path.write_bytes(path.read_bytes().replace(b"script-1", key.encode()))
    assert key not in place.run("resume", "one", "--plan", "--agent", "agents:make").stdout
    assert key in place.run("resume", "one", "--plan", "--agent", "agents:make", "--no-redact").stdout


def test_a_kept_run_knows_its_agent(place: Place) -> None:
    done = place.run("run", "agents:make", "--checkpoint", "--json", "do it")
    said = json.loads(done.stdout.splitlines()[-1])
    assert (said["reason"], said["turns"], said["calls"], said["tokens"]) == ("completed", 4, 4, 44)
    path = Path(said["path"])
    assert (path.parent, path.stem) == (place.store, said["id"])
    assert len(said["id"]) == 27
    notes = NotesStore(place.home / "state" / "refold" / "notes").read(path)
    assert (notes.agent, notes.cwd) == ("agents:make", str(place.project))
    assert b"agents" not in path.read_bytes()
    again = place.run("run", "agents:make", "--name", said["id"], "again")
    assert (again.returncode, "already there" in again.stderr) == (1, True)


def test_a_run_whose_first_line_was_torn_is_begun_again(place: Place) -> None:
    place.run("run", "agents:make", "--name", "one", "do it")
    path = place.cut(1)
    path.write_bytes(path.read_bytes()[:40])
    done = place.run("run", "agents:make", "--name", "one", "do it")
    assert (done.returncode, "already there" in done.stderr) == (1, True)
    assert place.run("repair", "one").returncode == 0
    assert path.read_bytes() == b""
    assert "refold run AGENT PROMPT --name ID" in place.run("resume", "one", "--plan").stdout
    done = place.run("run", "agents:make", "--name", "one", "do it")
    assert done.returncode == 0, done.stderr
    assert place.reason() == "completed"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("agents:broken", "x"), 2, "'agents:broken' failed: OSError: no key (agents.py, line "),
        (("agents:nothing", "x"), 2, "has nothing of the name 'nothing'"),
        (("nowhere:make", "x"), 2, "No module named 'nowhere'"),
        (("agents:make",), 2, "the following arguments are required: PROMPT"),
        (("agents:make", "--name", "../x", "y"), 2, "--name: invalid run id"),
        (("agents:make", "--only", "--checkpoint", "x"), 2, "there is no directory to keep the run in"),
    ],
)
def test_what_cannot_be_run_is_said(arguments: tuple[str, ...], code: int, said: str, place: Place) -> None:
    done = place.run("run", *arguments)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr
    assert not place.store.exists()


@pytest.mark.parametrize("at", ["began c00", "asked 1", "began c10", "began c20"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_suspends_and_the_printed_command_goes_on(at: str, number: int, place: Place) -> None:
    running = place.start("run", "agents:make", "--name", "one", "do it", PACE="0.05")
    until(place, at, running)
    running.send_signal(number)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 0, err
    assert place.reason() == "suspended"
    assert "suspends at the next boundary" in err
    (command,) = [line for line in err.splitlines() if "it goes on with: " in line]
    assert command == "refold: it goes on with: refold resume one"
    done = place.run("resume", "one", cwd=place.home)
    assert (done.returncode, place.reason()) == (0, "completed")
    assert "Turn 3." in done.stdout
    assert place.world == ALL


def test_a_second_signal_stops_at_once_and_invents_nothing(place: Place) -> None:
    running = place.start("run", "agents:make", "--name", "one", "do it", PACE="0.3")
    until(place, "began c10", running)
    running.send_signal(signal.SIGINT)
    time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=30)
    assert (running.returncode, place.reason()) == (130, "cancelled")
    assert "stopping at once" in err
    assert "ran c10" not in place.world
    asked = place.run("resume", "one")
    assert asked.returncode == 1
    assert "write (c10): outcome unknown" in asked.stdout or "OUTCOME UNKNOWN" in asked.stdout
    decided = place.run("resume", "one", "--decide", "c10=done:it is there")
    assert (decided.returncode, place.reason()) == (0, "completed")
    results = {r.tool_use_id: r for r in place.records() if isinstance(r, ToolResultRecord)}
    assert results["c10"].decision == Decision("done", "it is there")
    assert (place.world["began c10"], place.world["began c11"]) == (1, 1)


@pytest.mark.parametrize(
    "stubborn",
    ["    time.sleep(30)", "    await asyncio.to_thread(time.sleep, 30)", IGNORES],
    ids=["blocks", "thread", "ignores"],
)
def test_a_third_signal_ends_a_tool_that_will_not_stop(stubborn: str, place: Place) -> None:
    tool = f"import time\nasync def read(name):\n    happened('stuck')\n{stubborn}\n"
    (place.project / "agents.py").write_text(AGENTS.replace("SCRIPT =", f"{tool}\nSCRIPT =", 1))
    running = place.start("run", "agents:make", "--name", "one", "do it")
    until(place, "stuck", running)
    for _ in range(3):
        time.sleep(0.2)
        running.send_signal(signal.SIGINT)
    assert running.wait(10) == -signal.SIGINT
    assert place.reason() in {"none", "cancelled"}
    plan = place.run("resume", "one", "--plan", "--json")
    assert json.loads(plan.stdout)["calls"] == [
        {"id": "c00", "name": "read", "effect": "read", "verdict": "will_run"}
    ]


def test_a_second_signal_says_what_holds_up_the_program(place: Place) -> None:
    tool = "import time\nasync def read(name):\n    happened('stuck')\n    time.sleep(30)\n"
    (place.project / "agents.py").write_text(AGENTS.replace("SCRIPT =", f"{tool}\nSCRIPT =", 1))
    running = place.start("run", "agents:make", "--name", "one", "do it")
    until(place, "stuck", running)
    running.send_signal(signal.SIGINT)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    assert running.stderr is not None
    said = iter(running.stderr.readline, "")
    assert any("holds up the program" in line and "once more ends" in line for line in said)
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    assert running.wait(10) == -signal.SIGINT
    assert place.reason() == "none"


def test_a_full_disk_ends_the_run_with_what_is_there(place: Place) -> None:
    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    place.run("run", "agents:make", "so that the module is compiled")
    done = place.run("run", "agents:make", "--name", "one", "do it", limits=small)
    assert done.returncode == 1
    assert "File too large (EFBIG)" in done.stderr
    assert "what is on disk goes on with: refold resume one" in done.stderr
    assert "Traceback" not in done.stderr
    there = place.records()
    assert 3 <= len(there) < 9
    unknown = json.loads(place.run("resume", "one", "--plan", "--json").stdout)["calls"]
    decide = [f"--decide={call['id']}=rerun" for call in unknown if call["verdict"] == "unknown"]
    assert place.run("resume", "one", *decide).returncode == 0
    assert place.records()[: len(there)] == there
    assert place.reason() == "completed"


def test_a_conversation_reads_lines_and_reopens_where_they_ended(place: Place) -> None:
    first = place.run("run", "agents:chat", "--chat", "--name", "one", "hello", said="a\n\n  \nb\n")
    assert (first.returncode, first.stdout) == (0, "imported\nYou said: b\n")
    again = place.run("resume", "one", said="ünd c\nd")
    assert (again.returncode, again.stdout.splitlines()[-1]) == (0, "You said: d")
    state = fold_bytes((place.store / "one.json").read_bytes())
    said = [m.content[0]["text"] for m in state.messages if m.role == "user"]  # type: ignore[index,call-overload]
    assert said == ["hello", "a", "b", "ünd c", "d"]
    assert (place.reason(), state.interactive) == ("suspended", True)


def test_an_interrupt_where_the_user_speaks_suspends_at_once(place: Place) -> None:
    command = refold("run", "agents:chat", "--chat", "--name", "one", "hello")
    with Terminal(command, env={**place.environment(), "PYTHONPATH": str(place.project)}) as terminal:
        terminal.wait(lambda screen: screen.endswith(">"))
        terminal.send("more\r")
        terminal.wait("You said: more")
        terminal.wait(lambda screen: screen.endswith(">"))
        terminal.send("ctrl+c")
        shown = terminal.wait("it goes on with: refold resume one")
        assert shown.count("You said: more") == 1
        assert "\nrefold: it suspends at the next boundary" in shown
        assert terminal.ended() == 0
    assert place.reason() == "suspended"


def test_a_run_that_nobody_listens_to_is_suspended(place: Place) -> None:
    running = place.start("run", "agents:make", "--name", "one", "do it", PACE="0.1")
    until(place, "asked 0", running)
    assert running.stderr is not None
    running.stderr.close()
    running.wait(30)
    assert place.reason() == "suspended"
    assert place.run("resume", "one").returncode == 0


# refold resume


@pytest.fixture
def cut(place: Place) -> Place:
    """A place with a run that died between its first turn's result and the next turn."""
    place.run("run", "agents:make", "--name", "one", "do it")
    (place.project / "world").unlink()
    place.cut(3)
    return place


def plan_of(place: Place, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = place.run("resume", "one", "--plan", "--json", *arguments)
    assert done.stdout.count("\n") == 1, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_plan_changes_nothing(cut: Place) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in cut.store.iterdir()}
    code, plan = plan_of(cut)
    assert (code, plan["outcome"], plan["reasons"], plan["calls"]) == (0, "accept", [], [])
    assert plan["command"] == ["refold", "resume", str(cut.store / "one.json"), "--agent", "agents:make"]
    assert {row["same"] for row in plan["fingerprint"]} == {True}
    text = cut.run("resume", "one", "--plan")
    assert (text.returncode, "refold resume" in text.stdout, "ready" in text.stdout) == (0, True, True)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in cut.store.iterdir()} == before
    assert cut.world == Counter()


def test_a_changed_fingerprint_is_refused_forced_with_a_reason_and_then_the_one_compared(cut: Place) -> None:
    code, plan = plan_of(cut, "--agent", "agents:other")
    assert (code, [reason["code"] for reason in plan["reasons"]]) == (1, ["provider"])
    forced = cut.run("resume", "one", "--agent", "agents:other", "--force", "--reason", "x")
    assert (forced.returncode, "this cannot be forced" in forced.stdout) == (1, True)
    changed = cut.run("resume", "one", SYSTEM="be better")
    assert (changed.returncode, "system prompt: changed" in changed.stdout) == (1, True)
    assert len(cut.records()) == 3
    mute = cut.run("resume", "one", "--force", SYSTEM="be better")
    assert (mute.returncode, "force needs a reason" in mute.stdout) == (1, True)
    done = cut.run("resume", "one", "--force", "--reason", "a typo", "--json", SYSTEM="be better")
    assert json.loads(done.stdout.splitlines()[-1])["reason"] == "completed"
    resumed = cut.records()[3].resumed  # type: ignore[union-attr]
    assert resumed is not None
    assert (resumed.forced, resumed.reason) == (True, "a typo")
    cut.cut(5)
    assert cut.run("resume", "one", "--plan").returncode == 1
    assert cut.run("resume", "one", "--plan", SYSTEM="be better").returncode == 0


def printed_command(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Give the arguments of the command that is printed to be pasted."""
    (command,) = (row for row in done.stdout.splitlines() if row.startswith("  refold resume "))
    return shlex.split(command)[1:]


def test_a_refused_fingerprint_prints_the_command_that_forces_once_it_is_said_why(cut: Place) -> None:
    refused = cut.run("resume", "one", SYSTEM="be better")
    assert "To go on (write why behind --reason=, it is recorded; as shown):" in refused.stdout
    words = printed_command(refused)
    assert words == ["resume", "one", "--force", "--reason="]
    pasted = cut.run(*words, SYSTEM="be better")
    assert (pasted.returncode, "force needs a reason" in pasted.stdout) == (1, True)
    assert printed_command(pasted) == words
    assert len(cut.records()) == 3
    assert "--force" not in cut.run("resume", "one", "--agent", "agents:other").stdout, (
        "never past a provider"
    )
    done = cut.run(*(f"{each}a typo" if each == "--reason=" else each for each in words), SYSTEM="be better")
    assert done.returncode == 0, done.stdout


def test_a_place_in_a_run_is_no_run_to_resume_and_the_fork_there_is_named(cut: Place) -> None:
    before = {path: path.read_bytes() for path in cut.store.iterdir()}
    for given in ("one@2", "one@#2"):
        refused = cut.run("resume", given)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "a resume goes on at the end of a run" in refused.stderr
        named = re.search(r"\(refold (fork .+) begins", refused.stderr)
        assert named is not None
        assert cut.run(*shlex.split(named[1]), "--plan").returncode == 0
    for command in ("why", "verify", "salvage", "repair", "star", "trash", "lineage", "name", "tag"):
        other = cut.run(command, "one@2")
        assert "a place in a run, where a whole run is asked for (say one)" in other.stderr, command
        assert other.returncode in (2, 3), command
    assert {path: path.read_bytes() for path in cut.store.iterdir()} == before


def test_another_model_is_shown_with_what_it_costs_that_it_reads_all_anew(cut: Place) -> None:
    def planned() -> list[str]:
        given = ("--force", "--reason", "it is cheaper", "--agent", "agents:newer")
        done = cut.run("resume", "one", "--plan", "--json", *given)
        assert done.returncode == 0, done.stderr
        return [note for note in json.loads(done.stdout)["notes"] if "script-2 reads all of it anew" in note]

    assert [note.partition("; ")[2] for note in planned()] == [
        'what that costs is not known: no [prices."script-2"] configured'
    ]
    config = cut.home / "config" / "refold" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[prices."script-2"]\ninput = 1000000\noutput = 1\ncurrency = "EUR"\n')
    (note,) = planned()
    tokens = re.search("at least ([0-9]+) tokens", note)
    assert tokens is not None
    assert note.endswith(f"; about {float(tokens[1]):,.2f} EUR")
    assert note in " ".join(cut.run("resume", "one", "--plan", "--agent", "agents:newer").stdout.split())


def test_open_calls_are_asked_about(place: Place) -> None:
    place.run("run", "agents:make", "--name", "one", "do it")
    (place.project / "world").unlink()
    place.cut(4)
    code, plan = plan_of(place)
    assert (code, plan["outcome"]) == (1, "ask")
    assert [(call["id"], call["effect"], call["verdict"]) for call in plan["calls"]] == [
        ("c10", "write", "unknown"),
        ("c11", "read", "will_run"),
    ]
    asked = place.run("resume", "one", "--plan")
    assert "write waits for --decide c10=rerun, c10=failed or c10=done:TEXT" in asked.stderr
    open_ = "write rerun, failed or done:TEXT behind the last = of each --decide"
    said = f"To go on ({open_}):\n  refold resume one --decide=c10=\n"
    assert asked.stdout.endswith(said)
    assert said in place.run("resume", "one").stdout
    # Pasted as it is, nothing is decided by it.
    unfinished = place.run("resume", "one", "--decide=c10=")
    assert unfinished.returncode == 2
    assert "CALL=rerun, CALL=failed or CALL=done:TEXT" in unfinished.stderr
    decided = place.run("resume", "one", "--plan", "--decide", "c10=done:it's there").stdout
    pasted = decided.partition("To go on (as decided):\n")[2]
    assert shlex.split(pasted) == ["refold", "resume", "one", "--decide=c10=done:it's there"]
    assert place.run(*shlex.split(pasted)[1:], "--plan").returncode == 0
    assert plan_of(place, "--decide", "c10=failed")[0] == 0
    for wrong, exit_code in (
        ("c10", 2),
        ("c10=perhaps", 2),
        ("c10=rerun:x", 2),
        ("zz=rerun", 1),
        ("c10=done", 1),
    ):
        done = place.run("resume", "one", "--decide", wrong)
        assert done.returncode == exit_code, wrong
    assert len(place.records()) == 4
    done = place.run("resume", "one", "--decide", "c10=failed", "--decide", "c11=failed:gone")
    assert (done.returncode, place.reason()) == (0, "completed")
    assert place.world == Counter(["asked 2", "began c20", "ran c20", "asked 3"])


def test_calls_that_look_alike_are_told_apart_by_their_number(place: Place) -> None:
    place.run("run", "agents:make", "--name", "one", "do it")
    path = place.store / "one.json"
    lines = path.read_bytes().split(b"\n")[:2]
    call = b'{"type":"tool_use","id":"%b","name":"write","input":{"name":"x"}}'
    ids = [b"a=done:b", b"n\\u0000l", b"c"]
    lines[1] = lines[1][: lines[1].index(b'"content":[')] + b'"content":[%b],"role":"assistant"},%b' % (
        b",".join(call % each for each in ids), b'"stop_reason":"tool_use","in_tokens":1,"out_tokens":1}}'
    )  # fmt: skip
    path.write_bytes(b"\n".join(lines) + b"\n")
    asked = place.run("resume", "one", "--plan")
    for number in (1, 2, 3):
        assert f"  #{number} write" in asked.stdout
    assert "write waits for --decide '#2=rerun', '#2=failed' or '#2=done:TEXT'" in asked.stderr
    code, plan = plan_of(place, "--decide=#1=failed", "--decide=#2=done:x")
    assert (code, plan["outcome"]) == (1, "ask")
    done = place.run("resume", "one", "--decide=#1=done:first", "--decide=#2=done:x", "--decide=c=failed")
    assert (done.returncode, place.reason()) == (0, "completed"), done.stderr
    results = [record for record in place.records() if isinstance(record, ToolResultRecord)]
    assert [(each.tool_use_id, each.decision and each.decision.choice) for each in results[:3]] == [
        ("a=done:b", "done"),
        ("n\0l", "done"),
        ("c", "failed"),
    ]


def test_decisions_are_read_from_the_command_line() -> None:
    assert decisions(["a=done:x=failed", "b=c=rerun", "d=failed", "e=done:two\nlines"]) == {
        "a": Decision("done", "x=failed"),
        "b=c": Decision("rerun"),
        "d": Decision("failed"),
        "e": Decision("done", "two\nlines"),
    }
    assert decisions(["a=failed", "a=failed"]) == {"a": Decision("failed")}
    for wrong in (["=rerun"], ["a=failed", "a=rerun"], ["a=failed:x", "a=failed"]):
        with pytest.raises(WrongDecision):
            decisions(wrong)


@pytest.mark.parametrize(("stream", "code"), [("stdout", NOT_WRITTEN), ("stderr", 0)])
def test_an_agent_that_closes_our_streams_is_no_traceback(place: Place, stream: str, code: int) -> None:
    done = place.run("run", "agents:mute", "--name", "one", "do it", CLOSES=stream)
    assert "Traceback" not in done.stderr
    assert (done.returncode, place.reason()) == (code, "completed")
    assert ("could not be written" in done.stderr) == (stream == "stdout")


def test_what_is_made_of_a_run_goes_on_with_its_agent(cut: Place) -> None:
    assert cut.run("fork", "one", "--at", "1", "--name", "two").returncode == 0
    damaged = cut.store / "one.json"
    lines = damaged.read_bytes().split(b"\n")
    damaged.write_bytes(b"\n".join([*lines[:1], b"{]", *lines[1:]]))
    assert cut.run("salvage", "one", "--name", "three").returncode == 0
    for child in ("two", "three"):
        done = cut.run("resume", child, "--plan", "--json")
        reasons = [reason["code"] for reason in json.loads(done.stdout)["reasons"]]
        assert reasons in ([], ["unknown_call"]), child


def test_a_torn_end_is_shown_first_and_kept_aside(cut: Place) -> None:
    path = cut.store / "one.json"
    data = path.read_bytes()
    path.write_bytes(data + b'{"seq":4,"pro')
    code, plan = plan_of(cut)
    assert (code, plan["outcome"], plan["reasons"][0]["code"]) == (1, "ask", "torn_tail")
    refused = cut.run("resume", "one")
    assert (refused.returncode, "agree to it with --repair" in refused.stderr) == (1, True)
    assert path.read_bytes() == data + b'{"seq":4,"pro'
    done = cut.run("resume", "one", "--repair")
    assert (done.returncode, "refold: repaired: " in done.stderr) == (0, True)
    assert [aside.read_bytes() for aside in cut.store.glob("*.torn")] == [b'{"seq":4,"pro']


def test_a_held_run_names_its_holder(cut: Place) -> None:
    lock = RunLock.take(cut.store / "one.lock")
    code, plan = plan_of(cut)
    assert (code, plan["reasons"][0]["code"]) == (1, "locked")
    assert f"process {os.getpid()}" in plan["reasons"][0]["message"]
    done = cut.run("resume", "one")
    assert (done.returncode, f"locked by process {os.getpid()}" in done.stderr) == (1, True)
    lock.release()
    assert cut.world == Counter()


def test_what_was_shown_must_still_hold(cut: Place) -> None:
    done = cut.run("resume", "one", "--expect", "2")
    assert (done.returncode, "ends at seq 3, not at 2" in done.stderr) == (1, True)
    assert cut.run("resume", "one", "--expect", "3").returncode == 0


def test_a_completed_run_is_not_resumed(place: Place) -> None:
    place.run("run", "agents:make", "--name", "one", "do it")
    done = place.run("resume", "one")
    assert (done.returncode, "fork it to go on" in done.stdout) == (1, True)
    shutil.rmtree(place.home / "state" / "refold" / "notes")
    unknown = place.run("resume", "one")
    assert (unknown.returncode, "fork it to go on" in unknown.stderr) == (1, True)
    assert "--agent" not in unknown.stderr


def test_a_copy_on_another_machine_goes_on_there(cut: Place, tmp_path: Path) -> None:
    there = Place(tmp_path / "elsewhere")
    shutil.copytree(cut.store, there.store)
    unknown = there.run("resume", "one")
    assert (unknown.returncode, "name it with --agent" in unknown.stderr) == (1, True)
    code, plan = plan_of(there)
    assert (code, plan["reasons"][0]["code"]) == (1, "no_agent")
    ends = []
    for each, more in ((cut, ()), (there, ("--agent", "agents:make"))):
        assert each.run("resume", "one", *more).returncode == 0
        state = fold_bytes((each.store / "one.json").read_bytes())
        ends.append((state, each.world, len(each.records())))
    assert ends[0] == ends[1]
    there.cut(5)
    assert there.run("resume", "one", cwd=there.home).returncode == 0


def test_a_moved_run_is_still_known(cut: Place, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.move(cut.store, moved)
    done = cut.run("resume", moved / "one.json", cwd=tmp_path)
    assert done.returncode == 0
    assert cut.world["asked 3"] == 1


def test_an_agent_that_is_gone_is_a_reason(cut: Place) -> None:
    (cut.project / "agents.py").write_text("def make(): raise OSError('no key')")
    code, plan = plan_of(cut)
    assert (code, plan["outcome"], plan["reasons"][-1]["code"]) == (1, "refuse", "no_agent")
    assert "OSError: no key" in plan["reasons"][-1]["message"]
    assert cut.run("resume", "one").returncode == 2


def test_the_configuration_can_name_the_agent(cut: Place) -> None:
    shutil.rmtree(cut.home / "state" / "refold" / "notes")
    config = cut.home / "config" / "refold" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[agents.mine]\nagent = "agents:make"\ncwd = "{cut.project}"\n')
    done = cut.run("resume", "one", cwd=cut.home)
    assert (done.returncode, cut.world["asked 3"]) == (0, 1)


def test_without_a_run_those_that_can_go_on_are_listed(cut: Place) -> None:
    cut.run("run", "agents:make", "--name", "done", "do it")
    cut.run("run", "agents:chat", "--chat", "--name", "talk", "hello")
    # A reply that was refused leads nowhere: such a run is not offered.
    lines = (cut.store / "done.json").read_bytes().splitlines(keepends=True)[:-1]
    refused = json.loads(lines[-1])
    refused["assistant"]["stop_reason"] = "refusal"
    ended = cut.store / "no-way.json"
    ended.write_bytes(b"".join(lines[:-1]) + json.dumps(refused).encode() + b"\n")
    listed = cut.run("resume", "--json")
    assert sorted(json.loads(line)["id"] for line in listed.stdout.splitlines()) == ["one", "talk"]
    assert "2 runs left out: finished, or not to be resumed" in cut.run("resume").stderr
    with Terminal(refold("resume"), env=cut.environment()) as terminal:
        screen = terminal.wait("talk")
        assert "resume:yes" in screen
        # What is typed filters; the way out is another.
        terminal.press("q", "escape", "escape", settle=0.1)
        assert terminal.ended() == 0


# runs of other tools


@pytest.fixture
def foreign(place: Place, journals: Path) -> Place:
    """A place with a fisk-ai run and a fisk-ai that notes how it was called."""
    tool = place.tools / "fisk-ai"
    tool.write_text(FISK_AI.format(python=sys.executable))
    tool.chmod(0o755)
    place.store = place.home / "state" / "fisk-ai" / "runs"
    place.store.mkdir(parents=True)
    for name in ("suspended-at-boundary", "crashed-mid-tool-batch"):
        shutil.copy(journals / "v3" / f"{name}.json", place.store)
    return place


def test_another_tool_gets_its_own_arguments_and_its_status_is_ours(foreign: Place) -> None:
    run = "suspended-at-boundary"
    path = foreign.store / f"{run}.json"
    before = path.read_bytes()
    done = foreign.run("resume", run, "--config", "/etc/agent.yaml", FISK_EXIT="3")
    said = json.loads(done.stdout)
    plain = ["run", "--resume", run, "--state-dir", str(foreign.store), "--config", "/etc/agent.yaml"]
    assert (said["arguments"], said["cwd"]) == (plain, str(foreign.project))
    assert done.returncode == 3
    assert "fisk-ai ended with exit code 3; the run went on by 1 seq" in done.stderr
    assert path.read_bytes().startswith(before)
    again = foreign.run("resume", run, "--force", "--reason", "a new model", cwd=foreign.home)
    assert json.loads(again.stdout) == {"arguments": [*plain, "--force"], "cwd": str(foreign.project)}
    notes = NotesStore(foreign.home / "state" / "refold" / "notes").read(path)
    assert [(each.forced, each.reason) for each in notes.resumes] == [(False, ""), (True, "a new model")]
    assert notes.config == "/etc/agent.yaml"
    relative = foreign.run("resume", run, "--config", "own.yaml")
    assert json.loads(relative.stdout)["arguments"][-1] == str(foreign.project / "own.yaml")


def test_a_fork_of_another_tools_run_goes_on_as_is_configured_for_forks(foreign: Place) -> None:
    config = foreign.home / "config" / "refold" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[agents.fisk-ai]\nfork = ["fisk-ai", "run", "--of-fork", "{id}"]\n')
    assert foreign.run("fork", "suspended-at-boundary", "--name", "child").returncode == 0
    for run, words in (("child", ["--of-fork", "child"]), ("suspended-at-boundary", ["--resume"])):
        planned = json.loads(foreign.run("resume", run, "--plan", "--json").stdout)
        assert planned["command"][2 : 2 + len(words)] == words


def test_decisions_reach_the_journal_of_another_tool_and_our_notes(foreign: Place) -> None:
    run = "crashed-mid-tool-batch"
    asked = foreign.run("resume", run)
    assert (asked.returncode, asked.stdout.count('"arguments"')) == (1, 0)
    plan = json.loads(foreign.run("resume", run, "--plan", "--json").stdout)
    unknown = [call["id"] for call in plan["calls"] if call["verdict"] == "unknown"]
    assert plan["notes"][0].startswith("what would run now is not known here")
    done = foreign.run("resume", run, *(f"--decide={call}=done:by hand" for call in unknown))
    assert done.returncode == 0
    path = foreign.store / f"{run}.json"
    assert fold_bytes(path.read_bytes(), hint="fisk-ai").pending is None
    noted = NotesStore(foreign.home / "state" / "refold" / "notes").read(path).resumes[-1]
    assert noted.decisions == {call: Decision("done", "by hand") for call in unknown}


def test_a_tool_that_is_missing_or_held_starts_nothing(foreign: Place) -> None:
    run = "suspended-at-boundary"
    lock = RunLock.take(foreign.store / f"{run}.lock")
    held = foreign.run("resume", run)
    assert (held.returncode, held.stdout, "locked by" in held.stderr) == (1, "", True)
    lock.release()
    (foreign.tools / "fisk-ai").unlink()
    missing = foreign.run("resume", run)
    assert (missing.returncode, "fisk-ai is not installed" in missing.stderr) == (1, True)
    plan = json.loads(foreign.run("resume", run, "--plan", "--json").stdout)
    assert [reason["code"] for reason in plan["reasons"]] == ["no_agent"]
    assert not (foreign.home / "state" / "refold" / "notes").exists()


def test_what_it_is_now_can_be_asked_of_another_tool(foreign: Place) -> None:
    run = "suspended-at-boundary"
    state = fold_bytes((foreign.store / f"{run}.json").read_bytes(), hint="fisk-ai")
    config = foreign.home / "config" / "refold" / "config.toml"
    config.parent.mkdir(parents=True)
    said = {name: getattr(state.fingerprint, name) for name in state.fingerprint.__struct_fields__}
    says = foreign.tools / "says"
    config.write_text(f'[agents.fisk-ai]\nfingerprint = ["{says}"]\n')
    for changed in (False, True):
        answer = json.dumps({**said, "model": "other"} if changed else said)
        says.write_text(f"#!{sys.executable}\nprint({answer!r})")
        says.chmod(0o755)
        plan = foreign.run("resume", run, "--plan", "--json")
        assert plan.returncode == int(changed), plan.stderr
    done = foreign.run("resume", run, "--force", "--reason", "new")
    assert done.returncode == 0
    # The next resume compares with what was really used.
    assert foreign.run("resume", run, "--plan").returncode == 0
