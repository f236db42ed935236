"""Importing a module without another one that it can do without, where that is a part of a command's time."""

from __future__ import annotations

import sys
from importlib import import_module


def import_without(wanted: str, left_out: str) -> None:
    """Import a module, which is told that another one is not there, unless either is imported already.

    Args:
        wanted: the module.
        left_out: what it imports if it can; whoever imports that later gets it.
    """
    if wanted in sys.modules or left_out in sys.modules:
        return
    sys.modules[left_out] = None  # type: ignore[assignment] # how Python marks what must not be imported
    try:
        import_module(wanted)
    finally:
        del sys.modules[left_out]
