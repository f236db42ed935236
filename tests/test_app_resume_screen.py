"""The dialog before a resume: what it proves, what it asks, what it refuses, and that it writes nothing."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from tests.on_screen import settings, shown, type_into, until
from textual.pilot import Pilot
from textual.screen import Screen

from refold.app.agents import AgentEntry, RunAgent
from refold.app.going_on import Prepared
from refold.app.lines import cells, plain
from refold.app.main import RefoldApp
from refold.app.present.resume_plan import resume_lines, verdict
from refold.app.screens.resume import ResumeAnswer, ResumeScreen
from refold.app.screens.run import RunScreen
from refold.app.widgets.line_list import LineList
from refold.app.widgets.prompt_bar import PromptBar
from refold.core.errors import RunNotFound
from refold.core.records import (
    AssistantRecord,
    Decision,
    Fingerprint,
    Json,
    Message,
    MetaRecord,
    TerminalRecord,
    ToolResultRecord,
)
from refold.core.resume import UNNAMED, Effect, ResumeFacts, ResumeRequest, plan_resume
from refold.core.store.journal import JournalStore
from refold.core.store.notes import Notes
from refold.core.store.resume import read_facts

Compare = Callable[..., bool]
PRINT = Fingerprint("scripted", "4a1f" * 16, "77c2" * 16, "off", 200_000, 50, "anthropic")
EFFECTS: Mapping[str, Effect] = {"read_file": "read", "replace_text": "write", "touch": "idempotent"}
NATIVE = AgentEntry("refold", "refold", cwd="/work/here")
FOREIGN = AgentEntry(
    "other",
    "fisk-ai",
    resume=("other", "resume", "{id}", "--config", "{config}"),
    force=("other", "resume", "{id}", "--force"),
    cwd="/work/here",
)
HOSTILE = "[/x] [bold]\x1b[2J\u202e$y"


def a_call(call_id: str, name: str, path: str) -> Json:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"path": path}}


def write(directory: Path, *calls: Json, answered: int = 0, end: str = "", stop: str = "tool_use") -> Path:
    """Write a run whose open turn has some calls, the first of them answered."""
    meta = MetaRecord(version=2, prompt="Fix add() so the test passes.", fingerprint=PRINT)
    with JournalStore(directory).create("fix-add", meta) as journal:
        content: tuple[Json, ...] = ({"type": "text", "text": "I will edit."}, *calls)
        journal.append(
            AssistantRecord(Message("assistant", content), 0, stop, in_tokens=18_000, out_tokens=200)
        )
        for call in calls[:answered]:
            assert isinstance(call, dict)
            result: Json = {"type": "tool_result", "tool_use_id": call["id"], "content": "ok"}
            journal.append(ToolResultRecord(str(call["id"]), result))
        if end:
            journal.append(TerminalRecord(end))
    return JournalStore(directory).path_of("fix-add")


READ = a_call("c1", "read_file", "calc.py")
EDIT = a_call("c2", "replace_text", "calc.py")
EDIT_TEST = a_call("c3", "replace_text", "test_calc.py")
TOUCH = a_call("c4", "touch", "stamp")


class Case(NamedTuple):
    """A run, and an agent for it that starts no process."""

    path: Path
    facts: ResumeFacts
    entry: AgentEntry = NATIVE
    factory: str = "agents.fix:agent"

    def prepared(self, *, factory: str = "", config: str = "") -> Prepared:
        agent = RunAgent(self.entry, Path("/runs/fix-add.json"), Notes(), config=config)
        agent.factory = factory or self.factory
        last = None if self.facts.state is None else self.facts.state.last_seq
        return Prepared(self.facts, agent, Notes(agent=self.factory, cwd="/work/here"), last)


def case(
    directory: Path,
    *calls: Json,
    now: Fingerprint | None = PRINT,
    answered: int = 0,
    end: str = "",
    entry: AgentEntry = NATIVE,
    **more: object,
) -> Case:
    path = write(directory, *calls, answered=answered, end=end)
    facts = read_facts(path, now=now, effects=EFFECTS)
    return Case(path, msgspec.structs.replace(facts, **more), entry)


class Stage(Screen[None]):
    """Opens the dialog and keeps its answer."""

    def __init__(self, of: Case) -> None:
        super().__init__()
        self._case = of
        self.answers: list[ResumeAnswer | None] = []
        self.asked: list[tuple[str, str]] = []

    def on_mount(self) -> None:
        async def prepare(progress: Callable[[float], None], *, factory: str, config: str) -> Prepared:
            self.asked.append((factory, config))
            progress(0.5)
            return self._case.prepared(factory=factory, config=config)

        self.app.push_screen(ResumeScreen("fix-add", prepare), self.answers.append)


def on_stage(directory: Path, of: Case, **look: object) -> tuple[RefoldApp, Stage]:
    stage = Stage(of)
    return RefoldApp(settings(directory, **look), lambda: stage), stage  # type: ignore[arg-type]


def dialog(pilot: Pilot[None]) -> ResumeScreen:
    screen = pilot.app.screen
    assert isinstance(screen, ResumeScreen)
    return screen


async def planned(pilot: Pilot[None]) -> ResumeScreen:
    await until(
        pilot, lambda: isinstance(pilot.app.screen, ResumeScreen) and pilot.app.screen.plan is not None
    )
    return dialog(pilot)


def said(pilot: Pilot[None]) -> str:
    return "\n".join(shown(pilot.app))


def words(screen: ResumeScreen) -> str:
    """What the dialog says, in or out of sight."""
    rows = screen.query_one("#resume-plan", LineList).rows
    return " ".join(" ".join(plain(rows.line(index, 200)).split()) for index in range(len(rows)))


async def test_a_plan_without_questions_is_carried_out_by_one_key_and_writes_nothing_itself(
    tmp_path: Path,
) -> None:
    of = case(tmp_path, READ, TOUCH, answered=1)
    before, stamp = of.path.read_bytes(), of.path.stat().st_mtime_ns
    app, stage = on_stage(tmp_path, of)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await planned(pilot)
        text = said(pilot)
        assert "✓ ready" in text
        assert "reused" in text
        assert "will run" in text
        assert "refold resume /runs/fix-add.json --agent agents.fix:agent" in text
        assert "after seq 3, 1 turn made" in text
        assert screen.check_action("decide", ("failed",)) is False
        await pilot.press("enter")
        await until(pilot, lambda: bool(stage.answers))
        assert app.background_faults == []
    answer = stage.answers[0]
    assert answer is not None
    assert (answer.how, answer.plan.outcome) == ("screen", "accept")
    assert (of.path.read_bytes(), of.path.stat().st_mtime_ns) == (before, stamp)


async def test_a_call_that_may_have_run_is_decided_and_the_next_one_comes_up(tmp_path: Path) -> None:
    app, stage = on_stage(tmp_path, case(tmp_path, READ, EDIT, EDIT_TEST, answered=1))
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await planned(pilot)
        assert "OUTCOME UNKNOWN" in said(pilot)
        assert "decide about 2 calls" in said(pilot)
        assert screen.call is not None
        assert screen.call.id == "c2"
        await pilot.press("enter")
        await pilot.pause()
        assert stage.answers == []
        await pilot.press("x")
        assert screen.call.id == "c3"
        assert "outcome unknown: recorded as failed" in words(screen)
        assert "c2=failed" in words(screen)
        await type_into(pilot, "d", "it was " + HOSTILE)
        assert "it was [/x] [bold]␛[2J‹RLO›$y" in words(screen)
        assert "✓ ready" in said(pilot)
        await pilot.press("u")
        assert "OUTCOME UNKNOWN" in said(pilot)
        await pilot.press("x", "enter")
        await until(pilot, lambda: bool(stage.answers))
        assert app.background_faults == []
    answer = stage.answers[0]
    assert answer is not None
    assert answer.plan.request.decisions == {"c2": Decision("failed"), "c3": Decision("failed")}


async def test_what_may_have_run_is_run_again_only_after_a_word(tmp_path: Path) -> None:
    app, stage = on_stage(tmp_path, case(tmp_path, EDIT))
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        screen = await planned(pilot)
        await type_into(pilot, "a", "y")
        assert screen.plan is not None
        assert screen.plan.request.decisions == {}
        await type_into(pilot, "d", "  ")
        assert screen.plan.request.decisions == {}
        await pilot.press("a")
        await until(pilot, lambda: screen.query_one(PromptBar).is_open)
        await pilot.press("escape")
        await until(pilot, lambda: not screen.query_one(PromptBar).is_open)
        assert screen.plan.request.decisions == {}
        await pilot.press("x")
        await type_into(pilot, "a", "no")
        assert screen.plan.request.decisions == {"c2": Decision("failed")}, "a decision is no way around it"
        await type_into(pilot, "a", "yes")
        assert screen.plan.request.decisions == {"c2": Decision("rerun")}
        assert "if it ran before, it runs a second time" in words(screen)
        assert stage.answers == []
        assert app.background_faults == []


async def test_a_changed_fingerprint_is_crossed_only_with_a_reason(tmp_path: Path) -> None:
    now = msgspec.structs.replace(PRINT, system_hash="9be0" * 16)
    app, stage = on_stage(tmp_path, case(tmp_path, TOUCH, now=now))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await planned(pilot)
        row = next(row for row in shown(app) if "system prompt  4a1f" in row)
        assert "9be0" in row
        assert "CHANGED" in row
        assert "✗ refused" in said(pilot)
        assert screen.check_action("go", ()) is None
        await type_into(pilot, "F", "   ")
        await pilot.press("enter")
        await pilot.pause()
        assert stage.answers == []
        await type_into(pilot, "F", f"the prompt was mended {HOSTILE}")
        assert "ready, past the changed fingerprint" in said(pilot)
        assert "that it was forced, and why: the prompt was mended [/x]" in words(screen)
        assert "--force" in words(screen)
        await pilot.press("enter")
        await until(pilot, lambda: bool(stage.answers))
        assert app.background_faults == []
    answer = stage.answers[0]
    assert answer is not None
    assert answer.plan.forced


async def test_another_provider_is_final(tmp_path: Path) -> None:
    app, stage = on_stage(
        tmp_path, case(tmp_path, TOUCH, now=msgspec.structs.replace(PRINT, provider="openai"))
    )
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await planned(pilot)
        assert "CHANGED, final" in said(pilot)
        assert "cannot be forced" in said(pilot)
        assert screen.check_action("force", ()) is False
        await pilot.press("F", "enter")
        await pilot.pause()
        assert not screen.query_one(PromptBar).is_open
        assert stage.answers == []
        assert app.background_faults == []


async def test_nobody_can_say_what_would_run_and_it_says_so(tmp_path: Path) -> None:
    app, _ = on_stage(tmp_path, case(tmp_path, READ, now=None))
    async with app.run_test(size=(120, 40)) as pilot:
        await planned(pilot)
        assert sum("not known here" in row for row in shown(app)) >= 7
        assert "the agent compares the fingerprint itself" in said(pilot)
        assert app.background_faults == []


async def test_a_torn_end_is_shown_and_agreed_to(tmp_path: Path) -> None:
    path = write(tmp_path, READ, answered=1)
    with path.open("ab") as file:
        file.write(b'{"seq":4,"protocol":"refold.v1.ses')
    of = Case(path, read_facts(path, now=PRINT, effects=EFFECTS))
    app, stage = on_stage(tmp_path, of)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await planned(pilot)
        assert "34 bytes after seq 3 will be kept in fix-add." in words(screen)
        assert "agree to the repair of the end" in said(pilot)
        await pilot.press("enter")
        await pilot.pause()
        assert stage.answers == []
        await pilot.press("m")
        assert "✓ ready" in said(pilot)
        await pilot.press("m")
        assert screen.plan is not None
        assert screen.plan.outcome == "ask"
        await pilot.press("m", "enter")
        await until(pilot, lambda: bool(stage.answers))
        assert app.background_faults == []
    assert path.read_bytes().endswith(b"refold.v1.ses")


async def test_a_held_run_names_its_holder_and_offers_looking_and_forking(tmp_path: Path) -> None:
    of = case(tmp_path, READ, holder=f"process 4711 ({HOSTILE})")
    for key, how in (("o", "look"), ("f", "fork")):
        app, stage = on_stage(tmp_path, of)
        async with app.run_test(size=(100, 30)) as pilot:
            screen = await planned(pilot)
            assert "held by process 4711 ([/x]" in words(screen)
            await pilot.press("enter")
            await pilot.pause()
            assert stage.answers == []
            await pilot.press(key)
            await until(pilot, lambda stage=stage: bool(stage.answers))  # type: ignore[misc]
            assert app.background_faults == []
        answer = stage.answers[0]
        assert answer is not None
        assert answer.how == how


async def test_a_lock_that_nobody_can_see_may_be_tried(tmp_path: Path) -> None:
    app, stage = on_stage(tmp_path, case(tmp_path, READ, lock_known=False))
    async with app.run_test(size=(120, 40)) as pilot:
        await planned(pilot)
        assert "it is locked first" in said(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: bool(stage.answers))
        assert app.background_faults == []


async def test_a_completed_run_offers_a_fork(tmp_path: Path) -> None:
    app, stage = on_stage(tmp_path, case(tmp_path, end="completed"))
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await planned(pilot)
        assert "the run is completed" in said(pilot)
        assert screen.check_action("force", ()) is False
        await pilot.press("f")
        await until(pilot, lambda: bool(stage.answers))
        assert app.background_faults == []
    assert stage.answers[0] is not None
    assert stage.answers[0].how == "fork"


async def test_one_command_is_shown_the_one_that_is_copied(tmp_path: Path) -> None:
    app, _ = on_stage(tmp_path, case(tmp_path, EDIT))
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await planned(pilot)
        shown_lines = words(screen)
        assert shown_lines.count("refold resume") == 1
        assert "In a shell" in shown_lines
        await pilot.press("x")
        await until(pilot, lambda: "✓ ready" in said(pilot))
        assert words(screen).count("refold resume") == 1
        await pilot.press("y")
        await until(pilot, lambda: bool(app.clipboard))
        assert "".join(app.clipboard.split()) in "".join(words(screen).split())


async def test_a_run_that_goes_on_nowhere_is_not_told_where(tmp_path: Path) -> None:
    app, _ = on_stage(tmp_path, case(tmp_path, end="completed"))
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await planned(pilot)
        assert "the run is completed" in words(screen)
        assert "oes on" not in words(screen)


async def test_withheld_calls_run_only_when_told_to(tmp_path: Path) -> None:
    app, _ = on_stage(tmp_path, case(tmp_path, READ, end="budget", now=None))
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await planned(pilot)
        assert "WITHHELD" in words(screen)
        assert screen.check_action("go", ()) is None
        await pilot.press("a")
        await until(pilot, lambda: screen.plan is not None and screen.plan.outcome == "accept")
        assert app.background_faults == []


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_what_refuses_for_good_stands_first_and_decisions_behind_it(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    now = msgspec.structs.replace(PRINT, provider="elsewhere", model="another")
    of = case(tmp_path, READ, EDIT, EDIT_TEST, now=now, problem=UNNAMED, holder="process 7 (fisk-ai)")
    app, _ = on_stage(tmp_path, of._replace(factory=""))
    async with app.run_test(size=size) as pilot:
        screen = await planned(pilot)
        await until(pilot, lambda: screen.listing.cursor == 0)
        first = next(row for row in shown(app) if "Refused" in row)
        assert "provider: anthropic -> elsewhere; this cannot be forced" in first
        assert "✗ refused  provider: anthropic -> elsewhere" in said(pilot)
        text = words(screen)
        places = [text.index(each) for each in ("provider: anth", "held by", "c names it", "OUTCOME")]
        assert places == sorted(places)
        assert "In a shell" not in text
        assert screen.check_action("copy_command", ()) is False
        # A decision can be made all the same, about the first call that waits for one.
        assert screen.call is not None
        assert screen.call.id == "c2"


@pytest.mark.parametrize("entry", [NATIVE, FOREIGN])
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_command_with_its_decisions_is_there_to_be_copied(
    tmp_path: Path, entry: AgentEntry, size: tuple[int, int]
) -> None:
    of = case(tmp_path, READ, EDIT, EDIT_TEST, answered=1, entry=entry, now=PRINT)
    app, _ = on_stage(tmp_path, of)
    begins = "refold resume /runs/fix-add.json"
    begins += " --agent agents.fix:agent" if entry is NATIVE else ""
    async with app.run_test(size=size) as pilot:
        screen = await planned(pilot)
        command = f"{begins} --decide=c2= --decide=c3="
        left_open = "write rerun, failed or done:TEXT behind the last = of each --decide"
        assert f"In a shell {command} {left_open}; y copies it" in words(screen)
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard == command)
        await type_into(pilot, "d", "it's done")
        await pilot.press("a")
        await until(pilot, lambda: screen.query_one(PromptBar).is_open)
        await pilot.press(*"yes", "enter")
        await until(pilot, lambda: "✓ ready" in said(pilot))
        decided = ["--decide=c2=done:it's done", "--decide=c3=rerun"]
        await pilot.press("y")
        await until(pilot, lambda: shlex.split(app.clipboard) == [*begins.split(), *decided])
        assert "as decided; y copies it" in words(screen)
        assert app.background_faults == []


async def test_a_call_whose_id_reads_as_something_else_goes_by_its_number_in_the_command(
    tmp_path: Path,
) -> None:
    of = case(tmp_path, READ, a_call("x=done:y", "replace_text", "a"), answered=1)
    app, _ = on_stage(tmp_path, of)
    async with app.run_test(size=(120, 40)) as pilot:
        assert "'--decide=#2='" in words(await planned(pilot))


async def test_the_agent_can_be_named(tmp_path: Path) -> None:
    of = case(tmp_path, READ)._replace(factory="")
    app, stage = on_stage(
        tmp_path, of._replace(facts=msgspec.structs.replace(of.facts, problem="which agent?"))
    )
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await planned(pilot)
        assert "✗ which agent?" in words(screen)
        await type_into(pilot, "c", " other.agents:fix ")
        await until(pilot, lambda: len(stage.asked) == 2)
        assert stage.asked[1] == ("other.agents:fix", "")
        await until(pilot, lambda: "--agent other.agents:fix" in words(screen))
        assert app.background_faults == []


async def test_another_tools_agent_is_asked_for_its_configuration_once(tmp_path: Path) -> None:
    app, stage = on_stage(tmp_path, case(tmp_path, READ, entry=FOREIGN, now=None))
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await planned(pilot)
        assert screen.check_action("in_terminal", ()) is False
        await type_into(pilot, "enter", "/etc/my config.yaml")
        await until(pilot, lambda: len(stage.asked) == 2)
        await until(pilot, lambda: "other resume fix-add --config '/etc/my config.yaml'" in words(screen))
        await pilot.press("enter")
        await until(pilot, lambda: bool(stage.answers))
        assert app.background_faults == []
    assert stage.answers[0] is not None
    assert stage.answers[0].how == "terminal"


async def test_what_cannot_be_read_is_said_and_can_be_left(tmp_path: Path) -> None:
    async def fails(progress: Callable[[float], None], *, factory: str, config: str) -> Prepared:
        raise RunNotFound(f"{HOSTILE}: not there", remedy="look [elsewhere]")

    app = RefoldApp(settings(tmp_path), lambda: Screen())
    async with app.run_test(size=(60, 20)) as pilot:
        app.push_screen(ResumeScreen("gone", fails))
        await until(pilot, lambda: "✗ cannot be resumed" in said(pilot))
        assert "look [elsewhere]" in said(pilot)
        await pilot.press("enter", "x", "F", "f", "m", "c", "escape")
        await until(pilot, lambda: not isinstance(app.screen, ResumeScreen))
        assert app.background_faults == []


async def test_escape_answers_while_the_run_is_read(tmp_path: Path) -> None:
    async def never(progress: Callable[[float], None], *, factory: str, config: str) -> Prepared:
        progress(0.25)
        await asyncio.Event().wait()
        raise AssertionError

    app = RefoldApp(settings(tmp_path), lambda: Screen())
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(ResumeScreen("long", never))
        await until(pilot, lambda: "reading the run 25%" in said(pilot))
        await pilot.press("enter", "x", "f", "escape")
        await until(pilot, lambda: not isinstance(app.screen, ResumeScreen))
        assert app.background_faults == []


async def test_in_a_small_terminal_everything_can_be_reached(tmp_path: Path) -> None:
    calls = [a_call(f"c{number}", f"replace_text_{number}", "x" * 200) for number in range(30)]
    app, _ = on_stage(tmp_path, case(tmp_path, *calls))
    async with app.run_test(size=(60, 20)) as pilot:
        screen = await planned(pilot)
        rows = shown(app)
        assert any("Resume fix-add" in row for row in rows)
        assert any("decide about 30 calls" in row for row in rows)
        assert any("enter resume" in row for row in rows)
        await pilot.press("home")
        await until(pilot, lambda: "Starts in" in said(pilot))
        await pilot.press("end")
        await until(pilot, lambda: "then what the agent records" in said(pilot))
        for _ in calls:
            await pilot.press("x")
        assert screen.plan is not None
        assert screen.plan.outcome == "accept"
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: len(shown(app)[0]) == 120 and "✓ ready" in said(pilot))
        assert app.background_faults == []


async def test_a_key_that_repeats_opens_one_dialog(tmp_path: Path) -> None:
    path = write(tmp_path, EDIT)
    given = settings(tmp_path)
    app = RefoldApp(given, lambda: RunScreen(path, settings=given))
    async with app.run_test(size=(100, 30)) as pilot:
        run = app.screen
        assert isinstance(run, RunScreen)
        await until(pilot, lambda: run.reader is not None and run.reader.complete)
        await pilot.press("r", "r", "r")
        screen = await planned(pilot)
        assert len(app.screen_stack) == 2
        assert "which agent it runs is not known" in words(screen)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is run)
        await pilot.press("r")
        await planned(pilot)
        assert app.background_faults == []


@pytest.mark.parametrize("width", [30, 60, 76, 110, 200])
def test_every_line_fits_and_nothing_hostile_gets_through(tmp_path: Path, width: int) -> None:
    calls = [a_call(HOSTILE, HOSTILE, HOSTILE * 20), EDIT]
    facts = case(tmp_path, *calls, now=msgspec.structs.replace(PRINT, model=HOSTILE)).facts
    request = ResumeRequest(force=True, reason=HOSTILE, decisions={"c2": Decision("done", HOSTILE)})
    plan = plan_resume(facts, request, ("refold", HOSTILE))
    drawn = resume_lines(plan, width, shown=("refold", HOSTILE), directory=HOSTILE, news=(HOSTILE,))
    assert len(drawn.lines) == len(drawn.calls)
    for line in (*drawn.lines, verdict(plan)):
        assert "\x1b" not in plain(line)
        assert "\u202e" not in plain(line)
    assert all(cells(line) <= width for line in drawn.lines)
    assert {0, 1} <= set(drawn.calls)


def of_snapshot(directory: Path) -> Case:
    now = msgspec.structs.replace(PRINT, system_hash="9be0" * 16)
    return case(directory, READ, EDIT, answered=1, now=now)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_resume(snap_compare: Compare, tmp_path: Path, size: tuple[int, int]) -> None:
    async def ready(pilot: Pilot[None]) -> None:
        await planned(pilot)

    app, _ = on_stage(tmp_path, of_snapshot(tmp_path))
    assert snap_compare(app, terminal_size=size, run_before=ready)


def test_resume_without_colour(snap_compare: Compare, tmp_path: Path) -> None:
    async def ready(pilot: Pilot[None]) -> None:
        await planned(pilot)
        await type_into(pilot, "F", "the system prompt was mended")
        await type_into(pilot, "d", "1 place changed")

    app, _ = on_stage(tmp_path, of_snapshot(tmp_path), no_color=True)
    assert snap_compare(app, terminal_size=(100, 30), run_before=ready)
