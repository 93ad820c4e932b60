"""Logins that were made with `fairlead.models.device_login`: kept in auth.json, renewed before they expire."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection

from fairlead.config import files
from fairlead.errors import ConfigError, LoginFailed, NoCredentials, ProviderError
from fairlead.models.access import EARLY_MS
from fairlead.models.credentials import store_login
from fairlead.models.device_login import DEFAULT_LIFETIME, DeviceCode, Sleep, begin, renew, wait_for_token
from fairlead.models.http.client import Http
from fairlead.models.models_json import OAuthEntry
from fairlead.models.registry import Registry


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
