"""Starts the terminal chat: `fairlead` on a terminal, with or without prompts."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from fairlead import __version__
from fairlead.cli.console import say
from fairlead.cli.flags import Arguments
from fairlead.errors import ConfigError

if TYPE_CHECKING:
    from fairlead.agent import Agent
    from fairlead.agent.options import AgentOptions
    from fairlead.chat.app import Chat
    from fairlead.chat.input.terminal import Terminal
    from fairlead.chat.view.screen import Screen
    from fairlead.core.messages import ImageContent
    from fairlead.wire.dialects import Program
    from fairlead.wire.pi.profile import Profile

#: What the chat needs beside the engine: the extra `chat`.
_NEEDED = ("prompt_toolkit", "markdown_it", "pygments")
#: Seconds to wait for the terminal to say which background it has. Most have answered long before.
_BACKGROUND_PATIENCE = 0.1
#: Seconds between two reads of an answer in small pieces: the chat draws no more often than every 50 ms while one arrives.
_READ_INTERVAL = 0.045


def run_chat(argv: Sequence[str], arguments: Arguments, profile: Profile, program: Program) -> int:
    """Chat with the user until they leave. Returns the exit code.

    Raises:
        ConfigError: A package that the chat needs is missing, or the command line asks for something impossible.
    """
    if find_spec("termios") is None or os.environ.get("TERM") == "dumb":
        raise ConfigError("The chat needs a terminal that can move its cursor. `fairlead -p PROMPT` answers one prompt anywhere.")
    if any(find_spec(name) is None for name in _NEEDED):
        from fairlead.config.extras import install_command

        raise ConfigError(
            f"The chat needs packages that are not installed. This installs them: {install_command('chat')}\n"
            "Without them, `fairlead -p PROMPT` answers one prompt."
        )
    from fairlead.cli.event_loop import run

    gc.disable()  # until everything is loaded: imports create many objects and free hardly any
    return run(_chat(argv, arguments, profile, program))


async def _chat(argv: Sequence[str], arguments: Arguments, profile: Profile, program: Program) -> int:
    import asyncio

    from fairlead.chat.input.terminal import Terminal
    from fairlead.chat.view.screen import Screen

    loop = asyncio.get_running_loop()
    said: list[str] = []

    def show(text: str) -> None:
        if chat is None:
            said.append(text)
        else:
            chat.note(text, "warning")

    def warn(text: str) -> None:
        if chat is None:
            said.append(text)
        else:
            chat.warn(text)

    chat = None
    with Terminal(lambda line: loop.call_soon_threadsafe(show, line)) as terminal:
        terminal.ask_background()
        screen = Screen(terminal.write, terminal.size)
        # Most of the start is spent on imports. The user sees the editor before that, and can type.
        screen.show(["> "], (0, 2))
        screen.flush()
        try:
            chat = await _build(argv, arguments, profile, program, terminal, screen, said, warn)
        except BaseException:
            screen.show([])
            screen.flush()
            raise
        code = await chat.run()
    history = chat.session.history
    if history.path is not None and history.count and history.path.exists():
        from fairlead.sessions.places import short_id

        say("")
        say(f"Continue this session with: fairlead --resume {short_id(history.id)}")
    return code


async def _build(
    argv: Sequence[str],
    arguments: Arguments,
    profile: Profile,
    program: Program,
    terminal: Terminal,
    screen: Screen,
    said: list[str],
    warn: Callable[[str], None],
) -> Chat:
    from fairlead.agent import Agent
    from fairlead.chat.app import Chat, ChatOptions
    from fairlead.chat.view.theme import choose
    from fairlead.cli.advice import explained_in_chat
    from fairlead.cli.build import limit_time, log_choices, parse_extension_flags

    agent = Agent(_options(arguments, profile, program, warn))
    log_choices(agent, profile.name)
    arguments = await parse_extension_flags(agent, argv, arguments)
    limit_time(agent, arguments)
    background, typed = terminal.background(_BACKGROUND_PATIENCE)
    prompts, images = _prompts(arguments.words, agent)
    options = ChatOptions(
        prompts=prompts,
        images=images,
        pick_session=arguments.resume_named == "",
        resume_run=arguments.resume_run,
        remarks=said,
        version=__version__,
        explain=partial(explained_in_chat, agent),
    )
    chat = Chat(agent, terminal, screen, choose(os.environ, background), options, typed)
    gc.enable()
    return chat


def _prompts(words: list[str], agent: Agent) -> tuple[list[str], list[ImageContent]]:
    """Return the prompts of the command line, the first with the files that are named as @name, and its images."""
    from fairlead.cli.printing.prompts import read_prompts
    from fairlead.tools.workspace import readable

    before, prompts, images = read_prompts("", words, readable(agent.session.host.workspace.guard))
    return ([f"{before}\n\n{prompts[0]}" if prompts else before, *prompts[1:]] if before else prompts), images


def _options(arguments: Arguments, profile: Profile, program: Program, warn: Callable[[str], None]) -> AgentOptions:
    from fairlead.cli.build import agent_options

    options = agent_options(arguments, profile, program)
    if arguments.resume_named == "":  # the user picks one
        options.resume = arguments.resume or arguments.session == ""
    options.mode = "rpc"  # for extensions: there is a user who answers, and nothing that draws for them
    options.warn = options.alert = warn
    options.read_interval = _READ_INTERVAL
    return options
