"""Switches between sessions: `/fresh`, `/retry`, `/open FILE`. `/reload` reloads the extensions."""

from __future__ import annotations

from fairlead.extension import CommandContext, Fairlead


def setup(fl: Fairlead) -> None:
    def show_session(context: CommandContext, went: bool) -> None:
        context.ui.notify(f"In {context.session.id} now." if went else "An extension cancelled the switch.")

    @fl.register_command("fresh", description="Start a new session that links to this one")
    async def fresh(arguments: str, context: CommandContext) -> None:
        parent = context.session.file
        show_session(context, await context.new_session(str(parent) if parent else None))

    @fl.register_command("retry", description="Fork the session before your last message")
    async def retry(arguments: str, context: CommandContext) -> None:
        said = [entry for entry in context.session.branch() if entry.get("message", {}).get("role") == "user"]
        if not said:
            context.ui.notify("Nothing was said yet.", "warning")
            return
        went = await context.fork(said[-1]["id"])
        context.ui.set_editor_text(said[-1]["message"]["content"][0]["text"])
        show_session(context, went)

    @fl.register_command("open", description="Open the session in a file")
    async def open_file(path: str, context: CommandContext) -> None:
        show_session(context, await context.switch_session(path))

    @fl.register_command("reload", description="Load all extensions again")
    async def reload(arguments: str, context: CommandContext) -> None:
        await context.reload()
