"""Every kind of damage once: what it means, how bad it is, what can be done.

The closed list of codes is that of design/safety.md 2.3 and design/contracts.md "Findings".
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from refold.core.links import link
from refold.core.records import Json

Severity: TypeAlias = Literal["error", "warning", "info"]


class Allowed(msgspec.Struct, frozen=True):
    """What can still be done with a run in spite of a finding."""

    view: bool = True
    fork_to: int | None = None
    """The last sequence at which a fork is still legal; None where there is none."""
    resume: bool = False


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong, or worth knowing, at one place of a run."""

    code: str
    severity: Severity
    seq: int | None
    """The sequence of the record it stands on; None where no record could be read."""
    line: int
    """1-based, blank lines counted; 0 for the file as a whole."""
    start: int
    """First byte, 0-based."""
    end: int
    """Byte after the last one."""
    message: str
    remedy: str
    allowed: Allowed
    file: str = ""
    """Which file of a run directory it is about; empty where the run is one file."""


class Code(msgspec.Struct, frozen=True):
    """What a code stands for."""

    severity: Severity
    meaning: str
    """A short phrase for a row or a badge."""
    remedy: str


_FORK = "fork at the last sequence before it, or salvage the good records"
_NO_FORK = "no fork can stand before it; refold salvage RUN --plan says whether records can be saved"
_RAW = "its bytes are kept and shown as they are"

CODES: dict[str, Code] = {
    "E_TORN_TAIL": Code(
        "warning", "torn tail", "nothing acknowledged is lost; a repair cuts it off and keeps it"
    ),
    "E_NO_FINAL_NL": Code(
        "warning", "last record has no newline", "the record counts; a repair ends the line"
    ),
    "E_GLUED": Code("error", "records glued on one line", _FORK),
    "E_SPLICED": Code("error", "one record inside another", _FORK),
    "E_NUL_RUN": Code("error", "run of NUL bytes", _FORK),
    "E_BAD_JSON": Code("error", "not JSON", _FORK),
    "E_BAD_UTF8": Code("error", "not UTF-8", _RAW),
    "E_SURROGATE": Code("info", "half of a surrogate pair", "shown as ‹D800›; harmless"),
    "E_SEQ_GAP": Code("info", "sequence numbers are missing", "the original reader accepts gaps"),
    "E_SEQ_DUP": Code("error", "a sequence stands twice", "two writers may have been at work; " + _FORK),
    "E_SEQ_BACK": Code("error", "the sequence goes backwards", "two writers may have been at work; " + _FORK),
    "E_FOREIGN_RUN": Code("error", "record of another run", "compare the file name with the run id inside"),
    "E_UNKNOWN_KIND": Code("error", "unknown kind of record", _FORK),
    "E_UNKNOWN_KEY": Code(
        "info", "a key that its format does not have", "the original reader passes over it"
    ),
    "E_UNKNOWN_WORD": Code("info", "a word that its format does not have", "it is shown as it was recorded"),
    "E_NEWER_VERSION": Code(
        "error", "written by a newer version", "update Refold, or use the program that wrote it"
    ),
    "E_NO_META": Code("error", "does not start with a meta record", _RAW),
    "E_TOOL_ORPHAN": Code("error", "a result without a call", _FORK),
    "E_TOOL_DUP": Code("error", "a second result for one call", _FORK),
    "E_AFTER_TERMINAL": Code("warning", "records after the run completed", "look at what wrote them"),
    "E_OVERSIZE": Code("warning", "a very long record", "it is shown in part; Raw shows every byte"),
    "E_TOO_DEEP": Code("error", "nested too deeply", _RAW),
    "E_NONFINITE": Code("error", "a number that is no number", _FORK),
    "E_DUP_KEY": Code("warning", "a key stands twice", "two readers may see different values"),
    "E_MANIFEST_AHEAD": Code(
        "error",
        "the manifest is ahead of the events",
        "look for a copy of the log that is longer, or fork here",
    ),
    "E_MANIFEST_BEHIND": Code(
        "error", "the manifest is behind the events", "look for a later copy of it, or fork from any event"
    ),
    "E_UNCERTAIN_EFFECT": Code("error", "outcome unknown", "find out whether the call ran before going on"),
    "E_NOT_REGULAR": Code("error", "not a regular file", "open the file it leads to by its own path"),
    "E_PERM": Code("error", "not permitted to read", "ask its owner for read permission"),
    "E_REWRITTEN": Code(
        "error",
        "history was rewritten since it was last looked at",
        "find out who changed it; 'refold verify --accept' takes it as it is now",
    ),
    "E_LOCKED": Code("error", "held by another process", "wait, or look at it read-only"),
    "E_LOCK_UNSURE": Code("error", "nobody can say who holds it", "make sure that no agent is running on it"),
    "E_FORK_PARTIAL": Code("error", "an unfinished fork", "remove it and fork again"),
    "E_EMPTY": Code("error", "there is no record in it", "the writer died before its first record"),
    "E_DUP_META": Code("error", "a second meta record", _FORK),
    "E_NO_PAYLOAD": Code("error", "a record without its payload", _FORK),
    "E_BAD_RECORD": Code("error", "JSON, but not a record", _FORK),
    "E_ITERATION": Code("error", "iterations out of order", "the last one decides where a resume goes on"),
    "E_RESULT_ID": Code("error", "a result names two different calls", "the outer id decides"),
    "E_CALL_UNANSWERED": Code("error", "a call was never answered", "fork before the turn that made it"),
    "E_BAD_MANIFEST": Code(
        "error", "the manifest cannot be read", "restore it from a copy; the events are read without it"
    ),
    "E_MISSING": Code("error", "a file of the run is missing", "restore it from a copy"),
    "E_REQUEST": Code("error", "the request does not fit the run", "restore request.json from a copy"),
    "E_WORKSPACE": Code(
        "error",
        "the workspace does not fit the run",
        "put a clone at its commit there, or fork: a fork has its own",
    ),
    "E_DANGLING": Code(
        "error",
        "a call without an observation",
        "decide in the resume (r) what became of it, or fork before it",
    ),
    "E_BOM": Code(
        "error", "a byte order mark before the first record", "remove the first three bytes from a copy"
    ),
    "E_BAD_MODE": Code("warning", "readable by others", "chmod 600 the file"),
}
"""All codes. A code that is not here cannot be reported."""

LEFT_BY_A_CRASH: Final = frozenset({"E_TORN_TAIL", "E_NO_FINAL_NL"})
"""How a run ends whose writer died: named in words of its own, never counted as damage."""


UNPAIRED: Final = frozenset({"E_CALL_UNANSWERED", "E_TOOL_ORPHAN", "E_TOOL_DUP"})
"""Calls and results in the middle of a run that are no pairs: the original folds them, a model may refuse."""


def remedy_for(code: str, allowed: Allowed) -> str:
    """Say what to do about a finding; no fork is advised where none can stand before it."""
    remedy = CODES[code].remedy
    return remedy if allowed.fork_to is not None else remedy.replace(_FORK, _NO_FORK)


def is_damage(code: str) -> bool:
    """Say whether a finding counts as damage: an error or a warning, and not what a crash leaves."""
    return CODES[code].severity != "info" and code not in LEFT_BY_A_CRASH


def forks_before(code: str) -> bool:
    """Say whether a fork has to stand before the line of a finding: its record cannot be taken along."""
    # What was rewritten may be sound in itself: a fork takes what the file says now.
    error = CODES[code].severity == "error" and code != "E_REWRITTEN"
    return error or code in {"E_TORN_TAIL", "E_DUP_KEY"}


def blocks_resume(code: str) -> bool:
    """Say whether a run with a finding cannot simply be handed to a writer."""
    return forks_before(code) or code in LEFT_BY_A_CRASH


def finding_json(run: str, finding: Finding) -> dict[str, Json]:
    """Give a finding as `refold verify --json` prints it."""
    return {
        "run": run,
        "link": link(run, finding.seq, finding.line if finding.file in {"", "events.jsonl"} else 0),
        "file": finding.file or None,
        "code": finding.code,
        "severity": finding.severity,
        "seq": finding.seq,
        "line": finding.line,
        "start": finding.start,
        "end": finding.end,
        "message": finding.message,
        "remedy": finding.remedy,
        "allowed": {
            "view": finding.allowed.view,
            "fork_to": finding.allowed.fork_to,
            "resume": finding.allowed.resume,
        },
    }
