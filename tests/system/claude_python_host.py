"""A host that uses claude-agent-sdk for Python: `claude_python_host.py WHAT CLI CWD [SESSION]`. It prints what it saw as JSON."""

# The SDK is installed apart, for system tests only, so that its types are unknown here.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    StreamEvent,
    delete_session,
    fork_session,
    get_session_messages,
    list_sessions,
    query,
    rename_session,
)

WHAT, CLI, CWD, *MORE = sys.argv[1:]
MODEL = "claude-sonnet-4-5"


def options(**more: Any) -> Any:
    return ClaudeAgentOptions(cli_path=CLI, cwd=CWD, model=MODEL, **more)


async def ask(prompt: str, **more: Any) -> Any:
    result = None
    async for message in query(prompt=prompt, options=options(**more)):
        result = message if isinstance(message, ResultMessage) else result
    return result


async def one_shot() -> Any:
    result = await ask("go", allowed_tools=["Bash"], include_partial_messages=True)
    return {"result": result.result, "turns": result.num_turns, "error": result.is_error, "cost": result.total_cost_usd}


async def partial() -> Any:
    kinds: list[str] = []
    async for message in query(prompt="go", options=options(include_partial_messages=True)):
        if isinstance(message, StreamEvent):
            kinds.append(message.event["type"])
        elif isinstance(message, AssistantMessage):
            kinds.append("assistant")
    return list(dict.fromkeys(kinds))


async def streaming() -> Any:
    seen: list[Any] = []
    async with ClaudeSDKClient(options()) as client:
        info = await client.get_server_info()
        seen.append(bool(info and info["models"]))
        await client.query("one")
        seen += [message.result async for message in client.receive_response() if isinstance(message, ResultMessage)]
        await client.set_model("claude-haiku-4-5")
        await client.query("slow")
        async for message in client.receive_messages():
            if type(message).__name__ == "SystemMessage" and message.subtype == "init":
                break
        await client.interrupt()
        seen += [message.subtype async for message in client.receive_response() if isinstance(message, ResultMessage)]
        await client.query("three")
        seen += [message.result async for message in client.receive_response() if isinstance(message, ResultMessage)]
    return seen


async def consent() -> Any:
    asked: list[Any] = []

    async def decide(name: str, given: dict[str, Any], context: Any) -> Any:
        asked.append([name, given])
        if name == "Bash":
            return PermissionResultAllow(updated_input={"command": "echo changed"})
        return PermissionResultDeny(message="Not today")

    async with ClaudeSDKClient(options(can_use_tool=decide)) as client:
        await client.query("go")
        denied = [message.permission_denials async for message in client.receive_response() if isinstance(message, ResultMessage)]
    return {"asked": asked, "denied": denied}


async def structured() -> Any:
    schema = {"type": "object", "properties": {"answer": {"type": "number"}}, "required": ["answer"]}
    result = await ask("go", output_format={"type": "json_schema", "schema": schema})
    return result.structured_output


async def failing() -> Any:
    try:
        await ask("go")
    except Exception as error:
        return [type(error).__name__, str(error)[:200]]
    return None


async def sessions() -> Any:
    first = (await ask("first", allowed_tools=["Bash"])).session_id
    [listed] = list_sessions(CWD)
    said = [[message.type, message.message["content"]] for message in get_session_messages(first, CWD)]
    rename_session(first, "New title", CWD)
    second = await ask("second", resume=first)
    fork = fork_session(first, CWD).session_id
    third = await ask("third", resume=fork)
    forked = await ask("fourth", resume=first, fork_session=True)
    latest = await ask("fifth", continue_conversation=True)
    titles = [each.custom_title for each in list_sessions(CWD) if each.session_id == first]
    delete_session(fork, CWD)
    return {
        "listed": [listed.session_id == first, listed.first_prompt],
        "said": said,
        "ids": [second.session_id == first, third.session_id == fork, forked.session_id not in (first, fork)],
        "continued": latest.session_id == forked.session_id,
        "titles": titles,
        "left": len(list_sessions(CWD)),
    }


async def resume() -> Any:
    result = await ask("more", resume=MORE[0])
    return [result.session_id == MORE[0], result.result]


async def many() -> Any:
    count = 0
    async with ClaudeSDKClient(options()) as client:
        for number in range(1000):
            await client.query(f"prompt {number}")
            async for message in client.receive_response():
                count += isinstance(message, ResultMessage) and message.result == "ok"
    return count


if __name__ == "__main__":
    print(json.dumps(asyncio.run(globals()[WHAT]())))
