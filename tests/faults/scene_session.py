"""A run directory that is begun or written to, and what must be true of it however its writer ended."""

from __future__ import annotations

import re
from pathlib import Path

from tests.faults import session_child as scenes
from tests.rivumi_cases import workspace
from tests.session_story import events_of, manifest_of

from refold.core.errors import RunNotFound
from refold.core.rivumi.claim import SessionRefused, SessionUndecided
from refold.core.rivumi.verdict import Verdict, verdict
from refold.core.store.session import SessionStore
from refold.core.store.session_files import read_run

CODES = {"ok", "in_flight_side_effect", "terminal", "manifest_missing", "request_missing"}
"""The rows of the table that a kill of this writer can lead to."""


def _is_ended(log: bytes) -> bool:
    return not log or log.endswith(b"\n")


class Scene:
    """A run before the child begins, and what must be true of it after the child ended, however it ended."""

    def __init__(self, directory: Path, scene: str) -> None:
        self.root = directory
        self.run = directory / scenes.RUN
        self.scene = scene
        self.before: list[dict[str, object]] = []
        if scene != "create":
            with scenes.begin(directory) as session:
                workspace(self.run)
                if scene == "decide":
                    scenes.started(session)
            self.before = events_of(self.run)

    def check(self, said: str) -> Verdict | None:
        """Check what is there; gives the verdict on it, or None where no run came to be."""
        acknowledged = [int(number) for number in re.findall(r"^ack (\d+)$", said, re.MULTILINE)]
        known = max([len(self.before) - 1, *acknowledged])
        try:
            found = verdict(read_run(self.run))
        except RunNotFound:
            assert known < 0
            return None
        log = self.run / "events.jsonl"
        if (self.run / "session.json").exists() and log.exists() and not _is_ended(log.read_bytes()):
            found = self._repaired()
        assert found.original.code in CODES | ({"workspace"} if self.scene == "create" else set())
        if not (self.run / "session.json").exists():
            assert (known, found.outcome) == (-1, "refuse")
            try:
                SessionStore(self.root).claim_and_validate_resume(scenes.RUN).close()
            except SessionRefused:
                return found
            raise AssertionError("a run without a manifest was claimed")
        events = events_of(self.run)
        assert events[: len(self.before)] == self.before
        assert [event["sequence"] for event in events] == list(range(len(events)))
        assert known <= len(events) - 1
        assert manifest_of(self.run)["last_event_sequence"] - (len(events) - 1) in {0, 1}
        return found

    def _repaired(self) -> Verdict:
        """Put the end of the log right: an event was written in part, or without its newline."""
        store = SessionStore(self.root)
        plan = store.plan_repair(scenes.RUN)
        assert plan is not None
        store.repair(scenes.RUN, plan)
        return verdict(read_run(self.run))

    def go_on(self) -> None:
        """Claim the run and write to it, unless it has ended."""
        if not (self.run / "session.json").exists():
            return
        if self.scene == "create":
            workspace(self.run)
        events, store = events_of(self.run), SessionStore(self.root)
        try:
            session = store.claim_and_validate_resume(scenes.RUN)
        except SessionUndecided:
            session = store.claim_and_validate_resume(scenes.RUN, decisions=scenes.DECISIONS)
        except SessionRefused as refused:
            if (self.scene, refused.code) == ("finish", "terminal"):
                return
            raise
        with session:
            last = session.emit("hook.completed")
        assert events_of(self.run)[: len(events)] == events
        assert manifest_of(self.run)["last_event_sequence"] == last == len(events_of(self.run)) - 1
        ids = [item["tool_call_id"] for item in manifest_of(self.run)["messages"] if "ok" in item]
        assert len(ids) == len(set(ids))
        found = verdict(read_run(self.run))
        assert (found.outcome, found.replay.code) == ("accept", "ok")
