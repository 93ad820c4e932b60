"""Ends runs that would never end: by a number of turns, when calls go round in circles, and when an answer repeats itself.

A turn repeats an earlier one if it makes the same calls and gets the same results. One such turn after another is a circle, and
so are two or three turns that come again and again. A call that succeeds and says nothing (`true`) is not evidence of a circle.

An answer repeats itself if its last characters are one passage, at least four times in a row, letter for letter, and that has
lasted for some seconds. Text that merely looks alike, such as a table or a numbered list, does not count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import msgspec
from msgspec import Struct

from fairlead.core.messages import ImageContent, ToolCall
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart
from fairlead.core.tool import ToolResult

#: A circle has at most this many turns.
_LONGEST_CIRCLE = 3
_NO_OUTPUT = frozenset({"", "(no output)"})
#: Characters of arguments and results that are kept to be compared.
_LONG = 1_000
#: How often a passage has to come in a row, at least, to be a repetition.
_PASSAGES = 4
#: Arguments of tools may repeat this many times as much as text: data in files is often uniform.
_MORE_IN_CALLS = 4
#: For how long an answer has to repeat itself. Uniform data that a program writes arrives faster.
_REPEATING_MS = 10_000

#: A call and its result: the tool, its arguments, whether it failed, and what it returned.
_Outcome: TypeAlias = tuple[str, str, bool, tuple[str, ...]]


class RunLimits(Struct, frozen=True):
    """The limits that a caller sets for one run, in addition to those of the session."""

    #: The number of model calls; 0: no limit. None: the session decides.
    max_turns: int | None = None
    #: Returns why the run must not call the model again; None if it may.
    over_budget: Callable[[], str | None] = lambda: None
    #: Returns why the calls of an answer must not run either; None if they may.
    refuse_calls: Callable[[], str | None] = lambda: None
    #: How often in a row the same calls may have the same results; 0: no limit. None: the session decides.
    max_repeats: int | None = None


class Limits:
    """Counts the turns of one run and compares their calls.

    `max_turns` is the number of model calls a run may make, `max_repeats` how often in a row it may make the same calls with the
    same results, `max_repeated_text` how many characters of an answer may be one passage again and again. 0: no limit.
    `over_budget` returns why the run must not call the model again for another reason.
    """

    def __init__(
        self,
        max_turns: int = 0,
        max_repeats: int = 0,
        over_budget: Callable[[], str | None] = lambda: None,
        max_repeated_text: int = 0,
        refuse_calls: Callable[[], str | None] = lambda: None,
    ) -> None:
        #: Returns why calls must not start; None if they may.
        self.refuse_calls = refuse_calls
        self._max_turns = max_turns
        self._over_budget = over_budget
        self._max_repeated_text = max_repeated_text
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

    def watch_answer(self, now_ms: Callable[[], int]) -> RepetitionWatch | None:
        """Return what looks for repetitions in the next answer; None if it may repeat itself."""
        return RepetitionWatch(self._max_repeated_text, now_ms) if self._max_repeated_text else None

    def on_answer(self) -> None:
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
        if not repeats or _is_empty(outcome):
            return None
        return (
            "[This is the same call with the same result as before. Repeating it will not help: try something else."
            " If you are waiting for something, wait longer in one call."
            f" After {self._max_repeats} times in a row the run is stopped.]"
        )

    def on_turn_end(self) -> None:
        """Compare the turn with earlier ones: all its calls have results."""
        calls = frozenset(self._present)
        for length in range(1, _LONGEST_CIRCLE + 1):
            is_same = bool(calls) and len(self._before) >= length and self._before[-length] == calls
            self._same[length - 1] = self._same[length - 1] + 1 if is_same else 0
        self._before.append(calls)

    def on_user_message(self, *, model_was_done: bool) -> None:
        """Forget earlier repetitions, because the user has sent a message. Forget earlier turns too if the model was done."""
        self._before.clear()
        self._same = [0] * _LONGEST_CIRCLE
        if model_was_done:
            self._turns = 0

    def find_stop_reason(self) -> str | None:
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
            if 1 + same // length >= self._max_repeats and not all(map(_is_empty, calls)):
                return sorted({name for name, *_ in calls})
        return []


def _outcome(call: ToolCall, bad_arguments: str | None, result: ToolResult, is_error: bool) -> _Outcome:
    written = bad_arguments if bad_arguments is not None else msgspec.json.encode(call.arguments, order="sorted").decode()
    blocks = tuple(block.data if isinstance(block, ImageContent) else block.text for block in result.content)
    # The log of a long output has a new name each time.
    log = result.detail("fullOutputPath") or result.detail("persistedOutputPath")
    if isinstance(log, str):
        blocks = tuple(block.replace(log, "") for block in blocks)
    return call.name, _in_short(written), is_error, tuple(map(_in_short, blocks))


def _in_short(text: str) -> str:
    """Return the text, or something that stands for it if it is long: outcomes are kept for several turns."""
    return text if len(text) <= _LONG else f"{len(text)} characters, {hash(text):x}"


def _is_empty(outcome: _Outcome) -> bool:
    *_, is_error, blocks = outcome
    return not is_error and all(block.strip() in _NO_OUTPUT for block in blocks)


class _Tail:
    """The end of one block of an answer."""

    __slots__ = ("fresh", "grown", "length", "since", "text")

    def __init__(self, length: int) -> None:
        self.length = length
        self.text = ""
        #: What has arrived since the last look, and how much that is.
        self.fresh: list[str] = []
        self.grown = 0
        #: When the text was first found to repeat itself; None: it does not.
        self.since: int | None = None


class RepetitionWatch:
    """Looks for endless repetitions in one answer while it arrives, at a cost that grows with its length."""

    def __init__(self, limit: int, now_ms: Callable[[], int]) -> None:
        self._limit = max(limit, _PASSAGES)
        self._now_ms = now_ms
        self._tails: dict[int, _Tail] = {}

    def feed(self, event: BlockStart | BlockDelta | BlockEnd) -> str | None:
        """Look at a part of the answer. Returns why the answer has to end here; None if it may go on."""
        if not isinstance(event, BlockDelta):
            self._tails.pop(event.index, None)
            if isinstance(event, BlockStart):
                is_call = isinstance(event.block, ToolCall)
                self._tails[event.index] = _Tail(self._limit * _MORE_IN_CALLS if is_call else self._limit)
            return None
        tail = self._tails.get(event.index)
        if tail is None:
            return None
        tail.fresh.append(event.delta)
        tail.grown += len(event.delta)
        if tail.grown < tail.length // _PASSAGES or not self._repeats(tail):
            return None
        return (
            "The answer was stopped because it repeated itself without end. Prompt again in other words, or choose another model."
            " The setting maxRepeatedText changes the limit (0: no limit)."
        )

    def _repeats(self, tail: _Tail) -> bool:
        """Whether the block has repeated itself for too long."""
        tail.text = (tail.text + "".join(tail.fresh))[-tail.length :]
        tail.fresh.clear()
        tail.grown = 0
        if len(tail.text) < tail.length or not _is_one_passage(tail.text):
            tail.since = None
            return False
        now = self._now_ms()
        if tail.since is None:
            tail.since = now
        return now - tail.since >= _REPEATING_MS


def _is_one_passage(text: str) -> bool:
    """Whether the text is one passage, at least four times in a row. The last time may be cut off."""
    longest = len(text) // _PASSAGES
    # The shortest distance at which the beginning comes again is the only one that can be the length of the passage.
    length = text.find(text[:longest], 1, 2 * longest)
    return length > 0 and text.startswith(text[length:])
