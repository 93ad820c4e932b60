"""Approvals that a function of the program decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fairlead.agent.hooks import called
from fairlead.agent.options import OnApproval
from fairlead.core.approval import Allow, ApprovalAnswer, ApprovalRequest, Deny
from fairlead.core.runtime import CancelToken


class ProgramApprover:
    """Asks `on_approval` instead of the user. Implements `fairlead.session.approvals.Asker`."""

    available = True

    def __init__(self, function: OnApproval) -> None:
        self._function: Callable[[ApprovalRequest], Any] = function

    async def approve(
        self, request: ApprovalRequest, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> ApprovalAnswer | None:
        """Return the answer of the program; None if it has none, or none in time. Raises what it raises, and TypeError."""
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                answer = await called(self._function, request)
        except TimeoutError:
            if limit.expired():
                return None
            raise
        if isinstance(answer, bool):
            return Allow() if answer else Deny()
        if answer is None or isinstance(answer, Allow | Deny):
            return answer
        raise TypeError(f"on_approval must return Allow, Deny, True, False or None, not {type(answer).__name__}.")
