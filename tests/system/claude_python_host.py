"""A host that uses claude-agent-sdk for Python: `claude_python_host.py WHAT CLI CWD [SESSION]`. It prints what it saw as JSON."""

# The SDK is installed apart, for system tests only, so that its types are unknown here.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    InMemorySessionStore,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    StreamEvent,
    create_sdk_mcp_server,
    delete_session,
    fork_session,
    get_session_info,
    get_session_messages,
    get_subagent_messages,
    list_sessions,
    list_subagents,
    query,
    rename_session,
    tag_session,
    tool,
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


HOOKS = (
    *("PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact"),
    *("Notification", "SubagentStart", "PermissionRequest"),
)


async def hooks() -> Any:
    """Every hook that the SDK has. The host answers the question about Write only after a notification."""
    seen: list[str] = []
    noticed = asyncio.Event()

    async def listen(given: Any, call_id: str | None, context: Any) -> Any:
        event = given["hook_event_name"]
        seen.append(event)
        if event == "Notification":
            noticed.set()
        command = given.get("tool_input", {}).get("command")
        if event == "PreToolUse" and command == "rm x":
            decision = {"permissionDecision": "deny", "permissionDecisionReason": "keep x"}
            return {"hookSpecificOutput": {"hookEventName": event, **decision}}
        if event == "PostToolUse" and command == "echo hi":
            return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": "SEEN"}}
        return {}

    async def decide(name: str, given: dict[str, Any], context: Any) -> Any:
        await noticed.wait()
        return PermissionResultAllow(updated_permissions=context.suggestions)

    matchers = {event: [HookMatcher(hooks=[listen])] for event in HOOKS}
    kinds = {"helper": AgentDefinition(description="Helps", prompt="You help.", tools=["Bash"])}
    results: list[Any] = []
    chosen = options(hooks=matchers, can_use_tool=decide, agents=kinds, allowed_tools=["Bash"])
    async with ClaudeSDKClient(chosen) as client:
        for prompt in ("PARENT go", "/compact"):
            await client.query(prompt)
            results += [message.result async for message in client.receive_response() if isinstance(message, ResultMessage)]
    return {"seen": seen, "results": results}


async def structured() -> Any:
    schema = {"type": "object", "properties": {"answer": {"type": "number"}}, "required": ["answer"]}
    result = await ask("go", output_format={"type": "json_schema", "schema": schema})
    return result.structured_output


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def servers() -> Any:
    ended: list[str] = []
    waiting = asyncio.Event()

    @tool("add", "Adds two numbers", {"a": float, "b": float})
    async def add(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}

    @tool("draw", "Draws", {})
    async def draw(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]}

    @tool("fail", "Fails", {})
    async def fail(given: dict[str, Any]) -> dict[str, Any]:
        raise RuntimeError("it broke")

    @tool("wait", "Waits", {})
    async def wait(given: dict[str, Any]) -> dict[str, Any]:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("wait")
        return {}

    server = create_sdk_mcp_server("calc", tools=[add, draw, fail, wait])
    chosen = options(mcp_servers={"calc": server}, allowed_tools=["mcp__calc"])
    async with ClaudeSDKClient(chosen) as client:
        results: list[Any] = []
        await client.query("go")
        async for message in client.receive_response():
            if type(message).__name__ == "UserMessage":
                results += [block.content for block in message.content if type(block).__name__ == "ToolResultBlock"]
        [status] = (await client.get_mcp_status())["mcpServers"]
        await client.query("wait")
        stopping = asyncio.create_task(waiting.wait())
        await stopping
        await client.interrupt()
        last = [message.subtype async for message in client.receive_response() if isinstance(message, ResultMessage)]
        await client.reconnect_mcp_server("calc")
        await client.toggle_mcp_server("calc", enabled=False)
        off = (await client.get_mcp_status())["mcpServers"][0]["status"]
    return {
        "results": results,
        "status": [status["name"], status["status"], sorted(each["name"] for each in status["tools"])],
        "interrupted": last,
        "ended": ended,
        "off": off,
    }


async def agents() -> Any:
    kinds = {"reviewer": AgentDefinition(description="Reviews", prompt="You review.", tools=["Bash"], model="haiku")}
    seen: list[str] = []
    session = ""
    async for message in query(prompt="PARENT go", options=options(agents=kinds, allowed_tools=["Bash", "Agent"])):
        if getattr(message, "parent_tool_use_id", None) or type(message).__name__.startswith("Task"):
            seen.append(type(message).__name__)
        session = getattr(message, "session_id", None) or session
    [agent] = list_subagents(session, CWD)
    said = [[each.type, bool(each.parent_tool_use_id)] for each in get_subagent_messages(session, agent, CWD)]
    return {"seen": seen, "said": said, "main": [each.type for each in get_session_messages(session, CWD)]}


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


def weigh(client: Any) -> dict[str, int]:
    """What the process of the agent has: memory in KiB, threads, open files."""
    folder = Path(f"/proc/{client._transport._process.pid}")
    status = dict(line.split(":\t", 1) for line in (folder / "status").read_text().splitlines() if ":\t" in line)
    files = len(list((folder / "fd").iterdir()))
    return {"memory": int(status["VmRSS"].split()[0]), "threads": int(status["Threads"]), "files": files}


async def many() -> Any:
    count, weights = 0, []
    async with ClaudeSDKClient(options()) as client:
        for number in range(1000):
            await client.query(f"prompt {number}")
            async for message in client.receive_response():
                count += isinstance(message, ResultMessage) and message.result == "ok"
            if number in (99, 999):
                weights.append(weigh(client))
    return {"count": count, "weights": weights}


async def limits() -> Any:
    seen: list[Any] = []
    for more in ({"max_turns": 1}, {"max_budget_usd": 0.001}):
        result = None
        try:
            async for message in query(prompt="go", options=options(allowed_tools=["Bash"], **more)):
                result = message if isinstance(message, ResultMessage) else result
        except Exception as error:
            seen.append(type(error).__name__)
        seen.append(None if result is None else [result.subtype, result.is_error, result.total_cost_usd > 0])
    return seen


async def interrupt_tool() -> Any:
    """Interrupt a command that runs, then work on."""
    async with ClaudeSDKClient(options(allowed_tools=["Bash"])) as client:
        await client.query("sleep")
        async for message in client.receive_messages():
            if isinstance(message, AssistantMessage):
                break
        await client.interrupt()
        first = [message async for message in client.receive_response() if isinstance(message, ResultMessage)]
        await client.query("next")
        second = [message async for message in client.receive_response() if isinstance(message, ResultMessage)]
    return [first[0].subtype, second[0].result]


async def store() -> Any:
    """Keep the session in a store of the host, and resume it there after its file is gone."""
    kept = InMemorySessionStore()
    first = await ask("first", session_store=kept)
    delete_session(first.session_id, CWD)
    second = await ask("second", session_store=kept, resume=first.session_id)
    return {
        "same": second.session_id == first.session_id,
        "result": second.result,
        "sizes": len(next(iter(kept._store.values()))),
    }


async def files() -> Any:
    """Commands, skills and agents of the project, as the SDK lists them."""
    async with ClaudeSDKClient(options(setting_sources=["project"])) as client:
        info = await client.get_server_info() or {}
        await client.query("/greet Bob")
        results = [message.result async for message in client.receive_response() if isinstance(message, ResultMessage)]
    names = [command["name"] for command in info["commands"]]
    return {"greet": "greet" in names, "agents": [agent["name"] for agent in info["agents"]], "results": results}


async def while_it_runs() -> Any:
    """Change the file of a session while the agent has it open, and after a crash has torn its last line."""
    async with ClaudeSDKClient(options()) as client:
        await client.query("first")
        [result] = [message async for message in client.receive_response() if isinstance(message, ResultMessage)]
        session = result.session_id
        rename_session(session, "While it runs", CWD)
        tag_session(session, "mine", CWD)
        listed = get_session_info(session, CWD)
        fork = fork_session(session, CWD).session_id
        await client.query("second")
        [result] = [message async for message in client.receive_response() if isinstance(message, ResultMessage)]
    said = [message.message["content"] for message in get_session_messages(session, CWD)]
    path = next(Path(MORE[0]).glob(f"projects/*/{session}.jsonl"))
    with path.open("ab") as file:
        file.write(b'{"type":"user","uuid":"11111111-')
    torn = len(get_session_messages(session, CWD))
    third = await ask("third", resume=session)
    forked = await ask("fourth", resume=fork)
    return {
        "listed": [listed.custom_title, listed.tag],
        "said": len(said),
        "torn": torn,
        "resumed": [third.session_id == session, len(get_session_messages(session, CWD))],
        "forked": [forked.session_id == fork, len(get_session_messages(fork, CWD))],
        "title": get_session_info(session, CWD).custom_title,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(globals()[WHAT]())))
