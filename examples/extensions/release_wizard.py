"""`/release` asks for everything that a release needs and leaves the rest to the model. It uses the whole user interface."""

from __future__ import annotations

from fairlead.extension import CommandContext, Fairlead

CHECKLIST = "https://example.com/releases"


def setup(fl: Fairlead) -> None:
    @fl.register_command("release", description="Prepare a release")
    async def release(arguments: str, context: CommandContext) -> None:
        ui = context.ui
        ui.set_title("Release")
        ui.set_status("release", "asking")
        kind = await ui.select("What kind of release?", ["major", "minor", "patch"])
        version = await ui.input("Its version", "1.2.3", timeout=300)
        notes = await ui.editor("Release notes", f"# {version}\n\n- ")
        ui.set_status("release", None)
        if not (kind and version and notes) or not await ui.confirm("Release?", f"{version}, a {kind} release"):
            ui.notify("No release today.", "warning")
            return
        ui.set_widget("release", [f"Releasing {version}", "Do not close the window"], "belowEditor")
        ui.open_url(CHECKLIST, "Tick the boxes while the agent works.")
        ui.set_editor_text(f"Tag {version} and push the tag.")
        fl.send_user_message(f"Write these notes into CHANGELOG.md as the {kind} release {version}:\n\n{notes}")
