"""A resumer that races: for each line of standard input it tries to open the run, and says how that ended.

`go DIRECTORY` tries; the answer is `won SEQ` or `locked TEXT`. A winner holds the run until the next line and
then tries to append one record: `appended SEQ`, or `refused TEXT`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.scripted import Step, World, agent

from refold.core.errors import RunLocked, StoreError
from refold.core.records import TerminalRecord
from refold.core.store.journal import JournalStore
from refold.core.store.resume import open_to_resume


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    """Race until standard input ends."""
    made = agent([Step(), Step()], World())
    for line in sys.stdin:
        store = JournalStore(Path(line.split()[1]))
        try:
            opened = open_to_resume(store, "run", made)
        except RunLocked as error:
            say(f"locked {error}")
            continue
        with opened:
            say(f"won {opened.journal.last_seq}")
            sys.stdin.readline()
            try:
                say(f"appended {opened.journal.append(TerminalRecord('suspended'))}")
            except StoreError as error:
                say(f"refused {error}")


if __name__ == "__main__":
    main()
