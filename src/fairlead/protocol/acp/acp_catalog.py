"""Every request and notification by its name, for schemas and the reference.

Those for files and terminals of the client are declared here: fairlead does not send them, since version 2 removes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from fairlead.protocol.acp import acp_sessions as s
from fairlead.protocol.acp import elicitation as e
from fairlead.protocol.acp import initialization as i
from fairlead.protocol.acp import updates as t
from fairlead.protocol.acp import updates as u
from fairlead.protocol.acp.acp_sessions import EnvVariable
from fairlead.protocol.acp.content import Notification, Object, Request


class ReadTextFileResponse(Object):
    """Response containing the contents of a text file."""

    #: Content payload returned by this response.
    content: str


class ReadTextFileRequest(Request):
    """Request to read content from a text file."""

    method: ClassVar[str] = "fs/read_text_file"
    result: ClassVar[type[Struct]] = ReadTextFileResponse
    #: The session ID for this request.
    session_id: str
    #: Absolute path to the file to read.
    path: str
    #: Line number to start reading from (1-based).
    line: int | None = None
    #: Maximum number of lines to read.
    limit: int | None = None


class WriteTextFileResponse(Object):
    """Response to `fs/write_text_file`."""


class WriteTextFileRequest(Request):
    """Request to write content to a text file."""

    method: ClassVar[str] = "fs/write_text_file"
    result: ClassVar[type[Struct]] = WriteTextFileResponse
    #: The session ID for this request.
    session_id: str
    #: Absolute path to the file to write.
    path: str
    #: The text content to write to the file.
    content: str


class TerminalExitStatus(Object):
    """Exit status of a terminal command."""

    #: The process exit code (may be null if terminated by signal).
    exit_code: int | None = None
    #: The signal that terminated the process (may be null if exited normally).
    signal: str | None = None


class CreateTerminalResponse(Object):
    """Response containing the ID of the created terminal."""

    #: The unique identifier for the created terminal.
    terminal_id: str


class CreateTerminalRequest(Request):
    """Request to create a new terminal and execute a command."""

    method: ClassVar[str] = "terminal/create"
    result: ClassVar[type[Struct]] = CreateTerminalResponse
    #: The session ID for this request.
    session_id: str
    #: The command to execute.
    command: str
    #: Array of command arguments.
    args: list[str] = []
    #: Environment variables for the command.
    env: list[EnvVariable] = []
    #: Working directory for the command.
    cwd: str | None = None
    #: Maximum number of output bytes to retain.
    output_byte_limit: int | None = None


class TerminalOutputResponse(Object):
    """Response containing the terminal output and exit status."""

    #: The terminal output captured so far.
    output: str
    #: Whether the output was truncated due to byte limits.
    truncated: bool
    #: Exit status if the command has completed.
    exit_status: TerminalExitStatus | None = None


class TerminalOutputRequest(Request):
    """Request to get the current output and status of a terminal."""

    method: ClassVar[str] = "terminal/output"
    result: ClassVar[type[Struct]] = TerminalOutputResponse
    #: The session ID for this request.
    session_id: str
    #: The ID of the terminal to get output from.
    terminal_id: str


class ReleaseTerminalResponse(Object):
    """Response to terminal/release method."""


class ReleaseTerminalRequest(Request):
    """Request to release a terminal and free its resources."""

    method: ClassVar[str] = "terminal/release"
    result: ClassVar[type[Struct]] = ReleaseTerminalResponse
    #: The session ID for this request.
    session_id: str
    #: The ID of the terminal to release.
    terminal_id: str


class WaitForTerminalExitResponse(Object):
    """Response containing the exit status of a terminal command."""

    #: The process exit code (may be null if terminated by signal).
    exit_code: int | None = None
    #: The signal that terminated the process (may be null if exited normally).
    signal: str | None = None


class WaitForTerminalExitRequest(Request):
    """Request to wait for a terminal command to exit."""

    method: ClassVar[str] = "terminal/wait_for_exit"
    result: ClassVar[type[Struct]] = WaitForTerminalExitResponse
    #: The session ID for this request.
    session_id: str
    #: The ID of the terminal to wait for.
    terminal_id: str


class KillTerminalResponse(Object):
    """Response to `terminal/kill` method."""


class KillTerminalRequest(Request):
    """Request to kill a terminal without releasing it."""

    method: ClassVar[str] = "terminal/kill"
    result: ClassVar[type[Struct]] = KillTerminalResponse
    #: The session ID for this request.
    session_id: str
    #: The ID of the terminal to kill.
    terminal_id: str


#: The requests of a client.
AGENT_REQUESTS: Mapping[str, type[Request]] = {
    declared.method: declared
    for declared in (
        i.InitializeRequest,
        i.AuthenticateRequest,
        i.LogoutRequest,
        s.NewSessionRequest,
        s.LoadSessionRequest,
        s.ResumeSessionRequest,
        s.ListSessionsRequest,
        s.CloseSessionRequest,
        s.DeleteSessionRequest,
        s.SetSessionModeRequest,
        s.SetSessionConfigOptionRequest,
        s.PromptRequest,
    )
}

#: The notifications of a client.
AGENT_NOTIFICATIONS: Mapping[str, type[Notification]] = {
    declared.method: declared for declared in (i.CancelNotification, i.CancelRequestNotification)
}

#: The requests of an agent. A question has two forms.
CLIENT_REQUESTS: Mapping[str, tuple[type[Request], ...]] = {
    declared[0].method: declared
    for declared in (
        (t.RequestPermissionRequest,),
        (e.ElicitationForm, e.ElicitationUrl),
        (ReadTextFileRequest,),
        (WriteTextFileRequest,),
        (CreateTerminalRequest,),
        (TerminalOutputRequest,),
        (ReleaseTerminalRequest,),
        (WaitForTerminalExitRequest,),
        (KillTerminalRequest,),
    )
}

#: The notifications of an agent.
CLIENT_NOTIFICATIONS: Mapping[str, type[Notification]] = {
    declared.method: declared
    for declared in (u.SessionNotification, e.CompleteElicitationNotification, i.CancelRequestNotification)
}
