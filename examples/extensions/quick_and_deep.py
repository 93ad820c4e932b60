"""`/deep` and `/quick` switch the model and its thinking level. `/deep` picks the model with the largest context."""

from __future__ import annotations

from fairlead.extension import CommandContext, Fairlead


def setup(fl: Fairlead) -> None:
    def show_model(context: CommandContext) -> None:
        model = context.model
        assert model is not None, "one was just chosen"
        context.ui.notify(f"{model.provider}/{model.id}, thinking: {context.thinking_level}")

    @fl.register_command("deep", description="Think hard, with the model that has the largest context")
    def deep(arguments: str, context: CommandContext) -> None:
        fl.set_model(max(context.models, key=lambda model: (model.context_window, model.reasoning)))
        fl.set_thinking_level("high")
        show_model(context)

    @fl.register_command("quick", description="Think less; /quick provider/id names the model, too")
    def quick(name: str, context: CommandContext) -> None:
        if name:
            fl.set_model(name)
        if fl.get_thinking_level() != "off":
            fl.set_thinking_level("low")
        show_model(context)
