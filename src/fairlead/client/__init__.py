"""Clients for agents in other processes: fairlead, pi, omp and xcsh, and with `fairlead.client.opal` servers of Opal.

    Client, SyncClient              an agent, for async and for blocking programs
    Run, RunStream, Result          a prompt that was accepted, with its events, and its outcome
    SyncRun, SyncRunStream          the same for blocking programs
    Approval, ExtensionUiRequest    what the agent asks the user
    HostCall                        a call of a tool that the host offers
    UriContent                      the content of a URI that the host serves
    HostUriResult                   the same as a line of the protocol, for `Client.send`
    ServerClient                    the sessions of `fairlead serve`, over the network
    Snapshot, NumberedEvent         the state of such a session, and an event after it
    Job, JobLimits                  a prompt for the workers of a fleet, and what it may use
    JobResult, JobEvent             what is known of such a job, and something that happened to it
    MessageAssembler                builds a message from its updates
    StopTimes                       how long an agent may take to end

`fairlead.client.events` has the events. `fairlead help client` explains all of it.

**Slow readers.** Iterators of events never lose one. A reader that is behind gets neighbouring deltas merged. If a thousand
events or 16 MiB wait for it nevertheless, the client reads no further, and the agent pauses. While the reader waits for an
answer from the same client, the client reads on.

**Restarts.** With `restart=True`, an agent that dies is started again, at most three times a minute, and resumes its session.
Prompts and commands that were in progress raise `AgentGone` with `restarted` set: send them again if that is right. Event
iterators continue, with a `Restarted` event.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairlead.client.client import Client
    from fairlead.client.event_stream import MessageAssembler
    from fairlead.client.events import ExtensionUiRequest
    from fairlead.client.process import StopTimes
    from fairlead.client.runs import Result, Run, RunStream
    from fairlead.client.server import NumberedEvent, ServerClient
    from fairlead.client.serving import Approval, HostCall, UriContent
    from fairlead.client.sync import SyncClient, SyncRun, SyncRunStream
    from fairlead.protocol.http.fleet import Job, JobEvent, JobLimits, JobResult
    from fairlead.protocol.http.http_objects import Snapshot
    from fairlead.protocol.pi.host_requests import HostUriResult

__all__ = [
    "Approval",
    "Client",
    "ExtensionUiRequest",
    "HostCall",
    "HostUriResult",
    "Job",
    "JobEvent",
    "JobLimits",
    "JobResult",
    "MessageAssembler",
    "NumberedEvent",
    "Result",
    "Run",
    "RunStream",
    "ServerClient",
    "Snapshot",
    "StopTimes",
    "SyncClient",
    "SyncRun",
    "SyncRunStream",
    "UriContent",
]

_HOMES = {
    "Approval": "fairlead.client.serving",
    "Client": "fairlead.client.client",
    "ExtensionUiRequest": "fairlead.client.events",
    "HostCall": "fairlead.client.serving",
    "HostUriResult": "fairlead.protocol.pi.host_requests",
    "Job": "fairlead.protocol.http.fleet",
    "JobEvent": "fairlead.protocol.http.fleet",
    "JobLimits": "fairlead.protocol.http.fleet",
    "JobResult": "fairlead.protocol.http.fleet",
    "MessageAssembler": "fairlead.client.event_stream",
    "NumberedEvent": "fairlead.client.server",
    "Result": "fairlead.client.runs",
    "Run": "fairlead.client.runs",
    "RunStream": "fairlead.client.runs",
    "ServerClient": "fairlead.client.server",
    "Snapshot": "fairlead.protocol.http.http_objects",
    "StopTimes": "fairlead.client.process",
    "SyncClient": "fairlead.client.sync",
    "SyncRun": "fairlead.client.sync",
    "SyncRunStream": "fairlead.client.sync",
    "UriContent": "fairlead.client.serving",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fairlead.client' has no attribute {name!r}")

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*{*globals(), *__all__}]
