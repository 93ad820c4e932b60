"""The approval mode of a session, which can change while the session lasts, and is noted in it for those who resume it.

The note is a custom entry `fairlead.approval` with `{"mode": "ask", "chosen": true}`, which hosts and the model do not see.
`chosen` says that a client of the server chose the mode, and that it is not the default of that server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, cast, get_args

from fairlead.config.settings import ApprovalMode, ApprovalRule
from fairlead.core.events import AgentStart, ApprovalModeChanged, Event, SessionReplaced
from fairlead.core.tool import Tool
from fairlead.errors import BadOption
from fairlead.session.history.entries import APPROVAL

if TYPE_CHECKING:
    from fairlead.core.runtime import CancelToken
    from fairlead.core.tool import Permission
    from fairlead.session.approvals import Approvals
    from fairlead.session.history.conversation import Conversation
    from fairlead.session.history.history import History
    from fairlead.session.history.log import Log
    from fairlead.session.host import Host
    from fairlead.session.session_events import Subscribe


#: The approval modes, the most permissive first.
MODES: tuple[ApprovalMode, ...] = get_args(ApprovalMode)

#: Makes what approves the calls in a mode.
MakeApprovals = Callable[[ApprovalMode], "Approvals"]


def note_mode(conversation: Conversation, mode: ApprovalMode, *, is_chosen: bool = False) -> None:
    """Note the approval mode of a session in it."""
    log = conversation.log
    conversation.keep(lambda: log.note(APPROVAL, {"mode": mode, "chosen": is_chosen}))


def noted_mode(log: Log) -> tuple[ApprovalMode, bool] | None:
    """Return the approval mode that a session notes, and whether a client chose it; None if it notes none."""
    note = log.find_note(APPROVAL)
    data: Any = None if note is None else note.data
    if isinstance(data, dict) and (noted := cast("dict[str, Any]", data)).get("mode") in MODES:
        return noted["mode"], noted.get("chosen") is True
    return None


class SessionApprovals:
    """Implements `fairlead.core.tool.Approver` for a session. Sub-agents share its mode, and all that the user answered.

    Nothing is loaded as long as every call may run: in the mode `auto`, without rules.

    A session that is resumed is at least as strict as it was: it notes its mode when a run starts, and takes the noted one if
    that is stricter. With `is_explicit` the user or the program has named the mode, which then holds.
    """

    def __init__(
        self,
        mode: ApprovalMode,
        make: MakeApprovals,
        *,
        has_rules: bool,
        default: ApprovalMode = "auto",
        is_explicit: bool = False,
    ) -> None:
        self._mode: ApprovalMode = mode
        self._make = make
        #: The mode that a session without a note has.
        self._default: ApprovalMode = default
        self._is_explicit = is_explicit
        self._history: History | None = None
        #: The conversation whose mode was restored.
        self._restored: Conversation | None = None
        #: The conversation in which a run has started. Opening a session changes nothing in it.
        self._worked_in: Conversation | None = None
        self._attached: tuple[Host, Subscribe] | None = None
        #: Whether some call may have to be judged.
        self.is_needed = has_rules or mode != "auto"
        self._made: Approvals | None = None

    @property
    def mode(self) -> ApprovalMode:
        return self._mode

    @property
    def _approvals(self) -> Approvals | None:
        """What judges calls; None if every call may run. The first call makes it: that loads much, and compiles many patterns."""
        return self._make_now() if self._made is None and self.is_needed else self._made

    def _make_now(self) -> Approvals:
        self._made = made = self._make(self._mode)
        if self._attached is not None:
            made.attach(*self._attached)
        return made

    def set_mode(self, mode: ApprovalMode) -> None:
        """Change the mode for all later calls, of sub-agents too. Rules still apply, and questions that are open stay open.

        Raises BadOption if there is no such mode.
        """
        if mode not in MODES:
            raise BadOption(f"approval: expected {' or '.join(map(repr, MODES))}, found {mode!r}.")
        if mode == self._mode:
            return
        self._mode = mode
        if self._made is not None:
            self._made.set_mode(mode)
        elif mode != "auto":
            self.is_needed = True
        if self._attached is not None:
            self._attached[0].notify(ApprovalModeChanged(mode))
        self._note()

    def change_rules(self, removed: Sequence[ApprovalRule], added: Sequence[ApprovalRule]) -> None:
        """Replace rules for all later calls of this session, of sub-agents too. They are not saved."""
        if added or self.is_needed:
            (self._made or self._make_now()).change_rules(removed, added)

    def attach(self, host: Host, subscribe: Subscribe, history: History) -> None:
        """Ask the user of this host, and follow the events and the conversation of its session."""
        self._attached = (host, subscribe)
        self._history = history
        if self._made is not None:
            self._made.attach(host, subscribe)
        self._restore()
        subscribe(self._on_event, kinds=(SessionReplaced, AgentStart))

    def _on_event(self, event: Event) -> None:
        self._restore()
        if isinstance(event, AgentStart):
            self._worked_in = self._restored
            self._note()

    def _restore(self) -> None:
        """Take the mode that the conversation notes, if it is stricter. A store may have read it only when a run starts."""
        conversation = None if self._history is None else self._history.conversation
        if conversation is None or conversation is self._restored or not conversation.has_begun:
            return
        self._restored = conversation
        noted = noted_mode(conversation.log)
        if noted is not None and not self._is_explicit and MODES.index(noted[0]) > MODES.index(self._mode):
            self.set_mode(noted[0])

    def _note(self) -> None:
        """Note the mode in a conversation that would otherwise be resumed with another one."""
        conversation = self._worked_in
        if conversation is None or self._history is None or conversation is not self._history.conversation:
            return
        noted = noted_mode(conversation.log)
        if self._mode != (self._default if noted is None else noted[0]):
            note_mode(conversation, self._mode)

    def check(
        self, tool: Tool, call_id: str, arguments: dict[str, Any], cancel: CancelToken, *, subagent: str | None = None
    ) -> Awaitable[Permission | None] | None:
        approvals = self._approvals
        if approvals is None:
            return None
        return approvals.check(tool, call_id, arguments, cancel, subagent=subagent)

    def for_subagent(self, id: str | None) -> SubagentApprover:
        return SubagentApprover(self, id)


class SubagentApprover:
    """Implements `fairlead.core.tool.Approver` for a sub-agent of a session."""

    def __init__(self, session: SessionApprovals, id: str | None) -> None:
        self._session = session
        self._id = id

    @property
    def mode(self) -> ApprovalMode:
        return self._session.mode

    @property
    def is_needed(self) -> bool:
        return self._session.is_needed

    def set_mode(self, mode: ApprovalMode) -> None:
        self._session.set_mode(mode)

    def check(
        self, tool: Tool, call_id: str, arguments: dict[str, Any], cancel: CancelToken
    ) -> Awaitable[Permission | None] | None:
        return self._session.check(tool, call_id, arguments, cancel, subagent=self._id)

    def for_subagent(self, id: str | None) -> SubagentApprover:
        return SubagentApprover(self._session, id)
