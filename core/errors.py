"""One small tree of errors, each written for the person who reads it.

A message says what happened and where; `remedy` says what can be done about it.
"""

from __future__ import annotations

from typing import ClassVar


class RefoldError(Exception):
    """Anything that Refold refuses or cannot do. Its text is safe to log, not to draw: see `app.safe`."""

    remedy: str = ""
    """What the reader can do now; empty where nothing helps."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        if remedy:
            self.remedy = remedy


class Refused(RefoldError):
    """What was asked for would not be coherent; nothing was written."""


class BadRecord(RefoldError):
    """One line is not the record it should be. The line is kept; only its meaning is missing."""

    def __init__(self, reason: str, *, code: str = "E_BAD_RECORD") -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code
        """The damage code (`core.findings`) that names what is wrong."""


class FoldError(RefoldError):
    """The records of a run do not fold to a state (formats/fisk-ai.md 2.1)."""

    error_class: ClassVar[str] = ""
    """The short name that scripts read: empty, no_meta, version or corrupt."""


class EmptyJournal(FoldError):
    """There is not one record."""

    error_class = "empty"

    def __init__(self) -> None:
        super().__init__("no records")


class NoMeta(FoldError):
    """The first record is not a meta record with a payload."""

    error_class = "no_meta"

    def __init__(self) -> None:
        super().__init__("first record is not meta")


class UnsupportedVersion(FoldError):
    """The run was written by a version that this build does not read."""

    error_class = "version"

    def __init__(self, version: int, supported: int) -> None:
        super().__init__(
            f"unsupported snapshot version: snapshot version {version}, supported {supported}",
            remedy="update Refold, or open the run with the program that wrote it",
        )
        self.version = version
        self.supported = supported


class CorruptJournal(FoldError):
    """A record inside the run cannot be read or cannot stand where it stands."""

    error_class = "corrupt"

    def __init__(self, detail: str, *, line: int | None = None) -> None:
        super().__init__(
            f"corrupt record sequence: {detail}",
            remedy="a verify names all damage; fork before it, or salvage the good records",
        )
        self.detail = detail
        self.line = line
        """The 1-based line that could not be read; None where a readable record is out of place."""


class StoreError(RefoldError):
    """A file of a run cannot be found, opened, locked or written."""

    error_class: ClassVar[str] = "store"


class InvalidRunId(StoreError):
    """The id has characters that no run id may have; nothing was opened."""

    error_class = "invalid_id"

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"invalid run id: {ascii(run_id)[1:-1]!r} (use letters, digits, '-' or '_')",
            remedy="start with a letter or digit, at most 128 characters",
        )


class RunNotFound(StoreError):
    """No file of this run exists."""

    error_class = "not_found"


class AmbiguousRun(StoreError):
    """A prefix, or a name, that several runs share."""

    error_class = "ambiguous"

    def __init__(self, message: str, candidates: tuple[str, ...]) -> None:
        super().__init__(message, remedy="give the whole id, or the path of the run")
        self.candidates = candidates


class RunExists(StoreError):
    """A run of this id is already there; nothing was written."""

    error_class = "exists"


class RunLocked(StoreError):
    """Another process, or this one, holds the run."""

    error_class = "locked"


class LeaseLost(StoreError):
    """Another writer took the run over, or the lease was given up: nothing was written."""

    error_class = "fenced"


class LockUnsure(StoreError):
    """The file system cannot say who holds the run."""

    error_class = "lock_unsure"


class NotRegular(StoreError):
    """What lies there is a directory, link, pipe or device, not a file."""

    error_class = "not_regular"


class NotPermitted(StoreError):
    """The system refuses to open the file."""

    error_class = "permission"


class TooLarge(StoreError):
    """What was asked for does not fit into memory in one piece."""

    error_class = "too_large"


class Unreadable(StoreError):
    """The system answers a read with an error."""

    error_class = "unreadable"


class SequenceGap(StoreError):
    """A record was to be appended further on than the next sequence."""

    error_class = "gap"


class SequenceConflict(StoreError):
    """A different record already stands at this sequence."""

    error_class = "conflict"


class JournalClosed(StoreError):
    """The journal was closed, by its owner or after a failed write."""

    error_class = "closed"


class WriteFailed(StoreError):
    """A write or fsync failed: the record is not known to be durable, and the journal is closed."""

    error_class = "write_failed"


def said(error: BaseException) -> str:
    """Give an error of somebody else's code as text, also where its own text fails."""
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception as mute:
        return f"{kind}, whose text fails with {type(mute).__name__}"
    return f"{kind}: {text}" if text else kind
