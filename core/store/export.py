"""Reads a run for the writers of `core.export`, and puts what they give into a file, whole or not at all.

Every record is redacted before it is decoded: whatever a writer shows has gone through the one pass.
"""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Final

import msgspec

from refold.core.errors import BadRecord, FoldError, NotRegular, Refused, RunNotFound
from refold.core.export.entries import Entry, Head, Problem
from refold.core.findings import Finding, finding_json
from refold.core.keeping import TRASH
from refold.core.links import link
from refold.core.records import IncompleteRecord, Json, UnknownRecord
from refold.core.recover import without
from refold.core.redact import WINDOW, Redactor
from refold.core.state import Counters
from refold.core.state_json import state_json
from refold.core.store.cut_secrets import Cut, cut_secrets, masked
from refold.core.store.files import (
    create_private,
    fsync_directory,
    odd_kind,
    open_error,
    shown,
    sync,
    write_all,
    write_failed,
)
from refold.core.store.reader import RunReader
from refold.core.store.roots import LOCK_SUFFIX, SUFFIX
from refold.core.store.session_names import EVENTS, MANIFEST, is_run_directory, mode_of
from refold.core.version import __version__

LONGEST: Final = 4 << 20
"""A record above this many bytes is not decoded for a document; JSON holds it whole."""
BEGINNING: Final = 64 << 10
"""So many bytes of it, and of damage, are shown."""
_LARGEST: Final = 256 << 20
"""Records above this many bytes are not checked to be JSON, so they are not written as such."""
_BESIDE: Final[Mapping[str, str]] = {LOCK_SUFFIX: "the lock of a run", ".torn": "what a repair cut off"}
"""By the ending of a name, what lies beside a run."""


def _unwatched(_: int) -> None:
    """Go on."""


class NameTaken(Refused):
    """A file of this name is there, and nobody said that it may be replaced; it is as it was."""


class Source:
    """A fully indexed run as the writers see it, from its first record up to one of them."""

    def __init__(
        self,
        reader: RunReader,
        redactor: Redactor,
        last: int | None = None,
        watch: Callable[[int], None] = _unwatched,
    ) -> None:
        """Look at a run.

        Args:
            reader: the run.
            redactor: what every text goes through.
            last: the last item that is written out; the last one there is where None.
            watch: told how many bytes of the run are written out; what it raises ends the export.
        """
        self.watch = watch
        timeline = reader.index_all()
        self.reader = reader
        self.redactor = redactor
        self._quiet = redactor.another()
        """For what is said again elsewhere: every secret of a record is counted once."""
        self._name = self._quiet.text(reader.run_id)
        self._glimpsed: set[int] = set()
        self.items = timeline.items if last is None else last + 1
        self._is_part = self.items < timeline.items

    def head(self) -> Head:
        """Give the facts of the run."""
        timeline, meta, session = self.reader.timeline, self.reader.meta, self.reader.session
        last = self.items - 1
        text = self._quiet.text
        terminal = timeline.terminal(last) if self.items else None
        if session is not None:
            from refold.core.store.session_told import facts_of

            model, created, prompt = facts_of(session)
        elif meta is not None:
            model, created, prompt = meta.fingerprint.model, meta.created, meta.prompt
        else:
            model = created = prompt = ""
        findings = {finding.line for finding in self.findings() if finding.severity != "info"}
        return Head(
            run_id=text(self.reader.run_id),
            format=self.reader.format.name,
            model=text(model),
            created=text(created),
            prompt=text(prompt) if len(prompt) <= BEGINNING else "",
            items=self.items,
            up_to=timeline.seq(last) if self._is_part else None,
            turns=timeline.turn(last) if self.items else 0,
            calls=timeline.calls(last) if self.items else 0,
            counters=timeline.counters(last) if self.items else Counters(),
            ended=text(terminal[1]) if terminal is not None else "",
            open_calls=timeline.open_calls(last) if self.items else 0,
            damaged=len(findings),
            refold=__version__,
        )

    def counted_head(self) -> Head:
        """Give the same, and count the secrets of a prompt that stands beside the records."""
        head, session = self.head(), self.reader.session
        if session is not None and session.request is not None:
            self.redactor.text(session.request.instruction)
        return head

    def findings(self) -> Iterator[Finding]:
        """Give what the index noticed about the records that are written out."""
        if not self.items:
            return
        end = self.reader.timeline.span(self.items - 1).end
        for finding in self.reader.timeline.findings:
            if finding.start <= end:
                yield msgspec.structs.replace(finding, message=self._quiet.text(finding.message))

    def _all_findings(self) -> Iterator[Finding]:
        """Give what is wrong with the records, and with the files beside the log of a whole run directory."""
        session = self.reader.session
        if session is None or self._is_part:
            yield from self.findings()
            return
        from refold.core.store.session_told import findings_of

        for finding in findings_of(session):
            yield msgspec.structs.replace(finding, message=self._quiet.text(finding.message))

    def entries(self) -> Iterator[Entry]:
        """Give the records one by one; none is kept."""
        return map(self._filled, self.outlines())

    def outlines(self) -> Iterator[Entry]:
        """Give the same without what stands in them: nothing of it is read."""
        timeline = self.reader.timeline
        for item in range(self.items):
            span = timeline.span(item)
            entry = Entry(
                item=item,
                seq=timeline.seq(item),
                kind=timeline.kind(item),
                line=span.line,
                start=span.start,
                end=span.end,
                turn=timeline.turn(item),
                seconds=timeline.seconds(item),
                is_error=timeline.is_error(item),
                recovered=timeline.is_recovered(item),
                record=None,
                link=link(self._name, timeline.seq(item), span.line),
                problems=tuple(
                    Problem(each.code, self._quiet.text(each.message)) for each in timeline.findings_at(item)
                ),
                unanswered=self._unanswered(item),
            )
            self.watch(entry.end)
            yield entry

    def _unanswered(self, item: int) -> frozenset[int]:
        timeline = self.reader.timeline
        first, following = timeline.first_row(item), timeline.first_row(item + 1)
        linked = (timeline.link(row) for row in range(first + 1, following))
        return frozenset(
            call for call, row in enumerate(linked) if row is None or timeline.item_of(row) >= self.items
        )

    def _filled(self, entry: Entry) -> Entry:
        length = entry.end - entry.start
        if entry.kind != "damage" and length <= LONGEST:
            raw = self.redactor.line(self._raw(entry.item))
            try:
                record = self.reader.decoder.record(raw)
            except BadRecord:
                return self._shortened(entry, raw, 0)
            # What no kind of record holds is shown as it was written.
            told = isinstance(record, UnknownRecord | IncompleteRecord)
            text = raw[:BEGINNING].decode("utf-8", "surrogateescape") if told else ""
            left = max(0, len(raw) - BEGINNING) if told else 0
            return msgspec.structs.replace(entry, record=record, text=text, left=left)
        # What reaches over the edge of the part that is shown has to be seen whole to be found.
        raw = self.redactor.line(self.masked(self.reader.raw(entry.item, 2 * BEGINNING), entry.start))
        return self._shortened(entry, raw, max(0, length - 2 * BEGINNING))

    def _shortened(self, entry: Entry, raw: bytes, left: int) -> Entry:
        text = raw[:BEGINNING].decode("utf-8", "surrogateescape")
        return msgspec.structs.replace(entry, text=text, left=left + max(0, len(raw) - BEGINNING))

    def masked(self, raw: bytes, start: int) -> bytes:
        """Give some bytes of the file, from `start` on, without what damage has cut off from a secret."""
        return masked(raw, start, self._cuts)

    @cached_property
    def _cuts(self) -> tuple[Cut, ...]:
        kind = self.reader.timeline.kind
        damaged = [item for item in range(self.items) if kind(item) == "damage"]
        cuts = cut_secrets(self.reader, self.redactor, damaged)
        self.redactor.counts.update(cut.kind for cut in cuts if cut.begins)
        return cuts

    def _raw(self, item: int) -> bytes:
        raw = self.reader.raw(item)
        hole = self.reader.hole(item)
        if hole is None:
            return raw
        start = self.reader.timeline.span(item).start
        return without(raw, hole[0] - start, hole[1] - start)

    def glimpse(self, item: int, limit: int | None = None) -> bytes:
        """Give the first bytes of an item, redacted: what its row is made of."""
        size = BEGINNING if limit is None else limit
        redactor = self.redactor.another()
        start = self.reader.timeline.span(item).start
        self.watch(start)
        raw = redactor.line(self.masked(self.reader.raw(item, size + BEGINNING), start))
        if item not in self._glimpsed:
            self._glimpsed.add(item)
            self.redactor.counts += redactor.counts
        return raw[:size]

    def spelled(self, entry: Entry) -> Iterator[str] | Entry:
        """Give the JSON text of a record in pieces; where its bytes are no JSON the entry with their text."""
        item, length = entry.item, entry.end - entry.start
        if entry.kind == "damage" or length > _LARGEST:
            return self._filled(entry)
        if length > LONGEST:
            # Looked at once to be sure that it is JSON, and read again piece by piece.
            if not _is_huge_json(self._raw(item)):
                return self._filled(entry)
            parts: Iterable[bytes] = self._parts(entry.start, entry.end)
        else:
            raw = self._raw(item)
            if not _is_json(raw):
                return self._filled(entry)
            parts = (raw,)
        return _decoded(self.redactor.pieces(parts))

    def _parts(self, start: int, end: int) -> Iterator[bytes]:
        for at in range(start, end, WINDOW):
            yield self.reader.bytes_at(at, min(WINDOW, end - at))

    def state(self) -> tuple[Json, str]:
        """Give the state after the last record, its messages only counted, and why there is none."""
        last = self.items - 1
        if last < 0:
            return None, "no records"
        timeline = self.reader.timeline
        spans = (timeline.span(item) for item in range(max(0, last - 1000), self.items))
        if any(span.end - span.start > LONGEST for span in spans):
            return None, "a record is too long for the state to be written down"
        session = self.reader.session
        try:
            if session is not None:
                from refold.core.store.session_told import state_of

                return self._quiet.value(state_of(session, last)), ""
            state = self.reader.state_at(last)
        except (FoldError, BadRecord) as error:
            return None, self._quiet.text(str(error))
        told = state_json(msgspec.structs.replace(state, messages=()))
        told["messages"] = len(state.messages)
        return self._quiet.value(told), ""

    def end_json(self) -> dict[str, Json]:
        """Give what stands at the end of an export in JSON."""
        state, reason = self.state()
        findings: list[Json] = [finding_json(self._name, finding) for finding in self._all_findings()]
        counts: dict[str, Json] = dict(sorted(self.redactor.counts.items()))
        return {
            "findings": findings,
            "state": state,
            "state_error": reason or None,
            "redacted": counts if self.redactor.on else None,
        }


def refuse_target(target: Path, source: Path, roots: Iterable[Path], own: Iterable[Path] = ()) -> None:
    """Refuse to write an export where it would replace a run or what belongs to one, or be taken for one.

    Args:
        target: the file that is named.
        source: the run that is written out.
        roots: the directories that hold runs or conversations.
        own: our own files, and directories of them.

    Raises:
        Refused: the file is a run or a part of one, or lies where runs, their trash or our own files lie.
        NotRegular: something that is no file lies there.
        StoreError: the directory is not there.
    """
    parent = target.parent
    known = tuple(roots)
    try:
        place = parent.stat()
        found = target.lstat() if os.path.lexists(target) else None
        if found is not None:
            same = source.stat()
            if (found.st_dev, found.st_ino) == (same.st_dev, same.st_ino):
                raise Refused(f"{shown(target)}: this is the run itself", remedy="choose another file")
            if odd_kind(found.st_mode):
                raise NotRegular(
                    f"{shown(target)}: {odd_kind(found.st_mode)}, not a file", remedy="choose another file"
                )
        for root in (*known, source.parent):
            there = root.stat() if root.is_dir() else None
            same_place = there is not None and (there.st_dev, there.st_ino) == (place.st_dev, place.st_ino)
            if same_place and target.suffix.lower() == SUFFIX:
                raise Refused(
                    f"{shown(target)}: runs lie in this directory, and the file would be taken for one",
                    remedy="choose another directory",
                )
        real = _real(parent)
        held = tuple(map(_real, (*known, source)))
        ours = tuple(map(_real, own))
    except FileNotFoundError as error:
        raise RunNotFound(
            f"{shown(parent)}: there is no such directory", remedy="make it, or choose another"
        ) from error
    except (OSError, ValueError) as error:
        raise open_error(target, error) from error
    _refuse_beside(target)
    _refuse_place(real, held)
    _refuse_own(real / target.name, held, ours)


def _refuse_beside(target: Path) -> None:
    """Refuse the names of what lies beside a run: who renames a file over a lock, breaks it."""
    what = _BESIDE.get(target.suffix.lower())
    if what is not None:
        raise Refused(f"{shown(target)}: {what} is called so", remedy="choose another name")


def _refuse_place(real: Path, held: Sequence[Path]) -> None:
    if TRASH in real.parts:
        raise Refused(
            f"{shown(real)}: this is the trash of Refold, and what lies in it is restored",
            remedy="choose another directory",
        )
    for directory in (real, *real.parents):
        below = any(root in directory.parents or root == directory != real for root in held)
        if is_run_directory(directory) and (directory == real or below or _is_whole_run(directory)):
            raise Refused(
                f"{shown(directory)}: a run lies in this directory", remedy="choose another directory"
            )


def _refuse_own(real: Path, held: Sequence[Path], ours: Sequence[Path]) -> None:
    for place in ours:
        # The runs that are kept by default lie in the directory of our own state.
        among_runs = any(real.is_relative_to(root) for root in held if root.is_relative_to(place))
        if real.is_relative_to(place) and not among_runs:
            raise Refused(
                f"{shown(place)}: Refold keeps its own files there",
                remedy="choose another directory",
            )


def _real(path: Path) -> Path:
    """Give a path without links; unlike `Path.resolve` also where links lead in a circle."""
    return Path(os.path.realpath(path))


def _is_whole_run(directory: Path) -> bool:
    """Say whether a directory is a run wherever it lies; one file of such a name alone says little."""
    return all(mode_of(directory / name) is not None for name in (MANIFEST, EVENTS))


def refuse_taken(target: Path) -> None:
    """Refuse to replace a file.

    Raises:
        NameTaken: it is there.
    """
    if os.path.lexists(target):
        raise NameTaken(f"{shown(target)}: this file is already there", remedy="choose another name")


def write_file(target: Path, write: Callable[[int], None]) -> None:
    """Make a file, or replace it, by what `write` puts into a descriptor; on failure nothing is left.

    Raises:
        WriteFailed: the disk did not take it.
        StoreError: the file cannot be made.
    """
    _write(target, write, lambda new: new.replace(target))


def write_new_file(target: Path, write: Callable[[int], None]) -> None:
    """Make a file as `write_file` does, but only where none is.

    Raises:
        NameTaken: a file is there, also one that came while this one was written.
        WriteFailed: the disk did not take it.
        StoreError: the file cannot be made.
    """
    refuse_taken(target)
    _write(target, write, partial(_give_free_name, target))


def _give_free_name(target: Path, new: Path) -> None:
    """Give a file its name: a link never takes the place of another one."""
    try:
        os.link(new, target)
    except FileExistsError:
        refuse_taken(target)
        raise
    except OSError:
        # A file system without links.
        refuse_taken(target)
        new.rename(target)
        return
    new.unlink()


def _write(target: Path, write: Callable[[int], None], name: Callable[[Path], object]) -> None:
    new = target.with_name(f".{target.name[:100]}.{os.urandom(8).hex()}.tmp")
    fd = create_private(new)
    try:
        try:
            write(fd)
            sync(fd)
            name(new)
        except BaseException as error:
            new.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise write_failed(target, "could not be written", error, "nothing of it is left") from error
            raise
    finally:
        os.close(fd)
    try:
        fsync_directory(target.parent)
    except OSError as error:
        raise write_failed(target, "was written", error, "its durability is unknown") from error


def as_text(pieces: Iterable[str]) -> Callable[[int], None]:
    """Give what puts text into a descriptor, for `write_file` and `write_new_file`."""

    def write(fd: int) -> None:
        for data in gathered(pieces):
            write_all(fd, data)

    return write


def gathered(pieces: Iterable[str]) -> Iterator[bytes]:
    """Give text as UTF-8 in pieces that are worth a write each."""
    held: list[str] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= 1 << 16:
            yield "".join(held).encode("utf-8", "backslashreplace")
            held, size = [], 0
    yield "".join(held).encode("utf-8", "backslashreplace")


def _decoded(parts: Iterable[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    for part in parts:
        yield decoder.decode(part)
    yield decoder.decode(b"", final=True)


def _is_json(raw: bytes) -> bool:
    try:
        json.loads(
            raw.decode("utf-8", "surrogateescape"), parse_int=str, parse_float=str, parse_constant=_refuse
        )
    except (ValueError, RecursionError):
        return False
    return True


def _is_huge_json(raw: bytes) -> bool:
    try:
        msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(constant)
