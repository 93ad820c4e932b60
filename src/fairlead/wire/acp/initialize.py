"""What fairlead says about itself when a connection begins."""

from __future__ import annotations

from fairlead import __version__
from fairlead.protocol.acp import initialization as acp
from fairlead.protocol.acp.base import PROTOCOL_VERSION
from fairlead.wire.acp.client import Client

#: The ids of the ways to log in: through `authenticate`, and in a terminal that the client opens.
LOGIN, TERMINAL_LOGIN = "fairlead-login", "fairlead-login-terminal"


def initialized(client: Client) -> acp.InitializeResponse:
    """Return the answer to `initialize`."""
    return acp.InitializeResponse(
        protocol_version=PROTOCOL_VERSION,
        agent_capabilities=acp.AgentCapabilities(
            load_session=True,
            prompt_capabilities=acp.PromptCapabilities(image=True, embedded_context=True),
            mcp_capabilities=acp.McpCapabilities(http=True, sse=True),
            session_capabilities=acp.SessionCapabilities(
                list=acp.SessionListCapabilities(),
                delete=acp.SessionDeleteCapabilities(),
                additional_directories=acp.SessionAdditionalDirectoriesCapabilities(),
                resume=acp.SessionResumeCapabilities(),
                close=acp.SessionCloseCapabilities(),
            ),
            auth=acp.AgentAuthCapabilities(logout=acp.LogoutCapabilities()),
        ),
        auth_methods=[*_methods(client)],
        agent_info=acp.Implementation("fairlead", __version__, title="Fairlead"),
    )


def _methods(client: Client) -> list[acp.AuthMethod]:
    found: list[acp.AuthMethod] = [
        acp.AuthMethodAgent(
            LOGIN,
            "Log in with fairlead",
            description="Uses a key from the environment or from `fairlead login`, or logs in at a provider that supports it",
        )
    ]
    if client.terminal_login:
        found.append(
            acp.AuthMethodTerminal(
                TERMINAL_LOGIN,
                "Log in with a terminal",
                description="Asks for the key of a provider and stores it",
                args=["--login"],
            )
        )
    return found
