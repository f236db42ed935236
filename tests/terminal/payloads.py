"""Text that attacks a viewer: its terminal, its markup, its keys, its layout.

Where Textual sends the same sequence, the payload carries the parameter 7371, which no terminal minds and
Textual never sends. Every payload is a legal string of a JSON journal; `SPELLINGS` are raw bytes inside a
JSON string that are no legal JSON or no legal UTF-8.
"""

from __future__ import annotations

import base64

CLIPBOARD = "d3ABcL1pB0ard"
"""Stands in the clipboard only if a payload wrote it there."""
TITLE = "t1tle-0wned"
"""Stands in the window title only if a payload wrote it there."""

_COPY = base64.b64encode(CLIPBOARD.encode()).decode()
_ESC, _BEL, _ST = "\x1b", "\x07", "\x1b\\"
_CSI, _OSC, _ST8 = "\x9b", "\x9d", "\x9c"

ESCAPES: dict[str, str] = {
    "osc-52-bel": f"a{_ESC}]52;c;{_COPY}{_BEL}b",
    "osc-52-st": f"a{_ESC}]52;c;{_COPY}{_ST}b",
    "osc-52-c1": f"a{_OSC}52;c;{_COPY}{_ST8}b",
    "osc-52-primary": f"a{_ESC}]52;p;{_COPY}{_BEL}b",
    "osc-52-query": f"a{_ESC}]52;c;?{_BEL}b",
    "osc-52-open": f"a{_ESC}]52;c;{_COPY}",
    "osc-0": f"a{_ESC}]0;{TITLE}{_BEL}b",
    "osc-2-st": f"a{_ESC}]2;{TITLE}{_ST}b",
    "osc-2-c1": f"a{_OSC}2;{TITLE}{_ST8}b",
    "osc-1-icon": f"a{_ESC}]1;{TITLE}{_BEL}b",
    "osc-4-palette": f"a{_ESC}]4;1;rgb:ff/00/00{_BEL}b",
    "osc-7-directory": f"a{_ESC}]7;file:///etc{_BEL}b",
    "osc-8-link": f"a{_ESC}]8;;https://evil.example/{_ST}click{_ESC}]8;;{_ST}b",
    "osc-8-script": f"a{_ESC}]8;;javascript:alert(1){_BEL}click{_ESC}]8;;{_BEL}b",
    "osc-9-notify": f"a{_ESC}]9;pay up{_BEL}b",
    "osc-10-query": f"a{_ESC}]10;?{_BEL}b",
    "osc-11-query": f"a{_ESC}]11;?{_BEL}b",
    "osc-50-font": f"a{_ESC}]50;?{_BEL}b",
    "osc-777-notify": f"a{_ESC}]777;notify;x;y{_BEL}b",
    "osc-1337-file": f"a{_ESC}]1337;File=inline=1:{_COPY}{_BEL}b",
    "tmux-title": f"a{_ESC}k{TITLE}{_ST}b",
    "csi-clear": f"a{_ESC}[2J{_ESC}[Hb",
    "csi-clear-c1": f"a{_CSI}2J{_CSI}Hb",
    "csi-scrollback": f"a{_ESC}[3Jb",
    "csi-move": f"a{_ESC}[1;7371HFAKE PROMPT{_ESC}[7371;1Hb",
    "csi-scroll-region": f"a{_ESC}[5;10rb",
    "csi-hide": f"a{_ESC}[8;7371mhidden{_ESC}[28;7371mb",
    "csi-red": f"a{_ESC}[31;7371mred{_ESC}[0;7371mb",
    "csi-repeat": f"a{_ESC}[99999bb",
    "csi-insert": f"a{_ESC}[4hb",
    "csi-main-screen": f"a{_ESC}[?1049;7371lb",
    "csi-mouse-off": f"a{_ESC}[?1000;7371l{_ESC}[?1003;7371lb",
    "csi-keyboard": f"a{_ESC}[<9ub",
    "csi-resize": f"a{_ESC}[8;5;5tb",
    "da-1": f"a{_ESC}[cb",
    "da-2": f"a{_ESC}[>cb",
    "da-3": f"a{_ESC}[=cb",
    "da-1-c1": f"a{_CSI}cb",
    "da-old": f"a{_ESC}Zb",
    "version-query": f"a{_ESC}[>qb",
    "status-query": f"a{_ESC}[5nb",
    "cursor-query": f"a{_ESC}[6nb",
    "title-query": f"a{_ESC}[21tb",
    "icon-query": f"a{_ESC}[20tb",
    "mode-query": f"a{_ESC}[?7371$pb",
    "dcs-decrqss": f"a{_ESC}P$qm{_ST}b",
    "dcs-tmux": f"a{_ESC}Ptmux;{_ESC}{_ESC}]52;c;{_COPY}{_BEL}{_ST}b",
    "dcs-sixel": f"a{_ESC}Pq#0;2;0;0;0~-{_ST}b",
    "dcs-c1": f"a\x90$qm{_ST8}b",
    "apc-kitty": f"a{_ESC}_Gf=24,s=1,v=1;AAAA{_ST}b",
    "pm": f"a{_ESC}^private{_ST}b",
    "sos": f"a{_ESC}Xstring{_ST}b",
    "ris": f"a{_ESC}cb",
    "charset": f"a{_ESC}(0lqqk{_ESC}(Bb",
    "keypad": f"a{_ESC}={_ESC}>b",
    "align": f"a{_ESC}#8b",
    "escape-alone": f"a{_ESC}",
    "enquiry": "a\x05b",
}
CONTROLS: dict[str, str] = {
    "nul": "a\x00b\x00\x00c",
    "bell": "a\x07\x07b",
    "backspace": "secret\x08\x08\x08\x08\x08\x08public",
    "tab": "a\tb\t\tc",
    "vertical-tab": "a\x0b\x0cb",
    "return": "real text\rFAKE TEXT",
    "crlf": "one\r\ntwo\r\nthree",
    "newlines": "one\ntwo\n\n\nthree",
    "shift-out": "a\x0elqqk\x0fb",
    "substitute": "a\x1a\x18b",
    "delete": "a\x7f\x7fb",
    "all-c0": "".join(map(chr, range(32))),
    "all-c1": "".join(map(chr, range(127, 160))),
    "next-line": "a\x85b",
    "line-separator": "a\u2028b\u2029c",
    "file-separator": "a\x1c\x1d\x1e\x1fb",
}
HIDDEN: dict[str, str] = {
    "rlo": "user\u202egnp.exe\u202c end",
    "isolates": "a\u2066b\u2067c\u2068d\u2069e",
    "marks": "a\u200e\u200f\u061cb",
    "zero-width": "a\u200bb\u200cc\u2060d\ufeffe",
    "joiner-alone": "a\u200db",
    "soft-hyphen": "a\u00adb\u034fc",
    "fillers": "a\u3164b\uffa0c\u115f\u1160d",
    "mongolian": "a\u180eb",
    "tags": "a" + "".join(chr(0xE0000 + ord(c)) for c in "ignore the user") + "b",
    "variation-flood": "a" + "\ufe0f" * 200 + "b",
    "annotations": "a\ufff9b\ufffac\ufffbd",
    "interlinear-math": "a\u2061\u2062\u2063\u2064b",
    "musical": "a\U0001d173b\U0001d17ac",
    "noncharacters": "a\ufdd0b\ufffec\U0010ffffd",
    "private": "a\ue000b\U000f0000c",
    "surrogate-high": "a\ud800b",
    "surrogate-low": "a\udfffb",
    "surrogates-reversed": "a\ude00\ud83db",
    "combining-flood": "Z" + "\u0301" * 300 + "algo",
    "combining-mixed": "e" + "\u0300\u0323\u20dd\u0489" * 60,
    "combining-first": "\u0301\u0302\u0303 at the start",
    "zwj-chain": "\u200d".join("👨👩👧👦" * 20),
    "family": "👨‍👩‍👧‍👦 and 🏳️‍🌈 and 🇯🇵",
    "wide": "核对第三季度的发票" * 20,
    "arabic": "تحقق من أن السجل مغلق وأن المجموع صحيح",
    "hebrew-mixed": "abc שלום def 123",
    "long-word": "x" * 5000,
    "long-spaces": " " * 5000 + "end",
}
MARKUP: dict[str, str] = {
    "closing": "x [/nope] y",
    "closing-any": "x [/] y",
    "closing-open": "[/",
    "path": "[/some/path]",
    "click": "[@click=app.quit]x[/]",
    "click-open": "[@click=(]",
    "click-bell": "[@click=app.bell]press[/]",
    "variable": "[$y] and [$accent]x[/]",
    "bad-colour": "[on #zzz]x[/]",
    "link": "[link=file:///etc/passwd]x[/link]",
    "nested": "[type=x, v={'a[0]'}]",
    "escaped": "\\[b]x\\[/b]",
    "bold": "[bold red]x[/bold red]",
    "open": "[b",
    "emoji-code": ":smile: :warning:",
    "format": "{0} {x!r} %s %(x)s {",
    "markdown": "# head\n[x](javascript:alert(1)) `code` **b** <img src=x onerror=alert(1)>",
    "template": "$HOME ${PATH} $(id) `id`",
}
PAYLOADS: dict[str, str] = {**ESCAPES, **CONTROLS, **HIDDEN, **MARKUP}

SPELLINGS: dict[str, bytes] = {
    "raw-escape": b"a\x1b]52;c;" + _COPY.encode() + b"\x07b",
    "raw-c1-byte": b"a\x9b31mb",
    "raw-c1-utf8": b"a\xc2\x9b31mb\xc2\x9d2;" + TITLE.encode() + b"\xc2\x9c",
    "overlong": b"a\xc0\x9b\xc0\xafb",
    "cesu": b"a\xed\xa0\xbd\xed\xb8\x80b",
    "cut-short": b"a\xe2\x80",
    "ff": b"a\xff\xfe\xfdb",
    "nul": b"a\x00b",
}
