"""What fuzzing begins with: the inputs in `corpus/`, and whole files that lie in the tests already."""

from __future__ import annotations

import random
from pathlib import Path

from tests import generate
from tests.damage import KINDS, damage
from tests.fuzz.targets import BETWEEN
from tests.secret_story import secrets

HERE = Path(__file__).parent
DATA = HERE.parent / "data"
_SMALL = 4096
WORDS = (
    b'"', b"\\", b"\\u0000", b"\\ud83d", b"\n", b"\r\n", b"\0", b"{", b"}", b"[", b"]", b",", b":", b"-",
    b"null", b"true", b"1e999", b"NaN", b"-0", b"18446744073709551616", b'"seq":', b'"protocol":', b'"meta":',
    b'"version":3', b'"tool_use_id":', b'"type":"tool_use"', b'"iteration":-1', BETWEEN, b"../", b"--",
    b'"terminal":{"reason":"completed"}', b"\xef\xbb\xbf", b"\xed\xa0\xbd", b"\xff", b"\xe2\x80\xa8",
    b"\x1b[2J", b"\xc2\x9b", b"status:", b"after:", b"tokens>", b"{id}", b"{config}",
    b"sk-live-0123456789abcd",
)  # fmt: skip
"""Pieces that mean something to a reader here."""


def corpus(target: str) -> list[bytes]:
    """Give the inputs that are kept for a target: each once went a way of its own or found a fault."""
    directory = HERE / "corpus" / target
    return [path.read_bytes() for path in sorted(directory.glob("*"))] if directory.is_dir() else []


def seeds(target: str) -> list[bytes]:
    """Give the inputs that a target begins with."""
    found = corpus(target)
    if target in {"scan", "decode", "fold"}:
        for style in generate.STYLES:
            found.append(b"".join(generate.journal(records=9, style=style, run_id="run"))[:30_000])
            # Of small files ten times as many are tried in the same time.
            bodies = generate.short_bodies(1)
            small = b"".join(generate.journal(records=7, style=style, run_id="run", bodies=bodies))
            found.append(small)
            if target != "fold":
                kinds = [kind for kind in KINDS if "deep" not in kind]
                found += [made for kind in kinds if len(made := damage(kind, 1, small)) <= _SMALL]
        found += [path.read_bytes() for path in sorted((DATA / "fisk-ai" / "v3").glob("[a-e]*.json"))]
    if target == "redact":
        lines = b"".join(generate.journal(records=6, run_id="run")).split(b"\n")
        found += [line[:2000] for line in lines]
        found += [secret.text.encode() for secret in secrets(1, 60)]
    if target == "manifest":
        for case in sorted(path for path in (DATA / "rivumi").iterdir() if path.is_dir()):
            names = ("session.json", "events.jsonl", "request.json")
            files = [case / name for name in names]
            found.append(BETWEEN.join(file.read_bytes() if file.exists() else b"" for file in files))
    if target in {"filter", "visible", "id", "template", "own", "redact"}:
        found += list(WORDS)
    return found or [b""]


def mutated(rng: random.Random, pool: list[bytes]) -> bytes:
    """Give one of a pool, changed in some places: bits, bytes, pieces cut, doubled, put in or joined."""
    data = bytearray(rng.choice(pool))
    for _ in range(1 + int(rng.expovariate(0.5))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0 if data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            case 1 if data:
                data[at % len(data)] = rng.randrange(256)
            case 2:
                del data[at : at + int(rng.expovariate(0.1))]
            case 3:
                data[at:at] = data[at : at + int(rng.expovariate(0.02))]
            case 4:
                data[at:at] = rng.choice(WORDS)
            case 5:
                data[at : at + 4] = rng.choice(WORDS)
            case _:
                other = rng.choice(pool)
                cut = rng.randrange(len(other) + 1)
                data[at:] = other[cut : cut + 4096]
    return bytes(data)
