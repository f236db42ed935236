"""Damaged journals: what is found, where, and what may still be done (design/safety.md 5: G4, G5, G6, G8)."""

from __future__ import annotations

import bisect
import contextlib
import functools
import hashlib
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from tests import generate
from tests.damage import EITHER, HARMLESS, KINDS, SHOWS_BEFORE, damage
from tests.faults.goals import Goal, Share, Work, carry_out, shuffled
from tests.faults.victims import scratch

from refold.core.errors import FoldError, RefoldError
from refold.core.findings import CODES, Finding
from refold.core.fork import legal_points
from refold.core.formats.registry import by_name
from refold.core.journal_text import fold_bytes, is_blank
from refold.core.records import (
    AssistantRecord,
    Json,
    Message,
    MetaRecord,
    TerminalRecord,
    ToolResultRecord,
)
from refold.core.store import fork, salvage
from refold.core.store.examining import examine
from refold.core.store.journal import JournalStore
from refold.core.store.reader import RunReader
from refold.core.store.seen import Rewritten, look

VARIANTS: dict[Share, int] = {"ci": 1, "quick": 20, "long": 120}
FLIPS: dict[Share, int] = {"ci": 11, "quick": 1, "long": 1}
"""One bit of so many is flipped."""
HEAPS: dict[Share, int] = {"ci": 4, "quick": 200, "long": 3000}
FORKS: dict[Share, int] = {"ci": 2, "quick": 200, "long": 2_000}
"""Runs of which every legal fork is made."""
OTHERWISE = {"spliced"}
"""Two lines, of which the first is cut and carries the second, are not always seen as one in another."""
RECORDS = 10
MOST_PIECES = 3
FIRST = b'{"seq":1,'


def measure(share: Share, seed: int, seconds: float) -> Iterator[Goal]:
    """Damage runs in every way, flip their bits, salvage and fork them."""
    whats = (
        ("G4", f"{len(KINDS)} kinds of damage: code, place, what is allowed", _kinds, 900),
        ("G5", "single bits of a run of five records flipped", _flips, 8_544),
        ("G6", "runs with up to five damages, salvaged", _salvages, 0),
        ("G8", "forks held against the prefix of their parent", _forks, 10_000),
    )
    with scratch() as directory:
        work: list[Work] = [
            (
                Goal(name, what, 0, seed, asked),
                functools.partial(act, directory=directory, share=share),
            )
            for name, what, act, asked in whats
        ]
        yield from carry_out(work, seconds)


def good(style: generate.Style, seed: int, records: int = RECORDS, **how: object) -> bytes:
    """Give a run without damage."""
    lines = generate.journal(records=records, style=style, seed=seed, run_id="run", **how)  # type: ignore[arg-type]
    return b"".join(lines)


def write(path: Path, data: bytes) -> Path:
    """Put a run where it is looked at."""
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def _kinds(goal: Goal, directory: Path, share: Share) -> None:
    seed = goal.seed
    wholes = {style: good(style, seed) for style in generate.STYLES}
    for number in range(VARIANTS[share]):
        for kind, code in KINDS.items():
            if goal.over:
                return
            style = generate.STYLES[(number + seed) % len(generate.STYLES)]
            whole = wholes[style]
            data = damage(kind, seed * 1_000_003 + number, whole)
            with goal.attempt(f"{kind} {number} {style}"):
                found = check_findings(
                    write(directory / "run.json", data), whole, None if kind in OTHERWISE else code,
                    shows_before=kind in SHOWS_BEFORE,
                )  # fmt: skip
                check_what_is_named(kind, found)


def check_what_is_named(kind: str, found: list[Finding]) -> None:
    """Check the codes of kinds that have no single one."""
    codes = {one.code for one in found}
    assert kind not in EITHER or codes & EITHER[kind], f"{kind}: none of {EITHER[kind]} in {codes}"
    if kind in HARMLESS:
        assert {one.severity for one in found} <= {"info"}, f"{kind}: {codes}"


def check_findings(path: Path, whole: bytes, code: str | None, *, shows_before: bool) -> list[Finding]:
    """Check the findings of a damaged run against its undamaged bytes; gives them."""
    data = path.read_bytes()
    with RunReader.open(path) as reader:
        timeline = reader.index_all()
        found = list(examine(reader))
        places = {(one.code, one.start, one.seq): one.allowed for one in found}
        for noted in timeline.findings:
            assert places[noted.code, noted.start, noted.seq] == noted.allowed, noted
        legal = [timeline.seq(item) for item in legal_points(timeline)]
        ends = {timeline.seq(item): timeline.span(item).end for item in legal_points(timeline)}
        rows = {reader.raw(item) for item in range(timeline.items)}
    good_lines = set(whole.split(b"\n")) - {b""}
    assert good_lines.intersection(data.split(b"\n")) <= rows, "a good record is not reachable"
    assert legal == _legal_by_folding(data)
    first, last = _changed(whole, data)
    for one in found:
        assert one.code in CODES
        assert 0 <= one.start <= one.end <= len(data), one
        assert one.line == 0 or data.count(b"\n", 0, one.start) + 1 == one.line, one
        if one.allowed.fork_to is not None:
            assert one.allowed.fork_to in ends, one
        assert not one.allowed.resume or one.severity != "error", one
    if code is not None:
        meant = [one for one in found if one.code == code]
        assert meant, f"no {code} among {[one.code for one in found]}"
        near = [
            one
            for one in meant
            if one.start <= _lines_on(data, last) and (one.end >= first - 1 or shows_before)
        ]
        assert near, f"{meant} is not at {first} to {last}"
    return found


def _lines_on(data: bytes, place: int) -> int:
    """Give where the line after that of a place ends: what is wrong may show in the next one."""
    for _ in range(2):
        place = data.find(b"\n", place) + 1 or len(data)
    return place


def _changed(whole: bytes, data: bytes) -> tuple[int, int]:
    """Give the first byte that differs and the one after the last, counted in the damaged bytes."""
    first = _same(whole, data)
    return first, len(data) - _same(whole[first:][::-1], data[first:][::-1])


def _same(one: bytes, other: bytes) -> int:
    """Give how many bytes are the same at the beginning of both."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _legal_by_folding(data: bytes) -> list[int]:
    """Give the sequences after which the prefix folds and does not end in "completed", line by line."""
    found: list[int] = []
    end = 0
    broken = False
    for line in data.split(b"\n"):
        end = min(len(data), end + len(line) + 1)
        if is_blank(line) or broken:
            continue
        try:
            state = fold_bytes(data[:end])
            before = fold_bytes(data[: end - len(line) - 1]).last_seq if found else None
        except RefoldError:
            broken = bool(found)
            continue
        if state.last_seq == before:
            # A last line that cannot be read is passed over; nothing beyond it is legal.
            broken = True
        elif b'.terminal"' not in line or b'"reason":"completed"' not in line:
            found.append(state.last_seq)
    return found


def _flips(goal: Goal, directory: Path, share: Share) -> None:
    whole = five_records(directory)
    free = _free(whole)
    path, cache = write(directory / "run.json", whole), directory / "cache"
    assert _looked_at(path, cache) is None
    for bit in shuffled(range(goal.seed % FLIPS[share], 8 * len(whole), FLIPS[share]), goal.seed):
        if goal.over:
            break
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        with goal.attempt(f"bit {bit}"):
            write(path, bytes(data))
            with RunReader.open(path) as reader:
                reader.index_all()
                seen = any(True for _ in examine(reader))
                try:
                    reader.state_at(reader.timeline.items - 1)
                except FoldError:
                    seen = True
            assert seen or bit // 8 in free, f"not seen in {whole[max(0, bit // 8 - 20) : bit // 8 + 9]!r}"
            goal.count("seen without a cache", seen)
            changed = _looked_at(path, cache)
            assert changed is not None, "not seen beside what is remembered"
            assert changed.start <= bit // 8 < changed.end
            goal.count("seen with one")
    if goal.notes.get("seen without a cache", 0) < 0.95 * goal.tries:
        goal.failures.append("fewer than 95 of 100 flips were seen without a cache")


def _looked_at(path: Path, cache: Path) -> Rewritten | None:
    """Hold a run against what is remembered of it."""
    with path.open("rb") as file:
        return look(file.fileno(), path, cache)


def _free(whole: bytes) -> set[int]:
    """Give the bytes of a run that may as well be others: texts, times, names and arguments, and counts."""
    values = re.finditer(
        rb'"(?:prompt|created|name|text)":"([^"]*)"|("path":"calc.py")|\b(?<!")(\d+)[,}]', whole
    )
    return {at for found in values for at in range(*found.span(found.lastindex or 0))}


def five_records(directory: Path) -> bytes:
    """Give a run of five records as they are in life, with little text in them."""
    moment = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    store = JournalStore(directory / "five", by_name("fisk-ai"), clock=lambda: moment)
    call: Json = {"type": "tool_use", "id": "toolu_01", "name": "read_file", "input": {"path": "calc.py"}}
    result: Json = {"tool_use_id": "toolu_01", "is_error": False, "content": [{"type": "text", "text": "1"}]}
    said: Json = {"type": "text", "text": "Done."}
    with store.create("run", MetaRecord(prompt="fix add()")) as journal:
        journal.append(AssistantRecord(Message("assistant", (call,)), 0, "tool_use", 500, 60, 7, 8))
        journal.append(ToolResultRecord("toolu_01", result))
        journal.append(AssistantRecord(Message("assistant", (said,)), 1, "end_turn", 500, 60, 7, 8))
        journal.append(TerminalRecord("completed"))
    data = store.path_of("run").read_bytes()
    store.path_of("run").unlink()
    return data


def _salvages(goal: Goal, directory: Path, share: Share) -> None:
    from tests.test_core_salvage import HARD, could_stand, lines_of

    rng = random.Random(goal.seed)
    for number in range(HEAPS[share]):
        if goal.over:
            break
        whole = good(generate.STYLES[number % 3], number % 7, 24)
        data = whole
        # A record glued to a megabyte of brackets is not looked for: a line above a limit is not taken apart.
        kinds = [rng.choice(HARD[:-1]) for _ in range(rng.randint(1, 5))]
        for kind in kinds:
            # What is left of a line may be too short to be damaged further.
            with contextlib.suppress(ValueError):
                data = damage(kind, rng.randrange(10**6), data)
        with goal.attempt(f"heap {number}: {' '.join(kinds)}"):
            path = write(directory / "run.json", data)
            before = path.stat().st_mtime_ns
            with RunReader.open(path) as reader:
                try:
                    plan = salvage.salvage_of(reader, child="made")
                except RefoldError:
                    continue
            made = salvage.carry_out(plan)
            new = made.path.read_bytes()
            made.path.unlink()
            assert (path.read_bytes(), path.stat().st_mtime_ns) == (data, before)
            taken, known = lines_of(new), set(lines_of(whole))
            # The head of one record before the tail of another may read as a record, also once a third was
            # taken out from between them; nothing in the file tells it from one. Its bytes stand there.
            unknown = [line for line in taken[1:] if line not in known]
            assert all(_in_pieces(line, data) <= MOST_PIECES for line in unknown), "a record was invented"
            goal.count("heads and tails of two that read as one", len(unknown))
            there = [line for line in known if line in data and not line.startswith(FIRST)]
            lost = [line for line in there if line not in taken]
            goal.count("whole records", len(there))
            goal.count("of them left out", len(lost))
            goal.count("that could have stood", sum(could_stand(taken, line) for line in lost))
            fold_bytes(new)

    if goal.notes.get("that could have stood", 0) > 0.001 * goal.notes.get("whole records", 0) + 1:
        goal.failures.append("more than one of a thousand whole records was left out without need")


def _in_pieces(line: bytes, data: bytes) -> int:
    """Give in how many pieces the bytes of a record stand in a file."""
    count = 0
    while line:
        length = bisect.bisect_left(range(1, len(line) + 1), x=True, key=lambda size: line[:size] not in data)
        if not length:
            return MOST_PIECES + 1
        line = line[length:]
        count += 1
    return count


@functools.cache
def _bodies(number: int) -> generate.Bodies:
    """Give what is said in runs: in most of them little, for making it takes longer than forking them."""
    return generate.short_bodies(number) if number % 8 else generate.Bodies.render(number)


def _forks(goal: Goal, directory: Path, share: Share) -> None:
    seed = goal.seed * 1000
    for number in range(FORKS[share]):
        if goal.over:
            break
        style = generate.STYLES[number % 3]
        ending = generate.ENDINGS[number % len(generate.ENDINGS)]
        data = good(style, seed + number, 12, ending=ending, bodies=_bodies(number % 24))
        path = write(directory / "run.json", data)
        before = path.stat().st_mtime_ns
        with RunReader.open(path) as reader:
            timeline = reader.index_all()
            for item in legal_points(timeline):
                with goal.attempt(f"{style} {seed + number}, item {item}"):
                    made = fork.carry_out(fork.plan_at(reader, item, child="made"))
                    child = made.path.read_bytes()
                    made.path.unlink()
                    prefix = data[: timeline.span(item).end + 1]
                    assert child.partition(b"\n")[2] == prefix.partition(b"\n")[2]
                    assert made.prefix_sha256 == hashlib.sha256(prefix).hexdigest()
                    assert fold_bytes(child).last_seq == timeline.seq(item)
        with goal.attempt("the parent"):
            assert (path.read_bytes(), path.stat().st_mtime_ns) == (data, before)
