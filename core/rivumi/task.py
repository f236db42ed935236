"""What a new run is asked to do: the value that becomes `request.json` (formats/rivumi.md 3)."""

from __future__ import annotations

import msgspec

from refold.core.errors import BadRecord
from refold.core.records import Json
from refold.core.rivumi import schema
from refold.core.rivumi.canonical import canonical


class Check(msgspec.Struct, frozen=True):
    """A command that says whether the work is good."""

    name: str
    argv: tuple[str, ...]
    timeout_seconds: float = 300.0


class Limits(msgspec.Struct, frozen=True):
    """How much a run may use."""

    max_steps: int = 12
    wall_time_seconds: float = 900.0
    max_tool_output_bytes: int = 200_000
    max_patch_bytes: int = 100_000


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A task in a repository, with the members that every generation reads."""

    repository: str
    instruction: str
    base_sha: str
    """The commit that the work begins at: 40 hex digits."""
    checks: tuple[Check, ...]
    """At least one."""
    allowed_paths: tuple[str, ...] = ("**/*",)
    """Patterns below the repository."""
    limits: Limits = Limits()
    task_id: str = ""
    """Empty: made of the id of the run."""

    def request(self) -> bytes:
        """Give the bytes of `request.json`.

        Raises:
            BadRecord: the originals would not take it.
        """
        if not isinstance(self.repository, str):
            raise BadRecord(
                f"task: repository: a {type(self.repository).__name__}, not a text: give str() of it"
            )
        try:
            built: Json = msgspec.to_builtins(self)
        except TypeError as error:
            raise BadRecord(f"task: {error}") from error
        assert isinstance(built, dict)  # noqa: S101 - for the type only: a struct is an object
        built["verification"] = built.pop("checks")
        refusal = schema.taken("request", built)
        if isinstance(refusal, schema.Refusal):
            raise BadRecord(f"task: {refusal.where or 'as a whole'}: {refusal.what}")
        return canonical(built)
