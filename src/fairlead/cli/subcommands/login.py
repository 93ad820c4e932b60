"""The commands `login` and `logout`: store the key of a provider, log in at one with a code, and forget both."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from getpass import getpass

import fairlead
from fairlead.cli.console import complain, print_text
from fairlead.cli.flags import UsageError
from fairlead.cli.subcommands.table import command_named
from fairlead.config.home import Home, working_directory
from fairlead.core.lenient import visible
from fairlead.errors import ConfigError, LoginFailed, ProviderError
from fairlead.models.catalog import PROVIDERS
from fairlead.models.credentials import forget_stored, list_stored_providers, store_key
from fairlead.models.http.http_client import Http
from fairlead.models.logins import Logins, receive_key
from fairlead.models.model_patterns import nearest_name
from fairlead.models.registry import Registry
from fairlead.platform.process import run_in_thread
from fairlead.session.behaviour import Behaviour
from fairlead.wire.dialects import Program

#: The flag that logs in on a page of the provider.
_BROWSER = "--browser"


def login(words: Sequence[str], program: Program) -> int:
    """Log in at a provider: with a code if it supports that, else by storing a key that the user types.

    Raises UsageError, and ConfigError if nothing can be stored. Returns the exit code.
    """
    words, extensions = _without_extensions(words)
    in_browser = _BROWSER in words
    words = [word for word in words if word != _BROWSER]
    if len(words) > 1 or any(word.startswith("-") for word in words):
        unknown = next((word for word in words if word.startswith("-")), None)
        raise command_named("login").usage_error(
            f"fairlead login has no flag {unknown}. It asks for the key, or reads it from standard input."
            if unknown
            else "Name one provider. fairlead login asks for the key, or reads it from standard input."
        )
    home = Home.find(os.environ, peer=program.home)
    registry = Registry.load(home, os.environ)
    provider = words[0] if words else _choose_provider(registry)
    if provider in registry.logins():
        return asyncio.run(_with_code(registry, provider))
    code = asyncio.run(_with_extension(provider, extensions, program))
    if code is not None:
        return code
    known = [name for name, _ in registry.providers()]
    if provider not in known:
        near = nearest_name(provider, known)
        hint = f" Did you mean {near}?" if near else ""
        raise ConfigError(f"Unknown provider {provider!r}.{hint} The providers are: {', '.join(known)}.")
    grants_keys = provider in PROVIDERS and PROVIDERS[provider].grants_keys
    if in_browser and not grants_keys:
        able = ", ".join(name for name, known in PROVIDERS.items() if known.grants_keys)
        raise UsageError(f"{provider} has no page that grants keys to programs. {_BROWSER} works with: {able}.")
    key = "" if in_browser else _read_key(provider, or_page=grants_keys)
    if not key and (in_browser or (grants_keys and sys.stdin.isatty())):
        return asyncio.run(_in_browser(registry, provider))
    if not key:
        complain("Error: no key was given. Nothing has changed.")
        return 1
    store_key(home, provider, key)
    print_text(f"The key for {provider} is stored in {home.auth_path}.")
    return 0


def logout(words: Sequence[str], program: Program) -> int:
    """Forget the stored key or login of a provider. Raises UsageError, and ConfigError if the file cannot be changed."""
    if len(words) > 1 or (words and words[0].startswith("-") and words[0] != "--all"):
        raise command_named("logout").usage_error()
    home = Home.find(os.environ, peer=program.home)
    stored = list_stored_providers(home)
    if not stored:
        print_text(f"{home.auth_path} has no keys.")
        return 0
    if not words and len(stored) > 1:
        raise UsageError(f"Name a provider, or --all. There are keys for: {', '.join(stored)}.")
    provider = None if words and words[0] == "--all" else words[0] if words else stored[0]
    if provider is not None and provider not in stored:
        raise ConfigError(f"{home.auth_path} has no key for {provider}. It has keys for: {', '.join(stored)}.")
    forgotten = forget_stored(home, provider)
    print_text(f"Removed from {home.auth_path}: {', '.join(forgotten)}.")
    return 0


def _without_extensions(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split words into those without `-e EXTENSION`, and the extensions. Raises UsageError if one is missing."""
    rest, extensions, left = list[str](), list[str](), iter(words)
    for word in left:
        if word not in ("-e", "--extension"):
            rest.append(word)
        elif (extension := next(left, None)) is None:
            raise UsageError(f"{word} needs the path of an extension.")
        else:
            extensions.append(extension)
    return rest, extensions


async def _with_extension(provider: str, extensions: Sequence[str], program: Program) -> int | None:
    """Log in at a provider that an extension adds. Returns None if no extension adds it."""
    behaviour = Behaviour(peer_home=program.home)
    options = fairlead.AgentOptions(cwd=working_directory(), env=os.environ, extensions=extensions, behaviour=behaviour)
    async with fairlead.Agent(options) as agent:
        if not agent.extensions.exist():
            return None
        await agent.extensions.load()
        try:
            if not await agent.logins.log_in_with_extension(provider, _Console()):
                return None
        except LoginFailed as error:
            complain(f"Error: {error}")
            return 1
    print_text(f"Logged in at {provider}.")
    return 0


async def _in_browser(registry: Registry, provider: str) -> int:
    """Let the user grant a key on a page of the provider."""
    http = Http(env=os.environ)
    base_url = (registry.entry(provider).base_url or PROVIDERS[provider].base_url).rstrip("/")

    def show(address: str) -> None:
        print_text(f"Open {address}")
        sys.stdout.flush()

    try:
        store_key(registry.home, provider, await receive_key(http, base_url, show))
    except (LoginFailed, ProviderError) as error:
        complain(f"Error: {error}")
        return 1
    finally:
        await http.close()
    print_text(f"Logged in at {provider}. The key is stored in {registry.home.auth_path}.")
    return 0


class _Console:
    """The user at a terminal. Implements `fairlead.models.added_logins.LoginUi`."""

    def open_url(self, url: str, instructions: str | None = None) -> None:
        print_text(f"Open {url}")
        if instructions:
            print_text(instructions)
        sys.stdout.flush()

    def notify(self, message: str) -> None:
        complain(message)

    async def input(self, title: str, placeholder: str | None = None) -> str | None:
        hint = f" ({placeholder})" if placeholder else ""
        sys.stdout.write(visible(f"{title}{hint} "))
        sys.stdout.flush()
        line = await run_in_thread(sys.stdin.readline, "fairlead-login-input")
        return line.rstrip("\r\n") if line else None

    async def select(self, title: str, options: Sequence[str]) -> str | None:
        for number, option in enumerate(options, 1):
            print_text(f"{number:3}  {option}")
        answer = await self.input(title)
        if answer is None:
            return None
        return options[int(answer) - 1] if answer.isdecimal() and 1 <= int(answer) <= len(options) else answer


async def _with_code(registry: Registry, provider: str) -> int:
    """Log in with a code that the user enters on a page of the provider."""
    http = Http(env=os.environ)
    logins: Logins = Logins(registry, http)
    try:
        code = await logins.begin(provider)
        print_text(f"Open {code.verification_uri} and enter the code {code.user_code}")
        sys.stdout.flush()
        await logins.finish(code.device_code, code.interval)
    except LoginFailed as error:
        complain(f"Error: {error}")
        return 1
    finally:
        await http.close()
    print_text(f"Logged in at {provider}.")
    return 0


def _choose_provider(registry: Registry) -> str:
    """Let the user choose a provider. Raises UsageError if no user can be asked."""
    providers = registry.providers()
    if not sys.stdin.isatty():
        raise command_named("login").usage_error(f"Name a provider: {', '.join(name for name, _ in providers)}.")
    for number, (name, has_key) in enumerate(providers, 1):
        print_text(f"{number:3}  {name}{'  (has a key)' if has_key else ''}")
    sys.stdout.write("Provider: ")
    sys.stdout.flush()
    answer = sys.stdin.readline().strip()
    if answer.isdecimal() and 1 <= int(answer) <= len(providers):
        return providers[int(answer) - 1][0]
    return answer


def _read_key(provider: str, *, or_page: bool) -> str:
    """Return the key that the user types, without showing it, or the first line of a pipe."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().strip()
    hint = " (or Enter, to grant one in your browser)" if or_page else ""
    return getpass(f"Key for {provider}{hint}: ").strip()
