"""A process that races: for each line of its input it tries something with a run, and says how that ended.

`go DIRECTORY RUN` tries to resume: `won SEQ`, `locked TEXT` or `missing TEXT` is the answer. A winner holds
the run until the next line and then tries to append one record: `appended SEQ`, or `refused TEXT`.
`fork DIRECTORY RUN SEQ CHILD` forks it after a sequence: `made CHILD`, or `exists TEXT`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.scripted import Step, World, agent

from refold.core.errors import RunExists, RunLocked, RunNotFound, StoreError
from refold.core.records import TerminalRecord
from refold.core.store.fork import carry_out, plan_at
from refold.core.store.journal import JournalStore
from refold.core.store.reader import RunReader
from refold.core.store.resume import open_to_resume

AGENT = agent([Step(), Step()], World())


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def go(directory: str, run: str) -> None:
    """Try to resume, and to append once told to."""
    try:
        opened = open_to_resume(JournalStore(Path(directory)), run, AGENT)
    except RunLocked as error:
        say(f"locked {error}")
        return
    except RunNotFound as error:
        say(f"missing {error}")
        return
    with opened:
        say(f"won {opened.journal.last_seq}")
        sys.stdin.readline()
        try:
            told = f"appended {opened.journal.append(TerminalRecord('suspended'))}"
        except StoreError as error:
            told = f"refused {error}"
    # Only now is the lock free for whoever is told to try next.
    say(told)


def fork(directory: str, run: str, seq: str, child: str) -> None:
    """Try to fork."""
    with RunReader.open(JournalStore(Path(directory)).path_of(run)) as reader:
        item = reader.index_all().item_at(int(seq))
        assert item is not None
        try:
            say(f"made {carry_out(plan_at(reader, item, child=child)).run_id}")
        except RunExists as error:
            say(f"exists {error}")


def main() -> None:
    """Race until standard input ends."""
    for line in sys.stdin:
        word, *rest = line.split()
        (go if word == "go" else fork)(*rest)


if __name__ == "__main__":
    main()
