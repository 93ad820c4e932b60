"""How the engine and extensions ask and inform the user of the chat: questions, notices, and whether a tool call may run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Protocol, TypeVar

from fairlead import Allow, ApprovalRequest, CancelToken, Canvas, Deny, NewRule, NoUi, RuleOffer
from fairlead.chat.dialogs import Ask, Choice, Confirm, Cursor, Dialog, Drawn, EditorDialog, Line, Picker
from fairlead.chat.view.panels import Proposal
from fairlead.chat.view.text import clip, one_line, plain, visible, width, wrap
from fairlead.chat.view.theme import Theme
from fairlead.events import Event, UiPromptEnd, UiPromptKind, UiPromptStart

#: Seconds without a key after which the user is no longer in the middle of writing.
PAUSE = 0.7
#: The keys of an approval are explained at length in a terminal with this many columns.
_WIDE = 48
#: The keys of an approval need this many columns, and this many more if it can write a rule.
_KEYS = 38
_ALWAYS = (("r", "always…"),)
_ALWAYS_WIDTH = 12


class Propose(Protocol):
    """Shows what a call would do above the question. With `is_whole`, it leaves out nothing."""

    def __call__(self, request: ApprovalRequest, *, is_whole: bool = False) -> Proposal: ...


class Approval(Dialog[Allow | Deny]):
    """Whether a tool call may run. What it would do is shown above, unless that is short.

    Args:
        request: The call.
        propose: Shows what it would do.
        stop: Aborts the run.
    """

    def __init__(self, request: ApprovalRequest, propose: Propose, stop: Callable[[], None]) -> None:
        super().__init__(request.title)
        self._request = request
        self._propose = propose
        self._stop = stop
        self._proposal: Proposal | None = None
        self._reason: Line | None = None
        self._rule: RuleLine | None = None
        #: When a letter was pressed last that answered nothing.
        self._ignored_at = float("-inf")

    def appear(self) -> None:
        self._proposal = self._propose(self._request)

    def key(self, name: str, data: str) -> None:
        if self._reason is not None:
            self._reason_key(name, data)
            return
        if self._rule is not None:
            self._rule_key(self._rule, name, data)
            return
        if len(name) == 1 and not self._is_answer(name):
            return
        match name:
            case "y" | "Y":
                self.finish(Allow())
            case "a" | "A":
                self.finish(Allow(for_session=True))
            case "r" | "R" if self._request.rules is not None:
                self._rule = RuleLine(self._request.rules)
            case "n" | "N":
                self._reason = Line()
            case "escape" | "c-c":
                self.finish(Deny())
                self._stop()
            case "c-o" if self._proposal is not None and self._proposal.left_out:
                self._proposal = self._propose(self._request, is_whole=True)
            case _:
                pass

    def _is_answer(self, letter: str) -> bool:
        """Return whether a letter answers the question. In words that the user types on, no letter does."""
        now = monotonic()
        answers = "yan" if self._request.rules is None else "yarn"
        if letter.lower() in answers and now - self._ignored_at >= PAUSE:
            return True
        self._ignored_at = now
        return False

    def _reason_key(self, name: str, data: str) -> None:
        assert self._reason is not None
        if name == "c-m":
            self.finish(Deny(self._reason.text.strip()))
        elif name in ("escape", "c-c"):
            self._reason = None
        else:
            self._reason.key(name, data)

    def _rule_key(self, line: RuleLine, name: str, data: str) -> None:
        if name == "c-m":
            if line.find_problem() is None:
                self.finish(Allow(rule=line.rule))
        elif name in ("escape", "c-c"):
            self._rule = None
        else:
            line.key(name, data)

    def draw(self, theme: Theme, columns: int, rows: int) -> Drawn:
        who = f" (sub-agent {self._request.subagent})" if self._request.subagent else ""
        about = f" {self._proposal.about}" if self._proposal is not None else ""
        head = theme.paint("warning", clip(one_line(visible(f"{self.title}{who}{about}".rstrip())), columns))
        body = self._body(theme, columns)
        cursor: Cursor = None
        if self._rule is not None:
            foot, cursor = self._rule.draw(theme, columns)
        elif self._reason is not None:
            shown, at = self._reason.draw(columns - 9)
            cursor = (0, 8 + at)
            foot = [f"{theme.paint('accent', 'Reason:')} {shown}", theme.paint("dim", "Enter deny · Esc back")]
        else:
            foot = _keys(theme, columns, plain(visible(self._request.scope)), has_rules=self._request.rules is not None)
        if len(body) > (room := max(0, rows - 1 - len(foot))):
            shown_body = body[: max(0, room - 1)]
            left_out = f"… {len(body) - len(shown_body)} more lines do not fit"
            body = [*shown_body, theme.paint("warning", clip(left_out, columns))]
        lines = [head, *body, *foot][-rows:]
        return lines, None if cursor is None else (len(lines) - len(foot) + cursor[0], cursor[1])

    def _body(self, theme: Theme, columns: int) -> list[str]:
        proposal = self._proposal
        if proposal is None:
            return []
        lines = proposal.short(columns) if proposal.is_short else []
        if proposal.is_unknown:
            lines.append(theme.paint("warning", clip("  The change cannot be shown.", columns)))
        if proposal.left_out:
            folded = f"  {proposal.left_out:,} lines are folded · Ctrl+O shows all"
            lines.append(theme.paint("warning", clip(folded, columns)))
        return lines


class RuleLine:
    """The rule that an approval writes: its pattern, which the user can edit, and where it holds."""

    def __init__(self, offer: RuleOffer) -> None:
        self._offer = offer
        self._at = 0
        self._everywhere = False
        self._line = Line(offer.patterns[0])

    @property
    def rule(self) -> NewRule:
        return NewRule(self._line.text.strip(), self._everywhere)

    def find_problem(self) -> str | None:
        """Return why the rule cannot be written; None if it can."""
        return self._offer.find_problem(self.rule)

    def key(self, name: str, data: str) -> None:
        match name:
            case "up" | "down":
                self._at = (self._at + (1 if name == "down" else -1)) % len(self._offer.patterns)
                self._line = Line(self._offer.patterns[self._at])
            case "c-i":
                self._everywhere = not self._everywhere
            case _:
                self._line.key(name, data)

    def draw(self, theme: Theme, columns: int) -> Drawn:
        """Return the lines below the call, and the cursor in them."""
        label = "Always allow: "
        shown, at = self._line.draw(columns - len(label) - 1)
        problem = self.find_problem()
        place = "every project" if self._everywhere else f"this project, {plain(visible(self._offer.project))}"
        about = [theme.paint("dim", line) for line in wrap(f"for {plain(visible(self._offer.tool))} in {place}", columns - 2)]
        if problem is not None:
            about = [theme.paint("warning", line) for line in wrap(plain(problem), columns - 2)]
        words = [("Enter", "save and allow"), ("Tab", "this project" if self._everywhere else "every project"), ("Esc", "back")]
        if len(self._offer.patterns) > 1:
            words.insert(1, ("↑↓", "wider, narrower"))
        return [
            f"{theme.paint('accent', label)}{shown}",
            *(f"  {line}" for line in about),
            clip(_paint_hints(theme, words), columns),
        ], (0, len(label) + at)


def _keys(theme: Theme, columns: int, scope: str, *, has_rules: bool) -> list[str]:
    """Return the keys of an approval, and what an answer for the session covers: in the same line if it fits."""
    always, room = (_ALWAYS, columns - _ALWAYS_WIDTH) if has_rules else ((), columns)
    words = (("y", "once"), ("a", "for this session" if room >= _WIDE else "session"), *always, ("n", "deny"), ("Esc", "stop"))
    if room < _KEYS:
        words = (("y/a/r" if has_rules else "y/a", "allow"), ("n", "deny"))
    if scope:
        longer = tuple((key, f"for this session: {scope}" if key == "a" else word) for key, word in words)
        if room >= _KEYS and width(line := _paint_hints(theme, longer)) <= columns:
            return [line]
    about = [theme.paint("dim", clip(f"  For the session: {scope}.", columns))] if scope else []
    return [*about, clip(_paint_hints(theme, words), columns)]


def _paint_hints(theme: Theme, words: Sequence[tuple[str, str]]) -> str:
    return theme.paint("dim", " · ").join(f"{theme.paint('accent', key)} {theme.paint('dim', word)}" for key, word in words)


T = TypeVar("T")


class Stage(Protocol):
    """The part of the chat that shows things."""

    async def ask(self, dialog: Dialog[T]) -> T | None:
        """Show a dialog in place of the editor, after those that wait already, and return the answer."""
        ...

    def note(self, text: str, role: str = "dim") -> None: ...

    def propose(self, request: ApprovalRequest, *, is_whole: bool = False) -> Proposal:
        """Show what a call would do above the question whether it may run. With `is_whole`, leave out nothing."""
        ...

    def set_editor_text(self, text: str) -> None: ...

    def set_title(self, title: str) -> None: ...

    def touch(self) -> None:
        """Draw again soon."""
        ...

    def stop(self) -> None:
        """Abort the run."""
        ...


_ROLES = {"info": "dim", "warning": "warning", "error": "error"}


class ChatUi(NoUi):
    """Implements `fairlead.Ui` for the chat. `canvas` draws components of extensions.

    Attributes:
        statuses: Short texts of extensions for the footer, by key.
        above, below: Lines of extensions above and below the editor, by key.
    """

    available = True

    def __init__(self, stage: Stage, notify: Callable[[Event], None], canvas: Canvas | None = None) -> None:
        self._stage = stage
        self._notify = notify
        self.canvas = canvas
        self.statuses: dict[str, str] = {}
        self.above: dict[str, list[str]] = {}
        self.below: dict[str, list[str]] = {}

    # Questions

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        picker = Picker(title, [Choice(option, option) for option in options], filtered=len(options) > 9)
        return await self._ask_user("select", picker, timeout, cancel)

    async def confirm(
        self, title: str, message: str = "", *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> bool:
        return bool(await self._ask_user("confirm", Confirm(title, message), timeout, cancel))

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        return await self._ask_user("input", Ask(title, placeholder or ""), timeout, cancel)

    async def editor(self, title: str, prefill: str | None = None, *, cancel: CancelToken | None = None) -> str | None:
        return await self._ask_user("editor", EditorDialog(title, prefill or ""), None, cancel)

    async def approve(
        self, request: ApprovalRequest, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> Allow | Deny | None:
        return await self._show_dialog(Approval(request, self._stage.propose, self._stage.stop), timeout, cancel)

    async def _ask_user(
        self, kind: UiPromptKind, dialog: Dialog[T], timeout: float | None, cancel: CancelToken | None
    ) -> T | None:
        self._notify(UiPromptStart(kind, dialog.title))
        try:
            return await self._show_dialog(dialog, timeout, cancel)
        finally:
            self._notify(UiPromptEnd(kind, dialog.title))

    async def _show_dialog(self, dialog: Dialog[T], timeout: float | None, cancel: CancelToken | None) -> T | None:
        """Show a dialog until it is answered, its time is over, or the run is aborted."""
        timer = None if timeout is None else asyncio.get_running_loop().call_later(timeout, dialog.finish, None)
        forget: Callable[[], object] = lambda: None  # noqa: E731
        if cancel is not None:
            forget = cancel.on_fire(lambda: dialog.finish(None))
        try:
            return await self._stage.ask(dialog)
        finally:
            forget()
            if timer is not None:
                timer.cancel()

    # Information

    def notify(self, message: str, kind: Any = None) -> None:
        self._stage.note(message, _ROLES.get(kind or "info", "dim"))

    def set_status(self, key: str, text: str | None) -> None:
        _put(self.statuses, key, text)
        self._stage.touch()

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: Any = None) -> None:
        self.above.pop(key, None)
        self.below.pop(key, None)
        _put(self.below if placement == "belowEditor" else self.above, key, None if lines is None else list(lines))
        self._stage.touch()

    def set_title(self, title: str) -> None:
        self._stage.set_title(title)

    def set_editor_text(self, text: str) -> None:
        self._stage.set_editor_text(text)

    def open_url(self, url: str, instructions: str | None = None) -> None:
        self._stage.note(f"{instructions or 'Open this page:'} {url}", "accent")


def _put(values: dict[str, T], key: str, value: T | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
