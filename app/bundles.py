"""A bundle of another Refold, opened to be looked at: unpacked privately, and gone at the end."""

from __future__ import annotations

import atexit
import os
import re
import signal
import threading
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

import msgspec

from refold.app.present.units import plural

if TYPE_CHECKING:
    from refold.app.settings import Settings
    from refold.core.store.bundle import Opened

ENDING: Final = ".refold-bundle"
_TO_THE_MINUTE: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\dZ")
_ZIP: Final = b"PK\x03\x04"
_SOURCES: Final[dict[Path, Path]] = {}
"""By the run that was unpacked the bundle that it is of."""


def is_bundle(text: str) -> bool:
    """Say whether a text names a file that is a bundle, or calls itself one."""
    try:
        path = Path(text)
        if not path.is_file():
            return False
        if path.name.endswith(ENDING):
            return True
        with path.open("rb") as file:
            return file.read(len(_ZIP)) == _ZIP
    except (OSError, ValueError):
        return False


@cache
def unpacked(text: str) -> Opened:
    """Unpack a bundle once; what is unpacked is removed when the program ends.

    Raises:
        StoreError: it cannot be opened, is none, or is not safe to unpack.
    """
    import shutil

    from refold.core.store.bundle import open_bundle

    _end_in_order()
    opened = open_bundle(Path(text))
    atexit.register(shutil.rmtree, opened.directory, ignore_errors=True)
    _SOURCES[opened.run] = Path(os.path.abspath(text))  # noqa: PTH100 - a link stays the link it is
    return opened


def source_of(run: Path) -> Path | None:
    """Give the bundle that a run, or one that lies in it, was unpacked from; None for any other run."""
    return next((bundle for top, bundle in _SOURCES.items() if run.is_relative_to(top)), None)


def lies_inside(run: Path) -> bool:
    """Say whether a run was unpacked as a part of another one: its bundle does not open it."""
    return run not in _SOURCES and source_of(run) is not None


def told_path(run: Path) -> Path:
    """Give the path by which a run is found again: of what was unpacked that of its bundle."""
    return source_of(run) or run


def looking_at(settings: Settings, opened: Opened) -> Settings:
    """Give settings for looking at a bundle: nothing goes on with it, nothing of it is kept."""
    return msgspec.structs.replace(settings, bundle=words(opened), read_only=True, cache_dir=None)


def words(opened: Opened) -> str:
    """Say what a bundle is: redacted or not, made when and by what."""
    manifest = opened.manifest
    counts = manifest.get("redacted")
    if isinstance(counts, dict):
        total = sum(count for count in counts.values() if isinstance(count, int))
        hidden = f"{plural(total, 'secret')} hidden" if total else "redacted, nothing was hidden"
    else:
        hidden = "not redacted: secrets may be in it"
    parts = ["a bundle", hidden]
    if opened.run.is_dir():
        parts.append("without its workspace")
    elif not opened.run.stat().st_size:
        parts.append("its journal is empty")
    when, by = manifest.get("written_at"), manifest.get("written_by")
    if isinstance(when, str) and when:
        parts.append("made " + _TO_THE_MINUTE.sub(r"\1 \2Z", when[:40]))
    if isinstance(by, str) and by:
        parts.append(f"by {by[:40]}")
    return " · ".join(parts)


def _end_in_order() -> None:
    """Let the signals that ask a program to end do so by way of what is registered for its end."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)
