"""Sessions and sub-agents as hosts see them: listings, the start, progress and end of a sub-agent. The JSON is omp's."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from fairlead.core.lenient import visible
from fairlead.core.messages import as_typed

#: How many characters of a first message are its title.
LONGEST_TITLE = 200


@cache
def _make_attachment_pattern() -> re.Pattern[str]:
    """What `fairlead -p @FILE` puts before a prompt: see `fairlead.cli.print_mode`."""
    return re.compile(r'\A(?:<file name="[^"]*">.*?</file>\s*)+', re.DOTALL)


def title_of(name: str | None, first_message: str, limit: int = LONGEST_TITLE) -> str:
    """Return a name, else the first `limit` characters of a message without the files before it.

    The title is one line that a terminal can show.
    """
    if name:
        text, limit = name, LONGEST_TITLE
    else:
        text = as_typed(_make_attachment_pattern().sub("", first_message, count=1) or first_message)
    line = visible(" ".join(text[: limit * 4].split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


class SessionInfo(Struct, rename="camel", omit_defaults=True):
    """A session in a list of sessions. Times are milliseconds since the epoch."""

    path: str
    id: str = ""
    cwd: str = ""
    name: str | None = None
    created: int = 0
    modified: int = 0
    #: The number of messages in all branches; None if the file is too long to read completely.
    message_count: int | None = None
    #: The first message from the user.
    first_message: str = ""
    parent_session: str | None = None
    #: Why the file cannot be read. Then only its path and modification time are known.
    problem: str | None = None

    def title(self, limit: int = LONGEST_TITLE) -> str:
        """Return its name, else the first `limit` characters of its first message; an empty string if it has neither."""
        return title_of(self.name, self.first_message, limit)


#: Where an agent's definition comes from: this program, the user's home, or the project.
AgentSource: TypeAlias = Literal["bundled", "user", "project"]
#: A sub-agent is queued, works, or has ended in one of three ways.
SubagentStatus: TypeAlias = Literal["pending", "running", "completed", "failed", "aborted"]


class RecentTool(Struct, rename="camel", frozen=True):
    """A tool call that has ended. `args` is a short form of its arguments."""

    tool: str
    args: str
    end_ms: int


class SubagentActivity(Struct, rename="camel", kw_only=True):
    """What a sub-agent has done so far. Long texts are cut."""

    index: int
    id: str
    agent: str
    agent_source: AgentSource
    status: SubagentStatus
    #: Its whole prompt, and the part that is for it alone.
    task: str
    assignment: str
    description: str
    #: Its last tool calls, oldest first.
    recent_tools: list[RecentTool] = []
    #: The last lines of its answers.
    recent_output: list[str] = []
    tool_count: int = 0
    #: Model calls that were answered.
    requests: int = 0
    #: Tokens and US dollars, including those of its sub-agents.
    tokens: int = 0
    cost: float = 0
    duration_ms: int = 0
    #: `provider/id` of its model; absent before it starts.
    resolved_model: str | UnsetType = UNSET


class LifecyclePayload(Struct, rename="camel", kw_only=True):
    """A sub-agent started, or ended in one of three ways."""

    id: str
    index: int
    agent: str
    agent_source: AgentSource
    description: str
    status: Literal["started", "completed", "failed", "aborted"]
    parent_tool_call_id: str
    #: Where its conversation is kept; absent if it is in memory.
    session_file: str | UnsetType = UNSET
    #: Always false: the call that started it waits for it.
    detached: bool = False


class ProgressPayload(Struct, rename="camel", kw_only=True):
    """What a sub-agent has done so far, and which call started it."""

    index: int
    agent: str
    agent_source: AgentSource
    task: str
    assignment: str
    parent_tool_call_id: str
    progress: SubagentActivity
    session_file: str | UnsetType = UNSET
    detached: bool = False


class SubagentSnapshot(Struct, rename="camel", kw_only=True):
    """The state of a sub-agent. `last_update` is in milliseconds since the epoch."""

    id: str
    index: int
    agent: str
    agent_source: AgentSource
    description: str
    status: SubagentStatus
    task: str
    assignment: str
    parent_tool_call_id: str
    last_update: int
    progress: SubagentActivity
    session_file: str | UnsetType = UNSET
