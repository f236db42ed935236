"""Salvage: every whole record of a damaged run that can stand in a new one, none made up, all reported."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import generate
from tests.damage import KINDS, damage

from refold.core.chain import longest_chain, ordered
from refold.core.errors import BadRecord, CorruptJournal, RunExists, RunNotFound
from refold.core.fold import Fold
from refold.core.formats.journal import FISK_AI, NATIVE
from refold.core.journal_text import fold_bytes, strict_records
from refold.core.postmortem import examine_stopped
from refold.core.records import MetaRecord
from refold.core.repair import PlanOutdated
from refold.core.salvage import NothingToSalvage, SalvagePlan, plan_json, report
from refold.core.store.notes import NotesStore
from refold.core.store.postmortem import known_of
from refold.core.store.reader import RunReader
from refold.core.store.resume import facts_of
from refold.core.store.salvage import REASON, carry_out, salvage_of

SEEDS = 24
"""Damaged runs of each kind; together with the heaps below well over a thousand."""
HEAPS = 150
REFUSED = {"empty", "blank-only", "no-meta", "half-meta", "newer", "utf16"}
"""Kinds of damage that leave no meta record, or one of a version that does not fold."""
CHIMERAS = {"duplicate-block"}
"""Kinds that may make a line which any JSON reader takes for a record of its own."""


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def good_run(style: generate.Style = "fisk-ai-v3", records: int = 14, *, seed: int = 1) -> bytes:
    return b"".join(
        generate.journal(seed=seed, records=records, style=style, run_id="run", ending="suspended")
    )


def salvaged(path: Path, child: str = "child") -> tuple[SalvagePlan, bytes]:
    """Salvage a run and check what holds for every salvage; give the plan and the new file."""
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    with RunReader.open(path, hint="fisk-ai") as reader:
        plan = salvage_of(reader, child=child)
        made = carry_out(plan)
    data = made.path.read_bytes()
    made.path.unlink()
    state = fold_bytes(data)
    assert state.run_id == child
    assert state.last_seq == plan.last_seq
    assert data.endswith(b"\n")
    assert data.count(b"\n") == plan.records
    assert hashlib.sha256(data.partition(b"\n")[2]).hexdigest() == plan.sha256
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    whole = len(before[0])
    for left in plan.left_out:
        assert 0 <= left.start < left.end <= whole
        assert left.line == before[0].count(b"\n", 0, left.start) + 1
        assert left.reason
    assert len(report(plan)) == len(plan.left_out)
    return plan, data


def refused_or_salvaged(path: Path) -> tuple[str, bytes]:
    """Give the code of the refusal, or the new run."""
    try:
        return "", salvaged(path)[1]
    except NothingToSalvage as refused:
        return refused.code, b""


def lines_of(data: bytes) -> list[bytes]:
    return [line for line in data.split(b"\n") if line.strip()]


def could_stand(taken: Sequence[bytes], more: bytes) -> bool:
    """Say whether the strict fold takes one more record among those taken, at the place of its sequence."""
    decoder = FISK_AI.decoder(taken[0]) if b"fisk-ai" in taken[0] else NATIVE.decoder(taken[0])
    records = [decoder.record(line) for line in taken]
    try:
        another = decoder.record(more)
    except BadRecord:
        return False
    place = next((at for at, record in enumerate(records[1:], 1) if record.seq >= another.seq), len(records))
    records.insert(place, another)
    fold = Fold(decoder)
    try:
        for record in records:
            fold.feed(record)
    except CorruptJournal:
        return False
    return True


def check(original: bytes, damaged: bytes, data: bytes, *, chimeras: bool) -> int:
    """Check a salvage against the undamaged run; give how many whole records it could not take."""
    known = set(lines_of(original))
    taken = lines_of(data)
    for line in taken[1:]:
        # What two damages put together so that it reads as a record is one to any reader.
        assert line in known or line.rstrip(b"\r") in known or (line in damaged and chimeras), line[:200]
    missing = 0
    for line in lines_of(original)[1:]:
        if line in damaged and line not in taken and line + b"\r" not in taken:
            missing += 1
            assert not could_stand(taken, line), line[:200]
    return missing


@pytest.mark.parametrize("kind", KINDS)
def test_one_damage(tmp_path: Path, kind: str) -> None:
    tries = 0
    for seed in range(SEEDS):
        style = generate.STYLES[seed % 3]
        original = good_run(style)
        path = tmp_path / "run.json"
        path.write_bytes(damage(kind, seed, original))
        tries += 1
        why, data = refused_or_salvaged(path)
        if why:
            assert why == "sound" or kind in REFUSED | {"bit-flip", "nul-hole", "odd-version", "odd-times"}
            if why == "sound":
                fold_bytes(path.read_bytes())
            continue
        # What only looks like a record of the run: seq, iteration or run id differ by the damage itself.
        altered = kind in {"bit-flip", "seq-odd", "duplicate-key", "wrong-shape", "after-completed"}
        altered |= kind in {"two-writers", "foreign", "huge-number", "unknown-kind", "separators"}
        altered |= kind in {"bad-utf8", "surrogate-escape", "cesu-surrogate"} | CHIMERAS
        altered |= kind in {"second-meta", "second-result", "missing-result", "odd-times"}
        check(original, path.read_bytes(), data, chimeras=altered)
    assert tries == SEEDS


HARD = ["torn", "glued", "glued-to-torn", "spliced", "nul-after-record", "nul-line", "nul-hole"]
HARD += ["bom-inside", "raw-controls", "duplicate-line", "swapped", "garbage-line", "deep-unclosed"]


def test_up_to_five_damages_in_one_run(tmp_path: Path) -> None:
    """Nearly every record that is still whole is taken; what is not could not stand."""
    rng = random.Random(7)
    path = tmp_path / "run.json"
    whole = lost = 0
    for number in range(HEAPS):
        original = good_run(generate.STYLES[number % 3], 40, seed=number % 4)
        data = original
        for _ in range(rng.randint(2, 5)):
            data = damage(rng.choice(HARD), rng.randrange(10**6), data)
        path.write_bytes(data)
        why, new = refused_or_salvaged(path)
        if why:
            assert why == "sound"
            continue
        lost += check(original, data, new, chimeras=False)
        whole += sum(line in data for line in lines_of(original)[1:])
    assert whole > 30 * HEAPS
    # Whole records that cannot stand: results whose turn was destroyed, with no turn open before.
    assert lost < whole / 100


def test_spliced_records_are_joined_again(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    for seed in range(40):
        original = good_run(generate.STYLES[seed % 3], seed=seed % 4)
        path.write_bytes(damage("spliced", seed, original))
        plan, data = salvaged(path)
        assert lines_of(data)[1:] == lines_of(original)[1:]
        assert (plan.recovered, plan.left_out) == (2, ())
    lines = lines_of(original)
    inside = lines[4][:60] + lines[5] + lines[4][60:]
    path.write_bytes(b"\n".join([*lines[:4], inside, *lines[6:]]) + b"\n")
    plan, data = salvaged(path)
    assert lines_of(data)[1:] == lines[1:]
    assert plan.left_out == ()


def test_halves_are_not_joined_where_the_record_stands_elsewhere(tmp_path: Path) -> None:
    lines = lines_of(good_run("native"))
    path = tmp_path / "run.json"
    halves = [lines[4][:60] + lines[5], lines[4][60:]]
    path.write_bytes(b"\n".join([*lines[:4], *halves, lines[4], *lines[6:]]) + b"\n")
    plan, data = salvaged(path)
    assert lines_of(data)[1:] == lines[1:]
    assert [left.line for left in plan.left_out] == [5, 6]
    assert plan.recovered == 1
    # The tail of another record: joined they are none.
    path.write_bytes(b"\n".join([*lines[:4], halves[0], lines[6][60:], *lines[7:]]) + b"\n")
    plan, data = salvaged(path)
    assert lines_of(data)[1:] == [line for line in lines[1:] if line not in (lines[4], lines[6])]


def test_a_record_with_anything_behind_it_is_whole(tmp_path: Path) -> None:
    original = good_run("native")
    rows = original.split(b"\n")
    path = tmp_path / "run.json"
    for junk in (b"not json at all", b"}{", b'"', b"\xff\xfe", b'{"seq":'):
        path.write_bytes(b"\n".join([*rows[:4], rows[4] + junk, *rows[5:]]))
        _, new = refused_or_salvaged(path)
        assert lines_of(new)[1:] == lines_of(original)[1:]


def test_order_and_copies(tmp_path: Path) -> None:
    lines = lines_of(good_run("native"))
    path = tmp_path / "run.json"
    path.write_bytes(b"\n".join([*lines[:6], lines[7], lines[6], *lines[8:], lines[3]]) + b"\n")
    plan, data = salvaged(path)
    assert lines_of(data)[1:] == lines[1:]
    assert plan.moved == 1
    (copy,) = plan.left_out
    assert (copy.code, copy.seq, copy.reason) == ("E_SEQ_DUP", 4, "a copy of the record on line 4")

    other = lines[5].replace(b'"seq":6', b'"seq":5')
    far = lines[8].replace(b'"seq":9', b'"seq":900')
    low = lines[8].replace(b'"seq":9', b'"seq":1')
    path.write_bytes(b"\n".join([*lines[:5], other, *lines[5:8], far, low, *lines[8:]]) + b"\n")
    plan, data = salvaged(path)
    assert lines_of(data)[1:] == lines[1:]
    assert [(left.code, left.seq) for left in plan.left_out] == [
        ("E_SEQ_DUP", 5),
        ("E_SEQ_BACK", 900),
        ("E_SEQ_BACK", 1),
    ]
    assert "with other content" in plan.left_out[0].reason
    assert "among smaller ones" in plan.left_out[1].reason
    assert "meta record" in plan.left_out[2].reason


def test_records_of_another_run_stay_out(tmp_path: Path) -> None:
    ours = lines_of(good_run("native", 10))
    theirs = lines_of(good_run("native", 16, seed=2))
    theirs[0] = theirs[0].replace(b'"run_id":"run"', b'"run_id":"other"')
    path = tmp_path / "run.json"
    orders = [
        [*ours, *theirs],
        [*ours[:6], *theirs, *ours[6:]],
        [*ours[:6], theirs[0], *ours[6:], *theirs[1:]],
        [ours[0], *(line for pair in zip(ours[1:8], theirs[:7], strict=True) for line in pair), *ours[8:]],
    ]
    for order in orders:
        path.write_bytes(b"\n".join(order) + b"\n")
        plan, data = salvaged(path)
        taken = lines_of(data)[1:]
        assert taken[: len(ours) - 1] == ours[1:]
        assert {left.code for left in plan.left_out} <= {"E_FOREIGN_RUN", "E_SEQ_DUP"}
        assert any("another run" in left.reason for left in plan.left_out)
        assert not set(taken) & set(theirs)
    path.write_bytes(b"\n".join([*ours, ours[0], b"x", *ours[1:3]]) + b"\n")
    plan, data = salvaged(path)
    assert [left.code for left in plan.left_out] == ["E_DUP_META", "E_BAD_JSON", "E_SEQ_DUP", "E_SEQ_DUP"]


def test_what_a_resume_may_trip_over_is_said(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes((Path(__file__).parent / "data/fisk-ai/v3/corrupt-interior-line.json").read_bytes())
    with RunReader.open(path, hint="fisk-ai") as reader:
        plan = salvage_of(reader, child="child")
    codes = {left.code for left in plan.left_out}
    assert "E_TOOL_ORPHAN" in codes
    assert any("missing" in remark for remark in plan.remarks)
    lines = lines_of(good_run("native", 30))
    assistants = [at for at, line in enumerate(lines) if b'"tool_use"' in line and b".assistant" in line]
    results = [at for at, line in enumerate(lines) if b".tool_result" in line]
    second, first_result = assistants[1], results[0]
    lost = [line for at, line in enumerate(lines) if at not in (second, first_result)]
    path.write_bytes(b"\n".join([*lost[:-1], b"damage", lost[-1]]) + b"\n")
    plan, _ = salvaged(path)
    text = "\n".join(plan.remarks)
    assert "without a result" in text
    assert "answers no pending call" in text
    assert "2 sequence numbers between 1 and 30 missing" in text
    assert plan_json(plan)["remarks"] == list(plan.remarks)


@pytest.mark.parametrize("style", generate.STYLES)
def test_the_new_run_knows_where_it_comes_from_and_what_was_left_out(
    tmp_path: Path, style: generate.Style
) -> None:
    (tmp_path / "runs").mkdir()
    path = tmp_path / "runs" / "run.json"
    path.write_bytes(damage("garbage-line", 3, good_run(style)))
    notes = NotesStore(tmp_path / "notes")
    with RunReader.open(path) as reader:
        plan = salvage_of(reader, child="child")
        made = carry_out(plan, notes=notes)
        assert made.noted
        with pytest.raises(RunExists):
            carry_out(plan, notes=notes)
    noted = notes.read(made.path)
    assert noted.left_out == report(plan)
    assert re.fullmatch(r"line \d+, bytes \d+ to \d+: E_BAD_\w+: .+", noted.left_out[0])
    with RunReader.open(made.path) as child:
        child.index_all()
        assert child.meta is not None
        origin = child.meta.forked_from or noted.forked_from
    assert origin is not None
    assert (origin.run_id, origin.seq, origin.reason) == ("run", plan.last_seq, REASON)
    assert origin.prefix_sha256 == hashlib.sha256(path.read_bytes()[: plan.prefix_end] + b"\n").hexdigest()
    assert (noted.forked_from is None) == (style == "native")
    assert len(list((tmp_path / "notes").iterdir())) == 1


def test_a_long_report_is_kept_in_part(tmp_path: Path) -> None:
    lines = lines_of(good_run("native"))
    (tmp_path / "runs").mkdir()
    path = tmp_path / "runs" / "run.json"
    path.write_bytes(b"\n".join([*lines[:4], *(b"damage %d" % number for number in range(3000)), *lines[4:]]))
    notes = NotesStore(tmp_path / "notes")
    with RunReader.open(path) as reader:
        plan = salvage_of(reader, child="child")
        made = carry_out(plan, notes=notes)
    assert len(plan.left_out) == 3000
    assert notes.read(made.path).left_out[-1] == "and 1000 more"


def test_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    cases = {
        "sound": good_run(),
        "no_meta": damage("no-meta", 1, good_run()),
        "newer": damage("newer", 1, good_run()) + b"x\nx\n",
    }
    for code, data in cases.items():
        path.write_bytes(data)
        with RunReader.open(path) as reader, pytest.raises(NothingToSalvage) as refused:
            salvage_of(reader)
        assert refused.value.code == code
    with RunReader.open(path) as reader, pytest.raises(NothingToSalvage) as refused:
        salvage_of(reader, child="run")
    assert refused.value.code == "same_id"


def test_a_plan_is_for_the_bytes_it_was_made_from(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    data = damage("glued", 1, good_run("native"))
    path.write_bytes(data)
    with RunReader.open(path) as reader:
        plan = salvage_of(reader, child="child")
    stretch = plan.stretches[-1]
    changed = data[: stretch.end - 20] + b"?" + data[stretch.end - 19 :]
    for now in (changed, data[: stretch.start + 5]):
        path.write_bytes(now)
        with pytest.raises(PlanOutdated):
            carry_out(plan)
    path.write_bytes(data + b'{"seq":99}\n')
    assert carry_out(plan).path.exists()
    path.unlink()
    path.write_bytes(data)
    with pytest.raises((PlanOutdated, RunExists)):
        carry_out(msgspec.structs.replace(plan, inode=plan.inode + 1, child="other"))
    path.unlink()
    with pytest.raises(RunNotFound):
        carry_out(msgspec.structs.replace(plan, child="other"))
    assert [file.name for file in tmp_path.iterdir()] == ["child.json"]


def test_a_completed_run_is_salvaged_whole(tmp_path: Path) -> None:
    original = b"".join(generate.journal(records=14, style="native", run_id="run", ending="completed"))
    path = tmp_path / "run.json"
    path.write_bytes(damage("nul-line", 5, original))
    with RunReader.open(path) as reader:
        made = carry_out(salvage_of(reader, child="child"))
    assert fold_bytes(made.path.read_bytes()).completed
    head = json.loads(made.path.read_bytes().split(b"\n")[0])
    assert head["meta"]["forked_from"]["reason"] == "salvage"


def test_the_strict_reader_takes_the_result(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(damage("two-writers", 1, good_run("fisk-ai-v2")))
    _, data = salvaged(path)
    decoder = FISK_AI.decoder(data)
    records = list(strict_records(data.split(b"\n"), decoder))
    assert isinstance(records[0], MetaRecord)
    assert [record.seq for record in records] == sorted({record.seq for record in records})


@given(st.lists(st.integers(0, 12), max_size=9))
def test_the_longest_chain(numbers: list[int]) -> None:
    chain = longest_chain(numbers)
    values = [numbers[place] for place in chain]
    assert chain == sorted(chain)
    assert values == sorted(set(values))
    longest = max(
        size
        for size in range(len(numbers) + 1)
        if not size or any(all(a < b for a, b in pairwise(part)) for part in combinations(numbers, size))
    )
    assert len(chain) == longest


@given(st.lists(st.integers(0, 12), max_size=30), st.integers(0, 12))
def test_each_number_once(numbers: list[int], after: int) -> None:
    chosen = ordered(numbers, after)
    assert all(numbers[place] == number > after for number, place in chosen.items())
    chain = longest_chain([number for number in numbers if number > after])
    assert len(chosen) >= len(chain)


def test_which_of_equal_ones() -> None:
    assert ordered([2, 2, 3, 3, 4, 4], 1) == {2: 0, 3: 2, 4: 4}
    assert ordered([2, 4, 3, 5], 1) == {2: 0, 3: 2, 4: 1, 5: 3}
    assert ordered([2, 900, 3, 4], 1) == {2: 0, 3: 2, 4: 3}
    assert ordered([2, 3, 5, 4], 1) == {2: 0, 3: 1, 4: 3, 5: 2}
    assert ordered([2, 3, 6, 4, 5], 1) == {2: 0, 3: 1, 4: 3, 5: 4, 6: 2}
    assert ordered([], 1) == ordered([1, 0], 1) == {}


@pytest.mark.parametrize("kind", [*sorted(KINDS), "whole", "duplicate-key"])
def test_the_post_mortem_offers_a_salvage_exactly_where_one_can_be_made(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    whole = good_run()
    if kind in KINDS:
        path.write_bytes(damage(kind, 5, whole))
    else:
        path.write_bytes(whole if kind == "whole" else whole.replace(b'"seq":2,', b'"seq":2,"seq":2,', 1))
    with RunReader.open(path, hint="fisk-ai") as reader:
        reader.index_all()
        post = examine_stopped(known_of(reader, facts_of(reader)), reader.bytes_at)
        offered = next(action for action in post.actions if action.name == "salvage")
        refused = ""
        try:
            salvage_of(reader, child="child")
        except NothingToSalvage as error:
            refused = str(error)
        assert offered.possible is not bool(refused), refused or offered.why_not
