"""How a session behaves: what the profiles of protocols and our own front ends say, and a program does not."""

# Annotations are evaluated here, not kept as strings, as in `fairlead.agent.options`.
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from fairlead.config.home import ClaudeFiles, PeerHome
from fairlead.config.settings import ApprovalMode, ApprovalRule, RetrySettings, SettingsGroup
from fairlead.core.approval import Asker
from fairlead.core.model import THINKING_LEVELS, ThinkingLevel
from fairlead.core.queues import InterruptMode
from fairlead.core.tool import Schedule
from fairlead.models.http.exchange import HttpTap
from fairlead.session.context.tokens import DEFAULT_RESERVE_TOKENS
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.current import ConversationStore
from fairlead.tools import DEFAULT_TOOLS

#: How an agent is used.
Mode: TypeAlias = Literal["rpc", "print", "json", "library"]


class Confinement(Struct, frozen=True, kw_only=True):
    """What a session may not leave. Links are resolved before anything is compared.

    It restricts which session a client can open and where that works, not what the tools can reach: a sandbox does that.
    """

    #: The directory that holds every working directory; None: they may be anywhere.
    root: Path | None = None
    #: The directory that holds every session file; None: they may be anywhere.
    sessions: Path | None = None
    #: Whether several users share the home, so that no session may change its keys, settings and decisions.
    shares_home: bool = False

    def allows(self, folder: str | Path) -> bool:
        """Whether a session may work in a directory, which need not exist. Raises ValueError if no path can be so."""
        return self.root is None or Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(self.root))


class Behaviour(Struct, frozen=True, kw_only=True):
    """How a session behaves. A profile of a protocol has one, and a front end adds to it; the defaults are those of the library.

    It travels as one value from there to the parts of the session. None of it is an option of `Agent`.
    """

    # What profiles say

    #: How the tools of one turn run in the interrupt mode `wait`. The mode `immediate` always means `exclusive`.
    schedule: Schedule = "together"
    #: Whether a steering message waits for the tools that run, unless the user's settings say otherwise.
    interrupt: InterruptMode = "wait"
    #: How many tokens of the context window compaction leaves free, unless the user's settings say otherwise.
    compaction_reserve: Annotated[int, Meta(ge=0)] = DEFAULT_RESERVE_TOKENS
    #: Groups of settings that keep their built-in defaults, whatever the user's files say.
    reset_settings: Sequence[SettingsGroup] = ()
    #: Whether the model makes a plan before the first prompt of a session, unless the user's settings say otherwise.
    eager_todos: bool = False
    #: Whether queued messages are dropped when the session goes to another conversation. Otherwise they wait in the one that is
    #: left.
    drops_queue: bool = False
    #: Whether a thinking level that a model lacks comes back with a model that has it. Otherwise a model that is chosen has the
    #: default level of the user's settings, if there is one.
    keeps_level: bool = True
    #: The thinking levels that hosts know.
    levels: Sequence[ThinkingLevel] = THINKING_LEVELS
    #: Whether models are listed and cycled through by name: those of the catalog, then those that the user has added. Otherwise
    #: the user's own and the newest come first.
    lists_models_by_name: bool = False
    #: Whether a new conversation keeps the model and the thinking level of the one before. Otherwise it begins with the first
    #: ones.
    keeps_model: bool = True
    #: Whether the result of `write` says how many bytes were written.
    counts_written_bytes: bool = True
    #: Whether a prompt first looks for the key of its model, and is refused without one. Otherwise its run starts and fails.
    waits_for_key: bool = True
    #: The tools that the model may use if the program names none.
    default_tools: Sequence[str] = DEFAULT_TOOLS
    #: Those of `default_tools` that a model with a small context window may use.
    small_model_tools: Sequence[str] = DEFAULT_TOOLS

    # What front ends say

    #: How the agent is used. Extensions can read this.
    mode: Mode = "library"
    #: The most permissive approval mode, unless the program or the command line names one.
    least_approval: ApprovalMode = "auto"
    #: Where a program that fairlead stands in for keeps its files. They are used unless `FAIRLEAD_HOME` is set.
    peer_home: PeerHome | None = None
    #: The files of users of Claude Code, which are read instead of the usual ones.
    claude_files: ClaudeFiles | None = None
    #: Patterns for the models to cycle through.
    models: Sequence[str] = ()
    #: Guidelines to add to fairlead's part of the system prompt.
    advice: Sequence[str] = ()
    #: Flags for extensions, each with its value if it has one.
    extension_flags: Mapping[str, str | None] = {}
    #: Rules of approval besides those of the settings.
    approval_rules: Sequence[ApprovalRule] = ()
    #: Returns handlers of the events that extensions hear, by event, which take as long as they need.
    handlers: Callable[[], Mapping[str, Callable[[Any], Awaitable[Any]]]] | None = None
    #: Returns what decides about tool calls instead of the user.
    asker: Callable[[], Asker] | None = None
    #: The tools that read and that change a file, where the place of a file counts. See `fairlead.policy.approvals.Policy`.
    file_tools: Sequence[str] = ()
    #: What to do when a provider fails, instead of the settings.
    retry: RetrySettings | None = None
    #: The name of the session.
    session_name: str | None = None
    #: The id of the session that providers and hosts of omp see. None: the id of the conversation.
    provider_session_id: str | None = None
    #: Chooses the conversation, instead of the options of the agent.
    conversation: Callable[[ConversationStore], Conversation] | None = None
    #: What the session may not leave; None: it may work anywhere, and open every session file.
    confinement: Confinement | None = None
    #: Called with a sentence for each part of the configuration that cannot be used.
    warn: Callable[[str], None] | None = None
    #: Called instead of `warn` for what protects the user: settings and stream rules. None: `warn`.
    alert: Callable[[str], None] | None = None
    #: Sees the requests to providers and their responses, except those of logins.
    http_tap: HttpTap | None = None
    #: Seconds between two reads of an answer that arrives in small pieces. A longer time takes less CPU and delays updates.
    read_interval: float = 0.016

    @property
    def shares_home(self) -> bool:
        """Whether several users share the home, so that no session may change its keys, settings and decisions."""
        return self.confinement is not None and self.confinement.shares_home
