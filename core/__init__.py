"""The runs of durable agents as data: journals, records, fold, timeline; and the loop that drives an agent.

A library of its own: it imports neither Textual nor anything of the program. Names are loaded when
they are first used, so that importing one module does not import all of them. The fold of a whole
sequence of records is `refold.core.fold.fold`: here that name is the module, as `salvage` is.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from refold.core.agent import Agent, Budgets, Model, Tool, ToolResult, Turn, Usage
    from refold.core.control import Control
    from refold.core.errors import BadRecord, FoldError, RefoldError, RunExists, StoreError
    from refold.core.fingerprint import differences
    from refold.core.fold import Fold
    from refold.core.formats.journal import FISK_AI, NATIVE
    from refold.core.journal_text import fold_bytes, strict_records
    from refold.core.records import (
        VERSION,
        AssistantRecord,
        Decision,
        Fingerprint,
        Json,
        Message,
        MetaRecord,
        Record,
        TerminalRecord,
        ToolResultRecord,
        UserRecord,
    )
    from refold.core.repair import RepairPlan, TornTail
    from refold.core.resume import ResumePlan, ResumeRefused, ResumeRequest, plan_resume
    from refold.core.runner import MemoryLog, Outcome, Progress, Runner
    from refold.core.state import Counters, PendingTurn, RunState, ToolCall
    from refold.core.state_json import state_json
    from refold.core.store.journal import Journal, JournalStore
    from refold.core.store.reader import RunReader
    from refold.core.store.resume import open_to_resume, read_facts

_HOMES = {
    "agent": ("Agent", "Budgets", "Model", "Tool", "ToolResult", "Turn", "Usage"),
    "control": ("Control",),
    "errors": ("BadRecord", "FoldError", "RefoldError", "RunExists", "StoreError"),
    "fingerprint": ("differences",),
    "fold": ("Fold",),
    "formats.journal": ("FISK_AI", "NATIVE"),
    "journal_text": ("fold_bytes", "strict_records"),
    "records": (
        "VERSION",
        "AssistantRecord",
        "Decision",
        "Fingerprint",
        "Json",
        "Message",
        "MetaRecord",
        "Record",
        "TerminalRecord",
        "ToolResultRecord",
        "UserRecord",
    ),
    "repair": ("RepairPlan", "TornTail"),
    "resume": ("ResumePlan", "ResumeRefused", "ResumeRequest", "plan_resume"),
    "runner": ("MemoryLog", "Outcome", "Progress", "Runner"),
    "state": ("Counters", "PendingTurn", "RunState", "ToolCall"),
    "state_json": ("state_json",),
    "store.journal": ("Journal", "JournalStore"),
    "store.reader": ("RunReader",),
    "store.resume": ("open_to_resume", "read_facts"),
}

__all__ = [
    "FISK_AI",
    "NATIVE",
    "VERSION",
    "Agent",
    "AssistantRecord",
    "BadRecord",
    "Budgets",
    "Control",
    "Counters",
    "Decision",
    "Fingerprint",
    "Fold",
    "FoldError",
    "Journal",
    "JournalStore",
    "Json",
    "MemoryLog",
    "Message",
    "MetaRecord",
    "Model",
    "Outcome",
    "PendingTurn",
    "Progress",
    "Record",
    "RefoldError",
    "RepairPlan",
    "ResumePlan",
    "ResumeRefused",
    "ResumeRequest",
    "RunExists",
    "RunReader",
    "RunState",
    "Runner",
    "StoreError",
    "TerminalRecord",
    "Tool",
    "ToolCall",
    "ToolResult",
    "ToolResultRecord",
    "TornTail",
    "Turn",
    "Usage",
    "UserRecord",
    "differences",
    "fold_bytes",
    "open_to_resume",
    "plan_resume",
    "read_facts",
    "state_json",
    "strict_records",
]


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"refold.core.{home}"), name)
    raise AttributeError(f"module 'refold.core' has no attribute {name!r}")
