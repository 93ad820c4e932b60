"""Shows the usage so far in the status line: turns, tools, tokens, money."""

from __future__ import annotations

from fairlead.events import AgentEnd, TurnEnd
from fairlead.extension import Context, Fairlead


def setup(fl: Fairlead) -> None:
    turns = tools = tokens = 0
    cost = 0.0

    @fl.on("turn_start")
    def start(event: object, context: Context) -> None:
        nonlocal turns
        turns += 1
        context.ui.set_status("meter", f"turn {turns} ...")

    @fl.on("turn_end")
    def end(event: TurnEnd, context: Context) -> None:
        nonlocal tools, tokens, cost
        tools += len(event.tool_results)
        tokens += event.message.usage.total_tokens
        cost += event.message.usage.cost.total
        context.ui.set_status("meter", f"{turns} turns, {tools} tools, {tokens} tokens, ${cost:.4f}")

    @fl.on("agent_end")
    def over(event: AgentEnd, context: Context) -> None:
        if not event.will_retry:
            context.ui.notify(f"{len(event.messages)} messages were added.")
