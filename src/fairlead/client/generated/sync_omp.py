"""Commands of the pi family, a method for each.

`make generate` writes this module from the declarations. Do not edit it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from fairlead.client.generated.base import SyncCaller

if TYPE_CHECKING:
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
