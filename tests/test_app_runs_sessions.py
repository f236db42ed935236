"""The screen of runs, over runs that are directories."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.rivumi_cases import canonical, edit, lines, make
from tests.test_app_runs import shown


async def test_new_run_directories_appear_and_grow(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    make("16-pending-approval", store)
    async with shown(store, tmp=tmp_path) as seen:
        assert seen.ids == ["16-pending-approval"]
        assert "suspended" in seen.row("16-pending-approval")
        # As its program does it: the directory first, and what is in it later.
        made = make("03-running-clean", tmp_path / "elsewhere")
        run = store / "03-running-clean"
        run.mkdir()
        for name in ("request.json", "session.json", "events.jsonl"):
            shutil.copyfile(made / name, run / name)
        await seen.until(lambda: set(seen.ids) == {"16-pending-approval", "03-running-clean"})
        await seen.until(lambda: seen.turns("03-running-clean") == 1)
        event = json.loads(lines(run)[-1])
        event.update(sequence=event["sequence"] + 1, event_type="model.completed", data={"content": "More."})
        shutil.copyfile(run / "session.json", run / ".session.json.x")
        edit(run / ".session.json.x", lambda o: o.update(last_event_sequence=event["sequence"]))
        (run / ".session.json.x").rename(run / "session.json")
        with (run / "events.jsonl").open("ab") as file:
            file.write(canonical(event) + b"\n")
        await seen.until(lambda: seen.turns("03-running-clean") == 2)
        shutil.rmtree(store / "16-pending-approval")
        await seen.until(lambda: seen.ids == ["03-running-clean"])


async def test_the_preview_says_what_its_own_program_would_answer(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    run = make("04-tail-tool-started", store)
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in run.iterdir() if path.is_file()}
    async with shown(store, tmp=tmp_path) as seen:
        await seen.until(lambda: "in_flight_side_effect" in seen.pager("#preview"))
        assert "its own program refuses it" in seen.pager("#preview")
        await seen.type("/text:calc.py")
        await seen.until(lambda: "1 of 1" in seen.top)
        await seen.press("enter")
    after = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in run.iterdir() if path.is_file()}
    assert after == before
