"""Taking over a terminal on which rows stand already."""

from __future__ import annotations

from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver

from refold.app.first_rows import ENTER, FirstRows


def driver_onto(rows: FirstRows) -> type[Driver]:
    """Give a driver that finds the other screen of the terminal taken, and does not clear it once more.

    Terminals clear it whenever a program asks for it: the rows would be gone until the first drawing.
    """

    class Onto(LinuxDriver):
        def start_application_mode(self) -> None:
            super().start_application_mode()  # type: ignore[no-untyped-call]
            rows.take()

        def write(self, data: str) -> None:
            if data != ENTER or rows.taken:
                super().write(data)

    return Onto
