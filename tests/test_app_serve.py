"""The screen in a browser: a real request and a real web socket on loopback, and everybody else refused."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests import story

from refold.app.cli import main

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse

aiohttp = pytest.importorskip("aiohttp", reason="the extra refold[serve] is not installed")
pytest.importorskip("textual_serve", reason="the extra refold[serve] is not installed")


@asynccontextmanager
async def served(directory: Path) -> AsyncIterator[str]:
    """Start `refold serve`, and give the address that it prints."""
    (directory / "leaky.json").write_bytes(story.Writing("leaky", "look at this").end("completed").data)
    command = [
        sys.executable,
        "-m",
        "refold.app",
        "--root",
        str(directory),
        "--only",
        "serve",
        "leaky",
    ]
    child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert child.stdout is not None
        yield (await asyncio.wait_for(child.stdout.readline(), 30)).decode().strip()
    finally:
        child.send_signal(signal.SIGTERM)
        _, said = await asyncio.wait_for(child.communicate(), 30)
        assert child.returncode == 0
        assert b"Traceback" not in said


async def heard(socket: ClientWebSocketResponse, wanted: bytes) -> None:
    """Wait until the screen has drawn something."""
    said = b""
    async with asyncio.timeout(30):
        while wanted not in said:
            message = await socket.receive()
            assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), message
            said += message.data if isinstance(message.data, bytes) else message.data.encode()


async def answered(socket: ClientWebSocketResponse, key: str, wanted: bytes) -> None:
    """Press a key until the screen answers: what comes in its first moments is not taken for typing."""
    for _ in range(10):
        await socket.send_json(["stdin", key])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(3):
                await heard(socket, wanted)
            return
    raise AssertionError(f"{key} was not answered with {wanted!r}")


async def test_a_browser_looks_and_cannot_write(tmp_path: Path) -> None:
    async with (
        served(tmp_path) as url,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        base, _, key = url.partition("/?key=")
        assert base.startswith("http://127.0.0.1:")
        assert len(key) > 20
        async with session.get(f"{base}/") as answer:
            assert answer.status == 403
            assert "key is missing" in await answer.text()
        async with session.get(url, headers={"Host": "evil.example"}) as answer:
            assert answer.status == 421
        async with session.get(f"{base}/?key=wrong") as answer:
            assert answer.status == 403
        async with session.get(url) as answer:
            assert answer.status == 200
            assert answer.url.query_string == ""
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            assert f"ws://{base.removeprefix('http://')}/ws" in await answer.text()
        async with session.get(f"{base}/static/js/textual.js") as answer:
            assert answer.status == 200
        socket = f"{base}/ws?width=100&height=30"
        for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}):
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await session.ws_connect(socket, headers=headers)
        async with session.ws_connect(socket, headers={"Origin": base}) as opened:
            await heard(opened, b"look at this")
            await answered(opened, "f", b"look only")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["leaky.json"]


async def test_what_is_no_message_ends_a_connection_only(tmp_path: Path) -> None:
    async with (
        served(tmp_path) as url,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        base = url.partition("/?key=")[0]
        async with session.get(url) as answer:
            assert answer.status == 200
        async with session.ws_connect(f"{base}/ws?width=100&height=30", headers={"Origin": base}) as opened:
            await heard(opened, b"look at this")
            await opened.send_str("{")
            async with asyncio.timeout(30):
                while not (await opened.receive()).type & 0x100:
                    pass
        async with session.get(f"{base}/") as answer:
            assert answer.status == 200


def test_what_cannot_be_served_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["serve", "--host", "203.0.113.7"]) == 2
    assert "cannot be listened on" in capsys.readouterr().err
    assert main(["serve", "--port", "99999"]) == 2
    assert "cannot be listened on" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "textual_serve.server", None)
    monkeypatch.delitem(sys.modules, "refold.app.serving", raising=False)
    assert main(["serve"]) == 2
    assert "pip install '.[serve]'" in capsys.readouterr().err
