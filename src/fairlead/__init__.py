"""fairlead: a coding agent that other programs embed.

    Agent, AgentOptions    an agent in this process
    Tool, ToolResult       tools of your own for it
    FairleadError          what goes wrong on purpose; the tree is in fairlead.errors

Names are loaded when first used, so that the command starts fast.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairlead.agent import Agent
    from fairlead.agent.options import AgentOptions
    from fairlead.core.tool import Tool, ToolContext, ToolResult
    from fairlead.errors import FairleadError, ToolError

# Without a handler, Python would print warnings to the stderr of the program that embeds us.
logging.getLogger("fairlead").addHandler(logging.NullHandler())

__version__ = "0.1.0"

__all__ = ["Agent", "AgentOptions", "FairleadError", "Tool", "ToolContext", "ToolError", "ToolResult", "__version__"]

_HOMES = {
    "Agent": "fairlead.agent",
    "AgentOptions": "fairlead.agent.options",
    "FairleadError": "fairlead.errors",
    "Tool": "fairlead.core.tool",
    "ToolContext": "fairlead.core.tool",
    "ToolError": "fairlead.errors",
    "ToolResult": "fairlead.core.tool",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fairlead' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
