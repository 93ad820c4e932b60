"""fairlead: a coding agent that other programs embed.

These modules are public, and their names are stable:

    fairlead               the agent, its options, tools and models
    fairlead.events        what happens during a run
    fairlead.messages      messages and their blocks
    fairlead.errors        every exception that fairlead raises on purpose
    fairlead.extension     what extensions use
    fairlead.client        clients for agents in other processes
    fairlead.client.events the events that such agents send
    fairlead.client.opal   a client for Opal servers
    fairlead.client.server_events   the events that only sessions of `fairlead serve` have
    fairlead.stores        where sessions are kept: files, memory, SQLite, Postgres
    fairlead.jobs          durable jobs on one machine or many
    fairlead.testing       fakes for the tests of programs that embed fairlead, and checks of session stores

Every other module is private and may change in any release.

This module holds:

    Agent, AgentOptions, Result     an agent in this process, and what its answers are
    Tool, ToolContext, ToolResult,  your own tools for it, and what their calls
    ToolSubject, ToolLocation       are about
    tool                            make a tool from a function, with options
    Hooks                           your own code around tool calls and prompts
    Discovery                       which files of the user and the project count
    Storage                         where an agent saves its sessions, and how
    RateLimit, RateLimits           what all agents of a process may ask of a key
    Telemetry                       what to record with OpenTelemetry
    Ui, NoUi                        how the agent asks the user
    Canvas, Sheet                   where a front end draws what extensions render
    ApprovalRequest, Allow, Deny,   whether a tool call may run: the question and
    FileChange, RuleOffer, NewRule  its answers, what the call would change, and
                                    rules for calls like it
    McpServer                       an MCP server for one agent, without a file
    Model, ModelStream,             your own model: what it is, how it is called,
    ModelRequest, PartialMessage,   how it answers, and the signal to stop
    CancelToken
    export_file                     write a session as an HTML page
    opal_tools                      the tools under the names that Opal uses
    FairleadError, ToolError        the errors that callers catch and tools raise

Each name is loaded on first use, so that the command starts fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing it from typing would take 3 ms, before the command can load modules faster
if TYPE_CHECKING:
    from typing import Any

    from fairlead.agent import Agent
    from fairlead.agent.function_tools import tool
    from fairlead.agent.options import AgentOptions, Discovery, Hooks, RateLimits, Storage, Telemetry
    from fairlead.agent.result import Result
    from fairlead.agent.tool_sets import McpServer
    from fairlead.agent.tool_sets.opal import opal_tools
    from fairlead.config.settings import RateLimit
    from fairlead.core.approval import Allow, ApprovalRequest, Deny, FileChange, NewRule, RuleOffer
    from fairlead.core.model import Model, ModelRequest, ModelStream
    from fairlead.core.partial_message import PartialMessage
    from fairlead.core.runtime import CancelToken, Canvas, NoUi, Sheet, Ui
    from fairlead.core.tool import Tool, ToolContext, ToolLocation, ToolResult, ToolSubject
    from fairlead.errors import FairleadError, ToolError
    from fairlead.export import export_file

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentOptions",
    "Allow",
    "ApprovalRequest",
    "CancelToken",
    "Canvas",
    "Deny",
    "Discovery",
    "FairleadError",
    "FileChange",
    "Hooks",
    "McpServer",
    "Model",
    "ModelRequest",
    "ModelStream",
    "NewRule",
    "NoUi",
    "PartialMessage",
    "RateLimit",
    "RateLimits",
    "Result",
    "RuleOffer",
    "Sheet",
    "Storage",
    "Telemetry",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolLocation",
    "ToolResult",
    "ToolSubject",
    "Ui",
    "__version__",
    "export_file",
    "opal_tools",
    "tool",
]

_HOMES = {
    "Agent": "fairlead.agent",
    "AgentOptions": "fairlead.agent.options",
    "Allow": "fairlead.core.approval",
    "ApprovalRequest": "fairlead.core.approval",
    "CancelToken": "fairlead.core.runtime",
    "Deny": "fairlead.core.approval",
    "Discovery": "fairlead.agent.options",
    "FairleadError": "fairlead.errors",
    "FileChange": "fairlead.core.approval",
    "Hooks": "fairlead.agent.options",
    "McpServer": "fairlead.agent.tool_sets",
    "Model": "fairlead.core.model",
    "ModelStream": "fairlead.core.model",
    "NewRule": "fairlead.core.approval",
    "Canvas": "fairlead.core.runtime",
    "NoUi": "fairlead.core.runtime",
    "Sheet": "fairlead.core.runtime",
    "PartialMessage": "fairlead.core.partial_message",
    "ModelRequest": "fairlead.core.model",
    "RateLimit": "fairlead.config.settings",
    "RateLimits": "fairlead.agent.options",
    "Result": "fairlead.agent.result",
    "RuleOffer": "fairlead.core.approval",
    "Storage": "fairlead.agent.options",
    "Telemetry": "fairlead.agent.options",
    "Tool": "fairlead.core.tool",
    "ToolContext": "fairlead.core.tool",
    "ToolError": "fairlead.errors",
    "ToolLocation": "fairlead.core.tool",
    "ToolResult": "fairlead.core.tool",
    "ToolSubject": "fairlead.core.tool",
    "Ui": "fairlead.core.runtime",
    "export_file": "fairlead.export",
    "opal_tools": "fairlead.agent.tool_sets.opal",
    "tool": "fairlead.agent.function_tools",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fairlead' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415  loaded before the command can load modules faster

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*{*globals(), *__all__}]
