"""Logging in with a code that the user enters on a page of the provider's (OAuth 2.0 device authorization, RFC 8628).

`begin` asks for the code, `wait_for_token` waits until it was entered, `renew` trades an old token for a new one. Nothing is
stored here: see `fairlead.models.logins`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta, Struct

from fairlead.core import lenient
from fairlead.core.runtime import Cancel
from fairlead.core.secrets import learn, redacted
from fairlead.errors import LoginFailed, ProviderError
from fairlead.models.http.client import Http, HttpRequest
from fairlead.models.models_json import OAuthEntry

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


class Token(Struct, frozen=True, omit_defaults=True):
    """What a login comes to. `expires` is in milliseconds since the epoch; its JSON is pi's."""

    access: str
    refresh: str | None = None
    expires: int | None = None

    def __repr__(self) -> str:
        return f"Token(expires={self.expires})"


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
) -> Token:
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


async def renew(http: Http, oauth: OAuthEntry, token: Token) -> Token:
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


def _token(answer: dict[str, Any], url: str) -> Token:
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
    return Token(access, refresh if isinstance(refresh, str) and refresh else None, expires)


def _refusal(answer: dict[str, Any]) -> str:
    described = answer.get("error_description")
    known = {"access_denied": "The login was declined.", "expired_token": "The code has expired. Begin the login again."}
    described = redacted(described) if isinstance(described, str) else described
    error = redacted(str(answer["error"]))
    if isinstance(described, str) and described.strip():
        return f"{described.strip()} ({error})"
    return known.get(error, f"The provider refused the login: {error}.")
