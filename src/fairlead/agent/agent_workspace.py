"""Where the tools of an agent work: the directories, the environment of the programs they start, and what guards both.

The sandbox is noted in the session, so that its commands do not lose it when the session is resumed. The note is
`fairlead.sandbox` with `{"mode": "workspace"}`, which hosts and the model do not see.
"""

from __future__ import annotations

import os
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, cast

from msgspec.structs import replace

from fairlead.agent.options import AgentOptions
from fairlead.config.home import Home, expand_user
from fairlead.config.settings import Settings
from fairlead.core.events import AgentStart, Event, ExtensionError, SessionReplaced
from fairlead.errors import BadOption, ConfigError, ToolError
from fairlead.platform.scratch import Scratch
from fairlead.session.history.entries import SANDBOX
from fairlead.tools.files.targets import Guard
from fairlead.tools.workspace import LateGuard, Workspace

if TYPE_CHECKING:
    import os

    from fairlead.policy.sandbox import Bubblewrap
    from fairlead.session.history.conversation import Conversation
    from fairlead.session.history.log import Log
    from fairlead.session.session import Session


#: A value that is shorter is not taken for a copy of a key.
_SHORTEST_KEY = 8
#: Variables that are never keys. They are needed at the start, before models.json is read.
_HARMLESS = frozenset(("HOME", "PATH", "TMPDIR", "SHELL", "USER"))
#: An empty set that all share: each new one takes 216 bytes.
_NONE: frozenset[str] = frozenset()


def make_workspace(
    options: AgentOptions,
    env: Mapping[str, str],
    cwd: Path,
    home: Home,
    settings: Settings,
    scratch: Scratch,
    key_variables: Callable[[], Iterable[str]],
) -> tuple[Workspace, SessionSandbox]:
    """Make the workspace of an agent, and the sandbox of its commands.

    Args:
        options: The options of the agent.
        env: The environment of the agent.
        cwd: The working directory.
        home: The directory of the user's configuration.
        settings: The settings of the user and the project.
        scratch: The directory for temporary files.
        key_variables: Returns the names of the variables that hold keys.

    Raises:
        BadOption: A directory is outside those that sessions may work in.
        ConfigError: The sandbox is not possible on this machine.
    """
    confinement = options.behaviour.confinement
    workspace = Workspace(
        cwd,
        # Under the name of a peer, tools get all variables, as the users of the peer expect.
        env if home.peer is not None else ToolEnvironment(env, key_variables, settings.pass_keys),
        agent_env=env,
        log_dir=scratch.path,
        keep_log=scratch.keep,
        shell=settings.shell_path,
        command_prefix=settings.shell_command_prefix or "",
        resize_images=settings.images.auto_resize,
        default_timeout=settings.tools.timeout_seconds,
        counts_written_bytes=options.behaviour.counts_written_bytes,
        more=[Path(folder).absolute() for folder in options.add_dirs],
        root=None if confinement is None else confinement.root,
    )
    for folder in (workspace.cwd, *workspace.more):
        if not workspace.may_work_in(folder):
            raise BadOption(f"cwd: {folder} is outside {workspace.root}, and sessions may not work there.")
    servers = [workspace.resolve(str(path)) for path in options.discovery.mcp_config]

    def make_sandbox() -> Bubblewrap:
        from fairlead.session.protection import sandbox  # noqa: PLC0415  compiles many patterns

        # Those that are packages (npm:NAME) are kept elsewhere.
        named = [path for path in (cwd / expand_user(each) for each in options.extensions) if os.path.lexists(path)]
        return sandbox(home, settings, workspace, scratch.path, servers, named)

    confined = SessionSandbox(
        workspace,
        make_sandbox,
        wanted=(options.sandbox or settings.sandbox) == "workspace",
        is_explicit=options.sandbox is not None,
    )

    def guard() -> Guard:
        from fairlead.session.protection import protection  # noqa: PLC0415  compiles many patterns

        # A file that must not be read must not be found by a search either.
        denied = [
            rule.pattern
            for rule in options.behaviour.approval_rules
            if rule.action == "deny" and rule.pattern is not None and rule.tool in options.behaviour.file_tools[:1]
        ]
        guarded = replace(settings, protected_paths=[*settings.protected_paths, *denied]) if denied else settings
        return protection(home, guarded, workspace, servers)

    workspace.guard = LateGuard(guard)
    return workspace, confined


class ToolEnvironment(Mapping[str, str]):
    """The environment of the programs that an agent starts: without keys, and without copies of them in other variables.

    Args:
        env: The environment of the agent.
        key_variables: Returns the names of the variables that hold keys.
        kept: The names of those that stay; `*` keeps all.
    """

    def __init__(self, env: Mapping[str, str], key_variables: Callable[[], Iterable[str]], kept: Iterable[str]) -> None:
        self._env = env
        self._key_variables = key_variables
        self._kept = frozenset(kept) or _NONE

    def __getitem__(self, name: str) -> str:
        if name not in _HARMLESS and name in self._list_hidden(dict(self._env)):
            raise KeyError(name)
        return self._env[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._visible())

    def __len__(self) -> int:
        return len(self._visible())

    def items(self) -> ItemsView[str, str]:
        """Return all variables, as a program that is started gets them. Keys are searched for once, not for each variable."""
        return self._visible().items()

    def _visible(self) -> dict[str, str]:
        env = dict(self._env)  # `os.environ` decodes a variable each time it is read
        hidden = self._list_hidden(env)
        return {name: value for name, value in env.items() if name not in hidden}

    def _list_hidden(self, env: dict[str, str]) -> set[str]:
        """Return the names of the variables that are left out. Extensions can add providers, so this may change."""
        if "*" in self._kept:
            return set()
        hidden = set(self._key_variables()) - self._kept
        values = {value for name in hidden if len(value := env.get(name, "").strip()) >= _SHORTEST_KEY}
        if not values:
            return hidden
        return hidden | {name for name, value in env.items() if value.strip() in values and name not in self._kept}


class SessionSandbox:
    """Runs the commands of a session in a sandbox if the options or the settings say so, or if they ran in one before.

    Args:
        workspace: where the commands run.
        make: makes the sandbox. It raises ConfigError if that is not possible on this machine.
        wanted: whether the options or the settings say so.
        is_explicit: whether the user or the program has named the mode, which then holds for resumed sessions too.

    Raises:
        ConfigError: a sandbox is wanted and not possible.
    """

    def __init__(self, workspace: Workspace, make: Callable[[], Bubblewrap], *, wanted: bool, is_explicit: bool) -> None:
        self._workspace = workspace
        self._make = make
        self._is_explicit = is_explicit
        #: Whether a session without a note runs its commands in a sandbox.
        self._is_default = wanted and not is_explicit
        self._made: Bubblewrap | None = None
        self._session: Session | None = None
        #: The conversation whose note was read.
        self._restored: Conversation | None = None
        if wanted:
            self._confine()

    @property
    def is_started(self) -> bool:
        """Whether there is a sandbox, and so something to remove."""
        return self._made is not None

    def attach(self, session: Session) -> None:
        """Follow a session: take what it notes, and note in it what holds when a run starts."""
        self._session = session
        self._restore()
        session.subscribe(self._on_event, kinds=(SessionReplaced, AgentStart))

    def remove(self) -> None:
        """Remove what commands left behind. This searches the working directory."""
        if self._made is not None:
            self._made.remove()

    def _confine(self) -> None:
        self._workspace.sandbox = self._made = self._make()

    def _on_event(self, event: Event) -> None:
        self._restore()
        if isinstance(event, AgentStart):
            self._note()

    def _restore(self) -> None:
        """Start the sandbox that a session had. Without one, commands fail. A store may read the note only when a run starts."""
        session = self._session
        conversation = None if session is None else session.history.conversation
        if session is None or conversation is None or conversation is self._restored or not conversation.has_begun:
            return
        self._restored = conversation
        if self._is_explicit or self._workspace.sandbox is not None or not _was_confined(conversation.log):
            return
        try:
            self._confine()
        except ConfigError as error:
            text = f"The commands of this session ran in a sandbox. {error} To resume it without one: --sandbox off."
            self._workspace.sandbox = _NoSandbox(text)
            session.host.notify(ExtensionError("session", "sandbox", text))

    def _note(self) -> None:
        """Note in the conversation whether its commands run in a sandbox, unless that is known."""
        conversation = self._restored
        if conversation is None:
            return
        log, is_confined = conversation.log, self._workspace.sandbox is not None
        noted = _was_confined(log)
        if is_confined != (self._is_default if noted is None else noted):
            conversation.keep(lambda: log.note(SANDBOX, {"mode": "workspace" if is_confined else "off"}))


def _was_confined(log: Log) -> bool | None:
    """Whether the commands of a session ran in a sandbox; None if it does not say."""
    note = log.find_note(SANDBOX)
    if note is None:
        return None
    data: Any = note.data
    return isinstance(data, dict) and cast("dict[str, Any]", data).get("mode") != "off"


class _NoSandbox:
    """Stands in for a sandbox that cannot be started. Implements `fairlead.tools.workspace.Sandbox`."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def part_of_installation(self, path: Path, found: os.stat_result | None) -> None:
        return None

    def wrap(self, command: Sequence[str], cwd: Path, calls: int) -> Never:
        raise ToolError(self._reason)

    def open_filter(self) -> Never:
        raise ToolError(self._reason)

    def enter(self, cwd: Path) -> Never:
        raise ToolError(self._reason)
