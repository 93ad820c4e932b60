#!/usr/bin/env python3
"""A first host: a chat in the terminal.

    python examples/first_host.py [FLAG...]

It shows the answer as it arrives, asks before a tool changes anything, and survives failures. Ctrl-C aborts a run, and the end
of the input (Ctrl-D) ends the program. With the flag `--continue` it resumes the last session of this directory.
"""

from __future__ import annotations

import asyncio
import signal
import sys

from fairlead.client import Approval, Client, events
from fairlead.errors import ClientError

FLAGS = ["--mode", "rpc", "--dialect", "pi", "--approval", "ask", *sys.argv[1:]]


def decide(approval: Approval) -> bool:
    return input(f"{approval.title}\nAllow this? [y/N] ").strip().lower() == "y"


async def main() -> None:
    async with Client.start(["fairlead", *FLAGS], restart=True) as client:
        client.on_approval(decide)
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, lambda: asyncio.ensure_future(client.abort()))
        while prompt := (await asyncio.to_thread(sys.stdin.readline)).strip():
            try:
                async with client.run(prompt) as run:
                    async for event in run:
                        match event:
                            case events.MessageUpdate(assistant_message_event=events.TextDelta(delta=text)):
                                print(text, end="", flush=True)
                            case events.ToolExecutionStart(tool_name=name):
                                print(f"\n[{name}]", flush=True)
                            case _:
                                pass
                print("\n(aborted)" if (await run).aborted else "", flush=True)
            except ClientError as error:
                print(f"\nThat did not work: {error}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
