"""What keeps happening in a run: each pattern where it is, and none where it is not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.rivumi_cases import edit, make

from refold.app.session_postmortem import limits_of_run
from refold.core.calls_made import JournalCalls
from refold.core.patterns import DECODED, Patterns, limits_of, look_for
from refold.core.records import MetaRecord
from refold.core.rivumi.patterns import EventCalls
from refold.core.store.reader import RunReader

Turn = tuple[str, dict[str, object], str, bool]
"""Name of a call, its arguments, its result, and whether it failed."""


def line(seq: int, kind: str, payload: object, second: int | None = None) -> bytes:
    record: dict[str, object] = {"seq": seq, "protocol": f"refold.v1.session.{kind}"}
    if second is not None:
        record["time"] = f"2026-07-24T09:{second // 60:02}:{second % 60:02}Z"
    record[kind] = payload
    return json.dumps(record).encode() + b"\n"


def run_of(
    directory: Path,
    turns: Sequence[Turn],
    *,
    tokens: int = 100,
    grows: int = 0,
    budget: int = 0,
    seconds: Sequence[int] = (),
) -> Path:
    """Write a run that makes one call a turn."""
    print_ = {"model": "m", "system_hash": "a", "tools_hash": "b", "thinking_mode": "off"}
    print_ |= {"max_tokens": budget, "max_iterations": 0}  # type: ignore[dict-item]
    meta = {
        "version": 2,
        "run_id": "r",
        "created": "2026-07-24T09:00:00Z",
        "fingerprint": print_,
        "prompt": "p",
    }
    lines = [line(1, "meta", meta, 0 if seconds else None)]
    for number, (name, given, result, failed) in enumerate(turns):
        seq = len(lines) + 1
        call = {"type": "tool_use", "id": f"c{number}", "name": name, "input": given}
        moments = [None, None] if not seconds else [seconds[2 * number], seconds[2 * number + 1]]
        message = {"role": "assistant", "content": [call]}
        payload = {"iteration": number + 1, "message": message, "stop_reason": "tool_use"}
        payload |= {"in_tokens": tokens + grows * number, "out_tokens": 1}
        lines.append(line(seq, "assistant", payload, moments[0]))
        answer = {"type": "tool_result", "tool_use_id": f"c{number}", "content": result, "is_error": failed}
        lines.append(
            line(seq + 1, "tool_result", {"tool_use_id": f"c{number}", "result": answer}, moments[1])
        )
    path = directory / "r.json"
    path.write_bytes(b"".join(lines))
    return path


def found_in(path: Path) -> Patterns:
    with RunReader.open(path) as reader:
        timeline = reader.index_all()
        saved = (reader.meta or MetaRecord()).fingerprint
        calls = JournalCalls(timeline, reader.record, reader.decoder)
        limits = limits_of(timeline, saved, chat=False)
        return [each for each in look_for(timeline, calls, limits) if each][-1]


def said(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {each.name: (each.sentence, each.seqs) for each in found_in(path).found}


def test_a_run_that_goes_well_has_none(tmp_path: Path) -> None:
    turns: list[Turn] = [("read_file", {"path": f"{n}.md"}, f"text {n}", False) for n in range(8)]
    found = found_in(run_of(tmp_path, turns))
    assert found.found == ()
    assert found.looked == "all arguments were compared"


def test_the_same_call_again_and_again(tmp_path: Path) -> None:
    same: Turn = ("read_file", {"path": "a.md", "lines": [1, 2]}, "the same", False)
    other: Turn = ("read_file", {"path": "b.md"}, "another", False)
    assert said(run_of(tmp_path, [other, same, same, same, same]))["repeated"] == (
        (
            "read_file was called 4 times with the same arguments, without a break, "
            "and gave the same result each time"
        ),
        (4, 6, 8, 10),
    )


def test_key_order_does_not_make_arguments_differ(tmp_path: Path) -> None:
    turns: list[Turn] = [("f", dict(order), "x", False) for order in ({"a": 1, "b": 2}, {"b": 2, "a": 1}) * 2]
    assert "4 times" in said(run_of(tmp_path, turns))["repeated"][0]


def test_a_file_that_is_read_between_edits_is_no_loop(tmp_path: Path) -> None:
    turns: list[Turn] = []
    for number in range(4):
        turns.append(("read_file", {"path": "a.md"}, f"version {number}", False))
        turns.append(("edit", {"path": "a.md", "old": str(number), "new": str(number + 1)}, "ok", False))
    assert said(run_of(tmp_path, turns)) == {}


@pytest.mark.parametrize("names", [("old", "new"), ("old_string", "new_string")])
def test_an_edit_that_is_taken_back(tmp_path: Path, names: tuple[str, str]) -> None:
    def edit(old: str, new: str) -> Turn:
        return ("edit", {"path": "calc.py", names[0]: old, names[1]: new}, "ok", False)

    turns = [edit("a", "b"), edit("x", "y"), edit("b", "a")]
    assert said(run_of(tmp_path, turns)) == {"reverted": ("calc.py was changed and changed back", (2, 6))}


def test_a_file_that_is_written_as_it_was(tmp_path: Path) -> None:
    turns: list[Turn] = [
        ("write", {"path": "f", "content": text}, "ok", False) for text in ("a", "b", "a", "b")
    ]
    assert said(run_of(tmp_path, turns)) == {"reverted": ("f was changed and changed back, 2 times", (6, 8))}


def test_errors_at_the_end_and_before(tmp_path: Path) -> None:
    turns: list[Turn] = [("f", {"n": n}, str(n), n in (1, 2, 3, 4, 6, 7, 8)) for n in range(9)]
    found = [each.sentence for each in found_in(run_of(tmp_path, turns)).found]
    assert found == ["the last 3 results were errors", "4 results in a row were errors"]


def test_growth_without_progress(tmp_path: Path) -> None:
    turns: list[Turn] = [("f", {"n": n}, "ok", False) for n in range(3)]
    turns += [("f", {"n": n}, f"ok {n}", False) for n in range(3)]
    assert said(run_of(tmp_path, turns, grows=50)) == {
        "growing": (
            (
                "over the last 3 turns every call failed or had been made before, "
                "and the context grew from 250 to 350 tokens"
            ),
            (8, 10, 12),
        )
    }
    assert said(run_of(tmp_path, turns)) == {}


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (1000, ""),
        (440, "404 of 440 tokens of the budget are used (91 %)"),
        (404, "404 of 404 tokens of the budget are used: nothing is left"),
        (300, "404 tokens of the budget are used: the limit of 300 is passed"),
    ],
)
def test_the_budget(tmp_path: Path, budget: int, expected: str) -> None:
    turns: list[Turn] = [("f", {"n": n}, "ok", False) for n in range(4)]
    assert said(run_of(tmp_path, turns, budget=budget)).get("budget", ("", ()))[0] == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (
            11_538,
            "3.2 h of its time are used: the limit of 15 min is passed; its own program counts the time",
        ),
        (830, "14 min of 15 min of its time are used (92 %); its own program counts the time since it died"),
        (100, ""),
    ],
)
def test_the_time_of_a_run_directory_is_said_as_people_do(
    tmp_path: Path, seconds: int, expected: str
) -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    path = make("04-tail-tool-started", tmp_path)
    began = (now - timedelta(seconds=seconds)).isoformat()
    edit(path / "session.json", lambda o: o.update(active_started_at=began, active_wall_time_seconds=0.0))
    with RunReader.open(path) as reader:
        timeline = reader.index_all()
        assert reader.session is not None
        limits = limits_of_run(reader.session, now.timestamp())
        calls = EventCalls(reader.session.timeline, reader.session.event)
        *_, found = (each for each in look_for(timeline, calls, limits) if each is not None)
    told = next((each.sentence for each in found.found if each.name == "budget"), "")
    assert told.startswith(expected)
    assert bool(told) == bool(expected)


def test_silence_before_the_end(tmp_path: Path) -> None:
    turns: list[Turn] = [("f", {"n": n}, "ok", False) for n in range(3)]
    path = run_of(tmp_path, turns, seconds=[2, 4, 6, 8, 10, 310])
    assert said(path)["silence"] == (
        "5 min passed before the last record; until then one came every 2.0 s",
        (6, 7),
    )
    assert said(run_of(tmp_path, turns, seconds=[2, 4, 6, 8, 10, 40])) == {}


def test_only_so_many_turns_are_read(tmp_path: Path) -> None:
    turns: list[Turn] = [("f", {"n": n}, "ok", False) for n in range(DECODED + 7)]
    loads = 0
    with RunReader.open(run_of(tmp_path, turns)) as reader:
        timeline = reader.index_all()

        def load(item: int) -> object:
            nonlocal loads
            loads += 1
            return reader.record(item)

        calls = JournalCalls(timeline, load, reader.decoder)  # type: ignore[arg-type]
        found = [each for each in look_for(timeline, calls, ()) if each][-1]
    assert loads == DECODED
    assert found.looked == "arguments of 1,000 of 1,007 turns with calls were compared, the last ones"
