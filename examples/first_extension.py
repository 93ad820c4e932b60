"""An extension: keeps the agent from force pushes, and adds a tool and a command. docs/first-extension.md explains it."""

from fairlead.extension import Block, Context, Fairlead, ToolCallEvent


def setup(fl: Fairlead) -> None:
    @fl.on("tool_call")
    def no_force_push(event: ToolCallEvent, context: Context) -> Block | None:
        if event.tool_name == "bash" and "push --force" in event.arguments["command"]:
            return Block("Do not force a push. Ask the user to do it.")
        return None

    @fl.register_tool
    def word_count(text: str) -> int:
        """Count the words of a text."""
        return len(text.split())

    @fl.register_command("count-tools", description="Count the tools that the model has")
    def count_tools(_: str, context: Context) -> None:
        context.ui.notify(f"The model has {len(fl.get_active_tools())} tools.")
