"""The bodies that clients of `fairlead serve` send, and the results they get."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from fairlead.core.messages import ImageContent
from fairlead.core.model import Model, ThinkingLevel
from fairlead.core.snapshots import SubagentActivity
from fairlead.protocol.http.http_events import PromptResult, Question

#: What happens when a tool wants to change something.
Approval: TypeAlias = Literal["auto", "write", "ask", "deny"]
#: An id that a client chooses, so that it can repeat a request without repeating its effect.
RequestId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]
#: The name that a client gives a session.
SessionName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
#: Text that a user has written, up to the cursor.
BeforeCursor: TypeAlias = Annotated[str, Meta(max_length=4096)]


class Body(Struct, rename="camel", omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """The base of what clients send. A field that is not declared is an error."""


class Result(Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The base of what clients get."""


class ErrorDetail(Result, kw_only=True):
    #: A word for programs, such as `not_found`.
    code: str
    #: A sentence for people.
    message: str


class ErrorBody(Result, kw_only=True):
    """Every response with a status of 400 or more."""

    error: ErrorDetail


# What clients send


class NewSession(Body, kw_only=True):
    """A session to begin. Everything has a default."""

    #: The working directory. It must exist, and lie inside the root of the server if that has one.
    cwd: str | None = None
    #: A model such as `anthropic/claude-opus-5-5`, or a pattern for one.
    model: str | None = None
    thinking: ThinkingLevel | None = None
    approval: Approval | None = None
    #: At most 200 characters, not only spaces, and no control characters such as line breaks.
    name: SessionName | None = None


class Prompt(Body, kw_only=True):
    """A message of the user that starts a run."""

    #: May be empty only with images.
    text: str
    #: Repeating a prompt with the same id returns the first answer and starts nothing.
    id: RequestId | None = None
    images: list[ImageContent] = []
    #: What to do if a run is active: `steer` reaches the model in the next turn, `followUp` when it would stop. Without it the
    #: prompt is refused.
    behavior: Literal["steer", "followUp"] | None = None


class QueuedMessage(Body, kw_only=True):
    """A message of the user for the run that is active."""

    #: May be empty only with images.
    text: str
    #: Repeating a message with the same id returns the first answer and queues nothing.
    id: RequestId | None = None
    images: list[ImageContent] = []


class Compaction(Body, kw_only=True):
    #: What the summary should pay attention to.
    instructions: str | None = None


class Fork(Body, kw_only=True):
    """Where the new session branches off."""

    #: An entry of the session; none means where the session stands.
    entry_id: str | None = None
    #: Whether the new session ends before the entry, which then must be a message of the user, or with it.
    position: Literal["before", "at"] = "at"


class Move(Body, kw_only=True):
    """Where in its tree the session should continue."""

    #: An entry of the session; null is the beginning. If it is a message of the user, the session continues before it.
    entry_id: str | None
    #: Whether the model gets a summary of the branch that is left.
    summarize: bool = False
    #: What the summary should pay attention to.
    instructions: str | None = None


class Changes(Body, kw_only=True):
    """What to change. Fields that are absent stay as they are."""

    #: The provider and the id of a model, such as `anthropic/claude-opus-5-5`.
    model: str | None = None
    thinking: ThinkingLevel | None = None
    #: At most 200 characters, not only spaces, and no control characters such as line breaks.
    name: SessionName | None = None
    approval: Approval | None = None


class Answer(Body, kw_only=True):
    """The answer to a question. Which field counts depends on the kind of the question."""

    #: For `select`, `input` and `editor`: the option or the text.
    value: str | None = None
    #: For `confirm`.
    confirmed: bool | None = None
    #: For `approval`.
    decision: Literal["allow", "deny"] | None = None
    #: For `approval`: whether the decision holds for later calls of the same kind.
    for_session: bool = False
    #: For `approval`: arguments to run the tool with instead.
    arguments: dict[str, Any] | None = None
    #: For `approval`, to allow it: the pattern of a rule that the user's settings get, so that calls like this one run without a
    #: question. It has to cover the call. It may differ from those in `rules`.
    rule: str | None = None
    #: With `rule`: whether the rule holds in every project of the user.
    everywhere: bool = False
    #: For `approval`: why the call is refused. The model sees it.
    reason: str = ""
    #: Closes the question without an answer.
    cancelled: bool = False


class TextBeforeCursor(Body, kw_only=True):
    """What a user has written so far, up to the cursor."""

    text: BeforeCursor


class Login(Body, kw_only=True):
    """What a browser exchanges for a cookie."""

    #: The code of a login link, or a token.
    code: str


# What clients get


class ContextUse(Result, kw_only=True):
    """How full the context of the model is."""

    #: Null while that is not known.
    tokens: int | None
    window: int


class SessionOwner(Result, kw_only=True):
    """The process that has the lease of a session of a fleet."""

    name: str
    #: When its lease expires unless it is renewed, as ISO 8601 by the clock of the database.
    until: str


class SessionState(Result, kw_only=True):
    """A session that is open."""

    id: str
    cwd: str
    name: str | None = None
    #: Null if no model is chosen.
    model: Model | None
    thinking: ThinkingLevel
    approval: Approval
    #: `running` from the moment a prompt is accepted until its run has settled.
    status: Literal["idle", "running", "compacting"]
    #: Whether the user has to answer a question before the work can go on.
    waiting: bool = False
    #: The texts that wait for the next turn, and those that wait for the end of the run.
    steering: list[str] = []
    follow_up: list[str] = []
    message_count: int
    context: ContextUse | None = None
    #: US dollars.
    cost: float
    #: How many clients listen to its events.
    listeners: int
    #: Whether the last run was cut off, so that `resume` continues it.
    interrupted: bool = False
    #: For a session of a fleet that another process works in: who that is. Until then this server can only read it.
    owner: SessionOwner | None = None


class RunningTool(Result, kw_only=True):
    """A tool call that has started and not ended."""

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]
    #: What the tool has returned so far, as in `tool_execution_update`.
    partial_result: Any = None


class Snapshot(Result, kw_only=True):
    """A session as of event `lastEvent`. The events after that number continue it without a gap."""

    session: SessionState
    #: The messages where the conversation stands, as pi writes them.
    messages: list[Any]
    #: How many older messages were left out because of the query parameter `messages`.
    skipped_messages: int = 0
    #: The answer that is arriving; null if none is.
    open_message: Any
    running_tools: list[RunningTool]
    #: The questions that wait for an answer.
    questions: list[Question]
    #: How the last prompts ended, for clients that missed the events.
    prompt_results: list[PromptResult]
    #: The phases of the todo list, as in `todos_changed`.
    todos: list[Any]
    #: The sub-agents that work, as in `subagent_progress` of pi.
    subagents: list[SubagentActivity]
    last_event: int


class SessionSummary(Result, kw_only=True):
    """A session in a list."""

    id: str
    cwd: str
    #: Its name, or the beginning of its first message.
    title: str | None = None
    #: ISO 8601; null for a session that is not saved yet.
    updated_at: str | None
    #: `saved` means that it is not open. It opens when it is used.
    status: Literal["saved", "idle", "running", "compacting"]
    #: Whether the user has to answer a question before the work can go on.
    waiting: bool = False
    #: For a session of a fleet that another process works in: the name of that process.
    owner: str | None = None


class SessionList(Result, kw_only=True):
    #: The last changed first.
    sessions: list[SessionSummary]
    #: Pass it as `cursor` to get the next page; absent on the last page.
    next_cursor: str | None = None
    #: Whether the server also serves the jobs of a fleet, under `/fleet`.
    has_jobs: bool = False


class CompletionItem(Result, kw_only=True):
    """A suggestion."""

    #: What it inserts.
    text: str
    #: What to show instead of the text, and what to show beside it.
    label: str = ""
    detail: str = ""


class Completions(Result, kw_only=True):
    """Suggestions for the text before the cursor."""

    #: What they are; null if nothing can be completed there.
    kind: Literal["file", "command", "argument"] | None = None
    #: How many characters before the cursor a suggestion replaces.
    replaces: int = 0
    items: list[CompletionItem] = []


class AcceptedPrompt(Result, kw_only=True):
    """What happened to a message: it started a run, it is queued, or an extension handled it. `pending` means that an extension
    has it, and may ask the user first. Then `prompt_result` follows in every case."""

    status: Literal["started", "queued", "handled", "pending"]
    #: The id of the message: that of the client, or a new one. `prompt_result` repeats it.
    id: str


class TreeEntry(Result, kw_only=True):
    """An entry of a session that is worth showing in its tree."""

    id: str
    #: The entry above it that is shown too; absent for the first one.
    parent_id: str | None = None
    #: The role of a message, such as `user`, or the type of another entry, such as `compaction`.
    kind: str
    #: The beginning of its text, in one line.
    text: str
    #: ISO 8601.
    timestamp: str


class Tree(Result, kw_only=True):
    """All branches of a session."""

    #: In the order in which they were added.
    entries: list[TreeEntry]
    #: The entry at which the conversation stands, or the one above it that is shown; null at the beginning.
    leaf_id: str | None


class Forked(Result, kw_only=True):
    """A new session."""

    session: SessionState
    #: The text of the message before which the session was forked.
    text: str | None = None


class Moved(Result, kw_only=True):
    """Where the session stands after a move."""

    #: The last entry there; null at the beginning.
    leaf_id: str | None
    #: The text of the message before which the session stands, to edit and send again.
    text: str | None = None


class ClearedQueue(Result, kw_only=True):
    """The texts that were queued."""

    steering: list[str]
    follow_up: list[str]


class ModelList(Result, kw_only=True):
    #: The models that can be used: their provider has a key, or needs none.
    models: list[Model]


class LoginCode(Result, kw_only=True):
    """A code for one login in a browser."""

    #: Append it to the address of the server: `/login#CODE`.
    code: str
    #: How many seconds it is valid.
    expires_in: int


class Health(Result, kw_only=True):
    status: Literal["ok", "stopping"]


class Done(Result, kw_only=True):
    """There is nothing to report."""
