"""What a client can do, as it said when the connection began."""

from __future__ import annotations

from msgspec import Struct

from fairlead.protocol.acp.initialization import ClientCapabilities


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
