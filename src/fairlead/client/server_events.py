"""The events of sessions in a server: those that only a server sends, and those of the pi family.

`make generate` writes this module from the declarations. Do not edit it.
"""

from __future__ import annotations

from fairlead.client.decoding import Event
from fairlead.client.events import EVENTS as FAMILY_EVENTS
from fairlead.protocol.http import http_events

__all__ = [
    "ApprovalModeChanged",
    "BranchChanged",
    "ModelChanged",
    "PromptResult",
    "Question",
    "QuestionClosed",
    "Resync",
    "SessionReplaced",
    "Shown",
    "TodosChanged",
]


class Question(http_events.Question, Event, tag="question"):
    """The agent asks the user."""


class QuestionClosed(http_events.QuestionClosed, Event, tag="question_closed"):
    """A question no longer waits for an answer."""


class PromptResult(http_events.PromptResult, Event, tag="prompt_result"):
    """The work on an accepted message has ended."""


class SessionReplaced(http_events.SessionReplaced, Event, tag="session_replaced"):
    """An extension moved the session to another conversation."""


class BranchChanged(http_events.BranchChanged, Event, tag="branch_changed"):
    """The session has moved to another place in its tree."""


class ModelChanged(http_events.ModelChanged, Event, tag="model_changed"):
    """The session uses another model from now on."""


class ApprovalModeChanged(http_events.ApprovalModeChanged, Event, tag="approval_mode_changed"):
    """The session has another approval mode."""


class TodosChanged(http_events.TodosChanged, Event, tag="todos_changed"):
    """The todo list has changed."""


class Shown(http_events.Shown, Event, tag="shown"):
    """An extension shows something to the user."""


class Resync(http_events.Resync, Event, tag="resync"):
    """Events were missed, because the client was away for too long."""


#: All events by type.
EVENTS: dict[str, type[Event]] = {
    **FAMILY_EVENTS,
    "question": Question,
    "question_closed": QuestionClosed,
    "prompt_result": PromptResult,
    "session_replaced": SessionReplaced,
    "branch_changed": BranchChanged,
    "model_changed": ModelChanged,
    "approval_mode_changed": ApprovalModeChanged,
    "todos_changed": TodosChanged,
    "shown": Shown,
    "resync": Resync,
}
