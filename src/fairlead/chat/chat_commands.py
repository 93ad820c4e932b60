"""The commands of the chat: `/model`, `/resume` and the like."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from fairlead import export_file
from fairlead.chat.dialogs import Ask, Choice, Picker
from fairlead.chat.outside import copy_text
from fairlead.chat.pickers import change_settings, pick_fork, pick_place, pick_session, show_servers, show_skills, show_tools
from fairlead.chat.status import dollars
from fairlead.chat.view.tool_titles import format_count
from fairlead.errors import FairleadError, ModelNotFound
from fairlead.messages import AssistantMessage
from fairlead.sessions.completion import Item

if TYPE_CHECKING:
    from fairlead import Model
    from fairlead.chat.app import Chat

#: The name of a command at the start of a text. A path has another slash.
_COMMAND = re.compile(r"/[A-Za-z][\w:.-]*(?=\s|$)")
#: What other programs call a command.
_OTHER_NAMES = {"exit": "quit", "clear": "new"}
_MODES = {
    "auto": "run every tool call without a question",
    "write": "ask before commands, not before changes to files in the workspace",
    "ask": "ask before every call that changes something",
    "deny": "refuse every call that changes something",
}
#: What `/init` sends. The user may add to it.
_INIT = (
    "Write a file AGENTS.md in this directory, for agents that will work here. Look at the project first: what it is for, how it"
    " is built, run and tested, how it is divided, and which rules its authors follow that the code alone does not show. Keep it"
    " under 60 lines, and write only what you have seen. If there is an AGENTS.md already, improve it and keep what is right."
)
#: What the library advises if no model matches, which is for the command line.
_FLAG_ADVICE = "Use --list-models to see available models."
_KEYS = {
    "Enter": "send; a working agent gets it at the next opportunity",
    "Alt+Enter": "send; a working agent gets it when it is done",
    "Shift+Enter, Ctrl+J": "new line; so does \\ and then Enter",
    "Esc": "stop the agent, close a menu or a question",
    "Ctrl+C": "clear the text, or stop the agent; twice: leave",
    "Ctrl+D": "leave",
    "Up, Down": "earlier and later prompts",
    "Ctrl+R": "search earlier prompts",
    "Tab": "accept a suggestion",
    "Shift+Tab": "next thinking level",
    "Ctrl+V": "paste an image from the clipboard",
    "Ctrl+G": "write in $VISUAL or $EDITOR",
    "Ctrl+T": "unfold or fold thinking, from now on",
    "Ctrl+O": "show tool output in full or in short, from now on",
    "Ctrl+L": "draw the screen again",
    "Ctrl+Z": "suspend the chat; fg continues it",
}
_TYPED = {
    "@file": "name a file; an image goes with the prompt",
    "a path of an image": "goes with the prompt too: drag the file here",
    "!command": "run a shell command; the model sees it and its output",
    "!!command": "run a shell command without telling the model",
}


@dataclass(frozen=True, slots=True)
class Command:
    """A command: what follows its name, what it does, and the function that does it."""

    argument: str
    summary: str
    run: Callable[[str], Awaitable[None]]


class Commands:
    """The commands of one chat, and those that users add."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._session = chat.session
        self._own = {
            "model": Command("[NAME]", "choose the model that answers", self._model),
            "thinking": Command("[LEVEL]", "choose how much the model thinks", self._thinking),
            "resume": Command("", "continue an earlier session", self._resume),
            "tree": Command("", "go to another place in this session", self._tree),
            "fork": Command("", "start a new session from an earlier message", self._fork),
            "new": Command("", "start a new session", self._new),
            "compact": Command("[FOCUS]", "replace older messages with a summary", self._compact),
            "name": Command("NAME", "name this session", self._name),
            "cost": Command("", "show tokens, cost and context", self._cost),
            "export": Command("[FILE]", "write this session as an HTML page", self._export),
            "login": Command("[PROVIDER]", "log in, or store a key", self._login),
            "approval": Command("[MODE]", "choose which tool calls need your consent", self._approval),
            "settings": Command("", "change settings, for this session or for later ones", self._settings),
            "init": Command("", "have the model write AGENTS.md, which tells it about this project", self._init),
            "tools": Command("", "list the tools of the model", self._tools),
            "skills": Command("", "list the skills", self._skills),
            "mcp": Command("", "list the MCP servers, and whether they are connected", self._mcp),
            "copy": Command("", "copy the last answer to the clipboard", self._copy),
            "reload": Command("", "load extensions, skills and templates again", self._reload),
            "help": Command("", "show commands and keys", self._help),
            "quit": Command("", "leave", self._quit),
        }

    # For the editor

    def list_all(self) -> list[Item]:
        """Return all commands with a leading slash, those of users too."""
        items = {f"/{name}": Item(f"/{name}", command.summary) for name, command in self._own.items()}
        for command in self._session.additions.slash_commands():
            items.setdefault(f"/{command.name}", Item(f"/{command.name}", f"{command.description} ({command.source})".strip()))
        return list(items.values())

    def is_own(self, name: str) -> bool:
        """Whether the chat itself has this command, and can run it without an argument."""
        command = self._own.get(name.removeprefix("/"))
        return command is not None and (not command.argument or command.argument.startswith("["))

    def arguments(self, name: str) -> list[Item]:
        """Return suggestions for the argument of a command."""
        match name:
            case "model":
                return [Item(_full_name(model), model.name) for model in self._session.models.available()]
            case "thinking":
                return [Item(level) for level in self._session.models.levels()]
            case "approval":
                return [Item(mode, summary) for mode, summary in _MODES.items()]
            case "login":
                return [Item(name) for name, _ in self._session.models.providers()]
            case _:
                return []

    async def explain_unknown(self, text: str) -> str | None:
        """Return what to tell the user if a text names a command that does not exist: a prompt costs money. Else return None."""
        found = _COMMAND.match(text)
        if found is None or await asyncio.to_thread(os.path.lexists, found[0]):
            return None
        near = self._near(found[0])
        if near != found[0]:  # an extension that is being loaded may bring it
            await self._session.extensions.ready()
            near = self._near(found[0])
        if near == found[0]:
            return None
        if near is not None:
            return f"There is no command {found[0]}. Did you mean {near}?"
        if self._session.additions.servers is not None:  # a server that is still starting may bring it
            return None
        return f"There is no command {found[0]}. /help lists the commands. To send it as a prompt, put a space before it."

    def _near(self, name: str) -> str | None:
        """Return the command with this name, else one that resembles it, else None."""
        known = [item.text for item in self.list_all()]
        return name if name in known else next(iter(get_close_matches(name.lower(), known, 1, 0.75)), None)

    def knows(self, text: str) -> bool:
        """Whether a text is a command of the chat."""
        return _split(text)[0] in self._own

    async def run(self, text: str) -> None:
        """Run a command of the chat. What goes wrong is shown."""
        name, argument = _split(text)
        try:
            await self._own[name].run(argument)
        except (FairleadError, OSError) as error:
            self._chat.note(str(error), "error")

    # Models

    async def _model(self, argument: str) -> None:
        models = self._session.models.available()
        if argument:
            self._use_model(argument, models)
            return
        if not models:
            choice = await self._chat.agent.choose_model()
            self._chat.note(choice.why, "warning" if choice.model is None else "dim")
            return
        here = self._session.model
        choices = [Choice(_full_name(model), model, model.name, model.name) for model in models]
        selected = next((number for number, model in enumerate(models) if model == here), 0)
        picked: Model | None = await self._chat.ask(Picker("Model", choices, selected=selected))
        if picked is not None:
            self._session.models.set_model(picked.provider, picked.id)
            self._chat.note(f"{_full_name(picked)} answers from now on.")

    def _use_model(self, pattern: str, models: list[Model]) -> None:
        exact = next((model for model in models if pattern in (model.id, _full_name(model))), None)
        if exact is not None:
            model, level = self._session.models.set_model(exact.provider, exact.id), None
        else:
            try:
                model, level = self._chat.agent.registry.match(pattern)
            except ModelNotFound as error:
                raise ModelNotFound(str(error).replace(_FLAG_ADVICE, "/model lists those that can be used.")) from error
            if self._session.models.find(model.provider, model.id) is None:
                raise ModelNotFound(f"No model matches {pattern!r}. /model lists those that can be used.")
            self._session.models.set_model(model.provider, model.id)
        if level is not None:
            self._session.models.set_thinking(level)
        self._chat.note(f"{_full_name(model)} answers from now on.")

    async def _thinking(self, argument: str) -> None:
        levels = self._session.models.levels()
        if not argument:
            here = self._session.thinking
            choices = [Choice(level, level) for level in levels]
            selected = levels.index(here) if here in levels else 0
            argument = await self._chat.ask(Picker("Thinking level", choices, filtered=False, selected=selected)) or ""
        if argument in levels:
            self._session.models.set_thinking(argument)  # pyright: ignore[reportArgumentType]
            self._chat.note(f"The thinking level is {self._session.thinking}.")
        elif argument:
            self._chat.note(f"This model has no thinking level {argument!r}. Its levels are: {', '.join(levels)}.", "error")

    def cycle_thinking(self) -> None:
        """Choose the next thinking level."""
        level = self._session.models.cycle_thinking()
        self._chat.note("This model has one thinking level only." if level is None else f"The thinking level is {level}.")

    async def _login(self, argument: str) -> None:
        await _log_in(self._chat, argument)

    # Sessions

    async def _resume(self, argument: str) -> None:
        await pick_session(self._chat)

    async def _tree(self, argument: str) -> None:
        await pick_place(self._chat)

    async def _fork(self, argument: str) -> None:
        await pick_fork(self._chat)

    async def _new(self, argument: str) -> None:
        await self._session.history.new()
        self._chat.note("A new session.", "accent")

    async def _compact(self, argument: str) -> None:
        try:
            await self._session.compact(argument or None)
        except FairleadError as error:
            if not self._chat.transcript.has_said(str(error)):
                raise

    async def _name(self, argument: str) -> None:
        if not argument:
            name = self._session.history.name
            self._chat.note(f"This session is called {name}." if name else "This session has no name. Set one with /name TEXT.")
            return
        self._session.history.set_name(argument)
        self._chat.note(f"This session is called {self._session.history.name}.")

    async def _cost(self, argument: str) -> None:
        totals, context = self._session.usage.totals, self._session.usage.context
        tokens = totals.tokens
        lines = [
            f"{dollars(totals.cost)} in this session: {tokens.input:,} tokens in, {tokens.output:,} out,"
            f" {tokens.cache_read:,} read from the cache, {tokens.cache_write:,} written to it.",
            f"{format_count(totals.user_messages, 'prompt')}, {format_count(totals.assistant_messages, 'answer')},"
            f" {format_count(totals.tool_calls, 'tool call')}.",
        ]
        if context is not None and context.tokens is not None and context.window:
            lines.append(f"Context: {context.tokens:,} of {context.window:,} tokens ({context.percent:.0f}%).")
        self._chat.note("\n".join(lines))

    async def _export(self, argument: str) -> None:
        source = self._session.history.path
        if source is None or not source.exists():
            self._chat.note("There is nothing to export: this session is not saved in a file.", "warning")
            return
        workspace = self._session.host.workspace
        if argument[:1] in ("'", '"') and argument[1:].endswith(argument[0]):  # a name with spaces, as one writes it in a shell
            argument = argument[1:-1]
        target = workspace.resolve(argument) if argument else workspace.cwd / f"fairlead-session-{source.stem}.html"
        written = await asyncio.to_thread(export_file, source, target)
        self._chat.note(f"Written to {written}.")

    # Other things

    async def _approval(self, argument: str) -> None:
        if not argument:
            choices = [Choice(mode, mode, summary) for mode, summary in _MODES.items()]
            selected = list(_MODES).index(self._session.approvals.mode)
            argument = await self._chat.ask(Picker("Tool calls", choices, filtered=False, selected=selected)) or ""
        if argument in _MODES:
            self._session.approvals.set_mode(argument)  # pyright: ignore[reportArgumentType]
            self._chat.note(f"Approval mode {argument}: {_MODES[argument]}.")
        elif argument:
            self._chat.note(f"There is no approval mode {argument!r}. The modes are: {', '.join(_MODES)}.", "error")

    async def _settings(self, argument: str) -> None:
        await change_settings(self._chat)

    async def _init(self, argument: str) -> None:
        await self._chat.sender.send(f"{_INIT} {argument}".strip())

    async def _tools(self, argument: str) -> None:
        await show_tools(self._chat)

    async def _skills(self, argument: str) -> None:
        await show_skills(self._chat)

    async def _mcp(self, argument: str) -> None:
        await show_servers(self._chat)

    async def _copy(self, argument: str) -> None:
        answers = [message.text().strip() for message in self._session.messages if isinstance(message, AssistantMessage)]
        text = next(filter(None, reversed(answers)), None)
        if text is None:
            self._chat.note("There is no answer to copy yet.")
        elif await copy_text(self._chat, text):
            self._chat.note(f"Copied the last answer ({format_count(len(text), 'character')}).")
        else:
            self._chat.note(
                f"Asked the terminal to copy the last answer ({format_count(len(text), 'character')}). Not all terminals do that."
            )

    async def _reload(self, argument: str) -> None:
        self._session.additions.reload()
        names = await self._chat.agent.reload_extensions()
        self._chat.note(f"Loaded again. Extensions: {', '.join(names) or 'none'}.")

    async def _help(self, argument: str) -> None:
        commands = {f"/{name} {command.argument}": command.summary for name, command in self._own.items()}
        self._chat.show_lists({"Commands": commands, "Keys": _KEYS, "What you can type": _TYPED})

    async def _quit(self, argument: str) -> None:
        self._chat.leave(0)


async def _log_in(chat: Chat, provider: str) -> None:
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


def _split(text: str) -> tuple[str, str]:
    """Return the name and the argument of a command; an empty name if the text is not one."""
    found = re.match(r"/(\S+)(?:\s+(.*))?", text, re.DOTALL)
    if found is None:
        return "", ""
    name, argument = found[1], found[2] or ""
    return _OTHER_NAMES.get(name, name), argument.strip()


def _full_name(model: Model) -> str:
    return f"{model.provider}/{model.id}"
