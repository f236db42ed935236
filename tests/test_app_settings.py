"""Where things lie, what the configuration may say, and how it says what is wrong."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from refold.app.config import ConfigError
from refold.app.log import record_fault
from refold.app.settings import Options, load


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "LANG": "C.UTF-8", "TERM": "xterm", **more}


def config(home: Path, text: str | bytes) -> Path:
    path = home / ".config" / "refold" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_defaults_follow_xdg(tmp_path: Path) -> None:
    settings = load(environ=environ(tmp_path))
    state = tmp_path / ".local" / "state"
    assert [(r.path, r.hint, r.origin) for r in settings.roots] == [
        (state / "refold" / "runs", "refold", "default"),
        (state / "fisk-ai" / "runs", "fisk-ai", "default"),
        (state / "rivumi" / "runs", "rivumi", "default"),
        (state / "looplane" / "runs", "rivumi", "default"),
    ]
    assert [root.path for root in settings.conversations] == [
        state / "rivumi" / "conversations",
        state / "looplane" / "conversations",
    ]
    assert settings.state_dir == state / "refold"
    assert settings.log_file == state / "refold" / "refold.log"
    assert settings.cache_dir == tmp_path / ".cache" / "refold"
    assert settings.config_file == tmp_path / ".config" / "refold" / "config.toml"
    assert [settings.no_color, settings.ascii, settings.dumb, settings.utc] == [False] * 4


def test_xdg_variables_count_when_absolute(tmp_path: Path) -> None:
    there = {"XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/c", "XDG_CONFIG_HOME": "/e"}
    settings = load(environ=environ(tmp_path, **there))
    assert settings.roots[0].path == Path("/s/refold/runs")
    assert settings.cache_dir == Path("/c/refold")
    assert settings.config_file == Path("/e/refold/config.toml")


@pytest.mark.parametrize("value", ["", "state", "./state", "~/state"])
def test_a_relative_or_empty_xdg_variable_counts_as_unset(value: str, tmp_path: Path) -> None:
    settings = load(
        environ=environ(tmp_path, XDG_STATE_HOME=value, XDG_CACHE_HOME=value, XDG_CONFIG_HOME=value)
    )
    plain = load(environ=environ(tmp_path))
    assert settings.roots[:2] == plain.roots[:2]
    assert (settings.state_dir, settings.cache_dir, settings.config_file) == (
        plain.state_dir, plain.cache_dir, plain.config_file,
    )  # fmt: skip


@pytest.mark.parametrize("value", ["", "state", "./state"])
def test_an_empty_or_relative_state_home_is_relative_for_rivumi(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load(environ=environ(tmp_path / "home", XDG_STATE_HOME=value))
    base = tmp_path / value
    assert [root.path for root in settings.roots[2:]] == [base / "rivumi/runs", base / "looplane/runs"]


def test_the_variables_of_rivumi_come_first_and_hide_nothing(tmp_path: Path) -> None:
    old = tmp_path / ".local" / "state" / "python-coding-agent"
    (old / "runs").mkdir(parents=True)
    (old / "conversations").write_bytes(b"")
    settings = load(
        environ=environ(
            tmp_path,
            RIVUMI_RUN_ROOT="/r",
            LOOPLANE_RUN_ROOT="",
            PCA_RUN_ROOT=str(old / "runs"),
            PCA_CONVERSATION_ROOT="/c",
        )
    )
    state = tmp_path / ".local" / "state"
    assert [(str(r.path), r.origin) for r in settings.roots[2:]] == [
        ("/r", "RIVUMI_RUN_ROOT"),
        (str(old / "runs"), "PCA_RUN_ROOT"),
        (str(state / "rivumi" / "runs"), "default"),
        (str(state / "looplane" / "runs"), "default"),
    ]
    assert {root.hint for root in settings.roots[2:]} == {"rivumi"}
    assert [(str(r.path), r.origin) for r in settings.conversations] == [
        ("/c", "PCA_CONVERSATION_ROOT"),
        (str(state / "rivumi" / "conversations"), "default"),
        (str(state / "looplane" / "conversations"), "default"),
    ]
    (old / "conversations").unlink()
    (old / "conversations").mkdir()
    assert load(environ=environ(tmp_path)).conversations[-1].path == old / "conversations"
    only = load(Options(roots=(Path("/a"),), only=True), environ(tmp_path, RIVUMI_RUN_ROOT="/r"))
    assert [str(root.path) for root in (*only.roots, *only.conversations)] == ["/a", "/a"]


@pytest.mark.parametrize("home", [None, "", "relative"])
def test_without_a_home_the_password_file_tells(home: str | None) -> None:
    settings = load(environ={} if home is None else {"HOME": home})
    assert all(root.path.is_absolute() for root in settings.roots)


def test_a_user_without_any_home_has_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 987_654)
    assert load(environ={}).state_dir == Path("/.local/state/refold")


def test_the_command_line_adds_roots_and_can_leave_out_the_others(tmp_path: Path) -> None:
    config(tmp_path, 'roots = ["/from/config"]')
    both = Options(roots=(Path("/a"), Path("b")))
    assert [(str(r.path), r.origin) for r in load(both, environ(tmp_path)).roots[4:]] == [
        ("/from/config", "config"),
        ("/a", "--root"),
        (str(Path.cwd() / "b"), "--root"),
    ]
    only = Options(roots=(Path("/a"),), only=True)
    assert [str(r.path) for r in load(only, environ(tmp_path)).roots] == ["/a"]


def test_no_cache_and_theme_come_from_the_command_line(tmp_path: Path) -> None:
    config(tmp_path, 'theme = "refold-light"')
    assert load(Options(no_cache=True), environ(tmp_path)).cache_dir is None
    assert load(environ=environ(tmp_path)).theme == "refold-light"
    assert load(Options(theme="refold-contrast"), environ(tmp_path)).theme == "refold-contrast"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"LC_ALL": "C"}, True),
        ({"LC_ALL": "", "LC_CTYPE": "POSIX"}, True),
        ({"LANG": "de_DE.ISO-8859-1"}, True),
        ({"LANG": "de_DE"}, True),
        ({"LANG": "de_DE.utf8"}, False),
        ({"LC_ALL": "C", "LC_CTYPE": "C.UTF-8"}, True),
        ({"LC_CTYPE": "UTF-8", "LANG": "C"}, False),
        ({}, False),
    ],
)
def test_ascii_where_the_locale_is_not_utf8(variables: dict[str, str], expected: bool) -> None:
    assert load(environ={"HOME": "/h", **variables}).ascii is expected


def test_no_color_counts_when_it_is_not_empty() -> None:
    assert load(environ={"HOME": "/h", "NO_COLOR": "1"}).no_color
    assert not load(environ={"HOME": "/h", "NO_COLOR": ""}).no_color


def test_everything_the_file_may_say(tmp_path: Path) -> None:
    config(
        tmp_path,
        """
theme = "refold-contrast"
utc = true
columns = ["status", "id"]
roots = ["~/one", "two", {path = "/three", format = "fisk-ai"}]

[keys]
"run.search" = "ctrl+f"
""",
    )
    settings = load(environ=environ(tmp_path))
    assert settings.theme == "refold-contrast"
    assert settings.utc
    assert settings.columns == ("status", "id")
    assert dict(settings.keymap) == {"run.search": "ctrl+f"}
    assert [(r.path, r.hint) for r in settings.roots[4:]] == [
        (tmp_path / "one", "refold"),
        (tmp_path / ".config" / "refold" / "two", "refold"),
        (Path("/three"), "fisk-ai"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("roots = [3]", 1, ["roots[0]", "must be a table"]),
        ("columns = 3", 1, ["columns", "must be a list"]),
        ("columns = [3]", 1, ["columns[0]", "must be text"]),
        ("utc = 1", 1, ["utc", "must be true or false"]),
        ("theme = 3", 1, ["theme", "text in quotes"]),
        ("# a\n\n\ncolour = 1\n", 4, ["colour", "no such setting"]),
        ('utc = "yes"', 1, ["utc", "true or false"]),
        ('theme = "x"\n[keys]\n# c\n"run.search" = 5\n', 4, ["keys.run.search", "text in quotes"]),
        ('[keys]\n"run.serch" = "f"\n', 1, ["keys", "run.serch", "did you mean run.search"]),
        ('[keys]\n"runs.search" = ""\n', 1, ["runs.search needs a key"]),
        ('[keys]\n"runs.search" = "f5,"\n', 1, ["runs.search needs a key"]),
        ('[keys]\n"runs.postmortem" = "r"\n', 1, ["'r' would start both runs.postmortem and runs.resume"]),
        ('columns = [\n"id",\n"statsu"]', 1, ["columns", "did you mean status"]),
        ('roots = [\n  "a",\n  7,\n]\n', 1, ["roots[1]"]),
        ('[[roots]]\npath = "a"\n\n[[roots]]\npath = "b"\nformat = "x"\n', 6, ["roots[1].format", "fisk-ai"]),
        ('[[roots]]\npath = "a"\n[[roots]]\nformat = "refold"\n', 3, ["roots[1].path", "is missing"]),
        ('theme = """\nutc = 7\n"""\nutc = 7\n', 4, ["utc"]),
        ("theme = \n", 1, ["invalid value"]),
        ("a = 1\na = 2\n", 2, ["overwrite"]),
        (b"theme = 'x'\n# \xff\n", 2, ["UTF-8"]),
    ],
)
def test_an_error_names_file_line_and_key(
    text: str | bytes, line: int, words: list[str], tmp_path: Path
) -> None:
    path = config(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(environ=environ(tmp_path))
    said = str(caught.value)
    assert said.startswith(f"{path}:{line}: "), said
    for word in words:
        assert word.lower() in said.lower()
    assert "\n" not in said


def test_a_configuration_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    path = tmp_path / ".config" / "refold" / "config.toml"
    path.mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"config\.toml"):
        load(environ=environ(tmp_path))


def test_the_log_says_where_and_never_what(tmp_path: Path) -> None:
    log = tmp_path / "state" / "refold.log"
    secret = "the text of a record"

    def fail() -> None:
        try:
            raise KeyError(secret) if secret else ValueError
        except KeyError as error:
            raise ValueError(secret + "\x1b]0;x\x07") from error

    with pytest.raises(ValueError, match=secret) as caught:
        fail()
    assert record_fault(log, caught.value) == log
    assert record_fault(log, caught.value) == log
    said = log.read_text()
    assert said.count("builtins.ValueError") == 2
    assert "builtins.KeyError" in said
    assert "test_app_settings.py:" in said
    assert secret not in said
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700


def test_a_log_that_cannot_be_written_is_no_second_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert record_fault(tmp_path / "file" / "refold.log", ValueError()) is None
    (tmp_path / "link").symlink_to(tmp_path / "target")
    assert record_fault(tmp_path / "link", ValueError()) is None
    os.mkfifo(tmp_path / "pipe")
    assert record_fault(tmp_path / "pipe", ValueError()) is None
    assert record_fault(None, ValueError()) is None


def test_a_configured_directory_may_hold_runs_of_rivumi(tmp_path: Path) -> None:
    config(tmp_path, 'roots = [{path = "/runs", format = "rivumi"}]')
    assert [(str(r.path), r.hint) for r in load(environ=environ(tmp_path)).roots[4:]] == [("/runs", "rivumi")]


def test_a_pipe_in_the_place_of_the_configuration_is_refused_and_a_link_is_followed(tmp_path: Path) -> None:
    file = config(tmp_path, "utc = true")
    real = file.rename(tmp_path / "dotfile")
    file.symlink_to(real)
    assert load(Options(), environ(tmp_path)).utc
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ConfigError, match="a named pipe, not a file") as refused:
        load(Options(), environ(tmp_path))
    assert refused.value.remedy
