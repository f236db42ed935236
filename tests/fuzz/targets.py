"""What is fuzzed: each target takes any bytes, and raises where the program would do what it must not.

Errors that the program documents are none. What else is raised is a fault, and so is an answer that is
wrong by a rule that needs no second implementation: what is cut into lines joins again, what is folded in
steps is folded at once, what is shown holds no character that a terminal obeys.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from refold.app import safe
from refold.app.agents import BUILT_IN, AgentEntry, RunAgent
from refold.core.errors import BadRecord, FoldError
from refold.core.examine import Examination, Place
from refold.core.filter import FilterError, parse_filter, settled
from refold.core.findings import CODES, Finding
from refold.core.fold import Fold
from refold.core.formats import HEAD_BYTES
from refold.core.formats.registry import format_of
from refold.core.journal_text import fold_bytes, strict_records
from refold.core.redact import Redactor
from refold.core.rivumi.findings import findings
from refold.core.rivumi.original import replay_of_original, resume_of_original
from refold.core.rivumi.snapshot import Part, Snapshot, Workspace
from refold.core.rivumi.verdict import verdict
from refold.core.state_json import state_json
from refold.core.store.index_cache import load as load_index
from refold.core.store.list_cache import load as load_list
from refold.core.store.notes import NotesStore
from refold.core.store.run_id import is_run_id, is_segment
from refold.core.store.scan import Scanner
from refold.core.summary import RunSummary
from refold.core.timeline_builder import Builder

Target: TypeAlias = Callable[[bytes], None]

BETWEEN = b"\n\0\n"
"""What stands between the files of a run directory in one input."""
_ROW = RunSummary(
    "run-1", "/runs/run-1.json", "fisk-ai", "crashed", model="opus", prompt="Rename it", turns=3
)
_MEMORY = Path("/dev/shm")
_PLACE = (_MEMORY if _MEMORY.is_dir() else Path(tempfile.gettempdir())) / f"refold-fuzz-{os.getpid()}"


def scan(data: bytes) -> None:
    """Cut into lines in reads of odd sizes; the lines are the file."""
    step = 1 + (data[0] if data else 0) * 7
    scanner = Scanner(lambda offset, size: data[offset : offset + min(size, step)])
    lines = []
    while True:
        line = scanner.next()
        if line is not None:
            lines.append(line)
        elif scanner.waiting:
            break
    tail = scanner.tail()
    spans = [data[line.offset : line.offset + line.length] for line in (*lines, *([tail] if tail else ()))]
    assert b"\n".join([*spans, *([] if tail else [b""])]) == data
    assert all(b"\n" not in line.text for line in lines)
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))


def decode(data: bytes) -> None:
    """Read a journal as list, screen and check do, whatever it is."""
    decoder = format_of(data[:HEAD_BYTES], hint="refold").decoder(data[:HEAD_BYTES])
    builder, examination = Builder(decoder), Examination(decoder, "run")
    found: list[Finding] = []
    offset = 0
    *lines, rest = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        builder.feed(line, offset, number)
        place = Place(None, number, offset, offset + len(line))
        found += examination.line(line, place, ended=True)
        offset += len(line) + 1
        try:
            decoder.record(line)
        except BadRecord:
            continue
    if rest:
        builder.feed_tail(rest, offset, len(lines) + 1)
        place = Place(None, len(lines) + 1, offset, len(data))
        found += examination.line(rest, place, ended=False)
    found += examination.end(len(data))
    timeline = builder.timeline
    noted = {(one.code, one.start) for one in found}
    for one in found:
        assert one.code in CODES
        assert 0 <= one.start <= one.end <= len(data)
    for finding in timeline.findings:
        assert (finding.code, finding.start) in noted, finding
    for item in range(timeline.items):
        span = timeline.span(item)
        assert 0 <= span.start <= span.end <= len(data)


def fold(data: bytes) -> None:
    """Fold strictly, at once and record by record."""
    decoder = format_of(data, hint="fisk-ai").decoder(data)
    try:
        whole = fold_bytes(data, hint="fisk-ai")
    except FoldError:
        return
    stepwise = Fold(decoder)
    for record in strict_records(data.split(b"\n"), decoder):
        stepwise.feed(record)
    assert state_json(stepwise.state()) == state_json(whole)
    json.dumps(state_json(whole))


def manifest(data: bytes) -> None:
    """Hold the files of a run directory against each other: manifest, log, request."""
    parts = [*data.split(BETWEEN), b"", b""][:3]
    read = [
        Part(name, "read", part, len(part))
        for name, part in zip(("session.json", "events.jsonl", "request.json"), parts, strict=True)
    ]
    snapshot = Snapshot(
        "run", manifest=read[0], events=read[1], request=read[2], workspace=Workspace("git", "0" * 40)
    )
    found = verdict(snapshot, now=0.0)
    assert found.outcome in {"accept", "ask", "refuse"}
    for one in findings(snapshot):
        assert one.code in CODES
        assert 0 <= one.start <= one.end
    resume_of_original(snapshot)
    replay_of_original(snapshot)


def filters(data: bytes) -> None:
    """Understand a filter, or say where it is wrong."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        found = parse_filter(text, 1_700_000_000.0)
    except FilterError as error:
        found, wrong = None, error
    if found is None:
        assert 0 <= wrong.position <= len(text)
        assert wrong.length >= 0
    else:
        assert found.matches(_ROW) in {True, False}
    assert isinstance(settled(text), str)


def _is_obeyed(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def visible(data: bytes) -> None:
    """Show any text: nothing that a terminal obeys, and as wide as it says."""
    text = data.decode("utf-8", "surrogateescape")
    for shown in (safe.line(text), safe.from_bytes(data), *safe.block(text)):
        assert not any(map(_is_obeyed, shown)), repr(shown)
        assert safe.width(shown) >= 0
        cells = 1 + len(data) % 17
        left, right = safe.cut(shown, cells)
        assert left + right == shown
        assert safe.width(left) <= cells
        assert safe.width(safe.fit(shown, cells)) == cells
        for part in safe.wrap(shown, cells + 1):
            assert safe.width(part) <= cells + 1


def ids(data: bytes) -> None:
    """Take a name for an id, or not; what is taken stays where it belongs."""
    text = data.decode("utf-8", "surrogateescape")
    root = Path("/runs")
    for taken, name in ((is_run_id(text), f"{text}.json"), (is_segment(text), text)):
        if taken:
            assert (root / name).parent == root
            assert Path(name).name == name
            assert "\0" not in name
    assert not is_run_id(text) or (text[0] != "-" and text.isascii() and len(text) <= 128)


def templates(data: bytes) -> None:
    """Fill the command of an agent: so many words as it has, and no option that is the id."""
    text = data.decode("utf-8", "surrogateescape")
    first, _, rest = text.partition("\n")
    words = tuple(rest.split("\n")[:9]) or ("agent", "{id}")
    entries = (*BUILT_IN, AgentEntry("a", "fisk-ai", resume=words), AgentEntry("b", "rivumi", resume=words))
    for entry in entries:
        name = first if entry.format in {"rivumi", "looplane"} else f"{first}.json"
        try:
            agent = RunAgent(entry, Path("/runs") / name, _NOTES)
        except ValueError:
            continue
        command = agent.command()
        assert len(command) <= max(len(entry.resume), 9)
        for word, filled in zip(entry.resume, command, strict=False):
            if word == "{id}":
                assert not filled.startswith("-") or "{config}" in entry.resume
        if command and not is_run_id(agent.run_id):
            assert agent.of_directory
            assert is_segment(agent.run_id)


def redact(data: bytes) -> None:
    """Replace what looks like a secret; in pieces as at once, and never into something else than text."""
    at_once = Redactor(on=True).line(data)
    assert Redactor(on=True).line(at_once) is not None
    off = Redactor(on=False)
    assert off.line(data) == data
    cut = len(data) // 3
    assert b"".join(Redactor(on=False).pieces([data[:cut], data[cut:]])) == data
    if _is_json(data):
        assert _is_json(at_once), at_once


def own(data: bytes) -> None:
    """Open our own files, whatever lies in their place."""
    _PLACE.mkdir(exist_ok=True)
    try:
        notes = NotesStore(_PLACE / "notes")
        run = _PLACE / "run.json"
        notes.directory.mkdir(exist_ok=True)
        notes.path_of(run).write_bytes(data)
        assert notes.read(run) is not None
        assert len(list(notes.each())) >= 1
        (_PLACE / "list.cache").write_bytes(data)
        for found in load_list(_PLACE, {str(_PLACE): 1}):
            assert found is None or len(found[1].rows) == found[1].count
        (_PLACE / "index").mkdir(exist_ok=True)
        (_PLACE / "index" / "1-1.index").write_bytes(data)
        load_index(_PLACE, 1, 1)
    finally:
        shutil.rmtree(_PLACE, ignore_errors=True)


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


_NOTES = NotesStore(Path("/nonexistent")).read(Path("/nonexistent/run.json"))

TARGETS: dict[str, Target] = {
    "scan": scan, "decode": decode, "fold": fold, "manifest": manifest, "filter": filters, "visible": visible,
    "id": ids, "template": templates, "redact": redact, "own": own,
}  # fmt: skip
