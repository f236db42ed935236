"""Conversations on disk, written as the chat of Rivumi writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CHAT = "0a" * 16


def hexed(number: int) -> str:
    return f"{number:032x}"


def chat(
    root: Path,
    *turns: tuple[str, str, str],
    name: str = CHAT,
    title: str = "Fix the parser",
    runtime: str = "rivumi-agent",
    model: str | None = None,
    minute: int = 0,
    **manifest: Any,
) -> Path:
    """Write a conversation of (prompt, reply, end) turns; an empty end leaves the turn open."""
    events: list[dict[str, Any]] = [{"event_type": "conversation.created"}]
    for number, (prompt, reply, end) in enumerate(turns, 1):
        turn = {"turn_id": hexed(number)}
        events.append({"event_type": "user.message", **turn, "text": prompt})
        events += [
            {"event_type": "assistant.chunk", **turn, "text": part} for part in reply.split("|") if part
        ]
        if end:
            failed = {"error": "429 from upstream"} if end == "failed" else {}
            events.append({"event_type": f"turn.{end}", **turn, **failed})
    directory = root / name
    directory.mkdir(parents=True, mode=0o700)
    put_events(directory, events)
    claims = {
        "schema_version": 1,
        "conversation_id": name,
        "runtime": runtime,
        "model_override": model,
        "title": title,
        "created_at": "2026-11-30T18:00:00Z",
        "updated_at": f"2026-11-30T18:{minute:02}:30.000001Z",
        "last_event_sequence": len(events) - 1,
        "turn_count": sum(end == "completed" for _, _, end in turns),
        "active_turn_id": hexed(len(turns)) if turns and not turns[-1][2] else None,
        "active_writer_token": "f" * 32,
        **manifest,
    }
    put_manifest(directory, claims)
    return directory


def put_events(directory: Path, events: list[dict[str, Any]]) -> None:
    lines = []
    for sequence, event in enumerate(events):
        whole = {
            "schema_version": 1,
            "conversation_id": directory.name,
            "sequence": sequence,
            "event_id": hexed(1000 + sequence),
            "created_at": f"2026-11-30T18:00:{sequence % 60:02}.5Z",
            **event,
        }
        lines.append(json.dumps(whole, ensure_ascii=False, separators=(",", ":")) + "\n")
    (directory / "events.jsonl").write_text("".join(lines))
    (directory / "events.jsonl").chmod(0o600)
    (directory / ".writer.lock").touch(0o600)


def events_of(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "events.jsonl").read_text().split("\n")[:-1]]


def manifest_of(directory: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((directory / "conversation.json").read_bytes())
    return read


def put_manifest(directory: Path, claims: dict[str, Any]) -> None:
    text = json.dumps(claims, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    (directory / "conversation.json").write_text(text)
    (directory / "conversation.json").chmod(0o600)
