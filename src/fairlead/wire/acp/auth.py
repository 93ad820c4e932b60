"""Logs the user in and out, for clients that offer it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import count

from fairlead.agent import Shared
from fairlead.core.runtime import CancelToken
from fairlead.errors import LoginFailed
from fairlead.models.credentials import forget_stored
from fairlead.models.logins import DeviceCode, Logins
from fairlead.protocol.acp import elicitation as acp
from fairlead.protocol.acp.base import AUTH_REQUIRED
from fairlead.protocol.acp.initialization import AuthenticateResponse
from fairlead.wire.acp.acp_session import LOG_IN
from fairlead.wire.acp.client import Client
from fairlead.wire.acp.initialize import LOGIN
from fairlead.wire.jsonrpc import BadParams, OutboundRequests, RpcError, notification_line
from fairlead.wire.questions import Unanswered


class Authentication:
    """Logs in at the providers of one process.

    `preferred` is the provider that the command line names, and `in_use` returns those whose models the open sessions use.
    """

    def __init__(
        self,
        shared: Shared,
        requests: OutboundRequests,
        tell: Callable[[bytes], None],
        client: Client,
        preferred: str | None,
        in_use: Callable[[], Iterable[str]],
    ) -> None:
        self._registry = shared.registry
        self._logins = Logins(shared.registry, shared.http)
        self._requests = requests
        self._tell = tell
        self._client = client
        self._preferred = preferred
        self._in_use = in_use
        self._left = asyncio.Event()
        self._numbers = count(1)
        #: A login that waits for the user.
        self._open: asyncio.Task[None] | None = None

    async def log_in(self, method: str, request_id: int | str | None) -> AuthenticateResponse:
        """Log in, unless there is a key already. Raises RpcError if that needs something from the user."""
        if method != LOGIN:
            raise BadParams(f"Unknown authentication method {method!r}. Use {LOGIN!r}.")
        self._registry.keys_changed()
        usable = {model.provider for model in self._registry.available()}
        # A key for another provider does not help a session whose model has none: its next prompt would ask for a login again.
        missing = next((provider for provider in self._in_use() if provider not in usable), None)
        if usable and missing is None:
            return AuthenticateResponse()
        possible = self._logins.possible()
        if not possible or (missing is not None and missing not in possible):
            lacking = "No provider has a key." if missing is None else f"The provider {missing} has no key."
            raise RpcError(AUTH_REQUIRED, f"{lacking} {LOG_IN}", {"message": LOG_IN})
        try:
            code = await self._logins.begin(missing or self._logins.provider(self._preferred))
        except LoginFailed as error:
            raise RpcError(AUTH_REQUIRED, str(error)) from None
        if not self._client.pages:
            self._open = asyncio.create_task(self._finish_later(code))
            raise RpcError(AUTH_REQUIRED, f"{_instructions(code)} Then authenticate again.")
        await self._on_page(code, request_id)
        return AuthenticateResponse()

    async def _on_page(self, code: DeviceCode, request_id: int | str | None) -> None:
        """Let the client open the page, and wait until the user has entered the code there."""
        ident = f"login-{next(self._numbers)}"
        page = acp.ElicitationUrl(_instructions(code), ident, code.verification_uri, request_id=request_id)
        cancel = CancelToken()
        showing = asyncio.create_task(self._requests.request(page.method, page, acp.CreateElicitationResponse, cancel=cancel))
        finishing = asyncio.create_task(self._logins.finish(code.device_code, code.interval, sleep=self._pause))
        try:
            await asyncio.wait([showing, finishing], return_when=asyncio.FIRST_COMPLETED)
            if showing.done() and not finishing.done() and _was_declined(showing):
                finishing.cancel()
                raise RpcError(AUTH_REQUIRED, "The login was declined.")
            await finishing
        except LoginFailed as error:
            raise RpcError(AUTH_REQUIRED, str(error)) from None
        finally:
            finishing.cancel()
            cancel.fire()
            self._tell(
                notification_line(
                    acp.CompleteElicitationNotification.method, acp.CompleteElicitationNotification(elicitation_id=ident)
                )
            )
            await asyncio.gather(showing, finishing, return_exceptions=True)

    async def _finish_later(self, code: DeviceCode) -> None:
        try:
            await self._logins.finish(code.device_code, code.interval, sleep=self._pause)
        except LoginFailed:
            return

    def log_out(self) -> None:
        """Forget all stored keys and logins. Raises ConfigError if they cannot be removed."""
        forget_stored(self._registry.home, None)
        self._registry.keys_changed()

    def client_left(self) -> None:
        """Stop waiting for the user."""
        self._left.set()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._left.wait()
        except TimeoutError:
            return
        raise LoginFailed("The client has left.")


def _instructions(code: DeviceCode) -> str:
    return f"Open {code.verification_uri} and enter the code {code.user_code}."


def _was_declined(showing: asyncio.Task[acp.CreateElicitationResponse]) -> bool:
    if isinstance(showing.exception(), Unanswered):
        return True
    return showing.result().action in ("decline", "cancel")
