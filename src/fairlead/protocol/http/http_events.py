"""The events that only `fairlead serve` sends. All others are events of pi in delta form."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from fairlead.core.model import Model

QuestionKind: TypeAlias = Literal["select", "confirm", "input", "editor", "approval"]
#: Why a question is closed: a client answered it, the agent no longer needs the answer, or the time for it is over.
CloseReason: TypeAlias = Literal["answered", "withdrawn", "expired"]


class ServeEvent(Struct, rename="camel", omit_defaults=True, tag_field="type", kw_only=True):
    """The base of these events."""


class Approval(Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The tool call that needs approval."""

    tool_name: str
    tool_call_id: str
    arguments: dict[str, Any]
    #: What the call is about: a command line, a path, a URI, or the arguments as JSON.
    subject: str = ""
    #: What the call would change, as a unified diff for people: invisible characters are shown as escapes.
    diff: str | None = None
    #: What an answer for the session covers, such as "the same command".
    scope: str = ""
    #: The patterns of the rules that an answer may write to the settings of the user, the narrowest first.
    rules: list[str] = []
    #: The directory of the project in which such a rule holds, unless it holds everywhere.
    project: str | None = None
    #: The sub-agent that makes the call; absent for the session itself.
    subagent_id: str | None = None


class Question(ServeEvent, tag="question", kw_only=True):
    """The agent asks the user. The first answer of any client counts."""

    id: str
    kind: QuestionKind
    title: str
    message: str = ""
    #: For `select`.
    options: list[str] = []
    #: For `input`.
    placeholder: str | None = None
    #: For `editor`: the text to edit.
    prefill: str | None = None
    #: For `approval`.
    approval: Approval | None = None
    #: How long the agent waits, in milliseconds; absent if it waits for as long as it takes.
    timeout_ms: int | None = None


class QuestionClosed(ServeEvent, tag="question_closed", kw_only=True):
    """A question no longer waits for an answer."""

    id: str
    reason: CloseReason


class PromptResult(ServeEvent, tag="prompt_result", kw_only=True):
    """The work on an accepted message has ended."""

    id: str
    status: Literal["completed", "error", "aborted"]
    #: What went wrong.
    error: str | None = None


class SessionReplaced(ServeEvent, tag="session_replaced", kw_only=True):
    """An extension moved the session to another conversation. Fetch a snapshot of that one."""

    session_id: str


class BranchChanged(ServeEvent, tag="branch_changed", kw_only=True):
    """The session has moved to another place in its tree. Fetch a snapshot: it has other messages."""

    #: The last entry there; null at the beginning.
    leaf_id: str | None


class ModelChanged(ServeEvent, tag="model_changed", kw_only=True):
    """The session uses another model from now on."""

    model: Model


class ApprovalModeChanged(ServeEvent, tag="approval_mode_changed", kw_only=True):
    """The session has another approval mode."""

    mode: Literal["auto", "write", "ask", "deny"]


class TodosChanged(ServeEvent, tag="todos_changed", kw_only=True):
    """The todo list has changed."""

    #: The phases of the todo list, as in `get_state` of pi.
    todos: list[Any]


class Shown(ServeEvent, tag="shown", kw_only=True):
    """An extension shows something to the user. It needs no answer."""

    method: Literal["notify", "setStatus", "setWidget", "setTitle", "setEditorText", "openUrl"]
    #: For `setStatus` and `setWidget`: what is replaced.
    key: str | None = None
    text: str | None = None
    lines: list[str] | None = None
    #: For `notify`: info, warning or error. For `setWidget`: aboveEditor or belowEditor.
    kind: str | None = None
    url: str | None = None


class Resync(ServeEvent, tag="resync", kw_only=True):
    """Events were missed, because the client was away for too long. Fetch a snapshot; later events follow."""

    last_event: int


EVENTS: tuple[type[ServeEvent], ...] = (
    Question,
    QuestionClosed,
    PromptResult,
    SessionReplaced,
    BranchChanged,
    ModelChanged,
    ApprovalModeChanged,
    TodosChanged,
    Shown,
    Resync,
)
