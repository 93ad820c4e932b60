"""Limits a run: `--max-turns 20` stops it after 20 turns. `/wrap-up` compacts the session and exits."""

from __future__ import annotations

from fairlead.extension import CommandContext, Context, Fairlead, FairleadError


def setup(fl: Fairlead) -> None:
    limit = int(str(fl.register_flag("max-turns", "string", "50", "Turns after which a run is stopped")))
    turns = 0

    @fl.on("agent_start")
    def begin() -> None:
        nonlocal turns
        turns = 0

    @fl.on("turn_end")
    def count(event: object, context: Context) -> None:
        nonlocal turns
        turns += 1
        if turns == limit:
            context.ui.notify(f"Stopped after {turns} turns.", "warning")
            context.abort()

    @fl.register_command("wrap-up", description="Compact the session and exit")
    async def wrap_up(arguments: str, context: CommandContext) -> None:
        try:
            result = await context.compact(arguments or None)
            context.ui.notify(f"Compacted from {result.tokens_before} tokens.")
        except FairleadError as error:
            context.ui.notify(f"Not compacted: {error}", "warning")
        context.shutdown()
