"""What tests of sessions share: a session whose models play scripts, whoever listens to it, and bad luck on demand."""

from __future__ import annotations

import asyncio
import resource
import shutil
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.support.session_file import notes_path

from fairlead.core import events as e
from fairlead.core.messages import AssistantMessage, Message, UserMessage, user_text
from fairlead.core.model import Model, ModelRequest, ModelStream, StreamEvent
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.session.asyncio_runtime import AsyncioRuntime
from fairlead.session.compaction.summary import SYSTEM_PROMPT as SUMMARY_PROMPT
from fairlead.session.history.current import ConversationStore
from fairlead.session.history.entries import role_of
from fairlead.session.history.file_archive import FileArchive
from fairlead.session.history.log import Log
from fairlead.session.history.reading import read_session
from fairlead.session.selection import OneModel
from fairlead.session.session import Session
from fairlead.session.session_options import SessionOptions
from fairlead.stores.folders import SessionFolders
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn
from fairlead.tools.workspace import Workspace

#: Seconds after which something that has not happened will not happen.
PATIENCE = 20

E = TypeVar("E", bound=e.Event)


# Models


class ManyModels(OneModel):
    """Several models, all played by one script."""

    def __init__(self, models: Sequence[Model], stream: ModelStream) -> None:
        super().__init__(models[0], stream)
        self._models = models

    def available(self) -> list[Model]:
        return list(self._models)

    def find(self, provider: str, model_id: str) -> Model | None:
        return next((m for m in self._models if (m.provider, m.id) == (provider, model_id)), None)


class WithSummaries:
    """Plays one script in the conversation, and another whenever a summary is asked for."""

    def __init__(self, answers: Sequence[Turn], summaries: Sequence[Turn]) -> None:
        self.answers = Scripted(answers)
        self.summaries = Scripted(summaries)

    def __call__(self, request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        script = self.summaries if request.system_prompt == SUMMARY_PROMPT else self.answers
        return script(request, cancel)


def held(text: str = "held") -> tuple[Turn, asyncio.Event]:
    """A turn that begins when the event is set, or ends when the run is aborted."""
    go = asyncio.Event()
    return Turn(text=text, pause=go.wait, chunk=1 << 20), go


# Sessions


def a_workspace(cwd: Path) -> Workspace:
    return Workspace(cwd, {"PATH": "/bin:/usr/bin"}, log_dir=lambda: cwd, keep_log=lambda file: None)


def kept_in(folder: Path, cwd: Path | None = None) -> ConversationStore:
    """Conversations that have their files in `folder`; the work is in `cwd`, or beside that folder."""
    archive = FileArchive(folders=SessionFolders(folder=folder))
    return ConversationStore(workspace=a_workspace(cwd or folder.parent), now_ms=AsyncioRuntime().now_ms, archive=archive)


def a_system_prompt(tools: Sequence[Tool], *, brief: bool = False) -> str:
    return "You are a test."


def a_session(
    stream: ModelStream,
    tmp_path: Path,
    tools: Sequence[Tool] = (),
    models: Sequence[Model] = (SCRIPTED_MODEL,),
    **changes: Any,
) -> Session:
    """A session that works in `tmp_path`. It is kept in memory, unless the `changes` have `sessions`."""
    sessions: ConversationStore | None = changes.get("sessions")
    options: dict[str, Any] = {
        "models": ManyModels(models, stream),
        "make_tools": lambda: {tool.name: tool for tool in tools},
        "active_tools": [tool.name for tool in tools],
        "workspace": sessions.workspace if sessions else a_workspace(tmp_path),
        "system_prompt": a_system_prompt,
        "model": models[0],
        "runtime": AsyncioRuntime(),
    }
    return Session(SessionOptions(**(options | changes)))


def a_kept_session(stream: ModelStream, tmp_path: Path, *, file: Path | None = None, **changes: Any) -> Session:
    """A session with a file in `tmp_path / "sessions"`: a new one, or the one in `file`."""
    sessions = kept_in(tmp_path / "sessions")
    conversation = sessions.open(str(file)) if file is not None else None
    return a_session(stream, tmp_path, sessions=sessions, conversation=conversation, **changes)


def a_tool(name: str, run: Any = None) -> Tool:
    async def nothing(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult.text("done")

    return Tool(name, "A test.", {"type": "object"}, run or nothing)


async def settled(session: Session) -> None:
    async with asyncio.timeout(PATIENCE):
        await session.activity.idle()


async def talk(session: Session, *texts: str) -> None:
    """Prompt with each text, and wait for all that it sets off."""
    for text in texts:
        await session.prompt(text)
        await settled(session)


def file_of(session: Session) -> Path:
    path = session.history.path
    assert path is not None, "the session has a file"
    return path


# Looking


class Listener(list[e.Event]):
    """All events of a session, and a way to wait for one of them."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._changed = asyncio.Event()
        session.subscribe(self._hear)

    def _hear(self, event: e.Event) -> None:
        self.append(event)
        self._changed.set()

    async def until(self, kind: type[E], count: int = 1) -> E:
        """The first event of a kind, or the one that makes it `count` of them; if need be, wait for it."""
        async with asyncio.timeout(PATIENCE):
            while len(found := self.of(kind)) < count:
                self._changed.clear()
                await self._changed.wait()
        return found[count - 1]

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self if isinstance(event, kind)]

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self]

    def outline(self, *kinds: type[e.Event]) -> list[str]:
        """The names of those events that are of some kinds, in order."""
        return [type(event).__name__ for event in self if isinstance(event, kinds)]


async def running(session: Session) -> Listener:
    """Start a run that lasts for as long as its turn is held, and return its listener."""
    heard = Listener(session)
    await session.prompt("running")
    await heard.until(e.MessageEnd)
    return heard


def texts(messages: Sequence[Message]) -> list[str]:
    """What was said, by the user and the model; of other messages, their kind."""
    found: list[str] = []
    for message in messages:
        match message:
            case UserMessage():
                found.append(user_text(message))
            case AssistantMessage():
                found.append(message.text())
            case _:
                found.append(type(message).__name__)
    return found


def said(session: Session) -> list[str]:
    """The user's part of the conversation."""
    return [user_text(message) for message in session.messages if isinstance(message, UserMessage)]


def saved(path: Path) -> list[str]:
    """The messages in a session file."""
    return texts(read_session(path)[0].messages())


def entry_of(log: Log, text: str) -> str:
    """The id of the last entry whose message has this text."""
    return next(entry.id for entry in reversed(log.entries()) if role_of(entry) and texts(log.read(entry)) == [text])


# Bad luck


@contextmanager
def file_size_limit(size: int) -> Generator[None]:
    """Files cannot grow beyond `size`: a write then ends early, and the next one fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def full_disk(session: Session) -> Generator[None]:
    """Nothing more fits into the session's file, nor into its notes."""
    path = file_of(session)
    notes = notes_path(path)
    with file_size_limit(min(path.stat().st_size, notes.stat().st_size if notes.exists() else 0)):
        yield


@contextmanager
def in_the_way(folder: Path) -> Generator[None]:
    """A file stands in place of a folder in which nothing has been saved yet."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.write_bytes(b"")
    try:
        yield
    finally:
        folder.unlink()
