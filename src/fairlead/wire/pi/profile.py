"""The differences between the dialects of the pi family, as data. Everything else is the same for all."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from fairlead.config.settings import SettingsGroup
from fairlead.core.queues import InterruptMode
from fairlead.core.tool import Schedule
from fairlead.errors import ConfigError
from fairlead.session.context.tokens import DEFAULT_RESERVE_TOKENS

#: The events of pi about requests for a summary that are repeated, which began with pi 0.81.
_SUMMARY_RETRIES = frozenset(
    {"summarization_retry_scheduled", "summarization_retry_attempt_start", "summarization_retry_finished"}
)


class Profile(Struct, frozen=True, kw_only=True):
    """How one dialect differs from the others of the family."""

    name: str
    #: The first frame: none, `ready` with the version of fairlead, or `ready` with the versions of the protocol.
    ready: Literal["none", "version", "protocols"]
    #: Whether the answers to an unknown command and to a line without a type repeat the id.
    unknown_command_echoes_id: bool
    #: Whether a prompt that cannot start is acknowledged first, and then fails in a second response.
    late_prompt_errors: bool
    #: Whether a prompt that runs an extension command is answered when the command first waits for something, not at its end.
    early_command_answers: bool = False
    #: The error for a prompt that arrives during a run.
    busy: str
    #: Whether the response to a prompt or a queued message says what happened to it.
    dispositions: bool = False
    #: Whether the results of tools are also sent as data.
    structured_results: bool = False
    #: Events that hosts of this dialect do not know.
    hidden_events: frozenset[str]
    #: How the tools of one turn run in the interrupt mode `wait`. The mode `immediate` always means `exclusive`.
    schedule: Schedule
    interrupt: InterruptMode
    default_tools: tuple[str, ...]
    #: Whether `get_state` always returns systemPrompt and dumpTools.
    verbose_state: bool
    #: Whether the `bash` response counts lines and bytes.
    counts_bash_output: bool
    cancelled_bash_prefix: str
    #: Whether every attempt has its `agent_end`, with `willRetry`. Otherwise a run has one, when nothing more will happen.
    sends_will_retry: bool
    #: Whether all compactions are sent, as `compaction_start`/`_end`. Otherwise only automatic ones are, as
    #: `auto_compaction_start`/`_end`.
    sends_all_compactions: bool
    #: Tokens of the context window that compaction leaves free, unless the user's settings give a number.
    compaction_reserve: int
    #: Groups of settings that always have their built-in defaults. The user's files do not change them.
    reset_settings: tuple[SettingsGroup, ...] = ()
    #: Whether the model plans before the first prompt of a session, unless the settings give a value.
    eager_todos: bool = False
    #: Whether a queue is dropped when the session goes to another conversation. Otherwise it waits in the one that is left.
    drops_queue: bool = False
    #: See the options of the agent with these names.
    keeps_level: bool = True
    keeps_model: bool = True
    counts_written_bytes: bool = True
    #: Whether each prompt gets a `prompt_result`, and the session a `session_settled`.
    prompt_results: bool
    #: Whether the events of omp 18 are sent: `available_commands_update`, `notice`, `model_changed`, and `agent_end.isTerminal`.
    omp_events: bool = False
    #: Whether a `cancel` request withdraws a dialog whose answer is no longer needed.
    withdraws_dialogs: bool
    #: Whether `setTitle` requests are sent. "on request" means: if PI_RPC_EMIT_TITLE is set.
    titles: Literal["always", "on request", "never"]
    #: Whether the command exits with code 0 in JSON mode even if the model failed.
    json_mode_succeeds: bool = False


PI = Profile(
    name="pi",
    ready="none",
    unknown_command_echoes_id=True,
    late_prompt_errors=False,
    busy="Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message.",
    dispositions=True,
    structured_results=True,
    hidden_events=frozenset(),
    schedule="together",
    interrupt="wait",
    default_tools=("read", "bash", "edit", "write"),
    verbose_state=False,
    counts_bash_output=False,
    cancelled_bash_prefix="",
    sends_will_retry=True,
    sends_all_compactions=True,
    compaction_reserve=DEFAULT_RESERVE_TOKENS,
    drops_queue=True,
    keeps_level=False,
    keeps_model=False,
    counts_written_bytes=False,
    prompt_results=False,
    withdraws_dialogs=False,
    titles="always",
    json_mode_succeeds=True,
)

PI_2025 = Profile(
    name="pi-2025",
    ready="none",
    unknown_command_echoes_id=False,
    late_prompt_errors=False,
    busy="Agent is already processing. Abort it first, or wait for agent_end.",
    hidden_events=_SUMMARY_RETRIES,
    schedule="sequential",
    interrupt="wait",
    default_tools=PI.default_tools,
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
    hidden_events=frozenset({"queue_update", "thinking_level_changed", "session_info_changed"}) | _SUMMARY_RETRIES,
    schedule="exclusive",
    interrupt="immediate",
    default_tools=("read", "bash", "edit", "write", "grep", "find", "ls", "todo_write", "task"),
    verbose_state=False,
    counts_bash_output=True,
    cancelled_bash_prefix="[Command cancelled]\n",
    sends_will_retry=False,
    sends_all_compactions=False,
    compaction_reserve=DEFAULT_RESERVE_TOKENS,
    reset_settings=("todo", "task"),
    prompt_results=True,
    omp_events=True,
    withdraws_dialogs=True,
    titles="always",
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
    titles="on request",
)

PROFILES = {profile.name: profile for profile in (PI, PI_2025, OMP, XCSH)}


#: Older releases that differ from the newest one, by dialect and the first two numbers of the version.
RELEASES: dict[tuple[str, str], Profile] = {
    ("pi", "0.87"): replace(PI, structured_results=False),
    ("pi", "0.73"): replace(
        PI,
        structured_results=False,
        keeps_level=True,
        keeps_model=True,
        counts_written_bytes=True,
        # Clients of this release reject events that they do not know.
        hidden_events=frozenset({"agent_settled", "entry_appended", "bash_execution_update"}) | _SUMMARY_RETRIES,
    ),
}


def profile_named(name: str, version: str | None = None) -> Profile:
    """Return the profile of a dialect of the family, for one release of its program or for the newest.

    Raises ConfigError if the dialect does not exist.
    """
    try:
        return RELEASES.get((name, ".".join((version or "").split(".")[:2])), PROFILES[name])
    except KeyError:
        from fairlead.wire.dialects import DIALECTS

        raise ConfigError(f"Unknown dialect {name!r}. The dialects are: {', '.join(DIALECTS)}") from None
