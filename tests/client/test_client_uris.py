"""URIs that functions of the host serve."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.client.agents import fairlead
from tests.support.stage import calls, says

from fairlead.client import UriContent, events
from fairlead.errors import CommandRefused


async def test_the_model_reads_and_writes_through_functions(tmp_path: Path) -> None:
    notes = {"notes://today": "Buy lamps."}
    turns = [
        calls(("read", {"path": "notes://today"}), ("read", {"path": "notes://never"}), ("read", {"path": "maps://home"})),
        calls(("write", {"path": "notes://today", "content": "Done."}), ("write", {"path": "maps://home", "content": "x"})),
        says("Done."),
    ]
    async with fairlead(tmp_path / "a", *turns) as (client, _):

        @client.uri_reader("Notes", description="The user's notes")
        def read_note(uri: str) -> str:
            return notes[uri]

        @client.uri_writer("notes")
        async def write_note(uri: str, content: str) -> None:
            notes[uri] = content

        @client.uri_reader("maps", immutable=True)
        async def read_map(uri: str) -> UriContent:
            return UriContent(text="a map", content_type="text/x-map", notes=["north is up"])

        result = await client.ask("Look.")
        assert read_note and write_note and read_map
    assert notes == {"notes://today": "Done."}
    said = str(result.messages)
    for part in ("Buy lamps.", "'notes://never'", "north is up", "text/x-map"):
        assert part in said, said
    written = [message for message in result.messages if "maps" in str(message) and getattr(message, "is_error", False)]
    assert len(written) == 1


async def test_schemes_survive_a_restart_and_are_refused_where_they_are_reserved(tmp_path: Path) -> None:
    turns = [calls(("read", {"path": "notes://today"})), says("Read.")]
    async with fairlead(tmp_path / "a", *turns, restart=True) as (client, _):

        @client.uri_reader("notes")
        def read_note(uri: str) -> str:
            return "Buy lamps."

        await client.publish_tools()
        await client.get_state()
        stream = client.events()
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        while not isinstance(await anext(stream), events.Restarted):
            pass
        assert "Buy lamps." in str((await client.ask("Read.")).messages)
        client.uri_reader("file")(read_note)
        with pytest.raises(CommandRefused, match="reserved"):
            await client.publish_tools()
