"""The full screen in a browser, by textual-serve; for this machine, for who holds the key, and to look only.

A page of another site can send a browser to any address of this machine: what names another host, comes
from another origin, or lacks the key is refused before it reaches a screen (DNS rebinding, hijacked web
sockets).
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from shlex import join
from typing import Final

import aiohttp_jinja2
import jinja2
from aiohttp import web
from textual_serve.server import Server

_COOKIE: Final = "refold"
_POLICY: Final = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self' {socket}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Also keeps the page from asking another site for its font."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Sentence(logging.Filter):
    """Says that a browser was cut off, where the server would print the trace of what it could not read."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten one record; every one is let through."""
        if record.exc_info:
            record.msg = "refold: a browser sent what is no message of the screen, and was cut off"
            record.args, record.exc_info, record.exc_text = (), None, None
        return True


class RefoldServer:
    """Starts one screen for each browser tab."""

    def __init__(self, command: Sequence[str], listening: socket.socket, host: str) -> None:
        """Serve a screen.

        Args:
            command: What starts it, as an argument list.
            listening: Where requests come in.
            host: How that is called in addresses.
        """
        port = listening.getsockname()[1]
        self.address = f"{f'[{host}]' if ':' in host else host}:{port}"
        self.origin = f"http://{self.address}"
        self.key = secrets.token_urlsafe(16)
        """Who knows it may look; it is in the address that is printed, and nowhere else."""
        logging.getLogger("textual-serve").addFilter(_Sentence())
        # It hands the command to a shell, so every word of it is quoted.
        self._server = Server(join(command), host, port, "Refold", self.origin)
        self._listening = listening

    @property
    def url(self) -> str:
        """The address to open."""
        return f"{self.origin}/?key={self.key}"

    def application(self) -> web.Application:
        """Give what answers: the page, its files, and a web socket for each screen."""

        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._guard(request, handler)

        server = self._server
        app = web.Application(middlewares=[web.middleware(guard)])
        aiohttp_jinja2.setup(app, loader=jinja2.FileSystemLoader(server.templates_path))
        app.router.add_get("/", server.handle_index, name="index")
        app.router.add_get("/ws", server.handle_websocket, name="websocket")
        app.router.add_static("/static", server.statics_path, name="static")
        return app

    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("Host", "") != self.address:
            raise web.HTTPMisdirectedRequest(text=f"This is {self.address}, and nothing else.\n")
        origin = request.headers.get("Origin")
        if origin is not None and origin != self.origin:
            raise web.HTTPForbidden(text="Another site may not look at this.\n")
        told = request.query.get("key", "") or request.cookies.get(_COOKIE, "")
        if not hmac.compare_digest(told.encode(), self.key.encode()):
            raise web.HTTPForbidden(text="The key is missing: open the address that refold serve printed.\n")
        if request.path == "/" and "key" in request.query:
            # The key leaves the address bar, and what is copied from there.
            found = web.HTTPFound("/")
            found.set_cookie(_COOKIE, self.key, httponly=True, samesite="Strict", path="/")
            raise found
        response = await handler(request)
        if not response.prepared:
            response.headers["Content-Security-Policy"] = _POLICY.format(socket=f"ws://{self.address}")
            response.headers["Referrer-Policy"] = "no-referrer"
            response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    async def run(self) -> None:
        """Serve until a signal ends it."""
        runner = web.AppRunner(self.application(), handle_signals=False, shutdown_timeout=2.0)
        await runner.setup()
        try:
            await web.SockSite(runner, self._listening).start()
            stopped = asyncio.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, stopped.set)
            await stopped.wait()
        finally:
            with contextlib.suppress(OSError):
                await runner.cleanup()
