"""Print and JSON mode: run the prompts of the command line, one after another, and exit."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.cli.flags import Arguments, UsageError
from fairlead.core.messages import ImageContent
from fairlead.errors import ConfigError, FairleadError

if TYPE_CHECKING:
    from fairlead.agent import Agent
    from fairlead.wire.pi.profile import Profile


def once(arguments: Arguments, make_agent: Callable[[Arguments, Profile | None], Agent], profile: Profile) -> int:
    """Answer the prompts. The exit code is 1 if the last run failed."""
    prompts, images = _prompts(arguments)
    if not prompts:
        raise UsageError(
            "There is nothing to do: give a prompt, or --mode rpc to serve a host. "
            "(The chat in the terminal is not available yet.)"
        )
    agent = make_agent(arguments, profile)
    try:
        return asyncio.run(_run(agent, arguments, profile, prompts, images))
    except BrokenPipeError:
        # Nobody reads any more. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


async def _run(agent: Agent, arguments: Arguments, profile: Profile, prompts: list[str], images: list[ImageContent]) -> int:
    loop = asyncio.get_running_loop()
    for name in ("SIGINT", "SIGTERM"):
        loop.add_signal_handler(getattr(signal, name), agent.session.cancel)
    async with agent:
        if arguments.mode == "json":
            from fairlead.wire.json_lines import JsonLines

            lines = JsonLines(sys.stdout.buffer, agent, profile, "delta" if arguments.updates == "delta" else "full")
            lines.header()
        for index, prompt in enumerate(prompts):
            try:
                await agent.ask(prompt, images if index == 0 else None)
            except FairleadError as error:
                sys.stderr.write(f"Error: {error}\n")
                return 1
    end = agent.session.last_end
    assert end is not None, "a run that was accepted has an end"
    failed = end.message.stop_reason in ("error", "aborted")
    if failed:
        sys.stderr.write(f"Error: {end.message.error_message}\n")
    if arguments.mode != "json" and not failed:
        sys.stdout.write(end.message.text() + "\n")
    sys.stdout.flush()
    return 1 if failed else 0


def _prompts(arguments: Arguments) -> tuple[list[str], list[ImageContent]]:
    """The prompts: piped input and files belong to the first one, in this order, before its text."""
    before: list[str] = []
    images: list[ImageContent] = []
    if not sys.stdin.closed and not sys.stdin.isatty():
        before.append(sys.stdin.buffer.read().decode("utf-8", "replace").strip())
    for word in arguments.words:
        if word.startswith("@"):
            text, image = _file(word[1:])
            before.append(text)
            images += [image] if image else []
    prompts = [word for word in arguments.words if not word.startswith("@")]
    first = "\n\n".join(part for part in [*before, *prompts[:1]] if part)
    return ([first, *prompts[1:]] if first or prompts else []), images


def _file(name: str) -> tuple[str, ImageContent | None]:
    path = Path(name).expanduser()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"@{name}: {error.strerror}") from error
    kind = _image_type(data)
    if kind is not None:
        import base64

        return f'<file name="{path.absolute()}"></file>', ImageContent(base64.b64encode(data).decode(), kind)
    return f'<file name="{path.absolute()}">\n{data.decode("utf-8", "replace")}\n</file>', None


def _image_type(data: bytes) -> str | None:
    from fairlead.tools.images import image_type

    return image_type(data)
