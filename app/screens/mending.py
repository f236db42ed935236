"""What follows when the end of a run is to be mended or its good records salvaged: plan, answer, work."""

from __future__ import annotations

from typing import Final

from textual.screen import Screen

from refold.app.agents import PROGRAM, spelled
from refold.app.forking import make_salvaged, notes_of, proposed_id
from refold.app.lines import Role
from refold.app.loading import aside
from refold.app.present import units
from refold.app.safe import Safe, line
from refold.app.screens.going_on import Chosen
from refold.app.screens.mend import MendScreen
from refold.app.screens.run import RunScreen
from refold.app.shell_name import shell_name
from refold.core.repair import RepairPlan
from refold.core.salvage import SalvagePlan, report
from refold.core.store.reader import RunReader
from refold.core.store.repair import plan_for, repair
from refold.core.store.salvage import salvage_of

_TEXT: Final = 2000
_LEFT_OUT: Final = 200


async def repair_end(screen: Screen[None], chosen: Chosen) -> None:
    """Show what a repair would do, and do it; call it from a worker of the screen.

    Raises:
        FoldError: the damage is deeper than the end.
        StoreError: the run is held, has changed, or cannot be written.
    """
    path = chosen.path.absolute()

    def look() -> tuple[RepairPlan | None, str]:
        with RunReader.open(path, hint=chosen.hint) as reader:
            return plan_for(reader), reader.format.name

    plan, format_name = await aside(look)
    if plan is None:
        screen.notify("The end is clean.")
        return
    said: list[tuple[Safe, Role]] = [
        (line(plan.sentence, _TEXT), "text"),
        (Safe("The records before it stay as they are, byte for byte."), "dim"),
    ]
    if plan.action == "cut":
        undone = spelled((PROGRAM, "repair", shell_name(path, chosen.settings), "--undo"))
        said.append((line(f"{undone} puts the bytes back.", _TEXT), "dim"))
    title = line(f"Repair the end of {path.stem}", 80)
    if not await screen.app.push_screen_wait(MendScreen(title, said)):
        return
    noted = await aside(lambda: repair(plan, format_name, notes=notes_of(chosen.settings)))
    screen.notify("The end is repaired." if noted else "The end is repaired, but that could not be noted.")


async def salvage_run(screen: Screen[None], chosen: Chosen) -> None:
    """Show what a salvage would keep, make the new run, and open it; call it from a worker of the screen.

    Raises:
        NothingToSalvage: it is whole, or nothing a run could begin with can be read.
        StoreError: it cannot be read, or the new run not be made.
    """
    path = chosen.path.absolute()

    def look() -> SalvagePlan:
        with RunReader.open(path, hint=chosen.hint, cache=chosen.settings.cache_dir) as reader:
            return salvage_of(reader, child=proposed_id(path))

    plan = await aside(look)
    title = line(f"Salvage {path.stem}", 80)
    if not await screen.app.push_screen_wait(MendScreen(title, _salvage_said(plan))):
        return
    made = await aside(lambda: make_salvaged(plan, chosen.settings))
    screen.app.push_screen(RunScreen(made.path, settings=chosen.settings, hint=chosen.hint))
    sound = made.noted and made.durable
    screen.notify(
        "The good records are a run of their own."
        if sound
        else "The new run is made, but not all about it could be kept.",
        severity="information" if sound else "warning",
    )


def _salvage_said(plan: SalvagePlan) -> list[tuple[Safe, Role]]:
    said: list[tuple[Safe, Role]] = [
        (line(f"A new run {plan.child} of {units.plural(plan.records, 'good record')}.", _TEXT), "text"),
        (Safe("The damaged run stays as it is, byte for byte."), "dim"),
    ]
    left_out = report(plan)
    if left_out:
        said.append((Safe(f"Left out, {units.plural(len(left_out), 'place')}:"), "strong"))
        said += [(line(f"  {each}", _TEXT), "warn") for each in left_out[:_LEFT_OUT]]
        if len(left_out) > _LEFT_OUT:
            said.append((Safe(f"  and {len(left_out) - _LEFT_OUT:,} more"), "dim"))
    said += [(line(f"Odd: {each}", _TEXT), "dim") for each in plan.remarks[:_LEFT_OUT]]
    return said
