"""The drawn characters that are not letters, what they mean, and what stands for them in plain ASCII.

Every one is in DejaVu Sans Mono and JetBrains Mono and takes one cell; so does what stands for it.
"""

from __future__ import annotations

from typing import Final

ASCII: Final[dict[str, str]] = {
    # marks
    "●": "*",
    "◆": "#",
    "◇": "o",
    "✓": "+",
    "√": "+",
    "✗": "x",
    "╳": "x",
    "×": "x",
    "⚠": "!",
    "■": "=",
    "▮": "=",
    "▪": "-",
    "▾": "v",
    "▸": ">",
    "▶": ">",
    "◂": "<",
    "◀": "<",
    "▼": "v",
    "▲": "^",
    "⋯": ".",
    "…": ".",
    "ψ": "Y",
    "‹": "<",
    "›": ">",
    "·": ".",
    "•": "*",
    "◌": "o",
    "⏎": "$",
    "–": "-",
    "—": "-",
    "−": "-",
    "“": '"',
    "”": '"',
    "„": '"',
    "‘": "'",
    "’": "'",
    "≈": "~",
    "≤": "<",
    "≥": ">",
    "␡": "?",
    # arrows
    "←": "<",
    "→": ">",
    "↑": "^",
    "↓": "v",
    "↵": "<",
    "⇥": ">",
    "↔": "-",
    "↕": "|",
    # lines
    **dict.fromkeys("─╌┄┈╴╶━╍┅┉╸╺═▔▁", "-"),
    **dict.fromkeys("│╎┆┊╵╷┃╏┇┋╹╻║▏▎▍▌▐▕", "|"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╯╰╱╲┏┓┗┛┣┫┳┻╋╔╗╚╝╠╣╦╩╬", "+"),
    # amounts
    "▂": ".",
    "▃": ":",
    "▄": ":",
    "▅": "+",
    "▆": "*",
    "▇": "#",
    "█": "#",
    "░": ".",
    "▒": ":",
    "▓": "#",
    "▀": "^",
    "▊": "|",
    "▋": "|",
    "▉": "#",
}

MEANINGS: Final[tuple[tuple[str, str], ...]] = (
    ("◇", "the first record: what the run was begun with"),
    ("●", "what the user said"),
    ("◆", "what the assistant said"),
    ("├→ └→", "a call of a tool"),
    ("├  └", "its result"),
    ("■ ✓ ▮", "the last record: stopped, completed, suspended"),
    ("ψ RUN", "in the first row: that run was forked after this record"),
    ("▶ ▮ ■", "while a run is played: it plays, it is paused, a breakpoint stopped it"),
    (
        "▸",
        "an event or a note; changed by this record, in State; marked, in the list; differs, in a comparison",
    ),
    ("✗", "an error"),
    ("⚠", "damage, with its count: a place that cannot be read"),
    ("ψ", "a fork: beside ready, a fork that nobody has gone on with; beside a run, that it is one"),
    (
        "ψ seq",
        "in the first row: a fork may begin after this record; ψ pending: with calls pending",
    ),
    ("┤ ┆", "after this record a fork may begin: between turns; with calls pending"),
    ("╵", "the same below the ruler, between turns"),
    ("*  ▪", "in the list of runs: starred by you; noted by you, on records too"),
    ("┃", "the cursor on the ruler"),
    ("…  ⋯", "cut to fit; not read yet"),
    ("␛ ‹RLO›", "a character that would command or confuse the terminal, by its name"),
    ("‹xFF›", "a byte that is no text"),
)
"""The legend of the help page."""


def to_ascii(text: str) -> str:
    """The text in ASCII, cell for cell; what has no likeness becomes question marks."""
    if text.isascii():
        return text
    from refold.app.safe import width

    return "".join(
        character if character.isascii() else ASCII.get(character, "?" * width(character))
        for character in text
    )
