"""The table of keys, those of each place in the order of their weight: for help, and for the footer."""

from __future__ import annotations

from typing import Final

from refold.app.key_row import Key
from refold.app.key_rows_beyond import BEYOND
from refold.app.key_rows_screens import SCREENS

TABLE: Final[tuple[Key, ...]] = (
    *SCREENS,
    *BEYOND,
    # Every list.
    Key("list.up", "up,k", "cursor_up", "One row up", "", "Move", "move"),
    Key("list.down", "down,j", "cursor_down", "One row down", "", "Move", "move"),
    Key("list.page_up", "pageup", "page_up", "One page up", "", "Move"),
    Key("list.page_down", "pagedown", "page_down", "One page down", "", "Move"),
    Key("list.first", "home,g", "first", "The first row", "", "Move"),
    Key("list.last", "end,G", "last", "The last row", "", "Move"),
    # Every text.
    Key("pager.up", "up,k", "scroll_up", "Scroll up", "", "Move", "scroll"),
    Key("pager.down", "down,j", "scroll_down", "Scroll down", "", "Move", "scroll"),
    Key("pager.page_up", "pageup", "page_up", "Scroll a page up", "", "Move"),
    Key("pager.page_down", "pagedown,space", "page_down", "Scroll a page down", "", "Move"),
    Key("pager.first", "home,g", "scroll_home", "The first line", "", "Move"),
    Key("pager.last", "end,G", "scroll_end", "The last line", "", "Move"),
    Key("pager.left", "shift+left", "scroll_left", "Scroll to the left", "", "Move"),
    Key("pager.right", "shift+right", "scroll_right", "Scroll to the right", "", "Move"),
    # Everywhere.
    Key(
        "app.palette",
        "ctrl+p",
        "command_palette",
        "Palette",
        "Every action by name",
        "Program",
        "palette",
        priority=True,
    ),
    Key("app.quit", "q", "quit", "Quit", "Leave Refold", "Program", "quit"),
    Key(
        "app.quit_anywhere",
        "ctrl+q",
        "quit",
        "Quit anywhere",
        "Leave Refold, also from a dialog or while typing",
        "Program",
        priority=True,
    ),
    Key("app.utc", "U", "utc", "Local time or UTC", "Wherever times stand", "Program"),
    Key("app.help", "question_mark,f1", "help", "Help", "Keys, glyphs and words", "Program", "help"),
)
