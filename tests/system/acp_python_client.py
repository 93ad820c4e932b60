"""Drives an agent with the client of the Python SDK, which has its own environment. Prints what happened as a line of JSON.

Arguments: the working directory, and the agent's command.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from importlib import import_module
from typing import Any

# The environment of the tests does not have it.
acp: Any = import_module("acp")
schema: Any = import_module("acp.schema")


class Client:
    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.permissions: list[Any] = []
        self.has_words = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **rest: Any) -> None:
        self.updates.append(update.model_dump(mode="json", by_alias=True, exclude_none=True))
        if "word" in str(self.updates[-1]):
            self.has_words.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **rest: Any) -> Any:
        self.permissions.append(tool_call.model_dump(mode="json", by_alias=True, exclude_none=True))
        outcome = schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    def on_connect(self, connection: Any) -> None:
        """Nothing to do."""


async def main(cwd: str, command: str, *arguments: str) -> None:
    client = Client()
    async with acp.spawn_agent_process(client, command, *arguments, env=dict(os.environ), cwd=cwd) as (agent, _):
        initialized = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = (await agent.new_session(cwd=cwd, mcp_servers=[])).session_id
        first = await agent.prompt(session_id=session, prompt=[acp.text_block("write a file")])
        running = asyncio.ensure_future(agent.prompt(session_id=session, prompt=[acp.text_block("wait")]))
        await client.has_words.wait()
        await agent.cancel(session_id=session)
        second = await running
        listed = await agent.list_sessions()
        await agent.close_session(session_id=session)
        before = len(client.updates)
        await agent.load_session(cwd=cwd, session_id=session, mcp_servers=[])
        replayed = [update["sessionUpdate"] for update in client.updates[before:]]
    found = {
        "initialized": initialized.model_dump(mode="json", by_alias=True, exclude_none=True),
        "sessionId": session,
        "first": first.model_dump(mode="json", by_alias=True, exclude_none=True),
        "second": second.model_dump(mode="json", by_alias=True, exclude_none=True),
        "listed": listed.model_dump(mode="json", by_alias=True, exclude_none=True),
        "replayed": replayed,
        "updates": client.updates,
        "permissions": client.permissions,
    }
    print(json.dumps(found))


asyncio.run(main(*sys.argv[1:]))
