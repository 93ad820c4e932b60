"""The chat: an agent, a terminal, and what happens between them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeVar

from fairlead import Agent, ApprovalRequest, FairleadError, events
from fairlead.chat.canvas import ChatCanvas, SheetDialog
from fairlead.chat.chat_commands import Commands
from fairlead.chat.chat_ui import ChatUi
from fairlead.chat.dialogs import Dialog, EditorDialog
from fairlead.chat.input.editor import Editor, PromptHistory
from fairlead.chat.input.editor_keys import EditorKeys
from fairlead.chat.input.keyboard import Keyboard
from fairlead.chat.input.terminal import Terminal
from fairlead.chat.outside import edit_text, suspend
from fairlead.chat.status import Status
from fairlead.chat.submitting import Sender
from fairlead.chat.view.frame import Drawing, Frame
from fairlead.chat.view.panels import Proposal
from fairlead.chat.view.screen import Screen
from fairlead.chat.view.text import plain
from fairlead.chat.view.theme import Theme
from fairlead.chat.view.transcript import Transcript
from fairlead.errors import CompactionCancelled, ExtensionNotLoaded, RunAborted
from fairlead.messages import ImageContent
from fairlead.sessions.completion import FileIndex

T = TypeVar("T")

#: The time for a second Ctrl+C, in seconds.
_TWICE = 1.5
#: How long leaving may take before the process exits anyway.
_LONGEST_END = 5.0
#: What a chat begins with, in a terminal with more rows than this.
_GREETING_ROWS = 12
_GREETING = """\
fairlead {}

Enter sends, Esc interrupts, Ctrl+D leaves.
/help lists commands and keys. @ names a file, ! runs a shell command."""
#: How many messages of a resumed session are shown.
_SHOWN_MESSAGES = 100


@dataclass(slots=True)
class ChatOptions:
    """How a chat begins."""

    #: Prompts to send at once, and images for the first.
    prompts: Sequence[str] = ()
    images: Sequence[ImageContent] = ()
    #: Whether to ask first which session to resume.
    pick_session: bool = False
    #: Whether to continue the run of the session that was interrupted.
    resume_run: bool = False
    #: Remarks to show at the start.
    remarks: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    version: str = ""
    #: Returns an error of a provider, whose name comes first, as the user should read it.
    explain: Callable[[str, str], str] = lambda provider, error: error


class Chat:
    """One chat. `run` returns the exit code."""

    def __init__(
        self, agent: Agent, terminal: Terminal, screen: Screen, theme: Theme, options: ChatOptions, typed: str = ""
    ) -> None:
        self.agent = agent
        self.session = agent.session
        self.theme = theme
        self.terminal = terminal
        self.options = options
        self.editor = Editor(self._on_edit)
        #: The images that marks in the text stand for, by their numbers.
        self.pasted_images: dict[int, ImageContent] = {}
        self.history = PromptHistory(None if agent.home.isolated else agent.home.root / "chat-history.jsonl")
        self.transcript = Transcript(theme, options.explain)
        self.canvas = ChatCanvas(self)
        self.ui = ChatUi(self, self.session.host.notify, self.canvas)
        self.status = Status(agent, options.env, terminal.set_title)
        #: A remark that stands in place of the footer for a while.
        self._hint = ""
        self._keys = EditorKeys(self, FileIndex(self.session.host.workspace))
        self._keyboard = keyboard = Keyboard(terminal.input, self.editor, self._keys, typed)
        self.commands = Commands(self)
        self.sender = Sender(self)
        #: The questions that wait, and the one that is shown.
        self._dialogs: list[Dialog[Any]] = []
        self._appeared: Dialog[Any] | None = None
        self._drawing = Drawing(
            terminal.size,
            screen,
            self.transcript,
            self._frame,
            lambda patience: keyboard.cursor_row(terminal.ask_cursor, patience),
            options.env,
        )
        self._done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._interrupted_at = -_TWICE

    # Life

    async def run(self) -> int:
        """Show the chat until the user leaves. Returns the exit code."""
        self.session.host.make_ui = lambda: self.ui
        forget = self.session.subscribe(self._on_event)
        self.agent.extensions.on_shutdown = lambda: self.leave(0)
        self.status.refresh(totals=True)
        self._greet()
        keys = self.start(self._read_keys())
        drawing = self.start(self._drawing.run())
        self.touch()
        self.start(self._begin())
        try:
            return await self._done
        finally:
            await self._end(keys, drawing)
            forget()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something beside the chat. What it raises on purpose is shown; anything else ends the chat."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_end)
        return task

    def leave(self, code: int = 0) -> None:
        """End the chat."""
        if not self._done.done():
            self._done.set_result(code)

    def _on_task_end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, RunAborted | CompactionCancelled):
            return
        if isinstance(error, FairleadError | OSError):
            self.note(str(error), "error")
        elif not self._done.done():
            self._done.set_exception(error)

    async def _begin(self) -> None:
        """Load what takes time, while the user can type already. Then send the prompts of the command line."""
        self.agent.warm_up()
        try:
            await self.agent.extensions.load_required()
            await self.agent.extensions.find_model()
            choice = await self.agent.choose_model()
        except ExtensionNotLoaded as error:
            self.warn(str(error))  # loading it in the background says the same
            return
        finally:
            self.status.refresh()
        if choice.model is None:
            self.note(f"{choice.why}\n/login stores a key, or logs in at a provider.", "warning")
        elif choice.is_local:
            self.note(choice.why)
        if self.options.pick_session:
            await self.commands.run("/resume")
        if self.options.resume_run:
            await self.agent.session.activity.resume()
        for number, prompt in enumerate(self.options.prompts):
            await self.sender.send(
                prompt, self.options.images if number == 0 else (), queued=number > 0 or self.options.resume_run
            )

    async def _read_keys(self) -> None:
        try:
            await self._keyboard.run(self._catch_signals)
        except EOFError:
            self.leave(129)

    async def _end(self, keys: asyncio.Task[None], drawing: asyncio.Task[None]) -> None:
        self._keyboard.stop()
        for dialog in list(self._dialogs):
            dialog.finish(None)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_END):
                await self.agent.close()
        self.status.set_activity(None)
        drawing.cancel()
        with suppress(Exception):
            self._drawing.finish()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, keys, return_exceptions=True)

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for name, action in (
            (signal.SIGTERM, lambda: self.leave(143)),
            (signal.SIGHUP, lambda: self.leave(129)),
            (signal.SIGINT, self.interrupt),
            (signal.SIGWINCH, self._drawing.on_resize),
            (signal.SIGCONT, self._on_continue),
        ):
            loop.add_signal_handler(name, action)

    def _on_continue(self) -> None:
        """Take the terminal back after another process has stopped this one: the shell has used it meanwhile."""
        if self._drawing.is_paused:
            return
        if self.terminal.enter_again():
            self._drawing.redraw_all()
        else:
            self._drawing.redraw()

    def _greet(self) -> None:
        if self.terminal.size()[1] > _GREETING_ROWS:
            self.note(_GREETING.format(self.options.version), "dim")
        for remark in (*self.options.remarks, *self.agent.warnings):
            self.note(remark, "warning")
        self.show_past()

    # Showing

    def touch(self) -> None:
        """Draw again soon."""
        self._drawing.touch()

    def note(self, text: str, role: str = "dim") -> None:
        """Show a remark of the program above the editor."""
        self.transcript.note(plain(text), role)
        self.touch()

    def warn(self, text: str) -> None:
        """Show a warning, unless it was shown before."""
        if not self.transcript.has_warned(plain(text)):
            self.note(text, "warning")

    def show_lists(self, lists: Mapping[str, Mapping[str, str]]) -> None:
        """Show lists of names and explanations, by their titles."""
        self.transcript.lists(lists)
        self.touch()

    def show_past(self) -> None:
        """Show the last messages of a session that has begun before."""
        messages = self.session.messages
        if len(messages) > _SHOWN_MESSAGES:
            self.note(f"{len(messages) - _SHOWN_MESSAGES} earlier messages are not shown.")
        for message in messages[-_SHOWN_MESSAGES:]:
            self.transcript.message(message)
        self.touch()

    def _frame(self, columns: int, rows: int) -> Frame:
        status, working = self.status, self.canvas.working
        self.canvas.fit(columns, rows)
        doing = status.doing if working.message is None or status.activity != "Working" else status.with_time(working.message)
        if status.activity is not None and any(not isinstance(each, SheetDialog) for each in self._dialogs):
            doing = status.with_time("Waiting for you")
        elif not working.visible:
            doing = None
        return Frame(
            theme=self.theme,
            columns=columns,
            rows=rows,
            editor=self.editor,
            dialog=self._dialogs[0] if self._dialogs else None,
            menu=self._keys.menu,
            facts=status.facts,
            ui=self.ui,
            canvas=self.canvas,
            queued=status.queued,
            activity=None if doing is None else (doing, status.busy_seconds),
            hint=self._hint,
            command_tail=status.command_tail,
        )

    def _on_event(self, event: events.Event) -> None:
        try:
            self.transcript.handle(event)
            self.status.handle(event)
        except Exception as error:
            # The session calls this in the middle of its work, which must not fail because of the chat.
            if not self._done.done():
                self._done.set_exception(error)
        self._drawing.touch_for_event()

    # Dialogs

    async def ask(self, dialog: Dialog[T]) -> T | None:
        """Show a dialog in place of the editor, after those that wait already, and return the answer."""
        if self._done.done():
            return None
        dialog.changed = self.touch
        # A component may stay for long: questions, and newer components, come before it.
        places = [number for number, each in enumerate(self._dialogs) if isinstance(each, SheetDialog)]
        self._dialogs.insert(places[0] if places else len(self._dialogs), dialog)
        self.focus()
        try:
            return await dialog.answer
        finally:
            self._dialogs.remove(dialog)
            self.focus()

    def focus(self) -> None:
        """Send the keys to what has them now: a dialog, the editor, or the component in its place."""
        first = self._dialogs[0] if self._dialogs else None
        if first is None:
            self._keyboard.focus_editor()
            if self.canvas.editor is not None:
                self._keyboard.divert(self.canvas.press)
        elif isinstance(first, SheetDialog):
            self._keyboard.focus_dialog()
            self._keyboard.divert(first.press)
        elif isinstance(first, EditorDialog):
            self._keyboard.focus_other(first.editor)
        else:
            self._keyboard.focus_dialog()
        if first is not None and first is not self._appeared:
            first.appear()
        self._appeared = first
        self.touch()

    @property
    def dialog(self) -> Dialog[Any] | None:
        """The question that is shown, if there is one."""
        return self._dialogs[0] if self._dialogs else None

    def propose(self, request: ApprovalRequest, *, is_whole: bool = False) -> Proposal:
        return self.transcript.propose(request, self.session.host.workspace.cwd, is_whole=is_whole)

    def set_title(self, title: str) -> None:
        self.status.set_title(title)

    def set_editor_text(self, text: str) -> None:
        if text != self.editor.text:
            self.editor.set_text(text)

    def press_in_editor(self, data: str) -> None:
        """Act as if the user had pressed a key in the editor. A question that came up meanwhile does not get it."""
        if not self._dialogs:
            self._keyboard.feed(data)
        elif data.isprintable():
            self.editor.insert(data)

    def submit(self, text: str) -> None:
        """Send a text as if the user had written it in the editor."""
        self.editor.set_text(text)
        self._keys.send()

    # What the user does

    def _on_edit(self) -> None:
        self._keys.on_edit()
        self.canvas.on_edit()
        self.touch()

    def stop(self) -> None:
        """Abort the run. Messages that wait come back into the editor."""
        self.start(self._abort())

    async def _abort(self) -> None:
        if self.status.facts.queued:
            steering, follow_up = self.session.queue.clear()
            texts = [*steering, *follow_up, *([self.editor.text] if self.editor.text else [])]
            self.editor.set_text("\n\n".join(texts))
        await self.session.abort()

    def interrupt(self) -> None:
        """Ctrl+C: clear the editor, or stop the agent. Twice in a row, leave."""
        if self._drawing.is_paused:  # the terminal sends the signal to each of its programs, and it was meant for the other
            return
        if self.editor.text:
            self.editor.take()
            return
        if monotonic() - self._interrupted_at < _TWICE:
            self.leave(0)
            return
        self._interrupted_at = monotonic()
        if self.sender.is_running_command:
            self.session.host.abort_bash()
        elif self.status.is_busy:
            self.stop()
        self.hint("Ctrl+C again leaves")

    def hint(self, text: str) -> None:
        """Show a remark in place of the footer for a moment."""
        self._hint = text
        asyncio.get_running_loop().call_later(_TWICE, self._forget_hint, text)
        self.touch()

    def _forget_hint(self, text: str) -> None:
        if self._hint == text:
            self._hint = ""
            self.touch()

    def redraw(self) -> None:
        self._drawing.redraw()

    # Other programs

    async def edit_outside(self, editor: Editor) -> None:
        """Edit the text in the user's own editor."""
        await self.lend_terminal(lambda: edit_text(self, editor))

    async def suspend(self) -> None:
        """Stop the process, as Ctrl+Z does for other programs, until the user continues it."""
        await self.lend_terminal(suspend)

    async def lend_terminal(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Let another program have the terminal, unless one has it already."""
        if self._drawing.is_paused:
            return
        self._drawing.pause()
        self.terminal.leave()
        try:
            async with self._keyboard.pause():
                await work()
        finally:
            self.terminal.enter()
            self._drawing.resume()
