"""Logging in at providers with a code that the user enters (OAuth 2.0 device authorization, RFC 8628).

The logins are kept in auth.json and renewed before they expire.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta, Struct

from fairlead.config import files
from fairlead.core import lenient
from fairlead.core.runtime import Cancel
from fairlead.core.secrets import learn, redacted
from fairlead.errors import ConfigError, LoginFailed, NoCredentials, ProviderError
from fairlead.models.credentials import LoginToken, store_login
from fairlead.models.http.client import Http, HttpRequest
from fairlead.models.model_streams import EARLY_MS
from fairlead.models.models_json import OAuthEntry
from fairlead.models.registry import Registry

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
#: Seconds between two looks, and how long a code is good for, where the provider does not say.
DEFAULT_INTERVAL, DEFAULT_LIFETIME = 5, 900
#: Seconds between two looks in any case, and at most.
SHORTEST_INTERVAL, LONGEST_INTERVAL = 0.1, 3600
#: How many seconds longer to wait from here on, when the provider says that it is asked too often.
SLOW_DOWN = 5
#: Seconds in which the provider has to answer.
PATIENCE = 30.0
#: A token that is good for more seconds than this is good for ever.
LONGEST_LIFETIME = 1e10

Sleep = Callable[[float], Awaitable[object]]


class DeviceCode(Struct, frozen=True):
    """What the user is to enter, and where."""

    user_code: str
    verification_uri: str
    #: What the provider knows this login by.
    device_code: str
    interval: Annotated[int, Meta(ge=0, le=LONGEST_INTERVAL)] = DEFAULT_INTERVAL
    #: Seconds.
    expires_in: Annotated[float, Meta(gt=0)] = DEFAULT_LIFETIME


async def begin(http: Http, oauth: OAuthEntry) -> DeviceCode:
    """Ask for a code. Raises LoginFailed."""
    form = {"client_id": oauth.client_id}
    if oauth.scope:
        form["scope"] = oauth.scope
    answer = await _ask(http, oauth.device_url, form)
    if "error" in answer:
        raise LoginFailed(_refusal(answer))
    # Some providers have an older name for the address.
    answer.setdefault("verification_uri", answer.get("verification_url"))
    said = {name: value for name, value in answer.items() if value is not None}
    try:
        # Some write numbers as texts, or 5.0 for 5.
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
    """Wait until the user has entered the code. Raises LoginFailed if they decline, or let its time pass."""
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
    """A new token for one that has expired. Raises LoginFailed, or ProviderError if the provider cannot be reached."""
    assert token.refresh is not None
    learn(token.refresh, token.access)
    form = {"grant_type": "refresh_token", "refresh_token": token.refresh, "client_id": oauth.client_id}
    answer = await _ask(http, oauth.token_url, form)
    if "error" in answer:
        raise LoginFailed(_refusal(answer))
    renewed = _token(answer, oauth.token_url)
    return renewed if renewed.refresh else msgspec.structs.replace(renewed, refresh=token.refresh)


async def _ask(http: Http, url: str, form: dict[str, str]) -> dict[str, Any]:
    """What the provider answers to a form, refusals included. Raises ProviderError or LoginFailed if that is nothing of use."""
    from urllib.parse import urlencode

    headers = [("content-type", "application/x-www-form-urlencoded"), ("accept", "application/json")]
    request = HttpRequest("POST", url, headers, urlencode(form).encode())
    try:
        async with asyncio.timeout(PATIENCE), http.stream(request, Cancel()) as response:
            body = await response.read()
            status = response.status
    except TimeoutError:
        raise ProviderError(f"{url} did not answer within {PATIENCE:g} seconds.", transient=True) from None
    try:
        answer: Any = lenient.decode(body)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and (status < 400 or isinstance(cast("dict[str, Any]", answer).get("error"), str)):
        return cast("dict[str, Any]", answer)
    if status == 429 or status >= 500:
        raise ProviderError(f"{url} answered {status}.", status=status, transient=True)
    raise LoginFailed(f"{url} answered {status} with something that is no answer to a login.")


def _token(answer: dict[str, Any], url: str) -> LoginToken:
    access, refresh, lifetime = answer.get("access_token"), answer.get("refresh_token"), answer.get("expires_in")
    if not isinstance(access, str) or not access:
        raise LoginFailed(f"{url} gave no token.")
    expires = None
    try:
        seconds = msgspec.convert(lifetime, float, strict=False)  # some write it as a text
    except msgspec.ValidationError:
        seconds = 0.0
    if 0 < seconds < LONGEST_LIFETIME:
        expires = int((time.time() + seconds) * 1000)
    return LoginToken(access, refresh if isinstance(refresh, str) and refresh else None, expires)


def _refusal(answer: dict[str, Any]) -> str:
    described = answer.get("error_description")
    known = {"access_denied": "The login was declined.", "expired_token": "The code has expired. Begin the login again."}
    described = redacted(described) if isinstance(described, str) else described
    error = redacted(str(answer["error"]))
    if isinstance(described, str) and described.strip():
        return f"{described.strip()} ({error})"
    return known.get(error, f"The provider refused the login: {error}.")


class Logins:
    """Logs in at the providers that have an `oauth` block in models.json."""

    def __init__(self, registry: Registry, http: Http) -> None:
        self._registry = registry
        self._http = http
        #: Logins that have begun, by their device code: the provider, and the seconds that the code is good for.
        self._begun: dict[str, tuple[str, float]] = {}

    def possible(self) -> Collection[str]:
        """The providers at which one can log in."""
        return self._registry.logins()

    def provider(self, preferred: str | None = None) -> str:
        """Where to log in: at the preferred provider if that is possible, else at the first of models.json that allows it.

        Raises LoginFailed if there is none.
        """
        possible = self.possible()
        if preferred is not None and preferred in possible:
            return preferred
        if possible:
            return next(iter(possible))
        raise LoginFailed(
            f"No provider has a login. Give one an `oauth` block in {self._registry.home.models_path}, or store a key instead."
        )

    async def begin(self, provider: str) -> DeviceCode:
        """Ask for a code that the user is to enter. Raises LoginFailed."""
        try:
            code = await begin(self._http, self._oauth(provider))
        except ProviderError as error:
            raise LoginFailed(str(error)) from None
        self._begun[code.device_code] = provider, code.expires_in
        return code

    async def finish(
        self, device_code: str, interval: float, *, otherwise: str | None = None, sleep: Sleep = asyncio.sleep
    ) -> str:
        """Wait until the user has entered the code, and keep what comes of it. Returns the provider. Raises LoginFailed.

        A code that another process asked for is one of the provider `otherwise` names, or of the first that has a login.
        """
        provider, lifetime = self._begun.get(device_code) or (self.provider(otherwise), DEFAULT_LIFETIME)
        token = await wait_for_token(self._http, self._oauth(provider), device_code, interval, lifetime, sleep=sleep)
        try:
            store_login(self._registry.home, provider, token)
        except ConfigError as error:
            raise LoginFailed(str(error)) from None
        self._begun.pop(device_code, None)
        self._registry.keys_changed()
        return provider

    def _oauth(self, provider: str) -> OAuthEntry:
        oauth = self._registry.logins().get(provider)
        if oauth is None:
            raise LoginFailed(f"There is no login for {provider}.")
        return oauth


async def renew_if_due(registry: Registry, http: Http, provider: str) -> None:
    """See to it that the login of a provider has not expired, if it can be renewed. Raises NoCredentials.

    One process at a time, and one session of it: many providers take a refresh token only once.
    """
    oauth = registry.logins().get(provider)
    if oauth is None or not _is_due(registry, provider):
        return
    lock = files.locked(registry.home.root / "login")
    try:
        await asyncio.to_thread(lock.__enter__)
    except OSError as error:
        raise NoCredentials(
            f"The login for {provider} has expired and cannot be renewed: {error.strerror or error} ({registry.home.root})."
        ) from None
    try:
        registry.keys_changed()  # somebody else may have renewed it meanwhile
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
