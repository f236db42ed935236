"""The dialog before an export: nothing is written before Enter, and nothing is left of what is stopped."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, runtime_checkable

import msgspec
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from refold.app import keys
from refold.app.exporting import FORMATS, default_place, ending_of, refuse, told, write
from refold.app.failure import words
from refold.app.lines import Cell, FixedRows, Role
from refold.app.loading import aside
from refold.app.present.export_plan import ExportPlan, file_of, in_format, plan_lines
from refold.app.present.layout import cell
from refold.app.present.lens import Lens
from refold.app.present.units import plural, size
from refold.app.safe import Safe
from refold.app.widgets.dialog import Dialog
from refold.app.widgets.key_bar import KeyBar
from refold.app.widgets.line_pager import LinePager
from refold.app.widgets.prompt_bar import PromptBar
from refold.app.widgets.words import Words
from refold.core.errors import RefoldError
from refold.core.redact import Redactor
from refold.core.store.export import Source
from refold.core.store.export_target import write_file, write_new_file

if TYPE_CHECKING:
    from refold.app.exporting import Put
    from refold.app.screens.going_on import Chosen
    from refold.app.screens.standing import Stand
    from refold.app.settings import Settings
    from refold.core.store.reader import RunReader

_EVERY: Final = 0.1
"""Seconds between two drawings of a progress."""
_COUNTED: Final = 64


@runtime_checkable
class DrawsScreens(Protocol):
    """An application that draws the screen of a run beside the one that is shown."""

    def draw(self, source: Source, stand: Stand, settings: Settings) -> str:
        """Give the picture (SVG). Blocks, and is for a thread."""
        ...


class Stopped(Exception):
    """Nobody waits for the export any more."""


class ExportScreen(Dialog[str]):
    """Asks how to write runs out, writes them, and is dismissed with what to say of it; empty where not."""

    CSS_PATH = "../../styles/dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("export")]

    def __init__(
        self, runs: tuple[Chosen, ...], open_run: Callable[[Chosen], RunReader], stand: Stand
    ) -> None:
        """Ask about an export.

        Args:
            runs: What is written out.
            open_run: Opens one of them; called on a thread.
            stand: How the screen stands that a picture is taken of.
        """
        super().__init__()
        self._runs = runs
        self._settings = runs[0].settings
        self._open_run = open_run
        self._stand = stand
        ids = tuple(run.path.name.removesuffix(".json") for run in runs)
        self.plan = ExportPlan(ids, FORMATS[0], Path(), redact=True, hidden=Counter(), looked_at=0.0)
        self._base: Path | None = None
        """The directory that is proposed."""
        self._named = False
        """The file was named by hand: another format changes no more than its ending."""
        self._in_turn = asyncio.Lock()
        """What asks the file system answers in the order of the keys."""
        self._looking = False
        """Enter was pressed, and what is there is looked at: a second one meanwhile agrees to nothing."""
        self._agreed: Path | None = None
        """The file that may be replaced."""
        self._stop = threading.Event()
        self._writing = False
        self._done = 0.0

    def compose(self) -> ComposeResult:
        """Title, choices, verdict, what is typed, keys."""
        title = self.plan.runs[0] if len(self._runs) == 1 else plural(len(self._runs), "run")
        with Vertical(classes="dialog"):
            yield Words((Cell(Safe("Export "), "accent"), cell(title, "strong", 60)))
            yield LinePager(id="export-plan")
            yield PromptBar(id="export-prompt")
            yield KeyBar()

    def on_mount(self) -> None:
        """Begin to count."""
        self.query_one(LinePager).focus()
        self._draw()
        self._propose()
        self._count()

    def on_unmount(self) -> None:
        """End what goes on for nobody."""
        self._stop.set()

    @work(group="propose")
    async def _propose(self) -> None:
        async with self._in_turn:
            self._base = await aside(lambda: default_place(self._settings))
            self._place()

    def _place(self) -> None:
        """Propose a file in the format that is chosen."""
        if not self._named and self._base is not None:
            one = len(self.plan.runs) == 1
            target = self._base / f"{self.plan.runs[0]}.{self.plan.format.ending}" if one else self._base
            self.plan = self.plan._replace(target=target)
        self._agreed = None
        self._draw()

    @on(LinePager.Resized, "#export-plan")
    def _draw(self) -> None:
        pager = self.query_one("#export-plan", LinePager)
        lines = list(plan_lines(self.plan, max(20, pager.width)))
        self.fit(pager, len(lines))
        pager.show(FixedRows(lines))

    def _say(self, text: str, role: Role = "dim") -> None:
        self.plan = self.plan._replace(said=text, role=role)
        self._draw()

    @work(group="count", exclusive=True)
    async def _count(self) -> None:
        """Count what the redaction will hide, run after run, on a thread."""
        found: Counter[str] = Counter()
        for number, run in enumerate(self._runs):
            try:
                reader = await aside(partial(self._indexed, run))
            except RefoldError as error:
                self.plan = self.plan._replace(unread=(*self.plan.unread, _why_not(run, error)))
                self._draw()
                continue
            with reader:
                lens, items = Lens(reader, self._settings.allow), reader.timeline.items
                while lens.seen < items and not self._stop.is_set():
                    await aside(partial(lens.count, _COUNTED, self._stop.is_set))
                    share = (number + lens.seen / items) / len(self._runs)
                    self.plan = self.plan._replace(hidden=found + lens.counts, looked_at=share)
                    self._draw()
                found += lens.counts
        self.plan = self.plan._replace(hidden=found, looked_at=1.0)
        self._draw()

    def _indexed(self, run: Chosen) -> RunReader:
        reader = self._open_run(run)
        reader.index_all()
        return reader

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out the choices while it is written."""
        if action in ("go", "format", "file", "redact"):
            return None if self._writing else True
        return super().check_action(action, parameters)

    def why_not(self, action: str) -> str:
        """Say why an action is refused now; empty where it is not."""
        choices = action in ("go", "format", "file", "redact")
        return "It is being written; esc stops it." if choices and self._writing else ""

    def action_format(self, step: int) -> None:
        """Choose the format beside."""
        place = (FORMATS.index(self.plan.format) + step) % len(FORMATS)
        self.plan = self.plan._replace(format=FORMATS[place], said="", unwritten=())
        if self._named and len(self._runs) == 1:
            self.plan = in_format(self.plan)
        self._place()

    def action_redact(self) -> None:
        """Switch the redaction off or on."""
        self.plan = self.plan._replace(redact=not self.plan.redact)
        self._draw()

    def action_file(self) -> None:
        """Ask for the file, or the directory of several."""
        label = Safe("file") if len(self._runs) == 1 else Safe("directory")
        target = str(self.plan.target) if self.plan.target != Path() else ""
        self.query_one(PromptBar).open(label, target, purpose="file")

    @on(PromptBar.Submitted)
    def _file_named(self, event: PromptBar.Submitted) -> None:
        text = event.text.strip()
        if text:
            self._take_name(text)

    @work(group="name")
    async def _take_name(self, text: str) -> None:
        async with self._in_turn:
            one = len(self._runs) == 1
            try:
                named, is_directory = await aside(lambda: _named(text))
            except (OSError, RuntimeError) as error:
                self._say(f"{text}: {error}", "problem")
                return
            if one and is_directory:
                named /= f"{self.plan.runs[0]}.{self.plan.format.ending}"
            self._named = True
            self.plan = self.plan._replace(target=named, said="", unwritten=())
            speaks_of = ending_of(named) if one else None
            if speaks_of is not None and speaks_of[0] is not self.plan.format:
                said = f"{named.name} is called {speaks_of[0].name}"
                said += f"; what is in it will be {self.plan.format.name}"
                self.plan = self.plan._replace(said=said, role="warn")
            self._place()

    def action_close(self) -> None:
        """Leave, or stop writing."""
        self._stop.set()
        if not self._writing:
            self.dismiss("")

    def action_go(self) -> None:
        """Write it; what is there already is replaced only when that is said twice."""
        if not self._writing and not self._looking:
            self._looking = True
            self._go()

    @work(group="go")
    async def _go(self) -> None:
        try:
            async with self._in_turn:
                taken: set[Path] = set()
                files: list[Path] = []
                for run_id in self.plan.runs:
                    files.append(file_of(self.plan, run_id, taken))
                    taken.add(files[-1])
                target = self.plan.target
                there = await aside(lambda: [file for file in files if _is_there(file)])
        finally:
            self._looking = False
        if target != self.plan.target:
            # Another file was chosen meanwhile: Enter was not for that one.
            return
        if there and self._agreed != target:
            self._agreed = target
            what = there[0].name if len(there) == 1 else plural(len(there), "file")
            verb = "is" if len(there) == 1 else "are"
            self._say(f"{what} {verb} already there: Enter once more replaces what is there", "warn")
            return
        self._writing = True
        self._stop.clear()
        self.workers.cancel_group(self, "count")
        self.refresh_bindings()
        self._write(files, write_file if there else write_new_file)

    @work(group="write", exclusive=True)
    async def _write(self, files: list[Path], put: Put) -> None:
        timer = self.set_interval(_EVERY, self._tell_progress)
        redactor = Redactor(on=self.plan.redact, allow=self._settings.allow)
        written, stopped, failed = 0, "", list[str]()
        self.plan = self.plan._replace(unwritten=())
        try:
            for number, (run, file) in enumerate(zip(self._runs, files, strict=True)):
                try:
                    await aside(partial(self._export, run, file, redactor, number, put))
                    written += 1
                except RefoldError as error:
                    failed.append(_why_not(run, error))
        except Stopped:
            stopped = "stopped; nothing of the file is left"
        finally:
            timer.stop()
            self._writing = False
            self.refresh_bindings()
        if failed or stopped:
            self._say_not_written(written, failed, stopped)
            return
        bytes_ = await aside(lambda: sum(map(_size, files)))
        what = str(files[0]) if len(files) == 1 else f"{plural(len(files), 'file')} in {self.plan.target}"
        self.dismiss(f"{what}, {size(bytes_)}; {told(redactor, self.plan.format.name)}.")

    def _say_not_written(self, written: int, failed: list[str], stopped: str) -> None:
        """Say what there is and what there is not: of several runs a line for each that failed."""
        several = len(self._runs) > 1
        parts = [f"{plural(written, 'file')} written"] if written else []
        if failed:
            parts.append(
                f"{len(failed)} of {len(self._runs)} could not be exported" if several else failed[0]
            )
        parts += [stopped] if stopped else []
        self.plan = self.plan._replace(unwritten=tuple(failed) if several else ())
        self._say("; ".join(parts), "problem")

    def _export(self, run: Chosen, file: Path, redactor: Redactor, number: int, put: Put) -> None:
        """Write one run; on a thread.

        Raises:
            Stopped: nobody waits any more.
            StoreError: it cannot be read or written.
        """
        with self._open_run(run) as reader:
            refuse(reader, file, self._settings)
            reader.index_all()

            def watch(done: int) -> None:
                self._done = (number + done / max(1, reader.size)) / len(self._runs)
                if self._stop.is_set():
                    raise Stopped

            write(self.plan.format.name, Source(reader, redactor, watch=watch), file, self._drawn, put)

    def _drawn(self, source: Source) -> str:
        if not isinstance(self.app, DrawsScreens):
            raise RefoldError("pictures are not drawn here")
        settings = msgspec.structs.replace(self._settings, theme=self.app.theme)
        return self.app.draw(source, self._stand, settings)

    def _tell_progress(self) -> None:
        if self._writing:
            self._say(f"writing, {min(1.0, self._done):.0%}; esc stops it")


def _why_not(run: Chosen, error: RefoldError) -> str:
    """Say why a run was not read or written, by its name."""
    said, remedy = words(error)
    name = run.path.name.removesuffix(".json")
    named = said if name in said else f"{name}: {said}"
    return f"{named}: {remedy}" if remedy else named


def _named(text: str) -> tuple[Path, bool]:
    """Give the path that was typed, and whether it is a directory; blocks.

    Raises:
        OSError: there is no directory to begin from.
        RuntimeError: nobody's home is known.
    """
    home = text == "~" or text.startswith("~/")
    named = Path.home() / text[2:] if home else Path.cwd() / text
    try:
        return named, named.is_dir()
    except OSError:
        return named, False


def _is_there(file: Path) -> bool:
    """Say whether something is replaced; what cannot be looked at is refused when it is written."""
    try:
        return file.exists()
    except OSError:
        return False


def _size(file: Path) -> int:
    """Give the size of a file, 0 where it is gone again."""
    try:
        return file.stat().st_size
    except OSError:
        return 0
