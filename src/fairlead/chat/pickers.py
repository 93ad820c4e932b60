"""What commands of the chat offer to choose from: sessions, places in a session, tools, skills, MCP servers and settings."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.chat.dialogs import Choice, Picker
from fairlead.chat.outside import edit_file
from fairlead.chat.status import short_folder, user_home
from fairlead.chat.view.tool_titles import format_count
from fairlead.messages import AssistantMessage, CompactionSummaryMessage, UserMessage, as_typed, user_text

if TYPE_CHECKING:
    from fairlead.chat.app import Chat


_LONGEST_LABEL = 300


async def pick_session(chat: Chat) -> None:
    """Let the user pick a session to resume: of this folder, or with Tab of all folders."""
    history = chat.session.history
    everywhere = False

    async def load() -> None:
        found = await history.list_saved(everywhere=everywhere)
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
        details.append(format_count(info.message_count, "message"))
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
                return "you: " + " ".join(as_typed(user_text(message)).split())[:_LONGEST_LABEL]
            case AssistantMessage() if message.text().strip():
                return "agent: " + " ".join(message.text().split())[:_LONGEST_LABEL]
            case CompactionSummaryMessage():
                return "(summary of what came before)"
            case _:
                pass
    return None


_LONGEST = 160


async def show_tools(chat: Chat) -> None:
    """List the tools of the session: those that the model sees, those that it can search for, and the others."""
    toolbox = chat.session.tools
    await chat.session.extensions.ready()
    declared = toolbox.list_declared()
    found = {name: tool for name, tool in toolbox.to_be_found().items() if name not in declared}
    others = {name: tool for name, tool in toolbox.items() if name not in declared and name not in found}
    lists = {
        "Tools": declared,
        "Tools that the model can search for": found,
        "Tools that are switched off": others,
    }
    shown = {
        title: {name: _first_line(tool.description) for name, tool in tools.items()} for title, tools in lists.items() if tools
    }
    chat.show_lists(shown or {"Tools": {"none": "The model has no tools."}})


async def show_skills(chat: Chat) -> None:
    """List the skills, with the command that uses each."""
    await chat.session.additions.prepare()
    home = user_home(chat.options.env)
    skills = {skill.name: skill.description for skill in chat.session.additions.skills()}
    commands = {each.name: each for each in chat.session.additions.slash_commands() if each.source == "skill"}
    rows = {
        f"/{name}": f"{_first_line(command.description)} ({short_folder(command.origin.path, home)})"
        for name, command in commands.items()
    }
    rows |= {name: _first_line(text) for name, text in skills.items() if f"skill:{name}" not in commands}
    if rows:
        chat.show_lists({"Skills": rows})
    else:
        chat.note("There are no skills. A skill is a folder with a file SKILL.md, such as ~/.fairlead/skills/release/SKILL.md.")


async def show_servers(chat: Chat) -> None:
    """List the MCP servers, and the state of the connection to each."""
    servers = chat.session.additions.servers
    states = {} if servers is None else await servers.list_states()
    if states:
        chat.show_lists({"MCP servers": states})
    else:
        chat.note("This session has no MCP servers. `fairlead mcp add NAME COMMAND` adds one; then start the chat again.")


async def change_settings(chat: Chat) -> None:
    """Let the user choose a setting to change: of this session, or in the file for later ones."""
    session, commands, path = chat.session, chat.commands, chat.agent.home.settings_path
    model = session.model
    where = short_folder(path, user_home(chat.options.env))
    choices = [
        Choice("Model", "model", f"{model.provider}/{model.id}" if model else "none"),
        Choice("Thinking level", "thinking", session.thinking),
        Choice("Tool calls", "approval", session.approvals.mode),
        Choice("Keep these three for new sessions", "keep", f"writes {where}"),
        Choice("Edit all settings", "edit", where),
    ]
    picked = await chat.ask(Picker("Settings of this session", choices, filtered=False))
    match picked:
        case "keep":
            _keep(chat)
            chat.note(f"New sessions begin with this model, thinking level and approval mode. They are in {where}.")
        case "edit":
            if await edit_file(chat, path, "{}\n"):
                chat.note("What is in the file holds from the next start on. `fairlead doctor` checks it.")
        case str():
            await commands.run(f"/{picked}")
        case _:
            pass


def _keep(chat: Chat) -> None:
    """Save what the session has now for later sessions. Raises ConfigError."""
    session, persist = chat.session, chat.agent.persist
    if session.model is not None:
        persist("defaultModel", f"{session.model.provider}/{session.model.id}")
    persist("defaultThinkingLevel", session.thinking)
    persist("approvals.mode", session.approvals.mode)


def _first_line(text: str) -> str:
    """Return the first sentence of a description, or what fits of it."""
    line = " ".join(text.split())
    end = line.find(". ")
    line = line if end < 0 else line[: end + 1]
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
