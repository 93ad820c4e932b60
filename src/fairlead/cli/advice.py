"""What a person at a command line can do about an error: of a provider, or in a name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fairlead.core.messages import readable_error
from fairlead.errors import FairleadError, SessionError
from fairlead.models.unlisted_providers import KEY_VARIABLE

if TYPE_CHECKING:
    from fairlead.agent import Agent
    from fairlead.core.model import StreamEnd

FAILED_SILENTLY = "The model failed without saying why."
_NOT_AUTHORISED = (401, 403)


def explain_end(agent: Agent, end: StreamEnd) -> str:
    """Return the error of a run that failed. If the provider refused the key, it says where the key came from."""
    text = readable_error(end.message.error_message or FAILED_SILENTLY)
    if end.status not in _NOT_AUTHORISED:
        return text
    return f"{text.rstrip()}\n{about_key(agent, end.message.provider)}"


def explain_in_chat(agent: Agent, provider: str, error: str) -> str:
    """Return the error of a provider as the chat shows it. If the provider refused the key, it says where the key came from."""
    text = readable_error(error)
    if not provider or not is_refusal_of_key(text):
        return text
    return f"{text.rstrip()}\n{about_key(agent, provider, '/login')}"


def is_refusal_of_key(error: str) -> bool:
    """Whether an error of a provider says that it refused the key."""
    return error.startswith(tuple(f"{status} " for status in _NOT_AUTHORISED))


def with_way_out(error: FairleadError) -> str:
    """Return an error that ended a run, and what to do if its session file cannot be written."""
    if isinstance(error, SessionError) and isinstance(error.__cause__, OSError):
        return f"{error} --no-session does not save the session, and --session-dir DIR saves it elsewhere."
    return str(error)


def about_key(agent: Agent, provider: str, command: str = "fairlead login") -> str:
    """Return where the key of a provider came from, and how to give another one: with `command`."""
    registry = agent.registry
    source = registry.key_source(provider)
    if registry.unlisted.takes_no_login(provider):
        if source is not None:
            return f"The key came from {source}. Check it."
        address = "" if registry.unlisted.server_name else f" --base-url {registry.entry(provider).base_url} and"
        return f"No key was sent. Give one with{address} {KEY_VARIABLE} or --api-key."
    if source is None:
        return f"No key was sent to {provider}. Give one with: {command} {provider}"
    return f"The key for {provider} came from {source}. Check it, or store another one with: {command} {provider}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a suggestion with a leading space, such as ` Did you mean export?`, or nothing if no known name is near.

    Leading dashes do not make names similar, and letters that are only in another order make them most similar.
    """
    typed = name.lstrip("-")
    by_letters = {each.lstrip("-"): each for each in reversed(list(known))}
    near = difflib.get_close_matches(typed, by_letters)
    near.sort(key=lambda other: sorted(other) != sorted(typed))
    return f" Did you mean {by_letters[near[0]]}?" if near else ""
