"""What differs between the members of the pi family, as data. Everything else is one behaviour."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from fairlead.config.settings import SettingsGroup
from fairlead.core.queues import InterruptMode
from fairlead.core.tool import Schedule
from fairlead.errors import ConfigError
from fairlead.session.context.tokens import DEFAULT_RESERVE_TOKENS


class Profile(Struct, frozen=True, kw_only=True):
    name: str
    #: The first frame: none, `ready` with our version, or `ready` with the versions of the protocol.
    ready: Literal["none", "version", "protocols"]
    #: Whether the answer to an unknown command has its id.
    unknown_command_echoes_id: bool
    #: A prompt that cannot start is acknowledged first, and fails in a second response.
    late_prompt_errors: bool
    #: A prompt that is a command of an extension's is answered when the command first waits for something, not at its end.
    early_command_answers: bool = False
    busy: str
    #: Events that this member's hosts do not know.
    hidden_events: frozenset[str]
    #: How the tools of one turn run in the interrupt mode `wait`; `immediate` always means `exclusive`.
    schedule: Schedule
    interrupt: InterruptMode
    default_tools: tuple[str, ...]
    #: Whether `thinkingLevel` is "off", rather than absent, for a model without reasoning.
    shows_level_off: bool
    #: Whether `get_state` has systemPrompt and dumpTools unasked.
    verbose_state: bool
    #: Whether the `bash` response counts lines and bytes.
    counts_bash_output: bool
    cancelled_bash_prefix: str
    #: Whether `agent_end` says `willRetry`.
    sends_will_retry: bool
    #: Whether every compaction is told of, as `compaction_start`/`_end`; else automatic ones, as `auto_compaction_start`/`_end`.
    sends_all_compactions: bool
    #: Tokens of the context window that compaction leaves free, unless the user's settings say otherwise.
    compaction_reserve: int
    #: Groups of the settings in which the built-in defaults hold, whatever the user's files say.
    reset_settings: tuple[SettingsGroup, ...] = ()
    #: Whether the model plans before the first prompt of a session, where the settings do not say.
    eager_todos: bool = False
    #: Whether each prompt gets a `prompt_result`, and the session a `session_settled`.
    prompt_results: bool
    #: Whether a dialog that nobody waits for any more is taken back by a `cancel` request.
    withdraws_dialogs: bool
    #: Whether `setTitle` requests are sent; on request: where PI_RPC_EMIT_TITLE is set.
    titles: Literal["always", "on request", "never"]


PI = Profile(
    name="pi",
    ready="none",
    unknown_command_echoes_id=True,
    late_prompt_errors=False,
    busy="Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message.",
    hidden_events=frozenset(),
    schedule="together",
    interrupt="wait",
    default_tools=("read", "bash", "edit", "write"),
    shows_level_off=True,
    verbose_state=False,
    counts_bash_output=False,
    cancelled_bash_prefix="",
    sends_will_retry=True,
    sends_all_compactions=True,
    compaction_reserve=DEFAULT_RESERVE_TOKENS,
    prompt_results=False,
    withdraws_dialogs=False,
    titles="always",
)

PI_2025 = Profile(
    name="pi-2025",
    ready="none",
    unknown_command_echoes_id=False,
    late_prompt_errors=False,
    busy="Agent is already processing. Abort it first, or wait for agent_end.",
    hidden_events=frozenset(),
    schedule="sequential",
    interrupt="wait",
    default_tools=PI.default_tools,
    shows_level_off=True,
    verbose_state=False,
    counts_bash_output=False,
    cancelled_bash_prefix="",
    sends_will_retry=False,
    sends_all_compactions=True,
    compaction_reserve=20_000,
    prompt_results=False,
    withdraws_dialogs=False,
    titles="never",
)

OMP = Profile(
    name="omp",
    ready="protocols",
    unknown_command_echoes_id=False,
    late_prompt_errors=True,
    early_command_answers=True,
    busy="Agent is already processing. Use steer() or followUp() to queue messages, or wait for completion.",
    hidden_events=frozenset({"queue_update", "thinking_level_changed", "session_info_changed"}),
    schedule="exclusive",
    interrupt="immediate",
    default_tools=("read", "bash", "edit", "write", "grep", "find", "ls", "todo_write", "task"),
    shows_level_off=False,
    verbose_state=False,
    counts_bash_output=True,
    cancelled_bash_prefix="[Command cancelled]\n",
    sends_will_retry=False,
    sends_all_compactions=False,
    compaction_reserve=DEFAULT_RESERVE_TOKENS,
    reset_settings=("todo", "task"),
    prompt_results=True,
    withdraws_dialogs=True,
    titles="on request",
)

XCSH = Profile(
    name="xcsh",
    ready="version",
    unknown_command_echoes_id=OMP.unknown_command_echoes_id,
    late_prompt_errors=OMP.late_prompt_errors,
    early_command_answers=OMP.early_command_answers,
    busy=OMP.busy,
    hidden_events=OMP.hidden_events,
    schedule=OMP.schedule,
    interrupt="wait",
    default_tools=OMP.default_tools,
    shows_level_off=OMP.shows_level_off,
    verbose_state=True,
    counts_bash_output=OMP.counts_bash_output,
    cancelled_bash_prefix=OMP.cancelled_bash_prefix,
    sends_will_retry=OMP.sends_will_retry,
    sends_all_compactions=OMP.sends_all_compactions,
    compaction_reserve=OMP.compaction_reserve,
    reset_settings=OMP.reset_settings,
    eager_todos=True,
    prompt_results=False,
    withdraws_dialogs=OMP.withdraws_dialogs,
    titles=OMP.titles,
)

PROFILES = {profile.name: profile for profile in (PI, PI_2025, OMP, XCSH)}


def profile_named(name: str) -> Profile:
    """The profile of a member of the family. Raises ConfigError if there is no such dialect."""
    try:
        return PROFILES[name]
    except KeyError:
        from fairlead.wire.dialects import DIALECTS

        raise ConfigError(f"Unknown dialect {name!r}. The dialects are: {', '.join(DIALECTS)}") from None
