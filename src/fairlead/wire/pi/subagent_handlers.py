"""The handlers of the commands about sub-agents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fairlead.errors import BadCommand
from fairlead.protocol.pi import omp_commands as c
from fairlead.wire.messages import Route
from fairlead.wire.pi.encode import Spliced

if TYPE_CHECKING:
    from fairlead.wire.pi.server import PiServer


def _set_subagent_subscription(server: PiServer, command: c.SetSubagentSubscription) -> c.SubagentSubscription:
    match command.level:
        case "off" | "progress" | "events" as level:
            server.subagents.set_level(level)
            return c.SubagentSubscription(level)
        case other:
            raise BadCommand(f"Invalid subagent subscription level: {other}")


def _get_subagents(server: PiServer, command: c.GetSubagents) -> c.Subagents:
    subagents = server.session.subagents
    return c.Subagents(subagents.snapshots() if subagents is not None else [])


def _get_subagent_messages(server: PiServer, command: c.GetSubagentMessages) -> Spliced:
    from fairlead.session.subagents.transcripts import read_transcript

    path = _transcript(server, command)
    piece = read_transcript(path, command.from_byte or 0)
    head = b'{"sessionFile":%b,"fromByte":%d,"nextByte":%d,"reset":%b' % (
        msgspec.json.encode(str(path)),
        piece.start,
        piece.end,
        b"true" if piece.reset else b"false",
    )
    return Spliced((head, b',"entries":[', b",".join(piece.lines), b'],"messages":[', b",".join(piece.messages), b"]}"))


def _transcript(server: PiServer, command: c.GetSubagentMessages) -> Path:
    subagents = server.session.subagents
    if command.subagent_id:
        path = subagents.transcript_of(command.subagent_id) if subagents is not None else None
        if path is None:
            raise BadCommand(f"Unknown subagent or session file unavailable: {command.subagent_id}")
        return path
    if not command.session_file:
        raise BadCommand("get_subagent_messages requires subagentId or sessionFile")
    path = server.session.host.workspace.resolve(command.session_file)
    if subagents is None or not subagents.is_transcript(path):
        raise BadCommand(f"Unknown subagent or session file unavailable: {command.session_file}")
    return path


ROUTES: tuple[Route, ...] = (
    Route(c.SetSubagentSubscription, _set_subagent_subscription),
    Route(c.GetSubagents, _get_subagents),
    Route(c.GetSubagentMessages, _get_subagent_messages),
)
