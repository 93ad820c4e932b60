"""The client for servers of Opal, for programs that block."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from fairlead.client.opal.client import (
    TIMEOUT,
    AskUserHandler,
    ConfirmHandler,
    InputHandler,
    OpalClient,
    OpalResult,
    OpalRun,
)
from fairlead.client.opal.methods import SyncOpalMethods
from fairlead.client.process import StopTimes
from fairlead.client.sync import SyncConnection


class SyncOpalRun:
    """A prompt that the server has accepted."""

    def __init__(self, client: SyncOpalClient, run: OpalRun) -> None:
        self._client = client
        self._run = run
        self.session_id = run.session_id

    @property
    def done(self) -> bool:
        """Whether the run is over."""
        return self._run.done

    def wait(self, timeout: float | None = None) -> OpalResult:
        """Wait until the run is over, at most `timeout` seconds. Returns and raises what `OpalRun.wait` does."""
        return self._client.do(self._run.wait(timeout))


class SyncOpalClient(SyncConnection[OpalClient], SyncOpalMethods):
    """A server of Opal in another process, for programs without an event loop.

        with SyncOpalClient.start(["fairlead", "--mode", "opal"]) as client:
            session = client.session_start()
            print(client.ask(session.session_id, "What is in this folder?").text)

    It has the methods of `OpalClient`, which block until they are done. Several threads may use it. Do not call it from a handler
    that is a coroutine function: these run on the thread of the client.
    """

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = TIMEOUT,
        stop_times: StopTimes | None = None,
    ) -> SyncOpalClient:
        """Return a client that starts a server on entry to `with`, and ends it on exit, like `OpalClient.start`."""
        return cls(lambda: OpalClient.start(argv, cwd=cwd, env=env, timeout=timeout, stop_times=stop_times))

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        token: str,
        cwd: str | None = None,
        tls: ssl.SSLContext | None = None,
        insecure: bool = False,
        timeout: float | None = TIMEOUT,
    ) -> SyncOpalClient:
        """Return a client that connects to `fairlead serve` on entry to `with`. It takes what `OpalClient.connect` takes."""
        return cls(lambda: OpalClient.connect(url, token=token, cwd=cwd, tls=tls, insecure=insecure, timeout=timeout))

    def prompt(self, session_id: str, text: str, *, timeout: float | UnsetType | None = UNSET) -> SyncOpalRun:
        """Send a prompt. Returns its run when the server has accepted it. Raises what `OpalClient.prompt` does."""
        return SyncOpalRun(self, self.do(self._agent.prompt(session_id, text, timeout=timeout)))

    def ask(self, session_id: str, text: str, *, timeout: float | None = None) -> OpalResult:
        """Send a prompt and wait until its run is over. Returns and raises what `OpalClient.ask` does."""
        return self.do(self._agent.ask(session_id, text, timeout=timeout))

    def on_confirm(self, handler: ConfirmHandler) -> ConfirmHandler:
        """Decide about tool calls with a function, as `OpalClient.on_confirm` does."""
        return self._agent.on_confirm(handler)

    def on_input(self, handler: InputHandler) -> InputHandler:
        """Let a function get a text from the user, as `OpalClient.on_input` does."""
        return self._agent.on_input(handler)

    def on_ask_user(self, handler: AskUserHandler) -> AskUserHandler:
        """Let a function answer questions of the model, as `OpalClient.on_ask_user` does."""
        return self._agent.on_ask_user(handler)

    def request(self, method: str, /, *, timeout: float | UnsetType | None = UNSET, **params: Any) -> Any:
        """Send any request, as `OpalClient.request` does."""
        return self.do(self._agent.request(method, timeout=timeout, **params))

    def _call(self, name: str, timeout: float | UnsetType | None, /, **fields: Any) -> Any:
        return self.do(getattr(self._agent, name.replace("/", "_"))(timeout=timeout, **fields))
