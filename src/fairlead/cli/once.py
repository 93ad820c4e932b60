"""Print and JSON mode: run the prompts of the command line, one after another, and exit."""

from __future__ import annotations

import asyncio
import io
import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.cli.build import build_agent
from fairlead.cli.flags import Arguments, UsageError
from fairlead.core.lenient import scrub_text
from fairlead.core.messages import ImageContent
from fairlead.core.model import ABORTED
from fairlead.errors import ConfigError, FairleadError, ProviderError, RunAborted

if TYPE_CHECKING:
    from types import FrameType

    from _typeshed import ReadableBuffer

    from fairlead.agent import Agent
    from fairlead.wire.pi.profile import Profile


def once(arguments: Arguments, profile: Profile) -> int:
    """Answer the prompts. The exit code is 1 if the last run failed."""
    before, prompts, images = _prompts(arguments)
    if not before and not prompts:
        raise UsageError(
            "There is nothing to do: give a prompt, or --mode rpc to serve a host. "
            "(The chat in the terminal is not available yet.)"
        )
    agent = build_agent(arguments, profile)
    return asyncio.run(_Once(agent, arguments, profile).run(_expanded(agent, before, prompts), images))


def _expanded(agent: Agent, before: str, prompts: list[str]) -> list[str]:
    """The prompts as they are asked. A slash command is one also behind what was piped in, which itself is none then."""
    if not prompts:
        return [agent.session.expanded(before)]
    first, *rest = [agent.session.expanded(text) for text in prompts]
    return ["\n\n".join(part for part in (before, first) if part), *rest]


class _Once:
    """One invocation: its agent, its output, and what makes it stop before its time."""

    def __init__(self, agent: Agent, arguments: Arguments, profile: Profile) -> None:
        self._agent = agent
        self._arguments = arguments
        self._profile = profile
        self._stdout = _Stdout(self._stop)
        self._stopped = False
        self._asking: asyncio.Task[str] | None = None

    async def run(self, prompts: list[str], images: list[ImageContent]) -> int:
        self._catch_signals(asyncio.get_running_loop())
        async with self._agent:
            if self._arguments.mode == "json":
                self._write_events()
            for index, prompt in enumerate(prompts):
                if self._stopped:
                    break
                self._asking = asyncio.create_task(self._agent.ask(prompt, images if index == 0 else None, expand=False))
                try:
                    await self._asking
                except (ProviderError, RunAborted):
                    continue  # what counts is how the last run ended
                except FairleadError as error:
                    return self._failed(str(error))
                except asyncio.CancelledError:
                    break
        return self._conclude()

    def _write_events(self) -> None:
        from fairlead.wire.json_lines import JsonLines

        lines = JsonLines(self._stdout, self._agent, self._profile, "delta" if self._arguments.updates == "delta" else "full")
        lines.header()

    def _conclude(self) -> int:
        """Print the answer, or say why there is none. The exit code."""
        end = self._agent.session.last_end
        if end is not None and not self._stopped and end.message.stop_reason not in ("error", "aborted"):
            if self._arguments.mode != "json":
                self._stdout.write(end.message.text().encode("utf-8", "replace") + b"\n")
            if self._stdout.error is None:
                return 0
        error = self._stdout.error
        if isinstance(error, BrokenPipeError):
            return 1  # whoever closed the other end of the pipe knows
        if error is not None:
            return self._failed(f"Cannot write to standard output: {error.strerror}.")
        if self._stopped or end is None:
            return self._failed(ABORTED)
        return self._failed(end.message.error_message or "The model failed without saying why.")

    def _failed(self, error: str) -> int:
        sys.stderr.write(f"Error: {error}\n")
        return 1

    def _catch_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        """The first signal stops the run and skips the prompts that are left; the next ends the process as it would any other.

        The handlers are not the event loop's own, which must wait while a write blocks it.
        """

        def interrupt(number: int, frame: FrameType | None) -> None:
            for name in signals:
                signal.signal(name, signal.SIG_DFL)
            loop.call_soon_threadsafe(self._stop)

        signals = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
        for name in signals:
            signal.signal(name, interrupt)

    def _stop(self) -> None:
        self._stopped = True
        if self._asking is not None:
            self._asking.cancel()


class _Stdout(io.FileIO):
    """Standard output. A failure to write is told once and kept; what follows is dropped."""

    def __init__(self, on_error: Callable[[], None]) -> None:
        super().__init__(sys.stdout.fileno(), "w", closefd=False)
        self.error: OSError | None = None
        self._on_error = on_error

    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data)
        size = len(view)
        while view and self.error is None:
            try:
                view = view[os.write(self.fileno(), view) :]
            except BlockingIOError:  # whoever gave it to us made it non-blocking
                select.select([], [self.fileno()], [])
            except OSError as error:
                self.error = error
                self._on_error()
        return size


def _prompts(arguments: Arguments) -> tuple[str, list[str], list[ImageContent]]:
    """What comes before the first prompt (piped input, then files), the prompts, and the images of the first one.

    Arguments and file names may hold bytes that are no text; models and hosts get U+FFFD for them.
    """
    before: list[str] = []
    images: list[ImageContent] = []
    if not sys.stdin.isatty():
        before.append(sys.stdin.buffer.read().decode("utf-8", "replace").strip())
    for word in arguments.words:
        if word.startswith("@"):
            text, image = _file(word[1:])
            before.append(text)
            images += [image] if image else []
    prompts = [word for word in arguments.words if not word.startswith("@")]
    return scrub_text("\n\n".join(part for part in before if part)), [scrub_text(text) for text in prompts], images


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
