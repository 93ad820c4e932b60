"""A program whose model can use one of its functions. docs/first-tool.md explains it."""

import sys
from typing import Annotated

from fairlead import Agent, ToolContext, ToolError

SHELVES = {"lamp": 3, "desk": 1}


def restock(
    item: Annotated[str, "what to fetch, in the singular"],
    count: Annotated[int, "how many"],
    context: ToolContext,
) -> dict[str, int]:
    """Fetch more of something from the storeroom. Returns how many of each item there are."""
    if item not in SHELVES:
        raise ToolError(f"There is no shelf for a {item}. There are shelves for {', '.join(SHELVES)}.")
    for number in range(count):
        if context.cancel.fired:  # the run was aborted
            break
        SHELVES[item] += 1
        context.progress(f"{number + 1} of {count} fetched")
    return SHELVES


with Agent(tools=[restock]) as agent:
    print(agent.ask_sync(" ".join(sys.argv[1:]) or "Fetch two more lamps."))
