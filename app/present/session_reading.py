"""Joins an open run directory to the panes: its log like a journal, its manifest beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, cast

from msgspec import structs

from refold.app.lines import Line, Role
from refold.app.present import units
from refold.app.present.changes import Fate, recorded_as_failed
from refold.app.present.conversation import WINDOW
from refold.app.present.layout import BLANK, cell, flow
from refold.app.present.money import Prices
from refold.app.present.reading import Reading, fresh
from refold.app.present.record import READ, Answer
from refold.app.present.rows import TimelineRows
from refold.app.present.run_top import Judged, RunTop
from refold.app.present.session_conversation import session_conversation_lines
from refold.app.present.session_record import event_lines
from refold.app.present.session_rows import Glimpse, SessionRows, glimpse
from refold.app.present.session_state import SessionState, session_state_lines
from refold.app.present.view import View
from refold.core.errors import BadRecord, StoreError
from refold.core.formats.rivumi import EventDecoder
from refold.core.records import Json, Record
from refold.core.resume import ResumePlan
from refold.core.rivumi.calls import CallLife
from refold.core.rivumi.history import Since
from refold.core.rivumi.manifest import Manifest, Request
from refold.core.rivumi.members import Members
from refold.core.rivumi.sent import COMPACTED, sent_at
from refold.core.rivumi.timeline import EventTimeline, Life
from refold.core.status import RUNNING, Status
from refold.core.store.session_reader import SessionReader
from refold.core.store.session_standing import standing_of
from refold.core.subagents import MOST, Stretch, Told, told_stretches
from refold.core.timeline import Timeline
from refold.core.touches import Place

_JUDGED_TO: Final = 32 << 20
"""Logs above this many bytes are not judged on the screen: its own program refuses half of that."""
_WORDS: Final = {"accept": "can go on", "ask": "you decide", "refuse": "cannot go on"}
_ROLES: Final[dict[str, Role]] = {"accept": "good", "ask": "warn", "refuse": "problem"}


class SessionReading(Reading):
    """Answers what the panes ask about one run directory."""

    def __init__(self, reader: SessionReader, window: Timeline | None = None) -> None:
        """Read a run.

        Args:
            reader: The open run.
            window: Rows of its end alone, to be read while the index is not complete.
        """
        super().__init__(reader, window)
        self._session = reader
        self._decoder = cast("EventDecoder", reader.decoder)
        self._stands: tuple[object, Status] | None = None
        """The status, and of which state of the files it is."""

    @property
    def _events(self) -> EventTimeline:
        return cast("EventTimeline", self.timeline)

    @property
    def inherited_to(self) -> int | None:
        """Nothing: a fork begins a log of its own."""
        return None

    @property
    def beside(self) -> bool:
        """The manifest says something, whatever became of the log."""
        return True

    @property
    def nothing(self) -> str:
        """Why there are no rows."""
        return f"no events: {self._session.log_problem or 'events.jsonl is empty'}"

    def calls(self, item: int) -> Sequence[tuple[str, Json]]:
        """Give tool and arguments of the call of an event; nothing where it is none, or cannot be read."""
        try:
            data = self._session.event(item).data
        except BadRecord:
            return ()
        name = data.get("name")
        return [(name if isinstance(name, str) else "", data.get("arguments"))]

    def rows(self) -> TimelineRows:
        """Give the rows of the timeline list."""
        request = self._session.request
        rows = SessionRows(
            self._events,
            self.raw,
            self._decoder,
            prompt=self._through(request).instruction if request is not None else "",
            partial=self.is_window,
        )
        rows.lanes = self.lanes
        return rows

    def status(self, *, held: bool) -> Status:
        """Give the status as the list of runs does."""
        if held:
            return RUNNING
        key = (self.timeline.items, self.timeline.torn is not None, self._session.beside)
        if self._stands is None or self._stands[0] != key:
            self._stands = (key, standing_of(self._session))
        return self._stands[1]

    def top(self, *, held: bool) -> RunTop:
        """Give what the first row of the screen says about the run."""
        session, manifest = self._session, self._session.manifest
        model = manifest.model if manifest is not None else ""
        if not model and self.timeline.items and not self.is_window:
            model = self._events.state_at(self.timeline.items - 1).model
        top = self._counted(RunTop(session.run_id, format="rivumi", model=model), self.timeline, held=held)
        if manifest is None or not self.timeline.items or self._events.type_of(0) != "run.forked":
            return top
        # What a fork inherits stands in its conversation alone, as the list counts it.
        said = [item for item in manifest.messages if isinstance(item, dict)]
        said = [item for item in said if item.get("role") == "assistant"]
        calls = sum(len(Members(item).many("tool_calls")) for item in said)
        return top._replace(turns=max(top.turns or 0, len(said)), calls=max(top.calls or 0, calls))

    def judge(self, plan: Callable[[Path], ResumePlan]) -> Judged | None:
        """Say whether the run can go on: what the plan of its resume says."""
        if self.reader.size > _JUDGED_TO:
            return None
        try:
            found = plan(self.reader.path)
        except StoreError:
            return None
        manifest, timeline = self._session.manifest, self._events
        if manifest is not None and manifest.terminal:
            return None
        if manifest is None and timeline.items and timeline.terminal(timeline.items - 1) is not None:
            return None
        first = next(iter(found.reasons), None)
        code = "" if first is None else first.code.removeprefix("original:")
        word, role = _WORDS[found.outcome], _ROLES[found.outcome]
        if found.refused_for_good and found.answers is not None:
            word, role, code = "its program refuses it", "problem", found.answers.code
        if code == "no_agent":
            word, role, code = "no program here goes on with it", "warn", ""
        said = f"{word}: {code}" if code else word
        return Judged(said, role, "" if first is None else first.message)

    def lanes(self) -> tuple[Stretch, ...]:
        """Give while which events agents of its own were at work."""
        timeline = self._events
        kinds = [name for name in timeline.names if name.startswith("subagents.")]
        if self.is_window or not kinds:
            return ()
        found = sorted(item for kind in kinds for item in timeline.of_type(kind, 4 * MOST))
        return told_stretches(
            (Told(item, timeline.type_of(item), self._agents(item)) for item in found), timeline.items
        )

    def inner(self, index: int) -> tuple[Path, ...]:
        """Give the runs of its own agents that a row names."""
        timeline = self._events
        item = timeline.row(index).item
        if not timeline.type_of(item).startswith("subagents."):
            return ()
        found = (self._session.inner(name) for name in self._agents(item))
        return tuple(path for path in found if path is not None)

    def _agents(self, item: int) -> tuple[str, ...]:
        """Give the agents that an event names."""
        own = Members(self._seen(item).data)
        names = [own.text("id"), *(str(name) for name in own.many("ids"))]
        agents = [agent for agent in own.many("agents") if isinstance(agent, dict)]
        names += [Members(agent).text("id") for agent in agents]
        return tuple(dict.fromkeys(name for name in names if name))

    def record(self, index: int, width: int, view: View) -> Iterator[Line]:
        """Give the lines of the Record pane for a row."""
        if index < 0:
            yield from flow((cell(self.nothing, "problem", 1000),), width, 2)
            yield BLANK
            yield from flow((cell("State and Conversation show what the manifest says.", "dim"),), width)
            return
        kind = self._events.type_of(index)
        patch = self._session.patch() if kind.startswith("run.") and self._is_last_end(index) else None
        if self.lens is not None and patch is not None:
            patch = self.lens.patch(patch)
        yield from event_lines(self.subject(index), self._events, self._seen(index), width, view, patch=patch)
        for number, path in enumerate(self.inner(index)):
            said = "and lists have beside it " if number else "Enter opens the run of "
            yield (cell(said, "dim"), cell(path.name, "accent", 120))

    def _is_last_end(self, item: int) -> bool:
        end = self._events.terminal(self.timeline.items - 1)
        return end is not None and end[0] == item

    def _seen(self, item: int) -> Glimpse:
        where = self.timeline.span(item)
        return glimpse(self.raw(item, READ), where.end - where.start, self._decoder)

    def _answers(self, index: int, item: int) -> tuple[Answer | None, ...]:
        """Nothing: the life of a call says it."""
        return ()

    def _peek(self, kind: str, head: bytes, *, whole: bool) -> Record | None:
        return None

    def models(self) -> Sequence[tuple[int, str]]:
        """Give from which item on which model was used."""
        return self._events.history.models

    def state(
        self, item: int, width: int, *, held: bool = False, prices: Prices | None = None
    ) -> Iterator[Line | None]:
        """Give the lines of the State pane after an item, None where work was done but no line is ready."""
        if self.is_window:
            yield (cell("still reading: known when the whole run was read", "dim"),)
            return
        timeline, session = self._events, self._session
        at_end = self.reader.complete and item == timeline.items - 1
        view = SessionState(
            timeline.seq(item) if item >= 0 else None,
            timeline.state_at(item),
            timeline.state_at(item - 1) if item > 0 else None,
            session.manifest,
            session.manifest_problem,
            at_end,
            self.ending(item, held=held),
            session.inner_runs(),
            Since(*(None if at is None else timeline.seq(at) for at in timeline.since(item))),
        )
        yield from session_state_lines(view, width)
        if item >= 0:
            yield from self._money_lines(item, width, prices)
            yield from self.touched(item, width, held=held)

    def changes(self, index: int, width: int, view: View, *, held: bool = False) -> Iterator[Line | None]:
        """Give the lines of the Changes pane for a row; at the end of the run what it left as well."""
        yield from super().changes(index, width, view, held=held)
        timeline = self._events
        if index < 0 or view.scope == "record":
            ended = index >= 0 and timeline.type_of(index).startswith("run.") and self._is_last_end(index)
        else:
            ended = self.reader.complete and index == timeline.items - 1
        if ended:
            from refold.app.present.patch import left_lines

            patch = self._session.patch()
            yield from left_lines(patch if self.lens is None else self.lens.patch(patch), width, view)

    def _places(self, index: int) -> Sequence[Place]:
        requested = self._requested(self._events.life(index))
        return () if requested is None else (Place(requested, 0, index),)

    def _requested(self, life: Life | None) -> int | None:
        """Give the item that asked for a call; its arguments stand there."""
        if life is None or life.now.requested is None:
            return None
        return self._events.item_at(life.now.requested)

    def _fate(self, place: Place, *, held: bool) -> Fate:
        life = self._events.life(place.end)
        now = None if life is None else life.now
        if now is None or now.state not in {"completed", "failed", "started"}:
            words = {"denied": "denied", "cancelled": "cancelled", "abandoned": "abandoned"}
            said = words.get(now.state if now is not None else "", "not started")
            return Fate("·", f"{said}: it changed nothing", "dim")
        if now.state == "started":
            words_ = "started, no end yet" if held else "started, no end recorded: outcome unknown"
            return Fate("·" if held else "?", words_, "dim" if held else "warn")
        if now.outcome_unknown:
            return recorded_as_failed(now.ended, again=now.settled == "rerun")
        if now.state == "failed":
            return Fate("✗", f"failed at seq {now.ended}: not counted as a change", "problem")
        return Fate("✓", f"done at seq {now.ended}", "good", happened=True)

    def _waiting(self, item: int) -> Sequence[Place]:
        timeline = self._events
        lives = (
            timeline.item_at(call.requested) for call in self._open_at(item) if call.requested is not None
        )
        return [Place(requested, 0, item, unknown=True) for requested in lives if requested is not None]

    def _open_at(self, item: int) -> Sequence[CallLife]:
        return () if item < 0 or self.is_window else self._events.state_at(item).open_calls

    def ending(self, item: int, *, held: bool) -> str:
        """Say how the run ends where an item is its last one and no end of a run; else nothing."""
        timeline = self._events
        if self.is_window or not self.reader.complete or item != timeline.items - 1 or item < 0:
            return ""
        if timeline.terminal(item) is not None:
            return ""
        if held:
            return "● a process is seen holding the lock: more may follow"
        status = self.status(held=held)
        if status.name == "ready":
            return fresh(0, is_fork=timeline.type_of(0) == "run.forked")
        if status.name == "suspended":
            return f"▮ {status.rule}"
        calls = [call for call in timeline.state_at(item).open_calls if call.uncertain]
        lost = f", {units.plural(len(calls), 'call')} without an end: outcome unknown" if calls else ""
        return f"✗ end of the log: no event says that the run ended{lost}"

    def conversation(self, item: int, width: int, view: View, window: int = WINDOW) -> Iterator[Line | None]:
        """Give the lines of the Conversation pane, and None where work was done but no line is ready."""
        session, manifest, request = self._session, self._session.manifest, self._session.request
        if self.lens is not None and manifest is not None:
            manifest = self.lens.manifest(manifest)
        at_end = self.reader.complete and item == self.timeline.items - 1
        kept: int | None = None
        if manifest is not None and not at_end:
            cut = self._sent(manifest, item)
            yield None
            if cut is not None:
                kept, manifest = len(manifest.messages), structs.replace(manifest, messages=cut, pending=None)
        yield from session_conversation_lines(
            manifest,
            session.manifest_problem,
            self._through(request) if request is not None else None,
            width,
            view,
            window,
            at_end=at_end,
            started=self._started(item if kept is not None else self.timeline.items - 1),
            kept=kept,
        )

    def _sent(self, manifest: Manifest, item: int) -> tuple[Json, ...] | None:
        """Give the messages up to an item; None where nothing tells which they were."""
        timeline = self._events
        if item < 0 or self.is_window or COMPACTED in timeline.names:
            return None
        turn = timeline.columns.last_assistant[item] - 1
        asked = any(timeline.type_of(at) == "model.requested" for at in range(max(0, turn), item + 1))
        ended = {call.id for call in timeline.state_at(item).calls if call.ended is not None}
        inherited = 0
        if timeline.type_of(0) == "run.forked":
            inherited = Members(self._session.event(0).data).whole("messages_included", 0)
        turns = timeline.turn(item)
        return sent_at(manifest.messages, turns, ended, inherited=inherited, asked=asked and turns > 0)

    def _through(self, request: Request) -> Request:
        return self.lens.request(request) if self.lens is not None else request

    def _started(self, item: int) -> frozenset[str]:
        timeline = self._events
        if item < 0 or self.is_window:
            return frozenset()
        return frozenset(call.id for call in timeline.state_at(item).open_calls)
