"""The question whether a tool call may run, and the rule that an answer may write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from fairlead import Allow, ApprovalRequest, Deny, NewRule, RuleOffer
from fairlead.chat.dialogs import Cursor, Dialog, Drawn, Line
from fairlead.chat.view.panels import Proposal
from fairlead.chat.view.text import clip, one_line, plain, visible, width, wrap
from fairlead.chat.view.theme import Theme

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

    def appear(self) -> None:
        self._proposal = self._propose(self._request)

    def key(self, name: str, data: str) -> None:
        if self._reason is not None:
            self._reason_key(name, data)
            return
        if self._rule is not None:
            self._rule_key(self._rule, name, data)
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
