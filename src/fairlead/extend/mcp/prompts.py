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
    """Return the slash commands of all prompts. Prompts with spaces in their names are left out."""
    return [
        SlashCommand(f"{COMMAND}{key}:{prompt.name}", _description(prompt), "prompt", server.config.origin)
        for key, server in servers.items()
        for prompt in server.offer.prompts
        if prompt.name.split() == [prompt.name]
    ]


async def expand_prompt(text: str, servers: Mapping[str, McpServer], cancel: Cancel) -> tuple[str, list[ImageContent]]:
    """Return the text and images that a slash command of a prompt stands for. Raises ConfigError if there is no such prompt."""
    from fairlead.extend.mcp.results import prompt_text

    words = text[1:].split(None, 1)
    command, written = words[0], words[1].strip() if len(words) > 1 else ""
    key, _, name = command.removeprefix(COMMAND).partition(":")
    server = servers.get(key)
    prompt = next((each for each in server.offer.prompts if each.name == name), None) if server is not None else None
    if server is None or prompt is None:
        known = ", ".join(f"/{each.name}" for each in prompt_commands(servers))
        raise ConfigError(f"There is no prompt /{command}. The prompts are: {known or 'none'}.")
    arguments = _arguments(command, prompt, written)

    async def ask(session: ClientSession) -> types.GetPromptResult:
        return await session.get_prompt(name, arguments)

    try:
        answer = await server.request(f"/{command}", ask, cancel)
    except ToolError as error:
        raise ConfigError(str(error)) from None
    return prompt_text(answer, key)


def _arguments(command: str, prompt: types.Prompt, written: str) -> dict[str, str]:
    """Match the words after a command with the arguments of a prompt.

    `name=value` sets the argument of that name. Other words fill the remaining arguments in order; the last one gets all words
    left.
    """
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
    for index, name in enumerate(free[: len(unnamed)]):
        is_last = index == len(free) - 1
        given[name] = " ".join(unnamed[index:]) if is_last else unnamed[index]
    missing = [argument.name for argument in prompt.arguments or [] if argument.required and argument.name not in given]
    if missing:
        raise ConfigError(f"/{command} needs {', '.join(missing)}: /{command} {_usage(prompt)}")
    return given


def _description(prompt: types.Prompt) -> str:
    about = prompt.description or prompt.title or prompt.name
    return f"{about} {_usage(prompt)}".strip()


def _usage(prompt: types.Prompt) -> str:
    return " ".join(f"<{each.name}>" if each.required else f"[{each.name}]" for each in prompt.arguments or [])
