"""The runs of durable agents as data: journals, records, the fold, the timeline.

A library of its own: it imports neither Textual nor anything of the program. Names are loaded when
they are first used, so that importing one module does not import all of them. The fold of a whole
sequence of records is `refold.core.fold.fold`: here that name is the module.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from refold.core.errors import BadRecord, FoldError, RefoldError, StoreError
    from refold.core.fingerprint import differences
    from refold.core.fold import Fold, salvage
    from refold.core.formats.journal import FISK_AI, NATIVE
    from refold.core.journal_text import fold_bytes, strict_records
    from refold.core.records import (
        VERSION,
        AssistantRecord,
        Fingerprint,
        Message,
        MetaRecord,
        Record,
        TerminalRecord,
        ToolResultRecord,
        UserRecord,
    )
    from refold.core.state import Counters, PendingTurn, RunState, ToolCall
    from refold.core.state_json import state_json
    from refold.core.store.journal import Journal, JournalStore
    from refold.core.store.reader import RunReader

_HOMES = {
    "errors": ("BadRecord", "FoldError", "RefoldError", "StoreError"),
    "fingerprint": ("differences",),
    "fold": ("Fold", "salvage"),
    "formats.journal": ("FISK_AI", "NATIVE"),
    "journal_text": ("fold_bytes", "strict_records"),
    "records": (
        "VERSION",
        "AssistantRecord",
        "Fingerprint",
        "Message",
        "MetaRecord",
        "Record",
        "TerminalRecord",
        "ToolResultRecord",
        "UserRecord",
    ),
    "state": ("Counters", "PendingTurn", "RunState", "ToolCall"),
    "state_json": ("state_json",),
    "store.journal": ("Journal", "JournalStore"),
    "store.reader": ("RunReader",),
}

__all__ = [
    "FISK_AI",
    "NATIVE",
    "VERSION",
    "AssistantRecord",
    "BadRecord",
    "Counters",
    "Fingerprint",
    "Fold",
    "FoldError",
    "Journal",
    "JournalStore",
    "Message",
    "MetaRecord",
    "PendingTurn",
    "Record",
    "RefoldError",
    "RunReader",
    "RunState",
    "StoreError",
    "TerminalRecord",
    "ToolCall",
    "ToolResultRecord",
    "UserRecord",
    "differences",
    "fold_bytes",
    "salvage",
    "state_json",
    "strict_records",
]


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"refold.core.{home}"), name)
    raise AttributeError(f"module 'refold.core' has no attribute {name!r}")
