"""Adds shortcuts: `?why is it slow` asks for a short answer, `#buy milk` goes into NOTES.md and not to the model."""

from __future__ import annotations

from fairlead.extension import Context, Fairlead, Handled, Input, Transform


def setup(fl: Fairlead) -> None:
    @fl.on("input")
    def shorten(event: Input, context: Context) -> Transform | Handled | None:
        text = event.text.strip()
        if text.startswith("?"):
            return Transform(f"Answer in one sentence: {text[1:].strip()}")
        if text.startswith("#"):
            with (context.cwd / "NOTES.md").open("a") as notes:
                notes.write(f"- {text[1:].strip()}\n")
            context.ui.notify("Noted.")
            return Handled()
        return None
