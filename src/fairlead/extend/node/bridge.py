"""The Node process that runs extensions, and the calls between it and the agent.

Messages are lines of JSON, in the form of JSON-RPC. Everything that the process says arrives on one socket (`outbox`), in order.
Requests with `sync` are answered at once, on the same socket, because the process blocks until then. Calls, and the answers to
other requests, go to it on another socket (`inbox`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json as standard_json
import logging
import os
import re
import signal
import subprocess
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from msgspec import DecodeError, json

from fairlead.core import lenient
from fairlead.core.runtime import CancelToken
from fairlead.errors import FairleadError
from fairlead.extend.node.program import launch
from fairlead.platform.process import child_guard, start_thread

_log = logging.getLogger("fairlead.extend")

#: The largest line that is accepted, in bytes.
_MAX_LINE_BYTES = 256 * 1024 * 1024
#: The most requests that may be worked on at the same time, and the most bytes that the process may leave unread.
_MOST_REQUESTS, _MOST_UNREAD = 10_000, 256 * 1024 * 1024
#: How a request or an answer begins: its number, and what kind it is.
_BEGINNING = re.compile(rb'\{"id":(\d+),"(sync|method|result)":')
#: Seconds in which the process has to start.
_START_SECONDS = 30.0
#: Seconds in which the process has to answer when it is asked whether it still works.
_PING_SECONDS = 2.0
#: Seconds that the process has to say that it ends by itself.
_END_SECONDS = 0.2

#: The numbers of the tasks that check whether the process works: after a cancelled call, and from time to time.
_CHECK, _WATCH = -1, -2

T = TypeVar("T")

#: Answers a request at once.
Answer = Callable[[Mapping[str, Any]], Any]
#: Answers a request that takes time. The last argument reports progress.
SlowAnswer = Callable[[Mapping[str, Any], Callable[[Any], None]], Coroutine[Any, Any, Any]]


class RemoteError(Exception):
    """The code of an extension raised an error. `stack` is its JavaScript stack trace, and `code` what it has as `code`."""

    def __init__(self, message: str, stack: str = "", code: str | int | None = None) -> None:
        super().__init__(message)
        self.stack = stack
        self.code = code

    @property
    def is_unreadable_answer(self) -> bool:
        """Whether the extension has answered, but its answer could not be read or sent."""
        return self.code == "UNREADABLE_ANSWER"


class BridgeLost(FairleadError):
    """The Node process has ended, so its extensions cannot run."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The Node process that runs extensions has ended: {reason}. Reload extensions to start it again.")


class NodeBridge:
    """A running Node process. `answers` and `slow_answers` have what it may ask, by name."""

    def __init__(self, answers: Mapping[str, Answer], slow_answers: Mapping[str, SlowAnswer], stuck_after: float = 120.0) -> None:
        """Make it. `stuck_after` is how many seconds extensions may block the process, even in calls without a time limit."""
        self._stuck_after = stuck_after
        self._watching: asyncio.TimerHandle | None = None
        self._answers = answers
        self._slow_answers = slow_answers
        self._loop = asyncio.get_running_loop()
        self._process: subprocess.Popen[bytes] | None = None
        self._inbox: asyncio.Transport | None = None
        self._outbox: asyncio.Transport | None = None
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._work: dict[int, asyncio.Task[None]] = {}
        self._next_id = 0
        #: Called when the process cannot be used any more.
        self.on_lost: Callable[[], object] = lambda: None
        #: Why the process cannot be used any more.
        self._lost: str | None = None
        #: Whether the agent ends the process.
        self.is_closing = False

    async def start(self, node: str, cwd: Path, env: Mapping[str, str], cache: Path | None) -> str:
        """Start the process, wait until it answers, and return its version. Raises OSError or BridgeLost if that fails.

        Args:
            node: the Node program.
            cwd: the working directory.
            env: the environment.
            cache: where compiled extensions are kept; None: nowhere.
        """
        self._process, inbox, outbox = launch(node, cwd, env, cache)
        child_guard.add(self._process.pid)
        self._inbox, _ = await self._loop.create_connection(asyncio.Protocol, sock=inbox)
        self._outbox, _ = await self._loop.create_connection(lambda: _Lines(self._on_line, self._on_end), sock=outbox)
        try:
            async with asyncio.timeout(_START_SECONDS):
                return str(await self.call("version", {}))
        except TimeoutError:
            self.kill(f"it did not start within {_START_SECONDS:g} seconds")
            raise BridgeLost(self._lost or "") from None

    # Calling

    async def call(self, method: str, params: Mapping[str, Any], on_start: Callable[[int], None] = lambda id: None) -> Any:
        """Call a method of the runtime and return its result. `on_start` gets the number of the call.

        A call that is cancelled makes sure that the process still works; if not, it is killed. Raises RemoteError if the
        extension fails, and BridgeLost if the process has ended.
        """
        if self._lost is not None:
            raise BridgeLost(self._lost)
        self._next_id += 1
        id = self._next_id
        done = self._calls[id] = self._loop.create_future()
        on_start(id)
        if self._watching is None:
            self._watching = self._loop.call_later(self._stuck_after / 4, self._watch)
        self._send({"id": id, "method": method, "params": params})
        try:
            return await done
        except asyncio.CancelledError:
            self._check()
            raise
        finally:
            self._calls.pop(id, None)

    def is_running(self, id: int) -> bool:
        """Whether the call with a number has no answer yet."""
        done = self._calls.get(id)
        return done is not None and not done.done()

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the process something that needs no answer."""
        if self._lost is None:
            self._send({"method": method, "params": params})

    def _send(self, message: Mapping[str, Any]) -> None:
        if self._inbox is not None and not self._inbox.is_closing():
            self._inbox.write(_encode(message))
            if self._inbox.get_write_buffer_size() > _MOST_UNREAD:
                self.kill(f"it left more than {_MOST_UNREAD >> 20} MiB unread")

    # Ending

    async def close(self) -> None:
        """End the process. It may work a little longer by itself, for example to clean up."""
        self.is_closing = True
        if await self._is_working():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await self.idle()
            self._close("it was closed")
        self.kill("it was closed")
        await asyncio.sleep(0)  # the sockets close in the next step of the event loop

    async def idle(self) -> None:
        """Wait until no call is running."""
        while self._calls:
            await asyncio.wait(self._calls.values())

    async def _is_working(self) -> bool:
        """Whether the process answers, which it does unless it has ended or an extension blocks it."""
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self.call("ping", {})
        except (TimeoutError, BridgeLost):
            return False
        return True

    def kill(self, reason: str) -> None:
        """Kill the process, with the programs that it has started, unless it ends by itself."""
        process = self._process
        if process is not None and self._lost is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        self._close(reason)

    def _close(self, reason: str) -> None:
        if self._lost is not None:
            return
        self._lost = reason
        self.on_lost()
        if self._watching is not None:
            self._watching.cancel()
        for transport in (self._inbox, self._outbox):
            if transport is not None:
                transport.abort()
        for done in self._calls.values():
            if not done.done():
                done.set_exception(BridgeLost(reason))
        for task in self._work.values():
            task.cancel()
        process = self._process
        if process is not None:
            start_thread(lambda: (process.wait(), child_guard.remove(process.pid)), "fairlead-node-exit")

    def _on_end(self) -> None:
        """The process has closed its socket, usually because it ended."""
        if self._lost is None:
            code = None if self._process is None else _exit_code(self._process)
            self.kill("it closed its connection" if code is None else _explain_end(code))

    def _watch(self) -> None:
        """Check from time to time whether the process still works, while calls run in it."""
        self._watching = None
        if self._calls:
            self._watching = self._loop.call_later(self._stuck_after / 4, self._watch)
            self._check(self._stuck_after)

    def _check(self, seconds: float = _PING_SECONDS) -> None:
        """Kill the process if it does not answer within some seconds, because an extension blocks it."""
        kind = _WATCH if seconds > _PING_SECONDS else _CHECK
        if kind not in self._work and self._lost is None:
            self._work[kind] = self._loop.create_task(self._ping(kind, seconds))

    async def _ping(self, kind: int, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.call("ping", {})
        except TimeoutError:
            self.kill("an extension blocked it")
        except BridgeLost:
            pass
        finally:
            self._work.pop(kind, None)

    # Answering

    def _on_line(self, line: bytes) -> None:
        try:
            self._handle(_decode(line))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            # An extension wrote to the socket, or sent data that cannot be read.
            _log.error("The Node process sent something that is not a message: %s", error)
            self._refuse(line, f"What was sent cannot be read: {error}")

    def _refuse(self, line: bytes, reason: str) -> None:
        """Answer for a message that cannot be read, as far as its beginning says who waits for it."""
        found = _BEGINNING.match(line)
        if found is None or self._lost is not None:
            return
        id, kind = int(found[1]), found[2]
        done = self._calls.get(id)
        if kind == b"sync" and self._outbox is not None:
            self._outbox.write(_encode({"error": {"message": reason}}))
        elif kind == b"method":
            self._send({"id": id, "error": {"message": reason}})
        elif kind == b"result" and done is not None and not done.done():
            done.set_exception(RemoteError(reason))

    def _handle(self, message: Mapping[str, Any]) -> None:
        method, id = message.get("method"), message.get("id")
        if method is None:
            done = self._calls.get(cast("int", id))
            if done is not None and not done.done():
                _settle(done, message)
        elif method == "cancel":
            task = self._work.get(message["params"]["request"])
            if task is not None:
                self._loop.call_soon(task.cancel)  # not before it has begun, or it would never answer
        elif message.get("sync"):
            if self._outbox is not None:
                self._outbox.write(_encode(self._answer(method, message.get("params") or {})))
        elif id is None:
            answered = self._answer(method, message.get("params") or {})
            if "error" in answered:
                _log.error("%s: %s", method, answered["error"]["message"])
        elif len(self._work) >= _MOST_REQUESTS:
            self.kill(f"an extension made more than {_MOST_REQUESTS:,} requests at once")
        else:
            self._work[id] = self._loop.create_task(self._work_on(id, method, message.get("params") or {}))

    def _answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return {"result": self._answers[method](params)}
        except Exception as error:
            return {"error": {"message": str(error) or type(error).__name__}}

    async def _work_on(self, id: int, method: str, params: Mapping[str, Any]) -> None:
        def report(value: Any) -> None:
            self.notify("progress", {"request": id, "value": value})

        answer: dict[str, Any]
        try:
            answer = {"result": await self._slow_answers[method](params, report)}
        except asyncio.CancelledError:
            answer = {"error": {"message": "Cancelled."}}
        except Exception as error:
            answer = {"error": {"message": str(error) or type(error).__name__}}
        self._work.pop(id, None)
        if self._lost is None:
            self._send({"id": id, **answer})


async def abortable(work: Awaitable[T], cancel: CancelToken, patience: float | None = None) -> T:
    """Do the work of a slow answer, and fire `cancel` if the extension aborts its request or the process ends.

    The work still has its result then, which is returned. Raises TimeoutError if that takes more than `patience` seconds.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        cancel.fire()
        async with asyncio.timeout(patience):
            return await task


class _Lines(asyncio.Protocol):
    """Splits what arrives into lines."""

    def __init__(self, on_line: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_line = on_line
        self._on_end = on_end
        self._parts: list[bytes] = []
        self._size = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if b"\n" not in data:
            if self._size > _MAX_LINE_BYTES and self._transport is not None:
                _log.error("An extension sent more than %d MiB at once, so the Node process is closed.", _MAX_LINE_BYTES >> 20)
                self._parts.clear()
                self._transport.abort()
            return
        *lines, rest = b"".join(self._parts).split(b"\n")
        self._parts, self._size = [rest], len(rest)
        for line in lines:
            self._on_line(line)

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_end()


def _encode(message: Mapping[str, Any]) -> bytes:
    try:
        return json.encode(message) + b"\n"
    except (TypeError, ValueError, UnicodeError, RecursionError) as error:
        if "method" in message:
            raise
        kept = {"id": message["id"]} if "id" in message else {}
        return json.encode({**kept, "error": {"message": f"The answer is not JSON: {error}"}}) + b"\n"


def _decode(line: bytes) -> dict[str, Any]:
    try:
        return json.decode(line)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        # JavaScript writes halves of characters, which msgspec refuses, and data of thousands of levels.
        text = lenient.cut_deep_json(line).decode("utf-8", "replace")
        return cast("dict[str, Any]", lenient.scrub(standard_json.loads(text)))


def _settle(done: asyncio.Future[Any], message: Mapping[str, Any]) -> None:
    error = message.get("error")
    if error is None:
        done.set_result(message.get("result"))
    else:
        done.set_exception(RemoteError(str(error.get("message")), str(error.get("stack") or ""), error.get("code")))


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(0.05)
    return None


def _explain_end(code: int) -> str:
    return f"it exited with code {code}" if code >= 0 else f"it was ended by {signal.Signals(-code).name}"
