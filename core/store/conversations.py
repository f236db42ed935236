"""Reads the conversations of some directories, and makes a fork of one; a source is never touched."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from refold.core.errors import AmbiguousRun, RunExists, RunNotFound
from refold.core.repair import PlanOutdated
from refold.core.rivumi.conversation import MAX_BYTES, Conversation, Turn, fold_conversation, haystack
from refold.core.rivumi.conversation_fork import ConversationFork, plan_fork
from refold.core.rivumi.snapshot import Part
from refold.core.store.files import (
    create_private,
    fsync_directory,
    odd_kind,
    private_directory,
    shown,
    sync,
    write_all,
    write_failed,
)
from refold.core.store.lock import locked_inodes
from refold.core.store.roots import Root, distinct, reason
from refold.core.store.session_summary import read_part

MANIFEST: Final = "conversation.json"
LOG: Final = "events.jsonl"
LOCK: Final = ".writer.lock"
_MOST: Final = 20_000
_SHOWN: Final = 8


class Listed(msgspec.Struct, frozen=True):
    """One conversation of a list."""

    path: str
    conversation: Conversation
    updated: float
    """When it changed last, as it says itself; the time of its file where it does not."""
    held: bool = False
    """A process is seen holding its lock."""
    hay: str = ""
    """What a search looks at."""


def list_conversations(roots: Sequence[Root]) -> Iterator[Listed | None]:
    """Give the conversations of some directories, each directory's newest file first; None for mere work.

    A directory without a `conversation.json` is none; whatever else is wrong with one stands in its row.
    """
    kept, _ = distinct(roots)
    for root in kept:
        found: list[tuple[int, str]] = []
        closed: list[tuple[str, str]] = []
        for number, name in enumerate(_names(root.path)):
            place = f"{os.fspath(root.path)}/{name}"
            try:
                found.append((os.lstat(f"{place}/{MANIFEST}").st_mtime_ns, name))
            except (FileNotFoundError, NotADirectoryError, ValueError):
                pass
            except OSError as error:
                # It may be a conversation: none is hidden for want of a right.
                closed.append((name, f"the directory cannot be looked into: {reason(error)}"))
            if number % 100 == 0:
                yield None
        locked = locked_inodes() or frozenset()
        for _, name in sorted(found, reverse=True):
            path = root.path / name
            conversation = load_conversation(path)
            updated = _seconds(conversation.updated_at)
            yield Listed(
                str(path),
                conversation,
                _file_time(path) if updated is None else updated,
                _inode(path / LOCK) in locked,
                haystack(conversation),
            )
        for name, why in closed:
            path = root.path / name
            conversation = Conversation(name, refusal=why)
            yield Listed(str(path), conversation, (_mtime(path) or 0) / 1e9, hay=haystack(conversation))


def in_order(listed: Sequence[Listed]) -> list[Listed]:
    """Give conversations as the original lists them: the one that was changed last first."""
    return sorted(listed, key=lambda one: (-one.updated, one.path))


def load_conversation(path: Path) -> Conversation:
    """Read one conversation; what cannot be read is said in it."""
    if path.is_symlink():
        found = fold_conversation(path.name, None, None)
        return msgspec.structs.replace(found, refusal="the directory is a symbolic link")
    manifest, log = (read_part(path, name, MAX_BYTES) for name in (MANIFEST, LOG))
    found = fold_conversation(path.name, _data(manifest), _data(log))
    for part in (manifest, log):
        if part.state not in {"read", "missing"}:
            return msgspec.structs.replace(found, refusal=f"{part.name}: {part.detail or part.state}")
    lock = _odd_lock(path / LOCK)
    return msgspec.structs.replace(found, refusal=lock) if lock and not found.refusal else found


def find_conversation(text: str, roots: Sequence[Root]) -> Path:
    """Give the directory of the conversation that a text names: by path, id, beginning of an id, or `last`.

    Raises:
        RunNotFound: nothing matches; says where it was looked for.
        AmbiguousRun: several do.
    """
    if "/" in text:
        path = Path(text)
        path = path.parent if path.name in {MANIFEST, LOG} else path
        if _mtime(path / MANIFEST) is None:
            raise RunNotFound(f"no conversation at {text!r}", remedy="name its directory")
        return path if path.name not in {"", ".."} else path.resolve()
    if text == "last":
        every = in_order([one for one in list_conversations(roots) if one is not None])
        good = [one for one in every if not one.conversation.refusal]
        if good:
            return Path(good[0].path)
    kept, _ = distinct(roots)
    found = [
        root.path / name
        for root in kept
        for name in _names(root.path)
        if text and name.startswith(text) and _mtime(root.path / name / MANIFEST) is not None
    ]
    exact = [path for path in found if path.name == text] or found
    if len(exact) == 1:
        return exact[0]
    if exact:
        names = tuple(str(path) if len({p.name for p in exact}) < len(exact) else path.name for path in exact)
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        raise AmbiguousRun(
            f"{text!r} names {len(names)} conversations: {', '.join(names[:_SHOWN])}{more}", names
        )
    where = ", ".join(str(root.path) for root in kept) or "no directory at all"
    raise RunNotFound(
        f"no conversation {text!r}; looked in {where}", remedy="see the ids with 'refold history --json'"
    )


def plan_fork_before(path: Path, turn: Turn, *, now: datetime | None = None) -> ConversationFork:
    """Read a conversation and plan a fork of it before a turn; nothing is written.

    Raises:
        NoFork: it cannot be forked there.
    """
    return plan_fork(load_conversation(path), turn, secrets.token_hex(16), now=now or datetime.now(UTC))


def carry_out_fork(path: Path, plan: ConversationFork) -> Path:
    """Make the fork beside its source, whole or not at all; give its directory.

    Raises:
        NoFork: a turn of the source is open now.
        PlanOutdated: the source is no longer what the plan was made from.
        RunExists: something of the new name is there.
        WriteFailed: the system refused; nothing is left behind.
    """
    root = path.parent
    target = root / plan.conversation_id
    again = plan_fork(load_conversation(path), plan.turn, plan.conversation_id, now=datetime.now(UTC))
    if again.log != plan.log:
        raise PlanOutdated(f"{shown(path)}: it is no longer what was planned from", remedy="fork again")
    if os.path.lexists(target):
        raise RunExists(f"{shown(target)}: already there", remedy="fork again")
    made = root / f".{plan.conversation_id}.{secrets.token_hex(4)}"
    private_directory(made)
    try:
        for name, data in ((LOG, plan.log), (MANIFEST, plan.manifest), (LOCK, b"")):
            fd = create_private(made / name)
            try:
                write_all(fd, data)
                sync(fd)
            finally:
                os.close(fd)
        fsync_directory(made)
        made.rename(target)
    except BaseException as error:
        shutil.rmtree(made, ignore_errors=True)
        if isinstance(error, OSError):
            raise write_failed(target, "could not be made", error, "nothing is left of it") from error
        raise
    try:
        fsync_directory(root)
    except OSError as error:
        raise write_failed(target, "was made", error, "its durability is unknown") from error
    return target


def _data(part: Part) -> bytes | None:
    return part.data if part.state == "read" else None


def _names(root: Path) -> list[str]:
    try:
        with os.scandir(root) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_MOST), strict=False)]
    except (OSError, ValueError):
        return []
    return [name for name in names if not name.startswith(".") and name != "lost+found"]


def _mtime(path: str | Path) -> int | None:
    try:
        return os.lstat(path).st_mtime_ns
    except (OSError, ValueError):
        return None


def _odd_lock(path: Path) -> str:
    """Say what lies in the place of the lock where it is no file: no program could hold the conversation."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return f"{LOCK} cannot be looked at: {reason(error)}"
    odd = odd_kind(mode)
    return f"{LOCK} is {odd}, not a file: its own program cannot lock it" if odd else ""


def _inode(path: Path) -> int:
    try:
        found = path.lstat()
    except OSError:
        return 0
    return found.st_ino if stat.S_ISREG(found.st_mode) else 0


def _file_time(path: Path) -> float:
    return (_mtime(path / MANIFEST) or 0) / 1e9


def _seconds(recorded: str) -> float | None:
    try:
        moment = datetime.fromisoformat(recorded)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
