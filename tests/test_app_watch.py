"""Changes on disk are noticed, in every way in which a system can report them or fail to."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from refold.app.watch import FLOOD, Notifier, WatchEvent, notifications, watch

LOOK = 0.1


class Watched:
    """A watch whose events are gathered while a test goes on."""

    def __init__(self, *paths: Path, notifier: Notifier = notifications, interval: float = LOOK) -> None:
        self.events: list[WatchEvent] = []
        self._stop = asyncio.Event()
        self._watch = watch(paths, stop=self._stop, interval=interval, notifier=notifier)

    async def __aenter__(self) -> Watched:
        self._task = asyncio.create_task(self._gather())
        await self.until(lambda: bool(self.events))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await asyncio.wait_for(self._task, 5)

    async def _gather(self) -> None:
        async with aclosing(self._watch) as events:
            async for event in events:
                self.events.append(event)

    @property
    def changed(self) -> set[str]:
        return {path for event in self.events if event.kind == "changed" for path in event.paths}

    async def until(self, condition: object, seconds: float = 20) -> float:
        start = time.perf_counter()
        assert callable(condition)
        while not condition():
            assert time.perf_counter() - start < seconds, f"waited in vain; events: {self.events[-5:]}"
            if hasattr(self, "_task") and self._task.done():
                self._task.result()
            await asyncio.sleep(0.002)
        return time.perf_counter() - start

    async def sees(self, path: Path) -> float:
        """Wait until a path is reported; give the seconds that it took."""
        return await self.until(lambda: str(path) in self.changed)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    directory = tmp_path / "runs"
    directory.mkdir()
    return directory


def append(path: Path, text: str = "{}\n") -> None:
    with path.open("a") as file:
        file.write(text)


async def test_says_the_mode_first_and_then_every_change(runs: Path) -> None:
    run = runs / "a.json"
    append(run)
    async with Watched(runs, interval=30) as watched:
        assert watched.events == [WatchEvent("mode", "watching")]
        append(run)
        await watched.sees(run)
        append(runs / "b.json")
        await watched.sees(runs / "b.json")
        watched.events.clear()
        run.unlink()
        await watched.sees(run)


async def test_reports_the_append_of_another_process_within_a_tenth_of_a_second(runs: Path) -> None:
    child = subprocess.Popen(
        [
            sys.executable,
            "-uc",
            "import sys\nfor path in sys.stdin: open(path[:-1], 'a').write('{}'); print()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        async with Watched(runs, interval=30) as watched:
            seconds = []
            for number in range(5):
                run = runs / f"{number}.json"
                child.stdin.write(f"{run}\n")
                child.stdin.flush()
                await asyncio.to_thread(child.stdout.readline)
                seconds.append(await watched.sees(run))
        assert min(seconds) < 0.1
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


async def test_waits_for_a_directory_that_is_not_there_yet(runs: Path) -> None:
    later = runs / "deep" / "later"
    async with Watched(runs, later) as watched:
        later.mkdir(parents=True)
        await watched.sees(later)
        append(later / "a.json")
        await watched.sees(later / "a.json")


async def test_takes_up_again_a_directory_that_was_deleted_and_made_again(runs: Path) -> None:
    append(runs / "a.json")
    async with Watched(runs) as watched:
        (runs / "a.json").unlink()
        runs.rmdir()
        await watched.sees(runs)
        await asyncio.sleep(3 * LOOK)
        watched.events.clear()
        runs.mkdir()
        await watched.sees(runs)
        append(runs / "b.json")
        await watched.sees(runs / "b.json")
        assert all(event.mode == "watching" for event in watched.events)


async def test_takes_up_a_directory_that_is_made_again_between_two_looks(runs: Path) -> None:
    append(runs / "a.json")
    async with Watched(runs, interval=0.5) as watched:
        for _ in range(3):
            for path in runs.iterdir():
                path.unlink()
            inode = runs.stat().st_ino
            runs.rmdir()
            runs.mkdir()
            same = runs.stat().st_ino == inode
            append(runs / "b.json")
            await asyncio.sleep(1.2)
            watched.events.clear()
            append(runs / "b.json")
            await watched.sees(runs / "b.json")
            if same:
                return
        pytest.skip("this file system does not give an inode away at once")


async def test_notices_a_directory_that_was_replaced_by_another(runs: Path) -> None:
    async with Watched(runs) as watched:
        runs.rename(runs.with_name("old"))
        runs.mkdir()
        await watched.sees(runs)
        await asyncio.sleep(2 * LOOK)
        watched.events.clear()
        append(runs / "b.json")
        await watched.sees(runs / "b.json")


async def test_names_paths_as_they_were_given(runs: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(runs)
    async with Watched(link) as watched:
        append(runs / "a.json")
        await watched.sees(link / "a.json")


async def test_goes_on_by_polling_when_a_file_name_is_not_utf8(runs: Path) -> None:
    async with Watched(runs) as watched:
        Path(os.fsdecode(os.fsencode(runs) + b"/\xff.json")).touch()
        await watched.until(lambda: watched.events[-1].mode == "polling")
        assert watched.events[-1].reason == "the name of a file is not UTF-8"
        append(runs / "a.json")
        await watched.sees(runs / "a.json")


async def test_a_flood_becomes_few_events_and_loses_nothing(runs: Path) -> None:
    async with Watched(runs) as watched:
        for number in range(20 * FLOOD):
            (runs / f"{number}.json").touch()
        await watched.sees(runs)
        await asyncio.sleep(3 * LOOK)
        assert sum(len(event.paths) for event in watched.events) < 20 * FLOOD / 2
        last = [event for event in watched.events if event.kind == "changed"][-1]
        assert str(runs) in last.paths or len(last.paths) < FLOOD


@pytest.mark.parametrize("fault", [OSError("OS file watch limit reached."), RuntimeError("inside")])
async def test_polls_and_says_so_where_the_system_does_not_watch(runs: Path, fault: Exception) -> None:
    async def failing(_: tuple[str, ...], __: asyncio.Event) -> AsyncIterator[Iterable[str]]:
        raise fault
        yield ()

    append(runs / "a.json")
    async with Watched(runs, notifier=failing) as watched:
        assert watched.events[0].mode == "polling"
        assert watched.events[0].reason
        assert watched.changed == set()
        append(runs / "a.json")
        await watched.sees(runs / "a.json")
        append(runs / "b.json")
        await watched.sees(runs / "b.json")
        (runs / "a.json").unlink()
        watched.events.clear()
        await watched.sees(runs / "a.json")


async def test_polls_when_the_watch_fails_later(runs: Path) -> None:
    fail = asyncio.Event()

    async def failing(_: tuple[str, ...], __: asyncio.Event) -> AsyncIterator[Iterable[str]]:
        await fail.wait()
        raise OSError("the watch broke")
        yield ()

    async with Watched(runs, notifier=failing) as watched:
        assert watched.events[0].mode == "watching"
        fail.set()
        await watched.until(lambda: watched.events[-1].mode == "polling")
        await watched.sees(runs)
        append(runs / "a.json")
        await watched.sees(runs / "a.json")


async def test_a_programming_error_is_not_taken_for_a_limit(runs: Path) -> None:
    async def wrong(_: tuple[str, ...], __: asyncio.Event) -> AsyncIterator[Iterable[str]]:
        raise KeyError
        yield ()

    with pytest.raises(KeyError):
        async for _ in watch([runs], stop=asyncio.Event(), notifier=wrong):
            pass


LIMITED = textwrap.dedent(
    """
    import asyncio, pathlib, sys
    limit, directory = sys.argv[1:]
    pathlib.Path("/proc/sys/user", limit).write_text("0")
    from refold.app.watch import watch

    async def main():
        stop = asyncio.Event()
        async for event in watch([directory], stop=stop, interval=0.1):
            print(event.kind, event.mode, *event.paths, event.reason, sep="|", flush=True)
            if event.kind == "changed":
                stop.set()
            else:
                await asyncio.sleep(0.3)
                pathlib.Path(directory, "a.json").touch()

    asyncio.run(main())
    """
)


@pytest.mark.parametrize("limit", ["max_inotify_watches", "max_inotify_instances"])
def test_polls_at_the_real_limits_of_the_system(runs: Path, limit: str) -> None:
    unshare = ["unshare", "--user", "--map-root-user"]
    with suppress(FileNotFoundError):
        if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode == 0:
            done = subprocess.run(
                [*unshare, sys.executable, "-c", LIMITED, limit, str(runs)],
                capture_output=True,
                text=True,
                timeout=20,
                check=False,
            )
            mode, changed = done.stdout.splitlines() or ["", done.stderr]
            assert mode.startswith("mode|polling|")
            assert changed.startswith(f"changed|polling|{runs / 'a.json'}|")
            return
    pytest.skip("no user namespaces here")


async def test_stops_at_once_and_leaves_no_task(runs: Path) -> None:
    before = asyncio.all_tasks()
    async with Watched(runs, interval=30):
        start = time.perf_counter()
    assert time.perf_counter() - start < 5
    assert asyncio.all_tasks() == before


async def test_a_cancelled_consumer_ends_the_watch(runs: Path) -> None:
    before = asyncio.all_tasks()
    watched = Watched(runs, interval=30)
    await watched.__aenter__()
    watched._task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watched._task
    assert asyncio.all_tasks() == before


async def test_watching_nothing_is_quiet() -> None:
    async with Watched() as watched:
        await asyncio.sleep(3 * LOOK)
        assert watched.events == [WatchEvent("mode", "watching")]


def test_importing_the_watch_does_not_import_the_library() -> None:
    code = "import refold.app.watch, sys; sys.exit('watchfiles' in sys.modules or 'textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
