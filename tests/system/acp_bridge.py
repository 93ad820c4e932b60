"""Connects the standard streams to a WebSocket, one line for each message, for ACP clients that only start commands.

Arguments: the address. The variable TOKEN has the token.
"""

from __future__ import annotations

import asyncio
import os
import sys

from websockets.asyncio.client import connect


async def main(url: str) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with connect(url, additional_headers={"Authorization": f"Bearer {os.environ['TOKEN']}"}, max_size=None) as socket:

        async def receive() -> None:
            async for message in socket:
                assert isinstance(message, str)
                sys.stdout.write(f"{message}\n")
                sys.stdout.flush()

        receiving = asyncio.create_task(receive())
        while line := await reader.readline():
            await socket.send(line.decode().rstrip("\n"))
        await socket.close()
        await receiving


asyncio.run(main(sys.argv[1]))
