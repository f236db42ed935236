"""The life of each call and check, folded by its id (formats/rivumi.md 2, and 9, weakness 6).

Never by position: a parallel batch, a hook or a nested agent may stand between a start and its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Self, TypeAlias

import msgspec

from refold.core.records import Json
from refold.core.rivumi.events import Event
from refold.core.rivumi.members import Members

CHECK: Final = "verification:"
"""How the action id of a check begins; its name follows."""

State: TypeAlias = Literal[
    "requested", "asked", "approved", "denied", "cancelled", "abandoned", "started", "completed", "failed"
]


class CallLife(msgspec.Struct, frozen=True, gc=False):
    """One call of a tool, or one check, from the request to its end; each moment is a sequence."""

    id: str
    """The call id; of a check `verification:` and its name."""
    name: str = ""
    effect: str = ""
    arguments: Json = None
    requested: int | None = None
    asked: int | None = None
    decided: int | None = None
    decision: str = ""
    """What was decided; `reused` where an earlier grant was."""
    started: int | None = None
    ended: int | None = None
    ok: bool | None = None
    error: str = ""
    settled: str = ""
    """What a person decided of an end that nobody saw: rerun, failed or done."""
    exit_code: int | None = None
    abandoned: int | None = None

    @property
    def is_check(self) -> bool:
        """A check of the result, not a call of the model."""
        return self.id.startswith(CHECK)

    @property
    def open(self) -> bool:
        """Started, and no end of it is recorded."""
        return self.started is not None and self.ended is None

    @property
    def uncertain(self) -> bool:
        """Open, and it may have changed something: nobody can say whether it did."""
        return self.open and self.effect != "read"

    @property
    def outcome_unknown(self) -> bool:
        """It may have changed something and nobody can say whether it did, whatever was recorded later."""
        if self.ended is None:
            return self.uncertain
        # One that was allowed may have begun where the event of its start is the one that was lost.
        began = self.started is not None or self.decision.startswith("allow")
        return began and self.settled in {"failed", "rerun"} and self.effect != "read"

    @property
    def again(self) -> CallLife:
        """The life that begins where it was decided that it runs again."""
        return CallLife(self.id, self.name, self.effect, self.arguments, self.requested)

    @property
    def waits(self) -> bool:
        """Asked about, or allowed, and not started: the manifest keeps it as its pending action."""
        return self.asked is not None and self.state in {"asked", "approved"}

    @property
    def state(self) -> State:
        """How far it came."""
        if self.ended is not None:
            return "failed" if self.ok is False else "completed"
        if self.started is not None:
            return "started"
        if self.abandoned is not None:
            return "abandoned"
        if self.decision in {"deny", "cancel"}:
            return "denied" if self.decision == "deny" else "cancelled"
        if self.decided is not None:
            return "approved"
        return "requested" if self.asked is None else "asked"


class Calls:
    """Folds events to lives."""

    def __init__(self) -> None:
        self._lives: list[CallLife] = []
        self._latest: dict[str, int] = {}
        self._transactions: set[int] = set()

    def copy(self) -> Self:
        """Give a fold that goes on by itself from here."""
        other = type(self)()
        other._lives, other._latest = self._lives.copy(), self._latest.copy()  # noqa: SLF001
        other._transactions = self._transactions.copy()  # noqa: SLF001
        return other

    def transactions(self) -> list[int]:
        """Give the numbers of the lives that a transaction of a nested agent began."""
        return sorted(self._transactions)

    def take_over(self, lives: Sequence[CallLife], transactions: Sequence[int]) -> None:
        """Go on from lives that were folded before; only for a fold that was fed nothing."""
        self._lives = [*lives]
        self._latest = {life.id: at for at, life in enumerate(lives)}
        self._transactions = set(transactions)

    def lives(self) -> tuple[CallLife, ...]:
        """Give all lives, in the order in which they began."""
        return tuple(self._lives)

    def life(self, at: int) -> CallLife:
        """Give one life by its number."""
        return self._lives[at]

    def feed(self, event: Event) -> None:
        """Take one event in; one that is about no call changes nothing."""
        data, seq = Members(event.data), event.sequence
        match event.event_type:
            case "tool.requested":
                self._begin(
                    CallLife(
                        data.text("tool_call_id"),
                        data.text("name"),
                        data.text("effect"),
                        event.data.get("arguments"),
                        seq,
                    )
                )
            case "approval.requested" | "approval.reused" | "approval.resolved" | "approval.abandoned":
                self._approval(event.event_type, data, seq)
            case "tool.started":
                self._start(data.text("tool_call_id"), data.text("name"), data.text("effect"), seq)
            case "tool.completed":
                self._end(data.text("tool_call_id"), data, seq)
            case "verification.started":
                name = data.text("name")
                self._start(CHECK + name, name, "execute", seq)
            case "verification.completed":
                self._end(CHECK + data.text("name"), data, seq)
            case "verification.reused":
                name = data.text("name")
                self._begin(CallLife(CHECK + name, name, "execute", decision="reused", decided=seq))
                self._end(CHECK + name, data, seq)
            case "subagents.transaction_started" | "subagents.transaction_completed":
                self._transaction(event.event_type, data, seq)

    def _approval(self, kind: str, data: Members, seq: int) -> None:
        call, effect = data.text("action_id"), data.text("effect")
        life = self._current(call)
        if life is None or (kind in {"approval.requested", "approval.reused"} and self._is_over(life)):
            name = call.removeprefix(CHECK) if call.startswith(CHECK) else ""
            life = self._begin(CallLife(call, name, effect))
        match kind:
            case "approval.requested":
                life = msgspec.structs.replace(life, asked=seq, decision="", decided=None)
            case "approval.reused":
                life = msgspec.structs.replace(life, asked=seq, decision="reused", decided=seq)
            case "approval.resolved":
                life = msgspec.structs.replace(life, decision=data.text("decision"), decided=seq)
            case _:
                life = msgspec.structs.replace(life, abandoned=seq)
        self._put(msgspec.structs.replace(life, effect=life.effect or effect))

    def _start(self, call: str, name: str, effect: str, seq: int) -> None:
        life = self._current(call)
        if life is None or self._is_over(life):
            again = life is not None and life.settled == "rerun"
            # Somebody decided that it runs again: it is the same request.
            life = self._begin(life.again if life is not None and again else CallLife(call))
        self._put(
            msgspec.structs.replace(life, name=life.name or name, effect=effect or life.effect, started=seq)
        )

    def _end(self, call: str, data: Members, seq: int) -> None:
        life = self._current(call)
        if life is None or life.ended is not None:
            life = self._begin(CallLife(call))
        settled = Members(data.object("decision") or {}).text("choice")
        if data.object("decision") is not None:
            self._close_all(call, seq, settled)
        code = data.whole("exit_code", -1) if data.raw.get("exit_code") is not None else None
        self._put(
            msgspec.structs.replace(
                life,
                name=life.name or data.text("name"),
                ended=seq,
                ok=data.flag("ok"),
                error=data.text("error"),
                settled=settled,
                exit_code=code,
            )
        )

    def _close_all(self, call: str, seq: int, settled: str) -> None:
        """End every life of a call: what somebody decided is about all that was left open under its id."""
        for at, life in enumerate(self._lives):
            if life.id == call and life.open:
                self._set(at, msgspec.structs.replace(life, ended=seq, ok=False, settled=settled))

    def _transaction(self, kind: str, data: Members, seq: int) -> None:
        call = data.text("tool_call_id")
        life = self._current(call)
        if kind == "subagents.transaction_started":
            # The call itself may be started too; then its own end counts.
            if life is None or not life.open:
                self._start(call, "tool_transaction", "modify_execute", seq)
                self._transactions.add(self._latest[call])
        elif life is not None and life.open and self._latest[call] in self._transactions:
            self._end(call, data, seq)

    def _current(self, call: str) -> CallLife | None:
        at = self._latest.get(call)
        return None if at is None else self._lives[at]

    def _begin(self, life: CallLife) -> CallLife:
        at = self._latest[life.id] = len(self._lives)
        self._lives.append(life)
        self._set(at, life)
        return life

    def _put(self, life: CallLife) -> None:
        self._set(self._latest[life.id], life)

    def _set(self, at: int, life: CallLife) -> None:
        """Keep what a life has become."""
        self._lives[at] = life

    @staticmethod
    def _is_over(life: CallLife) -> bool:
        """It was started or will not be: what comes next under its id is another one."""
        return life.state not in {"requested", "asked", "approved"}
