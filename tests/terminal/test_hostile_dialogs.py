"""Hostile text reaches no terminal from the dialogs before a resume and a fork, nor from the lineage."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.terminal import hostile, wire
from tests.terminal.payloads import PAYLOADS
from tests.terminal.program import environment, refold
from tests.terminal.terminal import Terminal

FAILS = """
def agent():
    raise ValueError({!r})
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs whose every field holds a payload, and an agent that fails with one."""
    where = tmp_path_factory.mktemp("hostile")
    hostile.directory(where, style="native")
    (where / "bad_agent.py").write_text(FAILS.format(" ".join(PAYLOADS.values())))
    return where


@pytest.mark.parametrize("size", [(120, 40), (60, 20)], ids=["large", "small"])
def test_every_dialog_over_every_payload(store: Path, tmp_path: Path, size: tuple[int, int]) -> None:
    runs = sorted(store.glob("h[0-9]*.json"))[:: len(PAYLOADS) // 2]
    env = environment(tmp_path, PYTHONPATH=str(store))
    for path in [*runs, store / "all.json", store / "broken.json"]:
        with Terminal(refold("open", path), env=env, columns=size[0], rows=size[1]) as terminal:
            terminal.wait(path.stem[:4])
            terminal.send("r")
            terminal.wait("esc back")
            terminal.settle(0.3)
            terminal.press("pagedown", "end", "home", settle=0.03)
            if "agent" in terminal.text:
                terminal.send("c")
                terminal.wait("enter accept")
                terminal.send("bad_agent:agent", "enter")
                terminal.settle(0.8)
                terminal.press("end", "home", "x", "u", settle=0.03)
            terminal.press("escape", settle=0.1)
            terminal.press("end", "(", "(", ")", settle=0.03)
            terminal.send("f")
            terminal.wait("esc back")
            terminal.settle(0.2)
            terminal.press("(", "(", ")", "pagedown", "end", settle=0.03)
            terminal.press("escape", settle=0.1)
            terminal.send("l")
            terminal.wait("seq it was forked after")
            terminal.settle(0.3)
            terminal.press("down", "down", "end", "home", settle=0.03)
            terminal.press("escape", "escape", "escape", settle=0.1)
            assert terminal.alive, terminal.text
            assert terminal.quit() == 0
            assert wire.offences(bytes(terminal.sent), typed=True)[:10] == []
            assert wire.not_restored(bytes(terminal.sent)) == []
            assert terminal.replies == []
