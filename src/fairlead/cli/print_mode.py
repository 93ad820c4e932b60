"""Print and JSON mode: run the prompts of the command line one after another, then exit."""

from __future__ import annotations

import asyncio
import base64
import difflib
import re
import signal
import stat
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairlead.cli.advice import FAILED_SILENTLY, explain_end, with_way_out
from fairlead.cli.build import build_agent, choose_model, limit_time, parse_extension_flags
from fairlead.cli.console import complain
from fairlead.cli.event_loop import run
from fairlead.cli.flags import Arguments, UsageError
from fairlead.cli.print_output import EventLines, ResultRecorder, Stdout, failure_as_result, show_progress
from fairlead.config.home import expand_user
from fairlead.core import images as core_images
from fairlead.core.events import Event, ExtensionError
from fairlead.core.lenient import scrub_text
from fairlead.core.messages import ImageContent, readable_error
from fairlead.core.partial_message import ABORTED
from fairlead.errors import ConfigError, FairleadError, ProviderError, RunAborted
from fairlead.platform.process import start_thread
from fairlead.tools.workspace import readable

if TYPE_CHECKING:
    from types import FrameType

    from fairlead.agent import Agent
    from fairlead.config.project_files import Check
    from fairlead.core.model import StreamEnd
    from fairlead.wire.dialects import Program
    from fairlead.wire.pi.profile import Profile


#: The largest size of standard input, and of a file on the command line, in bytes.
MOST_INPUT = 64 * 1024 * 1024
_TOO_MUCH = f"more than {MOST_INPUT >> 20} MiB, which no model can read. Give part of it."


def read_input() -> str:
    """Read all of standard input. Raises ConfigError if it is too long for any model."""
    data = sys.stdin.buffer.read(MOST_INPUT + 1)
    if len(data) > MOST_INPUT:
        raise ConfigError(f"Standard input has {_TOO_MUCH}")
    return data.decode("utf-8", "replace").strip()


def one_prompt(words: list[str]) -> list[str]:
    """Join words that a person has written without quotes to one prompt. Files (`@name`) stay as they are.

    If one of the words contains a space, the user has used quotes. Then each word is a separate prompt.
    """
    prompts = [word for word in words if not word.startswith("@")]
    if len(prompts) < 2 or any(len(prompt.split()) != 1 for prompt in prompts):
        return words
    return [word for word in words if word.startswith("@")] + [" ".join(prompts)]


def read_prompts(piped: str, words: list[str], check: Check | None) -> tuple[str, list[str], list[ImageContent]]:
    """Return the text before the first prompt (piped input, then files), the prompts, and the images of the first one.

    Arguments and file names may contain bytes that are not text. Models and hosts get U+FFFD for them.
    """
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
    path = expand_user(name)
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
        return f'<file name="{path.absolute()}"></file>', ImageContent(base64.b64encode(data).decode(), kind)
    return f'<file name="{path.absolute()}">\n{data.decode("utf-8", "replace")}\n</file>', None


def _image_type(data: bytes) -> str | None:
    return core_images.image_type(data)


NOTHING_TO_DO = "There is nothing to do. Give a prompt: fairlead -p PROMPT. `fairlead --help` shows what else there is."
EMPTY_PROMPT = "The prompt is empty. Give a text, or pipe one in."
#: The commands that the chat has itself.
CHAT_COMMANDS = tuple(
    f"/{name}"
    for name in (
        *("model", "thinking", "resume", "tree", "fork", "new", "compact", "name", "cost", "export", "login", "approval"),
        *("reload", "help", "quit", "exit", "clear", "settings", "init", "tools", "skills", "mcp", "copy"),
    )
)
_SLASH_COMMAND = r"/[A-Za-z][\w:.-]*(?=\s|$)"
#: Added to the number of a signal, the exit code of a process that the signal ended.
_SIGNALLED = 128
#: Failures that make the exit code 1 although there is an answer: an extension that was not loaded, a slash command that
#: raised, a session that was not saved.
_FAILURES = ("load", "command", "write")


def run_prompts(argv: Sequence[str], arguments: Arguments, profile: Profile, program: Program) -> int:
    """Run the prompts and print the answers. Returns the exit code."""
    is_peer = program.dialect is not None
    if not is_peer and any(not word.strip() for word in arguments.words):
        raise UsageError(EMPTY_PROMPT)
    if not is_peer and sys.__stdout__ is None:
        raise ConfigError("Standard output is closed: the answer would be lost. Redirect it to /dev/null if you do not need it.")
    piped = "" if sys.stdin.isatty() else read_input()
    if not piped and not arguments.words and not arguments.unknown and not arguments.resume_run:
        raise UsageError(NOTHING_TO_DO)
    stdout = Stdout()
    with failure_as_result(arguments.output_format, stdout.write):
        agent = build_agent(arguments, profile, program)
        return run(_answer(_Invocation(agent, arguments, profile, stdout, is_peer=is_peer), argv, piped))


async def _answer(invocation: _Invocation, argv: Sequence[str], piped: str) -> int:
    agent, arguments = invocation.agent, invocation.arguments
    await agent.extensions.load_required()
    if arguments.unknown:
        arguments = invocation.arguments = await parse_extension_flags(agent, argv, arguments)
        if not piped and not arguments.words and not arguments.resume_run:
            raise UsageError(NOTHING_TO_DO)
    await agent.extensions.find_model()
    choice = await choose_model(agent)
    if choice.model is None:
        invocation.no_model = choice.why
    limit_time(agent, arguments, invocation.note_late)
    before, prompts, images = read_prompts(piped, arguments.words, readable(agent.session.host.workspace.guard))
    await agent.session.additions.prepare()
    if not invocation.is_peer:
        _refuse_misspelt_slash_command(agent, prompts)
    asked: list[tuple[str | None, bool]] = [*_expand_prompts(agent, before, prompts)] if before or prompts else []
    return await invocation.run([(None, False), *asked] if arguments.resume_run else asked, images)


def _refuse_misspelt_slash_command(agent: Agent, prompts: list[str]) -> None:
    """Raise UsageError if the first prompt is a command of the chat, or nearly a slash command: a prompt would cost money."""
    found = re.match(_SLASH_COMMAND, prompts[0]) if prompts and prompts[0].startswith("/") else None
    known = {f"/{command.name}" for command in agent.session.additions.slash_commands()}
    if found is None or found[0] in known:
        return
    advice = 'To send it as a prompt, put a space before it: fairlead -p " /..."'
    if found[0] in CHAT_COMMANDS:
        raise UsageError(f"{found[0]} is a command of the chat. Start `fairlead` and type it there. {advice}")

    near = difflib.get_close_matches(found[0].lower(), [*known, *CHAT_COMMANDS], 1, 0.75)
    if near:
        where = "" if near[0] in known else ", a command of the chat"
        raise UsageError(f"There is no command {found[0]}. Did you mean {near[0]}{where}? {advice}")


def _expand_prompts(agent: Agent, before: str, prompts: list[str]) -> list[tuple[str, bool]]:
    """Return the prompts with templates and skills expanded, and whether each may still be a slash command of an extension.

    A slash command also works after piped input. Piped input itself is never a command.
    """
    texts = prompts or [before]
    expanded = [agent.session.additions.expand(text) for text in texts]
    asked = [(new, new == text) for new, text in zip(expanded, texts, strict=True)]
    return [(f"{before}\n\n{expanded[0]}", False), *asked[1:]] if before and prompts else asked


class _Invocation:
    """One invocation of the command: its agent, its output, and what stops it early.

    With `is_peer`, the exit code is that of the program which fairlead was started as: it depends on the last run alone.
    """

    def __init__(self, agent: Agent, arguments: Arguments, profile: Profile, stdout: Stdout, *, is_peer: bool) -> None:
        self.agent = agent
        self.arguments = arguments
        self._profile = profile
        self._stdout = stdout
        self.is_peer = is_peer
        stdout.on_error = self._stop
        self._stopped = False
        #: The signal that stopped it, if one did.
        self._signal = 0
        self._asking: asyncio.Task[None] | None = None
        #: Why there is no model, and what to do about it.
        self.no_model: str | None = None
        #: What failed although there may be an answer.
        self._problems: list[str] = []
        #: Those of the problems that a warning has reported already.
        self._said: set[str] = set()
        #: Whether the time of `--max-time` is over.
        self._is_late = False

    def note_late(self) -> None:
        """The time of `--max-time` is over, and what runs is aborted."""
        self._is_late = True

    async def run(self, prompts: list[tuple[str | None, bool]], images: list[ImageContent]) -> int:
        """Run the prompts, each with whether it may be a slash command; None resumes the run that was interrupted."""
        agent = self.agent
        self._catch_signals(asyncio.get_running_loop())
        # This runs while the model answers. The process does not wait for it when it exits.
        start_thread(agent.clear_leftovers, "fairlead-leftovers")
        agent.session.subscribe(self._note_failures)
        recorder = ResultRecorder(agent) if self._form != "text" else None
        fatal: str | None = None
        async with agent:
            if self.arguments.mode == "json" or self._form == "stream-json":
                self._write_events()
            with show_progress(agent, self._stdout if self._streams else None, verbose=self.arguments.verbose):
                fatal = await self._ask_all(prompts, images)
        code, errors = self._conclude(fatal)
        if recorder is not None and self._stdout.error is None:
            self._stdout.write(recorder.line(errors))
            if self._stdout.error is not None:
                code, errors = self._conclude(fatal)  # it was lost, whatever it said
        for error in errors:
            if error not in self._said:
                complain(f"Error: {error}")
        return code

    async def _ask_all(self, prompts: list[tuple[str | None, bool]], images: list[ImageContent]) -> str | None:
        """Ask all prompts. Returns why it ended early, if it did."""
        unused: list[ImageContent] | None = images
        for index, (prompt, expand) in enumerate(prompts):
            if self._stopped or self.agent.shutdown_requested:
                break
            given, unused = (None, unused) if prompt is None else (unused, None)
            self._asking = asyncio.create_task(self._ask(prompt, given, expand))
            try:
                await self._asking
            except (ProviderError, RunAborted) as error:
                if index < len(prompts) - 1:
                    self._problems.append(f"Prompt {index + 1} of {len(prompts)} failed: {readable_error(str(error))}")
            except FairleadError as error:
                is_without_model = self.agent.session.model is None and isinstance(error, ConfigError)
                return self.no_model if is_without_model and self.no_model else with_way_out(error)
            except asyncio.CancelledError:
                break
            else:
                self._check_length(self.agent.session.activity.last_end)
        return None

    async def _ask(self, prompt: str | None, images: list[ImageContent] | None, expand: bool) -> None:
        if prompt is None:
            await self.agent.resume()
        else:
            await self.agent.ask(prompt, images, expand=expand)
        await self.agent.idle()

    @property
    def _form(self) -> str:
        return self.arguments.output_format or "text"

    @property
    def _streams(self) -> bool:
        """Whether answers are printed piece by piece. Programs get the last answer in one piece, as from pi."""
        return self.arguments.mode != "json" and self._form == "text" and self._stdout.isatty()

    def _write_events(self) -> None:
        chosen = self.arguments.updates or ("delta" if self._form == "stream-json" else "full")
        EventLines(self._stdout, self.agent, self._profile, "delta" if chosen == "delta" else "full").write_header()

    def _note_failures(self, event: Event) -> None:
        if isinstance(event, ExtensionError) and event.event == "images" and not (self.is_peer or sys.stderr.isatty()):
            complain(event.error)  # on a terminal, the progress says so
        if not isinstance(event, ExtensionError) or event.event not in _FAILURES:
            return
        if event.event == "load":
            self._problems.append(f"The extension {event.extension_path} was not loaded: {event.error}")
            self._said.add(self._problems[-1])
        else:
            self._problems.append(f"{event.extension_path}: {event.error}")

    def _check_length(self, end: StreamEnd | None) -> None:
        if end is not None and end.message.stop_reason == "length":
            self._problems.append(
                "The answer is cut off: it reached the largest number of tokens that the model may write."
                ' Ask for the rest with: fairlead -c -p "Continue."'
            )

    def _conclude(self, fatal: str | None) -> tuple[int, list[str]]:
        """Print the answer, if text was asked for. Returns the exit code and what failed, one sentence each."""
        end = self.agent.session.activity.last_end
        is_good = end is not None and end.message.stop_reason not in ("error", "aborted")
        if end is not None and is_good and not self._stopped and fatal is None:
            if self.arguments.mode != "json" and self._form == "text" and not self._streams:
                self._stdout.write(end.message.text().encode("utf-8", "replace") + b"\n")
            if self._stdout.error is None:
                return self._with_problems()
        error = self._stdout.error
        if isinstance(error, BrokenPipeError):
            return 1, []  # the reader closed the pipe, so it knows
        if error is not None:
            return 1, [f"Cannot write to standard output: {error.strerror}."]
        if self._stopped:
            return (_SIGNALLED + self._signal if self._signal else 1), [ABORTED]
        if fatal is not None:
            return 1, [*self._own_problems(), fatal]
        if end is None:  # extensions handled all prompts
            return self._with_problems()
        if self.arguments.mode == "json" and self._profile.json_mode_succeeds:
            return 0, []  # the events say what failed
        text = end.message.error_message or FAILED_SILENTLY
        if self._is_late and end.message.stop_reason == "aborted" and not self.is_peer:
            return 1, [*self._own_problems(), f"The run was aborted: the time of --max-time {self.arguments.max_time} is over."]
        return 1, [*self._own_problems(), text if self.is_peer else explain_end(self.agent, end)]

    def _with_problems(self) -> tuple[int, list[str]]:
        problems = self._own_problems()
        return (1 if problems else 0), problems

    def _own_problems(self) -> list[str]:
        """Return what failed besides the last run. The events of JSON mode say it, and peers do not."""
        if self.is_peer or self.arguments.mode == "json":
            return []
        templates = self.agent.extensions.failed_templates
        self._said.update(templates)
        return [*templates, *self._problems]

    def _catch_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop the run and skip the remaining prompts at the first signal. The next signal has its default effect.

        These are not handlers of the event loop, which could not run while a write blocks it.
        """

        def interrupt(number: int, frame: FrameType | None) -> None:
            for name in signals:
                signal.signal(name, signal.SIG_DFL)
            self._signal = number
            loop.call_soon_threadsafe(self._stop)

        signals = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
        for name in signals:
            signal.signal(name, interrupt)

    def _stop(self) -> None:
        self._stopped = True
        if self._signal not in (0, signal.SIGINT):  # the process is asked to end, so a later one can resume the run
            self.agent.session.activity.cancel(resumable=True)
        if self._asking is not None:
            self._asking.cancel()
