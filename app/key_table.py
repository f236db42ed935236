"""The table of keys: what can be done where, by which keys, and in which words.

A row's `id` is what the configuration remaps (`[keys]` in config.toml).
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Place = Literal[
    "app",
    "runs",
    "run",
    "list",
    "pager",
    "prompt",
    "dialog",
    "columns",
    "resume",
    "fork",
    "lineage",
    "compare",
    "postmortem",
    "mend",
    "history",
    "chat",
    "chatfork",
]
Group = Literal["Go on", "Move", "Find", "Look", "Program"]

GROUPS: Final[tuple[Group, ...]] = ("Go on", "Move", "Find", "Look", "Program")


class Key(NamedTuple):
    """One action and the keys that start it."""

    id: str
    keys: str
    """Textual's names of the keys, with commas between them."""
    action: str
    label: str
    tooltip: str
    group: Group
    hint: str = ""
    """The word in the footer; neighbours with the same word share it. Empty: not in the footer."""
    priority: bool = False

    @property
    def place(self) -> str:
        """The screen or widget that carries the action out."""
        return self.id.partition(".")[0]


TABLE: Final[tuple[Key, ...]] = (
    # The list of runs.
    Key("runs.open", "enter", "open", "Open the run", "Show its records one by one", "Look", "open"),
    Key("runs.resume", "r", "resume", "Resume the run", "The plan is shown first", "Go on", "resume"),
    Key("runs.fork", "f", "fork", "Fork the run", "After its last legal point, or another", "Go on", "fork"),
    Key(
        "runs.postmortem",
        "d",
        "postmortem",
        "Post-mortem",
        "How it ended, what was in flight, what is safe",
        "Look",
        "post-mortem",
    ),
    Key("runs.lineage", "l", "lineage", "Lineage", "The tree of parents and forks", "Look", "lineage"),
    Key(
        "runs.filter",
        "slash",
        "filter",
        "Filter the runs",
        "Words match id, name and prompt; status: agent: model: tool: text: error: problem: fork: after: "
        "before: star: tag: name: note:",
        "Find",
        "filter",
    ),
    Key("runs.clear_filter", "escape", "clear_filter", "Show all runs", "Take the filter away", "Find"),
    Key("runs.sort", "s", "sort", "Sort by the next column", "The header shows which", "Look", "sort"),
    Key("runs.reverse", "S", "reverse", "Turn the order round", "The header shows which", "Look"),
    Key("runs.mark", "space", "mark", "Mark the run", "To compare it with another", "Look", "mark"),
    Key(
        "runs.compare",
        "c",
        "compare",
        "Compare",
        "Two marked runs, else the run with its parent, side by side",
        "Look",
        "compare",
    ),
    Key("runs.columns", "C", "columns", "Choose the columns", "Show and hide columns", "Look"),
    Key("runs.history", "h", "history", "Conversations", "What the chat of Rivumi keeps", "Look"),
    Key("runs.refresh", "R,ctrl+r", "refresh", "Read the directories again", "", "Program"),
    # One run.
    Key("run.step_back", "left", "step(-1)", "One row back", "Move the cursor", "Move", "step"),
    Key("run.step_on", "right", "step(1)", "One row on", "Move the cursor", "Move", "step"),
    Key(
        "run.detail",
        "enter",
        "detail",
        "Into the pane",
        "Scroll it with the arrows; where it has no room of its own it takes the place of the timeline",
        "Look",
        "read",
    ),
    Key("run.resume", "r", "resume", "Resume the run", "The plan is shown first", "Go on", "resume"),
    Key("run.fork", "f", "fork", "Fork here", "After the record under the cursor", "Go on", "fork"),
    Key(
        "run.suspend",
        "s",
        "suspend",
        "Suspend the run",
        "The one that goes on here, after what it does now",
        "Go on",
        "suspend",
    ),
    Key(
        "run.abort",
        "S",
        "abort",
        "Stop the run at once",
        "Once it was told to suspend; what it does now gets no result",
        "Go on",
        "stop now",
    ),
    Key("run.reply", "a", "reply", "Answer the run", "Where it waits for you", "Go on", "answer"),
    Key("run.turn_back", "left_square_bracket", "turn(-1)", "The turn before", "", "Move", "turn"),
    Key("run.turn_on", "right_square_bracket", "turn(1)", "The next turn", "", "Move", "turn"),
    Key(
        "run.problem_back",
        "left_curly_bracket",
        "problem(-1)",
        "The problem before",
        "Errors and damage",
        "Move",
        "problem",
    ),
    Key(
        "run.problem_on",
        "right_curly_bracket",
        "problem(1)",
        "The next problem",
        "Errors and damage",
        "Move",
        "problem",
    ),
    Key(
        "run.point_back",
        "left_parenthesis",
        "point(-1)",
        "The legal fork point before",
        "A record after which the run can be forked",
        "Move",
        "point",
    ),
    Key(
        "run.point_on",
        "right_parenthesis",
        "point(1)",
        "The next legal fork point",
        "A record after which the run can be forked",
        "Move",
        "point",
    ),
    Key("run.search", "slash", "search", "Search in the run", "In every record, as text", "Find", "search"),
    Key("run.go_to", "colon", "go_to", "Go to a sequence number", "As the journal counts", "Move", "go to"),
    Key("run.match_on", "n", "match(1)", "The next match", "", "Find"),
    Key("run.match_back", "N", "match(-1)", "The match before", "", "Find"),
    Key("run.pane_record", "1", "pane('record')", "Pane: Record", "The record, to be read", "Look", "pane"),
    Key("run.pane_state", "2", "pane('state')", "Pane: State", "The fold up to the cursor", "Look", "pane"),
    Key(
        "run.pane_conversation",
        "3",
        "pane('conversation')",
        "Pane: Conversation",
        "What the model would be sent here",
        "Look",
        "pane",
    ),
    Key(
        "run.pane_changes",
        "4",
        "pane('changes')",
        "Pane: Changes",
        "What the record changes in files, or all up to it",
        "Look",
        "pane",
    ),
    Key("run.pane_raw", "5", "pane('raw')", "Pane: Raw", "The exact bytes", "Look", "pane"),
    Key("run.pane_next", "tab", "next_pane(1)", "The next pane", "", "Look"),
    Key("run.pane_before", "shift+tab", "next_pane(-1)", "The pane before", "", "Look"),
    Key("run.thinking", "z", "thinking", "Show or fold thinking", "", "Look"),
    Key(
        "run.unfold",
        "Z",
        "unfold",
        "Show more",
        "Long output whole, earlier messages, the bytes in Raw as numbers",
        "Look",
    ),
    Key(
        "run.postmortem",
        "d",
        "postmortem",
        "Post-mortem",
        "How it ended, what was in flight, what is safe",
        "Look",
        "post-mortem",
    ),
    Key("run.lineage", "l", "lineage", "Lineage", "The tree of parents and forks", "Look", "lineage"),
    Key("run.compare", "c", "compare", "Compare", "With its parent, side by side", "Look", "compare"),
    Key("run.follow", "F", "follow", "Follow the end", "Until the cursor leaves it", "Move", "follow"),
    Key("run.ruler", "t", "ruler", "Ruler by count or by time", "", "Look", "ruler"),
    Key(
        "run.copy",
        "y",
        "copy",
        "Copy the record",
        "Its bytes as they are, sent to the terminal's clipboard",
        "Look",
        "copy",
    ),
    Key("run.back", "escape", "back", "Back to the runs", "", "Program", "back"),
    # What is asked at the foot of a screen, and whatever lies over one.
    Key("prompt.accept", "enter", "accept", "Take the text", "", "Program", "accept", priority=True),
    Key("prompt.cancel", "escape", "cancel", "Leave it as it was", "", "Program", "cancel"),
    Key("prompt.up", "up", "step(-1)", "One row up while typing", "", "Move", "move", priority=True),
    Key("prompt.down", "down", "step(1)", "One row down while typing", "", "Move", "move", priority=True),
    Key("prompt.page_up", "pageup", "page(-1)", "One page up while typing", "", "Move", priority=True),
    Key("prompt.page_down", "pagedown", "page(1)", "One page down while typing", "", "Move", priority=True),
    Key("dialog.close", "escape,q,enter", "close", "Close", "", "Program", "close"),
    Key("columns.switch", "space,enter", "switch", "Show or hide the column", "", "Look"),
    Key("columns.close", "escape,q,C", "close", "Close", "", "Program"),
    # The dialog before a resume.
    Key("resume.go", "enter", "go", "Resume", "As it is shown", "Go on", "resume"),
    Key(
        "resume.in_terminal",
        "t",
        "in_terminal",
        "Resume in the terminal",
        "Refold steps back until it ends",
        "Go on",
        "terminal",
    ),
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
        "resume.force",
        "F",
        "force",
        "Force",
        "Past a changed fingerprint; the reason is recorded",
        "Go on",
        "force",
    ),
    Key(
        "resume.before",
        "b",
        "fork_before",
        "Fork before the calls",
        "Before the open turn",
        "Go on",
        "fork before",
    ),
    Key("resume.fork", "f", "fork", "Fork instead", "After the last legal point", "Go on", "fork"),
    Key("resume.look", "o", "look", "Open read-only", "Watch what its holder does", "Look", "read-only"),
    Key(
        "resume.agent",
        "c",
        "name_agent",
        "Name the agent",
        "Its factory, or the configuration that it is started with",
        "Go on",
        "agent",
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
        "lineage.fork", "f", "fork", "Fork the run", "After its last legal point, or another", "Go on", "fork"
    ),
    Key("lineage.compare", "c", "compare", "Compare", "With its parent, side by side", "Look", "compare"),
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
    # Every list.
    Key("list.up", "up,k", "cursor_up", "One row up", "", "Move", "move"),
    Key("list.down", "down,j", "cursor_down", "One row down", "", "Move", "move"),
    Key("list.page_up", "pageup", "page_up", "One page up", "", "Move"),
    Key("list.page_down", "pagedown", "page_down", "One page down", "", "Move"),
    Key("list.first", "home,g", "first", "The first row", "", "Move"),
    Key("list.last", "end,G", "last", "The last row", "", "Move"),
    # Every text.
    Key("pager.up", "up,k", "scroll_up", "Scroll up", "", "Move"),
    Key("pager.down", "down,j", "scroll_down", "Scroll down", "", "Move"),
    Key("pager.page_up", "pageup", "page_up", "Scroll a page up", "", "Move"),
    Key("pager.page_down", "pagedown,space", "page_down", "Scroll a page down", "", "Move"),
    Key("pager.first", "home,g", "scroll_home", "The first line", "", "Move"),
    Key("pager.last", "end,G", "scroll_end", "The last line", "", "Move"),
    Key("pager.left", "shift+left", "scroll_left", "Scroll to the left", "", "Move"),
    Key("pager.right", "shift+right", "scroll_right", "Scroll to the right", "", "Move"),
    # Everywhere.
    Key(
        "app.palette",
        "ctrl+p",
        "command_palette",
        "Palette",
        "Every action by name",
        "Program",
        "palette",
        priority=True,
    ),
    Key("app.quit", "q,ctrl+q", "quit", "Quit", "Leave Refold", "Program", "quit"),
    Key("app.help", "question_mark,f1", "help", "Help", "Keys, glyphs and words", "Program", "help"),
)
