"""`/batch one; two; three` sends prompts one after another, each when the previous one is done."""

from __future__ import annotations

from fairlead.extension import CommandContext, Fairlead


def setup(fl: Fairlead) -> None:
    @fl.register_command("batch", description="Several prompts, one after another")
    async def batch(arguments: str, context: CommandContext) -> None:
        prompts = [text.strip() for text in arguments.split(";") if text.strip()]
        for number, text in enumerate(prompts, 1):
            context.ui.set_status("batch", f"{number} of {len(prompts)}")
            fl.send_user_message(text, deliver="follow_up")
            await context.wait_for_idle()
        context.ui.set_status("batch", None)
