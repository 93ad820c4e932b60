"""A real `fairlead serve` process, which can be ended and started again, and a TCP proxy that cuts connections."""

from __future__ import annotations

import asyncio
import random
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import trustme

from fairlead.client import ServerClient
from fairlead.testing.agents import TEST_MODEL, AgentCommand

#: Seconds that a wait may take.
PATIENCE = 30
COMMAND = [sys.executable, "-P", "-m", "fairlead", "serve"]


class ServerProcess:
    """A server on a port that stays the same."""

    def __init__(self, command: AgentCommand, flags: tuple[str, ...]) -> None:
        self._command = command
        self._flags = flags
        self._process: asyncio.subprocess.Process | None = None
        self.port = 0
        self.url = ""

    @property
    def token(self) -> str:
        return (Path(self._command.env["FAIRLEAD_HOME"]) / "serve.token").read_text().strip()

    def client(self, port: int | None = None, *, tls: ssl.SSLContext | None = None, patience: float = 300.0) -> ServerClient:
        url = self.url.replace(str(self.port), str(port or self.port))
        return ServerClient(url, token=self.token, tls=tls, patience=patience)

    async def start(self) -> None:
        argv = [*COMMAND, "--port", str(self.port), "--model", TEST_MODEL, *self._flags]
        process = await asyncio.create_subprocess_exec(
            *argv, cwd=self._command.cwd, env=self._command.env, stdout=subprocess.PIPE
        )
        self._process = process
        assert process.stdout is not None
        text = ""
        async with asyncio.timeout(PATIENCE):
            while "Ctrl-C" not in text:
                line = (await process.stdout.readline()).decode()
                assert line, text
                text += line
        found = re.search(r"listens on (\S+:(\d+))", text)
        assert found is not None
        self.url, self.port = found[1], int(found[2])

    async def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            process.send_signal(number)
            async with asyncio.timeout(PATIENCE):
                await process.wait()


@asynccontextmanager
async def server_process(command: AgentCommand, *flags: str) -> AsyncGenerator[ServerProcess]:
    """Run a server until the block ends."""
    server = ServerProcess(command, flags)
    try:
        await server.start()
        yield server
    finally:
        await server.end(signal.SIGKILL)


class CuttingProxy:
    """Passes on bytes to a port, and cuts each connection after as many bytes as `budget` says. None means never."""

    def __init__(self, port: int, budget: Callable[[], int | None]) -> None:
        self._target = port
        self._budget = budget
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.cuts = 0
        self._chance = random.Random(1)

    async def __aenter__(self) -> CuttingProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut_all()
        await asyncio.sleep(0.05)

    def cut_all(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, upstream[1]}
        upward = asyncio.create_task(self._pass(reader, upstream[1], None))
        try:
            await self._pass(upstream[0], writer, self._budget())
        finally:
            upward.cancel()
            for each in (writer, upstream[1]):
                self._writers.discard(each)
                if self._chance.random() < 0.5:
                    each.transport.abort()
                else:
                    each.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: int | None) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 12):
                cut = budget is not None and len(data) >= budget
                if budget is not None:
                    data = data[:budget]
                    budget -= len(data)
                writer.write(data)
                await writer.drain()
                if cut:
                    self.cuts += 1
                    return


def certified(folder: Path) -> tuple[ssl.SSLContext, list[str]]:
    """Make a certificate of a new authority. Returns TLS settings that trust it, and the flags of a server that uses it."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    cert, key = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    trusting = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    return trusting, ["--tls-cert", str(cert), "--tls-key", str(key)]
