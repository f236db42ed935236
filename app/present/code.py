"""Source text in the roles of its words, by the ending of its file.

Pygments comes with Textual; its lexers are modules of their own, too slow to import between two keys. So what
is missing is noted in `wanted`, shown without roles, and whoever can wait calls `load`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Final, Protocol, cast

from refold.app.lines import Role

MOST: Final = 40_000
"""Characters of one piece that are taken apart; a longer one is shown without roles."""
_LONGEST_LINE: Final = 400

Part = tuple[str, Role]

_PYTHON: Final = ("python", "PythonLexer")
_SCRIPT: Final = ("javascript", "JavascriptLexer")
_TYPED: Final = ("javascript", "TypeScriptLexer")
_C: Final = ("c_cpp", "CppLexer")
_SHELL: Final = ("shell", "BashLexer")
_LEXERS: Final[dict[str, tuple[str, str]]] = {
    **dict.fromkeys(("py", "pyi"), _PYTHON),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs"), _SCRIPT),
    **dict.fromkeys(("ts", "tsx"), _TYPED),
    **dict.fromkeys(("c", "h", "cc", "cpp", "hpp", "cxx"), _C),
    **dict.fromkeys(("sh", "bash", "zsh"), _SHELL),
    "go": ("go", "GoLexer"),
    "rs": ("rust", "RustLexer"),
    "java": ("jvm", "JavaLexer"),
    "kt": ("jvm", "KotlinLexer"),
    "rb": ("ruby", "RubyLexer"),
    "json": ("data", "JsonLexer"),
    "yaml": ("data", "YamlLexer"),
    "yml": ("data", "YamlLexer"),
    "toml": ("configs", "TOMLLexer"),
    "ini": ("configs", "IniLexer"),
    "cfg": ("configs", "IniLexer"),
    "css": ("css", "CssLexer"),
    "sql": ("sql", "SqlLexer"),
}
"""Module and class by the ending of a file."""

_ROLES: Final[tuple[tuple[str, Role], ...]] = (
    ("Token.Comment", "dim"),
    ("Token.Literal.String", "json-string"),
    ("Token.Literal.Number", "json-number"),
    ("Token.Keyword", "json-word"),
    ("Token.Operator.Word", "json-word"),
    ("Token.Name.Function", "json-key"),
    ("Token.Name.Class", "json-key"),
    ("Token.Name.Tag", "json-key"),
    ("Token.Name.Decorator", "json-key"),
)
"""The roles are those that a JSON text has; the first that fits counts."""


class _Lexer(Protocol):
    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, object, str]]: ...


_loaded: Final[dict[tuple[str, str], _Lexer | None]] = {}
_of_token: Final[dict[object, Role]] = {}
wanted: Final[set[tuple[str, str]]] = set()
"""What would have been needed and is not there yet."""


def load() -> None:
    """Import what is wanted; takes its time, so call it on a thread."""
    while wanted:
        module, name = wanted.pop()
        try:
            lexer = getattr(importlib.import_module(f"pygments.lexers.{module}"), name)()
        except (ImportError, AttributeError):
            lexer = None
        _loaded[(module, name)] = cast("_Lexer | None", lexer)


def plain(row: str) -> list[Part]:
    """Give a line without roles."""
    return [(row, "text")]


def parts(path: str, rows: Sequence[str]) -> Iterator[list[Part] | None]:
    """Give each line in parts; None in between where there was work without a line.

    Args:
        path: The file: its ending tells the language.
        rows: Lines that follow each other, without their newlines.
    """
    lexer = _lexer(path)
    if lexer is None or sum(map(len, rows)) > MOST or any(len(row) > _LONGEST_LINE for row in rows):
        for row in rows:
            yield plain(row)
        return
    made = 0
    line: list[Part] = []
    for number, (_, token, value) in enumerate(lexer.get_tokens_unprocessed("\n".join(rows) + "\n")):
        role = _role(token)
        first, *others = value.split("\n")
        if first:
            line.append((first, role))
        for other in others:
            if made < len(rows):
                yield line
            made += 1
            line = [(other, role)] if other else []
        if number % 16 == 15:
            yield None
    for row in rows[made:]:
        yield plain(row)


def _lexer(path: str) -> _Lexer | None:
    ending = path.rpartition("/")[2].rpartition(".")[2].lower()
    key = _LEXERS.get(ending)
    if key is None:
        return None
    if key not in _loaded:
        wanted.add(key)
    return _loaded.get(key)


def _role(token: object) -> Role:
    role: Role
    known = _of_token.get(token)
    if known is not None:
        return known
    name = str(token)
    role = next((role for begin, role in _ROLES if name.startswith(begin)), "text")
    _of_token[token] = role
    return role
