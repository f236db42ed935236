"""The list is the same with and without a cache, whatever has become of the cache."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests import generate
from tests.listing import catalog, listed, settle, write_run

from refold.core.status import STATUSES
from refold.core.store import list_cache, shelf
from refold.core.store.catalog import Progress
from refold.core.store.packed_rows import BLOCK, NOWHERE, KeptRows, pack, unpack
from refold.core.store.roots import packed
from refold.core.store.shelf import Page, Slot
from refold.core.summary import RunSummary


@pytest.fixture(autouse=True)
def quick_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file be old after a tenth of a second instead of two."""
    monkeypatch.setattr(list_cache, "_SETTLED_NS", 100_000_000)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Some runs that were written long enough ago to be remembered."""
    directory = tmp_path / "runs"
    for number in range(12):
        write_run(directory, f"run-{number}", age=7 * number, style=generate.STYLES[number % 3])
    write_run(directory, "a name that is none", prompt="核对 \U0001f600")
    (directory / "stub.json").touch()
    (directory / "directory.json").mkdir()
    (directory / "run-3.lock").touch()
    Path(os.fsdecode(os.fsencode(directory) + b"/caf\xe9.json")).write_bytes(b"")
    settle(directory)
    return directory


def test_the_cache_is_private_and_spares_the_reading(store: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    old = os.umask(0)
    try:
        cold = listed(store, cache=cache)
    finally:
        os.umask(old)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in cache.iterdir()] == [0o600]
    inode = (cache / "list.cache").stat().st_ino
    for path in store.glob("run-*.json"):
        path.chmod(0o600)
    assert listed(store, cache=cache) == cold == listed(store)
    assert (cache / "list.cache").stat().st_ino != inode


def test_a_cached_list_is_the_list(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cold = listed(store, cache=tmp_path / "cache")
    for name in ("summarise", "reader"):
        monkeypatch.setattr(
            f"refold.core.store.{name}.open_regular", lambda *_, **__: pytest.fail("a run was read")
        )
    # A name that is no Unicode cannot be kept; its file is empty and costs nothing.
    assert listed(store, cache=tmp_path / "cache") == cold


def test_every_change_is_seen_through_the_cache(store: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    listed(store, cache=cache)
    grown, replaced, edited, removed = (store / f"run-{number}.json" for number in (1, 2, 3, 4))
    with grown.open("ab") as file:
        file.write(b"torn")
    other = write_run(tmp_path / "other", "run-2", records=12)
    os.utime(other, ns=(replaced.stat().st_mtime_ns,) * 2)
    other.replace(replaced)
    before = edited.stat()
    edited.write_bytes(edited.read_bytes().replace(b"claude-opus-4-8", b"claude-opus-9-9"))
    os.utime(edited, ns=(before.st_atime_ns, before.st_mtime_ns))
    removed.unlink()
    write_run(store, "run-new")
    assert listed(store, cache=cache) == listed(store)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_cache_is_a_miss(store: Path, tmp_path: Path, data: st.DataObject) -> None:
    file = tmp_path / "cache" / "list.cache"
    if not file.exists():
        listed(store, cache=tmp_path / "cache")
        shutil.copy(file, tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    place = data.draw(st.integers(0, len(good) - 1))
    damage = data.draw(st.sampled_from(["cut", "flip", "insert", "zero"]))
    bad = {
        "cut": good[:place],
        "flip": good[:place] + bytes([good[place] ^ 0x41]) + good[place + 1 :],
        "insert": good[:place] + b"\xc1garbage" + good[place:],
        "zero": good[:place] + bytes(len(good) - place),
    }[damage]
    file.write_bytes(bad)
    assert listed(store, cache=tmp_path / "cache") == listed(store)


@pytest.mark.parametrize("content", [b"", b"refold list 0 0.0.0\n", b"\0" * 5000, b"no cache"])
def test_a_strange_file_in_its_place_is_a_miss(store: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "list.cache").write_bytes(content)
    assert listed(store, cache=tmp_path / "cache") == listed(store)
    assert (tmp_path / "cache" / "list.cache").read_bytes() != content


def test_where_nothing_can_be_kept_the_list_is_the_same(store: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "list.cache")
    assert listed(store, cache=tmp_path / "file") == listed(store)
    (tmp_path / "taken" / "list.cache").mkdir(parents=True)
    assert listed(store, cache=tmp_path / "taken") == listed(store)
    assert listed(store, cache=tmp_path) == listed(store)


def test_a_row_read_too_soon_after_a_change_is_not_kept(tmp_path: Path) -> None:
    path = write_run(tmp_path / "runs", "young")
    os.utime(path)
    listed(tmp_path / "runs", cache=tmp_path / "cache")
    kept = list(list_cache.load(tmp_path / "cache", {str(tmp_path / "runs"): path.stat().st_dev}))
    assert [page.rows for found in kept if found is not None for page in [found[1]]] == [[None]]


def test_two_lists_that_share_a_cache_keep_the_work_of_both(store: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    write_run(tmp_path / "more", "one")
    settle(tmp_path / "more")
    first, second = catalog(store, cache=cache), catalog(tmp_path / "more", cache=cache)
    scans = [first.scan(), second.scan()]
    while scans:
        scans = [scan for scan in scans if next(scan, None) is not None]
    devices = {str(path): path.stat().st_dev for path in (store, tmp_path / "more")}
    directories = {found[0] for found in list_cache.load(cache, devices) if found is not None}
    assert directories == set(devices)


def test_a_list_given_up_early_takes_over_what_another_has_read(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    mine = catalog(store, cache=cache)
    scan = mine.scan()
    next(item for item in scan if isinstance(item, RunSummary))
    whole = listed(store, cache=cache)
    del scan
    mine.close()
    for name in ("summarise", "reader"):
        monkeypatch.setattr(
            f"refold.core.store.{name}.open_regular", lambda *_, **__: pytest.fail("a run was read")
        )
    assert listed(store, cache=cache) == whole


def test_runs_that_are_gone_leave_the_cache(store: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    listed(store, cache=cache)
    found = catalog(store, cache=cache)
    list(found.scan())
    for path in store.glob("run-1*.json"):
        path.unlink()
        list(found.refresh([path]))
    write_run(store, "other")
    list(found.refresh([store / "other.json"]))
    found.close()
    kept = [found[1] for found in list_cache.load(cache, {str(store): store.stat().st_dev}) if found]
    names = {name for page in kept for name in page.names}
    assert names == {path.name for path in store.glob("*.json")} - {"caf\udce9.json"}
    assert listed(store, cache=cache) == listed(store)


@pytest.mark.parametrize("becomes", ["longer", "gone"])
def test_a_run_that_changes_while_the_cache_is_written_is_never_kept_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, becomes: str
) -> None:
    """The list is refreshed between any two steps of a save, and killed before it can save again."""
    monkeypatch.setattr("refold.core.store.roots.STRETCH", 4)
    store = tmp_path / "runs"
    write_run(store, "first", age=1)
    for number in range(9):
        write_run(store, f"run-{number}", age=2)
    path, whole = store / "first.json", (store / "first.json").read_bytes()
    short = whole[: whole.rindex(b"\n", 0, -1) + 1]
    path.write_bytes(short)
    settle(store)
    steps = sum(1 for _ in catalog(store, cache=tmp_path / "counted").scan())
    runs = len(listed(store))
    for step in range(steps):
        cache = tmp_path / f"cache-{step}"
        path.write_bytes(short)
        settle(store)
        found = catalog(store, cache=cache)
        scan = found.scan()
        for _ in range(step):
            next(scan)
        if becomes == "gone":
            path.unlink()
        else:
            path.write_bytes(whole)
        list(found.refresh([path]))
        list(scan)
        kept = [entry for entry in list_cache.load(cache, {str(store): store.stat().st_dev}) if entry]
        assert sum(bool(name) for _, page in kept for name in page.names) >= runs - 1, step
        assert listed(store, cache=cache) == listed(store), step


def test_no_step_of_a_look_reads_or_packs_more_than_a_block_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, cache = tmp_path / "runs", tmp_path / "cache"
    paths = generate.small_runs(store, 3 * BLOCK)
    settle(store)
    listed(store, cache=cache)
    worked: list[str] = []

    def counting(name: str, work: Callable[..., object]) -> Callable[..., object]:
        def counted(*given: object) -> object:
            worked.append(name)
            return work(*given)

        return counted

    monkeypatch.setattr("refold.core.store.packed_rows.unpack", counting("unpack", unpack))
    monkeypatch.setattr("refold.core.store.list_cache.pack", counting("pack", pack))
    for changed, wanted in ((False, {"unpack": 3, "pack": 0}), (True, {"unpack": 3, "pack": 3})):
        if changed:
            os.utime(paths[5], (1, 1))
            settle(store)
        steps: list[int] = []
        everything: list[str] = []
        scan = catalog(store, cache=cache).scan()
        worked.clear()
        while next(scan, None) is not None:
            steps.append(len(worked))
            everything += worked
            worked.clear()
        assert max(steps) == 1
        assert {name: everything.count(name) for name in wanted} == wanted


@pytest.mark.parametrize("becomes", ["longer", "gone", "new"])
def test_no_step_of_a_refresh_makes_or_indexes_more_than_a_block_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, becomes: str
) -> None:
    store, cache = tmp_path / "runs", tmp_path / "cache"
    paths = generate.small_runs(store, 3 * BLOCK)
    settle(store)
    listed(store, cache=cache)
    found = catalog(store, cache=cache)
    list(found.scan())
    path = store / "another.json" if becomes == "new" else paths[5]
    if becomes == "gone":
        path.unlink()
    else:
        with path.open("ab") as file:
            file.write(paths[6].read_bytes())
    made: list[int] = []
    indexed: list[int] = []

    def unpacking(*given: object) -> object:
        made.append(1)
        return unpack(*given)  # type: ignore[arg-type]

    def indexing(pages: Sequence[Page]) -> dict[str, Slot]:
        indexed.append(sum(page.count for page in pages))
        return index(pages)

    index = shelf._index
    monkeypatch.setattr("refold.core.store.packed_rows.unpack", unpacking)
    monkeypatch.setattr(shelf, "_index", indexing)
    steps: list[tuple[int, int]] = []
    refresh = found.refresh([path])
    told = 0
    while (item := next(refresh, None)) is not None:
        told += not isinstance(item, Progress)
        steps.append((sum(made), sum(indexed)))
        made.clear()
        indexed.clear()
    assert told == 1
    assert max(steps)[0] <= 1
    assert max(of_index for _, of_index in steps) <= BLOCK
    assert sum(of_index for _, of_index in steps) >= 3 * BLOCK


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ROW = st.builds(
    RunSummary,
    id=st.just(""),
    path=st.just(""),
    format=TEXT,
    status=st.sampled_from(STATUSES),
    rule=TEXT,
    model=TEXT,
    prompt=TEXT,
    turns=st.integers(0, 2**62),
    tokens=st.integers(0, 2**62),
    torn=st.booleans(),
    problems=st.lists(TEXT, max_size=3).map(tuple),
    tools=st.lists(TEXT, max_size=3).map(tuple),
)


@given(st.lists(ROW, min_size=1, max_size=12))
def test_rows_survive_their_packing(found: Sequence[RunSummary]) -> None:
    named = [
        structs.replace(row, id=f"run-{number}", path=f"/runs/run-{number}.json")
        for number, row in enumerate(found)
    ]
    assert unpack(pack(named), "/runs/") == named


@given(st.lists(ROW, min_size=1, max_size=12), st.data())
def test_rows_that_do_not_belong_together_are_none(found: Sequence[RunSummary], data: st.DataObject) -> None:
    good = pack(found)
    place = data.draw(st.integers(0, len(good) - 1))
    kept = KeptRows("/runs/", 1, [good[:place] + data.draw(st.binary(max_size=3)) + good[place + 1 :]])
    told = list(kept.newest_first())
    assert kept.is_broken == (not told)
    assert kept.at([0, BLOCK, NOWHERE])[1:] == [None, None]


def test_rows_that_turn_out_to_be_none_are_read(store: Path, tmp_path: Path) -> None:
    """A block that is whole, and holds no rows: what was told from the cache is not all there is."""
    file = tmp_path / "cache" / "list.cache"
    cold = listed(store, cache=file.parent)
    *payloads, _ = list_cache.frames(file)
    file.write_bytes(list_cache.MAGIC + b"".join(map(list_cache.framed, [*payloads, b"\xc0"])))
    assert listed(store, cache=file.parent) == cold


def test_a_whole_stretch_of_runs_that_is_gone_is_not_told(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left stands in the cache just as before."""
    monkeypatch.setattr("refold.core.store.roots.STRETCH", 1)
    listed(store, cache=tmp_path / "cache")
    names = [entry.name for entry in os.scandir(store)]
    last = next(name for name in reversed(names) if name.startswith("run-") and name.endswith(".json"))
    for name in names[names.index(last) :]:
        path = store / name
        path.rmdir() if path.is_dir() else path.unlink()
    assert listed(store, cache=tmp_path / "cache") == listed(store)


def test_a_run_whose_numbers_do_not_fit_is_read_every_time(tmp_path: Path) -> None:
    path = write_run(tmp_path / "runs", "odd")
    path.write_bytes(path.read_bytes() + b'{"seq":%d,"protocol":"x"}\n' % (2**64 - 1))
    write_run(tmp_path / "runs", "even")
    settle(tmp_path / "runs")
    cold = listed(tmp_path / "runs", cache=tmp_path / "cache")
    assert {row.last_seq for row in cold.values()} >= {2**64 - 1}
    assert listed(tmp_path / "runs", cache=tmp_path / "cache") == cold


def test_a_time_beyond_counting_is_the_last_that_can_be_counted() -> None:
    """The future must not be shown as the past; an inode only has to stay another than the others."""
    most, least = 2**63 - 1, -(2**63)
    stamps = packed([5, 6, most + 1, least - 1, most + 9, 7, most + 1, most + 2, 8, 9])
    assert list(stamps) == [5, 6, most, least, most, 7, least, least + 1, 8, 9]
