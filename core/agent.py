"""What an agent is to the durable loop: a model, tools that say what they do, and budgets."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import PurePath
from typing import TypeAlias, get_args

import msgspec

from refold.core.errors import RefoldError, said
from refold.core.fingerprint import system_hash, tools_hash
from refold.core.records import VERSION, Fingerprint, Json, MetaRecord
from refold.core.resume import Effect

_EFFECTS: tuple[str, ...] = get_args(Effect)


class NoSuchAgent(RefoldError):
    """A factory cannot be found, or what it gives is no agent."""


class Usage(msgspec.Struct, frozen=True):
    """The tokens of one turn; input excludes what was read from the cache."""

    in_tokens: int = 0
    out_tokens: int = 0
    cache_read_tokens: int = 0
    cache_create_tokens: int = 0


class Turn(msgspec.Struct, frozen=True):
    """One reply of the model."""

    content: Sequence[Json]
    """Blocks in the wire shape: `{"type": "text", "text"}`, `{"type": "tool_use", "id", "name", "input"}`."""
    stop_reason: str = "end_turn"
    """end_turn, tool_use, max_tokens, refusal, pause_turn; anything else counts as end_turn."""
    usage: Usage = Usage()


class ToolResult(msgspec.Struct, frozen=True):
    """What a call gave, where a plain text is not enough."""

    content: str
    is_error: bool = False


class Tool(msgspec.Struct, frozen=True):
    """Something the model can call."""

    name: str
    description: str
    input_schema: Mapping[str, Json]
    """JSON Schema of the input; its `required` keys are checked before the tool runs."""
    effect: Effect
    """read: changes nothing; idempotent: twice is as once; write: everything else. It decides whether a call
    that may have run is run again after a crash, and whether calls may run side by side."""
    run: Callable[..., Awaitable[str | ToolResult]]
    """Called with the input as keyword arguments. An exception becomes a result that reports an error.

    A function that is not async works too, but holds up what else runs, and the stop."""


class Budgets(msgspec.Struct, frozen=True):
    """Where a run stops by itself."""

    max_tokens: int = 200_000
    """All four kinds of tokens together, over all resumes; 0 for no limit."""
    max_iterations: int = 50
    """Model calls; a follow-up of the user allows as many again."""


Model: TypeAlias = Callable[[Sequence[Mapping[str, Json]], Sequence[Tool]], Awaitable[Turn]]
"""Given the messages so far, `{"role", "content"}` each, and the tools, gives the next turn.

The messages are a copy of its own. An exception ends the run with the reason error; a resume asks again."""


class Agent(msgspec.Struct, frozen=True):
    """Everything the loop needs, and everything the fingerprint covers."""

    provider: str
    model_name: str
    system: str
    tools: Sequence[Tool]
    model: Model
    budgets: Budgets = Budgets()
    thinking_mode: str = "off"

    def __post_init__(self) -> None:
        names = [tool.name for tool in self.tools]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two tools are called {', '.join(twice)}")
        wrong = sorted({tool.name for tool in self.tools if tool.effect not in _EFFECTS})
        if wrong:
            raise ValueError(f"no effect that is known ({', '.join(_EFFECTS)}): {', '.join(wrong)}")

    def fingerprint(self) -> Fingerprint:
        """Give what a later resume is compared with (formats/fisk-ai.md 4, version 3): never the prompt."""
        return Fingerprint(
            model=self.model_name,
            system_hash=system_hash([self.system]),
            tools_hash=tools_hash(
                {"Name": tool.name, "Description": tool.description, "InputSchema": _plain(tool.input_schema)}
                for tool in self.tools
            ),
            thinking_mode=self.thinking_mode,
            max_tokens=self.budgets.max_tokens,
            max_iterations=self.budgets.max_iterations,
            provider=self.provider,
        )

    def effects(self) -> dict[str, Effect]:
        """Give what each tool does, by name."""
        return {tool.name: tool.effect for tool in self.tools}

    def opening(self, prompt: str, *, interactive: bool = False) -> MetaRecord:
        """Give the meta record that a run of this agent begins with."""
        return MetaRecord(
            version=VERSION, fingerprint=self.fingerprint(), prompt=prompt, interactive=interactive, seq=1
        )


def load_agent(factory: str) -> Agent:
    """Call the factory named `package.module:name` and give its agent.

    Raises:
        NoSuchAgent: the module or name is missing, it fails, or what it gives is no agent.
    """
    module_name, colon, name = factory.partition(":")
    if not colon or not module_name or not name:
        raise NoSuchAgent(f"{factory!a} names no factory", remedy="write it as package.module:factory")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise NoSuchAgent(
            f"{factory!a}: {error}", remedy="go to the directory of the module, or set PYTHONPATH"
        ) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise NoSuchAgent(f"{factory!a}: the module cannot be imported: {_told(error)}") from error
    make = getattr(module, name, None)
    if not callable(make):
        what = "nothing callable" if hasattr(module, name) else "nothing"
        raise NoSuchAgent(
            f"{factory!a}: {module_name} has {what} of the name {name!a}",
            remedy="check the name behind the colon",
        )
    try:
        made = make()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise NoSuchAgent(f"{factory!a} failed: {_told(error)}") from error
    if not isinstance(made, Agent):
        raise NoSuchAgent(f"{factory!a} gives {type(made).__name__}, not a refold.core Agent")
    return made


def _told(error: BaseException) -> str:
    """Say what went wrong in a foreign module, and where: its author reads this."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({PurePath(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{said(error)}{place}"


def _plain(schema: Mapping[str, Json]) -> Json:
    """Give a schema as JSON has it: a tuple counts as the list it would be written as."""
    value: Json = msgspec.json.decode(msgspec.json.encode(schema))
    return value
