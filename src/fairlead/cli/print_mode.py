"""Print and JSON mode: run the prompts of the command line one after another, then exit."""

from __future__ import annotations

import asyncio
import io
import os
import select
import signal
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.cli.build import build_agent, choose_model, limit_time
from fairlead.cli.console import complain
from fairlead.cli.flags import Arguments, UsageError
from fairlead.cli.start import run
from fairlead.config.process import start_thread
from fairlead.core.lenient import scrub_text
from fairlead.core.messages import ImageContent
from fairlead.core.partial_message import ABORTED
from fairlead.errors import ConfigError, FairleadError, ProviderError, RunAborted
from fairlead.tools.workspace import readable

if TYPE_CHECKING:
    from types import FrameType

    from _typeshed import ReadableBuffer

    from fairlead.agent import Agent
    from fairlead.config.files import Check
    from fairlead.wire.dialects import Program
    from fairlead.wire.pi.profile import Profile
    from fairlead.wire.pi.updates import Form

NOTHING_TO_DO = "There is nothing to do. Give a prompt, or --mode rpc to serve a host."

#: The largest size of standard input, and of a file on the command line, in bytes.
MOST_INPUT = 64 * 1024 * 1024
_TOO_MUCH = f"more than {MOST_INPUT >> 20} MiB, which no model can read. Give part of it."


def run_prompts(argv: Sequence[str], arguments: Arguments, profile: Profile, program: Program) -> int:
    """Run the prompts and print the answers. Returns 1 if the last run failed, else 0."""
    piped = "" if sys.stdin.isatty() else _read_input()
    if not piped and not arguments.words and not arguments.unknown:
        raise UsageError(NOTHING_TO_DO)
    agent = build_agent(arguments, profile, program)
    return run(_answer(agent, argv, arguments, profile, piped, _Stdout()))


def _read_input() -> str:
    """Read all of standard input. Raises ConfigError if it is too long for any model."""
    data = sys.stdin.buffer.read(MOST_INPUT + 1)
    if len(data) > MOST_INPUT:
        raise ConfigError(f"Standard input has {_TOO_MUCH}")
    return data.decode("utf-8", "replace").strip()


async def _answer(agent: Agent, argv: Sequence[str], arguments: Arguments, profile: Profile, piped: str, stdout: _Stdout) -> int:
    await agent.extensions.load_required()
    if arguments.unknown:
        from fairlead.cli.build import parse_extension_flags

        arguments = await parse_extension_flags(agent, argv, arguments)
        if not piped and not arguments.words:
            raise UsageError(NOTHING_TO_DO)
    await agent.extensions.find_model()
    await choose_model(agent)
    limit_time(agent, arguments)
    before, prompts, images = read_prompts(piped, arguments.words, agent)
    await agent.session.additions.prepare()
    return await _Invocation(agent, arguments, profile, stdout).run(_expanded(agent, before, prompts), images)


def _expanded(agent: Agent, before: str, prompts: list[str]) -> list[tuple[str, bool]]:
    """Return the prompts with templates and skills expanded, and whether each may still be a slash command of an extension.

    A slash command also works after piped input. Piped input itself is never a command.
    """
    texts = prompts or [before]
    expanded = [agent.session.additions.expand(text) for text in texts]
    asked = [(new, new == text) for new, text in zip(expanded, texts, strict=True)]
    return [(f"{before}\n\n{expanded[0]}", False), *asked[1:]] if before and prompts else asked


class _Invocation:
    """One invocation of the command: its agent, its output, and what stops it early."""

    def __init__(self, agent: Agent, arguments: Arguments, profile: Profile, stdout: _Stdout) -> None:
        self._agent = agent
        self._arguments = arguments
        self._profile = profile
        self._stdout = stdout
        stdout.on_error = self._stop
        self._stopped = False
        self._asking: asyncio.Task[None] | None = None

    async def run(self, prompts: list[tuple[str, bool]], images: list[ImageContent]) -> int:
        self._catch_signals(asyncio.get_running_loop())
        # This runs while the model answers. The process does not wait for it when it exits.
        start_thread(self._agent.clear_leftovers, "fairlead-leftovers")
        async with self._agent:
            if self._arguments.mode == "json":
                self._write_events()
            for index, (prompt, expand) in enumerate(prompts):
                if self._stopped or self._agent.shutdown_requested:
                    break
                self._asking = asyncio.create_task(self._ask(prompt, images if index == 0 else None, expand))
                try:
                    await self._asking
                except (ProviderError, RunAborted):
                    continue  # the exit code depends on the last run
                except FairleadError as error:
                    return self._failed(str(error))
                except asyncio.CancelledError:
                    break
        return self._conclude()

    async def _ask(self, prompt: str, images: list[ImageContent] | None, expand: bool) -> None:
        await self._agent.ask(prompt, images, expand=expand)
        await self._agent.idle()

    def _write_events(self) -> None:
        form = "delta" if self._arguments.updates == "delta" else "full"
        _EventLines(self._stdout, self._agent, self._profile, form).write_header()

    def _conclude(self) -> int:
        """Print the answer, or the reason why there is none. Returns the exit code."""
        end = self._agent.session.activity.last_end
        if end is not None and not self._stopped and end.message.stop_reason not in ("error", "aborted"):
            if self._arguments.mode != "json":
                self._stdout.write(end.message.text().encode("utf-8", "replace") + b"\n")
            if self._stdout.error is None:
                return 0
        error = self._stdout.error
        if isinstance(error, BrokenPipeError):
            return 1  # the reader closed the pipe, so it knows
        if error is not None:
            return self._failed(f"Cannot write to standard output: {error.strerror}.")
        if self._stopped:
            return self._failed(ABORTED)
        if end is None:
            return 0  # extensions handled all prompts
        if self._arguments.mode == "json" and self._profile.json_mode_succeeds:
            return 0  # the events say what failed
        return self._failed(end.message.error_message or "The model failed without saying why.")

    def _failed(self, error: str) -> int:
        complain(f"Error: {error}")
        return 1

    def _catch_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop the run and skip the remaining prompts at the first signal. The next signal has its default effect.

        These are not handlers of the event loop, which could not run while a write blocks it.
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


class _EventLines:
    """Writes the events of an agent as lines, as they happen. A slow reader blocks the agent, as is usual in a pipeline."""

    def __init__(self, stdout: _Stdout, agent: Agent, profile: Profile, form: Form) -> None:
        from fairlead.wire.connection import HostOutput
        from fairlead.wire.pi.serve import server_type
        from fairlead.wire.pi.updates import ChunkedOutlet, Pacing, Updates

        self._stdout = stdout
        self._agent = agent
        self._output = HostOutput(self._write, limit=agent.settings.output.queue_bytes)
        outlet = ChunkedOutlet(self._output)
        updates = Updates(outlet, Pacing.of(agent.settings.output), form)
        frames = server_type(profile).events_type(outlet, profile, updates)
        agent.session.subscribe(frames.send_event)

    def write_header(self) -> None:
        """Write the first line: the header of the session, as in a session file."""
        from fairlead.session.history.entries import encode_line

        self._output.send(encode_line(self._agent.session.history.log.header) + b"\n")

    def _write(self, frame: bytes) -> None:
        self._stdout.write(frame)
        self._output.written(len(frame))


class _Stdout(io.FileIO):
    """Standard output. After the first failure to write, which `on_error` reports, the rest is dropped."""

    def __init__(self) -> None:
        # A private copy: what extensions and their child processes print goes to stderr, even while they load.
        super().__init__(os.dup(sys.stdout.fileno()), "w")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self.error: OSError | None = None
        self.on_error: Callable[[], None] = lambda: None

    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data)
        size = len(view)
        while view and self.error is None:
            try:
                view = view[os.write(self.fileno(), view) :]
            except BlockingIOError:  # the parent process made it non-blocking
                select.select([], [self.fileno()], [])
            except OSError as error:
                self.error = error
                self.on_error()
        return size


def read_prompts(piped: str, words: list[str], agent: Agent) -> tuple[str, list[str], list[ImageContent]]:
    """Return the text before the first prompt (piped input, then files), the prompts, and the images of the first one.

    Arguments and file names may contain bytes that are not text. Models and hosts get U+FFFD for them.

    Raises:
        ConfigError: A file cannot be read.
    """
    check = readable(agent.session.host.workspace.guard)
    before = [piped]
    images: list[ImageContent] = []
    for word in words:
        if word.startswith("@"):
            text, image = _file(word[1:], check)
            before.append(text)
            images += [image] if image else []
    prompts = [word for word in words if not word.startswith("@")]
    return scrub_text("\n\n".join(part for part in before if part)), [scrub_text(text) for text in prompts], images


def _file(name: str, check: Check | None) -> tuple[str, ImageContent | None]:
    path = Path(name).expanduser()
    try:
        mode = path.stat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):  # it might never end; a pipe ends when its writer closes it
            raise ConfigError(f"@{name}: expected a file, found a device.")
        with path.open("rb") as file:
            if check is not None:
                check(file.fileno(), path)
            data = file.read(MOST_INPUT + 1)
    except OSError as error:
        raise ConfigError(f"@{name}: {error.strerror}") from error
    if len(data) > MOST_INPUT:
        raise ConfigError(f"@{name} has {_TOO_MUCH}")
    kind = _image_type(data)
    if kind is not None:
        import base64

        return f'<file name="{path.absolute()}"></file>', ImageContent(base64.b64encode(data).decode(), kind)
    return f'<file name="{path.absolute()}">\n{data.decode("utf-8", "replace")}\n</file>', None


def _image_type(data: bytes) -> str | None:
    from fairlead.core.images import image_type

    return image_type(data)
