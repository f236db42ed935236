"""The dialog before a resume: it proves what will happen, asks what must be asked, and does none of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar, Final, Literal, NamedTuple, Protocol

import msgspec
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from refold.app import keys
from refold.app.agents import spelled
from refold.app.failure import words
from refold.app.going_on import Prepared
from refold.app.lines import Cell, FixedRows, Line
from refold.app.loading import STILL_READING, aside
from refold.app.present import resume_plan as present
from refold.app.present.layout import cell
from refold.app.safe import Safe, wrap
from refold.app.typed_resume import typed_resume
from refold.app.widgets.dialog import Dialog
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_list import GUTTER, LineList
from refold.app.widgets.prompt_bar import PromptBar
from refold.app.widgets.words import Words
from refold.core.errors import RefoldError
from refold.core.records import Decision
from refold.core.resume import PlannedCall, ResumeFacts, ResumePlan, ResumeRequest

_YES: Final = "yes"
_SAID_KEYS: Final = ("resume.agent", "resume.copy")
How = Literal["screen", "terminal", "fork", "look"]
"""What was chosen: go on in this screen, in the terminal, in a fork, or only look."""


class Prepare(Protocol):
    """Reads what the plan depends on."""

    def __call__(
        self, progress: Callable[[float], None], *, factory: str, config: str
    ) -> Awaitable[Prepared]:
        """Read it again, with the agent or its configuration as they are named now."""
        ...


class ResumeAnswer(NamedTuple):
    """How the dialog was left."""

    how: How
    plan: ResumePlan
    prepared: Prepared


class _Rows(LineList):
    """Lines that are pointed at, not picked: Enter is the dialog's, and no click resumes anything."""

    def choose(self) -> None:
        """Do nothing."""

    def key_enter(self, event: events.Key) -> None:
        """Leave the key to the dialog."""


class ResumeScreen(Dialog[ResumeAnswer | None]):
    """Shows the plan of a resume and lets it be changed, until it is accepted or left."""

    CSS_PATH = "../../styles/dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("resume")]

    def __init__(
        self, run_id: str, prepare: Prepare, note: Callable[[ResumePlan], None] | None = None
    ) -> None:
        """Ask about a run.

        Args:
            run_id: Its id, for the title while it is read.
            prepare: Reads what the plan depends on; tells its progress from 0 to 1.
            note: Notes what is decided about a run directory as soon as it is; on a thread of its own.
        """
        super().__init__()
        self._note = note
        self._run_id = run_id
        self._prepare = prepare
        self._prepared: Prepared | None = None
        self._request = ResumeRequest()
        self._plan: ResumePlan | None = None
        self._drawn = present.Drawn((), ())
        self._failed: RefoldError | None = None
        self._asked_about: int | None = None
        self._factory = ""
        self._config = ""
        self._asked_config = False
        self._noted = present.NOTHING_NOTED
        """What stands in the notes on a run directory."""
        self._unseen = True
        """Whether the plan is still to be shown for the first time, from its first open question on."""

    def compose(self) -> ComposeResult:
        """Title, plan, verdict, what is typed, keys."""
        with Vertical(id="resume", classes="dialog"):
            yield Words(
                (Cell(Safe("Resume "), "accent"), cell(self._run_id, "strong", 60)), id="resume-title"
            )
            yield _Rows(id="resume-plan")
            yield Words((Cell(Safe("reading the run"), "dim"),), id="resume-verdict")
            yield PromptBar(id="resume-prompt")
            yield KeyBar(id="resume-keys")

    def on_mount(self) -> None:
        """Begin to read."""
        self.listing.focus()
        self._read()

    @property
    def listing(self) -> LineList:
        """The lines of the plan."""
        return self.query_one("#resume-plan", LineList)

    @property
    def plan(self) -> ResumePlan | None:
        """The plan as it stands; None while the run is read."""
        return self._plan

    def on_resize(self) -> None:
        """Draw for another width."""
        self.call_after_refresh(self._draw)

    @work(group="facts", exclusive=True)
    async def _read(self) -> None:
        verdict = self.query_one("#resume-verdict", Words)
        verdict.show((Cell(Safe("reading the run"), "dim"),))

        def progress(share: float) -> None:
            verdict.show((Cell(Safe(f"reading the run {share:.0%}"), "dim"),))

        try:
            self._prepared = await self._prepare(progress, factory=self._factory, config=self._config)
        except RefoldError as error:
            self._failed = error
            self._plan = None
            self._draw()
            return
        self._failed = None
        self._unseen = True
        self._noted = self._prepared.noted
        decided = self._request.decisions or self._prepared.noted
        self._decide(msgspec.structs.replace(self._request, decisions=decided))

    def _decide(self, request: ResumeRequest) -> None:
        """Plan anew for another request, and draw it."""
        if self._prepared is None:
            return
        self._request = request
        self._plan = self._prepared.plan(request)
        self._draw()
        self.refresh_bindings()

    def _draw(self) -> None:
        listing = self.listing
        width = listing.scrollable_content_region.width - GUTTER
        if width < 4:
            return
        if self._plan is not None and self._prepared is not None:
            plan, agent, typed = self._plan, self._prepared.agent, self._typed_command()
            command = agent.command(self._request, calls=plan.calls)
            if plan.answers is not None:
                # What its own program would refuse is not offered.
                command = plan.command or ()
            self._drawn = present.resume_lines(
                plan,
                width,
                # Of our own agents one command does it: what is to be typed.
                shown=[spelled(command)] if command and not (plan.native and typed) else (),
                directory=agent.directory,
                workplace=agent.workplace,
                news=self._prepared.news,
                noted=self._noted,
                typed=spelled(typed),
                keys=self._keys,
            )
            said = spelled(typed if plan.native and typed else command)
            beside = (cell(f"   {said}", "dim", 1000),) if said else ()
            self.query_one("#resume-title", Words).show((*present.title(plan), *beside))
            self.query_one("#resume-verdict", Words).show(present.verdict(plan, self._keys))
        elif self._failed is not None:
            said, remedy = words(self._failed)
            lines: list[Line] = [(Cell(row, "problem"),) for row in wrap(said, width)]
            lines += [(Cell(row, "dim"),) for row in wrap(remedy, width)]
            self._drawn = present.Drawn(tuple(lines), (-1,) * len(lines))
            self.query_one("#resume-verdict", Words).show((Cell(Safe("✗ cannot be resumed"), "problem"),))
        self.fit(listing, len(self._drawn.lines))
        if self._unseen and self._plan is not None:
            self._unseen = False
            # What refuses stands first, and no decision helps against it.
            waiting = () if self._plan.outcome == "refuse" else present.undecided(self._plan)
            listing.show(FixedRows(self._drawn.lines), self._drawn.first_line(next(iter(waiting), -2)))
        else:
            listing.show(FixedRows(self._drawn.lines), max(0, listing.cursor), keep=True)

    @property
    def _number(self) -> int | None:
        """The number of the call that a decision is about: under the cursor, else the first that waits."""
        if self._plan is None:
            return None
        cursor = self.listing.cursor
        here = self._drawn.calls[cursor] if 0 <= cursor < len(self._drawn.calls) else -1
        if here >= 0 and present.is_open(self._plan.calls[here]):
            return here
        return next(iter(present.undecided(self._plan)), None)

    @property
    def call(self) -> PlannedCall | None:
        """The call that a decision is about."""
        number = self._number
        return None if number is None or self._plan is None else self._plan.calls[number]

    @on(LineList.Moved, "#resume-plan")
    def _moved(self) -> None:
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out what the plan does not allow."""
        plan, prepared = self._plan, self._prepared
        if action in ("close", "read_again"):
            return True
        if plan is None or prepared is None:
            return None if action in ("go", "fork") else False
        codes = {reason.code for reason in plan.reasons}
        match action:
            case "go":
                return True if plan.may_be_tried else None
            case "in_terminal":
                return False if not prepared.agent.in_screen else True if plan.may_be_tried else None
            case "decide":
                return self.call is not None
            case "take_back":
                return self.call is not None and self.call.decision is not None
            case "agree":
                return plan.repair is not None
            case "force":
                return self._may_be_forced(codes, prepared)
            case "name_agent":
                return prepared.agent.native or prepared.agent.asks_config or bool(prepared.agent.config)
            case "fork":
                return prepared.last_point is not None
            case "look":
                return "locked" in codes
            case "copy_command":
                return bool(self._typed_command())
        return True

    def why_not(self, action: str) -> str:
        """Say why an action is refused now; empty where it is not."""
        if action not in ("go", "in_terminal", "fork"):
            return ""
        if self._failed is not None:
            return words(self._failed)[0]
        if self._plan is None or self._prepared is None:
            return STILL_READING
        if action == "fork":
            return (
                "" if self._prepared.last_point is not None else "The run has no legal point to fork it at."
            )
        if self._plan.may_be_tried:
            return ""
        return present.why_not(self._plan, self._keys)

    @property
    def _keys(self) -> present.Keys:
        """The keys that do something about what is said."""
        bound = {binding.id: key for key, (_, binding, _, _) in self.active_bindings.items()}
        return present.Keys(*(keys.shown(bound[name]) if name in bound else "" for name in _SAID_KEYS))

    def _typed_command(self) -> tuple[str, ...]:
        """Give what resumes the run from a shell with the answers that are given or asked for."""
        if self._plan is None or self._prepared is None:
            return ()
        return typed_resume(self._prepared.agent, self._prepared.notes, self._plan)

    def action_copy_command(self) -> None:
        """Send what resumes the run from a shell to the clipboard."""
        command = spelled(self._typed_command())
        self.app.copy_to_clipboard(command)
        self.notify(command, title="The resume command was sent to the terminal's clipboard", markup=False)

    def _may_be_forced(self, codes: set[str], prepared: Prepared) -> bool:
        """Say whether force would help: a fingerprint is what it goes past, and nothing else."""
        agent, facts = prepared.agent, prepared.facts
        if not isinstance(facts, ResumeFacts):
            return self._request.force or "wall_time" in codes
        if not (agent.native or agent.entry.force) or codes & present.FINAL:
            return False
        return self._request.force or "fingerprint" in codes or facts.now is None

    def action_close(self) -> None:
        """Leave the run as it is."""
        self.dismiss(None)

    def action_read_again(self) -> None:
        """Read the run again; what was decided stays."""
        self._read()

    def action_go(self) -> None:
        """Resume as shown; an agent that has a configuration of its own is asked for it once."""
        if self._prepared is None:
            return
        if self._prepared.agent.asks_config and not self._asked_config:
            self.action_name_agent()
        else:
            self._answer("screen" if self._prepared.agent.in_screen else "terminal")

    def action_in_terminal(self) -> None:
        """Resume as shown, in the terminal."""
        self._answer("terminal")

    def action_name_agent(self) -> None:
        """Ask which agent goes on with the run, or for its configuration."""
        if self._prepared is None:
            return
        agent = self._prepared.agent
        if agent.native:
            self._prompt.open(Safe("agent, package.module:factory"), agent.factory, purpose="factory")
        else:
            self._prompt.open(Safe("its --config, or nothing"), agent.config, purpose="config")

    def action_look(self) -> None:
        """Only open the run."""
        self._answer("look")

    def action_fork(self) -> None:
        """Fork instead, where every other screen proposes it: before the trouble, else at the end."""
        self._answer("fork")

    def _answer(self, how: How) -> None:
        if self._plan is not None and self._prepared is not None:
            self.dismiss(ResumeAnswer(how, self._plan, self._prepared))

    def action_agree(self) -> None:
        """Agree to the repair of the end, or take that back."""
        self._decide(msgspec.structs.replace(self._request, repair=not self._request.repair))

    def action_force(self) -> None:
        """Ask why the fingerprint is to be crossed."""
        self._prompt.open(Safe("force, because"), self._request.reason, purpose="force")

    def action_decide(self, choice: str) -> None:
        """Decide about a call; one that may have run already is run again only after a word."""
        call, number = self.call, self._number
        if call is None or number is None or self._prepared is None:
            return
        self._asked_about = number
        undecided = self._prepared.plan().calls[number].verdict
        if choice == "done":
            text = call.decision.text if call.decision is not None else ""
            self._prompt.open(Safe("its result was"), text, purpose="done")
        elif choice == "rerun" and undecided == "unknown":
            self._prompt.open(Safe("it may have run: type yes to run it again"), purpose="rerun")
        else:
            self._settle(Decision(choice))

    def action_take_back(self) -> None:
        """Decide nothing about the call."""
        call, number = self.call, self._number
        if call is not None and number is not None:
            decisions = {key: value for key, value in self._request.decisions.items() if key != call.id}
            self._decide(msgspec.structs.replace(self._request, decisions=decisions))
            self._note_decisions()
            self.listing.go(self._drawn.first_line(number))

    @property
    def _prompt(self) -> PromptBar:
        return self.query_one("#resume-prompt", PromptBar)

    @on(PromptBar.Submitted, "#resume-prompt")
    def _typed(self, event: PromptBar.Submitted) -> None:
        text = event.text.strip()
        match event.bar.purpose:
            case "factory":
                self._factory = text
                self._read()
            case "config":
                self._config, self._asked_config = text, True
                self._read()
            case "force":
                self._decide(msgspec.structs.replace(self._request, force=bool(text), reason=text))
                if not text:
                    self.notify("Force needs a reason, which is recorded.", severity="warning")
            case "rerun":
                if text.lower() == _YES:
                    self._settle(Decision("rerun"))
                else:
                    self.notify("Nothing was decided: only the word yes runs it again.")
            case "done":
                if text:
                    self._settle(Decision("done", event.text))
                else:
                    self.notify("Nothing was decided: a result needs a text.")

    def _settle(self, decision: Decision) -> None:
        """Put a decision down and go to the next call that waits for one."""
        number = self._asked_about
        if self._plan is None or number is None:
            return
        decisions = {**self._request.decisions, self._plan.calls[number].id: decision}
        self._decide(msgspec.structs.replace(self._request, decisions=decisions))
        self._note_decisions()
        self.listing.go(self._drawn.first_line(next(iter(present.undecided(self._plan)), number)))

    @work(group="note", exclusive=True)
    async def _note_decisions(self) -> None:
        """Note what is decided about a run directory: it has no place for it, and may never go on."""
        plan, note = self._plan, self._note
        if note is None or plan is None or plan.answers is None:
            return
        try:
            await aside(lambda: note(plan))
        except RefoldError as error:
            self.notify(f"The decision was not noted: {error}", severity="warning", markup=False)
        else:
            self._noted = plan.request.decisions
            self._draw()
