"""Logins at providers that extensions add. The extension talks to the provider; fairlead stores what it gets in auth.json."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from fairlead.config import json_files
from fairlead.core.secrets import learn
from fairlead.errors import ConfigError, LoginFailed, NoCredentials
from fairlead.models.credentials import store_login_entry
from fairlead.platform.process import run_in_thread

if TYPE_CHECKING:
    from fairlead.models.providers import LoginAuth
    from fairlead.models.registry import Registry


class LoginUi(Protocol):
    """The user who logs in. Questions return None if the user gives no answer."""

    def open_url(self, url: str, instructions: str | None = None) -> None: ...
    def notify(self, message: str) -> None: ...
    async def input(self, title: str, placeholder: str | None = None) -> str | None: ...
    async def select(self, title: str, options: Sequence[str]) -> str | None: ...


class AddedLogin(Protocol):
    """How an extension logs in at its provider. All methods raise what the extension raises.

    What a login stores is an object with at least `access`, `refresh` and `expires`, in milliseconds since the epoch.
    """

    async def log_in(self, ui: LoginUi) -> Mapping[str, Any]:
        """Log in, and return what to store."""
        ...

    async def renew(self, stored: Mapping[str, Any]) -> Mapping[str, Any]:
        """Exchange what is stored for something that is valid longer."""
        ...

    async def auth(self, stored: Mapping[str, Any]) -> LoginAuth:
        """Return the key and the headers for requests."""
        ...


async def log_in(registry: Registry, provider: str, ui: LoginUi) -> None:
    """Log in at a provider of an extension, and store the result. Raises LoginFailed."""
    login = registry.added.login(provider)
    if login is None:
        raise LoginFailed(f"{provider} does not support login.")
    try:
        _store(registry, provider, await login.log_in(ui))
    except LoginFailed:
        raise
    except Exception as error:  # the extension can raise anything
        raise LoginFailed(str(error) or f"The login at {provider} failed.") from error


async def prepare_key(registry: Registry, provider: str) -> None:
    """Renew the login at a provider of an extension if it has expired, and find the key that it stands for.

    Only one session of one process does this at a time, since many providers accept a refresh token only once.

    Raises:
        NoCredentials: the login has expired and cannot be renewed.
    """
    login, stored = registry.added.login(provider), registry.login_entry(provider)
    if login is None or stored is None:
        return
    try:
        if _has_expired(stored):
            lock = json_files.locked(registry.home.root / "login")
            await run_in_thread(lock.__enter__)
            try:
                registry.keys_changed()  # another process may have renewed it meanwhile
                stored = registry.login_entry(provider) or stored
                if _has_expired(stored):
                    stored = _store(registry, provider, await login.renew(stored))
            finally:
                lock.__exit__(None, None, None)
        registry.added.set_login_auth(stored["access"], await login.auth(stored))
    except Exception as error:  # the extension can raise anything
        raise NoCredentials(f"The login for {provider} cannot be used: {error} Log in again.") from error


def _store(registry: Registry, provider: str, result: Any) -> Mapping[str, Any]:
    entry: dict[str, Any] = {**result, "type": "oauth"} if isinstance(result, Mapping) else {}
    access, refresh = entry.get("access"), entry.get("refresh")
    if not isinstance(access, str) or not access:
        raise LoginFailed(f"The extension of {provider} returned no access token.")
    learn(*(secret for secret in (access, refresh) if isinstance(secret, str)))
    try:
        store_login_entry(registry.home, provider, entry)
    except ConfigError as error:
        raise LoginFailed(str(error)) from None
    registry.keys_changed()
    return entry


def _has_expired(stored: Mapping[str, Any]) -> bool:
    expires = stored.get("expires")
    return isinstance(expires, int | float) and expires <= time.time() * 1000
