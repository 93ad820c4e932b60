"""Finds and stores the keys of providers.

A key comes from the first of these that has one: the command line, auth.json (in the home of omp or xcsh also agent.db), the
provider's environment variable, `apiKey` in models.json. `ConfigValue` says what a value in these files stands for. If a
provider supports login, the token in auth.json is its key.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any, cast
from urllib.parse import quote, unquote, urlsplit

import msgspec
from msgspec import Struct

from fairlead.config import json_files, project_files
from fairlead.config.home import Home
from fairlead.core.secrets import learn
from fairlead.errors import ConfigError, NoCredentials
from fairlead.models.catalog import PROVIDERS
from fairlead.models.config_value import ConfigValue, command_output, escape

#: Headers that carry a key.
_KEY_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key"})
#: Milliseconds before its expiry at which a key already counts as expired.
EARLY_MS = 60_000


class RequestAuth(Struct, frozen=True):
    """What authenticates requests to a provider. It is never sent to a host, and its `repr` shows no secret."""

    api_key: str | None = None
    #: Extra headers. They replace an adapter's headers of the same name, in any case.
    headers: dict[str, str] = {}
    #: When the key expires, in milliseconds since the epoch; None if that is unknown.
    expires: int | None = None
    #: The address for requests, if a login has another one than the model.
    base_url: str | None = None

    def apply_to(self, headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return an adapter's headers together with the extra ones, which win."""
        extra = {name.lower() for name in self.headers}
        return [(name, value) for name, value in headers if name.lower() not in extra] + list(self.headers.items())

    def __repr__(self) -> str:
        key = "None" if self.api_key is None else "'…'"
        return f"RequestAuth(api_key={key}, headers={sorted(self.headers)})"


class LoginToken(Struct, frozen=True, omit_defaults=True):
    """The result of a login. `expires` is in milliseconds since the epoch. Its JSON is the same as pi's."""

    access: str
    refresh: str | None = None
    expires: int | None = None

    def __repr__(self) -> str:
        return f"Token(expires={self.expires})"


class CredentialStore:
    """The keys of one process. Each file is read, and each command run, once, when it is first needed."""

    def __init__(
        self,
        home: Home,
        env: Mapping[str, str],
        *,
        api_key: str | None = None,
        api_key_provider: str | None = None,
        warnings: list[str],
    ) -> None:
        """Make the keys of a process.

        Args:
            home: where auth.json is.
            env: the environment variables.
            api_key: the key from the command line.
            api_key_provider: the provider of that key; without one, the provider given to `choose`.
            warnings: gets a sentence for each thing that could not be used.
        """
        self._home = home
        self._env = env
        self._flag_key = api_key
        self._flag_provider = api_key_provider
        self._warnings = warnings
        self._auth: dict[str, Any] | None = None
        self._outputs: dict[str, str] = {}
        self._running = Lock()
        self._unset: set[str] = set()

    def choose(self, provider: str) -> None:
        """Give the key from the command line to `provider`, unless it has a provider already."""
        if self._flag_provider is None:
            self._flag_provider = provider

    def reload(self) -> None:
        """Read auth.json again when it is next needed."""
        self._auth = None

    def learn_all(self) -> None:
        """Make every key and token in auth.json known as a secret, also those that this process does not use."""
        self._auth_entry("")
        for entry in (self._auth or {}).values():
            if isinstance(entry, dict):
                fields = cast("dict[str, Any]", entry)
                learn(*(value for name in ("key", "access", "refresh") if isinstance(value := fields.get(name), str)))

    def variables(self) -> set[str]:
        """Return the names of the environment variables that keys in auth.json stand for."""
        self._auth_entry("")
        keys = filter(None, map(_key_of, (self._auth or {}).values()))
        return {name for key in keys for name in ConfigValue(key).variables}

    def has_key(self, provider: str, models_json_key: str | None, *, logins: bool = False) -> bool:
        """Tell whether a provider has a key, without running a command. With `logins`, the token of a login counts as a key."""
        value = self._find_written(provider, models_json_key, logins)
        return value is not None and not value.missing(self._env)

    def key(self, provider: str, models_json_key: str | None, *, logins: bool = False) -> str | None:
        """Find the key of a provider. Call it from a thread: it may have to wait for a command.

        Args:
            provider: the provider's name.
            models_json_key: its `apiKey` in models.json.
            logins: whether the token of a login counts as a key.

        Returns:
            The key; None if there is none.

        Raises:
            NoCredentials: the command that should print the key failed, or a variable is not set.
        """
        value = self._find_written(provider, models_json_key, logins)
        return None if value is None else self._resolve(value, f"The key of {provider}")

    def source(self, provider: str, models_json_key: str | None, *, logins: bool = False) -> str | None:
        """Describe where the key of a provider comes from, without the key itself; None if there is no key.

        Takes the same arguments as `key`. Runs no command.
        """
        if self._flag_key and provider == self._flag_provider:
            return "--api-key"
        entry = self._auth_entry(provider)
        if _key_of(entry):
            return self._find_key_file(provider)
        if logins and self.token(provider) is not None:
            return f"the login in {self._home.auth_path}"
        known = PROVIDERS.get(provider)
        for variable in known.key_variables if known else ():
            if self._env.get(variable, "").strip():
                return f"the environment variable {variable}"
        if not models_json_key:
            return None
        value = ConfigValue(models_json_key)
        files = " or ".join(map(str, self._home.models_files())) or "an extension"
        if value.command is not None:
            return f"a command in {files}"
        named = value.variables
        return f"{files}, which names the environment variable {', '.join(named)}" if named else files

    def _find_key_file(self, provider: str) -> str:
        """Return the file that a stored key comes from."""
        for path in self._home.auth_files():
            if _key_of(self._read_auth(path).get(provider)):
                return str(path)
        return str(self._home.key_database or self._home.auth_path)

    def resolve(self, text: str, what: str) -> str:
        """Return what a value in a file stands for. `what` names it in errors.

        Raises NoCredentials if a command fails or a variable is not set.
        """
        return self._resolve(ConfigValue(text), what)

    def _resolve(self, value: ConfigValue, what: str) -> str:
        if value.command is not None:
            return self._output(value.command, what)
        if missing := value.missing(self._env):
            raise NoCredentials(f"{what} needs environment variables that are not set: {', '.join(missing)}.")
        resolved = value.resolve(self._env)
        if value.looks_like_variable and resolved == value.text and resolved not in self._unset:
            self._unset.add(resolved)
            text = f"{what} is given as {resolved}, but no such environment variable is set: {resolved} itself is sent."
            self._warnings.append(text)
        return resolved

    def has_login(self, provider: str) -> bool:
        """Tell whether auth.json has a login for the provider that is not a key."""
        entry = self._auth_entry(provider)
        return entry is not None and not _key_of(entry)

    def login_entry(self, provider: str) -> dict[str, Any] | None:
        """Return the provider's login as it is in auth.json; None if there is none."""
        entry = self._auth_entry(provider)
        fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        return fields if fields.get("type") == "oauth" and isinstance(fields.get("access"), str) else None

    def token(self, provider: str) -> LoginToken | None:
        """Return the token of the provider's login in auth.json; None if there is none."""
        entry = self.login_entry(provider)
        if entry is None:
            return None

        try:
            return msgspec.convert(entry, LoginToken)
        except msgspec.ValidationError:
            return None

    def _find_written(self, provider: str, models_json_key: str | None, logins: bool) -> ConfigValue | None:
        """Find the key as it is written."""
        if self._flag_key and provider == self._flag_provider:
            return ConfigValue(self._flag_key, is_literal=True)
        entry = self._auth_entry(provider)
        if stored := _key_of(entry):
            own: Any = cast("dict[str, Any]", entry).get("env")
            return ConfigValue(stored, cast("dict[str, Any]", own) if isinstance(own, dict) else {})
        if logins and (token := self.token(provider)) is not None:
            return ConfigValue(token.access, is_literal=True)
        known = PROVIDERS.get(provider)
        for variable in known.key_variables if known else ():
            if value := self._env.get(variable, "").strip():
                return ConfigValue(value, is_literal=True)
        return ConfigValue(models_json_key) if models_json_key else None

    def _auth_entry(self, provider: str) -> Any:
        entries: dict[str, Any] | None = self._auth  # `reload` may reset it from another thread at any time
        if entries is None:
            entries = {}
            for path in self._home.auth_files():
                entries = {**self._read_auth(path), **entries}
            database = self._home.key_database
            if database is not None and os.path.lexists(database):
                entries = {**_database_keys(database, self._warnings), **entries}
            self._auth = entries
        return entries.get(provider)

    def _read_auth(self, path: Path) -> dict[str, Any]:
        try:
            data = project_files.read_bytes(path)
            if data is None:
                return {}
            if os.name == "posix" and path.stat().st_mode & 0o077:
                self._warnings.append(f"{path}: other users may read your keys. Run: chmod 600 {path}")
            return json_files.parse_object(path, data)
        except ConfigError as error:
            self._warnings.append(str(error))
            return {}

    def _output(self, command: str, what: str) -> str:
        with self._running:
            if command not in self._outputs:
                self._outputs[command] = command_output(command, what, self._env)
            return self._outputs[command]


def store_key(home: Home, provider: str, key: str) -> None:
    """Write a key to auth.json, which only its owner may read. Raises ConfigError if that fails, or if it cannot be a key."""
    home.refuse_if_shared("The keys of the server")
    if not provider or not key.strip():
        raise ConfigError("The provider and the key must not be empty.")
    learn(key)
    if not key.strip().isprintable():
        raise ConfigError("The key has control characters, or bytes that are not text. Copy it again. Nothing has changed.")
    _store(home, provider, {"type": "api_key", "key": escape(key.strip())})


def store_login(home: Home, provider: str, token: LoginToken) -> None:
    """Write the token of a login to auth.json, replacing what it has for the provider. Raises ConfigError if that fails."""
    _store(home, provider, {"type": "oauth", **msgspec.to_builtins(token)})


def store_login_entry(home: Home, provider: str, entry: Mapping[str, Any]) -> None:
    """Write what an extension got from a login to auth.json. Raises ConfigError if that fails."""
    _store(home, provider, dict(entry))


def list_stored_providers(home: Home) -> list[str]:
    """Return the providers that auth.json has a key or a login for. Raises ConfigError if it cannot be read."""
    data = None if home.isolated else project_files.read_bytes(home.auth_path)
    return [] if data is None else list(json_files.parse_object(home.auth_path, data))


def forget_stored(home: Home, provider: str | None) -> list[str]:
    """Remove what auth.json has for a provider, or for all of them. Returns their names. Raises ConfigError if that fails."""
    home.refuse_if_shared("The keys of the server")
    if home.isolated:
        raise ConfigError("Keys are not stored in an isolated run.")
    found = [name for name in list_stored_providers(home) if provider in (None, name)]

    def forget(content: dict[str, Any]) -> None:
        for name in found:
            content.pop(name, None)

    if found:
        json_files.update_object(home.auth_path, forget)
    return found


def _store(home: Home, provider: str, entry: dict[str, Any]) -> None:
    if home.isolated:
        raise ConfigError("Keys are not stored in an isolated run.")
    json_files.update_object(home.auth_path, lambda content: content.update({provider: entry}))


def _database_keys(path: Path, warnings: list[str]) -> dict[str, Any]:
    """Read the keys in the database of omp, in the form of auth.json. A file that cannot be read leaves a warning."""
    import sqlite3  # noqa: PLC0415  few programs need a database

    query = "SELECT provider, data FROM auth_credentials WHERE credential_type = 'api_key' {} ORDER BY id DESC"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=1)) as database:
            columns = {str(row[1]) for row in database.execute("PRAGMA table_info(auth_credentials)")}
            if not columns:
                return {}
            enabled = "AND disabled_cause IS NULL" if "disabled_cause" in columns else ""
            rows: list[tuple[Any, Any]] = database.execute(query.format(enabled)).fetchall()
    except sqlite3.Error as error:
        warnings.append(f"{path}: the keys in it cannot be read: {error}.")
        return {}
    return {str(provider): _convert_row(data) for provider, data in rows}


def _convert_row(data: Any) -> dict[str, Any]:
    """Return a row of the database in the form of auth.json."""
    try:
        fields = msgspec.json.decode(data)
    except (msgspec.DecodeError, TypeError):
        fields = None
    return {**cast("dict[str, Any]", fields), "type": "api_key"} if isinstance(fields, dict) else {}


def _key_of(entry: Any) -> str | None:
    if not isinstance(entry, dict):
        return None
    fields = cast("dict[str, Any]", entry)
    key = fields.get("key")
    return key if fields.get("type") == "api_key" and isinstance(key, str) and key else None


def split_login(url: str) -> tuple[str, str | None]:
    """Take the user and password out of a URL.

    Returns the URL without them, and the Authorization header that says the same; None if the URL has none.
    """
    scheme, separator, rest = url.partition("://")
    # By hand, as a URL that is broken elsewhere must not keep its password either.
    end = min((rest.find(mark) for mark in "/?#" if mark in rest), default=len(rest))
    login, at, host = rest[:end].rpartition("@")
    if not at:
        return url, None

    user, _, password = login.partition(":")
    pair = f"{unquote(user)}:{unquote(password)}".encode("utf-8", "replace")
    return f"{scheme}{separator}{host}{rest[end:]}", f"Basic {base64.b64encode(pair).decode()}"


def needs_no_key(base_url: str, headers: Mapping[str, str]) -> bool:
    """Tell whether requests can do without a key: the server is on this machine, or a header carries one."""
    return _is_loopback(base_url) or any(name.lower() in _KEY_HEADERS for name in headers)


def _is_loopback(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    if host.startswith("127."):
        return host.replace(".", "").isdigit()  # not a name such as 127.example.com
    return host in ("localhost", "::1", "0.0.0.0") or host.endswith(".localhost")
