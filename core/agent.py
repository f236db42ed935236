"""What an agent is to the durable loop: a model, tools that say what they do, and budgets."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from refold.core.errors import RefoldError
from refold.core.fingerprint import system_hash, tools_hash
from refold.core.records import Fingerprint, Json
from refold.core.resume import Effect


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

    content: tuple[Json, ...]
    """Blocks in the wire shape: `{"type": "text", "text"}`, `{"type": "tool_use", "id", "name", "input"}`."""
    stop_reason: str = "end_turn"
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
    that may have run is run again after a crash."""
    run: Callable[..., Awaitable[str | ToolResult]]
    """Called with the input as keyword arguments. An exception becomes a result that reports an error."""


class Budgets(msgspec.Struct, frozen=True):
    """Where a run stops by itself."""

    max_tokens: int = 200_000
    """All four kinds of tokens together, over all resumes; 0 for no limit."""
    max_iterations: int = 50
    """Model calls; a follow-up of the user allows as many again."""


Model: TypeAlias = Callable[[Sequence[Mapping[str, Json]], Sequence[Tool]], Awaitable[Turn]]
"""Given the messages so far, `{"role", "content"}` each, and the tools, gives the next turn."""


class Agent(msgspec.Struct, frozen=True):
    """Everything the loop needs, and everything the fingerprint covers."""

    provider: str
    model_name: str
    system: str
    tools: tuple[Tool, ...]
    model: Model
    budgets: Budgets = Budgets()
    thinking_mode: str = "off"

    def fingerprint(self) -> Fingerprint:
        """Give what a later resume is compared with (formats/fisk-ai.md 4, version 3): never the prompt."""
        return Fingerprint(
            model=self.model_name,
            system_hash=system_hash([self.system]),
            tools_hash=tools_hash(
                {"Name": tool.name, "Description": tool.description, "InputSchema": dict(tool.input_schema)}
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


def load_agent(factory: str) -> Agent:
    """Call the factory named `package.module:name` and give its agent.

    Raises:
        NoSuchAgent: the module or name is missing, or what it gives is no agent.
    """
    module_name, colon, name = factory.partition(":")
    if not colon or not module_name or not name:
        raise NoSuchAgent(f"{factory!a} names no factory", remedy="write it as package.module:factory")
    try:
        made = getattr(importlib.import_module(module_name), name)()
    except ImportError as error:
        raise NoSuchAgent(
            f"{factory!a}: {error}", remedy="check the name, and that Python finds the module (PYTHONPATH)"
        ) from error
    except AttributeError as error:
        raise NoSuchAgent(f"{factory!a}: {error}", remedy="check the name behind the colon") from error
    if not isinstance(made, Agent):
        raise NoSuchAgent(f"{factory!a} gives {type(made).__name__}, not a refold.core Agent")
    return made
