"""The colours of our own looks, by variable: dark, light, high contrast, and the terminal's own sixteen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PALETTES: Final[Mapping[str, Mapping[str, str]]] = {
    "refold-dark": {
        "primary": "#7aa2f7",
        "secondary": "#7dcfff",
        "warning": "#e0995e",
        "error": "#f7768e",
        "success": "#9ece6a",
        "accent": "#e6b450",
        "foreground": "#d3d8e6",
        "background": "#14161d",
        "surface": "#1a1d26",
        "panel": "#1a1d26",
        "muted": "#7f87a1",
        "here": "#283457",
        "kind-call": "#d9b380",
        "kind-fork": "#bb9af7",
        "scrollbar": "#3a4158",
        "scrollbar-background": "#14161d",
    },
    "refold-light": {
        "primary": "#2a5bc4",
        "secondary": "#0f6f94",
        "warning": "#a8500f",
        "error": "#bd2443",
        "success": "#3c7118",
        "accent": "#8f5c00",
        "foreground": "#22252e",
        "background": "#faf9f6",
        "surface": "#f0eee8",
        "panel": "#f0eee8",
        "muted": "#646978",
        "here": "#d6e2fb",
        "kind-call": "#7a5a1e",
        "kind-fork": "#7740bd",
        "scrollbar": "#c3c3c0",
        "scrollbar-background": "#faf9f6",
    },
    "refold-contrast": {
        "primary": "#8ab8ff",
        "secondary": "#6be6ff",
        "warning": "#ffb347",
        "error": "#ff8095",
        "success": "#8dff6b",
        "accent": "#ffe14d",
        "foreground": "#ffffff",
        "background": "#000000",
        "surface": "#000000",
        "panel": "#000000",
        "muted": "#c2c2c2",
        "here": "#0b3d91",
        "kind-call": "#ffd28a",
        "kind-fork": "#dcbcff",
        "scrollbar": "#ffffff",
        "scrollbar-background": "#000000",
    },
    "refold-ansi": {
        "primary": "ansi_blue",
        "secondary": "ansi_cyan",
        "warning": "ansi_yellow",
        "error": "ansi_red",
        "success": "ansi_green",
        "accent": "ansi_yellow",
        "foreground": "ansi_default",
        "background": "ansi_default",
        "surface": "ansi_default",
        "panel": "ansi_default",
        "boost": "ansi_default",
        "muted": "ansi_bright_black",
        "here": "ansi_default",
        "kind-call": "ansi_yellow",
        "kind-fork": "ansi_magenta",
    },
}
"""By the name of the look."""

BASE: Final = frozenset(
    {"primary", "secondary", "warning", "error", "success", "accent", "foreground", "background"}
    | {"surface", "panel", "boost"}
)
"""The colours that every look has; the others are our own names."""
