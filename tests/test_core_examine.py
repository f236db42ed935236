"""`verify`: the codes of every recorded journal, of every kind of damage, and what they still allow."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import generate
from tests import run_story as story
from tests.damage import KINDS, damage

from refold.core.explain import where_it_fails
from refold.core.findings import CODES, Finding
from refold.core.line_check import bad_utf8, keys_and_words, remarks, surrogates
from refold.core.shapes import Shape, record_shape
from refold.core.store.examining import examine
from refold.core.store.lock import RunLock
from refold.core.store.reader import RunReader

FINDINGS: dict[str, str] = {
    "v2/append-after-garbage-line": "BAD_JSON@4>3",
    "v2/assistant-over-pending": "CALL_UNANSWERED@2>1",
    "v2/blank-lines-interior": "UNCERTAIN_EFFECT@7>5+",
    "v2/chat-user-over-pending": "CALL_UNANSWERED@2>1",
    "v2/corrupt-interior-line": "BAD_JSON@2>1 SEQ_GAP@3>1 TOOL_ORPHAN@3>1",
    "v2/corrupt-line-beats-version": "NEWER_VERSION@1>- BAD_JSON@2>-",
    "v2/crashed-mid-second-turn": "UNCERTAIN_EFFECT@4>5+",
    "v2/crashed-mid-tool-batch": "UNCERTAIN_EFFECT@2>3+",
    "v2/duplicate-meta": "DUP_META@3>2",
    "v2/empty-file": "EMPTY@0>-",
    "v2/glued-after-torn-once": "GLUED@4>3",
    "v2/glued-after-torn-twice": "GLUED@4>3",
    "v2/iteration-not-monotonic": "ITERATION@3>2",
    "v2/meta-without-payload": "NO_META@1>- NO_PAYLOAD@1>-",
    "v2/meta-wrong-protocol": "NO_META@1>- NO_PAYLOAD@1>-",
    "v2/missing-protocol": "UNKNOWN_KIND@2>1",
    "v2/no-meta-first": "NO_META@1>- SEQ_GAP@1>-",
    "v2/no-payload-assistant": "NO_PAYLOAD@3>2",
    "v2/no-payload-tool-result": "NO_PAYLOAD@3>2",
    "v2/null-payload-assistant": "NO_PAYLOAD@2>1",
    "v2/records-after-completed": "AFTER_TERMINAL@4>4",
    "v2/run-id-mismatch": "FOREIGN_RUN@1>- UNCERTAIN_EFFECT@2>2+",
    "v2/seq-decreasing": "CALL_UNANSWERED@2>1 SEQ_GAP@3>4 SEQ_BACK@4>4 TOOL_ORPHAN@4>4",
    "v2/seq-duplicate": "SEQ_DUP@3>2 CALL_UNANSWERED@2>1 ITERATION@3>2",
    "v2/seq-first-not-one": "SEQ_GAP@1>6+ UNCERTAIN_EFFECT@2>6+",
    "v2/seq-gap": "CALL_UNANSWERED@2>1 SEQ_GAP@3>4+ UNCERTAIN_EFFECT@3>4+",
    "v2/seq-missing": "SEQ_BACK@2>1",
    "v2/tool-result-after-user": "CALL_UNANSWERED@2>1 TOOL_ORPHAN@4>3",
    "v2/tool-result-before-assistant": "SEQ_GAP@2>1 TOOL_ORPHAN@2>1",
    "v2/tool-result-duplicate-id": "TOOL_DUP@4>3",
    "v2/tool-result-unknown-id": "TOOL_ORPHAN@3>2 UNCERTAIN_EFFECT@2>3+",
    "v2/torn-first-line": "TORN_TAIL@1>- EMPTY@0>-",
    "v2/torn-tail-complete-no-newline": "NO_FINAL_NL@5>5 UNCERTAIN_EFFECT@4>5+",
    "v2/torn-tail-garbage-with-newline": "TORN_TAIL@5>4 UNCERTAIN_EFFECT@4>4+",
    "v2/torn-tail-partial": "TORN_TAIL@5>4 UNCERTAIN_EFFECT@4>4+",
    "v2/torn-tail-then-blank-line": "BAD_JSON@5>4",
    "v2/torn-tail-type-error": "TORN_TAIL@5>4 UNCERTAIN_EFFECT@4>4+",
    "v2/unknown-fields": "UNKNOWN_KEY@1>2+ UNKNOWN_KEY@2>2+ UNCERTAIN_EFFECT@2>2+",
    "v2/unknown-protocol": "UNKNOWN_KIND@3>2",
    "v2/unknown-terminal-reason": "UNKNOWN_WORD@3>3+",
    "v2/utf8-bom": "BOM@1>-",
    "v2/v1-crashed-mid-tool-batch": "UNCERTAIN_EFFECT@2>3+",
    "v2/v2-unknown-block-type": "UNKNOWN_WORD@2>2+",
    "v2/version-3": "TORN_TAIL@2>1",
    "v2/version-4": "NEWER_VERSION@1>-",
    "v3/append-after-garbage-line": "BAD_JSON@4>3",
    "v3/array-line-last": "TORN_TAIL@3>2 UNCERTAIN_EFFECT@2>2+",
    "v3/assistant-over-pending": "CALL_UNANSWERED@2>1",
    "v3/blank-lines-interior": "UNCERTAIN_EFFECT@7>5+",
    "v3/corrupt-first-line": "BAD_JSON@1>- NO_META@2>- SEQ_GAP@2>-",
    "v3/corrupt-interior-line": "BAD_JSON@2>1 SEQ_GAP@3>1 TOOL_ORPHAN@3>1",
    "v3/crashed-after-assistant": "UNCERTAIN_EFFECT@2>2+",
    "v3/crashed-mid-second-turn": "UNCERTAIN_EFFECT@4>5+",
    "v3/crashed-mid-tool-batch": "UNCERTAIN_EFFECT@2>3+",
    "v3/crlf-lines": "UNCERTAIN_EFFECT@4>5+",
    "v3/duplicate-json-keys": "DUP_KEY@1>- DUP_KEY@2>1 UNCERTAIN_EFFECT@2>2+",
    "v3/duplicate-meta": "DUP_META@3>2",
    "v3/empty-file": "EMPTY@0>-",
    "v3/glued-after-complete-no-newline": "GLUED@4>3 UNCERTAIN_EFFECT@4>3+",
    "v3/glued-after-torn-once": "GLUED@4>3",
    "v3/glued-after-torn-twice": "GLUED@4>3",
    "v3/invalid-utf8": "BAD_UTF8@1>- UNCERTAIN_EFFECT@2>2+",
    "v3/iteration-not-monotonic": "ITERATION@3>2",
    "v3/keys-case-insensitive": "UNKNOWN_KEY@1>2+ UNKNOWN_KEY@2>2+ UNCERTAIN_EFFECT@2>2+",
    "v3/lone-surrogate": "SURROGATE@1>2+ UNCERTAIN_EFFECT@2>2+",
    "v3/meta-without-payload": "NO_META@1>- NO_PAYLOAD@1>-",
    "v3/meta-wrong-protocol": "NO_META@1>- NO_PAYLOAD@1>-",
    "v3/no-meta-first": "NO_META@1>- SEQ_GAP@1>-",
    "v3/no-payload-assistant": "NO_PAYLOAD@3>2",
    "v3/no-payload-terminal": "NO_PAYLOAD@3>2",
    "v3/no-payload-tool-result": "NO_PAYLOAD@3>2",
    "v3/null-line": "SEQ_BACK@3>2 UNKNOWN_KIND@3>2 SEQ_GAP@4>2",
    "v3/null-payload-assistant": "NO_PAYLOAD@2>1",
    "v3/run-id-mismatch": "FOREIGN_RUN@1>- UNCERTAIN_EFFECT@2>2+",
    "v3/seq-decreasing": "CALL_UNANSWERED@2>1 SEQ_GAP@3>4 SEQ_BACK@4>4 TOOL_ORPHAN@4>4",
    "v3/seq-gap": "CALL_UNANSWERED@2>1 SEQ_GAP@3>4+ UNCERTAIN_EFFECT@3>4+",
    "v3/seq-missing": "SEQ_BACK@2>1",
    "v3/seq-negative": "BAD_RECORD@2>1 SEQ_GAP@3>1 TOOL_ORPHAN@3>1",
    "v3/suspended-resumed-crashed": "UNCERTAIN_EFFECT@5>6+",
    "v3/tool-result-after-completed-answer": "TOOL_ORPHAN@3>2",
    "v3/tool-result-after-user": "CALL_UNANSWERED@2>1 TOOL_ORPHAN@4>3",
    "v3/tool-result-before-assistant": "SEQ_GAP@2>1 TOOL_ORPHAN@2>1",
    "v3/tool-result-duplicate-id": "TOOL_DUP@4>3",
    "v3/torn-first-line": "TORN_TAIL@1>- EMPTY@0>-",
    "v3/torn-tail-garbage-with-newline": "TORN_TAIL@5>4 UNCERTAIN_EFFECT@4>4+",
    "v3/torn-tail-partial": "TORN_TAIL@5>4 UNCERTAIN_EFFECT@4>4+",
    "v3/torn-tail-then-blank-line": "BAD_JSON@5>4",
    "v3/trailing-nuls": "TORN_TAIL@6>5 UNCERTAIN_EFFECT@4>5+",
    "v3/two-records-one-line": "GLUED@2>1",
    "v3/unknown-fields": "UNKNOWN_KEY@1>2+ UNKNOWN_KEY@2>2+ UNCERTAIN_EFFECT@2>2+",
    "v3/unknown-protocol": "UNKNOWN_KIND@3>2",
    "v3/unknown-terminal-reason": "UNKNOWN_WORD@3>3+",
    "v3/utf8-bom": "BOM@1>-",
    "v3/v3-bad-signature": "BAD_RECORD@2>1 SEQ_GAP@3>1",
    "v3/v3-raw-compacted": "UNCERTAIN_EFFECT@2>2+",
    "v3/v3-result-id-differs": "RESULT_ID@3>2",
    "v3/v3-two-variants": "UNCERTAIN_EFFECT@2>2+",
    "v3/v3-wire-shaped-blocks": "TORN_TAIL@2>1",
    "v3/version-4": "NEWER_VERSION@1>-",
    "v3/version-99": "NEWER_VERSION@1>-",
    "v3/version-error-beats-corrupt": "NEWER_VERSION@1>- SEQ_DUP@3>- CALL_UNANSWERED@2>- ITERATION@3>-",
    "v3/whitespace-only": "EMPTY@0>-",
}
"""Code@line>last sequence to fork at, `+` where a resume is possible. A journal not named here is clean."""


WIRE = record_shape(neutral=False, native=False)


def private(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def verified(path: Path, *, hint: str = "refold") -> list[Finding]:
    with RunReader.open(path, hint=hint) as reader:
        return list(examine(reader))


def codes(path: Path) -> list[str]:
    return [finding.code for finding in verified(path)]


def short(findings: Iterable[Finding]) -> str:
    return " ".join(
        f"{finding.code[2:]}@{finding.line}>"
        f"{'-' if finding.allowed.fork_to is None else finding.allowed.fork_to}"
        f"{'+' if finding.allowed.resume else ''}"
        for finding in findings
    )


def fixtures() -> list[str]:
    root = Path(__file__).parent / "data" / "fisk-ai"
    return sorted(
        f"{path.parent.name}/{path.stem}" for path in root.glob("v?/*.json") if path.stem != "expected"
    )


@pytest.mark.parametrize("name", fixtures())
def test_the_codes_of_every_recorded_journal(journals: Path, tmp_path: Path, name: str) -> None:
    data = (journals / f"{name}.json").read_bytes()
    path = private(tmp_path / f"{name[3:]}.json", data)
    findings = verified(path, hint="fisk-ai")
    assert short(findings) == FINDINGS.get(name, "")
    for finding in findings:
        # A call in flight is no fault of a journal: a resume asks about it.
        in_flight = finding.code == "E_UNCERTAIN_EFFECT"
        assert finding.severity == ("info" if in_flight else CODES[finding.code].severity)
        assert 0 <= finding.start <= finding.end <= len(data)
        assert finding.message.startswith(CODES[finding.code].meaning)
        assert finding.remedy
        assert finding.allowed.view


@pytest.mark.parametrize("name", fixtures())
def test_the_strict_fold_and_the_findings_agree(journals: Path, tmp_path: Path, name: str) -> None:
    """What the original program refuses has an error among its findings, and can never be resumed."""
    directory, stem = name.split("/")
    expected = json.loads((journals / directory / "expected.json").read_bytes())[stem]
    path = private(tmp_path / f"{stem}.json", (journals / f"{name}.json").read_bytes())
    findings = verified(path, hint="fisk-ai")
    read_by_us_alone = {"v3/version-0", "v3/version-1", "v3/version-2", "v3/version-missing"}
    # Version 3 is folded with its own rules here, where the original of version 2 refuses it.
    if not expected["ok"] and name not in read_by_us_alone | {"v2/version-3"}:
        assert "error" in {finding.severity for finding in findings}
        assert not any(finding.allowed.resume for finding in findings)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ((), "'c2' (write_file) has no result: it may have run"),
        ((story.native(5, "terminal", {"reason": "suspended"}),), "it may have run"),
        ((story.native(5, "terminal", {"reason": "budget"}),), ""),
        ((story.native(5, "terminal", {"reason": "completed"}),), ""),
        ((story.result(5, "c2", "ok"),), ""),
    ],
    ids=["died", "suspended", "withheld", "completed", "answered"],
)
def test_a_call_in_flight_is_one_remark_of_a_run_that_nobody_holds(
    tmp_path: Path, end: tuple[bytes, ...], said: str
) -> None:
    calls = story.call("c1", "read_file", path="a"), story.call("c2", "write_file", path="a", content="x")
    lines = [story.meta(1, "run", "x"), story.assistant(2, 0, *calls), story.result(3, "c1", "x"), *end]
    path = private(story.write(tmp_path / "run.json", lines), (tmp_path / "run.json").read_bytes())
    found = [finding for finding in verified(path) if finding.code == "E_UNCERTAIN_EFFECT"]
    assert [finding.severity for finding in found] == ["info"] * bool(said)
    assert all(said in finding.message and (finding.seq, finding.line) == (2, 2) for finding in found)
    lock = RunLock.take(path.with_suffix(".lock"))
    try:
        assert "E_UNCERTAIN_EFFECT" not in codes(path), "who holds it may be about to write the result"
    finally:
        lock.release()


def test_a_fork_is_offered_only_where_the_prefix_folds(journals: Path, tmp_path: Path) -> None:
    for name in FINDINGS:
        path = private(tmp_path / f"{name[3:]}.json", (journals / f"{name}.json").read_bytes())
        with RunReader.open(path, hint="fisk-ai") as reader:
            timeline = reader.index_all()
            for finding in examine(reader):
                if finding.allowed.fork_to is not None:
                    item = timeline.item_at(finding.allowed.fork_to)
                    assert item is not None
                    assert reader.state_at(item).last_seq == finding.allowed.fork_to


# Two lines, of which the first is cut and carries the second, are not seen as one record in another.
NAMED = [(kind, code) for kind, code in KINDS.items() if code is not None and kind != "spliced"]


@pytest.mark.parametrize("style", generate.STYLES)
@pytest.mark.parametrize(("kind", "code"), NAMED)
def test_each_kind_of_damage_has_its_code(
    tmp_path: Path, style: generate.Style, kind: str, code: str
) -> None:
    good = b"".join(generate.journal(records=20, style=style, run_id="run", seed=7))
    for seed in range(3):
        path = private(tmp_path / "run.json", damage(kind, seed, good))
        assert code in codes(path)


@pytest.mark.parametrize("kind", KINDS)
def test_the_index_and_verify_see_the_same_damage(tmp_path: Path, kind: str) -> None:
    good = b"".join(generate.journal(records=20, style="fisk-ai-v3", run_id="run", seed=11))
    for seed in range(4):
        path = private(tmp_path / "run.json", damage(kind, seed, good))
        with RunReader.open(path) as reader:
            found = {(one.code, one.start, one.seq): one.allowed for one in examine(reader)}
            for noted in reader.index_all().findings:
                assert found[noted.code, noted.start, noted.seq] == noted.allowed


@pytest.mark.parametrize("style", generate.STYLES)
@pytest.mark.parametrize("ending", generate.ENDINGS)
def test_a_good_run_has_no_finding(tmp_path: Path, style: generate.Style, ending: generate.Ending) -> None:
    data = b"".join(generate.journal(records=40, style=style, ending=ending, run_id="run", seed=3))
    found = verified(private(tmp_path / "run.json", data))
    open_ = [("E_UNCERTAIN_EFFECT", "info")] if ending == "in-flight" else []
    assert [(finding.code, finding.severity) for finding in found] == open_


def test_a_file_that_others_can_read_is_a_warning(tmp_path: Path) -> None:
    path = private(tmp_path / "run.json", b"".join(generate.journal(records=6, run_id="run")))
    path.chmod(0o644)
    (finding,) = verified(path)
    assert (finding.code, finding.severity, finding.line) == ("E_BAD_MODE", "warning", 0)
    assert "0644" in finding.message


def test_the_run_of_another_file_is_named(tmp_path: Path) -> None:
    path = private(tmp_path / "copy.json", b"".join(generate.journal(records=6, run_id="run")))
    (finding,) = verified(path)
    assert finding.code == "E_FOREIGN_RUN"
    assert "'run'" in finding.message


def test_a_run_that_is_held_says_by_whom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = private(
        tmp_path / "run.json", b"".join(generate.journal(records=6, ending="crashed", run_id="run"))
    )
    lock = RunLock.take(path.with_suffix(".lock"))
    try:
        (*_, held) = verified(path)
    finally:
        lock.release()
    assert (held.code, held.severity, held.allowed.resume) == ("E_LOCKED", "info", False)
    assert f"process {os.getpid()} (" in held.message
    assert "E_LOCKED" not in codes(path)
    monkeypatch.setattr("refold.core.store.examining.locked_inodes", lambda: None)
    (*_, unsure) = verified(path)
    assert (unsure.code, unsure.severity) == ("E_LOCK_UNSURE", "info")
    path.with_suffix(".lock").unlink()
    assert "E_LOCK_UNSURE" not in codes(path)


def test_findings_come_while_the_run_is_read(tmp_path: Path) -> None:
    lines = list(generate.journal(size=4 << 20, run_id="run"))
    path = private(tmp_path / "run.json", b"".join([lines[0], b"garbage\n", *lines[1:]]))
    with RunReader.open(path) as reader:
        found = next(iter(examine(reader)))
        assert found.code == "E_BAD_JSON"
        assert reader.bytes_read < reader.size / 2


@pytest.mark.parametrize("ending", [b"", b'{"seq":'])
def test_a_run_of_any_length_is_verified_in_little_memory(tmp_path: Path, ending: bytes) -> None:
    path = tmp_path / "run.json"
    generate.write(path, generate.journal(size=12 << 20, run_id="run"))
    with path.open("ab") as file:
        file.write(ending)
    path.chmod(0o600)
    with RunReader.open(path) as reader:
        next(iter(examine(reader)), None)
        tracemalloc.start()
        count = sum(1 for _ in examine(reader))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert count == (1 if ending else 0)
    assert peak < 6 << 20


def test_a_huge_record_is_decoded_as_strictly_as_any_other(tmp_path: Path) -> None:
    lines = list(generate.huge_record(3 << 20))
    path = private(tmp_path / "huge-record.json", b"".join(lines))
    with RunReader.open(path) as reader:
        known_as = reader.run_id
        good = [finding.code for finding in examine(reader)]
    assert set(good) <= {"E_FOREIGN_RUN"}, known_as
    at = max(range(len(lines)), key=lambda place: len(lines[place]))
    lines[at] = lines[at].replace(b'"tool_use_id":"', b'"tool_use_id":7,"x":"', 1)
    private(path, b"".join(lines))
    assert "E_BAD_RECORD" in codes(path)


def test_a_record_above_sixteen_megabytes_is_remarked_on(tmp_path: Path) -> None:
    path = private(tmp_path / "run.json", b"".join(generate.huge_record(17 << 20)))
    (finding,) = [finding for finding in verified(path) if finding.code != "E_FOREIGN_RUN"]
    assert (finding.code, finding.severity) == ("E_OVERSIZE", "warning")


def test_a_million_brackets_are_one_finding(tmp_path: Path) -> None:
    lines = list(generate.journal(records=6, run_id="run"))
    path = private(tmp_path / "run.json", b"".join([lines[0], b"[" * 1_000_000 + b"\n", *lines[1:]]))
    findings = verified(path)
    assert [finding.code for finding in findings] == ["E_TOO_DEEP"]
    assert findings[0].allowed.fork_to == 1


def test_an_unreadable_value_is_named_by_its_place(tmp_path: Path) -> None:
    lines = list(generate.journal(records=6, style="fisk-ai-v3", run_id="run"))
    lines[1] = lines[1].replace(b'"role":"assistant"', b'"role":["assistant"]', 1)
    findings = verified(private(tmp_path / "run.json", b"".join(lines)))
    assert "assistant.message.role: expected a text, found a list" in findings[0].message


@pytest.mark.parametrize(
    ("line", "where"),
    [
        (b'{"seq":"1"}', "seq: expected a whole number, found a text"),
        (b'{"seq":1.5}', "seq: expected a whole number, found a number with a fraction or an exponent"),
        (b'{"seq":true}', "seq: expected a whole number, found true"),
        (b"[1]", "the record: expected an object, found a list"),
        (
            b'{"assistant":{"message":{"content":[{"text":{"text":""}},{"text":"hi"}]}}}',
            "assistant.message.content[1].text: expected an object, found a text",
        ),
        (b'{"user":{"message":{"content":{}}}}', "user.message.content: expected a list, found an object"),
        (b'{"Tool_Result":{"REMOTE":1}}', "tool_result.remote: expected true or false, found the number 1"),
        (b'{"meta":{"fingerprint":{"max_tokens":false}}}', "meta.fingerprint.max_tokens: expected"),
        (b'{"seq":null,"meta":null}', ""),
        (b'{"seq":-1}', ""),
        (b"no json", ""),
    ],
)
def test_where_a_record_goes_wrong(line: bytes, where: str) -> None:
    found = where_it_fails(line, 3)
    assert found.startswith(where) if where else not found


def test_wire_blocks_have_no_shape_of_ours() -> None:
    assert where_it_fails(b'{"assistant":{"message":{"content":["anything"]}}}', 2) == ""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (rb'"\ud83d\ude00"', False),
        (rb'"\uD83D\uDE00 \ud83d\ude00"', False),
        (rb'"\ud83d"', True),
        (rb'"\ude00\ud83d"', True),
        (rb'"\ud83d\ud83d\ude00"', True),
        (rb'"\ud83d \ude00"', True),
        (rb'"\\ud83d"', False),
        (rb'"\\\ud83d"', True),
        (rb'"\ud83d\n"', True),
        (b'"plain"', False),
    ],
)
def test_half_a_surrogate_pair(text: bytes, *, found: bool) -> None:
    assert bool(surrogates(text)) is found


def test_a_remark_points_at_its_bytes() -> None:
    line = b'{"a":"ok \xff\xfe","b":"\\udc00"}'
    utf8, half, *_ = remarks(line, WIRE)
    assert line[utf8.start : utf8.end] == b"\xff"
    assert line[half.start : half.end] == b"\\udc00"
    assert "FF at column 10" in utf8.reason


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (b'{"seq":1,"seq":2}', "'seq'"),
        (b'{"a":{"b":[{"c":1,"d":2,"c":3}]}}', "'c'"),
        (b'{"seq":1,"Seq":2}', "'seq'"),
        (b'{"b":1,"Seq":2,"seq":3,"B":4}', "'b'"),
        (b'{"a":{"x":1,"X":2}}', None),
        (b'{"a":"\\"seq\\":1,\\"seq\\":2"}', None),
        (b'{"a":1,"b":{"a":1}}', None),
        (b'{"n":' + b"9" * 5000 + b',"n":1}', "'n'"),
        (b'{"\xff":1,"\xff":2}', "'\ufffd'"),
        (b"[" * 100_000, None),
    ],
)
def test_a_key_that_stands_twice(line: bytes, key: str | None) -> None:
    found = [remark.reason for remark in keys_and_words(line, "anything") if remark.code == "E_DUP_KEY"]
    assert found == ([] if key is None else [key])


def test_what_telling_a_repeated_key_costs_grows_with_the_keys_alone() -> None:
    # Counted anew for each key, each of these lines takes minutes.
    keys = ",".join(f'"k{number}":1' for number in range(300_000))
    for line, key in ((f'{{"x":{{{keys},"k299999":2}}}}', "k299999"), (f'{{{keys},"K299999":2}}', "k299999")):
        (found,) = keys_and_words(line.encode(), "anything")
        assert (found.code, found.reason) == ("E_DUP_KEY", repr(key))


NEUTRAL = record_shape(neutral=True, native=False)
NATIVE = record_shape(neutral=False, native=True)


@pytest.mark.parametrize(
    ("line", "shape", "found"),
    [
        (b'{"seq":1,"protocol":"x","meta":{"version":2}}', WIRE, []),
        (b'{"seq":1,"Protocol":"x"}', WIRE, ["E_UNKNOWN_KEY 'Protocol'"]),
        (b'{"seq":1,"time":"t"}', WIRE, ["E_UNKNOWN_KEY 'time'"]),
        (b'{"seq":1,"time":"t"}', NATIVE, []),
        (b'{"meta":{"fingerprint":{"mode":"x"}}}', WIRE, ["E_UNKNOWN_KEY 'meta.fingerprint.mode'"]),
        (
            b'{"meta":{"fingerprint":{"system_hash":"7x"}}}',
            WIRE,
            ["E_UNKNOWN_WORD meta.fingerprint.system_hash is '7x'"],
        ),
        (b'{"meta":{"fingerprint":{"system_hash":"7x"},"forked_from":{"a":1}}}', NATIVE, []),
        (b'{"terminal":{"reason":"exploded"}}', WIRE, ["E_UNKNOWN_WORD terminal.reason is 'exploded'"]),
        (b'{"assistant":{"stop_reason":"stop"}}', NATIVE, []),
        (b'{"assistant":{"stop_reason":"stop"}}', WIRE, ["E_UNKNOWN_WORD assistant.stop_reason is 'stop'"]),
        (b'{"user":{"message":{"role":"usfr"}}}', WIRE, ["E_UNKNOWN_WORD user.message.role is 'usfr'"]),
        (
            b'{"user":{"message":{"content":[{"type":"texu","odd":1}]}}}',
            WIRE,
            ["E_UNKNOWN_WORD user.message.content.type is 'texu'"],
        ),
        (b'{"user":{"message":{"content":[{"type":"image","odd":1}]}}}', WIRE, []),
        (
            b'{"user":{"message":{"content":[{"typf":"text","text":""}]}}}',
            WIRE,
            ["E_UNKNOWN_KEY 'user.message.content.typf'"],
        ),
        (b'{"assistant":{"message":{"content":[{"type":"tool_use","input":{"any":1}}]}}}', WIRE, []),
        (b'{"assistant":{"message":{"content":[{"tool_use":{"input":{"any":1}}}]}}}', NEUTRAL, []),
        (
            b'{"assistant":{"message":{"content":[{"tool_use":{"inqut":{"any":1}}}]}}}',
            NEUTRAL,
            ["E_UNKNOWN_KEY 'assistant.message.content.tool_use.inqut'"],
        ),
        (b'{"tool_result":{"result":{"content":[{"type":"text","cited":1}]}}}', WIRE, [
            "E_UNKNOWN_KEY 'tool_result.result.content.cited'"
        ]),
        (b'{"meta":7,"assistant":[{"x":1}],"user":{"message":null}}', WIRE, []),
    ],
)  # fmt: skip
def test_keys_and_words_that_no_record_has_are_remarks(line: bytes, shape: Shape, found: list[str]) -> None:
    assert [f"{remark.code} {remark.reason}" for remark in keys_and_words(line, shape)] == found


def test_an_odd_key_stops_nothing(tmp_path: Path) -> None:
    lines = list(generate.journal(records=6, style="fisk-ai-v3", run_id="run"))
    lines[1] = lines[1].replace(b'"in_tokens"', b'"in_tokdns"', 1)
    (finding,) = verified(private(tmp_path / "run.json", b"".join(lines)))
    assert (finding.code, finding.severity, finding.line) == ("E_UNKNOWN_KEY", "info", 2)
    assert "assistant.in_tokdns" in finding.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(alphabet="abcdef", max_size=4), JSON, max_size=4), st.booleans())
def test_what_json_writes_without_a_repeat_has_no_remark(value: dict[str, object], escaped: bool) -> None:
    line = json.dumps(value, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    assert keys_and_words(line, "anything") == ()
    assert bad_utf8(line) == () or b"\xed" in line


@given(st.binary(max_size=60))
def test_any_bytes_can_be_looked_at(line: bytes) -> None:
    for remark in remarks(line, WIRE):
        assert 0 <= remark.start < remark.end <= len(line)


def test_no_fork_is_advised_where_none_can_stand_before_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(b"\0" * 12 + b"\n" + b"\0" * 9 + b"\n")
    with RunReader.open(path) as reader:
        reader.index_all()
        found = [*examine(reader), *reader.timeline.findings]
    broken = [finding for finding in found if finding.code == "E_NUL_RUN"]
    assert len(broken) >= 2
    for finding in broken:
        assert finding.allowed.fork_to is None
        assert finding.remedy.startswith("no fork can stand before it")
