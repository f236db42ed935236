"""One record rendered for reading: text wrapped, arguments as JSON, output unwrapped, long parts folded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from refold.app import safe
from refold.app.lines import Cell, Line, Role
from refold.app.present import units
from refold.app.present.json_text import json_lines
from refold.app.present.layout import BLANK, cell, flow, paragraph
from refold.app.present.output import Output, unwrap
from refold.app.present.times import clock
from refold.app.present.view import View as View
from refold.app.safe import Safe
from refold.core.blocks import Block, read_blocks, result_is_error, result_text
from refold.core.columns import Row, Span
from refold.core.decisions import leaves_unknown
from refold.core.findings import Finding
from refold.core.records import (
    AssistantRecord,
    Fingerprint,
    IncompleteRecord,
    MetaRecord,
    Record,
    Resumed,
    TerminalRecord,
    ToolResultRecord,
    UnknownRecord,
    UserRecord,
)

READ: Final = 131_072
"""So many bytes of a record are rendered; Raw shows the others."""

_FOLDED: Final = 40
_LABEL: Final = 14


class Answer(NamedTuple):
    """The other half of a call: where its result, or the call of a result, stands."""

    seq: int | None
    name: str
    error: bool = False
    unknown: bool = False
    """A person recorded it as failed, and it may have run."""


class Subject(NamedTuple):
    """What the Record pane shows: one row, with what the timeline knows about it."""

    row: Row
    span: Span
    head: bytes
    """The first bytes of the record, at most `READ`."""
    record: Record | None
    """What they say; None where they are no record."""
    findings: tuple[Finding, ...] = ()
    seconds: float | None = None
    turn: int = 0
    answers: tuple[Answer | None, ...] = ()
    """For an assistant record, one entry a call; for a result its call."""
    recovered: bool = False
    inherited: bool = False
    waits: bool = False
    """A call without a result may still get one: nobody has begun it here."""

    @property
    def hidden(self) -> int:
        """How many bytes of the record are not rendered."""
        return max(0, self.span.end - self.span.start - len(self.head))


def record_lines(subject: Subject, width: int, view: View) -> Iterator[Line]:
    """Give the lines of a record, one after the other, for a pane of this width."""
    yield from heading_lines(subject, width, view)
    yield from finding_lines(subject, width)
    yield BLANK
    record = subject.record
    match record:
        case MetaRecord():
            yield from _meta(record, width, view)
        case AssistantRecord():
            yield from _assistant(subject, record, width, view)
        case UserRecord():
            yield from _resumed(record.resumed, width)
            yield from block_lines(read_blocks(record.message.content), width, view)
        case ToolResultRecord():
            yield from _result(subject, record, width, view)
        case TerminalRecord():
            yield from _terminal(record, width)
        case IncompleteRecord():
            yield from flow((cell(f"A {record.kind} record without its payload.", "problem"),), width)
        case UnknownRecord():
            yield from flow((cell("Protocol  ", "dim"), cell(record.protocol)), width, 10)
            yield from flow((cell("No record that this build knows; Raw shows its bytes.", "warn"),), width)
        case _:
            yield from bytes_lines(subject.head, width, view)
    if subject.hidden:
        yield BLANK
        text = f"⋯ {units.size(subject.hidden)} of this record not shown here; Raw shows all of it"
        yield from flow((cell(text, "warn"),), width, 2)


def heading_lines(subject: Subject, width: int, view: View) -> Iterator[Line]:
    """Say which record it is and where it stands."""
    row, where = subject.row, subject.span
    kind = row.kind.capitalize()
    role: Role = "problem" if row.kind == "damage" else "strong"
    title = [cell(kind, role)]
    if row.seq is not None:
        title += [cell("  seq ", "dim"), cell(str(row.seq), "number")]
    title += [cell("  line ", "dim"), cell(units.grouped(where.line))]
    if subject.turn and row.kind != "damage":
        title += [cell("  turn ", "dim"), cell(units.grouped(subject.turn))]
    if subject.inherited:
        title.append(cell("  ψ inherited from the parent", "fork"))
    yield from flow(title, width, 2)
    place = f"{units.size(where.end - where.start)} at byte {where.start:,}"
    yield from paragraph(safe.line(place), width, "dim")
    time = getattr(subject.record, "time", None)
    if time is not None:
        since = f"{units.since_start(subject.seconds)}  " if subject.seconds is not None else ""
        yield from paragraph(safe.line(f"{since}{clock(time, view.times)}", 100), width, "dim")


def finding_lines(subject: Subject, width: int) -> Iterator[Line]:
    """Say what is wrong with the record."""
    if subject.recovered:
        text = "recovered out of a damaged line; the strict fold does not use it"
        yield from flow((cell(f"⚠ {text}", "warn"),), width, 2)
    for finding in subject.findings:
        role: Role = "dim" if finding.severity == "info" else "problem"
        yield from flow((cell(f"⚠ {finding.code}  ", role), cell(finding.message, "text", 1000)), width, 2)
        if finding.remedy:
            yield from flow((cell(f"  → {finding.remedy}", "dim"),), width, 4)


def _meta(record: MetaRecord, width: int, view: View) -> Iterator[Line]:
    yield from text_lines(
        record.prompt or "(no prompt)", width, "text" if record.prompt else "dim", _FOLDED, ""
    )
    yield BLANK
    print_ = record.fingerprint
    yield from field_lines("run", record.run_id, width)
    if record.forked_from is not None:
        fork = record.forked_from
        yield from field_lines("forked from", f"ψ {fork.run_id} at seq {fork.seq}", width, "fork")
        if fork.reason:
            yield from field_lines("", fork.reason, width)
    yield from field_lines("version", str(record.version), width)
    yield from field_lines("created", clock(record.created, view.times) or "not recorded", width)
    yield from field_lines("interactive", "yes" if record.interactive else "no", width)
    yield from fingerprint_lines(print_, width)


def fingerprint_lines(print_: Fingerprint, width: int) -> Iterator[Line]:
    """Give what a resume compares: hashes shortened, the prompt itself is nowhere recorded."""
    yield from field_lines("model", print_.model or "–", width)
    if print_.provider is not None:
        yield from field_lines("provider", print_.provider or "–", width)
    yield from field_lines("system", _hash(print_.system_hash), width)
    yield from field_lines("tools", _hash(print_.tools_hash), width)
    yield from field_lines("thinking", print_.thinking_mode or "–", width)
    limits = f"{units.grouped(print_.max_tokens)} tokens · {units.plural(print_.max_iterations, 'turn')}"
    yield from field_lines("limits", limits, width)


def _hash(text: str) -> str:
    return f"{text[:12]}…" if len(text) > 13 else text or "–"


def _assistant(subject: Subject, record: AssistantRecord, width: int, view: View) -> Iterator[Line]:
    blocks = read_blocks(record.message.content)
    if subject.row.call >= 0:
        calls = [block for block in blocks if block.kind == "call"]
        if subject.row.call < len(calls):
            answer = subject.answers[subject.row.call] if subject.row.call < len(subject.answers) else None
            yield from _call(calls[subject.row.call], answer, width, waits=subject.waits)
        else:
            yield from flow(
                (cell("This call stands beyond the part of the record that is read here.", "dim"),), width
            )
        return
    yield from _resumed(record.resumed, width)
    if not subject.hidden:
        counts = f"{units.grouped(record.in_tokens)} in · {units.grouped(record.out_tokens)} out"
        if record.cache_read_tokens or record.cache_create_tokens:
            counts += f" · {units.grouped(record.cache_read_tokens)} cache read"
            counts += f" · {units.grouped(record.cache_create_tokens)} cache written"
        yield from field_lines("tokens", counts, width)
        odd = record.stop_reason not in ("", "end_turn", "tool_use", "stop_sequence")
        yield from field_lines(
            "stop reason", record.stop_reason or "no reason", width, "warn" if odd else "text"
        )
        yield from field_lines("iteration", f"{record.iteration}, as recorded: counted from 0", width)
        yield BLANK
    yield from block_lines(blocks, width, view, subject.answers, waits=subject.waits)


def block_lines(
    blocks: tuple[Block, ...],
    width: int,
    view: View,
    answers: tuple[Answer | None, ...] | None = None,
    *,
    waits: bool = False,
) -> Iterator[Line]:
    """Give the lines of the blocks of a message; with `answers` each call says how it ended."""
    if not blocks:
        yield from flow((Cell(Safe("no content"), "dim"),), width, 2)
    calls = 0
    for number, block in enumerate(blocks):
        if number:
            yield BLANK
        if block.kind == "text":
            limit = 0 if view.unfolded else 5 * _FOLDED
            yield from text_lines(block.text, width, "text", limit, view.unfold_key)
        elif block.kind == "thinking":
            yield from _thought(block.text, width, view)
        elif block.kind == "call":
            answer = answers[calls] if answers is not None and calls < len(answers) else None
            calls += 1
            yield from _call(block, answer, width, known=answers is not None, waits=waits)
        elif block.kind == "result":
            yield from _result_block(block, width, view)
        else:
            yield from flow((cell(block.name or "other", "meta", 80),), width)
            yield from json_lines(block.raw, width)


def _thought(text: str, width: int, view: View) -> Iterator[Line]:
    if not view.thinking:
        first = next(iter(text.strip().split("\n")), "")
        note = f"▸ thinking, {units.plural(len(text), 'character')}  ({view.thinking_key} shows it)  "
        yield safe_row((cell(note, "dim"), cell(first, "dim", 400)), width)
        return
    folds = f"  ({view.thinking_key} folds it)" if view.thinking_key else ""
    yield from flow((cell(f"▾ thinking{folds}", "dim"),), width, 2)
    yield from text_lines(text, width, "dim", 0 if view.unfolded else 5 * _FOLDED, view.unfold_key, indent=2)


def _call(
    block: Block, answer: Answer | None, width: int, *, known: bool = True, waits: bool = False
) -> Iterator[Line]:
    yield from flow(
        (cell("call ", "call"), cell(block.name or "unnamed tool", "strong"), cell(f"  {block.id}", "dim")),
        width,
        2,
    )
    if known:
        yield from _verdict(answer, width, waits=waits)
    yield from json_lines(block.input, width, indent=2)


def _verdict(answer: Answer | None, width: int, *, waits: bool) -> Iterator[Line]:
    if answer is None and waits:
        yield from flow((cell("  no result yet: not run here"),), width, 2)
    elif answer is None:
        yield from flow((cell("  no result recorded: outcome unknown", "warn"),), width, 2)
    elif answer.unknown:
        said = f"  ? recorded as failed at seq {answer.seq}: outcome unknown"
        yield from flow((cell(said, "warn"),), width, 2)
    elif answer.error:
        yield from flow((cell(f"  ✗ failed at seq {answer.seq}", "problem"),), width, 2)
    else:
        yield from flow((cell(f"  ✓ answered at seq {answer.seq}", "good"),), width, 2)


def _result(subject: Subject, record: ToolResultRecord, width: int, view: View) -> Iterator[Line]:
    yield from _resumed(record.resumed, width)
    answer = subject.answers[0] if subject.answers else None
    parts: tuple[Cell, ...]
    if answer is not None:
        parts = (
            cell("answers ", "dim"),
            cell(answer.name, "strong"),
            cell(f"  of seq {answer.seq}  ", "dim"),
        )
    else:
        parts = (cell("answers no call of this turn  ", "warn"),)
    yield from flow((*parts, cell(record.tool_use_id, "dim", 200)), width, 2)
    if record.decision is not None:
        text = f"decided by a person: {record.decision.choice}  {record.decision.text}"
        yield from flow((cell(text, "accent", 1000),), width, 2)
    if record.remote:
        yield from flow((cell("ran on another agent", "dim"),), width, 2)
    error = result_is_error(record.result)
    if leaves_unknown(record):
        # No tool said so.
        error = False
        said = "? outcome unknown: it was recorded as failed, and may have run"
        yield from flow((cell(said, "warn"),), width, 2)
    yield from _output(unwrap(result_text(record.result), whole=not subject.hidden), width, view, error=error)


def _result_block(block: Block, width: int, view: View) -> Iterator[Line]:
    yield from flow((cell("result ", "result"), cell(block.id, "dim")), width, 2)
    yield from _output(unwrap(block.text), width, view, error=block.is_error)


def _output(output: Output, width: int, view: View, *, error: bool) -> Iterator[Line]:
    if error:
        yield from flow((Cell(Safe("✗ the tool reported an error"), "problem"),), width, 2)
    if output.denied:
        yield from flow((Cell(Safe("denied: the call did not run"), "warn"),), width, 2)
    if output.command:
        yield from flow((cell("$ ", "dim"), cell(output.command, "strong", 4000)), width, 2)
    if output.exit_code is not None:
        role: Role = "warn" if output.exit_code else "dim"
        yield from flow((cell(f"exit {output.exit_code}", role, 40),), width, 2)
    if output.shortened:
        yield from flow((cell("the tool kept only the head and the tail of its output", "dim"),), width, 2)
    yield BLANK
    if output.text:
        yield from text_lines(output.text, width, "text", 0 if view.unfolded else _FOLDED, view.unfold_key)
    else:
        yield from flow((Cell(Safe("no output"), "dim"),), width, 2)


def _terminal(record: TerminalRecord, width: int) -> Iterator[Line]:
    yield from _resumed(record.resumed, width)
    yield from field_lines("reason", record.reason or "none given", width, "strong")
    if record.message:
        yield from text_lines(record.message, width, "text", 5 * _FOLDED, "")


def _resumed(resumed: Resumed | None, width: int) -> Iterator[Line]:
    if resumed is None:
        return
    text = "resumed here by force" if resumed.forced else "resumed here"
    reason = f": {resumed.reason}" if resumed.reason else ""
    yield from flow((cell(text + reason, "accent", 1000),), width, 2)


def bytes_lines(head: bytes, width: int, view: View) -> Iterator[Line]:
    """Give the bytes of what is no record, as far as they are text."""
    yield from flow((cell("What stands there, as far as it is text:", "dim"),), width, 2)
    shown = 4096 if not view.unfolded else len(head)
    yield from paragraph(safe.from_bytes(head[:shown]), width, "text")
    if len(head) > shown:
        yield from flow(
            (cell(f"⋯ {units.size(len(head) - shown)} more  ({view.unfold_key} shows it)", "dim"),), width
        )


def text_lines(text: str, width: int, role: Role, limit: int, key: str, *, indent: int = 0) -> Iterator[Line]:
    """Give the lines of a text, folded after `limit` of them; 0 folds nothing."""
    rows = text.removesuffix("\n").split("\n")
    made = 0
    for number, row in enumerate(rows):
        left = len(rows) - number
        if limit and made >= limit and left > 2:
            hint = f"  ({key} shows them)" if key else ""
            yield from flow((cell(f"⋯ {units.plural(left, 'more line')}{hint}", "accent"),), width, 2)
            return
        for line in paragraph(safe.block(row)[0], width, role, indent=indent):
            yield line
            made += 1
            if limit and made > 4 * limit:
                hint = f"  ({key} shows it)" if key else ""
                yield from flow(
                    (
                        cell(
                            f"⋯ the rest of a long line and {units.plural(left - 1, 'more line')}{hint}",
                            "accent",
                        ),
                    ),
                    width,
                    2,
                )
                return


def field_lines(name: str, value: str, width: int, role: Role = "text") -> Iterator[Line]:
    """Give a named value."""
    yield from flow((cell(f"{name:<{_LABEL}}", "dim"), cell(value, role, 2000)), width, _LABEL)


def safe_row(cells: tuple[Cell, ...], width: int) -> Line:
    """Give cells on one line, cut at the width."""
    left = width
    line: list[Cell] = []
    for text, role in cells:
        line.append(Cell(safe.fit(text, left) if safe.width(text) > left else text, role))
        left -= safe.width(line[-1].text)
        if left <= 0:
            break
    return tuple(line)
