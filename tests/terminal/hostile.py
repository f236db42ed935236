"""Runs in which every field that is ever shown holds a hostile text."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.generate import Style
from tests.terminal.payloads import PAYLOADS, SPELLINGS


def journal(texts: Iterable[str], *, style: Style, run_id: str, raw: bool = False) -> bytes:
    """Give a run that tells each text in each field; `raw` writes what JSON allows unescaped."""
    lines = list(_records(list(texts), style=style, run_id=run_id))
    return b"".join(_line(record, raw=raw and n % 2 == 0) for n, record in enumerate(lines))


def broken(texts: Iterable[bytes], *, run_id: str = "broken") -> bytes:
    """Give a run whose lines hold bytes that are no JSON or no UTF-8, and lines that are no record."""
    records = list(_records(["x"], style="native", run_id=run_id))
    lines = [_line(record, raw=False) for record in records[:2]]
    for number, text in enumerate(texts, 3):
        content = b'[{"text":"%b","type":"text"}]' % text
        result = b'{"tool_use_id":"t","is_error":false,"content":%b,"type":"tool_result"}' % content
        lines.append(
            b'{"seq":%d,"protocol":"refold.v1.session.tool_result","tool_result":{"tool_use_id":"t","result":%b}}\n'
            % (number, result)
        )
        lines.append(b"garbage " + text + b" " + text + b"\n")
    return b"".join([*lines, b'{"seq":99,"protocol":"refold.v1.session.assist' + next(iter(texts))])


def directory(where: Path, *, style: Style = "native") -> list[Path]:
    """Write one run for each payload, one with all of them, a broken one, and one under each hostile name."""
    where.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, (name, text) in enumerate(PAYLOADS.items()):
        path = where / f"h{number:03d}-{name}.json"
        path.write_bytes(journal([text], style=style, run_id=text, raw=number % 2 == 0))
        paths.append(path)
    (where / "all.json").write_bytes(journal(PAYLOADS.values(), style=style, run_id="all", raw=True))
    (where / "broken.json").write_bytes(broken(SPELLINGS.values()))
    for text in (*PAYLOADS.values(), "\udcff\udcfe"):
        stem = text.replace("/", "∕").replace("\0", "␀")
        stem = stem.encode("utf-8", "surrogateescape" if "\udcff" in stem else "replace")[:200].decode(
            "utf-8", "surrogateescape"
        )
        named = where / f"{stem}.json"
        if stem.strip("."):
            fd = os.open(named, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(journal([text], style=style, run_id="other"))
            paths.append(named)
    return [*paths, where / "all.json", where / "broken.json"]


def _line(record: dict[str, Any], *, raw: bool) -> bytes:
    text = json.dumps(record, ensure_ascii=not raw, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _records(texts: list[str], *, style: Style, run_id: str) -> Iterator[dict[str, Any]]:
    native = style == "native"
    prefix = "refold.v1.session." if native else "io.choria.fisk-ai.v1.session."
    seq = 0

    def record(kind: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
        nonlocal seq
        seq += 1
        timed = {"time": texts[seq % len(texts)]} if native and seq % 5 == 0 else {}
        return {"seq": seq, "protocol": prefix + kind, **timed, kind: payload, **more}

    first = texts[0]
    hashes = {"system_hash": first, "tools_hash": first, "thinking_mode": first}
    limits = {"max_tokens": 1, "max_iterations": 1}
    meta = {
        "version": 3 if style == "fisk-ai-v3" else 2,
        "run_id": run_id,
        "created": first if run_id == "other" else "2026-07-24T09:15:30Z",
        "fingerprint": {"provider": first, "model": first, **hashes, **limits},
        "prompt": first,
        "interactive": True,
    }
    if native:
        meta["forked_from"] = {"run_id": first, "seq": 1, "prefix_sha256": first, "reason": first}
    yield record("meta", meta)
    for number, text in enumerate(texts):
        call_id = f"{text}#{number}"
        blocks = [_text(style, text), _thinking(style, text), _call(style, call_id, text), _odd(style, text)]
        tokens = {"in_tokens": 1, "out_tokens": 1}
        turn = {
            "iteration": number,
            "message": _message(style, "assistant", blocks),
            "stop_reason": text,
            **tokens,
        }
        yield record("assistant", turn)
        result = _result(style, call_id, text, error=number % 3 == 0)
        yield record("tool_result", {"tool_use_id": call_id, "result": result}, **{text: text})
        yield record("user", {"message": _message(style, "user", [_text(style, text)])})
        yield record("terminal", {"reason": text, "message": text})
        seq += 1
        yield {"seq": seq, "protocol": f"{prefix}{text}", text: text}
        seq += 1
        yield {"seq": seq, "protocol": text, "note": text}
    open_call = {
        "iteration": 999,
        "message": _message(style, "assistant", [_call(style, first + "!", first)]),
    }
    yield record("assistant", {**open_call, "stop_reason": "tool_use", "in_tokens": 1, "out_tokens": 1})


def _message(style: Style, role: str, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": role, "content": blocks} if style == "fisk-ai-v3" else {"content": blocks, "role": role}


def _text(style: Style, text: str) -> dict[str, Any]:
    return {"text": {"text": text}} if style == "fisk-ai-v3" else {"text": text, "type": "text"}


def _thinking(style: Style, text: str) -> dict[str, Any]:
    if style == "fisk-ai-v3":
        return {"thinking": {"text": text, "signature": "QQ=="}}
    return {"signature": text, "thinking": text, "type": "thinking"}


def _call(style: Style, call_id: str, text: str) -> dict[str, Any]:
    given = {text: text, "nested": [{text: [text, 1.5, None, True]}], "old": text, "new": text + "x"}
    if style == "fisk-ai-v3":
        return {"tool_use": {"id": call_id, "name": text, "input": given}}
    return {"id": call_id, "input": given, "name": text, "type": "tool_use"}


def _odd(style: Style, text: str) -> dict[str, Any]:
    if style == "fisk-ai-v3":
        return {"provider": {"kind": text, "raw": {"type": text, text: text}}}
    return {"type": text, "title": text, text: text}


def _result(style: Style, call_id: str, text: str, *, error: bool) -> dict[str, Any]:
    if style == "fisk-ai-v3":
        return {"tool_use_id": call_id, "content": text, **({"is_error": True} if error else {})}
    content = [{"text": text, "type": "text"}]
    return {"tool_use_id": call_id, "is_error": error, "content": content, "type": "tool_result"}


def directory_run(run: Path, texts: list[str], rng: random.Random) -> None:
    """Put texts into every field of the files of a run directory; what tells its kind is left more often."""
    for path in sorted(run.iterdir()):
        if path.suffix in {".json", ".jsonl"} and path.is_file():
            rows = path.read_bytes().split(b"\n")
            path.write_bytes(b"\n".join(_said_otherwise(row, texts, rng) for row in rows))
        elif path.suffix == ".patch":
            path.write_text("".join(f"+{text}\n" for text in texts), "utf-8", "replace")


def _said_otherwise(row: bytes, texts: list[str], rng: random.Random) -> bytes:
    try:
        value = json.loads(row)
    except ValueError:
        return row + rng.choice(texts).encode("utf-8", "replace").replace(b"\n", b" ")
    return json.dumps(_with_texts(value, "", texts, rng), separators=(",", ":")).encode()


def _with_texts(value: Any, name: str, texts: list[str], rng: random.Random) -> Any:
    if isinstance(value, dict):
        return {key: _with_texts(each, key, texts, rng) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_texts(each, name, texts, rng) for each in value]
    if not isinstance(value, str) or rng.random() > (0.02 if name in _TELLS_KIND else 0.7):
        return value
    return rng.choice(texts) + (value if rng.random() < 0.3 else "")


_TELLS_KIND = frozenset(
    {"event_type", "type", "kind", "role", "phase", "status", "runtime", "run_id", "call_id"}
)
