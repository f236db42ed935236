"""`refold serve`: the full screen in a browser of this machine."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import socket
import sys

from refold.app.cli_exit import FINE
from refold.app.cli_print import Printer
from refold.app.cli_run import find_run, target
from refold.app.settings import Settings
from refold.core.errors import RefoldError


class NotServed(RefoldError):
    """The screen cannot be served; the text says why."""


def run(arguments: argparse.Namespace, settings: Settings, printer: Printer) -> int:
    """Serve the screen until a signal ends it.

    Raises:
        StoreError: there is no such run.
        NotServed: textual-serve is not installed, or the address cannot be listened on.
    """
    if arguments.run:
        find_run(target(arguments.run).run, settings)
    try:
        from refold.app.serving import RefoldServer
    except ModuleNotFoundError as error:
        raise NotServed(
            f"{error.name} is not installed, and serve needs it",
            remedy="in the directory of its source: pip install '.[serve]'",
        ) from error
    listening = _listen(arguments.host, arguments.port)
    with listening:
        server = RefoldServer(_command(arguments, settings), listening, arguments.host)
        printer.raw(f"{server.url}\n")
        printer.flush()
        looking = "what is shown can also be changed" if arguments.writable else "to look only"
        printer.note(f"refold: served {looking}, for who has this address; Ctrl-C ends it")
        if not _is_loopback(arguments.host):
            printer.note(
                f"refold: {arguments.host} can be reached from other machines, and nothing is encrypted: "
                "whoever reads along has the address, and the runs"
            )
        asyncio.run(server.run())
    return FINE


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
            listening.listen(16)
        except BaseException:
            listening.close()
            raise
    except (OSError, OverflowError, UnicodeError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise NotServed(
            f"{host} port {port} cannot be listened on: {said}", remedy="--port 0 takes a free one"
        ) from error
    return listening


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _command(arguments: argparse.Namespace, settings: Settings) -> list[str]:
    """Give what starts the screen of one browser: the same program with the same directories."""
    words = [sys.executable, "-m", "refold.app"]
    if not arguments.writable:
        words.append("--read-only")
    for root in settings.roots:
        if root.origin == "--root":
            words += ["--root", str(root.path)]
    if all(root.origin == "--root" for root in settings.roots):
        words.append("--only")
    if settings.cache_dir is None:
        words.append("--no-cache")
    words += ["--theme", settings.theme]
    return [*words, "open", arguments.run] if arguments.run else words
