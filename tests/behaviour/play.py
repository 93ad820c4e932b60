"""Scenarios: what a host does, and what the model answers. Each is played to the real program over real pipes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.host import Frame
from tests.support.stage import Stage, Turn, stage

Part = Callable[[Stage], None]


@dataclass(frozen=True)
class Scenario:
    """`play` is the host's part. The rest is what it finds."""

    play: Part
    turns: Sequence[Turn] = ({"text": "ok"},)
    flags: Sequence[str] = ()
    model: str | None = "fake/fake-1"
    settings: Mapping[str, Any] | None = None
    files: Mapping[str, str] | None = None
    env: Mapping[str, str] | None = None
    #: More models of the provider `fake`, each with what differs.
    models: Sequence[Mapping[str, Any]] = ()
    exit_code: int = 0


@dataclass(frozen=True)
class Played:
    """What came of a scenario."""

    frames: list[Frame] = field(repr=False)
    exit_code: int
    stderr: str


class Repertoire:
    """The scenarios of one family of programs, by name. `reasoning` is the one model of theirs that thinks."""

    def __init__(self, *, reasoning: str) -> None:
        self.scenarios: dict[str, Scenario] = {}
        self._reasoning = reasoning

    def __or__(self, other: Repertoire) -> Repertoire:
        both = Repertoire(reasoning=self._reasoning)
        both.scenarios = self.scenarios | other.scenarios
        return both

    def scenario(self, *turns: Turn, name: str | None = None, **what: Any) -> Callable[[Part], Part]:
        """Declare a scenario: what the model answers, and what else there is."""

        def declare(play: Part) -> Part:
            given: dict[str, Any] = {"turns": turns, **what} if turns else what
            self.scenarios[name or play.__name__] = Scenario(play, **given)
            return play

        return declare

    def play(self, name: str, dialect: str, root: Path) -> Played:
        """Play a scenario to its end: the host leaves, the program exits."""
        scenario = self.scenarios[name]
        with stage(
            root,
            dialect,
            scenario.turns,
            flags=scenario.flags,
            model=scenario.model,
            reasoning=self._reasoning,
            settings=scenario.settings,
            files=scenario.files,
            env=scenario.env,
            models=scenario.models,
        ) as host:
            scenario.play(host)
            code = host.leave()
        return Played(host.frames, code, host.stderr())
