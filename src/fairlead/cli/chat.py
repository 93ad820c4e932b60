"""Starts the terminal chat: `fairlead` on a terminal, with or without prompts."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from msgspec.structs import replace

import fairlead
from fairlead import __version__
from fairlead.chat import app
from fairlead.chat.view.screen import Screen
from fairlead.chat.view.theme import choose
from fairlead.cli import advice, build
from fairlead.cli import print_mode as prompt_reading
from fairlead.cli.console import keep_tracebacks_off_stderr, print_text
from fairlead.cli.event_loop import run
from fairlead.cli.flags import Arguments
from fairlead.config.extras import install_command
from fairlead.errors import ConfigError
from fairlead.sessions.catalogue import short_id
from fairlead.tools import workspace

if TYPE_CHECKING:
    from fairlead.agent import Agent
    from fairlead.agent.options import AgentOptions
    from fairlead.chat.input.terminal import Terminal
    from fairlead.core.messages import ImageContent
    from fairlead.wire.dialects import Program
    from fairlead.wire.pi.profile import Profile

#: What the chat needs beside the engine: the extra `chat`.
_NEEDED = ("prompt_toolkit", "markdown_it", "pygments")
#: Seconds to wait for the terminal to say which background it has. Most have answered long before.
_BACKGROUND_PATIENCE = 0.1
#: Seconds between two reads of an answer in small pieces: the chat draws no more often than every 50 ms while one arrives.
_READ_INTERVAL = 0.045


def run_chat(
    argv: Sequence[str],
    arguments: Arguments,
    profile: Profile,
    program: Program,
    change: Callable[[AgentOptions], None] = lambda options: None,
) -> int:
    """Chat with the user until they leave. `change` may change the options of the agent. Returns the exit code.

    Raises:
        ConfigError: A package that the chat needs is missing, or the command line asks for something impossible.
    """
    if find_spec("termios") is None or os.environ.get("TERM") == "dumb":
        raise ConfigError("The chat needs a terminal that can move its cursor. `fairlead -p PROMPT` answers one prompt anywhere.")
    if any(find_spec(name) is None for name in _NEEDED):
        raise ConfigError(
            f"The chat needs packages that are not installed. This installs them: {install_command('chat')}\n"
            "Without them, `fairlead -p PROMPT` answers one prompt."
        )

    keep_tracebacks_off_stderr(os.environ)
    gc.disable()  # until everything is loaded: imports create many objects and free hardly any
    return run(_chat(argv, arguments, profile, program, change))


async def _chat(
    argv: Sequence[str], arguments: Arguments, profile: Profile, program: Program, change: Callable[[AgentOptions], None]
) -> int:
    from fairlead.chat.input.terminal import Terminal  # noqa: PLC0415  needs POSIX

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
        options = _options(arguments, profile, program, warn)
        change(options)
        try:
            chat = await _build(argv, arguments, profile, options, terminal, screen, said)
        except BaseException:
            screen.show([])
            screen.flush()
            raise
        code = await chat.run()
    history = chat.session.history
    if history.path is not None and history.count and history.path.exists():
        print_text("")
        print_text(f"Continue this session with: fairlead --resume {short_id(history.id)}")
    return code


async def _build(
    argv: Sequence[str],
    arguments: Arguments,
    profile: Profile,
    agent_options: AgentOptions,
    terminal: Terminal,
    screen: Screen,
    said: list[str],
) -> app.Chat:
    agent = fairlead.Agent(agent_options)  # the user sees the editor before this is loaded
    build.log_choices(agent, profile.name)
    arguments = await build.parse_extension_flags(agent, argv, arguments)
    build.limit_time(agent, arguments)
    background, typed = terminal.background(_BACKGROUND_PATIENCE)
    prompts, images = _prompts(arguments.words, agent)
    options = app.ChatOptions(
        prompts=prompts,
        images=images,
        pick_session=arguments.resume_named == "",
        resume_run=arguments.resume_run,
        remarks=said,
        version=__version__,
        explain=partial(advice.explain_in_chat, agent),
    )
    chat = app.Chat(agent, terminal, screen, choose(os.environ, background), options, typed)
    gc.enable()
    return chat


def _prompts(words: list[str], agent: Agent) -> tuple[list[str], list[ImageContent]]:
    """Return the prompts of the command line, the first with the files that are named as @name, and its images."""
    before, prompts, images = prompt_reading.read_prompts("", words, workspace.readable(agent.session.host.workspace.guard))
    return ([f"{before}\n\n{prompts[0]}" if prompts else before, *prompts[1:]] if before else prompts), images


def _options(arguments: Arguments, profile: Profile, program: Program, warn: Callable[[str], None]) -> AgentOptions:
    options = build.agent_options(arguments, profile, program)
    if arguments.resume_named == "":  # the user picks one
        options.resume = arguments.resume or arguments.session == ""
    options.behaviour = replace(
        options.behaviour,
        mode="rpc",  # for extensions: there is a user who answers, and nothing that draws for them
        warn=warn,
        alert=warn,
        read_interval=_READ_INTERVAL,
    )
    return options
