"""A run as one HTML page: folds and a search, nothing from elsewhere, every text escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from refold.core.export.entries import Entry, Head, title, visible
from refold.core.export.parts import Part, parts_of

_LABEL: Final = 300
_GIST: Final = 120
_OPEN: Final = frozenset({"meta", "user", "assistant", "terminal", "damage"})
_FOLDED: Final = frozenset({"thinking", "result", "json", "raw"})

_STYLE: Final = """
:root{color-scheme:light dark;--dim:#6a737d;--rule:#d0d7de;--user:#0550ae;--call:#8a5a00;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--dim:#8b949e;--rule:#30363d;--user:#79c0ff;--call:#e3b341;--bad:#ff7b72}}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.3rem;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem}
dt,.gist,.label,small{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
pre{font:13px/1.45 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere;margin:.3rem 0 .6rem}
details{border-top:1px solid var(--rule);padding:.3rem 0}details details{border:0;padding:0 0 0 1rem}
summary{cursor:pointer;overflow-wrap:anywhere}.user>summary b{color:var(--user)}
.call .label{color:var(--call)}.error .label,.damage>summary b,.note.bad{color:var(--bad)}
header{position:sticky;top:0;background:Canvas;padding:.5rem 0}
input{font:inherit;width:100%;box-sizing:border-box;padding:.3rem .5rem}[hidden]{display:none}
"""

_SCRIPT: Final = """
const box=document.getElementById("find"),said=document.getElementById("said"),
rows=[...document.querySelectorAll("main>details")];
function look(){const words=box.value.toLowerCase().split(/\\s+/).filter(Boolean);let left=0;
for(const row of rows){const text=row.textContent.toLowerCase(),shown=words.every(word=>text.includes(word));
row.hidden=!shown;left+=shown}
said.textContent=words.length?left+" of "+rows.length+" records":rows.length+" records"}
box.addEventListener("input",look);look();
if(location.hash){const at=document.getElementById(location.hash.slice(1));if(at)at.open=true}
"""


def html(head: Head, entries: Iterable[Entry]) -> Iterator[str]:
    """Give the page piece by piece."""
    policy = (
        f"default-src 'none'; style-src '{_hash(_STYLE)}'; script-src '{_hash(_SCRIPT)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    yield (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{_line(head.run_id)}</title>\n<style>{_STYLE}</style></head>\n<body>\n"
        f"<h1>Run {_line(head.run_id)}</h1>\n<dl>\n"
    )
    for name, value in head.facts:
        yield f"<dt>{_line(name)}</dt><dd>{_line(value)}</dd>\n"
    yield (
        '</dl>\n<header><input id="find" type="search" placeholder="find in all records" '
        'aria-label="find in all records"><small id="said"></small></header>\n<main>\n'
    )
    for entry in entries:
        yield from _entry(entry)
    yield f"</main>\n<p><small>written by refold {_line(head.refold)}</small></p>\n"
    yield f"<script>{_SCRIPT}</script>\n</body></html>\n"


def _entry(entry: Entry) -> Iterator[str]:
    parts = tuple(parts_of(entry))
    mark = f"line-{entry.line}" if entry.seq is None else f"seq-{entry.seq}"
    kind = entry.kind if entry.kind.isalpha() else "other"
    gist = next((part.text or part.label for part in parts if part.style != "note"), "")
    opened = " open" if entry.kind in _OPEN else ""
    yield (
        f'<details id="{mark}" class="{kind}"{opened}>'
        f"<summary><b>{_line(entry.place)}</b> {_line(title(entry))}"
        f' <span class="gist">{_line(gist.strip(), _GIST)}</span></summary>\n'
    )
    for part in parts:
        yield from _part(part)
    yield "</details>\n"


def _part(part: Part) -> Iterator[str]:
    if part.style == "note":
        bad = " bad" if part.label.startswith("E_") else ""
        yield f'<p class="note{bad}">{_line(part.label)}: {_line(part.text, 4096)}</p>\n'
        return
    label = f'<span class="label">{_line(f"{part.style} {part.label}".strip())}</span>'
    # The first line end behind <pre> is not part of the text.
    body = f"<pre>\n{escape(visible(part.text))}</pre>"
    if part.style in _FOLDED:
        yield f'<details class="{part.style}"><summary>{label}</summary>{body}</details>\n'
    elif part.style == "text":
        yield f"{body}\n"
    else:
        yield f'<div class="{part.style}">{label}{body}</div>\n'


def _line(text: str, limit: int = _LABEL) -> str:
    short = text[:limit].replace("\n", "⏎").replace("\t", " ") + ("…" if len(text) > limit else "")
    return escape(visible(short))


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
