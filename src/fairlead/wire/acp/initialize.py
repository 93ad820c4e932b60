"""How a connection begins: what the client says it can do, and what fairlead says about itself."""

from __future__ import annotations

from msgspec import Struct

from fairlead import __version__
from fairlead.protocol.acp import initialization as acp
from fairlead.protocol.acp.content import PROTOCOL_VERSION
from fairlead.protocol.acp.initialization import ClientCapabilities

#: The ids of the ways to log in: through `authenticate`, and in a terminal that the client opens.
LOGIN, TERMINAL_LOGIN = "fairlead-login", "fairlead-login-terminal"


def answer_initialize(client: Client) -> acp.InitializeResponse:
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


class Client(Struct):
    """The client of a connection. Without an `initialize` request it can do nothing optional."""

    #: Shows notices, and the progress of compactions.
    notices: bool = False
    compactions: bool = False
    #: Shows forms, and opens pages in a browser.
    forms: bool = False
    pages: bool = False
    #: Runs the agent in a terminal to log in.
    terminal_login: bool = False

    def initialize(self, capabilities: ClientCapabilities) -> None:
        """Take what the client says about itself."""
        session, elicitation = capabilities.session, capabilities.elicitation
        self.notices = session is not None and session.notices is not None
        self.compactions = session is not None and session.compaction is not None
        self.forms = elicitation is not None and elicitation.form is not None
        self.pages = elicitation is not None and elicitation.url is not None
        self.terminal_login = capabilities.auth.terminal
