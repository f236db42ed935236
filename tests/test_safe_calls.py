"""No call in the source hands untrusted text to markup, to a shell or to the wrong line splitter.

The rules are read off the syntax tree, so they hold for code that no other test runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.screen import Screen

from refold.app.main import RefoldApp
from refold.app.settings import Settings

ROOT = Path(__file__).parent.parent
APP = sorted((ROOT / "app").rglob("*.py"))
CORE = sorted((ROOT / "core").rglob("*.py"))

PARSES_MARKUP = {
    "Static",
    "Label",
    "Button",
    "Checkbox",
    "RadioButton",
    "Collapsible",
    "Option",
    "Tab",
    "Link",
}
"""Constructors that read a plain string as markup."""

TOO_SLOW = {
    "DataTable",
    "Markdown",
    "MarkdownViewer",
    "RichLog",
    "Log",
    "ListView",
    "OptionList",
    "SelectionList",
}
"""Widgets that measure or keep every row; lists of runs and records use the line widgets."""

MARKUP_ATTRIBUTES = {"border_title", "border_subtitle", "tooltip", "label"}

PRINTERS = {"cli", "demo", "launch"}
"""Modules that write to the terminal before, instead of, or behind the screen."""

SPLITS_LIKE_ITS_ORIGINAL = "core/rivumi/original.py"
"""Gives the answers of a program that does cut records at U+2028."""


def _name(node: ast.expr) -> str:
    """Give the last part of a dotted name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _harmless(node: ast.expr) -> bool:
    """Say whether an expression cannot carry markup: our own words, or Content built without a parser."""
    if isinstance(node, ast.Constant):
        return not (isinstance(node.value, str) and "[" in node.value)
    if isinstance(node, ast.IfExp):
        return _harmless(node.body) and _harmless(node.orelse)
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        return called in {"Content", "Content.assemble", "Content.styled", "Content.empty"}
    return False


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _literal(call: ast.Call) -> bool:
    """Say whether the markup parsed by this call stands in our own source."""
    return bool(call.args) and isinstance(call.args[0], ast.Constant)


def _no_markup(call: ast.Call) -> bool:
    markup = _keyword(call, "markup")
    return isinstance(markup, ast.Constant) and markup.value is False


def _call_faults(call: ast.Call) -> Iterator[str]:
    name = _name(call.func)
    shown = [*call.args[:1], *filter(None, (_keyword(call, key) for key in ("content", "label", "message")))]
    parses = name in PARSES_MARKUP or ast.unparse(call.func) == "super().notify"
    if parses and not _no_markup(call) and not all(map(_harmless, shown)):
        yield f"{name}() with text that may hold markup and no markup=False"
    if name in TOO_SLOW:
        yield f"{name}: over run-sized data only the line widgets will do"
    if name in {"add_row", "add_option", "add_column"} and not all(map(_harmless, call.args)):
        yield f"{name}() parses strings as markup"
    if (
        name == "update"
        and shown
        and isinstance(call.func, ast.Attribute)
        and any(isinstance(part, ast.JoinedStr) or _is_text(part) for part in ast.walk(shown[0]))
        and isinstance(shown[0], ast.JoinedStr | ast.BinOp | ast.Constant)
        and not _harmless(shown[0])
    ):
        yield "update() with a string that may hold markup"
    if name == "from_markup" and not _literal(call):
        yield "from_markup() over data"
    if name == "from_ansi":
        yield "from_ansi() lets control sequences through"
    if name in {"system", "popen", "eval", "exec"} and isinstance(call.func, ast.Name | ast.Attribute):
        owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if owner in {"", "os"}:
            yield f"{name}()"
    shell = _keyword(call, "shell")
    if shell is not None and not (isinstance(shell, ast.Constant) and shell.value is False):
        yield "a shell"
    if name == "splitlines":
        yield "splitlines() cuts a record at U+2028 and ten other characters: split at \\n"


def faults(source: str, *, prints: bool) -> list[str]:
    """List what a module does that it must not; `prints` says whether it may write to the terminal."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        said: list[str] = []
        if isinstance(node, ast.Call):
            said += _call_faults(node)
            if _name(node.func) == "print" and isinstance(node.func, ast.Name) and not prints:
                said.append("print() under the screen")
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if (
                    isinstance(target, ast.Attribute)
                    and target.attr in MARKUP_ATTRIBUTES
                    and not _harmless(node.value)
                ):
                    said.append(f"{target.attr} parses strings as markup: give it Content")
        elif isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            if node.module in {"textual.markup", "rich.markup"} and "escape" in names:
                said.append("escape() does not protect against markup")
        elif isinstance(node, ast.Import) and any(alias.name == "mmap" for alias in node.names):
            said.append("mmap dies with SIGBUS when a file shrinks")
        elif isinstance(node, ast.ExceptHandler) and _swallows(node):
            said.append("an exception swallowed without a word")
        found += [f"{getattr(node, 'lineno', 0)}: {what}" for what in said]
    return found


def _swallows(handler: ast.ExceptHandler) -> bool:
    broad = handler.type is None or _name(handler.type) in {"Exception", "BaseException"}
    return broad and all(isinstance(statement, ast.Pass) for statement in handler.body)


async def test_a_notice_never_parses_markup() -> None:
    """Every notice of every screen and widget ends in the method of the App, which the rules trust."""
    app = RefoldApp(Settings((), Path("/nonexistent"), None, Path("/nonexistent")), Screen)
    async with app.run_test(notifications=True) as pilot:
        app.notify("x [/nope] [@click=app.quit]y[/]", title="[/z]", markup=True)
        app.screen.notify("x [/nope] from a screen", markup=True)
        await pilot.pause()

        assert [toast.message for toast in app._notifications] == [
            "x [/nope] [@click=app.quit]y[/]",
            "x [/nope] from a screen",
        ]
        assert not any(toast.markup for toast in app._notifications)


@pytest.mark.parametrize("path", [*APP, *CORE], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_unsafe_call(path: Path) -> None:
    prints = path.parent.name == "app" and path.stem.split("_")[0] in PRINTERS

    found = faults(path.read_text(encoding="utf-8"), prints=prints)
    if path.relative_to(ROOT).as_posix() == SPLITS_LIKE_ITS_ORIGINAL:
        found = [fault for fault in found if "splitlines()" not in fault]

    assert found == []


def test_the_walk_sees_the_whole_product() -> None:
    seen = {path.relative_to(ROOT).as_posix() for path in [*APP, *CORE]}

    assert {"app/cli.py", "core/records.py"} <= seen


BAD = [
    "Static(run.prompt)",
    "Static(f'{x}')",
    "Label(text, id='a')",
    "widgets.Button(name)",
    "Static('[b]' + name)",
    "Static(content=prompt)",
    "Static(prompt, markup=True)",
    "super().notify(str(error))",
    "super().notify(message, title=title, markup=True)",
    "self.border_title = run_id",
    "self.tooltip: str = f'{x}'",
    "self.query_one(Static).update(f'{x}')",
    "self.body.update('a [b] ' + x)",
    "table.add_row(run.id, run.prompt)",
    "Content.from_markup(prompt)",
    "Content.from_markup(f'[b]{prompt}[/]')",
    "Text.from_ansi(output)",
    "DataTable()",
    "Markdown(text)",
    "subprocess.run(command, shell=True)",
    "subprocess.Popen(command, shell=flag)",
    "os.system('ls')",
    "eval(text)",
    "text.splitlines()",
    "print('hello')",
    "from rich.markup import escape",
    "from textual.markup import escape as e",
    "import mmap",
    "try:\n    f()\nexcept Exception:\n    pass",
    "try:\n    f()\nexcept:\n    pass",
]


@pytest.mark.parametrize("source", BAD)
def test_each_rule_catches_its_fault(source: str) -> None:
    assert faults(source, prints=False)


GOOD = [
    "Static('Nothing here yet')",
    "Static(prompt, markup=False)",
    "Static(Content(prompt))",
    "Static(Content.assemble((prompt, 'bold')))",
    "Static()",
    "super().notify(str(error), markup=False)",
    "self.notify(str(error))",
    "self.border_title = Content(run_id)",
    "names.update(other)",
    "digest.update(b'[' * count)",
    "names.update({'a': 1})",
    "Content.from_markup('[b]$x[/]', x=prompt)",
    "subprocess.run([program, path])",
    "data.split(b'\\n')",
    "try:\n    f()\nexcept OSError:\n    pass",
]


@pytest.mark.parametrize("source", GOOD)
def test_safe_code_passes(source: str) -> None:
    assert faults(source, prints=False) == []
