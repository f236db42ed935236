"""`refold fork` and `refold resume` of run directories: as scripts use them, and in their dialogs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.on_screen import settings, shown, until
from tests.rivumi_cases import edit
from tests.test_core_session_fork import case, repository
from textual.pilot import Pilot

from refold.app.agent_places import run_roots
from refold.app.cli import main
from refold.app.forking import plan_fork
from refold.app.lines import plain
from refold.app.main import RefoldApp
from refold.app.present.reading import reading_of
from refold.app.present.resume_plan import undecided
from refold.app.present.resume_plan import verdict as resume_verdict
from refold.app.run_details import verdict_of
from refold.app.screens.fork import ForkScreen
from refold.app.screens.resume import ResumeScreen
from refold.app.screens.run import RunScreen
from refold.app.session_postmortem import session_postmortem
from refold.app.session_program import programs_of
from refold.app.session_resuming import prepared_session, standing_plan
from refold.app.settings import Settings
from refold.core.rivumi.plan import SessionFacts
from refold.core.store.notes import NotesStore
from refold.core.store.reader import RunReader

__all__ = ["repository"]

SCRIPT = """#!/bin/sh
pwd > "$0.cwd"
printf '%s\\n' "$@" > "$0.argv"
exit 7
"""


class Answer:
    """What a command left behind."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def row(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


@pytest.fixture
def refold(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(*arguments: str | Path) -> Answer:
        code = main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


@pytest.fixture
def rivumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program on PATH that notes how it is started."""
    return program("rivumi", tmp_path, monkeypatch)


def program(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "bin" / name
    made.parent.mkdir(exist_ok=True)
    made.write_text(SCRIPT)
    made.chmod(0o755)
    monkeypatch.setenv("PATH", f"{made.parent}:/usr/bin:/bin")
    return made


def fresh(run: Path) -> Path:
    """Let the process of a run have died just now: hours count against its budget."""
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    edit(run / "session.json", lambda value: value.update(active_started_at=now))
    return run


def codes(answer: Answer) -> list[str]:
    return [reason["code"] for reason in answer.row["reasons"]]


class TestFork:
    def test_plan(self, refold: Any, tmp_path: Path, repository: Path) -> None:
        run = case("12-terminal-completed", tmp_path, repository)
        answer = refold("fork", run, "--at", "11", "--plan", "--json")
        assert answer.code == 0
        row = answer.row
        assert [row[key] for key in ("outcome", "seq", "point", "comes", "tree")] == [
            "accept", 11, "inside", 12, "unchanged",
        ]  # fmt: skip
        assert row["pending"] == [{"id": "call_edit_1", "name": "replace_text"}]
        assert sorted(path.name for path in run.parent.iterdir()) == [run.name]

    def test_makes_one(self, refold: Any, tmp_path: Path, repository: Path) -> None:
        run = case("12-terminal-completed", tmp_path, repository)
        answer = refold("fork", f"{run}@9", "--name", "again", "--reason", "why not", "--json")
        assert answer.code == 0
        assert answer.row == {"id": "again", "path": str(run.parent / "again"), "parent": run.name, "seq": 9}
        noted = NotesStore(tmp_path / "state" / "refold" / "notes").read(run.parent / "again").forked_from
        assert noted is not None
        assert (noted.run_id, noted.reason) == (run.name, "why not")
        assert (
            refold("fork", run, "--at", "9", "--name", "again", "--plan", "--json").row["outcome"] == "refuse"
        )

    @pytest.mark.parametrize(
        ("words", "code"), [(("--at", "999"), 3), (("--at", "9", "--name", "../x"), 2), (("--at", "x"), 2)]
    )
    def test_refuses(
        self, words: tuple[str, ...], code: int, refold: Any, tmp_path: Path, repository: Path
    ) -> None:
        run = case("12-terminal-completed", tmp_path, repository)
        assert refold("fork", run, *words).code == code
        assert sorted(path.name for path in run.parent.iterdir()) == [run.name]


@pytest.mark.usefixtures("rivumi")
class TestResume:
    @pytest.mark.parametrize(
        ("name", "outcome", "ok", "code"),
        [
            ("03-running-clean", "accept", True, "ok"),
            ("04-tail-tool-started", "ask", False, "in_flight_side_effect"),
            ("05-tail-verification-started", "ask", False, "in_flight_side_effect"),
            ("06-manifest-ahead-one", "accept", True, "ok"),
            ("08-tail-tool-completed-dangling", "ask", True, "ok"),
            ("09-manifest-behind-one", "refuse", False, "sequence_mismatch"),
            ("12-terminal-completed", "refuse", False, "terminal"),
            ("22-torn-tail", "refuse", False, "invalid_event"),
            ("35-copied-directory", "refuse", True, "ok"),
        ],
    )
    def test_plan(
        self, name: str, outcome: str, ok: bool, code: str, refold: Any, tmp_path: Path, repository: Path
    ) -> None:
        run = fresh(case(name, tmp_path, repository))
        before = {path: path.stat().st_mtime_ns for path in run.iterdir()}
        answer = refold("resume", run, "--plan", "--json")
        assert answer.row["original"] == {"ok": ok, "code": code}
        assert (answer.row["outcome"], answer.code) == (outcome, 0 if outcome == "accept" else 1)
        assert {path: path.stat().st_mtime_ns for path in run.iterdir()} == before

    def test_says_what_becomes_of_an_open_question_and_which_command_a_check_runs(
        self, refold: Any, tmp_path: Path, repository: Path
    ) -> None:
        asked = refold("resume", fresh(case("16-pending-approval", tmp_path, repository)), "--plan", "--json")
        said = "replace_text waited for an answer: a resume abandons that, and it has to be asked for again"
        assert said in asked.row["notes"]
        checked = refold(
            "resume", fresh(case("05-tail-verification-started", tmp_path, repository)), "--plan"
        )
        assert "check-1  python -m pytest -q" in checked.out

    def test_hands_over(self, refold: Any, tmp_path: Path, repository: Path, rivumi: Path) -> None:
        run = fresh(case("03-running-clean", tmp_path, repository))
        answer = refold("resume", run)
        assert answer.code == 7
        argv = Path(f"{rivumi}.argv").read_text().split("\n")
        assert argv[:-1] == ["resume", run.name, "--run-root", str(run.parent)]
        assert Path(f"{rivumi}.cwd").read_text().strip() == str(repository)

    def test_hands_over_where_the_repository_is_gone_as_the_original_goes_on_then(
        self, refold: Any, tmp_path: Path, repository: Path, rivumi: Path
    ) -> None:
        run = fresh(case("03-running-clean", tmp_path, repository))
        edit(run / "request.json", lambda value: value.update(repository=str(tmp_path / "gone")))
        plan = refold("resume", run, "--plan", "--json")
        assert plan.row["outcome"] == "accept"
        assert f"its repository {tmp_path / 'gone'} is not there: the program starts in {run.parent}" in (
            "; ".join(plan.row["notes"])
        )
        assert refold("resume", run).code == 7
        assert Path(f"{rivumi}.cwd").read_text().strip() == str(run.parent)

    def test_a_decision_is_noted_and_changes_nothing_of_the_original(
        self, refold: Any, tmp_path: Path, repository: Path, rivumi: Path
    ) -> None:
        run = fresh(case("04-tail-tool-started", tmp_path, repository))
        assert "call_edit_1=done:TEXT" in refold("resume", run).err
        planned = refold("resume", run, "--decide", "call_edit_1=done:it is there", "--plan")
        assert "decided: done it is there" in " ".join(planned.out.split())
        assert "noted beside the run" not in planned.out + planned.err
        assert refold("resume", run, "--plan", "--json").row["decisions"] == {}, "a plan notes nothing"
        answer = refold("resume", run, "--decide", "call_edit_1=done:it is there", "--json")
        assert answer.code == 1
        assert "noted beside the run, which is as it was: call_edit_1=done: it is there" in answer.err
        twice = refold("resume", run, "--decide", "call_edit_1=done:it is there", "--json")
        assert "noted beside the run" not in twice.err, "it stands there already"
        assert codes(answer) == ["original:in_flight_side_effect"]
        assert "fork before it (seq 8)" in answer.row["reasons"][0]["message"]
        assert "claim_and_validate_resume" in answer.row["reasons"][0]["message"]
        assert not Path(f"{rivumi}.argv").exists()
        again = refold("resume", run, "--plan", "--json")
        assert again.row["decisions"] == {"call_edit_1": {"choice": "done", "text": "it is there"}}
        assert refold("fork", run, "--at", "8", "--plan").code == 0

    def test_a_decided_call_is_handed_over_where_the_original_accepts(
        self, refold: Any, tmp_path: Path, repository: Path, rivumi: Path
    ) -> None:
        run = fresh(case("08-tail-tool-completed-dangling", tmp_path, repository))
        assert refold("resume", run, "--decide", "#1=failed").code == 7
        assert Path(f"{rivumi}.argv").exists()

    @pytest.mark.parametrize("word", ["nobody=failed", "call_edit_1=done:"])
    def test_a_wrong_decision_is_not_noted(
        self, word: str, refold: Any, tmp_path: Path, repository: Path
    ) -> None:
        run = fresh(case("04-tail-tool-started", tmp_path, repository))
        answer = refold("resume", run, "--decide", word, "--json")
        assert "bad_decision" in codes(answer)
        assert refold("resume", run, "--plan", "--json").row["decisions"] == {}

    def test_dead_time_is_asked_about(self, refold: Any, tmp_path: Path, repository: Path) -> None:
        run = case("03-running-clean", tmp_path, repository)
        answer = refold("resume", run, "--plan", "--json")
        assert (answer.row["outcome"], codes(answer)) == ("ask", ["wall_time"])
        assert "--force --reason=\n" in refold("resume", run, "--plan").out
        forced = refold("resume", run, "--plan", "--json", "--force", "--reason", "let it end")
        assert (forced.row["outcome"], forced.row["forced"]) == ("accept", True)

    def test_says_what_is_missing(
        self, refold: Any, tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = fresh(case("03-running-clean", tmp_path, repository))
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        assert codes(refold("resume", run, "--plan", "--json")) == ["no_agent"]

    def test_a_linked_workspace(self, refold: Any, tmp_path: Path, repository: Path) -> None:
        run = fresh(case("03-running-clean", tmp_path, repository))
        (run / "workspace").rename(tmp_path / "other")
        (run / "workspace").symlink_to(tmp_path / "other")
        assert codes(refold("resume", run, "--plan", "--json")) == ["original:workspace", "workspace"]


def older(run: Path) -> Path:
    """Take out of the files of a run what the newest program writes alone."""
    edit(run / "session.json", lambda claims: claims.pop("verified_workspace_fingerprint", None))
    edit(run / "request.json", lambda task: task.pop("attachments", None))
    return run


class TestProgram:
    def test_looplane_where_only_that_is_installed(
        self, refold: Any, tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program("looplane", tmp_path, monkeypatch)
        run = fresh(case("03-running-clean", tmp_path, repository))
        assert refold("resume", run, "--plan", "--json").row["command"][0] == "looplane"

    def test_looplane_for_its_own_root(
        self, refold: Any, tmp_path: Path, repository: Path, rivumi: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program("looplane", tmp_path, monkeypatch)
        run = older(fresh(case("03-running-clean", tmp_path / "looplane", repository)))
        assert refold("resume", run, "--plan", "--json").row["command"][0] == "looplane"
        other = older(fresh(case("03-running-clean", tmp_path / "other", repository)))
        assert refold("resume", other, "--plan", "--json").row["command"][0] == "rivumi"

    def test_what_only_the_newest_program_writes_goes_to_it_wherever_it_lies(
        self, refold: Any, tmp_path: Path, repository: Path, rivumi: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = fresh(case("03-running-clean", tmp_path / "rivumi", repository))
        refused = "its files have keys of looplane, which is not installed: rivumi may refuse it"
        facts = prepared_session(run, settings(tmp_path / "home")).facts
        assert isinstance(facts, SessionFacts)
        assert (facts.program, refold("resume", run, "--plan", "--json").row["command"][0]) == (
            refused,
            "rivumi",
        )
        program("looplane", tmp_path, monkeypatch)
        assert refold("resume", run, "--plan", "--json").row["command"][0] == "looplane"
        edit(older(run) / "request.json", lambda task: task.update(attachments=[]))
        assert refold("resume", run, "--plan", "--json").row["command"][0] == "looplane"

    @pytest.mark.parametrize(
        ("place", "env", "names", "words"),
        [
            ("state/rivumi/runs", {}, ("rivumi", "looplane"), ""),
            ("state/looplane/runs", {}, ("looplane",), ""),
            ("mine", {"RIVUMI_RUN_ROOT": "mine"}, ("rivumi", "looplane"), ""),
            ("rivumi", {"LOOPLANE_RUN_ROOT": "rivumi"}, ("looplane",), ""),
            (
                "mine",
                {"RIVUMI_RUN_ROOT": "mine", "LOOPLANE_RUN_ROOT": "mine"},
                ("rivumi", "looplane"),
                "neither",
            ),
            ("copies/looplane", {}, ("looplane",), "looplane is a guess by its path"),
            ("copies/rivumi/x", {}, ("rivumi", "looplane"), "rivumi is a guess by its path"),
            ("elsewhere", {}, ("rivumi", "looplane"), "neither its files nor its place"),
        ],
    )
    def test_the_root_says_which_program_and_a_guess_is_said_to_be_one(
        self, tmp_path: Path, place: str, env: dict[str, str], names: tuple[str, ...], words: str
    ) -> None:
        home = tmp_path / "h"
        given = {"XDG_STATE_HOME": str(home / "state")}
        given |= {name: str(home / value) for name, value in env.items()}
        found = programs_of(home / place / "run", None, None, run_roots(given, home))
        assert found.names == names
        assert words in found.why
        assert bool(found.why) == bool(words)

    def test_an_id_that_looks_like_an_option(
        self, refold: Any, tmp_path: Path, repository: Path, rivumi: Path
    ) -> None:
        run = fresh(case("03-running-clean", tmp_path, repository))
        odd = run.rename(run.with_name("--api-url=x"))
        assert "no_agent" in codes(refold("resume", odd, "--plan", "--json"))


@pytest.fixture
def given(tmp_path: Path) -> Settings:
    return settings(tmp_path / "home")


def said(pilot: Pilot[None]) -> str:
    """Give what is shown, as one line without the frames."""
    return " ".join(" ".join(shown(pilot.app)).replace("│", " ").replace("┃", " ").split())


def pressed(given: Settings, run: Path, at: int | None = None) -> RefoldApp:
    return RefoldApp(given, lambda: RunScreen(run, at, settings=given, hint="rivumi"))


async def read(pilot: Pilot[None]) -> None:
    screen = pilot.app.screen
    assert isinstance(screen, RunScreen)
    await until(
        pilot, lambda: screen.reader is not None and screen.reader.complete and screen.item is not None
    )


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_dialog_of_a_resume(
    size: tuple[int, int], tmp_path: Path, repository: Path, rivumi: Path, given: Settings
) -> None:
    run = fresh(case("04-tail-tool-started", tmp_path, repository))
    store = NotesStore(given.notes_dir)
    async with pressed(given, run).run_test(size=size) as pilot:
        await read(pilot)
        await pilot.press("r")
        await until(
            pilot, lambda: isinstance(pilot.app.screen, ResumeScreen) and pilot.app.screen.plan is not None
        )
        screen = pilot.app.screen
        assert isinstance(screen, ResumeScreen)
        assert screen.plan is not None
        assert (screen.plan.outcome, undecided(screen.plan)) == ("ask", (0,))
        assert "its program refuses (in_flight_side_effect) · Refold asks" in said(pilot)
        assert "OUTCOME UNKNOWN" in said(pilot)
        screen.action_decide("failed")
        await until(pilot, lambda: bool(store.read(run).resumes))
        assert screen.plan is not None
        assert (screen.plan.outcome, undecided(screen.plan)) == ("refuse", ())
        assert screen.check_action("go", ()) is None
        assert screen.check_action("fork", ()) is True
        assert "fork before it (seq 8)" in said(pilot)
        await until(pilot, lambda: "decided: failed, noted beside the run" in said(pilot))
        screen.action_fork()
        await until(
            pilot, lambda: isinstance(pilot.app.screen, ForkScreen) and pilot.app.screen.draft is not None
        )
        fork = pilot.app.screen
        assert isinstance(fork, ForkScreen)
        assert fork.draft is not None
        assert fork.draft.seq == 8
    assert store.read(run).resumes[-1].decisions["call_edit_1"].choice == "failed"


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_dialog_of_a_fork(
    size: tuple[int, int], tmp_path: Path, repository: Path, given: Settings
) -> None:
    run = case("12-terminal-completed", tmp_path, repository)
    async with pressed(given, run, 16).run_test(size=size) as pilot:
        await read(pilot)
        await pilot.press("f")
        await until(
            pilot, lambda: isinstance(pilot.app.screen, ForkScreen) and pilot.app.screen.draft is not None
        )
        screen = pilot.app.screen
        assert isinstance(screen, ForkScreen)
        assert screen.draft is not None
        assert screen.draft.plan is not None
        assert "edits up to here are NOT in it" in said(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
    (made,) = (path for path in run.parent.iterdir() if path != run)
    assert (made / "session.json").exists()


async def test_a_plan_that_takes_long_is_left_at_once(
    tmp_path: Path, repository: Path, given: Settings
) -> None:
    """Planning reads the log aside: Esc closes the dialog meanwhile, and the file is let go of after it."""
    run = case("12-terminal-completed", tmp_path, repository)
    log = run / "events.jsonl"
    first = json.loads(log.read_bytes().split(b"\n")[1])
    wide = [{**first, "sequence": at, "data": {"note": "x" * 400}} for at in range(23, 20_000)]
    with log.open("ab") as out:
        out.writelines(json.dumps(event).encode() + b"\n" for event in wide)
    async with pressed(given, run, 16).run_test() as pilot:
        await read(pilot)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(pilot.app.screen, ForkScreen))
        screen = pilot.app.screen
        assert isinstance(screen, ForkScreen)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        await until(pilot, lambda: screen.is_let_go)


def test_a_point_that_is_damaged_is_said(tmp_path: Path, repository: Path) -> None:
    run = case("22-torn-tail", tmp_path, repository)
    with RunReader.open(run) as reader:
        timeline = reader.index_all()
        assert plan_fork(reader, timeline.items - 2, child="x").child == "x"


@pytest.mark.parametrize("there", [True, False], ids=["program there", "no program"])
@pytest.mark.parametrize(
    "name", ["03-running-clean", "04-tail-tool-started", "16-pending-approval", "22-torn-tail"]
)
def test_list_run_and_explanation_promise_no_more_than_the_plan(
    name: str, there: bool, tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    if there:
        program("rivumi", tmp_path, monkeypatch)
    run, chosen = fresh(case(name, tmp_path, repository)), settings(tmp_path)
    plan = standing_plan(run, chosen)
    accepted = there and name in {"03-running-clean", "16-pending-approval"}
    assert (plan.outcome == "accept") == accepted
    seen = verdict_of(run, chosen)
    assert seen is not None
    assert (seen.outcome, seen.final) == (plan.outcome, plan.refused_for_good)
    assert plan.refused_for_good == (name == "04-tail-tool-started")
    with RunReader.open(run) as reader:
        reader.index_all()
        judged = reading_of(reader).judge(lambda path: standing_plan(path, chosen))
        assert reader.session is not None
        post = session_postmortem(reader.session, chosen, datetime.now(UTC).timestamp())
    assert judged is not None
    assert (judged.word == "can go on") == accepted
    assert post.against == tuple(reason.message for reason in plan.reasons)
    assert (post.actions[0].name == "resume") == accepted, "what can be done now comes first"
    if not there and name in {"03-running-clean", "16-pending-approval"}:
        assert "is not installed, or not on PATH" in seen.reason
        assert (judged.word, judged.role) == ("no program here goes on with it", "warn")
        assert f"cannot be started here: {seen.reason}. Once it can, resume (r)" in post.verdict.safe
        assert post.verdict.safe.startswith("Safe now: fork it")
    if name == "04-tail-tool-started":
        assert judged.word == "its program refuses it: in_flight_side_effect"
        assert post.verdict.safe.startswith("Its own program refuses to resume it, whatever is decided.")
        says = plain(resume_verdict(plan))
        assert says.startswith("✗ its own program refuses it")
        assert post.actions[1].instead == "note a decision, for an agent of yours"
