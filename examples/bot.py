"""A chat bot with one lasting session per room. It reads lines such as `kitchen: What is for dinner?` from its input."""

import asyncio
import sys

from fairlead import client, errors


async def serve(room: str, inbox: asyncio.Queue[str]) -> None:
    flags = ["--mode", "rpc", "--dialect", "pi", "--approval", "ask", "--session-id", room]
    async with client.Client.start(["fairlead", *flags], restart=True) as agent:
        agent.on_approval(lambda approval: approval.tool_name in ("write", "edit"))
        while text := await inbox.get():
            try:
                print(f"{room}: {(await agent.ask(text, timeout=300)).text}", flush=True)
            except (errors.ClientError, TimeoutError) as error:
                print(f"{room}: Sorry, that did not work: {error}", flush=True)


async def main() -> None:
    inboxes: dict[str, asyncio.Queue[str]] = {}
    async with asyncio.TaskGroup() as tasks:
        while ": " in (line := (await asyncio.to_thread(sys.stdin.readline)).strip()):
            room, text = line.split(": ", 1)
            if room not in inboxes:
                tasks.create_task(serve(room, inboxes.setdefault(room, asyncio.Queue())))
            inboxes[room].put_nowait(text)
        for inbox in inboxes.values():
            inbox.put_nowait("")  # ends the room


asyncio.run(main())
