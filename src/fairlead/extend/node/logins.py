"""Logins at providers of extensions that run in the Node process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairlead.extend.extensions.calling import Deadline
from fairlead.extend.extensions.context import Context
from fairlead.extend.extensions.values import converted, object_or_empty
from fairlead.models.providers import LoginAuth

if TYPE_CHECKING:
    from fairlead.extend.node.remote import RemoteExtensions
    from fairlead.models.added_logins import LoginUi


class LoginContext(Context):
    """The context of a call in which an extension logs in."""

    def __init__(self, remote: RemoteExtensions, ui: LoginUi) -> None:
        super().__init__(remote.engine, Deadline(None))
        self._user = ui

    def tell(self, news: Mapping[str, Any]) -> None:
        """Show the user a page to open, or what is happening."""
        if news.get("url"):
            instructions = news.get("instructions")
            self._user.open_url(str(news["url"]), None if instructions is None else str(instructions))
        elif news.get("message"):
            self._user.notify(str(news["message"]))

    async def ask(self, question: Mapping[str, Any]) -> str | None:
        """Ask the user to type something or to choose one of the options."""
        message = str(question.get("message") or "")
        if question.get("options") is not None:
            return await self._user.select(message, converted(list[str], question["options"], "options"))
        placeholder = question.get("placeholder")
        return await self._user.input(message, None if placeholder is None else str(placeholder))


class RemoteLogin:
    """The login of one provider. Implements `fairlead.models.added_logins.AddedLogin`."""

    def __init__(self, remote: RemoteExtensions, number: int) -> None:
        self._remote = remote
        self._number = number

    async def log_in(self, ui: LoginUi) -> Mapping[str, Any]:
        return await self._remote.call("login", {"number": self._number}, LoginContext(self._remote, ui))

    async def renew(self, stored: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._call("renewLogin", stored)

    async def auth(self, stored: Mapping[str, Any]) -> LoginAuth:
        found = await self._call("loginAuth", stored)
        headers = {name: value for name, value in object_or_empty(found.get("headers")).items() if value is not None}
        base_url = converted(str | None, found.get("baseUrl"), "baseUrl")
        return LoginAuth(found.get("apiKey"), converted(dict[str, str], headers, "headers"), base_url)

    async def _call(self, method: str, stored: Mapping[str, Any]) -> Any:
        remote = self._remote
        context = Context(remote.engine, Deadline(None))
        async with asyncio.timeout(remote.engine.host.timeout):
            return await remote.call(method, {"number": self._number, "credentials": stored}, context)
