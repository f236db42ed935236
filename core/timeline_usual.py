"""Takes the lines that nothing is wrong with into a Timeline, many at once.

Nearly all lines of a run are replies and results in their order, and an end. For those the rules of
`timeline_builder` come to a few sums; whatever else a line is, the builder takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from refold.core.columns import ASSISTANT, ERROR, FOLDED, OPEN, REMOTE, RESULT, SEQUENCED, TERMINAL
from refold.core.formats.usual import Usual
from refold.core.state import in_64_bits
from refold.core.timeline import Timeline
from refold.core.timeline_fold import RESULTS, Clock, IndexFold

_NAN = float("nan")
_PLAIN = SEQUENCED | FOLDED | OPEN


class UsualLines:
    """Fills a Timeline with the lines that nothing is wrong with."""

    def __init__(self, timeline: Timeline, name_of: Callable[[str], int]) -> None:
        """Begin where nothing has been taken; `name_of` gives the number of a name in `timeline.names`."""
        self._timeline = timeline
        self._name_of = name_of
        self._clock = Clock()

    def take(self, fold: IndexFold, usual: Usual, lines: Sequence[bytes], offset: int, number: int) -> int:
        """Take lines until one of them needs a closer look.

        Args:
            fold: what holds before the first line; afterwards what holds behind the last one taken.
            usual: the quick reading of the version that the run was written in.
            lines: complete lines that follow one another, newlines included.
            offset: where the first of them starts in the file.
            number: its number.

        Returns:
            How many lines were taken, from the first one on.
        """
        if fold.first or not fold.has_meta or fold.completed or fold.suspect is not None:
            return 0
        if fold.seen_seq < fold.last_seq:
            return 0
        timeline, name_of = self._timeline, self._name_of
        read, reply_id, answer_id, clock = usual.read, usual.reply, usual.answer, self._clock
        item, seen, waiting, answered = timeline.items, fold.seen_seq, fold.waiting, fold.answered
        llm, results, calls, remote, errors = fold.llm, fold.results, fold.calls, fold.remote, fold.errors
        left, messages, role, iteration = fold.left, fold.messages, fold.last_role, fold.iteration
        rows: list[tuple[int | float, ...]] = []
        for line, found in zip(lines, read(lines), strict=False):
            if found.seq != seen + 1:
                break
            flags, link = _PLAIN, -1
            if (answer := found.tool_result) is not None:
                if found.protocol != answer_id or (ordinals := waiting.pop(answer.tool_use_id, None)) is None:
                    break
                kind = RESULT
                results += 1
                left -= len(ordinals)
                link = ordinals[0]
                answered.add(answer.tool_use_id)
                if role != RESULTS:
                    messages += 1
                    role = RESULTS
                if answer.remote:
                    remote += 1
                    flags |= REMOTE
                if answer.result.is_error:
                    errors += 1
                    flags |= ERROR
            elif (reply := found.assistant) is not None:
                if (
                    found.protocol != reply_id
                    or left
                    or (iteration is not None and reply.iteration <= iteration)
                ):
                    break
                kind = ASSISTANT
                llm += 1
                messages += 1
                message, iteration = reply.message, reply.iteration
                role, waiting, answered, left = message.role, {}, set(), 0
                timeline.iterations.append(iteration)
                timeline.stop_reasons.append(name_of(reply.stop_reason))
                for call_id, name in message.calls():
                    timeline.call_names.append(name_of(name))
                    waiting.setdefault(call_id, []).append(left)
                    left += 1
                calls += left
                fold.in_tokens = in_64_bits(fold.in_tokens + reply.in_tokens)
                fold.out_tokens = in_64_bits(fold.out_tokens + reply.out_tokens)
                fold.cache_read = in_64_bits(fold.cache_read + reply.cache_read_tokens)
                fold.cache_create = in_64_bits(fold.cache_create + reply.cache_create_tokens)
                fold.assistant = item + len(rows)
                timeline.columns.begin_turn(
                    fold.in_tokens, fold.out_tokens, fold.cache_read, fold.cache_create, item + len(rows) + 1
                )
            elif (end := found.terminal) is not None:
                if found.protocol != usual.end:
                    break
                kind, reason = TERMINAL, end.reason
                timeline.reasons.append((item + len(rows), reason))
                fold.completed = reason == "completed"
                if fold.assistant < 0:
                    flags -= OPEN
                if reason == "error":
                    flags |= ERROR
            else:
                break
            seen += 1
            seconds = clock.read(found.time) if usual.timed and found.time else _NAN
            size = len(line)
            rows.append(
                (
                    offset, size - 1, number, seen, kind, flags, llm, results,
                    remote, calls, errors, left, messages, link, seconds,
                )
            )  # fmt: skip
            offset += size
            number += 1
            if fold.completed:
                break
        if rows:
            timeline.columns.add(rows)
            if timeline.first_seconds is None:
                timeline.first_seconds = next((row[-1] for row in rows if row[-1] == row[-1]), None)
            fold.seen_seq = fold.last_seq = seen
            fold.waiting, fold.answered, fold.left = waiting, answered, left
            fold.llm, fold.results, fold.calls, fold.remote, fold.errors = llm, results, calls, remote, errors
            fold.messages, fold.last_role, fold.iteration = messages, role, iteration
        return len(rows)
