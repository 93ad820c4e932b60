"""What the chat says about the session beside the conversation: the footer, the spinner, the title of the window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING

from fairlead import events
from fairlead.chat.view.footer import Facts, git_branch, short_folder, user_home
from fairlead.chat.view.titles import format_elapsed
from fairlead.messages import AssistantMessage

if TYPE_CHECKING:
    from fairlead import Agent

#: A session with more entries than this is not added up again after each run.
_MANY_ENTRIES = 3000
#: How many characters of a running command's output are kept to be shown.
_TAIL = 4000


class Status:
    """The state of a session, as the chat shows it. It follows the events of the session.

    Args:
        agent: The agent of the session.
        env: The environment, which names the user's own directory.
        set_title: Sets the title of the window.

    Attributes:
        facts: What the footer says.
        activity: What keeps the session busy, for the spinner; None: nothing.
        queued: The messages that wait: as steering, and as follow-ups.
        command_tail: The end of what a shell command of the user has printed so far.
    """

    def __init__(self, agent: Agent, env: Mapping[str, str], set_title: Callable[[str], None]) -> None:
        self._session = agent.session
        self._env = env
        self._set_title = set_title
        self.facts = Facts()
        self.activity: str | None = None
        self.queued: tuple[list[str], list[str]] = ([], [])
        self.command_tail = ""
        self._busy_since = 0.0
        #: When the activity begins; it has begun if that is in the past.
        self._begins_at = 0.0
        #: The title that an extension has set.
        self._own_title: str | None = None

    @property
    def is_busy(self) -> bool:
        """Whether the agent works."""
        return self._session.activity.is_streaming or self._session.activity.is_compacting

    @property
    def busy_seconds(self) -> float:
        return monotonic() - self._busy_since

    @property
    def doing(self) -> str | None:
        """What keeps the session busy, with the time it has taken or the time until it begins; None: nothing."""
        if self.activity is None:
            return None
        left = self._begins_at - monotonic()
        return f"{self.activity} in {format_elapsed(ceil(left), 0)}" if left > 0 else self.with_time(self.activity)

    def with_time(self, text: str) -> str:
        """Return the text with the time that the session has been busy."""
        return f"{text} {format_elapsed(self.busy_seconds, whole_from=0)}"

    def handle(self, event: events.Event) -> None:
        """Follow an event of the session."""
        match event:
            case events.AgentStart():
                self.set_activity("Working")
            case events.AgentSettled():
                self.set_activity(None)
                self.refresh(totals=len(self._session.history.log) < _MANY_ENTRIES)
            case events.RetryStart() | events.SummaryRetryScheduled():
                text = f"Retry {event.attempt} of {event.max_attempts}"
                self.set_activity(text, begins_at=monotonic() + event.delay_ms / 1000)
            case events.CompactionStart() | events.SummaryRetryStart():
                self.set_activity("Compacting")
            case events.CompactionEnd() | events.RetryEnd():
                self.set_activity("Working" if self._session.activity.is_streaming else None)
            case events.MessageEnd(message=AssistantMessage() as message):
                self.facts.cost += message.usage.cost.total
                self.refresh()
            case events.QueueUpdate():
                self.queued = list(event.steering), list(event.follow_up)
                self.facts.queued = sum(map(len, self.queued))
            case events.SessionReplaced():
                self.refresh(totals=True)
            case events.ModelSelected() | events.ThinkingLevelChanged():
                self.refresh()
            case events.SessionInfoChanged() | events.ApprovalModeChanged():
                self.refresh()
            case _:
                pass

    def refresh(self, *, totals: bool = False) -> None:
        """Read the facts again, with `totals` also what the whole session cost, which takes longer."""
        session, facts = self._session, self.facts
        cwd = session.host.workspace.cwd
        facts.folder = short_folder(cwd, user_home(self._env))
        facts.branch = git_branch(cwd)
        facts.name = session.history.name
        model = session.model
        facts.model = None if model is None else model.id
        facts.thinking = session.thinking if model is not None and model.reasoning else None
        context = session.usage.context
        facts.percent = None if context is None else context.percent
        facts.window = 0 if context is None else context.window
        mode = session.approvals.mode
        facts.approval = None if mode == "auto" else mode
        if totals:
            facts.cost = session.usage.totals.cost
        self._show_title()

    def set_activity(self, text: str | None, *, begins_at: float = 0) -> None:
        """Say what keeps the session busy, or when it will begin."""
        if self.activity is None and text is not None:
            self._busy_since = monotonic()
        self.activity = text
        self._begins_at = begins_at
        self._show_title()

    def set_title(self, title: str) -> None:
        """Use another title for the window; an empty one restores the usual one."""
        self._own_title = title or None
        self._show_title()

    def _show_title(self) -> None:
        name = self._own_title or self.facts.name or self.facts.folder.rpartition("/")[2] or "/"
        self._set_title(f"{'* ' if self.activity is not None else ''}fairlead · {name}")

    # Shell commands of the user

    def begin_command(self, command: str) -> None:
        self.command_tail = ""
        self.set_activity(f"$ {command}")

    def add_command_output(self, text: str) -> None:
        self.command_tail = (self.command_tail + text)[-_TAIL:]

    def end_command(self) -> None:
        self.command_tail = ""
        self.set_activity("Working" if self.is_busy else None)
