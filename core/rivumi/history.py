"""What the events prove after each item of a log: kept as changes, so that any moment is a cut and no fold.

Arguments of calls are not held here; whoever shows one reads its event.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Final, NamedTuple, TypeVar

import msgspec

from refold.core.rivumi.calls import CallLife, Calls
from refold.core.rivumi.events import Event
from refold.core.rivumi.events_state import Approval, EventsFold, EventsState
from refold.core.rivumi.manifest import Tokens

_T = TypeVar("_T")
_Changes = list[tuple[int, _T]]
_item = itemgetter(0)


class _Plain(NamedTuple):
    """What is one value at a time."""

    run_id: str = ""
    provider: str = ""
    model: str = ""
    base_sha: str = ""
    phase: str = "created"
    step: int = 0
    tokens: tuple[int, ...] = (0, 0, 0, 0, 0)
    resumes: int = 0
    reason: str = ""


_NOTHING: Final = _Plain()


class Since(NamedTuple):
    """For what is one value at a time the item that changed it last; None where none did."""

    phase: int | None = None
    step: int | None = None
    model: int | None = None
    tokens: int | None = None
    resumes: int | None = None

    def after(self, item: int, was: _Plain, now: _Plain) -> Since:
        """Give the same after an item that changed something."""
        return Since(
            self.phase if (was.phase, was.reason) == (now.phase, now.reason) else item,
            self.step if was.step == now.step else item,
            self.model if (was.provider, was.model) == (now.provider, now.model) else item,
            self.tokens if was.tokens == now.tokens else item,
            self.resumes if was.resumes == now.resumes else item,
        )


class _Told(Calls):
    """Calls that tell which of them an event has changed."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: list[int] = []

    def _set(self, at: int, life: CallLife) -> None:
        super()._set(at, life)
        self.changed.append(at)


class KeptHistory(msgspec.Struct, array_like=True):
    """A history for a cache: pieces that are each quick to take over."""

    plain: list[msgspec.Raw]
    lives: list[msgspec.Raw]
    of_item: list[msgspec.Raw]
    approvals: list[msgspec.Raw]
    transactions: list[int]


class _Moment(NamedTuple):
    """A `CallLife` without its arguments, which nobody holds here."""

    id: str
    name: str
    effect: str
    requested: int | None
    asked: int | None
    decided: int | None
    decision: str
    started: int | None
    ended: int | None
    ok: bool | None
    error: str
    settled: str
    exit_code: int | None
    abandoned: int | None

    @property
    def life(self) -> CallLife:
        """What it stands for."""
        return CallLife(
            self.id,
            self.name,
            self.effect,
            None,
            self.requested,
            self.asked,
            self.decided,
            self.decision,
            self.started,
            self.ended,
            self.ok,
            self.error,
            self.settled,
            self.exit_code,
            self.abandoned,
        )


_PIECE: Final = 256
_plain_pieces = msgspec.msgpack.Decoder(list[tuple[int, _Plain]])
_lives_pieces = msgspec.msgpack.Decoder(list[list[tuple[int, _Moment]]])
_item_pieces = msgspec.msgpack.Decoder(list[tuple[int, int]])
_approval_pieces = msgspec.msgpack.Decoder(list[tuple[str, list[tuple[int, Approval]]]])


def _fields(life: CallLife) -> tuple[object, ...]:
    fields = msgspec.structs.astuple(life)
    at = CallLife.__struct_fields__.index("arguments")
    return (*fields[:at], *fields[at + 1 :])


def _packed(items: Sequence[object]) -> Iterator[msgspec.Raw]:
    for first in range(0, len(items), _PIECE):
        yield msgspec.Raw(msgspec.msgpack.encode(items[first : first + _PIECE]))


class History:
    """Takes the events of a log in, each with its item, in the order of the file."""

    def __init__(self) -> None:
        self._calls = _Told()
        self._fold = EventsFold(self._calls)
        self._plain: _Changes[_Plain] = []
        self._since: _Changes[Since] = []
        self.models: _Changes[str] = []
        """From which item on which model was used."""
        self._lives: list[_Changes[CallLife]] = []
        self._of_item: list[tuple[int, int]] = []
        """Which life an item is about, for the items that are about one."""
        self._approvals: dict[str, _Changes[Approval]] = {}
        self._kept: tuple[_Told, EventsFold] | None = None
        self._open = 0

    def feed(self, item: int, event: Event) -> int:
        """Take an event in; give how many calls and checks stand open after it."""
        fold = self._fold
        fold.feed(event)
        for at in self._calls.changed:
            self._change(item, at)
        if self._calls.changed:
            self._of_item.append((item, self._calls.changed[-1]))
            self._calls.changed.clear()
        if event.event_type.startswith("approval."):
            request = event.data.get("request_id")
            request = request if isinstance(request, str) else ""
            if request in fold.approvals:
                self._approvals.setdefault(request, []).append((item, fold.approvals[request]))
        named = fold.named
        last = self._plain[-1][1] if self._plain else _NOTHING
        now = _Plain(
            last.run_id or event.run_id,
            named["provider"],
            named["model"],
            named["base_sha"],
            fold.phase,
            fold.step,
            (*fold.used,),
            fold.resumes,
            fold.reason,
        )
        if not self.models or self.models[-1][1] != now.model:
            self.models.append((item, now.model))
        if now != last or not self._plain:
            self._plain.append((item, now))
            since = self._since[-1][1] if self._since else Since()
            self._since.append((item, since.after(item, last, now)))
        return self._open

    def _change(self, item: int, at: int) -> None:
        life = self._calls.life(at)
        if at == len(self._lives):
            self._lives.append([])
        changes = self._lives[at]
        if changes:
            self._open -= changes[-1][1].open
        self._open += life.open
        if changes and changes[-1][0] == item:
            changes[-1] = (item, life)
        else:
            changes.append((item, life))

    def at(self, item: int, last_sequence: int, tail: str) -> EventsState:
        """Give the fold of the events up to and including an item.

        Args:
            item: The last one that counts.
            last_sequence: The sequence of the last event up to there; -1 where there is none.
            tail: Its type.
        """
        plain = _upto(self._plain, item) or _NOTHING
        return EventsState(
            plain.run_id,
            plain.provider,
            plain.model,
            plain.base_sha,
            plain.phase,
            plain.step,
            self.lives_at(item),
            tuple(found for changes in self._approvals.values() if (found := _upto(changes, item))),
            Tokens(*plain.tokens),
            last_sequence,
            tail,
            plain.resumes,
            plain.reason,
        )

    def since(self, item: int) -> Since:
        """Give for what is one value at a time the item up to this one that changed it last."""
        return _upto(self._since, item) or Since()

    def lives_at(self, item: int) -> tuple[CallLife, ...]:
        """Give every call and check that has begun, as it stands after an item."""
        return tuple(found for changes in self._lives if (found := _upto(changes, item)) is not None)

    def life_of(self, item: int) -> int:
        """Give the number of the call or check that an item is about; -1 where it is about none."""
        found = bisect_right(self._of_item, item, key=_item) - 1
        return self._of_item[found][1] if found >= 0 and self._of_item[found][0] == item else -1

    def moments(self, life: int) -> tuple[tuple[int, CallLife], ...]:
        """Give the items that tell of a call or check, each with what it has become there."""
        return tuple(self._lives[life])

    def step_at(self, item: int) -> int:
        """Give the model turn that an item belongs to."""
        return (_upto(self._plain, item) or _NOTHING).step

    def phase_at(self, item: int) -> str:
        """Give the phase after an item."""
        return (_upto(self._plain, item) or _NOTHING).phase

    def started_open(self) -> tuple[int, ...]:
        """Give the items that started what has no end in all that was fed."""
        if not self._open:
            return ()
        return tuple(
            next(item for item, life in changes if life.started == changes[-1][1].started)
            for changes in self._lives
            if changes[-1][1].open
        )

    def kept(self) -> KeptHistory:
        """Give all that is known as packed pieces."""
        return KeptHistory(
            [*_packed(self._plain)],
            [*_packed([[(item, _fields(life)) for item, life in changes] for changes in self._lives])],
            [*_packed(self._of_item)],
            [*_packed([*self._approvals.items()])],
            self._calls.transactions(),
        )

    def restoring(self, kept: KeptHistory) -> Iterator[None]:
        """Take over what was known, piece by piece; only for a history that was fed nothing.

        Raises:
            msgspec.MsgspecError: a piece is none.
        """
        for piece in kept.plain:
            self._plain += _plain_pieces.decode(piece)
            yield None
        for piece in kept.lives:
            lives = _lives_pieces.decode(piece)
            self._lives += [[(item, moment.life) for item, moment in changes] for changes in lives]
            yield None
        for piece in kept.of_item:
            self._of_item += _item_pieces.decode(piece)
            yield None
        for piece in kept.approvals:
            self._approvals.update(_approval_pieces.decode(piece))
            yield None
        self._calls.take_over([changes[-1][1] for changes in self._lives], kept.transactions)
        yield None
        self._open = sum(changes[-1][1].open for changes in self._lives)
        fold = self._fold
        fold.approvals = {request: changes[-1][1] for request, changes in self._approvals.items()}
        if self._plain:
            last = self._plain[-1][1]
            fold.named = {"provider": last.provider, "model": last.model, "base_sha": last.base_sha}
            fold.phase, fold.step, fold.used = last.phase, last.step, [*last.tokens]
            fold.resumes, fold.reason = last.resumes, last.reason

    def mark(self) -> None:
        """Remember this moment, so that `take_back` can return to it."""
        calls = self._calls.copy()
        fold = self._fold
        kept = EventsFold(calls)
        kept.approvals, kept.named, kept.used = fold.approvals.copy(), fold.named.copy(), fold.used.copy()
        kept.phase, kept.step, kept.resumes, kept.reason = fold.phase, fold.step, fold.resumes, fold.reason
        self._kept = (calls, kept)

    def take_back(self, items: int) -> None:
        """Forget all from an item on; only back to the moment of `mark`."""
        if self._kept is None:
            return
        self._calls, self._fold = self._kept
        self._kept = None
        _cut(self._plain, items)
        _cut(self._since, items)
        _cut(self.models, items)
        _cut(self._of_item, items)
        for lives in self._lives:
            _cut(lives, items)
        for approvals in self._approvals.values():
            _cut(approvals, items)
        while self._lives and not self._lives[-1]:
            self._lives.pop()
        for request in [request for request, changes in self._approvals.items() if not changes]:
            del self._approvals[request]
        self._open = sum(changes[-1][1].open for changes in self._lives)


def _upto(changes: _Changes[_T], item: int) -> _T | None:
    found = bisect_right(changes, item, key=_item)
    return changes[found - 1][1] if found else None


def _cut(changes: _Changes[_T], items: int) -> None:
    while changes and changes[-1][0] >= items:
        changes.pop()
