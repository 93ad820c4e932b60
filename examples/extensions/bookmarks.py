"""`/bookmark NAME` marks the current entry, `/back` returns to one of the marks."""

from __future__ import annotations

from fairlead.extension import CommandContext, Fairlead


def setup(fl: Fairlead) -> None:
    @fl.register_command("bookmark", description="Bookmark this entry")
    def bookmark(name: str, context: CommandContext) -> None:
        leaf = context.session.leaf
        if leaf is None or not name:
            context.ui.notify("Say something first, and name the bookmark.", "warning")
        else:
            fl.set_label(leaf, name)

    @fl.register_command("back", description="Go to a bookmark")
    async def back(arguments: str, context: CommandContext) -> None:
        labels = {each["label"]: each["targetId"] for each in context.session.entries() if each["type"] == "label"}
        chosen = await context.ui.select("Go back to", list(labels))
        if chosen in labels:
            was = len(context.session.branch())
            await context.navigate(labels[chosen], summarise=False)
            context.ui.notify(f"{was - len(context.session.branch())} entries back.")
