"""What can be chosen about an agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.config.settings import ApprovalMode, SandboxMode
from fairlead.core.model import Model, ModelStream, ThinkingLevel
from fairlead.core.queues import InterruptMode
from fairlead.core.tool import Schedule, Tool
from fairlead.session.conversation import Conversation
from fairlead.session.sessions import Durability, Sessions
from fairlead.session.tokens import DEFAULT_RESERVE_TOKENS
from fairlead.tools import DEFAULT_TOOLS

if TYPE_CHECKING:
    from fairlead.extend.extensions.late import Mode


class AgentOptions(Struct, kw_only=True):
    """Everything that can be chosen about an agent. The defaults are those of the command."""

    #: A pattern (`provider/id`, an id, a glob, each with `:level`), or a model with its own `stream`.
    model: str | Model | None = None
    stream: ModelStream | None = None
    provider: str | None = None
    #: Patterns of models to cycle through.
    models: Sequence[str] = ()
    api_key: str | None = None
    thinking: ThinkingLevel | None = None
    cwd: str | Path = "."
    #: The environment that keys are looked up in and commands run with; this process's if None.
    env: Mapping[str, str] | None = None
    #: Takes the place of our part of the system prompt.
    system_prompt: str | None = None
    append_system_prompt: Sequence[str] = ()
    #: More guidelines in our part of it.
    advice: Sequence[str] = ()
    #: Whether AGENTS.md and CLAUDE.md are read, and skills and prompt templates looked for in the usual folders.
    context_files: bool = True
    find_skills: bool = True
    find_prompt_templates: bool = True
    #: Files of skills and templates, or folders of such, beside those that are found.
    skills: Sequence[str | Path] = ()
    prompt_templates: Sequence[str | Path] = ()
    #: Whether MCP servers are looked for in the usual files, and further files of such.
    find_mcp: bool = True
    mcp_config: Sequence[str | Path] = ()
    #: Extensions beside those that are found: files, or folders. Whether they are looked for in the usual folders, in the
    #: settings and in installed packages.
    extensions: Sequence[str | Path] = ()
    find_extensions: bool = True
    #: Flags for extensions, each with its value if it has one.
    extension_flags: Mapping[str, str | None] = {}
    #: How the agent is used, for extensions that want to know.
    mode: Mode = "library"
    #: Names of the tools that the model may use; None: `default_tools`.
    tools: Sequence[str] | None = None
    exclude_tools: Sequence[str] = ()
    default_tools: Sequence[str] = DEFAULT_TOOLS
    #: Tools of the caller's own, beside the built-in ones; the model may use them all.
    extra_tools: Sequence[Tool] = ()
    #: Compare what the model writes with the stream rules of the user and the project.
    rules: bool = True
    #: Whether the project may run code of its own, extensions and servers; None: what the user has said of it before.
    approve: bool | None = None
    #: What becomes of calls that no rule of the settings speaks of: they run, somebody is asked, they are refused; None: what the
    #: settings say.
    approval: ApprovalMode | None = None
    #: `workspace` keeps commands in a sandbox; None: what the settings say.
    sandbox: SandboxMode | None = None
    #: How many model calls one prompt may take before the run ends with an error; 0: any number; None: what the settings say.
    max_turns: int | None = None
    #: Read no user configuration; keys come from the environment or `api_key` alone.
    isolated: bool = False
    #: Keep conversations in files: below the home, or in `session_dir`. None: only one that the options below name;
    #: False: not even that one, it is copied into memory.
    keep: bool | None = None
    session_dir: str | Path | None = None
    #: Go on with a session: the path of its file (a new one is begun there if there is none), or the beginning of its id.
    session: str | Path | None = None
    #: Go on with the session that changed last; begin a new one if there is none.
    resume: bool = False
    #: Begin with a copy of a session: a path, or the beginning of an id.
    fork: str | Path | None = None
    #: Go on with the session of exactly this id, or begin it.
    session_id: str | None = None
    #: Chooses the conversation itself, in the place of the options above.
    conversation: Callable[[Sessions], Conversation] | None = None
    session_name: str | None = None
    #: `fsync`: what was written survives a power cut, too.
    durability: Durability = "flush"
    #: Tokens of the context window that compaction leaves free, unless the user's settings say otherwise.
    compaction_reserve: int = DEFAULT_RESERVE_TOKENS
    #: Have the model plan before the first prompt of a session, unless the user's settings say otherwise.
    eager_todos: bool = False
    schedule: Schedule = "together"
    interrupt: InterruptMode = "wait"
    #: Groups of the settings in which the built-in defaults hold, whatever the user's files say.
    reset_settings: Sequence[str] = ()
    #: Told of everything in the user's configuration that cannot be used, as it is found.
    warn: Callable[[str], None] | None = None

    def wants_tool(self, name: str) -> bool:
        """Whether the model may use a tool that somebody brings later."""
        return name not in self.exclude_tools and (self.tools is None or name in self.tools)
