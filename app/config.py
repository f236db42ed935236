"""The configuration file: its schema, and errors that name file, line and key."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from refold.app.agents import PLACEHOLDERS
from refold.app.key_clashes import clash
from refold.app.keys import ROWS
from refold.app.present.runs import KEYS as COLUMNS
from refold.core.errors import RefoldError
from refold.core.nearest import nearest
from refold.core.store.files import odd_kind, read_range

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_BYTES = 1_000_000
LEAST_ALLOWED = 4
"""So many characters of what is no secret must stand in the file."""
HIGHEST_PRICE = 1e9
"""For a million tokens, in whatever currency."""
LEAST_CONTEXT = 256
LARGEST_CONTEXT = 1_000_000_000
"""Tokens."""
_TYPES = {
    "string_type": "text in quotes",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a number, and neither inf nor nan",
    "list_type": "a list in [ ]",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
"""What must stand where something of another type does, by the name of the error."""


class ConfigError(RefoldError):
    """The configuration file cannot be used; the text names file, line and key."""


class RootConfig(BaseModel):
    """A further directory of runs."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    path: str
    format: Literal["refold", "fisk-ai", "rivumi"] = "refold"
    """What a file is taken for whose content does not say; rivumi: each directory in it is a run."""


class AgentConfig(BaseModel):
    """An agent that goes on with runs, or what is different about one that is known already."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: Literal["", "refold", "fisk-ai", "rivumi", "looplane"] = ""
    """The format of its runs; that of its name, or our own, where it is left out."""
    directory: str = ""
    agent: str = ""
    resume: list[str] = []
    force: list[str] = []
    fork: list[str] = []
    cwd: str = "here"
    config: str = ""
    fingerprint: list[str] = []
    effects: dict[str, Literal["read", "idempotent", "write"]] = {}

    @field_validator("agent")
    @classmethod
    def _names_a_factory(cls, value: str) -> str:
        if not re.fullmatch(r"[^:\s]+:[^:\s]+", value):
            raise ValueError(f"{value!r} names no factory; write it as package.module:factory")
        return value

    @field_validator("resume", "force", "fork", "fingerprint")
    @classmethod
    def _is_started(cls, value: list[str]) -> list[str]:
        if not value or not value[0]:
            raise ValueError("the first word must be the program")
        for name in re.findall(r"\{(\w+)\}", " ".join(value)):
            _require_known(name, PLACEHOLDERS, "placeholder")
        return value

    @model_validator(mode="after")
    def _native_has_no_commands(self) -> Self:
        if self.agent and (self.resume or self.force or self.fork or self.fingerprint):
            raise ValueError("an agent with a factory is started by Refold: leave the argument lists out")
        return self


class RedactConfig(BaseModel):
    """What the redaction of everything that leaves lets through."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    allow: list[str] = []
    """Texts that look like a secret and are none; `*` stands for anything."""

    @field_validator("allow")
    @classmethod
    def _is_no_door(cls, value: list[str]) -> list[str]:
        for text in value:
            if len(re.sub(r"[*?\[\]]", "", text)) < LEAST_ALLOWED:
                raise ValueError(
                    f"{text!r} would let too much through; write at least {LEAST_ALLOWED} characters"
                )
        return value


class PriceConfig(BaseModel):
    """What a million tokens cost with a model, and how many it can be sent."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    input: float = Field(ge=0, le=HIGHEST_PRICE)
    output: float = Field(ge=0, le=HIGHEST_PRICE)
    cache_read: float | None = Field(default=None, ge=0, le=HIGHEST_PRICE)
    cache_create: float | None = Field(default=None, ge=0, le=HIGHEST_PRICE)
    context: int = Field(default=0, ge=0, le=LARGEST_CONTEXT)
    currency: str = Field(default="", max_length=16)

    @field_validator("context")
    @classmethod
    def _holds_a_prompt(cls, value: int) -> int:
        if 0 < value < LEAST_CONTEXT:
            raise ValueError(f"must be a number of tokens from {LEAST_CONTEXT:,} on, not {value}")
        return value


class Config(BaseModel):
    """Everything that may stand in the file; each key may be left out."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    theme: str = ""
    utc: bool = False
    trash_days: int = Field(default=30, ge=0, le=36_500)
    columns: list[str] = []
    roots: list[RootConfig] = []
    keys: dict[str, str] = {}
    agents: dict[str, AgentConfig] = {}
    prices: dict[str, PriceConfig] = {}
    redact: RedactConfig = RedactConfig()

    @field_validator("roots", mode="before")
    @classmethod
    def _bare_paths(cls, value: object) -> object:
        if isinstance(value, list):
            return [{"path": root} if isinstance(root, str) else root for root in value]
        return value

    @field_validator("keys")
    @classmethod
    def _known_actions(cls, value: dict[str, str]) -> dict[str, str]:
        for action, keys in value.items():
            _require_known(action, ROWS, "action")
            if not all(key.strip() for key in keys.split(",")):
                raise ValueError(f"{action} needs a key, or several with commas between them")
        found = clash(value)
        if found is not None:
            raise ValueError(
                f"{found.key!r} would start both {found.remapped} and {found.other}; "
                f"choose another key for {found.remapped}, or give {found.other} one of its own"
            )
        return value

    @field_validator("columns")
    @classmethod
    def _known_columns(cls, value: list[str]) -> list[str]:
        for column in value:
            _require_known(column, COLUMNS, "column")
        return value


def _require_known(name: str, known: Iterable[str], what: str) -> None:
    names = list(known)
    if name not in names:
        near = nearest(name, names)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(names)}"
        raise ValueError(f"no {what} is called {name!r}; {hint}")


def read(path: Path) -> Config:
    """Read and check the file.

    Raises:
        ConfigError: it cannot be read, is not TOML, or says something unknown.
    """
    data = _bytes(path)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_BYTES} bytes")
    try:
        text = data.decode()
        values = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        found = re.fullmatch(r"(?s)(.*) \(at line (\d+), column \d+\)", str(error))
        where, what = (f"{path}:{found[2]}", found[1]) if found else (str(path), str(error))
        raise ConfigError(f"{where}: {what}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deeply") from error
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = first["loc"]
        raise ConfigError(
            f"{path}:{_line_of(text, key)}: {_dotted(key)}: {_sentence(first)}",
            remedy="`refold config` prints the settings in effect",
        ) from error


def _bytes(path: Path) -> bytes:
    """Read the file, which may be a link; a pipe in its place is not waited for."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            kind = odd_kind(os.fstat(fd).st_mode)
            data = b"" if kind else read_range(fd, 0, MAX_BYTES + 1, path)
        finally:
            os.close(fd)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or 'cannot be read'}") from error
    if kind:
        raise ConfigError(f"{path}: {kind}, not a file", remedy="move it away: settings are a plain file")
    return data


def _dotted(key: Sequence[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).lstrip(".")


def _sentence(error: ErrorDetails) -> str:
    """Say in our words what is wrong with a value; its own words are those of the library."""
    kind, bounds = error["type"], error.get("ctx", {})
    if kind in _TYPES:
        return f"must be {_TYPES[kind]}"
    match kind:
        case "extra_forbidden":
            return "no such setting"
        case "missing":
            return "is missing"
        case "greater_than_equal":
            return f"must be at least {bounds['ge']:,.0f}"
        case "less_than_equal":
            return f"must be at most {bounds['le']:,.0f}"
        case "string_too_long":
            return f"must have at most {bounds['max_length']} characters"
        case "literal_error":
            return f"must be {bounds['expected']}"
    message = error["msg"].removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _line_of(text: str, key: Sequence[int | str]) -> int:
    """The line where the statement begins that sets this key, or the table that lacks it.

    Prefixes of the file are parsed until one holds the key; so strings and tables of every shape are
    understood as the parser understands them.
    """
    whole = tomllib.loads(text)
    known = next(key[:count] for count in range(len(key), -1, -1) if _holds(whole, key[:count]))
    lines = text.split("\n")
    begin = 0
    for count in range(1, len(lines) + 1):
        try:
            values = tomllib.loads("\n".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            continue
        if _holds(values, known):
            while begin < count - 1 and re.match(r"\s*(#|$)", lines[begin]):
                begin += 1
            return begin + 1
        begin = count
    return 1


def _holds(value: object, key: Sequence[int | str]) -> bool:
    for part in key:
        inside = dict(enumerate(value)) if isinstance(value, list) else value
        if not isinstance(inside, dict) or part not in inside:
            return False
        value = inside[part]
    return True
