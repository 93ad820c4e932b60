"""Ends runs that would never end: by a number of turns, and when calls go round in circles.

A turn repeats an earlier one if it makes the same calls and gets the same results. One such turn after another is a circle, and
so are two or three turns that come again and again. A call that succeeds and says nothing (`true`) is not evidence of a circle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import msgspec
from msgspec import Struct

from fairlead.core.messages import ImageContent, ToolCall
from fairlead.core.tool import ToolResult

#: A circle has at most this many turns.
_LONGEST_CIRCLE = 3
_NO_OUTPUT = frozenset({"", "(no output)"})
#: Characters of arguments and results that are kept to be compared.
_LONG = 1_000

#: A call and its result: the tool, its arguments, whether it failed, and what it returned.
_Outcome: TypeAlias = tuple[str, str, bool, tuple[str, ...]]


class RunLimits(Struct, frozen=True):
    """The limits that a caller sets for one run, in addition to those of the session."""

    #: The number of model calls; 0: no limit. None: the session decides.
    max_turns: int | None = None
    #: Returns why the run must not call the model again; None if it may.
    over_budget: Callable[[], str | None] = lambda: None


class Limits:
    """Counts the turns of one run and compares their calls.

    `max_turns` is the number of model calls a run may make, `max_repeats` how often in a row it may make the same calls with the
    same results. 0: no limit. `over_budget` returns why the run must not call the model again for another reason.
    """

    def __init__(self, max_turns: int = 0, max_repeats: int = 0, over_budget: Callable[[], str | None] = lambda: None) -> None:
        self._max_turns = max_turns
        self._over_budget = over_budget
        #: A call has to be made twice before it is repeated.
        self._max_repeats = max(2, max_repeats) if max_repeats else 0
        self._turns = 0
        self._present: set[_Outcome] = set()
        self._before: deque[frozenset[_Outcome]] = deque(maxlen=_LONGEST_CIRCLE)
        #: For each length of a circle: how many turns in a row were the same as the one that many turns before.
        self._same = [0] * _LONGEST_CIRCLE

    @property
    def exhausted(self) -> bool:
        """Whether the run has used all its model calls, or its budget."""
        return self._out_of_turns or self._over_budget() is not None

    @property
    def _out_of_turns(self) -> bool:
        return 0 < self._max_turns <= self._turns

    def answered(self) -> None:
        """Count a turn: the model has answered."""
        self._turns += 1
        self._present.clear()

    def add_result(self, call: ToolCall, bad_arguments: str | None, result: ToolResult, is_error: bool) -> str | None:
        """Count a call of the present turn.

        Args:
            call: The call.
            bad_arguments: Its arguments as the model wrote them, if they could not be read.
            result: What the model gets.
            is_error: Whether the call failed.

        Returns:
            A hint to add to the result if the run goes round in circles, else None.
        """
        if not self._max_repeats:
            return None
        outcome = _outcome(call, bad_arguments, result, is_error)
        self._present.add(outcome)
        repeats = any(
            outcome in self._before[-length] and self._same[length - 1] >= length - 1
            for length in range(1, len(self._before) + 1)
        )
        if not repeats or _says_nothing(outcome):
            return None
        return (
            "[This is the same call with the same result as before. Repeating it will not help: try something else."
            " If you are waiting for something, wait longer in one call."
            f" After {self._max_repeats} times in a row the run is stopped.]"
        )

    def turn_ended(self) -> None:
        """Compare the turn with earlier ones: all its calls have results."""
        calls = frozenset(self._present)
        for length in range(1, _LONGEST_CIRCLE + 1):
            is_same = bool(calls) and len(self._before) >= length and self._before[-length] == calls
            self._same[length - 1] = self._same[length - 1] + 1 if is_same else 0
        self._before.append(calls)

    def heard_user(self, *, model_was_done: bool) -> None:
        """Forget earlier repetitions, because the user has sent a message. Forget earlier turns too if the model was done."""
        self._before.clear()
        self._same = [0] * _LONGEST_CIRCLE
        if model_was_done:
            self._turns = 0

    def why_stop(self) -> str | None:
        """Why the model must not be called again; None if it may."""
        tools = self._tools_in_circle()
        if tools:
            return (
                f"The run was stopped because it went round in circles: the model made the same calls ({', '.join(tools)})"
                f" {self._max_repeats} times in a row, with the same results each time. Tell the model what to do differently,"
                " or change the setting maxRepeatedCalls (0: no limit)."
            )
        if self._out_of_turns:
            turns = "1 turn" if self._max_turns == 1 else f"{self._max_turns} turns"
            return (
                f"The run was stopped after {turns} (maxTurns), before the model was done."
                " Prompt again to let it continue, or raise the limit."
            )
        return self._over_budget()

    def _tools_in_circle(self) -> list[str]:
        """The tools whose calls were repeated too often."""
        if not self._max_repeats:
            return []
        for length, same in enumerate(self._same, 1):
            calls = {call for turn in list(self._before)[-length:] for call in turn}
            if 1 + same // length >= self._max_repeats and not all(map(_says_nothing, calls)):
                return sorted({name for name, *_ in calls})
        return []


def _outcome(call: ToolCall, bad_arguments: str | None, result: ToolResult, is_error: bool) -> _Outcome:
    written = bad_arguments if bad_arguments is not None else msgspec.json.encode(call.arguments, order="sorted").decode()
    blocks = tuple(block.data if isinstance(block, ImageContent) else block.text for block in result.content)
    # The log of a long output has a new name each time.
    log = (result.details or {}).get("fullOutputPath")
    if isinstance(log, str):
        blocks = tuple(block.replace(log, "") for block in blocks)
    return call.name, _in_short(written), is_error, tuple(map(_in_short, blocks))


def _in_short(text: str) -> str:
    """Return the text, or something that stands for it if it is long: outcomes are kept for several turns."""
    return text if len(text) <= _LONG else f"{len(text)} characters, {hash(text):x}"


def _says_nothing(outcome: _Outcome) -> bool:
    *_, is_error, blocks = outcome
    return not is_error and all(block.strip() in _NO_OUTPUT for block in blocks)
