"""The tools of a session: those it began with, and those that extensions and servers add later."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from fairlead.core.tool import Tool
from fairlead.errors import BadCommand
from fairlead.tools import with_usual_subject


class Toolbox(Mapping[str, Tool]):
    """All tools by name, and the names of those that the model may use, in the order in which it sees them."""

    def __init__(self, tools: Mapping[str, Tool], active: Sequence[str]) -> None:
        self._tools = {name: with_usual_subject(tool) for name, tool in tools.items()}
        self._active = [name for name in active if name in tools]
        #: The names that each owner has brought.
        self._brought: dict[str, frozenset[str]] = {}
        #: The tools that others stand in for.
        self._replaced: dict[str, Tool] = {}

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def active(self) -> list[str]:
        """The names of the tools that the model may use."""
        return list(self._active)

    def active_tools(self) -> dict[str, Tool]:
        """The tools that the model may use."""
        return {name: self._tools[name] for name in self._active}

    def activate(self, names: Sequence[str]) -> None:
        """Choose the tools that the model may use. Raises BadCommand if there is no such tool."""
        unknown = [name for name in names if name not in self._tools]
        if unknown:
            raise BadCommand(f"Unknown tool: {', '.join(unknown)}. The tools are: {', '.join(self._tools)}")
        self._active = list(dict.fromkeys(names))

    def builtin(self, name: str) -> Tool:
        """The tool that the session began with, even if another one stands in for it. Raises BadCommand if there is none."""
        found = self._replaced.get(name) or self._tools.get(name)
        if found is None or (name not in self._replaced and any(name in names for names in self._brought.values())):
            raise BadCommand(f"There is no built-in tool {name}.")
        return found

    def taken(self, owner: str) -> set[str]:
        """The names that `owner` cannot use, because others have them."""
        return set(self._tools) - self._brought.get(owner, frozenset())

    async def close(self) -> None:
        """Close the tools that belong to this session alone."""
        for tool in self._tools.values():
            if tool.close is not None and tool.bound:
                await tool.close()

    def replace(self, owner: str, tools: Sequence[Tool], *, inactive: Collection[str] = (), instead: bool = False) -> None:
        """Replace the tools of `owner`.

        A name that the owner had before stays active or not, as it was; a new one is active, unless `inactive` has it. A new
        one goes before those of owners that came later, so that the order is the same when one of them takes its time.
        With `instead`, a tool stands in for one that the session began with, which comes back when the owner removes it.
        Raises BadCommand if a name belongs to a tool that is not the owner's; then nothing has changed.
        """
        before = self._brought.get(owner, frozenset())
        taken = self.taken(owner)
        if instead:
            taken &= frozenset[str]().union(*self._brought.values())
        for tool in tools:
            if tool.name in taken:
                raise BadCommand(f'{owner} tool "{tool.name}" conflicts with an existing tool')
        brought = {tool.name: with_usual_subject(tool) for tool in tools}
        others = {name: tool for name, tool in self._tools.items() if name not in before}
        for name in before - set(brought):
            if name in self._replaced:
                others[name] = self._replaced.pop(name)
        self._replaced |= {name: others[name] for name in brought if name in others}
        self._tools = others | brought
        self._active = [name for name in self._active if name in self._tools]
        self._brought[owner] = frozenset(brought)
        owners = list(self._brought)
        later = frozenset[str]().union(*(self._brought[other] for other in owners[owners.index(owner) + 1 :]))
        place = next((number for number, name in enumerate(self._active) if name in later), len(self._active))
        new = [name for name in brought if name not in before and name not in inactive and name not in self._active]
        self._active[place:place] = new
