"""The looks of Refold: dark, light, high contrast, and the terminal's own sixteen colours."""

from __future__ import annotations

from typing import Final

from textual.theme import BUILTIN_THEMES, Theme

from refold.app.palettes import BASE, PALETTES


def _theme(name: str, *, dark: bool = True, ansi: bool = False) -> Theme:
    colours = PALETTES[name]
    own = {variable: value for variable, value in colours.items() if variable not in BASE}
    return Theme(
        name=name,
        primary=colours["primary"],
        secondary=colours["secondary"],
        warning=colours["warning"],
        error=colours["error"],
        success=colours["success"],
        accent=colours["accent"],
        foreground=colours["foreground"],
        background=colours["background"],
        surface=colours["surface"],
        panel=colours["panel"],
        boost=colours.get("boost"),
        dark=dark,
        ansi=ansi,
        variables={**(BUILTIN_THEMES["ansi-dark"].variables if ansi else {}), **own},
    )


DARK: Final = _theme("refold-dark")
LIGHT: Final = _theme("refold-light", dark=False)
CONTRAST: Final = _theme("refold-contrast")
ANSI: Final = _theme("refold-ansi", ansi=True)

THEMES: Final = (DARK, LIGHT, CONTRAST, ANSI)
NAMES: Final = tuple(theme.name for theme in THEMES)


def every_name() -> tuple[str, ...]:
    """Give the names of all themes that may be chosen: ours, then those of Textual."""
    return (*NAMES, *(name for name in BUILTIN_THEMES if name not in NAMES))


def own_variables(theme: Theme) -> dict[str, str]:
    """Values of our variables for a theme that does not set them, made from those that it does set."""
    colours = theme.to_color_system().generate()
    return {
        "muted": colours["foreground-darken-3" if theme.dark else "foreground-lighten-3"],
        "here": "ansi_default" if theme.ansi else colours["primary-muted"],
        "kind-call": colours["warning"],
        "kind-fork": colours["secondary"],
    } | theme.variables
