"""The prompts of MCP servers, as slash commands: `/mcp:<server>:<prompt> arguments`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fairlead.core.messages import ImageContent
from fairlead.core.runtime import Cancel
from fairlead.errors import ConfigError, ToolError
from fairlead.extend.templates import split_arguments
from fairlead.session.additions import SlashCommand

if TYPE_CHECKING:
    from mcp import ClientSession, types

    from fairlead.extend.mcp.server import McpServer

COMMAND = "mcp:"


def prompt_commands(servers: Mapping[str, McpServer]) -> list[SlashCommand]:
    """All prompts, as hosts are told of them. One whose name has spaces cannot be asked for."""
    return [
        SlashCommand(f"{COMMAND}{key}:{prompt.name}", _description(prompt), "prompt", server.config.origin)
        for key, server in servers.items()
        for prompt in server.offer.prompts
        if prompt.name.split() == [prompt.name]
    ]


async def expand_prompt(text: str, servers: Mapping[str, McpServer], cancel: Cancel) -> tuple[str, list[ImageContent]]:
    """What a message that begins with such a command stands for. Raises ConfigError if it does not stand for anything."""
    from fairlead.extend.mcp.results import prompt_text

    words = text[1:].split(None, 1)
    command, written = words[0], words[1].strip() if len(words) > 1 else ""
    key, _, name = command.removeprefix(COMMAND).partition(":")
    server = servers.get(key)
    prompt = next((each for each in server.offer.prompts if each.name == name), None) if server is not None else None
    if server is None or prompt is None:
        known = ", ".join(f"/{each.name}" for each in prompt_commands(servers))
        raise ConfigError(f"There is no prompt /{command}. There are: {known or 'none'}.")
    arguments = _arguments(command, prompt, written)

    async def ask(session: ClientSession) -> types.GetPromptResult:
        return await session.get_prompt(name, arguments)

    try:
        answer = await server.request(f"/{command}", ask, cancel)
    except ToolError as error:
        raise ConfigError(str(error)) from None
    return prompt_text(answer, key)


def _arguments(command: str, prompt: types.Prompt, written: str) -> dict[str, str]:
    """The arguments of a prompt: `name=value` for those that are named, the others in order; the last one takes what is left."""
    declared = [argument.name for argument in prompt.arguments or []]
    given: dict[str, str] = {}
    unnamed: list[str] = []
    for word in split_arguments(written):
        name, equals, value = word.partition("=")
        if equals and name in declared:
            given[name] = value
        else:
            unnamed.append(word)
    free = [name for name in declared if name not in given]
    if unnamed and not free:
        raise ConfigError(f"/{command} takes no further argument: {' '.join(unnamed)}")
    for place, name in enumerate(free[: len(unnamed)]):
        is_last = place == len(free) - 1
        given[name] = " ".join(unnamed[place:]) if is_last else unnamed[place]
    missing = [argument.name for argument in prompt.arguments or [] if argument.required and argument.name not in given]
    if missing:
        raise ConfigError(f"/{command} needs {', '.join(missing)}: /{command} {_usage(prompt)}")
    return given


def _description(prompt: types.Prompt) -> str:
    about = prompt.description or prompt.title or prompt.name
    return f"{about} {_usage(prompt)}".strip()


def _usage(prompt: types.Prompt) -> str:
    return " ".join(f"<{each.name}>" if each.required else f"[{each.name}]" for each in prompt.arguments or [])
