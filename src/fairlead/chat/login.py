"""Logs in at a provider, or stores a key, without leaving the chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.chat.dialogs import Ask, Choice, Picker

if TYPE_CHECKING:
    from fairlead.chat.app import Chat


async def log_in(chat: Chat, provider: str) -> None:
    """Log in at a provider with a code if it supports that, else store a key that the user types."""
    session, logins = chat.session, chat.agent.logins
    provider, *more = provider.split() or [""]
    if more:
        chat.note("/login takes a provider only. Type the key where it is asked for: there it is not shown.", "warning")
    known = dict(session.models.providers())
    if not provider:
        choices = [Choice(name, name, "has a key" if has_key else "") for name, has_key in known.items()]
        provider = await chat.ask(Picker("Log in at which provider?", choices)) or ""
        if not provider:
            return
    if provider in logins.possible():
        code = await logins.begin(provider)
        chat.note(f"Open {code.verification_uri} and enter the code {code.user_code}", "accent")
        await logins.finish(code.device_code, code.interval)
    elif provider not in known:
        chat.note(f"There is no provider {provider!r}. The providers are: {', '.join(known)}.", "error")
        return
    else:
        key = await chat.ask(Ask(f"Key for {provider} (kept in {chat.agent.home.auth_path})", "paste it here", secret=True))
        if not key or not key.strip():
            return
        logins.store_key(provider, key)
    chat.note(f"{provider} can be used now.", "accent")
    if session.model is None:
        choice = await chat.agent.choose_model()
        chat.note(f"{choice.why} /model chooses another.")
