"""Pickers for other sessions, and for other places in this one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.chat.dialogs import Choice, Picker
from fairlead.chat.view.footer import short_folder, user_home
from fairlead.chat.view.titles import counted
from fairlead.messages import AssistantMessage, CompactionSummaryMessage, UserMessage, user_text

if TYPE_CHECKING:
    from fairlead.chat.app import Chat

_LONGEST_LABEL = 300


async def pick_session(chat: Chat) -> None:
    """Let the user pick a session to resume: of this folder, or with Tab of all folders."""
    history = chat.session.history
    everywhere = False

    async def load() -> None:
        found = await history.saved(everywhere=everywhere)
        choices = [
            _session_choice(chat, info, everywhere) for info in found if not info.problem and info.path != str(history.path)
        ]
        where = "all folders" if everywhere else "this folder"
        other = "this folder" if everywhere else "all folders"
        picker.replace(
            f"Sessions of {where}", choices, f"There is no other session in {where}.", f"Enter resume · Tab {other} · Esc close"
        )

    def switch() -> None:
        nonlocal everywhere
        everywhere = not everywhere
        chat.start(load())

    picker = Picker("Sessions of this folder", [], empty="Reading ...", on_tab=switch)
    chat.start(load())
    path = await chat.ask(picker)
    if path is not None:
        await history.switch(path)
        # The beginning of an id is a time, and the same for many sessions.
        chat.note(f"Resumed: {history.name or 'session ' + history.id[-8:]}", "accent")
        chat.show_past()


def _session_choice(chat: Chat, info: Any, everywhere: bool) -> Choice:
    label = info.title(_LONGEST_LABEL) or "(no message)"
    details = [datetime.fromtimestamp(info.modified / 1000).strftime("%d %b %H:%M")]
    if info.message_count is not None:
        details.append(counted(info.message_count, "message"))
    if everywhere:
        details.append(short_folder(Path(info.cwd), user_home(chat.options.env)))
    return Choice(label, info.path, " · ".join(details), f"{info.first_message[:_LONGEST_LABEL]} {info.cwd} {info.id}")


async def pick_fork(chat: Chat) -> None:
    """Let the user pick a message of theirs, and continue before it in a new session."""
    messages = chat.session.history.log.user_messages()
    if not messages:
        chat.note("There is no message to fork from yet.")
        return
    choices = [Choice(" ".join(text.split())[:_LONGEST_LABEL], ident) for ident, text in reversed(messages)]
    picked = await chat.ask(Picker("Fork before which message?", choices))
    if picked is None:
        return
    text = await chat.session.fork(picked)
    chat.note("A new session with everything before that message.", "accent")
    chat.editor.set_text(text)


async def pick_place(chat: Chat) -> None:
    """Let the user pick a place in the tree of the session, and continue there."""
    log = chat.session.history.log
    rows = list(_rows(log))
    if not rows:
        chat.note("This session has no messages yet.")
        return
    on_path = {entry.id for entry in log.path()}
    here = max((number for number, (_, ident, _) in enumerate(rows) if ident in on_path), default=0)
    branches = any(ident not in on_path for _, ident, _ in rows)
    details = ["on this branch" if branches and ident in on_path else "" for _, ident, _ in rows]
    details[here] = "you are here"
    choices = [Choice("  " * depth + text, ident, detail) for (depth, ident, text), detail in zip(rows, details, strict=True)]
    picked = await chat.ask(Picker("Continue where?", choices, selected=here))
    if picked is None:
        return
    options = [Choice("No", False), Choice("Yes: the model summarises what is left behind", True)]
    summarise = await chat.ask(Picker("Summarise the branch that you leave?", options, filtered=False))
    if summarise is None:
        return
    arrival = await chat.session.navigate(picked, summarise=summarise)
    chat.note("Continued here:", "accent")
    chat.show_past()
    if arrival.text and not chat.editor.text:
        chat.editor.set_text(arrival.text)


def _rows(log: Any) -> Iterator[tuple[int, str, str]]:
    """The messages of a tree, from the top: how deeply each branch is nested, the id of the entry, and its text."""
    stack: list[tuple[int, Any]] = [(0, node) for node in reversed(log.tree())]
    while stack:
        depth, node = stack.pop()
        text = _text(log, node.entry)
        if text is not None:
            label = f"[{node.label.text}] " if node.label is not None else ""
            yield depth, node.entry.id, label + text
        below = depth + 1 if len(node.children) > 1 else depth
        stack += [(below, child) for child in reversed(node.children)]


def _text(log: Any, entry: Any) -> str | None:
    """What a row says about an entry; None if it is not shown."""
    for message in log.read(entry):
        match message:
            case UserMessage():
                return "you: " + " ".join(user_text(message).split())[:_LONGEST_LABEL]
            case AssistantMessage() if message.text().strip():
                return "agent: " + " ".join(message.text().split())[:_LONGEST_LABEL]
            case CompactionSummaryMessage():
                return "(summary of what came before)"
            case _:
                pass
    return None
