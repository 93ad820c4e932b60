"""Logs in at providers with a code that the user enters on a web page (OAuth 2.0 device authorization, RFC 8628).

`begin` asks for the code, `wait_for_token` waits until the user has entered it, and `renew` exchanges an old token for a new
one. `Logins` does this for the providers of a registry and stores the tokens in auth.json. `renew_if_due` renews them there.

`receive_key` lets the user grant a key on a page of the provider instead (OAuth 2.0 with PKCE, RFC 7636), as OpenRouter has it.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
from msgspec import Meta, Struct

from fairlead.config import json_files
from fairlead.core import lenient
from fairlead.core.runtime import CancelToken
from fairlead.core.secrets import learn, redacted
from fairlead.errors import ConfigError, LoginFailed, NoCredentials, ProviderError
from fairlead.models.added_logins import log_in
from fairlead.models.catalog import PROVIDERS
from fairlead.models.credentials import EARLY_MS, LoginToken, store_key, store_login
from fairlead.models.http.http_client import Http, HttpRequest
from fairlead.models.models_json import OAuthEntry
from fairlead.models.registry import Registry
from fairlead.platform.process import run_in_thread

if TYPE_CHECKING:
    from fairlead.models.added_logins import LoginUi

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
#: Seconds between two polls, and how long a code is valid, if the provider does not say.
DEFAULT_INTERVAL, DEFAULT_LIFETIME = 5, 900
#: The fewest and the most seconds between two polls.
SHORTEST_INTERVAL, LONGEST_INTERVAL = 0.1, 3600
#: Seconds to add between polls when the provider says that it is polled too often.
SLOW_DOWN = 5
#: Seconds that the provider has to answer a request.
PATIENCE = 30.0
#: Seconds that the user has to grant a key on the page of the provider.
GRANT_SECONDS = 600.0
#: A token that is valid for more seconds than this never expires.
LONGEST_LIFETIME = 1e10

Sleep = Callable[[float], Awaitable[object]]


class DeviceCode(Struct, frozen=True):
    """The code to enter, and the page to enter it on."""

    user_code: str
    verification_uri: str
    #: The provider's secret id for this login.
    device_code: str
    interval: Annotated[int, Meta(ge=0, le=LONGEST_INTERVAL)] = DEFAULT_INTERVAL
    #: Seconds until the code expires.
    expires_in: Annotated[float, Meta(gt=0)] = DEFAULT_LIFETIME


async def begin(http: Http, oauth: OAuthEntry) -> DeviceCode:
    """Ask a provider for a code. Raises LoginFailed if it refuses, and ProviderError if it cannot be reached."""
    form = {"client_id": oauth.client_id}
    if oauth.scope:
        form["scope"] = oauth.scope
    answer = await _ask(http, oauth.device_url, form)
    if "error" in answer:
        raise LoginFailed(_refusal(answer))
    # Some providers use an older name for the address.
    answer.setdefault("verification_uri", answer.get("verification_url"))
    said = {name: value for name, value in answer.items() if value is not None}
    try:
        # Some write numbers as strings, or 5.0 for 5.
        return msgspec.convert(said, DeviceCode, strict=False)
    except msgspec.ValidationError as error:
        raise LoginFailed(f"{oauth.device_url} gave no usable code: {error}.") from None


async def wait_for_token(
    http: Http,
    oauth: OAuthEntry,
    device_code: str,
    interval: float,
    expires_in: float = DEFAULT_LIFETIME,
    *,
    sleep: Sleep = asyncio.sleep,
) -> LoginToken:
    """Wait until the user has entered the code.

    Args:
        http: the connections to use.
        oauth: the provider's login settings.
        device_code: the provider's id for this login.
        interval: seconds between two polls.
        expires_in: seconds until the code expires.
        sleep: waits for a number of seconds.

    Raises:
        LoginFailed: the user declined, the code expired, or the provider refused.
    """
    learn(device_code)
    form = {"grant_type": DEVICE_GRANT, "device_code": device_code, "client_id": oauth.client_id}
    waited, interval = 0.0, max(interval, SHORTEST_INTERVAL)
    while waited <= expires_in:
        interval = min(interval, LONGEST_INTERVAL)
        await sleep(interval)
        waited += interval
        asked_at = time.monotonic()
        try:
            answer = await _ask(http, oauth.token_url, form)
        except ProviderError as error:
            waited += time.monotonic() - asked_at
            if not error.transient:
                raise LoginFailed(str(error)) from None
            interval += SLOW_DOWN
            continue
        match answer.get("error"):
            case None:
                return _token(answer, oauth.token_url)
            case "authorization_pending":
                continue
            case "slow_down":
                interval += SLOW_DOWN
            case _:
                raise LoginFailed(_refusal(answer))
    raise LoginFailed("The code was not entered in time. Begin the login again.")


async def renew(http: Http, oauth: OAuthEntry, token: LoginToken) -> LoginToken:
    """Exchange an old token for a new one. Raises LoginFailed if refused, ProviderError if the provider cannot be reached."""
    assert token.refresh is not None
    learn(token.refresh, token.access)
    form = {"grant_type": "refresh_token", "refresh_token": token.refresh, "client_id": oauth.client_id}
    answer = await _ask(http, oauth.token_url, form)
    if "error" in answer:
        raise LoginFailed(_refusal(answer))
    renewed = _token(answer, oauth.token_url)
    return renewed if renewed.refresh else msgspec.structs.replace(renewed, refresh=token.refresh)


async def receive_key(http: Http, base_url: str, show: Callable[[str], object]) -> str:
    """Let the user grant a key on the page of a provider, and wait for it.

    The page sends the browser back to a server on loopback, under a secret path.

    Args:
        http: the client for the request that exchanges the code for the key.
        base_url: the address of the provider's API.
        show: called with the address of the page.

    Raises:
        LoginFailed: the user declined, or did not answer in time, or the provider gave no key.
        ProviderError: the provider cannot be reached.
    """
    verifier, path = secrets.token_urlsafe(32), f"/{secrets.token_urlsafe(16)}"
    challenge = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    answered: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    async def on_browser(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            async with asyncio.timeout(PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
                url = urlsplit(target)
                is_known = method == "GET" and url.path == path
                if is_known and not answered.done():
                    answered.set_result(next(iter(parse_qs(url.query).get("code", [])), None))
                text = "You can close this page and go back to fairlead." if is_known else "There is nothing here."
                status = "200 OK" if is_known else "404 Not Found"
                kind = "Content-Type: text/plain; charset=utf-8"
                writer.write(f"HTTP/1.1 {status}\r\n{kind}\r\nConnection: close\r\n\r\n{text}\n".encode())
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(on_browser, "127.0.0.1", 0, limit=16384)
    async with server:
        callback = f"http://localhost:{server.sockets[0].getsockname()[1]}{path}"
        place = urlsplit(base_url)
        asked = {"callback_url": callback, "code_challenge": challenge, "code_challenge_method": "S256"}
        show(f"{place.scheme}://{place.netloc}/auth?{urlencode(asked)}")
        try:
            async with asyncio.timeout(GRANT_SECONDS):
                code = await answered
        except TimeoutError:
            raise LoginFailed("The login was not completed in time.") from None
    if code is None:
        raise LoginFailed("The login was declined.")
    body = {"code": code, "code_verifier": verifier, "code_challenge_method": "S256"}
    answer = await _send(http, f"{base_url}/auth/keys", "application/json", msgspec.json.encode(body))
    key = answer.get("key")
    if not isinstance(key, str) or not key:
        raise LoginFailed(_refusal(answer) if "error" in answer else f"{base_url}/auth/keys gave no key.")
    learn(key)
    return key


async def _ask(http: Http, url: str, form: dict[str, str]) -> dict[str, Any]:
    """Send a form to the provider. Returns its answer, which may be a refusal; see `_send`."""
    return await _send(http, url, "application/x-www-form-urlencoded", urlencode(form).encode())


async def _send(http: Http, url: str, content_type: str, body: bytes) -> dict[str, Any]:
    """Send a request of a login to the provider. Returns its answer, which may be a refusal.

    Raises ProviderError if there is no answer, and LoginFailed if the answer is not one to a login.
    """
    headers = [("content-type", content_type), ("accept", "application/json")]
    request = HttpRequest("POST", url, headers, body, is_private=True)
    try:
        async with asyncio.timeout(PATIENCE), http.stream(request, CancelToken()) as response:
            said = await response.read()
            status = response.status
    except TimeoutError:
        raise ProviderError(f"{url} did not answer within {PATIENCE:g} seconds.", transient=True) from None
    try:
        answer: Any = lenient.decode(said)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and (status < 400 or isinstance(cast("dict[str, Any]", answer).get("error"), str)):
        return cast("dict[str, Any]", answer)
    if status == 429 or status >= 500:
        raise ProviderError(f"{url} answered {status}.", status=status, transient=True)
    raise LoginFailed(
        f"{url} answered {status} with something that is not an answer to a login. Check the `oauth` block in models.json."
    )


def _token(answer: dict[str, Any], url: str) -> LoginToken:
    access, refresh, lifetime = answer.get("access_token"), answer.get("refresh_token"), answer.get("expires_in")
    if not isinstance(access, str) or not access:
        raise LoginFailed(f"{url} gave no token.")
    expires = None
    try:
        seconds = msgspec.convert(lifetime, float, strict=False)  # some write it as a string
    except msgspec.ValidationError:
        seconds = 0.0
    if 0 < seconds < LONGEST_LIFETIME:
        expires = int((time.time() + seconds) * 1000)
    token = LoginToken(access, refresh if isinstance(refresh, str) and refresh else None, expires)
    learn(token.access, token.refresh)
    return token


def _refusal(answer: dict[str, Any]) -> str:
    described = answer.get("error_description")
    known = {"access_denied": "The login was declined.", "expired_token": "The code has expired. Begin the login again."}
    described = redacted(described) if isinstance(described, str) else described
    error = redacted(str(answer["error"]))
    if isinstance(described, str) and described.strip():
        return f"{described.strip()} ({error})"
    return known.get(error, f"The provider refused the login: {error}.")


def _key_names() -> list[str]:
    """The environment variables that hold keys of known providers."""
    return [name for provider in PROVIDERS.values() for name in provider.key_variables]


class Logins:
    """Logs in at the providers that have an `oauth` block in models.json."""

    def __init__(self, registry: Registry, http: Http) -> None:
        self._registry = registry
        self._http = http
        #: Logins in progress, by device code: the provider, and how many seconds the code is valid.
        self._begun: dict[str, tuple[str, float]] = {}

    def possible(self) -> Collection[str]:
        """Return the providers that support login."""
        return [*self._registry.logins(), *self._registry.added.logins()]

    async def log_in_with_extension(self, provider: str, ui: LoginUi) -> bool:
        """Log in at a provider of an extension, which asks the user what it needs to know.

        Returns False if it is not a provider of an extension. Raises LoginFailed.
        """
        if self._registry.added.login(provider) is None:
            return False
        self._refuse_if_shared()

        await log_in(self._registry, provider, ui)
        return True

    def provider(self, preferred: str | None = None) -> str:
        """Choose the provider to log in at: the preferred one if it supports login, else the first in models.json that does.

        Raises LoginFailed if no provider supports login.
        """
        possible = self._registry.logins()
        if preferred is not None and preferred in possible:
            return preferred
        if possible:
            return next(iter(possible))
        raise LoginFailed(
            f"No provider supports login. Use a key instead: put one of {', '.join(_key_names())} into the environment, or store "
            f"one with auth/set_key or in {self._registry.home.auth_path}. A provider with an `oauth` block in "
            f"{self._registry.home.models_path} supports login."
        )

    async def begin(self, provider: str) -> DeviceCode:
        """Ask a provider for a code that the user has to enter. Raises LoginFailed if it gives none."""
        self._refuse_if_shared()
        try:
            code = await begin(self._http, self._oauth(provider))
        except ProviderError as error:
            raise LoginFailed(str(error)) from None
        self._begun[code.device_code] = provider, code.expires_in
        return code

    async def finish(
        self, device_code: str, interval: float, *, otherwise: str | None = None, sleep: Sleep = asyncio.sleep
    ) -> str:
        """Wait until the user has entered the code, and store the token.

        Args:
            device_code: the id from `begin`. It may come from another process.
            interval: seconds between two polls.
            otherwise: the provider of a code from another process; by default the first one that supports login.
            sleep: waits for a number of seconds.

        Returns:
            The provider.

        Raises:
            LoginFailed: the user declined, the code expired, or the token cannot be stored.
        """
        self._refuse_if_shared()
        provider, lifetime = self._begun.get(device_code) or (self.provider(otherwise), DEFAULT_LIFETIME)
        token = await wait_for_token(self._http, self._oauth(provider), device_code, interval, lifetime, sleep=sleep)
        try:
            store_login(self._registry.home, provider, token)
        except ConfigError as error:
            raise LoginFailed(str(error)) from None
        self._begun.pop(device_code, None)
        self._registry.keys_changed()
        return provider

    def store_key(self, provider: str, key: str) -> None:
        """Store the key of a provider in auth.json, and use it from now on. Raises ConfigError if it cannot be written."""
        store_key(self._registry.home, provider, key)
        self._registry.keys_changed()

    def _refuse_if_shared(self) -> None:
        """Raise LoginFailed if a login would replace the keys of other users. Renewing one is not a login."""
        try:
            self._registry.home.refuse_if_shared("The keys of the server")
        except ConfigError as error:
            raise LoginFailed(str(error)) from None

    def _oauth(self, provider: str) -> OAuthEntry:
        oauth = self._registry.logins().get(provider)
        if oauth is None:
            raise LoginFailed(f"{provider} does not support login: it has no `oauth` block in models.json.")
        return oauth


async def renew_if_due(registry: Registry, http: Http, provider: str) -> None:
    """Renew the login of a provider if it is about to expire and can be renewed.

    Only one session of one process does this at a time, since many providers accept a refresh token only once.

    Raises:
        NoCredentials: the login has expired and cannot be renewed.
    """
    oauth = registry.logins().get(provider)
    if oauth is None or not _is_due(registry, provider):
        return
    lock = json_files.locked(registry.home.root / "login")
    try:
        await run_in_thread(lock.__enter__)
    except OSError as error:
        raise NoCredentials(
            f"The login for {provider} has expired and cannot be renewed: {error.strerror or error} ({registry.home.root})."
        ) from None
    try:
        registry.keys_changed()  # another process may have renewed it meanwhile
        token = registry.login(provider)
        if token is None or not _is_due(registry, provider):
            return
        store_login(registry.home, provider, await renew(http, oauth, token))
        registry.keys_changed()
    except (LoginFailed, ProviderError, ConfigError) as error:
        raise NoCredentials(f"The login for {provider} has expired and could not be renewed: {error} Log in again.") from None
    finally:
        lock.__exit__(None, None, None)


def _is_due(registry: Registry, provider: str) -> bool:
    token = registry.login(provider)
    if token is None or token.refresh is None or token.expires is None:
        return False
    return token.expires <= time.time() * 1000 + EARLY_MS
