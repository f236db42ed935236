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
    from refold.core.errors import (
        BadRecord,
        FoldError,
        LeaseLost,
        RefoldError,
        RunExists,
        StoreError,
        WriteFailed,
    )
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
    from refold.core.rivumi.canonical import preview
    from refold.core.rivumi.claim import OpenCall, SessionRefused, SessionUndecided
    from refold.core.rivumi.draft import SessionManifest
    from refold.core.rivumi.items import (
        approval_record,
        approval_request,
        check_outcome,
        message,
        observation,
        usage,
    )
    from refold.core.rivumi.task import Check, Limits, Task
    from refold.core.runner import MemoryLog, Outcome, Progress, Runner
    from refold.core.state import Counters, PendingTurn, RunState, ToolCall
    from refold.core.state_json import state_json
    from refold.core.store.event_writer import EventWriter
    from refold.core.store.journal import Journal, JournalStore
    from refold.core.store.reader import RunReader
    from refold.core.store.resume import open_to_resume, read_facts
    from refold.core.store.session import SessionStore
    from refold.core.store.session_lease import SessionWriterLease
    from refold.core.store.session_run import Session

_HOMES = {
    "agent": ("Agent", "Budgets", "Model", "Tool", "ToolResult", "Turn", "Usage"),
    "control": ("Control",),
    "errors": (
        "BadRecord",
        "FoldError",
        "LeaseLost",
        "RefoldError",
        "RunExists",
        "StoreError",
        "WriteFailed",
    ),
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
    "rivumi.canonical": ("preview",),
    "rivumi.claim": ("OpenCall", "SessionRefused", "SessionUndecided"),
    "rivumi.draft": ("SessionManifest",),
    "rivumi.items": (
        "approval_record",
        "approval_request",
        "check_outcome",
        "message",
        "observation",
        "usage",
    ),
    "rivumi.task": ("Check", "Limits", "Task"),
    "state": ("Counters", "PendingTurn", "RunState", "ToolCall"),
    "state_json": ("state_json",),
    "store.event_writer": ("EventWriter",),
    "store.journal": ("Journal", "JournalStore"),
    "store.reader": ("RunReader",),
    "store.resume": ("open_to_resume", "read_facts"),
    "store.session": ("SessionStore",),
    "store.session_lease": ("SessionWriterLease",),
    "store.session_run": ("Session",),
}

__all__ = [
    "FISK_AI",
    "NATIVE",
    "VERSION",
    "Agent",
    "AssistantRecord",
    "BadRecord",
    "Budgets",
    "Check",
    "Control",
    "Counters",
    "Decision",
    "EventWriter",
    "Fingerprint",
    "Fold",
    "FoldError",
    "Journal",
    "JournalStore",
    "Json",
    "LeaseLost",
    "Limits",
    "MemoryLog",
    "Message",
    "MetaRecord",
    "Model",
    "OpenCall",
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
    "Session",
    "SessionManifest",
    "SessionRefused",
    "SessionStore",
    "SessionUndecided",
    "SessionWriterLease",
    "StoreError",
    "Task",
    "TerminalRecord",
    "Tool",
    "ToolCall",
    "ToolResult",
    "ToolResultRecord",
    "TornTail",
    "Turn",
    "Usage",
    "UserRecord",
    "WriteFailed",
    "approval_record",
    "approval_request",
    "check_outcome",
    "differences",
    "fold_bytes",
    "message",
    "observation",
    "open_to_resume",
    "plan_resume",
    "preview",
    "read_facts",
    "state_json",
    "strict_records",
    "usage",
]


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"refold.core.{home}"), name)
    raise AttributeError(f"module 'refold.core' has no attribute {name!r}")
