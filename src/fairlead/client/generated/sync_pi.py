"""Commands of the pi family, a method for each.

`make generate` writes this module from the declarations. Do not edit it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, UnsetType

from fairlead.client.generated import SyncCaller

if TYPE_CHECKING:
    from fairlead.core.events import CompactionResult
    from fairlead.core.messages import ImageContent
    from fairlead.core.model import Model, ThinkingLevel
    from fairlead.core.queues import InterruptMode, QueueMode
    from fairlead.protocol.pi.commands import (
        ActiveTools,
        Attachment,
        AvailableModels,
        BashResult,
        ChosenLevel,
        ClearedQueue,
        CycledModel,
        Disposition,
        LastText,
        Messages,
        SlashCommands,
        ThinkingLevels,
        Tools,
    )
    from fairlead.protocol.pi.frames import RpcSessionState, SessionStats
    from fairlead.protocol.pi.host_requests import HostToolDefinition, HostToolNames, HostUriScheme, HostUriSchemes
    from fairlead.protocol.pi.omp_commands import (
        EventFilter,
        FastMode,
        HandedOff,
        Integrations,
        Locale,
        LoginProviders,
        Negotiated,
        OpenedSession,
        SubagentList,
        SubagentMessages,
        SubagentSubscription,
        TodoPhases,
    )
    from fairlead.protocol.pi.session_commands import (
        Entries,
        Exported,
        Forked,
        ForkMessages,
        Labelled,
        MessagesPage,
        Navigated,
        Reloaded,
        SessionList,
        Switched,
        Tree,
    )


class SyncBasicMethods(SyncCaller):
    """Each method sends a command and returns the data of the response.

    It raises CommandRefused if the agent refuses the command, NoAnswer if `timeout` seconds pass, and AgentGone if the agent
    ends. `timeout` is by default that of the client; None means no limit.
    """

    def steer(
        self,
        message: str,
        *,
        images: list[ImageContent] | None = None,
        attachments: list[Attachment] | None = None,
        timeout: float | UnsetType | None = UNSET,
    ) -> Disposition:
        """Queue a message for the current run. The model gets it after the current turn or, with the interrupt mode
        `immediate`, after the tool that is running. If no run is in progress, the message waits for the next prompt."""
        return self._call("steer", timeout, message=message, images=images, attachments=attachments)

    def follow_up(
        self,
        message: str,
        *,
        images: list[ImageContent] | None = None,
        attachments: list[Attachment] | None = None,
        timeout: float | UnsetType | None = UNSET,
    ) -> Disposition:
        """Queue a message that the model gets when the run would otherwise end."""
        return self._call("follow_up", timeout, message=message, images=images, attachments=attachments)

    def abort(self, *, timeout: float | UnsetType | None = UNSET) -> None:
        """Stop the run. The response follows the last event of the run. The part of the answer that has arrived is
        kept, and so are the queues."""
        self._call("abort", timeout)

    def clear_queue(self, *, timeout: float | UnsetType | None = UNSET) -> ClearedQueue:
        """Remove all queued messages. The response contains their texts."""
        return self._call("clear_queue", timeout)

    def get_state(self, *, verbose: bool | None = None, timeout: float | UnsetType | None = UNSET) -> RpcSessionState:
        """Get the state of the session. `verbose` adds the system prompt and the tools as the model sees them."""
        return self._call("get_state", timeout, verbose=verbose)

    def get_session_stats(self, *, timeout: float | UnsetType | None = UNSET) -> SessionStats:
        """Get totals of the session: messages, tokens, cost."""
        return self._call("get_session_stats", timeout)

    def get_messages(self, *, timeout: float | UnsetType | None = UNSET) -> Messages:
        """Get the messages of the conversation."""
        return self._call("get_messages", timeout)

    def get_last_assistant_text(self, *, timeout: float | UnsetType | None = UNSET) -> LastText:
        """Get the text of the last answer, or null if there is none."""
        return self._call("get_last_assistant_text", timeout)

    def set_model(
        self, provider: str, model_id: str, *, persist: bool | None = None, timeout: float | UnsetType | None = UNSET
    ) -> Model:
        """Use another model, starting with the next model call. A thinking level that the model lacks becomes the
        nearest one."""
        return self._call("set_model", timeout, provider=provider, model_id=model_id, persist=persist)

    def cycle_model(self, *, timeout: float | UnsetType | None = UNSET) -> CycledModel | None:
        """Switch to the next model of `--models` or, without that flag, of all available ones. Null if there is no
        other."""
        return self._call("cycle_model", timeout)

    def get_available_models(self, *, timeout: float | UnsetType | None = UNSET) -> AvailableModels:
        """List the models for which there are credentials."""
        return self._call("get_available_models", timeout)

    def set_thinking_level(
        self, level: ThinkingLevel | Literal["auto"], *, persist: bool | None = None, timeout: float | UnsetType | None = UNSET
    ) -> ChosenLevel:
        """Set how much the model thinks. A level that the model lacks becomes the nearest one, which the response
        names. `auto` is the default level."""
        return self._call("set_thinking_level", timeout, level=level, persist=persist)

    def cycle_thinking_level(self, *, timeout: float | UnsetType | None = UNSET) -> ChosenLevel | None:
        """Switch to the next thinking level. Null for a model without reasoning."""
        return self._call("cycle_thinking_level", timeout)

    def get_available_thinking_levels(self, *, timeout: float | UnsetType | None = UNSET) -> ThinkingLevels:
        """List the thinking levels of the current model."""
        return self._call("get_available_thinking_levels", timeout)

    def set_steering_mode(
        self, mode: QueueMode, *, persist: bool | None = None, timeout: float | UnsetType | None = UNSET
    ) -> None:
        """Set how many steering messages a turn takes from the queue."""
        self._call("set_steering_mode", timeout, mode=mode, persist=persist)

    def set_follow_up_mode(
        self, mode: QueueMode, *, persist: bool | None = None, timeout: float | UnsetType | None = UNSET
    ) -> None:
        """Set how many follow-up messages a turn takes from the queue."""
        self._call("set_follow_up_mode", timeout, mode=mode, persist=persist)

    def set_interrupt_mode(
        self, mode: InterruptMode, *, persist: bool | None = None, timeout: float | UnsetType | None = UNSET
    ) -> None:
        """Set whether a steering message waits for all tools of a turn or skips those that have not started."""
        self._call("set_interrupt_mode", timeout, mode=mode, persist=persist)

    def bash(
        self, command: str, *, exclude_from_context: bool | None = None, timeout: float | UnsetType | None = UNSET
    ) -> BashResult:
        """Run a shell command for the user, independently of any run. `bash_execution_update` events carry its
        output while it runs. The model sees the output with the next prompt, unless `excludeFromContext` is set. The
        response arrives when the command ends."""
        return self._call("bash", timeout, command=command, exclude_from_context=exclude_from_context)

    def abort_bash(self, *, timeout: float | UnsetType | None = UNSET) -> None:
        """Stop the `bash` command that was started last."""
        self._call("abort_bash", timeout)

    def set_auto_retry(self, enabled: bool, *, persist: bool | None = None, timeout: float | UnsetType | None = UNSET) -> None:
        """Turn automatic retries of failed model calls on or off."""
        self._call("set_auto_retry", timeout, enabled=enabled, persist=persist)

    def abort_retry(self, *, timeout: float | UnsetType | None = UNSET) -> None:
        """Cancel the wait for the next retry, if there is one. The run ends with the error."""
        self._call("abort_retry", timeout)

    def get_tools(self, *, timeout: float | UnsetType | None = UNSET) -> Tools:
        """List all tools, and which of them the model may use."""
        return self._call("get_tools", timeout)

    def set_active_tools(self, tools: list[str], *, timeout: float | UnsetType | None = UNSET) -> ActiveTools:
        """Choose the tools that the model may use, starting with the next model call."""
        return self._call("set_active_tools", timeout, tools=tools)

    def get_commands(self, *, timeout: float | UnsetType | None = UNSET) -> SlashCommands:
        """List the slash commands of extensions, prompt templates and skills. A message that begins with one is
        expanded to its text, or runs it."""
        return self._call("get_commands", timeout)

    def get_available_commands(self, *, timeout: float | UnsetType | None = UNSET) -> SlashCommands:
        """The name that omp has for `get_commands`."""
        return self._call("get_available_commands", timeout)

    def set_updates(self, updates: Literal["full", "delta"], *, timeout: float | UnsetType | None = UNSET) -> None:
        """Set the form of `message_update`: `full` repeats the message so far, `delta` has only the new part."""
        self._call("set_updates", timeout, updates=updates)

    def shutdown(self, *, timeout: float | UnsetType | None = UNSET) -> None:
        """Stop the run, respond, and exit with code 0."""
        self._call("shutdown", timeout)


class SyncSessionMethods(SyncCaller):
    """Each method sends a command and returns the data of the response.

    It raises CommandRefused if the agent refuses the command, NoAnswer if `timeout` seconds pass, and AgentGone if the agent
    ends. `timeout` is by default that of the client; None means no limit.
    """

    def new_session(self, *, parent_session: str | None = None, timeout: float | UnsetType | None = UNSET) -> Switched:
        """Start a new session. `parentSession` is recorded as the file of the session that it came from."""
        return self._call("new_session", timeout, parent_session=parent_session)

    def switch_session(self, session_path: str, *, timeout: float | UnsetType | None = UNSET) -> Switched:
        """Resume the session in a file. If the file contains none, save a new session there."""
        return self._call("switch_session", timeout, session_path=session_path)

    def fork(self, entry_id: str, *, timeout: float | UnsetType | None = UNSET) -> Forked:
        """Start a new session with everything before a user message, and return the text of that message."""
        return self._call("fork", timeout, entry_id=entry_id)

    def branch(self, entry_id: str, *, timeout: float | UnsetType | None = UNSET) -> Forked:
        """The name that omp and xcsh have for `fork`."""
        return self._call("branch", timeout, entry_id=entry_id)

    def clone(self, *, timeout: float | UnsetType | None = UNSET) -> Switched:
        """Start a new session with a copy of the whole conversation."""
        return self._call("clone", timeout)

    def list_sessions(self, *, all: bool | None = None, timeout: float | UnsetType | None = UNSET) -> SessionList:
        """List the sessions of this working directory or, with `all`, of every directory. The latest change comes
        first."""
        return self._call("list_sessions", timeout, all=all)

    def delete_session(self, session_path: str, *, timeout: float | UnsetType | None = UNSET) -> None:
        """Delete the file of a session and the conversations of its sub-agents. A session in use is not deleted."""
        self._call("delete_session", timeout, session_path=session_path)

    def set_session_name(self, name: str, *, timeout: float | UnsetType | None = UNSET) -> None:
        """Name the session. Surrounding spaces are removed."""
        self._call("set_session_name", timeout, name=name)

    def get_fork_messages(self, *, timeout: float | UnsetType | None = UNSET) -> ForkMessages:
        """List the user messages of the current branch, which `fork` accepts."""
        return self._call("get_fork_messages", timeout)

    def get_branch_messages(self, *, timeout: float | UnsetType | None = UNSET) -> ForkMessages:
        """The name that omp and xcsh have for `get_fork_messages`."""
        return self._call("get_branch_messages", timeout)

    def get_entries(self, *, since: str | None = None, timeout: float | UnsetType | None = UNSET) -> Entries:
        """List the entries of all branches in the order in which they were added, or those added after the entry
        `since`."""
        return self._call("get_entries", timeout, since=since)

    def get_tree(self, *, timeout: float | UnsetType | None = UNSET) -> Tree:
        """Get all entries as a tree, and the entry at which the conversation continues (`leafId`)."""
        return self._call("get_tree", timeout)

    def navigate_tree(
        self,
        target_id: str | None,
        *,
        summarize: bool | None = None,
        custom_instructions: str | None = None,
        timeout: float | UnsetType | None = UNSET,
    ) -> Navigated:
        """Continue from another entry of the same session; null is its beginning. If the entry is a message of the
        user or of an extension, the conversation continues before it, and the response contains its text. With
        `summarize`, the model gets a summary of the abandoned branch. The new position is saved with the next entry."""
        return self._call(
            "navigate_tree", timeout, target_id=target_id, summarize=summarize, custom_instructions=custom_instructions
        )

    def set_label(self, target_id: str, *, label: str | None = None, timeout: float | UnsetType | None = UNSET) -> Labelled:
        """Label an entry, or remove its label. The response names the entry that records the change."""
        return self._call("set_label", timeout, target_id=target_id, label=label)

    def get_messages_page(
        self, *, cursor: str | None = None, limit: int | None = None, timeout: float | UnsetType | None = UNSET
    ) -> MessagesPage:
        """Get a page of the conversation, oldest messages first: at most `limit` messages (1 to 256, default 100)
        and about 768 KiB. If there is more, `nextCursor` is the `cursor` of the next page. A cursor is valid until
        the conversation changes."""
        return self._call("get_messages_page", timeout, cursor=cursor, limit=limit)

    def compact(self, *, custom_instructions: str | None = None, timeout: float | UnsetType | None = UNSET) -> CompactionResult:
        """Replace the older part of the conversation with a summary. `customInstructions` tell the model what to
        focus on. The response arrives at the end. Meanwhile prompts are refused, and `abort` stops the compaction."""
        return self._call("compact", timeout, custom_instructions=custom_instructions)

    def set_auto_compaction(
        self, enabled: bool, *, persist: bool | None = None, timeout: float | UnsetType | None = UNSET
    ) -> None:
        """Turn automatic compaction on or off. It happens when the context of the model is nearly full, or
        overflows."""
        self._call("set_auto_compaction", timeout, enabled=enabled, persist=persist)

    def export_html(self, *, output_path: str | None = None, timeout: float | UnsetType | None = UNSET) -> Exported:
        """Write the session as an HTML page to `outputPath`, or to a file in the working directory. The response has
        the path."""
        return self._call("export_html", timeout, output_path=output_path)

    def resume(self, *, timeout: float | UnsetType | None = UNSET) -> None:
        """Continue the last run if it was interrupted: the agent was killed or closed during it, or the model
        failed. No message is repeated. Tool calls that had ended keep their results. Calls of idempotent tools, and
        calls that had not started, are made now; any other call gets a result that says that it may have run.
        Refused if the last run has ended."""
        self._call("resume", timeout)

    def reload(self, *, timeout: float | UnsetType | None = UNSET) -> Reloaded:
        """Reload all extensions without closing the session. Refused during a run."""
        return self._call("reload", timeout)


class SyncOmpMethods(SyncCaller):
    """Each method sends a command and returns the data of the response.

    It raises CommandRefused if the agent refuses the command, NoAnswer if `timeout` seconds pass, and AgentGone if the agent
    ends. `timeout` is by default that of the client; None means no limit.
    """

    def set_host_tools(self, tools: list[HostToolDefinition], *, timeout: float | UnsetType | None = UNSET) -> HostToolNames:
        """Replace the host tools, starting with the next model call, even during a run. A new tool is active unless
        it is `hidden`. A tool whose name was registered before stays active or inactive. When the model calls a host
        tool, the host gets `host_tool_call` and replies with `host_tool_result`."""
        return self._call("set_host_tools", timeout, tools=tools)

    def set_host_uri_schemes(self, schemes: list[HostUriScheme], *, timeout: float | UnsetType | None = UNSET) -> HostUriSchemes:
        """Replace the URI schemes that the host serves. When the model uses `read` or `write` on such a URI, the
        host gets `host_uri_request` and replies with `host_uri_result`."""
        return self._call("set_host_uri_schemes", timeout, schemes=schemes)

    def negotiate_protocol(self, protocol_version: int, *, timeout: float | UnsetType | None = UNSET) -> Negotiated:
        """Switch to version 2 of the protocol. In it no frame is longer than 1 MiB: longer ones arrive as
        `rpc_chunk` frames, and `agent_end` omits messages that were sent before. Version 1, the default, has no
        limit."""
        return self._call("negotiate_protocol", timeout, protocol_version=protocol_version)

    def set_event_filter(self, events: Any, *, timeout: float | UnsetType | None = UNSET) -> EventFilter:
        """Send only events of these types; null sends all again. The host always gets responses, `prompt_result`,
        `session_settled` and requests that expect a reply."""
        return self._call("set_event_filter", timeout, events=events)

    def open_session(self, session_dir: str, *, timeout: float | UnsetType | None = UNSET) -> OpenedSession:
        """Save sessions in another folder from now on, and resume its latest session or start a new one."""
        return self._call("open_session", timeout, session_dir=session_dir)

    def handoff(self, *, custom_instructions: str | None = None, timeout: float | UnsetType | None = UNSET) -> HandedOff:
        """Ask the model for a summary of everything that matters, and start a new session with it."""
        return self._call("handoff", timeout, custom_instructions=custom_instructions)

    def set_todos(self, phases: Any, *, timeout: float | UnsetType | None = UNSET) -> TodoPhases:
        """Replace the todos: phases `{id?, name, tasks: [{id?, content, status?, notes?, details?}]}`. fairlead adds
        missing ids and statuses, and keeps at most one task in progress. The response contains the new list."""
        return self._call("set_todos", timeout, phases=phases)

    def set_fast_mode(self, enabled: bool, *, timeout: float | UnsetType | None = UNSET) -> FastMode:
        """Turn a faster service tier on or off. The choice is kept, but fairlead asks no provider for it: `active`
        stays false."""
        return self._call("set_fast_mode", timeout, enabled=enabled)

    def get_login_providers(self, *, timeout: float | UnsetType | None = UNSET) -> LoginProviders:
        """List the model providers, and which of them have a key."""
        return self._call("get_login_providers", timeout)

    def login(self, provider_id: str, *, timeout: float | UnsetType | None = UNSET) -> None:
        """Log in to a provider: the user enters a code on the page of an `open_url` request. The response arrives
        when the user is done and the token is saved. A provider without login gets an error that says how to set its
        key."""
        self._call("login", timeout, provider_id=provider_id)

    def set_locale(self, locale: str, *, timeout: float | UnsetType | None = UNSET) -> Locale:
        """Set the language of the user, such as `ja` or `pt-BR`, which the model will answer in. An empty text
        unsets it. `locale` in a prompt does the same."""
        return self._call("set_locale", timeout, locale=locale)

    def get_integrations(self, *, timeout: float | UnsetType | None = UNSET) -> Integrations:
        """List the services that xcsh is connected to. fairlead has none."""
        return self._call("get_integrations", timeout)

    def set_subagent_subscription(self, level: str, *, timeout: float | UnsetType | None = UNSET) -> SubagentSubscription:
        """Choose the events about sub-agents: none (`off`, the default), `subagent_lifecycle` and
        `subagent_progress` (`progress`), or these and every event of their runs as `subagent_event` (`events`)."""
        return self._call("set_subagent_subscription", timeout, level=level)

    def get_subagents(self, *, timeout: float | UnsetType | None = UNSET) -> SubagentList:
        """List the sub-agents that started since this session was opened, including finished ones. A nested
        sub-agent's id begins with the id of its parent and a dot."""
        return self._call("get_subagents", timeout)

    def get_subagent_messages(
        self,
        *,
        subagent_id: str | None = None,
        session_file: str | None = None,
        from_byte: int | None = None,
        timeout: float | UnsetType | None = UNSET,
    ) -> SubagentMessages:
        """Get the conversation of a sub-agent as written so far, or the part after the byte `fromByte`. Name the
        sub-agent by its id or by its `sessionFile`, which also finds those from before this session was opened.
        Other files are refused."""
        return self._call(
            "get_subagent_messages", timeout, subagent_id=subagent_id, session_file=session_file, from_byte=from_byte
        )
