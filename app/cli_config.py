"""`refold config`: the settings in effect."""

from __future__ import annotations

import argparse
import json
import os

import msgspec

from refold.app.agents import agent_json, known_agents
from refold.app.cli_print import Printer
from refold.app.lines import Cell
from refold.app.safe import Safe, line
from refold.app.settings import Settings
from refold.core.prices import Price
from refold.core.records import Json
from refold.core.store.roots import Root


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Print the settings as text, or as one object."""
    values = settings_json(settings)
    if arguments.json:
        printer.json(values)
        return 0
    for key, value in values.items():
        if not isinstance(value, list | dict):
            printer.line((Cell(Safe(f"{key} = "), "key"), Cell(line(_toml(value)))))
    for root in settings.roots:
        _print_root(root, "[[roots]]", printer)
        printer.line((Cell(Safe("format = "), "key"), Cell(line(_toml(root.hint)))))
    for root in settings.conversations:
        _print_root(root, "# conversations", printer)
    for model, price in settings.prices.items():
        printer.text(Safe(""))
        printer.text(line(f"[prices.{_toml(model)}]"), "key")
        for key, value in prices_json(price).items():
            printer.line((Cell(Safe(f"{key} = "), "key"), Cell(line(_toml(value)))))
    for entry in known_agents(settings.agents):
        _print_agent(agent_json(entry), printer)
    if settings.keymap:
        printer.text(Safe(""))
        printer.text(Safe("[keys]"), "key")
        for action, keys in settings.keymap.items():
            printer.line((Cell(line(f"{_toml(action)} = "), "key"), Cell(line(_toml(keys)))))
    if settings.allow:
        printer.text(Safe(""))
        printer.text(Safe("[redact]"), "key")
        printer.line((Cell(Safe("allow = "), "key"), Cell(line(_toml(list(settings.allow))))))
    return 0


def settings_json(settings: Settings) -> dict[str, Json]:
    """The settings as one object, keys as the README documents them."""
    return {
        "config_file": str(settings.config_file),
        "config_found": os.path.exists(settings.config_file),  # noqa: PTH110 - it never raises
        "state_dir": str(settings.state_dir),
        "cache_dir": str(settings.cache_dir) if settings.cache_dir is not None else None,
        "log_file": str(settings.log_file) if settings.log_file is not None else None,
        "theme": settings.theme,
        "no_color": settings.no_color,
        "ascii": settings.ascii,
        "utc": settings.utc,
        "trash_days": settings.trash_days,
        "columns": list(settings.columns),
        "keys": dict(settings.keymap),
        "roots": [
            {"path": str(root.path), "format": root.hint, "origin": root.origin} for root in settings.roots
        ],
        "conversations": [{"path": str(root.path), "origin": root.origin} for root in settings.conversations],
        "prices": {model: prices_json(price) for model, price in settings.prices.items()},
        "agents": [agent_json(entry) for entry in known_agents(settings.agents)],
        "allow": list(settings.allow),
    }


def prices_json(price: Price) -> dict[str, Json]:
    """A row of the table of prices: what it says, and nothing that it does not."""
    values: dict[str, Json] = msgspec.to_builtins(price)
    if not price.context:
        del values["context"]
    return {key: value for key, value in values.items() if value not in (None, "")}


def _print_root(root: Root, head: str, printer: Printer) -> None:
    state = "" if os.path.isdir(root.path) else "  # not there"  # noqa: PTH112 - it never raises
    printer.text(Safe(""))
    printer.line((Cell(Safe(head), "key"), Cell(Safe(f"  # {root.origin}"), "dim")))
    printer.line((Cell(Safe("path = "), "key"), Cell(line(_toml(str(root.path)))), Cell(Safe(state), "dim")))


def _print_agent(values: dict[str, Json], printer: Printer) -> None:
    printer.text(Safe(""))
    printer.text(line(f"[agents.{_toml(values.pop('name'))}]"), "key")
    for key, value in values.items():
        if value:
            text = _toml(value) if not isinstance(value, dict) else f"{{ {_members(value)} }}"
            printer.line((Cell(Safe(f"{key} = "), "key"), Cell(line(text))))


def _members(values: dict[str, Json]) -> str:
    return ", ".join(f"{_toml(key)} = {_toml(value)}" for key, value in values.items())


def _toml(value: Json) -> str:
    return '""  # none' if value is None else json.dumps(value, ensure_ascii=False)
