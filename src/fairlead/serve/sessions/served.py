"""What a client of the server can do with a session, whether this server works in it or only watches it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from fairlead.protocol.http import objects as o
from fairlead.serve.sessions.feed import Feed
from fairlead.session.history.conversation import Conversation


class ForkedConversation(Struct):
    """The beginning of a session that is forked from another one."""

    conversation: Conversation
    cwd: Path
    approval: o.Approval
    #: The message before which the new session ends, to be edited and sent again.
    text: str | None


class ServedSession(Protocol):
    """A session that clients share. `HubSession` and `WatchedSession` implement it.

    Every method raises Refusal if the session cannot do that: workers run some sessions, which then take prompts, aborts and
    resumes only.
    """

    id: str
    feed: Feed
    #: How many requests are using the session now, and when the last one ended.
    uses: int
    last_used: float

    # Looking

    def state(self) -> o.SessionState: ...

    def snapshot(self, most_messages: int | None = None) -> bytes:
        """Return a `Snapshot` as JSON, with the newest messages only if there is a limit."""
        ...

    def tree(self) -> o.Tree:
        """Return all branches of the session."""
        ...

    # Acting

    async def prompt(self, body: o.Prompt) -> o.AcceptedPrompt:
        """Start a run, or queue the message. Raises what `Session.prompt` raises."""
        ...

    async def steer(self, body: o.QueuedMessage) -> o.AcceptedPrompt: ...

    async def follow_up(self, body: o.QueuedMessage) -> o.AcceptedPrompt: ...

    async def abort(self) -> None:
        """Stop what is running."""
        ...

    async def resume(self) -> None:
        """Continue the last run if it was interrupted. Raises NothingToResume."""
        ...

    async def compact(self, instructions: str | None) -> Any:
        """Compact the session, also if the client leaves meanwhile. Returns the result."""
        ...

    async def change(self, changes: o.Changes) -> None:
        """Change the model, the thinking level, the name or the approval mode. Raises BadCommand and ModelNotFound."""
        ...

    async def move(self, body: o.Move) -> o.Moved:
        """Go to another entry. Raises what `Session.navigate` raises."""
        ...

    def fork(self, body: o.Fork) -> ForkedConversation:
        """Return the beginning of a new session: everything up to an entry. Raises EntryNotFound."""
        ...

    def clear_queue(self) -> o.ClearedQueue:
        """Remove the messages that wait. Raises SessionError if that cannot be written."""
        ...

    def answer(self, question: str, body: Any) -> None:
        """Answer a question to the user."""
        ...
