"""Reads the family of a run from disk: who says to be forked from whom, and whether the bytes agree."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from refold.core.errors import StoreError
from refold.core.formats.names import keeps_directories
from refold.core.lineage import Kin, Sums, Tree, candidates, family
from refold.core.prices import Spent
from refold.core.records import ForkOrigin
from refold.core.store.files import open_regular, shown
from refold.core.store.notes import Notes, NotesStore, prefix_of
from refold.core.store.reader import RunReader
from refold.core.store.session_names import is_run_directory
from refold.core.store.session_origin import fork_origin
from refold.core.summary import RunSummary
from refold.core.timeline import Timeline

_SLICE: Final = 0.003
_PIECE: Final = 1 << 20
_HEAD: Final = 4096
"""Bytes among which the id of a run is looked for."""


def read_family(
    summaries: Iterable[RunSummary],
    focus: str,
    *,
    notes: NotesStore | None = None,
    cache: Path | None = None,
) -> Iterator[Tree | None]:
    """Read the family of a run, in small steps.

    Args:
        summaries: all runs that are known, the one that is asked for among them.
        focus: its path, as its summary has it.
        notes: where the lineage of runs is kept whose format has no place for it.
        cache: where finished indexes are kept; None for no cache.

    Yields:
        A tree as soon as there is one, better ones later, the last one with sums and checked parents;
        None where there was work without a result.
    """
    runs = {run.path: run for run in _kin(summaries, notes)}
    tree = family(list(runs.values()), focus)
    yield tree
    if not tree.rows[0].kin.path:
        for found in _renamed(runs.values(), tree.rows[0].kin.id):
            if found is not None:
                runs[found.path] = found
            yield None
    members = _members(runs, focus)
    for path in members:
        runs[path] = _with_origin(runs[path])
        yield None
    yield family([runs[path] for path in members], focus)
    claims = _claims([runs[path] for path in members])
    checks: dict[tuple[str, str], bool] = {}
    for path in members:
        try:
            with RunReader.open(Path(path), hint=runs[path].format or "refold", cache=cache) as reader:
                while not reader.step(_SLICE):
                    yield None
                runs[path] = _summed(runs[path], reader.timeline)
                for verdict in _check(reader, claims.get(path, ())):
                    if verdict is None:
                        yield None
                    else:
                        checks[verdict[0], path] = verdict[1]
        except StoreError:
            continue
        yield None
    yield family([runs[path] for path in members], focus, checks)


def _kin(summaries: Iterable[RunSummary], notes: NotesStore | None) -> Iterator[Kin]:
    """Give all runs, with what is known of their parents before any of them is opened."""
    noted = _Noted(notes)
    for run in summaries:
        origin = noted.origin(run.path)
        if run.fork_of and (origin is None or origin.run_id != run.fork_of):
            origin = ForkOrigin(run_id=run.fork_of)
        yield Kin(
            path=run.path,
            id=run.id,
            format=run.format,
            status=run.status,
            prompt=run.prompt,
            created=run.created,
            model=run.model,
            models=run.models,
            origin=origin,
        )


class _Noted:
    """The lineages in our notes."""

    def __init__(self, notes: NotesStore | None) -> None:
        known = [each for each in notes.each() if each.forked_from is not None] if notes is not None else []
        self._by_name: dict[str, list[Notes]] = defaultdict(list)
        for each in known:
            self._by_name[each.path.rpartition("/")[2]].append(each)
        self._real: dict[str, str] = {}

    def origin(self, path: str) -> ForkOrigin | None:
        """Give what is noted about the parent of a run; of a moved one by the hash of its first line."""
        directory, name = os.path.split(path)
        called = self._by_name.get(shown(name))
        if not called:
            return None
        prefix = prefix_of(Path(path))
        # Where another run lay before there are notes of both.
        found = [each for each in called if each.prefix_sha256 == prefix]
        if len(found) > 1:
            real = self._real.setdefault(directory, shown(os.path.realpath(directory)))
            found.sort(key=lambda each: each.path != f"{real}/{shown(name)}")
        return found[0].forked_from if found else None


def _renamed(runs: Iterable[Kin], run_id: str) -> Iterator[Kin | None]:
    """Look for a run whose file has another name than its id; None for work without a result."""
    for run in list(runs):
        if _names(Path(run.path), run_id):
            read = _with_origin(run)
            if read.run_id == run_id:
                yield read
        yield None


def _names(path: Path, run_id: str) -> bool:
    """Say whether an id stands in the first bytes of a file."""
    try:
        fd = open_regular(path)
    except StoreError:
        return False
    try:
        return f'"{run_id}"'.encode("utf-8", "surrogatepass") in os.pread(fd, _HEAD, 0)
    except OSError:
        return False
    finally:
        os.close(fd)


def _members(runs: dict[str, Kin], focus: str) -> list[str]:
    """Give the paths of all runs that may belong to the family: whoever is named, and whoever names them."""
    named = candidates(runs.values())
    near: dict[str, set[str]] = {}
    for run in runs.values():
        for other in named.get(run.origin.run_id, ()) if run.origin is not None else ():
            near.setdefault(run.path, set()).add(other.path)
            near.setdefault(other.path, set()).add(run.path)
        if run.origin is not None and run.origin.run_id not in named:
            # Forks of a run that is gone are siblings all the same.
            near.setdefault(run.path, set()).add(f"\0{run.origin.run_id}")
            near.setdefault(f"\0{run.origin.run_id}", set()).add(run.path)
    found = {focus: None}
    waiting = [focus]
    while waiting:
        for path in sorted(near.get(waiting.pop(), ())):
            if path not in found:
                found[path] = None
                waiting.append(path)
    return [path for path in found if path in runs]


def _with_origin(run: Kin) -> Kin:
    """Read what a run says of itself and of its parent."""
    if is_run_directory(Path(run.path)):
        told, noted = fork_origin(Path(run.path)), run.origin
        if told is None:
            return run
        # Its own event has no place for the hash of what was taken: our notes have.
        same = noted is not None and (noted.run_id, noted.seq) == (told.run_id, told.seq)
        return msgspec.structs.replace(run, origin=noted if same and noted is not None else told)
    try:
        with RunReader.open(Path(run.path), hint=run.format or "refold") as reader:
            reader.step(0)
            meta = reader.meta
    except StoreError:
        return run
    if meta is None:
        return run
    return msgspec.structs.replace(run, run_id=meta.run_id, origin=meta.forked_from or run.origin)


def _claims(members: Sequence[Kin]) -> dict[str, list[tuple[str, ForkOrigin]]]:
    """Give for each run the forks that say to come from it."""
    claims: dict[str, list[tuple[str, ForkOrigin]]] = {}
    named = candidates(members)
    for run in members:
        if run.origin is not None and run.origin.prefix_sha256:
            for other in named.get(run.origin.run_id, ()):
                if other.path != run.path:
                    claims.setdefault(other.path, []).append((run.path, run.origin))
    return claims


def _summed(run: Kin, timeline: Timeline) -> Kin:
    if not timeline.items:
        return msgspec.structs.replace(run, total=Sums())
    last = timeline.item_at(run.origin.seq) if run.origin is not None else None
    if keeps_directories(run.format):
        # A fork begins a log of its own: nothing in it is its parent's.
        last = None
    return msgspec.structs.replace(
        run,
        total=_sums(timeline, timeline.items - 1),
        inherited=Sums() if last is None else _sums(timeline, last),
    )


def _sums(timeline: Timeline, item: int) -> Sums:
    counters = timeline.counters(item)
    return Sums(
        timeline.turn(item),
        timeline.calls(item),
        timeline.errors(item),
        counters.tokens,
        Spent(
            counters.in_tokens, counters.out_tokens, counters.cache_read_tokens, counters.cache_create_tokens
        ),
    )


def _check(reader: RunReader, claims: Iterable[tuple[str, ForkOrigin]]) -> Iterator[tuple[str, bool] | None]:
    """Hash a parent once and compare it with what each fork says it took; None for work without a result."""
    timeline = reader.timeline
    ends: list[tuple[int, str, str]] = []
    for path, origin in claims:
        item = timeline.item_at(origin.seq)
        if item is None:
            # What was taken is not there any more.
            yield path, False
        else:
            ends.append((timeline.span(item).end, path, origin.prefix_sha256))
    digest, at = hashlib.sha256(), 0
    for end, path, wanted in sorted(ends):
        while at < end:
            data = reader.bytes_at(at, min(_PIECE, end - at))
            if not data:
                return
            digest.update(data)
            at += len(data)
            yield None
        whole = digest.copy()
        whole.update(b"\n")
        yield path, whole.hexdigest() == wanted
