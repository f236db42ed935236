"""Stores that are searched: journals and run directories with texts of their own, and what a search gives."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from refold.core.search_hits import Hit, ranked
from refold.core.search_text import parse_query
from refold.core.store.roots import Root
from refold.core.store.search import Reach, Told, Wrong, search
from refold.core.store.search_index import SearchIndex, open_to_build
from refold.core.store.search_source import Source, find_sources

OLD = 1_700_000_000
"""A time that lies long enough back for a file to have settled; its seconds are told apart by runs."""


def record(seq: int, kind: str, text: str) -> bytes:
    """A line of a journal that says a text."""
    blocks = [{"type": "text", "text": text}]
    payloads: dict[str, object] = {
        "meta": {"version": 2, "run_id": "r", "prompt": text, "fingerprint": {"model": "m"}},
        "user": {"message": {"role": "user", "content": blocks}},
        "assistant": {"message": {"role": "assistant", "content": blocks}},
        "call": {
            "message": {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": f"c{seq}", "name": "tool", "input": {"text": text}}],
            }
        },
        "tool_result": {"tool_use_id": f"c{seq}", "result": {"type": "tool_result", "content": text}},
        "terminal": {"reason": "completed", "message": text},
    }
    name = "assistant" if kind == "call" else kind
    value = {"seq": seq, "protocol": f"refold.v1.session.{name}", name: payloads[kind]}
    return json.dumps(value, ensure_ascii=seq % 2 == 0).encode() + b"\n"


def journal(path: Path, texts: Sequence[tuple[str, str]], *, age: int = 0, tail: bytes = b"") -> Path:
    """Write a journal of records of some kinds with some texts; older by so many seconds than others."""
    lines = [record(1, "meta", "begin"), *(record(2 + at, *pair) for at, pair in enumerate(texts))]
    path.write_bytes(b"".join(lines) + tail)
    path.chmod(0o600)
    settle(path, age)
    return path


def session(path: Path, events: Sequence[str], messages: Sequence[tuple[str, str]], *, age: int = 0) -> Path:
    """Write a run directory whose events and messages say some texts."""
    path.mkdir(0o700)
    lines = []
    for at, text in enumerate(events):
        event = {
            "event_type": "tool.completed",
            "run_id": path.name,
            "sequence": at,
            "data": {"preview": text},
        }
        lines.append(json.dumps(event))
    (path / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    said = [{"role": role, "content": text} for role, text in messages]
    (path / "session.json").write_text(json.dumps({"messages": said}))
    (path / "request.json").write_text(json.dumps({"instruction": "do it"}))
    for file in path.iterdir():
        settle(file, age)
    return path


def settle(path: Path, age: int = 0) -> None:
    """Give a file a time that lies back."""
    os.utime(path, (OLD - age, OLD - age))


def look(directory: Path) -> list[Source]:
    """Find what is to be searched, as if nothing had changed for a while: the system sets ctime itself."""
    found = find_sources([Root(directory, "refold", "test")])
    return [source._replace(changed_ns=OLD * 10**9) for source in found]


def told(directory: Path, typed: str, index: SearchIndex | None = None, limit: int = 1000) -> list[Told]:
    """Give all that a search tells."""
    return list(search(parse_query(typed), look(directory), index, limit=limit))


def hits_in(said: Sequence[Told], limit: int = 1000) -> list[Hit]:
    """Give the hits of what was told, as whoever listens has to understand it."""
    hits: list[Hit] = []
    for one in said:
        if isinstance(one, Hit):
            hits.append(one)
        elif isinstance(one, Wrong):
            hits = [hit for hit in hits if hit.file != one.file]
    return ranked(hits, limit)


def hits(directory: Path, typed: str, index: SearchIndex | None = None, limit: int = 1000) -> list[Hit]:
    """Give the hits of a search."""
    return hits_in(told(directory, typed, index, limit), limit)


def reach(said: Sequence[Told]) -> Reach:
    """Give how far a search came."""
    last = [one for one in said if isinstance(one, Reach)][-1]
    assert last.searched == last.total
    return last


def build(directory: Path, cache: Path) -> int:
    """Bring an index up to date; give how many bytes of runs were read for it."""
    with open_to_build(cache) as index:
        for _ in index.build(look(directory)):
            pass
        return index.bytes_read


def steps(iterator: Iterator[object], count: int) -> None:
    """Take so many steps of an iterator and leave it."""
    for _, _ in zip(range(count), iterator, strict=False):
        pass
