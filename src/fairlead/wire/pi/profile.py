"""The differences between the dialects of the pi family, as data. Everything else is the same for all."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from fairlead.core.model import THINKING_LEVELS
from fairlead.errors import ConfigError
from fairlead.session.behaviour import Behaviour
from fairlead.wire.dialects import DIALECTS

#: The events of pi about requests for a summary that are repeated, which began with pi 0.81.
_SUMMARY_RETRIES = frozenset(
    {"summarization_retry_scheduled", "summarization_retry_attempt_start", "summarization_retry_finished"}
)
#: The tools that the model may use by default.
PI_TOOLS = ("read", "bash", "edit", "write")
OMP_TOOLS = (*PI_TOOLS, "grep", "find", "ls", "todo_write", "task")


class Profile(Struct, frozen=True, kw_only=True):
    """How one dialect differs from the others of the family."""

    name: str
    #: The first frame: none, `ready` with the version of fairlead, or `ready` with the versions of the protocol.
    ready: Literal["none", "version", "protocols"]
    #: Whether the answers to an unknown command and to a line without a type repeat the id.
    unknown_command_echoes_id: bool
    #: Whether a prompt is acknowledged before it waits for anything. If it cannot start, it then fails in a second response.
    acknowledges_prompts: bool
    #: The error for a prompt that arrives during a run.
    busy: str
    #: Whether the response to a prompt or a queued message says what happened to it.
    dispositions: bool = False
    #: Whether the results of tools are also sent as data.
    structured_results: bool = False
    #: Events that hosts of this dialect do not know.
    hidden_events: frozenset[str]
    #: How its sessions differ from those of the library.
    behaviour: Behaviour
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
    #: Whether each prompt gets a `prompt_result`, and the session a `session_settled`.
    prompt_results: bool
    #: Whether the events of omp 18 are sent: `available_commands_update`, `notice`, `model_changed`, and `agent_end.isTerminal`.
    omp_events: bool = False
    #: Whether a `cancel` request withdraws a dialog whose answer is no longer needed.
    withdraws_dialogs: bool
    #: Whether `setTitle` requests are sent. "on request" means: if PI_RPC_EMIT_TITLE is set.
    titles: Literal["always", "on request", "never"]
    #: Whether a session without entries can be exported.
    exports_empty: bool = True
    #: Whether the command exits with code 0 in JSON mode even if the model failed.
    json_mode_succeeds: bool = False


PI = Profile(
    name="pi",
    ready="none",
    unknown_command_echoes_id=True,
    acknowledges_prompts=False,
    busy="Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message.",
    dispositions=True,
    structured_results=True,
    hidden_events=frozenset(),
    behaviour=Behaviour(
        drops_queue=True,
        keeps_level=False,
        lists_models_by_name=True,
        keeps_model=False,
        counts_written_bytes=False,
        default_tools=PI_TOOLS,
    ),
    verbose_state=False,
    counts_bash_output=False,
    cancelled_bash_prefix="",
    sends_will_retry=True,
    sends_all_compactions=True,
    prompt_results=False,
    withdraws_dialogs=False,
    titles="always",
    exports_empty=False,
    json_mode_succeeds=True,
)

PI_2025 = Profile(
    name="pi-2025",
    ready="none",
    unknown_command_echoes_id=False,
    acknowledges_prompts=False,
    busy="Agent is already processing. Abort it first, or wait for agent_end.",
    hidden_events=_SUMMARY_RETRIES,
    behaviour=Behaviour(schedule="sequential", compaction_reserve=20_000, default_tools=PI_TOOLS),
    verbose_state=False,
    counts_bash_output=False,
    cancelled_bash_prefix="",
    sends_will_retry=False,
    sends_all_compactions=True,
    prompt_results=False,
    withdraws_dialogs=False,
    titles="never",
)

OMP = Profile(
    name="omp",
    ready="protocols",
    unknown_command_echoes_id=False,
    acknowledges_prompts=True,
    busy="Agent is already processing. Use steer() or followUp() to queue messages, or wait for completion.",
    hidden_events=frozenset({"queue_update", "thinking_level_changed", "session_info_changed"}) | _SUMMARY_RETRIES,
    behaviour=Behaviour(schedule="exclusive", interrupt="immediate", reset_settings=("todo", "task"), default_tools=OMP_TOOLS),
    verbose_state=False,
    counts_bash_output=True,
    cancelled_bash_prefix="[Command cancelled]\n",
    sends_will_retry=False,
    sends_all_compactions=False,
    prompt_results=True,
    omp_events=True,
    withdraws_dialogs=True,
    titles="always",
)

XCSH = Profile(
    name="xcsh",
    ready="version",
    unknown_command_echoes_id=OMP.unknown_command_echoes_id,
    acknowledges_prompts=OMP.acknowledges_prompts,
    busy=OMP.busy,
    hidden_events=OMP.hidden_events,
    behaviour=replace(OMP.behaviour, interrupt="wait", eager_todos=True),
    verbose_state=True,
    counts_bash_output=OMP.counts_bash_output,
    cancelled_bash_prefix=OMP.cancelled_bash_prefix,
    sends_will_retry=OMP.sends_will_retry,
    sends_all_compactions=OMP.sends_all_compactions,
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
        behaviour=Behaviour(drops_queue=True, levels=THINKING_LEVELS[:-1], default_tools=PI_TOOLS),
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
        raise ConfigError(f"Unknown dialect {name!r}. The dialects are: {', '.join(DIALECTS)}") from None
