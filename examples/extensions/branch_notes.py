"""When the session moves back to an earlier entry, tells the model which files the old branch touched, and labels the note."""

from __future__ import annotations

from fairlead.extension import Context, Fairlead, Guide, SessionBeforeTree, SessionTree, Summary


def setup(fl: Fairlead) -> None:
    @fl.on("session_before_tree")
    def summarise(event: SessionBeforeTree) -> Guide | None:
        if not event.wants_summary:
            return None
        blocks = [
            block
            for entry in event.left_behind
            if entry.get("message", {}).get("role") == "assistant"
            for block in entry["message"]["content"]
        ]
        files = {block["arguments"]["path"] for block in blocks if block["type"] == "toolCall" and "path" in block["arguments"]}
        text = f"An attempt that was given up had touched: {', '.join(sorted(files)) or 'nothing'}."
        return Guide(summary=Summary(text), label="given up")

    @fl.on("session_tree")
    def notify_user(event: SessionTree, context: Context) -> None:
        how = "with" if event.summary_entry_id else "without"
        context.ui.notify(f"Went from {event.old_leaf_id} to {event.new_leaf_id}, {how} a summary.")
