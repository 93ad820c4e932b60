"""What the chat says about the session beside the conversation: the footer, the spinner, the title of the window."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from fairlead import events
from fairlead.chat.view.text import clip, one_line, width
from fairlead.chat.view.theme import Theme
from fairlead.chat.view.tool_titles import format_elapsed
from fairlead.messages import AssistantMessage

if TYPE_CHECKING:
    from fairlead import Agent


SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SEPARATOR = " · "
#: A folder in fewer columns than this says nothing.
_NARROWEST = 8
#: How many columns the folder keeps, as long as there is room for the model and its context.
_KEPT = 24
#: How many bytes of a file of git are read: no path and no name of a branch is longer.
_MOST_READ = 4096 + 16


@dataclass(slots=True)
class Facts:
    """What the footer says."""

    folder: str = ""
    branch: str | None = None
    name: str | None = None
    model: str | None = None
    #: None if the model does not think.
    thinking: str | None = None
    percent: float | None = None
    window: int = 0
    cost: float = 0.0
    queued: int = 0
    #: The approval mode; None if every call may run.
    approval: str | None = None


def footer_lines(facts: Facts, statuses: Mapping[str, str], theme: Theme, columns: int) -> list[str]:
    """Return the footer. In a narrow terminal, the folder is shortened and the least important parts are left out.

    It is not wider than it has to be: when a terminal gets narrower, it wraps wide lines, and what was drawn moves.
    """
    place = facts.folder + (f" ({facts.branch})" if facts.branch else "")
    # Names of folders, sessions and models may hold anything.
    left = [one_line(text) for text in (facts.name, place) if text]
    parts = [one_line(text) for text in _parts(facts)]
    kept = min(width(_SEPARATOR.join(left)), _KEPT) + len(_SEPARATOR)
    while len(parts) > 1 and width(_SEPARATOR.join(parts)) > columns - (kept if len(parts) > 2 else 0):
        parts.pop()
    room = columns - width(_SEPARATOR.join(parts)) - len(_SEPARATOR)
    shown = _end_of(_SEPARATOR.join(left), room) if room >= _NARROWEST else ""
    lines = [_SEPARATOR.join([shown, *parts] if shown else parts)]
    texts = [one_line(text) for _, text in sorted(statuses.items())]
    if texts:
        lines.append(_SEPARATOR.join(texts))
    return [theme.paint("dim", clip(line, columns)) for line in lines]


def _parts(facts: Facts) -> list[str]:
    """What stands on the right, the most important first."""
    parts = [facts.model or "no model: /model or /login"]
    if facts.percent is not None:
        parts.append(f"{facts.percent:.0f}% of {_count(facts.window)}")
    elif facts.window:
        parts.append(f"{_count(facts.window)} context")
    if facts.queued:
        parts.append(f"{facts.queued} queued")
    if facts.cost:
        parts.append(dollars(facts.cost))
    if facts.approval is not None:
        parts.append(f"approval {facts.approval}")
    if facts.thinking is not None:
        parts.append(f"thinking {facts.thinking}")
    return parts


def dollars(amount: float) -> str:
    """Return an amount of money for people: cents, and more digits if it is small."""
    return f"${amount:.2f}" if amount >= 0.1 or not amount else f"${amount:.4f}"


def _count(tokens: int) -> str:
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:.1f}M".replace(".0M", "M")
    return f"{tokens / 1000:.0f}k" if tokens >= 1000 else str(tokens)


def _end_of(text: str, columns: int) -> str:
    """The end of a text, which says more about a folder than its beginning."""
    if width(text) <= columns:
        return text
    cut = 0
    while cut < len(text) and width(text[cut:]) > columns - 1:
        cut += 1
    return f"…{text[cut:]}" if columns > 1 else ""


def short_folder(folder: Path, user: str | None) -> str:
    """Return a folder with `~` for the user's own directory."""
    text = str(folder)
    home = (user or "").rstrip("/")
    if home and (text == home or text.startswith(f"{home}/")):
        return f"~{text[len(home) :]}"
    return text


def git_branch(folder: Path) -> str | None:
    """Return the branch that is checked out in a folder, the beginning of the commit if there is none, or None outside git."""
    for place in (folder, *folder.parents):
        marker = place / ".git"
        try:
            if os.path.isfile(marker):  # a worktree or a submodule: the file names the folder
                marker = place / _beginning(marker).removeprefix("gitdir:").strip()
            elif not os.path.isdir(marker):
                continue
            head = _beginning(marker / "HEAD").strip()
        except (OSError, ValueError):  # a path with a NUL character
            return None
        branch = head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else head[:8]
        return branch if branch and branch.isprintable() else None
    return None


def _beginning(path: Path) -> str:
    """Return the beginning of a regular file. Raises OSError for anything else: opening a pipe or a device could block."""
    _require_regular(path, path.stat())
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    try:
        _require_regular(path, os.fstat(file))  # it may have been replaced since
        return os.read(file, _MOST_READ).decode("utf-8", "replace")
    finally:
        os.close(file)


def _require_regular(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"{path} is not a regular file")


def queue_lines(steering: Sequence[str], follow_up: Sequence[str], theme: Theme, columns: int, rows: int) -> list[str]:
    """Return the messages that wait: those that the model gets next, then those for when it has nothing more to do."""
    texts = [f"  next: {text}" for text in steering] + [f"  later: {text}" for text in follow_up]
    shown = [one_line(text) for text in texts[:rows]]
    if len(texts) > rows and shown:
        shown[-1] = f"  and {len(texts) - rows + 1} more"
    return [theme.paint("dim", clip(text, columns)) for text in shown]


def user_home(env: Mapping[str, str]) -> str | None:
    return env.get("HOME") or os.path.expanduser("~")  # noqa: PTH111


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
