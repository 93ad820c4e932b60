"""The tools of a session: those it began with, and those that extensions and servers add later."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from fairlead.core.tool import Tool
from fairlead.errors import BadCommand
from fairlead.session import session_tools
from fairlead.session.session_events import report
from fairlead.tools import with_usual_subject

#: The tool that the model finds deferred tools with, and its owner.
TOOL_SEARCH = "tool_search"


class _Contents(Struct):
    """What a toolbox holds once its tools are made."""

    tools: dict[str, Tool]
    #: The names of the active tools.
    active: list[str]
    #: The names that each owner has brought.
    brought: dict[str, frozenset[str]] = {}
    #: Those of them that the model must not find.
    barred: dict[str, frozenset[str]] = {}
    #: The tools that others stand in for.
    replaced: dict[str, Tool] = {}
    #: Increases whenever the tools or the names of the active ones change.
    version: int = 0
    hidden: frozenset[str] = frozenset()
    descriptions: Mapping[str, str] = {}
    #: The active tools, and those of them that requests declare. Each turn asks for them; None: they have changed since.
    usable: Mapping[str, Tool] | None = None
    declared: Mapping[str, Tool] | None = None

    def note_change(self) -> None:
        self.version += 1
        self.usable = self.declared = None


class Toolbox(Mapping[str, Tool]):
    """All tools by name, and the names of those that the model may use, in the order in which it sees them.

    The tools are made when they are first needed: a session that waits for its first prompt does without them.

    Args:
        make: Makes the tools that the session begins with.
        active: The names of the tools that the model may use. Names without a tool are left out.
    """

    def __init__(self, make: Callable[[], Mapping[str, Tool]], active: Sequence[str]) -> None:
        self._make = make
        self._first_active = active
        #: What owners bring when the tools are made.
        self._brought_later: tuple[tuple[str, Callable[[], Sequence[Tool]]], ...] = ()
        self._made: _Contents | None = None

    @property
    def _contents(self) -> _Contents:
        if self._made is None:
            tools = {name: with_usual_subject(tool) for name, tool in self._make().items()}
            self._made = _Contents(tools, [name for name in self._first_active if name in tools])
            for owner, make in self._brought_later:
                self.replace(owner, make())
        return self._made

    def fill(self) -> None:
        """Make the tools now, if that has not happened yet."""
        _ = self._contents

    def bring_later(self, owner: str, make: Callable[[], Sequence[Tool]]) -> None:
        """Have `owner` bring tools as soon as tools are needed: see `replace`."""
        if self._made is None:
            self._brought_later += ((owner, make),)
        else:
            self.replace(owner, make())

    @property
    def version(self) -> int:
        """Increases whenever the tools or the names of the active ones change."""
        return self._contents.version

    def __getitem__(self, name: str) -> Tool:
        return self._contents.tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._contents.tools)

    def __len__(self) -> int:
        return len(self._contents.tools)

    @property
    def active(self) -> list[str]:
        """The names of the tools that the model may use."""
        return list(self._contents.active)

    def active_tools(self) -> Mapping[str, Tool]:
        """The tools that the model may use."""
        contents = self._contents
        if contents.usable is None:
            contents.usable = {name: contents.tools[name] for name in contents.active}
        return contents.usable

    def list_declared(self) -> Mapping[str, Tool]:
        """The active tools that requests declare, with the descriptions that the model sees; see `present`."""
        contents = self._contents
        if contents.declared is None:
            contents.declared = {
                name: tool if name not in contents.descriptions else replace(tool, description=contents.descriptions[name])
                for name, tool in self.active_tools().items()
                if name not in contents.hidden
            }
        return contents.declared

    def present(self, hidden: Collection[str] = (), descriptions: Mapping[str, str] | None = None) -> None:
        """Choose how requests declare the active tools: those in `hidden` not at all, others with another description.

        A hidden tool stays active: other tools can call it.
        """
        contents = self._contents
        contents.hidden, contents.descriptions, contents.declared = frozenset(hidden), descriptions or {}, None

    def activate(self, names: Sequence[str]) -> None:
        """Choose the tools that the model may use. Raises BadCommand if there is no such tool."""
        contents = self._contents
        unknown = [name for name in names if name not in contents.tools]
        if unknown:
            raise BadCommand(f"Unknown tool: {', '.join(unknown)}. The tools are: {', '.join(contents.tools)}")
        contents.active = list(dict.fromkeys(names))
        contents.note_change()

    def builtin(self, name: str) -> Tool:
        """The tool that the session began with, even if another one stands in for it. Raises BadCommand if there is none."""
        contents = self._contents
        found = contents.replaced.get(name) or contents.tools.get(name)
        if found is None or (name not in contents.replaced and any(name in names for names in contents.brought.values())):
            raise BadCommand(f"There is no built-in tool {name}.")
        return found

    def list_taken(self, owner: str) -> set[str]:
        """The names that `owner` cannot use, because others have them."""
        return set(self._contents.tools) - self._contents.brought.get(owner, frozenset())

    async def close(self) -> None:
        """Close the tools that belong to this session alone."""
        for tool in () if self._made is None else self._made.tools.values():
            if tool.close is not None and tool.bound:
                try:
                    await tool.close()
                except Exception as error:  # a bug in a tool must not keep the session from closing
                    report(error)

    def replace(
        self,
        owner: str,
        tools: Sequence[Tool],
        *,
        inactive: Collection[str] = (),
        instead: bool = False,
        searchable: bool = True,
    ) -> None:
        """Replace the tools of `owner`.

        A name that the owner had before stays active or not, as it was; a new one is active, unless `inactive` has it. A new
        one goes before those of owners that came later, so that the order is the same when one of them takes its time.
        With `instead`, a tool stands in for one that the session began with, which comes back when the owner removes it.
        If there are deferred tools, the model gets `tool_search` to find them, unless they are not `searchable`. It does not
        find those that are `inactive`.
        Raises BadCommand if a name belongs to a tool that is not the owner's; then nothing has changed.
        """
        contents = self._contents
        if owner != TOOL_SEARCH and any(tool.name == TOOL_SEARCH for tool in tools):
            self.replace(TOOL_SEARCH, [])  # the owner brings one, which stands in for ours
        before = contents.brought.get(owner, frozenset())
        taken = self.list_taken(owner)
        if instead:
            taken &= frozenset[str]().union(*contents.brought.values())
        for tool in tools:
            if tool.name in taken:
                raise BadCommand(f'{owner} tool "{tool.name}" conflicts with an existing tool')
        brought = {tool.name: with_usual_subject(tool) for tool in tools}
        others = {name: tool for name, tool in contents.tools.items() if name not in before}
        for name in before - set(brought):
            if name in contents.replaced:
                others[name] = contents.replaced.pop(name)
        contents.replaced |= {name: others[name] for name in brought if name in others}
        contents.tools = others | brought
        contents.active = [name for name in contents.active if name in contents.tools]
        contents.brought[owner] = frozenset(brought)
        contents.barred[owner] = frozenset(inactive)
        owners = list(contents.brought)
        later = frozenset[str]().union(*(contents.brought[other] for other in owners[owners.index(owner) + 1 :]))
        place = next((number for number, name in enumerate(contents.active) if name in later), len(contents.active))
        direct = [name for name, tool in brought.items() if tool.exposure == "direct" and name not in inactive]
        contents.active[place:place] = [name for name in direct if name not in before and name not in contents.active]
        contents.note_change()
        if owner != TOOL_SEARCH:
            self._offer_search(searchable=searchable)

    def to_be_found(self) -> dict[str, Tool]:
        """Return the tools that the model can find with `tool_search`."""
        contents = self._contents
        others = frozenset(contents.active).union(*contents.barred.values())
        return {name: tool for name, tool in contents.tools.items() if tool.exposure != "direct" and name not in others}

    def _offer_search(self, *, searchable: bool) -> None:
        """Give the model `tool_search` if there are tools to be found with it, and take it away if there are none."""
        contents = self._contents
        needed = any(tool.exposure == "deferred" for tool in contents.tools.values())
        if needed and searchable and TOOL_SEARCH not in contents.tools:
            self.replace(TOOL_SEARCH, [session_tools.search_tool(TOOL_SEARCH, self)])
        elif not needed and contents.brought.get(TOOL_SEARCH):
            self.replace(TOOL_SEARCH, [])
