"""Starts the terminal chat: `fairlead` on a terminal, with or without prompts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from fairlead import __version__
from fairlead.cli.flags import Arguments
from fairlead.core.lenient import scrub_text
from fairlead.errors import ConfigError

if TYPE_CHECKING:
    from fairlead.agent.options import AgentOptions
    from fairlead.wire.dialects import Program
    from fairlead.wire.pi.profile import Profile

#: What the chat needs beside the engine: the extra `chat`.
_NEEDED = ("prompt_toolkit", "markdown_it", "pygments")


def run_chat(argv: Sequence[str], arguments: Arguments, profile: Profile, program: Program) -> int:
    """Chat with the user until they leave. Returns the exit code.

    Raises:
        ConfigError: A package that the chat needs is missing, or the command line asks for something impossible.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"The chat needs packages that are not installed: {', '.join(missing)}. They are the extra `chat` of this"
            " distribution: install `fairlead[chat]` from where fairlead itself came, or run `make run` in its source directory."
            " Without them, `fairlead -p PROMPT` answers one prompt."
        )
    from fairlead.cli.start import run

    return run(_chat(argv, arguments, profile, program))


async def _chat(argv: Sequence[str], arguments: Arguments, profile: Profile, program: Program) -> int:
    import asyncio

    from fairlead.chat.terminal import Terminal

    loop = asyncio.get_running_loop()
    said: list[str] = []

    def show(text: str) -> None:
        if chat is None:
            said.append(text)
        else:
            chat.note(text, "warning")

    chat = None
    with Terminal(lambda line: loop.call_soon_threadsafe(show, line)) as terminal:
        terminal.ask_background()
        from fairlead.agent import Agent
        from fairlead.chat.app import Chat, ChatOptions
        from fairlead.chat.theme import choose
        from fairlead.cli.build import limit_time, log_choices, parse_extension_flags

        options = _options(arguments, profile, program, show)
        agent = Agent(options)
        log_choices(agent, profile.name)
        arguments = await parse_extension_flags(agent, argv, arguments)
        background, typed = terminal.background(0.1)
        theme = choose(os.environ, background)
        picks = arguments.resume_named == ""
        prompts = _prompts(arguments.words)
        chat_options = ChatOptions(prompts=prompts, pick_session=picks, remarks=said, version=__version__)
        chat = Chat(agent, terminal, theme, chat_options, typed)
        limit_time(agent, arguments)
        return await chat.run()


def _prompts(words: Sequence[str]) -> list[str]:
    """Return the prompts of the command line. Files, as @name, belong to the first one; the chat sends images along."""
    prompts = [scrub_text(word) for word in words if not word.startswith("@")]
    files = " ".join(scrub_text(word) for word in words if word.startswith("@"))
    return [f"{files}\n{prompts[0]}" if prompts else files, *prompts[1:]] if files else prompts


def _options(arguments: Arguments, profile: Profile, program: Program, warn: object) -> AgentOptions:
    from fairlead.cli.build import agent_options

    options = agent_options(arguments, profile, program)
    if arguments.resume_named == "":  # the user picks one
        options.resume = arguments.resume or arguments.session == ""
    options.mode = "rpc"  # for extensions: there is a user who answers, and nothing that draws for them
    options.warn = options.alert = warn  # pyright: ignore[reportAttributeAccessIssue]
    return options
