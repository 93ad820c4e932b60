"""Every request and notification by its name, for schemas and the reference."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.protocol.acp import client_methods as c
from fairlead.protocol.acp import elicitation as e
from fairlead.protocol.acp import initialization as i
from fairlead.protocol.acp import sessions as s
from fairlead.protocol.acp import tool_calls as t
from fairlead.protocol.acp import updates as u
from fairlead.protocol.acp.base import Notification, Request

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
        (c.ReadTextFileRequest,),
        (c.WriteTextFileRequest,),
        (c.CreateTerminalRequest,),
        (c.TerminalOutputRequest,),
        (c.ReleaseTerminalRequest,),
        (c.WaitForTerminalExitRequest,),
        (c.KillTerminalRequest,),
    )
}

#: The notifications of an agent.
CLIENT_NOTIFICATIONS: Mapping[str, type[Notification]] = {
    declared.method: declared
    for declared in (u.SessionNotification, e.CompleteElicitationNotification, i.CancelRequestNotification)
}
