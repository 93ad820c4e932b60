"""Agents that a session can give work to: a few built-in ones, those that users define in Markdown, and how many work at once.

    ---
    name: reviewer
    description: Looks for mistakes in a change
    tools: read, grep, bash
    model: anthropic/claude-haiku-4-5
    thinking: low
    ---
    You review changes. ...

The text is the agent's system prompt. Without `tools` it has all that its parent has, without `model` or `thinking`
its parent's. Other fields are ignored.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from fairlead.config import trust
from fairlead.config.home import Level
from fairlead.config.project_files import Budget, list_folder
from fairlead.core.model import THINKING_LEVELS, ThinkingLevel
from fairlead.core.runtime import CancelToken
from fairlead.core.snapshots import AgentSource
from fairlead.errors import ConfigError
from fairlead.session import front_matter

if TYPE_CHECKING:
    from fairlead.session.front_matter import Value


#: A project can bring definitions, and they are read while the agent starts: how many files, and their size together.
MOST_AGENTS = 200
LARGEST_AGENTS = 2 * 1024 * 1024


class AgentDefinition(Struct, frozen=True, kw_only=True):
    """A kind of agent. `description` tells the model that hands out work what this agent is good for."""

    name: str
    description: str
    #: Its part of the system prompt.
    prompt: str
    #: The tools it may use, as far as its parent has them; None: all of those.
    #: A name also means all tools whose names begin with it and `__`: those of an MCP server.
    tools: tuple[str, ...] | None = None
    #: The tools of these that it may not use.
    excluded: tuple[str, ...] = ()
    #: How many model calls it may make; None: as many as its parent.
    max_turns: int | None = None
    #: A pattern, as for `--model`; None: the parent's.
    model: str | None = None
    thinking: ThinkingLevel | None = None
    source: AgentSource = "bundled"


def choose_tools(agent: AgentDefinition, tools: Iterable[str]) -> list[str]:
    """Return the names of those tools that an agent may use."""

    def find(names: Sequence[str]) -> list[str]:
        return [tool for name in names for tool in there if tool == name or tool.startswith(f"{name}__")]

    there = list(tools)
    excluded = find(agent.excluded)
    return [name for name in (there if agent.tools is None else find(agent.tools)) if name not in excluded]


_REPORT = (
    "Another agent gave you this assignment. It sees nothing of your work but your last message, and cannot answer questions: "
    "decide by yourself what is left open. End with a message that says what you found or did, what you are not sure of, and "
    "which files matter, by their path."
)

BUILT_IN = (
    AgentDefinition(
        name="task",
        description="does any self-contained piece of work, with all tools",
        prompt=(
            "You are a coding agent with one assignment. Do all of it and nothing beside it, follow the conventions that you "
            f"find, and check your work by running it where that is possible. {_REPORT}"
        ),
    ),
    AgentDefinition(
        name="explore",
        description="searches and reads, and changes nothing; good for questions about a large code base",
        prompt=(
            "You find things out in a code base and change nothing. Search widely first, then read what matters, and quote "
            f"the lines that your answer rests on with their file and line number. {_REPORT}"
        ),
        tools=("read", "grep", "find", "ls"),
    ),
)


def load_agents(
    folders: Sequence[tuple[Level, Path]], disabled: Sequence[str] = (), within: Path | None = None, *, trusted: bool = True
) -> tuple[dict[str, AgentDefinition], list[str]]:
    """Load all agents. Of two with the same name, the later one is used.

    Args:
        folders: Where definitions are. A directory that does not exist has none.
        disabled: The names of agents to leave out.
        within: The directory that the project's definitions must be in; None if they are the user's own.
        trusted: Whether the project is trusted. If it is not, its agents do not replace others, and do not choose a model or a
            thinking level.

    Returns:
        The agents by name, and a sentence for everything in the definitions that is not used.
    """
    found = {agent.name: agent for agent in BUILT_IN}
    problems: list[str] = []
    for source, folder in folders:
        bound = within if source == "project" else None
        budget = Budget(files=MOST_AGENTS, size=LARGEST_AGENTS)
        agents: dict[str, AgentDefinition] = {}
        for name in list_folder(folder, problems, within=bound, budget=budget):
            if not name.endswith(".md"):
                continue
            try:
                agent = read_agent(folder / name, source, budget, bound)
            except ConfigError as error:
                problems.append(str(error))
            else:
                agents[agent.name] = agent
        if bound is not None and not trusted:
            agents = _harmless(agents, found, folder, problems)
        found |= agents
    return {name: agent for name, agent in found.items() if name not in disabled}, problems


def _harmless(
    agents: Mapping[str, AgentDefinition], others: Mapping[str, AgentDefinition], folder: Path, problems: list[str]
) -> dict[str, AgentDefinition]:
    """What may be used of the agents of a project that is not trusted. One sentence says what is ignored."""
    # Without regard to case: a model hardly tells Explore from explore.
    taken = {name.lower() for name, other in others.items() if other.source != "project"}
    ignored = [f"the agent {name}, because another one has the same name" for name in agents if name.lower() in taken]
    used: dict[str, AgentDefinition] = {}
    for name, agent in agents.items():
        if name.lower() in taken:
            continue
        chosen = [field for field in ("model", "thinking") if getattr(agent, field) is not None]
        ignored += [f"{' and '.join(chosen)} of the agent {name}"] if chosen else []
        used[name] = replace(agent, model=None, thinking=None)
    if ignored:
        project = trust.format_trust_hint(folder.parent.parent)  # the directory is agents in a folder of the project
        problems.append(f"{folder}: ignored, because the project is not trusted: {'; '.join(ignored)}. {project}")
    return used


def read_agent(path: Path, source: AgentSource, budget: Budget | None = None, within: Path | None = None) -> AgentDefinition:
    """The agent that a file defines. Raises ConfigError, which says what is wrong with it."""
    text = ((budget or Budget()).read(path, within=within) or b"").decode("utf-8", "replace")
    try:
        fields, prompt = front_matter.split(text)
        return AgentDefinition(
            name=_name(_text(fields, "name") or path.stem),
            description=_require(_text(fields, "description"), "description: expected a text that says what it is good for."),
            prompt=_require(prompt, "expected the agent's instructions after the front matter."),
            tools=_names(fields, "tools"),
            model=_text(fields, "model") or None,
            thinking=_level(_text(fields, "thinking")),
            source=source,
        )
    except ValueError as error:
        raise ConfigError(f"{path}: {error} This agent is left out.") from None


def _text(fields: Mapping[str, Value], key: str) -> str:
    try:
        return front_matter.as_text(fields.get(key, ""))
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def _require(text: str, problem: str) -> str:
    if not text:
        raise ValueError(problem)
    return text


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][\w-]*", text, re.ASCII):
        raise ValueError(f"name: expected letters, digits, '-' and '_', found {text!r}.")
    return text


def _names(fields: Mapping[str, Value], key: str) -> tuple[str, ...] | None:
    value = fields.get(key, "")
    if value == "":
        return None
    try:
        items = value.split(",") if isinstance(value, str) else front_matter.as_texts(value)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
    return tuple(name for item in items if (name := item.strip()))


def _level(text: str) -> ThinkingLevel | None:
    if text and text not in THINKING_LEVELS:
        raise ValueError(f"thinking: expected one of {', '.join(THINKING_LEVELS)}, found {text!r}.")
    return next((level for level in THINKING_LEVELS if level == text), None)


class Slots:
    """A number of slots. Waiters get them in the order in which they asked."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: list[asyncio.Future[bool]] = []

    async def take(self, cancel: CancelToken) -> bool:
        """Wait for a slot; False if `cancel` fires first."""
        if cancel.fired:
            return False
        if self._free:
            self._free -= 1
            return True
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        forget = cancel.on_fire(lambda: _answer(waiter, False))
        try:
            return await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and waiter.result():  # it was given a slot that it will not use
                self.give_back()
            raise
        finally:
            forget()

    def give_back(self) -> None:
        while self._waiting:
            if _answer(self._waiting.pop(0), True):
                return
        self._free += 1


class Slot:
    """The slot of one sub-agent. While the agent waits for its own sub-agents, others may use it, or all could wait forever."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._held = False
        self._lendings = 0
        self._is_wanted_back = False

    async def take(self, cancel: CancelToken) -> bool:
        """Wait for a slot; False if `cancel` fires first."""
        self._held = await self._slots.take(cancel)
        return self._held

    def give_back(self) -> None:
        if self._held:
            self._held = False
            self._slots.give_back()

    @asynccontextmanager
    async def lent(self, cancel: CancelToken) -> AsyncGenerator[None]:
        """Leave the slot to others; in the end wait for one again, unless `cancel` fires."""
        self._lendings += 1
        self.give_back()
        try:
            yield
        finally:
            self._lendings -= 1
            if not self._lendings and not self._is_wanted_back:
                await self._take_back(cancel)

    async def _take_back(self, cancel: CancelToken) -> None:
        self._is_wanted_back = True
        try:
            await self.take(cancel)
        finally:
            self._is_wanted_back = False
            if self._lendings:  # it waits again, for others
                self.give_back()


def _answer(waiter: asyncio.Future[bool], answer: bool) -> bool:
    """Answer a waiter. Returns whether it was still waiting."""
    if waiter.done():
        return False
    waiter.set_result(answer)
    return True
