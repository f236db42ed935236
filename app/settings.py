"""Where things lie and how the program should look: the only reader of the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from refold.app.agents import AgentEntry
    from refold.app.config import Config
    from refold.core.prices import Price
    from refold.core.store.roots import Root

DEFAULT_THEME = "refold-dark"
_NO_KEYS: Mapping[str, str] = MappingProxyType({})


class Options(msgspec.Struct, frozen=True):
    """What the command line says for every command."""

    roots: tuple[Path, ...] = ()
    only: bool = False
    """Leave out the default and configured directories."""
    no_cache: bool = False
    theme: str | None = None
    read_only: bool = False


_NO_OPTIONS = Options()
_DIGITS = 9
_WIDEST = 4096
"""Columns; rows are filled up to their width, and more is no terminal's."""


class Settings(msgspec.Struct, frozen=True):
    """Everything the program takes from outside, read once and never changed."""

    roots: tuple[Root, ...]
    """The directories that hold runs, in the order they are looked at."""
    state_dir: Path
    cache_dir: Path | None
    """None where nothing may be cached."""
    config_file: Path
    theme: str = DEFAULT_THEME
    keymap: Mapping[str, str] = _NO_KEYS
    """Action id to keys, as the configuration remaps them."""
    columns: tuple[str, ...] = ()
    """The columns of the list in order; empty for the usual ones."""
    no_color: bool = False
    ascii: bool = False
    """True where the terminal's locale is not UTF-8."""
    dumb: bool = False
    """True where the terminal cannot place a cursor."""
    truecolor: bool = False
    """The terminal says that it draws every colour."""
    utc: bool = False
    """Show times in UTC instead of local time."""
    agents: tuple[AgentEntry, ...] = ()
    """The configured agents; `app.agents` knows the others."""
    log_file: Path | None = None
    trash_days: int = 30
    """So many days a run lies in the trash before a prune of it would take it."""
    conversations: tuple[Root, ...] = ()
    """The directories that hold conversations."""
    read_only: bool = False
    """Nothing is written, and no program is started."""
    prices: Mapping[str, Price] = {}
    """What tokens cost, by model, as the configuration says it."""
    bundle: str = ""
    """What is said of the bundle that is looked at; empty where it is none."""
    served: bool = False
    """The screen is shown by a browser: standard input is no terminal."""
    pager: str = ""
    """What `$PAGER` says; empty where it is not set."""
    editor: str = ""
    """What `$VISUAL` or `$EDITOR` says."""
    allow: tuple[str, ...] = ()
    """What looks like a secret and is none; `*` stands for anything."""
    unused_cache: Path | None = None
    """Where a cache lies that is neither read nor written."""

    @property
    def own_places(self) -> tuple[Path, ...]:
        """Our own files, and directories of them, used or not: nothing else belongs there."""
        caches = (self.cache_dir, self.unused_cache)
        return (self.state_dir, self.config_file, *(place for place in caches if place is not None))

    @property
    def notes_dir(self) -> Path:
        """Where our own notes about runs lie."""
        return self.state_dir / "notes"


def load(options: Options = _NO_OPTIONS, environ: Mapping[str, str] | None = None) -> Settings:
    """Join environment, configuration file and command line; the later one wins.

    Raises:
        ConfigError: the configuration file cannot be read or says something unknown.
    """
    from refold.app.agent_places import conversation_roots, run_roots
    from refold.core.store.roots import Root

    env = os.environ if environ is None else environ
    state_home = _xdg(env, "XDG_STATE_HOME", ".local/state")
    state_dir = _own(env, "state", "XDG_STATE_HOME", ".local/state")
    config_file = _own(env, "config", "XDG_CONFIG_HOME", ".config") / "config.toml"
    config = _read_config(config_file)
    home = _home(env)
    roots: list[Root] = []
    conversations: list[Root] = []
    if not options.only:
        roots.append(Root(state_home / "refold" / "runs", "refold", "default"))
        roots.append(Root(state_home / "fisk-ai" / "runs", "fisk-ai", "default"))
        roots.extend(run_roots(env, home))
        conversations.extend(conversation_roots(env, home))
        if config is not None:
            roots.extend(
                Root(_expanded(root.path, home, config_file.parent), root.format, "config")
                for root in config.roots
            )
    added = [Root(path.absolute(), "refold", "--root") for path in options.roots]
    roots.extend(added)
    conversations.extend(added)
    cache_dir = _own(env, "cache", "XDG_CACHE_HOME", ".cache")
    # Who only looks leaves nothing anywhere: SQLite writes beside an index that it reads.
    without_cache = options.no_cache or options.read_only
    return Settings(
        roots=tuple(roots),
        state_dir=state_dir,
        cache_dir=None if without_cache else cache_dir,
        unused_cache=cache_dir if without_cache else None,
        config_file=config_file,
        theme=options.theme or (config.theme if config is not None and config.theme else DEFAULT_THEME),
        keymap=MappingProxyType(dict(config.keys)) if config is not None else _NO_KEYS,
        columns=tuple(config.columns) if config is not None else (),
        no_color=bool(env.get("NO_COLOR")),
        ascii=not _is_utf8(env),
        dumb=env.get("TERM", "") in ("dumb", "unknown"),
        truecolor=env.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"),
        utc=bool(config is not None and config.utc),
        trash_days=config.trash_days if config is not None else 30,
        agents=_agents(config, home, config_file.parent) if config is not None else (),
        log_file=state_dir / "refold.log",
        conversations=tuple(conversations),
        read_only=options.read_only,
        prices=_prices(config) if config is not None else {},
        served=env.get("TEXTUAL_DRIVER", "").endswith(":WebDriver"),
        pager=env.get("PAGER", ""),
        editor=env.get("VISUAL") or env.get("EDITOR", ""),
        allow=tuple(config.redact.allow) if config is not None else (),
    )


def _read_config(path: Path) -> Config | None:
    """The configuration, or None where there is no file; pydantic is imported only for a file that exists."""
    # Path.exists raises where the home of another user, or a name too long, lies in between.
    if not os.path.exists(path):  # noqa: PTH110
        return None
    from refold.app.config import read

    return read(path)


def _agents(config: Config, home: Path, base: Path) -> tuple[AgentEntry, ...]:
    if not config.agents:
        return ()
    from refold.app.agents import BESIDE, HERE, AgentEntry

    def place(path: str) -> str:
        return str(_expanded(path, home, base)) if path else ""

    return tuple(
        AgentEntry(
            name=name,
            format=said.format,
            directory=place(said.directory),
            agent=said.agent,
            resume=tuple(said.resume),
            force=tuple(said.force),
            fork=tuple(said.fork),
            cwd=said.cwd if said.cwd in (HERE, BESIDE) else place(said.cwd),
            config=place(said.config),
            fingerprint=tuple(said.fingerprint),
            effects=dict(said.effects),
        )
        for name, said in config.agents.items()
    )


def _prices(config: Config) -> dict[str, Price]:
    if not config.prices:
        return {}
    from refold.core.prices import Price

    return {model: Price(**said.model_dump()) for model, said in config.prices.items()}


def _expanded(path: str, home: Path, base: Path) -> Path:
    if path == "~" or path.startswith("~/"):
        return home / path[2:]
    return base / path


def _home(env: Mapping[str, str]) -> Path:
    """The home directory; `/` for a user who has none, as container run-times do."""
    home = env.get("HOME", "")
    if home.startswith("/"):
        return Path(home)
    import pwd

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir or "/")
    except KeyError:
        return Path("/")


def _xdg(env: Mapping[str, str], variable: str, below_home: str) -> Path:
    """A base directory by the rule of the XDG specification: a relative or empty value counts as unset."""
    value = env.get(variable, "")
    return Path(value) if value.startswith("/") else _home(env) / below_home


def _own(env: Mapping[str, str], kind: str, variable: str, below_home: str) -> Path:
    """Where our own state, cache or configuration lies; the agents' runs lie by XDG on every system."""
    if sys.platform == "linux" or env.get(variable, "").startswith("/"):
        return _xdg(env, variable, below_home) / "refold"
    from platformdirs import PlatformDirs

    dirs = PlatformDirs("refold", appauthor=False)
    own = {"state": dirs.user_state_path, "cache": dirs.user_cache_path, "config": dirs.user_config_path}
    return own[kind]


def _is_utf8(env: Mapping[str, str]) -> bool:
    """Say whether the locale of the terminal is UTF-8; a terminal without any locale is taken to be."""
    locale = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or ""
    return not locale or "utf8" in locale.lower().replace("-", "")


def said_width(environ: Mapping[str, str] = os.environ, variable: str = "COLUMNS") -> int:
    """Give the columns, or rows, that the environment names: before those of the terminal; 0 for none."""
    said = environ.get(variable, "")
    return min(int(said), _WIDEST) if len(said) <= _DIGITS and said.isdecimal() else 0


def terminal_width(environ: Mapping[str, str] = os.environ) -> int:
    """Give the columns of the terminal as `shutil` would, without the archives that it imports."""
    said = said_width(environ)
    if said:
        return said
    try:
        return os.get_terminal_size(1).columns or 80
    except (OSError, ValueError):
        return 80


def bound_size(environ: MutableMapping[str, str] = os.environ) -> None:
    """Let the environment name no size that nobody has: the toolkit of the screen would draw for hours."""
    for variable in ("COLUMNS", "LINES"):
        said = said_width(environ, variable)
        if said:
            environ[variable] = str(said)
        else:
            environ.pop(variable, None)


def terminal_size(environ: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Give the columns and rows of the terminal as the toolkit of the screen takes them."""
    said = [said_width(environ, variable) for variable in ("COLUMNS", "LINES")]
    if 0 in said:
        try:
            found = os.get_terminal_size(1)
        except (OSError, ValueError):
            found = os.terminal_size((80, 24))
        said = [one or other for one, other in zip(said, found, strict=True)]
    return said[0], said[1]
