"""One conversation: its tree of entries, the file that keeps it, and what the model sees of it.

What has happened (a model's answer, a tool's result) is always added. If it cannot be written, it still becomes part of the
conversation, `on_trouble` is called, and it is written before the next entry that can be written. A request (a prompt, a name)
that cannot be written is refused with SessionError instead, and nothing changes. If the session belongs to another owner by
now, `on_lost` is called, which ends the run.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Raw, to_builtins

from fairlead.core.messages import AssistantBlock, AssistantMessage, Message, ModelMessage
from fairlead.errors import SessionError, SessionLost
from fairlead.session.context.tokens import ContextSize, for_model, measure_context
from fairlead.session.history import stored
from fairlead.session.history.entries import Replacement, role_of
from fairlead.stores.paths import transcripts_folder

if TYPE_CHECKING:
    from fairlead.core.events import CompactionResult
    from fairlead.core.model import Model
    from fairlead.session.history.log import Log
    from fairlead.session.history.store import SessionFile
    from fairlead.session.history.stored import StoredLog


class Conversation:
    """A conversation in memory, and in the file at `path` if it has one.

    `begin` makes its log when that is first needed: a session that only reports its state never pays for it.
    """

    def __init__(self, id: str, path: Path | None, begin: Callable[[], tuple[Log, SessionFile | StoredLog | None]]) -> None:
        self.id = id
        self.path = path
        #: Called when something could not be written: once, until something can be written again.
        self.on_trouble: Callable[[SessionError], None] = lambda error: None
        #: Called when the session can no longer be written, because another owner has it or its file was deleted.
        self.on_lost: Callable[[SessionLost], None] = lambda error: None
        #: Called with a text when another program has changed the file.
        self.on_notice: Callable[[str], None] = lambda text: None
        #: Called with what keeps it in a store, as soon as it is known.
        self.on_stored: Callable[[StoredLog], None] = lambda stored: None
        #: Called with a log that has just been made, to write down how the conversation starts.
        self.on_begin: Callable[[Log], None] = lambda log: None
        #: Opens it in its store; None: it needs no opening.
        self.opener: Callable[[], Awaitable[tuple[StoredLog, list[str]]]] | None = None
        #: What was wrong with the file.
        self.problems: list[str] = []
        self._begin = begin
        self._log: Log | None = None
        self._file: SessionFile | StoredLog | None = None
        #: Where a store keeps it; None: it is kept in a file, in memory, or not yet.
        self.stored: StoredLog | None = None
        # Made when first asked for, then kept up to date as messages are added.
        self._messages: list[Message] | None = None
        self._for_model: list[ModelMessage] | None = None
        self._count: int | None = None
        self._context_size: ContextSize | None = None

    @classmethod
    def of(cls, log: Log, file: SessionFile | StoredLog | None = None) -> Conversation:
        """A conversation that has begun."""
        conversation = cls(log.header.id, file.path if file else None, lambda: (log, file))
        conversation._use_log(log, file)
        return conversation

    @classmethod
    def open_later(cls, id: str, opener: Callable[[], Awaitable[tuple[StoredLog, list[str]]]]) -> Conversation:
        """A conversation in a store, which `open` opens."""

        def begin() -> tuple[Log, None]:
            raise SessionError("The session is not open yet. Use `async with agent:`, or `await agent.open()`.")

        conversation = cls(id, None, begin)
        conversation.opener = opener
        return conversation

    @property
    def log(self) -> Log:
        if self._log is None:
            log = self._use_log(*self._begin())
            self.on_begin(log)
            return log
        return self._log

    async def open(self) -> None:
        """Open it in its store, if that has not been done. Raises SessionError."""
        if self.opener is None:
            return
        stored, self.problems = await self.opener()
        self.opener = None
        self.id = stored.log.header.id
        self._use_log(stored.log, stored)
        if not len(stored.log):
            self.on_begin(stored.log)

    @property
    def lasting_log(self) -> Log:
        """The log, for an entry that must last: the file is created with it, if there is none yet."""
        log = self.log
        if self._file is not None:
            self._file.eager = True
        return log

    @property
    def has_begun(self) -> bool:
        """Whether it has a log yet."""
        return self._log is not None

    @property
    def is_saved(self) -> bool:
        """Whether its file exists."""
        return self._file is not None and self._file.begun

    @property
    def is_shared(self) -> bool:
        """Whether a store keeps it, so that another process may open it next."""
        return self.stored is not None

    @property
    def is_lost(self) -> bool:
        """Whether it can no longer be written, because another owner of the store has it."""
        return self.is_shared and self._writing.lost is not None

    def keep_empty(self) -> None:
        """Have the store keep it even if it stays empty, so that others find it."""
        if self.is_shared:
            self._writing.keep()

    def is_kept_in(self, path: Path) -> bool:
        """Whether its file is the one at that path, also through a link."""
        if self.path is None:
            return False
        try:
            return path == self.path or os.path.samefile(path, self.path)  # noqa: PTH121
        except OSError:
            return False

    # Adding

    def ask(self, message: Message) -> None:
        """Add a message that was requested. Raises SessionError if it cannot be written."""
        self.log.message(message)
        self._on_add(message)

    def add(self, message: Message) -> None:
        """Add a message about something that has happened."""
        log = self.log
        self.keep(lambda: log.message(message, keep=True))
        self._on_add(message)

    def place_of_subagent(self, index: int, name: str) -> Path | None:
        """Return the file for the conversation of a sub-agent; None if it has none."""
        if self.path is None:
            return None
        place: Any = getattr(self._file, "place_of_subagent", None)
        return transcripts_folder(self.path) / f"{index}-{name}.jsonl" if place is None else place(name)

    def keep_block(self, message: AssistantMessage, index: int, block: AssistantBlock) -> str | None:
        """Keep a block of an answer that is still arriving, if the file keeps single blocks. Returns the id of the block."""
        keeper: Any = getattr(self._file, "keep_block", None)
        if keeper is None:
            return None
        found: list[str] = []
        self.keep(lambda: found.append(keeper(message, index, block)))
        return found[0] if found else None

    def note(self, custom_type: str, data: Any) -> None:
        """Add data that the model does not see. Raises SessionError if it cannot be written."""
        try:
            self.lasting_log.note(custom_type, data, keep=False)
        except SessionLost as error:
            self.on_lost(error)
            raise

    def add_data(self, custom_type: str, data: Any) -> None:
        """Add an entry of an extension that the model does not see. Raises SessionError if it cannot be written."""
        try:
            self.lasting_log.custom(custom_type, data)
        except SessionLost as error:
            self.on_lost(error)
            raise

    def choose_model(self, model: Model) -> None:
        """Write down that another model answers from here on."""
        if self._log is None:
            self._begin_with_choice()
        else:
            log = self.lasting_log
            self.keep(lambda: log.model_change(model.provider, model.id, keep=True))

    def choose_level(self, level: str) -> None:
        """Write down another thinking level."""
        if self._log is None:
            self._begin_with_choice()
        else:
            log = self.lasting_log
            self.keep(lambda: log.thinking_level_change(level, keep=True))

    def drop_last_answer(self) -> Raw | None:
        """Hide the last answer, which failed, from the model. Returns the entry that says so, as JSON."""
        log = self.log
        failed = next((entry.id for entry in log.back() if role_of(entry) == "assistant"), None)
        if failed is None:
            return None
        self.keep(lambda: log.context_edit(failed, None, keep=True))
        self._on_change()
        return Raw(log.last_line)

    def revise(self, message: Message, revised: Message) -> None:
        """Show the model another content instead of that of a message. The message stays in the file."""
        log, content = self.log, getattr(revised, "content", None)
        entry = next((entry for entry in log.back() if any(each is message for each in log.read(entry))), None)
        if entry is not None and content is not None:
            self.keep(lambda: log.context_edit(entry.id, Replacement(to_builtins(content)), keep=True))
            self._on_change()

    def compact(self, result: CompactionResult, *, from_hook: bool = False) -> None:
        """Replace what came before the entries that stay by a summary. Raises SessionError."""
        self.log.compaction(
            result.summary,
            result.first_kept_entry_id,
            result.tokens_before,
            details=result.details,
            usage=result.usage,
            from_hook=from_hook,
        )
        self._on_change()

    def move(self, leaf: str | None) -> None:
        """Continue from another entry. Raises EntryNotFound."""
        self.log.move(leaf)
        self._on_change()

    def forget_computed(self) -> None:
        """Forget what was computed: entries other than messages were added that change what the model sees."""
        self._on_change()

    # Looking

    @property
    def messages(self) -> list[Message]:
        """The messages where the conversation stands, without those of unknown roles."""
        if self._messages is None:
            self._messages = self.log.messages() if self._log is not None else []
        return self._messages

    @property
    def count(self) -> int:
        """How many messages there are, those of unknown roles included."""
        if self._count is None:
            self._count = len(self._log.raw_messages()) if self._log is not None else 0
        return self._count

    @property
    def last_number(self) -> int:
        """The number of the last entry that is durable; 0 if there is none."""
        if self.is_shared and self._writing.begun:
            return self._writing.durable
        return self._log.number_at(len(self._log) - 1) if self._log is not None and len(self._log) else 0

    @property
    def name(self) -> str | None:
        return self._log.name if self._log is not None else None

    def for_model(self) -> list[ModelMessage]:
        """The messages in the form in which the model sees them. Each is converted once."""
        if self._for_model is None:
            self._for_model = [told for message in self.messages if (told := for_model(message)) is not None]
        return list(self._for_model)

    def last_answer(self) -> AssistantMessage | None:
        """The last message of the model that says something."""
        if self._log is None:
            return None
        for message in reversed(self.messages):
            if isinstance(message, AssistantMessage) and not (message.stop_reason == "aborted" and not message.content):
                return message
        return None

    def context_tokens(self) -> int | None:
        """How much of the model's context it takes; None where that is not known: from a compaction to the next answer."""
        return 0 if self._log is None else self.context_size().tokens

    def context_size(self) -> ContextSize:
        """The same, and whether the provider has reported it. Measured once after each change."""
        if self._context_size is None:
            self._context_size = measure_context(self.log)
        return self._context_size

    # The file, or the store

    async def wait_written(self) -> None:
        """Wait until everything so far is durable. Raises SessionLost. What is kept in a file is durable at once."""
        if self.is_shared:
            await self._writing.wait_written()

    async def wait_closed(self) -> None:
        """Wait until a conversation that was closed can be opened by others."""
        if self.is_shared:
            await self._writing.wait_closed()

    def keep(self, append: Callable[[], object]) -> None:
        """Call `append`, which keeps what it adds even if that cannot be written; `on_trouble` is called in that case."""
        is_known = self._is_behind
        try:
            append()
        except SessionLost as error:
            self.on_lost(error)
        except SessionError as error:
            if not is_known:
                self.on_trouble(error)

    def flush(self) -> bool:
        """Try again to write what could not be written. Whether everything is on disk."""
        try:
            if self._file is not None:
                self._file.flush_pending()
        except SessionError:  # reported when the first entry had to wait
            return False
        return True

    def close(self) -> bool:
        """Let other processes write the file; nothing may be added any more.

        Returns False, and keeps the file, if something could not be written yet.
        """
        if not self.flush():
            return False
        if self._file is not None:
            self._file.close()
        self._on_change()  # what was decoded takes more memory than the entries, and can be decoded again
        return True

    # Inside

    @property
    def _writing(self) -> StoredLog:
        assert self.stored is not None
        return self.stored

    def _use_log(self, log: Log, file: SessionFile | stored.StoredLog | None) -> Log:
        self._log, self._file = log, file
        if file is not None:
            file.on_change = lambda text: self.on_notice(text)
            if file.path is None:
                assert isinstance(file, stored.StoredLog)
                self.stored = file
                file.on_lost = lambda error: self.on_lost(error)
                self.on_stored(file)
        return log

    def _begin_with_choice(self) -> None:
        """Begin the log, with the model and the level that were just chosen, and create the file."""
        self.log  # noqa: B018
        if self._file is not None:
            self.keep(self._file.begin)

    @property
    def _is_behind(self) -> bool:
        """Whether something has happened that is not on disk yet."""
        return self._file is not None and self._file.begun and bool(self._file.pending)

    def _on_add(self, message: Message) -> None:
        if self._messages is not None:
            self._messages.append(message)
        if self._for_model is not None and (told := for_model(message)) is not None:
            self._for_model.append(told)
        if self._count is not None:
            self._count += 1
        self._context_size = None

    def _on_change(self) -> None:
        self._messages = self._for_model = self._count = self._context_size = None
