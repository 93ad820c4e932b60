"""The approval mode of a session, which can change while the session lasts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, get_args

from fairlead.config.settings import ApprovalMode
from fairlead.core.events import ApprovalModeChanged, Event
from fairlead.errors import BadOption

if TYPE_CHECKING:
    from fairlead.core.runtime import CancelToken
    from fairlead.core.tool import Permission, Tool
    from fairlead.session.approvals import Approvals
    from fairlead.session.host import Host

#: Makes what approves the calls in a mode.
MakeApprovals = Callable[[ApprovalMode], "Approvals"]


class SessionApprovals:
    """Implements `fairlead.core.tool.Approver` for a session. Sub-agents share its mode, and all that the user answered.

    Nothing is loaded as long as every call may run: in the mode `auto`, without rules.
    """

    def __init__(self, mode: ApprovalMode, make: MakeApprovals, *, has_rules: bool) -> None:
        self._mode: ApprovalMode = mode
        self._make = make
        self._attached: tuple[Host, Callable[[Callable[[Event], None]], object]] | None = None
        self._approvals = make(mode) if has_rules or mode != "auto" else None

    @property
    def mode(self) -> ApprovalMode:
        return self._mode

    def set_mode(self, mode: ApprovalMode) -> None:
        """Change the mode for all later calls, of sub-agents too. Rules still apply, and questions that are open stay open.

        Raises BadOption if there is no such mode.
        """
        if mode not in get_args(ApprovalMode):
            raise BadOption(f"approval: expected {' or '.join(map(repr, get_args(ApprovalMode)))}, found {mode!r}.")
        if mode == self._mode:
            return
        if self._approvals is None:
            self._approvals = self._make(mode)
            if self._attached is not None:
                self._approvals.attach(*self._attached)
        self._approvals.set_mode(mode)
        self._mode = mode
        if self._attached is not None:
            self._attached[0].notify(ApprovalModeChanged(mode))

    def attach(self, host: Host, subscribe: Callable[[Callable[[Event], None]], object]) -> None:
        """Ask the user of this host, and follow the events of its session."""
        self._attached = (host, subscribe)
        if self._approvals is not None:
            self._approvals.attach(host, subscribe)

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

    def set_mode(self, mode: ApprovalMode) -> None:
        self._session.set_mode(mode)

    def check(
        self, tool: Tool, call_id: str, arguments: dict[str, Any], cancel: CancelToken
    ) -> Awaitable[Permission | None] | None:
        return self._session.check(tool, call_id, arguments, cancel, subagent=self._id)

    def for_subagent(self, id: str | None) -> SubagentApprover:
        return SubagentApprover(self._session, id)
