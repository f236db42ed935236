"""Pictures of one screen, one after the other, as a single picture that moves by CSS alone.

What stands at the same place in several pictures is drawn once and shown while it is to be seen, so that a
film of thirty pictures is little larger than two of them. Nothing in it runs: no script, no font, no link.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_STYLE: Final = re.compile(r"\.terminal-\d+-(r\d+) \{ ([^}]*?) ?\}")
_RECT: Final = re.compile(r'<rect fill="(#\w+)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="[\d.]+"')
_TEXT: Final = re.compile(
    r'<text class="terminal-\d+-(r\d+)" x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)" '
    r'clip-path="url\(#terminal-\d+-line-(\d+)\)">([^<]*)</text>'
)
_SCREEN: Final = re.compile(r'<clipPath id="terminal-\d+-clip-terminal">\s*<rect [^>]*width="([\d.]+)"')
_LINE: Final = 24.4
_EDGE: Final = 9
_BACKGROUND: Final = "#14161d"
_BORDER: Final = "#3a4158"
_FONTS: Final = "Fira Code, DejaVu Sans Mono, ui-monospace, Menlo, monospace"


class Shown(NamedTuple):
    """A picture as the program exports it, and for how many seconds it is shown."""

    svg: str
    seconds: float


def film(shown: Sequence[Shown], *, still: int) -> str:
    """Give one picture that shows several, and begins anew after the last.

    Args:
        shown: the pictures, all of the same size.
        still: the number of the one that is shown where nothing may move.
    """
    classes: dict[str, str] = {}
    seen: list[dict[str, frozenset[int]]] = [{}, {}]
    for number, picture in enumerate(shown):
        for layer, element in _elements(picture.svg, classes):
            seen[layer][element] = seen[layer].get(element, frozenset()) | {number}
    sets = {numbers for layer in seen for numbers in layer.values() if len(numbers) < len(shown)}
    names = {numbers: f"k{index}" for index, numbers in enumerate(sorted(sets, key=sorted))}
    wide = max(float(found[1]) for picture in shown if (found := _SCREEN.search(picture.svg)))
    lines = 1 + max(int(row) for *_, row, _ in _TEXT.findall("".join(one.svg for one in shown)))
    width, height = round(wide) + 2 * _EDGE, round(lines * _LINE) + 2 * _EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">\n<style>\n',
        f"text {{ font-family: {_FONTS}; font-size: 20px }}\n",
        *(f".{name} {{ {style} }}\n" for style, name in classes.items()),
        *_motion(names, [one.seconds for one in shown], still),
        "</style>\n<defs>\n",
        *(
            f'<clipPath id="l{row}"><rect x="0" y="{1.5 + row * _LINE:.1f}" width="{wide:g}" height="24.65"/>'
            "</clipPath>\n"
            for row in range(lines)
        ),
        f'</defs>\n<rect x="1" y="1" width="{width - 2}" height="{height - 2}" rx="8"',
        f' fill="{_BACKGROUND}" stroke="{_BORDER}"/>\n<g transform="translate({_EDGE}, {_EDGE})">\n',
    ]
    for elements in seen:
        parts += _grouped(elements, names)
    return "".join([*parts, "</g>\n</svg>\n"])


def _elements(svg: str, classes: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Give what is drawn on one picture: its layer, grounds below and texts above, and how it is written."""
    styles = dict(_STYLE.findall(svg))
    body = svg[svg.index("</defs>") :]
    run: tuple[str, float, str, float] | None = None
    for fill, x, y, width in (*_RECT.findall(body), ("", "0", "0", "0")):
        if run is not None and run[0] == fill and run[2] == y and abs(run[1] + run[3] - float(x)) < 0.1:
            run = (*run[:3], run[3] + float(width))
            continue
        if run is not None and run[0] != _BACKGROUND:
            where = f'x="{run[1]:g}" y="{run[2]}" width="{run[3]:g}" height="24.65"'
            yield 0, f'<rect fill="{run[0]}" {where} shape-rendering="crispEdges"/>'
        run = (fill, float(x), y, float(width)) if fill else None
    for role, x, y, length, row, text in _TEXT.findall(body):
        if not text.replace("&#160;", "").strip():
            continue
        name = classes.setdefault(styles[role], f"c{len(classes)}")
        where = f'x="{x}" y="{y}" textLength="{length}" clip-path="url(#l{row})"'
        yield 1, f'<text class="{name}" {where}>{text}</text>'


def _grouped(layer: dict[str, frozenset[int]], names: dict[frozenset[int], str]) -> Iterator[str]:
    """Give the elements of a layer, those together that are seen together."""
    groups: dict[frozenset[int], list[str]] = {}
    for element, numbers in layer.items():
        groups.setdefault(numbers, []).append(element)
    for numbers, elements in groups.items():
        name = names.get(numbers)
        yield f'<g class="{name}">\n' if name else "<g>\n"
        yield "\n".join(elements)
        yield "\n</g>\n"


def _motion(names: dict[frozenset[int], str], seconds: Sequence[float], still: int) -> Iterator[str]:
    """Give when each group is seen; who asked for less motion sees one picture."""
    total = sum(seconds)
    starts = [sum(seconds[:number]) / total * 100 for number in range(len(seconds))]
    yield "".join(f".{name} {{ opacity: {int(still in numbers)} }}\n" for numbers, name in names.items())
    yield "@media (prefers-reduced-motion: no-preference) {\n"
    for numbers, name in names.items():
        yield f".{name} {{ animation: {name} {total:.2f}s step-end infinite }}\n"
        changes = [number for number in range(len(seconds)) if (number in numbers) != (number - 1 in numbers)]
        steps = "".join(
            f" {starts[number]:.3f}% {{ opacity: {int(number in numbers)} }}" for number in changes
        )
        first = "" if changes and changes[0] == 0 else " 0% { opacity: 0 }"
        yield f"@keyframes {name} {{{first}{steps} }}\n"
    yield "}\n"
