"""A first host: a chat in the terminal, with approvals, abort, resume and failures. docs/first-host.md explains it."""

import asyncio
import signal
import sys

from fairlead.client import Approval, Client
from fairlead.errors import ClientError

AGENT = ["fairlead", "--mode", "rpc", "--dialect", "pi", "--approval", "ask", *sys.argv[1:]]


def decide(approval: Approval) -> bool:
    return input(f"{approval.title}\nAllow this? [y/N] ").strip().lower() == "y"


async def main() -> None:
    async with Client.start(AGENT, restart=True) as client:
        client.on_approval(decide)
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, lambda: asyncio.ensure_future(client.abort()))
        while prompt := (await asyncio.to_thread(sys.stdin.readline)).strip():
            try:
                async with client.run(prompt) as run:
                    async for text in run.text():
                        print(text, end="", flush=True)
                print("\n(aborted)" if (await run).aborted else "", flush=True)
            except ClientError as error:
                print(f"\nThat did not work: {error}", flush=True)


asyncio.run(main())
