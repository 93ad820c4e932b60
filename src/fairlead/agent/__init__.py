"""The library: an agent in this process.

agent = Agent(model="anthropic/claude-sonnet-4-5", cwd="/some/project")
async for event in agent.run("Fix the failing test"):
    ...
print(agent.text())
await agent.close()

Private: see `fairlead` for the public modules.
"""

from __future__ import annotations

from fairlead.agent.agent import Agent, clear_leftovers, load_shared
from fairlead.agent.assembly import Shared
from fairlead.agent.options import AgentOptions

__all__ = ["Agent", "AgentOptions", "Shared", "clear_leftovers", "load_shared"]
