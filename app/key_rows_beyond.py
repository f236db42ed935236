"""The keys of all that opens from the two first screens."""

from __future__ import annotations

from typing import Final

from refold.app.key_row import Key

BEYOND: Final[tuple[Key, ...]] = (
    # What is asked at the foot of a screen, and whatever lies over one.
    Key("prompt.accept", "enter", "accept", "Take the text", "", "Program", "accept", priority=True),
    Key("prompt.cancel", "escape", "cancel", "Leave it as it was", "", "Program", "cancel"),
    Key("prompt.up", "up", "step(-1)", "One row up while typing", "", "Move", "move", priority=True),
    Key("prompt.down", "down", "step(1)", "One row down while typing", "", "Move", "move", priority=True),
    Key("prompt.page_up", "pageup", "page(-1)", "One page up while typing", "", "Move", priority=True),
    Key("prompt.page_down", "pagedown", "page(1)", "One page down while typing", "", "Move", priority=True),
    Key("dialog.close", "escape,q,enter", "close", "Close", "", "Program", "close"),
    Key("columns.switch", "space,enter", "switch", "Show or hide the column", "", "Look", "show/hide"),
    Key("columns.close", "escape,q,C", "close", "Close", "", "Program", "close"),
    # The dialog before a resume.
    Key("resume.go", "enter", "go", "Resume", "As it is shown", "Go on", "resume"),
    Key("resume.look", "o", "look", "Open read-only", "Watch what its holder does", "Look", "read-only"),
    Key("resume.agree", "m", "agree", "Mend the end", "Agree to the repair, or not", "Go on", "mend"),
    Key(
        "resume.failed",
        "x",
        "decide('failed')",
        "Record the call as failed",
        "Outcome unknown",
        "Go on",
        "failed",
    ),
    Key(
        "resume.done",
        "d",
        "decide('done')",
        "Record a result",
        "The call has run: say what came of it",
        "Go on",
        "done",
    ),
    Key(
        "resume.rerun",
        "a",
        "decide('rerun')",
        "Run the call again",
        "It may have run already",
        "Go on",
        "again",
    ),
    Key("resume.take_back", "u", "take_back", "Take the decision back", "", "Go on", "undo"),
    Key(
        "resume.agent",
        "c",
        "name_agent",
        "Name the agent",
        "Its factory, or the configuration that it is started with",
        "Go on",
        "agent",
    ),
    Key(
        "resume.force",
        "F",
        "force",
        "Force",
        "Past a changed fingerprint; the reason is recorded",
        "Go on",
        "force",
    ),
    Key(
        "resume.in_terminal",
        "t",
        "in_terminal",
        "Resume in the terminal",
        "Refold steps back until it ends",
        "Go on",
        "terminal",
    ),
    Key("resume.fork", "f", "fork", "Fork instead", "After the last legal point", "Go on", "fork"),
    Key(
        "resume.before",
        "b",
        "fork_before",
        "Fork before the calls",
        "Before the open turn",
        "Go on",
        "fork before",
    ),
    Key("resume.again", "R", "read_again", "Read the run again", "", "Program"),
    Key("resume.close", "escape,q", "close", "Back", "Nothing is written", "Program", "back"),
    # The dialog before a fork.
    Key("fork.go", "enter", "go", "Fork", "As it is shown", "Go on", "fork"),
    Key(
        "fork.point_back", "left_parenthesis,left", "point(-1)", "The legal point before", "", "Move", "point"
    ),
    Key("fork.point_on", "right_parenthesis,right", "point(1)", "The next legal point", "", "Move", "point"),
    Key("fork.name", "n", "ask('name')", "Name the new run", "Letters, digits, - and _", "Go on", "name"),
    Key("fork.prompt", "p", "ask('prompt')", "Write a prompt", "What the user says next", "Go on", "prompt"),
    Key("fork.reason", "w", "ask('reason')", "Say why", "Recorded with the new run", "Go on", "why"),
    Key("fork.close", "escape,q", "close", "Back", "Nothing is written", "Program", "back"),
    # Parents and forks.
    Key("lineage.open", "enter", "open", "Open the run", "Show its records one by one", "Look", "open"),
    Key("lineage.resume", "r", "resume", "Resume the run", "The plan is shown first", "Go on", "resume"),
    Key(
        "lineage.fork",
        "f",
        "fork",
        "Fork the run",
        "Before the trouble, else at its end; or elsewhere",
        "Go on",
        "fork",
    ),
    Key("lineage.mark", "space", "mark", "Mark the run", "To compare it with another", "Look", "mark"),
    Key(
        "lineage.compare",
        "c",
        "compare",
        "Compare",
        "Two marked runs, else the run with its parent, side by side",
        "Look",
        "compare",
    ),
    Key("lineage.back", "escape", "back", "Back", "", "Program", "back"),
    # Two runs side by side.
    Key(
        "compare.open", "enter", "open", "Open the run", "At this record, of the side chosen", "Look", "open"
    ),
    Key(
        "compare.difference_back",
        "left_curly_bracket",
        "difference(-1)",
        "The difference before",
        "Or the turn before in a long one",
        "Move",
        "difference",
    ),
    Key(
        "compare.difference_on",
        "right_curly_bracket",
        "difference(1)",
        "The next difference",
        "Or the next turn in a long one",
        "Move",
        "difference",
    ),
    Key("compare.side", "tab,left,right", "side", "The other side", "What enter opens", "Move", "side"),
    Key("compare.back", "escape", "back", "Back", "", "Program", "back"),
    # A run that stopped.
    Key(
        "postmortem.open",
        "enter",
        "open",
        "Go there",
        "To the record, or what is offered",
        "Look",
        "go there",
    ),
    Key("postmortem.resume", "r", "resume", "Resume the run", "The plan is shown first", "Go on", "resume"),
    Key(
        "postmortem.fork", "f", "fork", "Fork before the trouble", "The plan is shown first", "Go on", "fork"
    ),
    Key(
        "postmortem.salvage",
        "s",
        "salvage",
        "Salvage the good records",
        "Into a new run; the plan is shown first",
        "Go on",
        "salvage",
    ),
    Key("postmortem.repair", "m", "repair", "Mend the end", "The plan is shown first", "Go on", "mend"),
    Key("postmortem.lineage", "l", "lineage", "Lineage", "The tree of parents and forks", "Look", "lineage"),
    Key("postmortem.back", "escape,d", "back", "Back", "Nothing is written", "Program", "back"),
    # The dialog before a repair or a salvage.
    Key("mend.go", "enter", "go", "Do it", "As it is shown", "Go on", "do it"),
    Key("mend.close", "escape,q", "close", "Back", "Nothing is written", "Program", "back"),
    # What lies in the trash.
    Key("trash.put_back", "u", "put_back", "Put it back", "Where it lay, as it was", "Go on", "put back"),
    Key("trash.delete", "D", "delete", "Delete it for good", "A word is asked for first", "Go on", "delete"),
    Key("trash.refresh", "R,ctrl+r", "refresh", "Look at the trash again", "", "Program"),
    Key("trash.back", "escape", "back", "Back to the runs", "", "Program", "back"),
    # Conversations.
    Key("history.open", "enter", "open", "Open the conversation", "Show its turns", "Look", "open"),
    Key(
        "history.filter",
        "slash",
        "filter",
        "Filter the conversations",
        "Words match title, id, runtime, model and prompts",
        "Find",
        "filter",
    ),
    Key("history.refresh", "R,ctrl+r", "refresh", "Read the conversations again", "", "Program"),
    Key("history.back", "escape", "back", "Show all conversations, or leave", "", "Program", "back"),
    # One conversation.
    Key(
        "chat.fork",
        "f",
        "fork",
        "Fork before this prompt",
        "A new conversation of what stands before it; the plan is shown first",
        "Go on",
        "fork before",
    ),
    Key(
        "chat.resume",
        "r",
        "resume",
        "Go on in its own program",
        "What resumes it is sent to the clipboard, then its program gets the terminal",
        "Go on",
        "resume",
    ),
    Key(
        "chat.copy",
        "y",
        "copy",
        "Copy what resumes it",
        "The command for the prompt of its own program, sent to the terminal's clipboard",
        "Go on",
        "copy",
    ),
    Key("chat.pane", "enter", "pane", "Into the text", "Scroll it with the arrows", "Look", "read"),
    Key("chat.back", "escape", "back", "Back to the conversations", "", "Program", "back"),
    # The dialog before a fork of a conversation.
    Key("chatfork.go", "enter", "go", "Fork", "As it is shown", "Go on", "fork"),
    Key("chatfork.close", "escape,q", "close", "Back", "Nothing is written", "Program", "back"),
    # What a run is called by, to be copied.
    Key("copymenu.id", "i", "copy('id')", "Copy the id", "", "Look", "id"),
    Key("copymenu.path", "p", "copy('path')", "Copy the path", "", "Look", "path"),
    Key("copymenu.link", "l", "copy('link')", "Copy the deep link", "RUN@SEQ", "Look", "link"),
    Key("copymenu.resume", "r", "copy('resume')", "Copy the resume command", "", "Look", "command"),
    Key("copymenu.close", "escape,q,Y", "close", "Close", "", "Program", "close"),
    Key("directories.close", "escape,q,enter,D", "close", "Close", "", "Program", "close"),
    # The dialog before an export.
    Key("export.go", "enter", "go", "Write it", "As it is shown", "Go on", "write"),
    Key("export.format_back", "left", "format(-1)", "The format before", "", "Move", "format"),
    Key("export.format_on", "right", "format(1)", "The next format", "", "Move", "format"),
    Key("export.file", "f", "file", "Name the file", "Or the directory for several runs", "Go on", "file"),
    Key(
        "export.redact", "x", "redact", "Redaction on or off", "Off: secrets go with it", "Go on", "redaction"
    ),
    Key("export.close", "escape,q", "close", "Back, or stop writing", "Nothing is left", "Program", "cancel"),
    # The search over all runs.
    Key("search.open", "enter", "open", "Open the run", "On the record of the hit", "Look", "open"),
    Key("search.words", "slash", "words", "Change the words", "The hits follow", "Find", "words"),
    Key("search.back", "escape", "back", "Take the words away, or leave", "", "Program", "back"),
)
