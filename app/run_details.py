"""What the preview tells beyond the row, read from the index of one run."""

from __future__ import annotations

import time
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from refold.app.loading import aside, slices, until_done
from refold.app.present.run_preview import NOTHING_KNOWN, Details, Verdict, count_points, details
from refold.core.errors import StoreError
from refold.core.store.exposure import is_exposed
from refold.core.store.reader import RunReader
from refold.core.summary import RunSummary

if TYPE_CHECKING:
    from refold.app.settings import Settings

_MOST: Final = 16 << 20
"""Longer runs show only what their last bytes tell: nobody waits for a preview."""


async def read_details(run: RunSummary, settings: Settings) -> Details:
    """Read the details of a run in slices; nothing where it cannot be read."""
    from refold.core.store.session_names import is_run_directory
    from refold.core.store.session_origin import fork_origin

    path = Path(run.path)
    verdict = origin = None
    if is_run_directory(path):
        if run.size <= _MOST:
            verdict = await aside(lambda: verdict_of(path, settings))
        if run.fork_of:
            origin = await aside(lambda: fork_origin(path))
    exposed = is_exposed(run.path)
    try:
        reader = RunReader.open(path, hint=run.format)
    except StoreError:
        return NOTHING_KNOWN._replace(verdict=verdict, exposed=exposed)
    with reader:
        if run.fork_of and origin is None:
            await until_done(reader.step) if run.size <= _MOST else reader.step(0)
            origin = reader.meta.forked_from if reader.meta is not None else None
        at = None if origin is None else origin.seq
        if run.size > _MOST:
            return details(reader.tail_timeline())._replace(exposed=exposed, forked_at=at)
        await until_done(reader.step)
        points = None
        async with aclosing(slices(count_points(reader.timeline))) as counting:
            async for counted in counting:
                points = counted[-1]
        return details(reader.timeline)._replace(
            verdict=verdict, exposed=exposed, forked_at=at, fork_points=points
        )


def verdict_of(path: Path, settings: Settings) -> Verdict | None:
    """Say whether a run directory can go on, as the plan of its resume does; None where it cannot be read."""
    from refold.app.session_resuming import standing_plan

    try:
        plan = standing_plan(path, settings)
    except StoreError:
        return None
    ours = [reason.message for reason in plan.reasons if not reason.code.startswith("original:")]
    code = "" if plan.answers is None else plan.answers.code
    return Verdict(plan.outcome, code, next(iter(ours), ""), plan.refused_for_good)


def refusal_of(path: Path) -> str:
    """Say why no program can go on with a run directory; empty where one may, or where it cannot be read.

    Whoever asks for a run goes on with it by itself: that Refold could start a program is no matter here.
    """
    from refold.core.rivumi.verdict import verdict
    from refold.core.store.session_files import read_run

    try:
        found = verdict(read_run(path), now=time.time())
    except StoreError:
        return ""
    if found.outcome != "refuse":
        return ""
    return next((reason.message for reason in found.ours.reasons), found.original.code)
