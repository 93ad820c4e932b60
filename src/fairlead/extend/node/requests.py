"""What extensions written for pi ask the agent. Most questions are answered at once, because pi's methods are synchronous."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import yaml
from msgspec import Raw, json

from fairlead.config import json_files
from fairlead.core.messages import CustomMessage, ImageContent, UserBlock
from fairlead.errors import BadCommand, EntryNotFound, FairleadError, ModelNotFound, NoCredentials
from fairlead.extend.extensions.calling import Deadline
from fairlead.extend.extensions.context import CommandContext, Context
from fairlead.extend.extensions.values import convert, object_or_empty
from fairlead.extend.node.boundary import append_entry, project_entries
from fairlead.extend.node.events import prompt_options
from fairlead.extend.node.models import ExtensionCall
from fairlead.extend.node.results import custom_note
from fairlead.stores.listing import list_all_sessions, list_sessions

if TYPE_CHECKING:
    from fairlead.core.model import Model
    from fairlead.extend.extensions.engine import Engine
    from fairlead.extend.node.bridge import Answer, SlowAnswer
    from fairlead.extend.node.remote import RemoteExtensions
    from fairlead.session.session import Session

_log = logging.getLogger("fairlead.extend")

Params = Mapping[str, Any]
Report = Callable[[Any], None]


class Requests:
    """Answers requests about one session. `remote` has the extensions that ask."""

    def __init__(self, engine: Engine, remote: RemoteExtensions) -> None:
        self._engine = engine
        self._remote = remote

    @property
    def _session(self) -> Session:
        return self._engine.session

    @property
    def _context(self) -> CommandContext:
        return CommandContext(self._engine, Deadline(None))

    def answers(self) -> dict[str, Answer]:
        """Return the requests that are answered at once, by name."""
        return {
            **{name: getattr(self, f"_{_snake(name)}") for name in _AT_ONCE},
            "session": self._session_entries,
            "state": lambda params: self._state(),
            "log": lambda params: _log.info("%s", params["text"]),
            "systemPromptOptions": lambda params: prompt_options(self._session),
            "systemPrompt": lambda params: self._session.additions.system_prompt(),
            "abort": lambda params: self._context.abort(),
            "shutdown": lambda params: self._context.shutdown(),
            "scopedModels": lambda params: [
                {"model": model, **({} if level is None else {"thinkingLevel": level})}
                for model, level in self._session.models.scoped
            ],
            "loginEntry": lambda params: self._engine.host.registry.login_entry(params["name"]),
            "models": lambda params: self._models(all=bool(params.get("all"))),
            "parseYaml": _parse_yaml,
            "extensions": lambda params: [
                {"path": str(each.found.path), "tools": list(each.tools)}
                for each in self._engine.extensions
                if each.found.entry_point is None
            ],
            "protection": lambda params: self._remote.protection(),
            "append": lambda params: append_entry(self._session, params),
            "projection": lambda params: project_entries(self._session.history),
        }

    def slow_answers(self) -> dict[str, SlowAnswer]:
        """Return the requests that take time, by name."""
        return {
            "compact": self._compact,
            "waitForIdle": self._wait_for_idle,
            "newSession": self._new_session,
            "sendAndWait": self._send_and_wait,
            "modelSelected": lambda params, report: self._engine.background_events.idle(),
            "fork": self._fork,
            "navigateTree": self._navigate,
            "switchSession": self._switch,
            "reload": self._reload,
            "streamModel": self._stream_model,
        }

    # Looking

    def _state(self) -> dict[str, Any]:
        context = self._context
        mode, draws = context.mode, self._session.host.ui.canvas is not None
        return {
            "mode": "tui" if draws else mode if mode != "library" else "rpc" if context.has_ui else "print",
            "hasUI": context.has_ui,
            "cwd": str(context.cwd),
            "model": context.model,
            "thinkingLevel": context.thinking_level,
            "isIdle": context.is_idle,
            "isProjectTrusted": context.is_project_trusted,
            "hasPendingMessages": context.has_pending_messages,
        }

    def _run_signal(self, params: Params) -> int | None:
        cancel = self._session.activity.run_cancel
        return None if cancel is None else self._remote.signals.of_run(cancel)

    def _context_usage(self, params: Params) -> dict[str, Any] | None:
        usage = self._context.context_usage
        return None if usage is None else {"tokens": usage.tokens, "contextWindow": usage.window, "percent": usage.percent}

    def _session_entries(self, params: Params) -> dict[str, Any]:
        """Return the entries of the session that are new since `last`, and where it stands."""
        history = self._session.history
        # Extensions may look before the first prompt: in pi a session has a header, a model and a level from its start.
        log = history.log if history.conversation.opener is None else None
        last = params.get("last")
        knows = log is not None and params.get("id") == history.id and last is not None and last in log
        return {
            "id": history.id,
            "reset": not knows,
            "entries": [] if log is None else Raw(log.entries_json(last if knows else None)),
            "leaf": None if log is None else log.leaf,
            "header": None if log is None else log.header,
            "name": history.name,
            "cwd": str(self._session.host.workspace.cwd),
            "file": None if history.path is None else str(history.path),
            "folder": None if history.path is None else str(history.path.parent),
        }

    def _session_context(self, params: Params) -> dict[str, Any]:
        model = self._session.model
        chosen = None if model is None else {"provider": model.provider, "modelId": model.id}
        return {"messages": self._session.messages, "thinkingLevel": self._session.thinking, "model": chosen}

    def _tools(self, params: Params) -> list[dict[str, Any]]:
        active, callable_tools = set(self._session.tools.active), self._remote.registrations.callable_tools()
        return [
            {
                "name": tool.name,
                "label": tool.label or tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "promptGuidelines": list(tool.guidelines),
                **self._remote.registrations.describe_tool(tool.name),
                "active": tool.name in active,
                "callable": tool.name in callable_tools,
            }
            for tool in self._session.tools.values()
        ]

    def _describe_tool(self, params: Params) -> dict[str, Any]:
        tool = self._session.tools.builtin(params["name"])
        return {
            "label": tool.label or tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "promptSnippet": tool.snippet,
            "promptGuidelines": list(tool.guidelines),
        }

    def _commands(self, params: Params) -> list[dict[str, Any]]:
        return [
            {
                "name": command.name,
                **({"description": command.description} if command.description else {}),
                "source": command.source,
                "sourceInfo": source_info(command.origin),
            }
            for command in self._session.additions.slash_commands()
        ]

    def _settings(self, params: Params) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for level, path in self._engine.host.home.settings_files(self._engine.host.cwd):
            if level == "user" and path.suffix == ".json" and os.path.isfile(path):
                found |= cast("dict[str, Any]", json.decode(path.read_bytes()))
        return found

    def _sessions(self, params: Params) -> list[dict[str, Any]]:
        folder = self._session.history.path
        if folder is None:
            return []
        found = list_all_sessions(folder.parent.parent) if params.get("all") else list_sessions(folder.parent)
        return [
            {
                "path": str(each.path),
                "id": each.id,
                "cwd": each.cwd,
                **({} if each.name is None else {"name": each.name}),
                **({} if each.parent_session is None else {"parentSessionPath": each.parent_session}),
                "created": each.created,
                "modified": each.modified,
                "messageCount": each.message_count or 0,
                "firstMessage": each.first_message,
            }
            for each in found
            if each.problem is None
        ]

    # Models

    def _models(self, *, all: bool) -> list[Model]:
        return self._engine.host.registry.all() if all else self._session.models.available()

    def _model(self, given: Mapping[str, Any]) -> Model:
        found = self._session.models.find(given["provider"], given["id"])
        if found is None:
            raise ModelNotFound(f"Model not found: {given['provider']}/{given['id']}")
        return found

    def _model_auth(self, params: Params) -> dict[str, Any]:
        try:
            auth = self._engine.host.registry.auth(self._model(params["model"]))
        except NoCredentials:  # not an error in pi
            return {"ok": True}
        except FairleadError as error:
            return {"ok": False, "error": str(error)}
        return {"ok": True, "apiKey": auth.api_key, "headers": auth.headers}

    def _provider_key(self, params: Params) -> dict[str, Any] | None:
        model = next((each for each in self._session.models.available() if each.provider == params["provider"]), None)
        if model is None:
            return None
        auth = self._engine.host.registry.auth(model)
        return {"apiKey": auth.api_key, "headers": auth.headers, "baseUrl": auth.base_url or model.base_url}

    def _stored_models(self, params: Params) -> Any:
        """Return what a provider of an extension stored about its models; None if it stored nothing."""
        home = self._engine.host.registry.home
        data = None if home.isolated else json_files.read_bytes(home.models_store_path)
        return None if data is None else json_files.parse_object(home.models_store_path, data).get(params["name"])

    def _store_models(self, params: Params) -> None:
        name, entry = params["name"], params.get("entry")
        home = self._engine.host.registry.home

        def change(content: dict[str, Any]) -> None:
            content.pop(name, None)
            if entry is not None:
                content[name] = entry

        if not home.isolated:
            json_files.update_object(home.models_store_path, change)

    async def _stream_model(self, params: Params, report: Report) -> Any:
        return await ExtensionCall(self._remote, self._model(params["model"]), params, report).answer()

    # Acting

    def _send_message(self, params: Params) -> None:
        message, options = params["message"], object_or_empty(params.get("options"))
        deliver = options.get("deliverAs")
        content = message.get("content", "")
        if options.get("triggerTurn") is False and deliver is None and self._session.activity.is_streaming:
            note = custom_note(message)
            now = self._session.host.now_ms()
            self._remote.quiet.add(CustomMessage(note.custom_type, note.content, note.display, now, note.details))
            return
        self._remote.fl(params).send_message(
            message.get("customType", ""),
            content if isinstance(content, str) else convert(list[UserBlock], content, "content"),
            display=message.get("display", True) is not False,
            details=message.get("details"),
            deliver=_DELIVERY.get(deliver, deliver),
            trigger_turn=bool(options.get("triggerTurn")),
        )

    def _send_user_message(self, params: Params) -> None:
        content, options = params["content"], object_or_empty(params.get("options"))
        images: list[ImageContent] | None = None
        if not isinstance(content, str):
            blocks = convert(list[UserBlock], content, "content")
            images = [block for block in blocks if isinstance(block, ImageContent)] or None
            content = "\n".join(block.text for block in blocks if not isinstance(block, ImageContent))
        deliver = options.get("deliverAs")
        self._remote.fl(params).send_user_message(
            content,
            images,
            deliver=_DELIVERY.get(deliver, deliver),
            expand=bool(options.get("expandPromptTemplates")),
        )

    def _append_entry(self, params: Params) -> None:
        self._remote.fl(params).append_entry(params["customType"], params.get("data"))

    def _set_session_name(self, params: Params) -> None:
        name = str(params["name"])
        if name.strip():
            self._remote.fl(params).set_session_name(name)
        else:  # which pi accepts
            self._session.history.remove_name()

    def _get_session_name(self, params: Params) -> str | None:
        return self._remote.fl(params).get_session_name()

    def _set_label(self, params: Params) -> None:
        self._remote.fl(params).set_label(params["entry"], params.get("label"))

    def _set_active_tools(self, params: Params) -> None:
        known, exposure = self._session.tools, self._remote.registrations.exposure
        self._remote.fl(params).set_active_tools(
            [name for name in params["names"] if name in known and exposure(name) != "hidden"]
        )

    def _set_model(self, params: Params) -> dict[str, bool]:
        available = self._session.models.available()
        # A handler of an event that nothing waits for must not wait for the event that it causes, which comes after it.
        may_wait = not self._engine.background_events.busy
        is_known = any(each.provider == params["provider"] for each in available)
        if is_known:
            self._remote.fl(params).set_model(f"{params['provider']}/{params['id']}")
        return {"isSet": is_known, "waits": is_known and may_wait}

    def _set_thinking_level(self, params: Params) -> None:
        self._remote.fl(params).set_thinking_level(params["level"])

    async def _compact(self, params: Params, report: Report) -> Any:
        return await self._context.compact(params.get("instructions"))

    async def _wait_for_idle(self, params: Params, report: Report) -> None:
        await self._context.wait_for_idle()

    async def _new_session(self, params: Params, report: Report) -> dict[str, bool]:
        """Start a session. If the extension fills it, that happens before `session_start`, as in pi."""
        scripts, remote = self._engine.scripts, self._remote
        if params.get("setup"):
            scripts.set_up = lambda: remote.call("setUp", {"number": params["setup"]}, Context(self._engine, Deadline(None)))
        try:
            return {"cancelled": not await self._context.new_session(params.get("parent"))}
        finally:
            scripts.set_up = None

    async def _send_and_wait(self, params: Params, report: Report) -> None:
        """Send a message to a session that has replaced another, and wait for the end of the run that it starts."""
        if "message" in params:
            self._send_message(params)
        else:
            self._send_user_message(params)
        await self._context.wait_for_idle()

    async def _fork(self, params: Params, report: Report) -> dict[str, bool]:
        try:
            return {"cancelled": not await self._context.fork(params["entry"], params["position"])}
        except EntryNotFound:
            raise BadCommand("Invalid entry ID for forking") from None

    async def _navigate(self, params: Params, report: Report) -> dict[str, bool]:
        """Go to another entry. Like pi, this stops nothing: it fails while something is going on."""
        activity = self._session.activity
        if activity.is_streaming:
            raise BadCommand("Wait for the current response to finish before navigating the session tree.")
        if activity.is_compacting:
            raise BadCommand("Wait for the current compaction or tree navigation to finish before navigating the session tree.")
        if params["target"] == self._session.history.leaf:
            return {"cancelled": False}
        moved = await self._context.navigate(
            params["target"],
            summarise=bool(params.get("summarize")),
            instructions=params.get("instructions"),
            replace_instructions=bool(params.get("replaceInstructions")),
            label=params.get("label"),
        )
        return {"cancelled": not moved}

    async def _switch(self, params: Params, report: Report) -> dict[str, bool]:
        return {"cancelled": not await self._context.switch_session(params["path"])}

    async def _reload(self, params: Params, report: Report) -> None:
        await self._engine.host.reload()


#: The requests whose methods here have the same name.
_AT_ONCE = (
    "runSignal contextUsage sessionContext tools describeTool commands settings sessions modelAuth "
    "providerKey sendMessage sendUserMessage appendEntry setSessionName getSessionName setLabel setActiveTools setModel "
    "setThinkingLevel storedModels storeModels"
).split()


#: What pi calls the times at which a message is delivered.
_DELIVERY: dict[Any, Any] = {"followUp": "follow_up", "nextTurn": "next_turn"}


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)


def _parse_yaml(params: Params) -> Any:
    return yaml.safe_load(params["text"])


def source_info(origin: Any) -> dict[str, Any]:
    """Return where something was found, in pi's form."""
    source, kind = (origin.source, "top-level") if origin.package is None else (origin.package, "package")
    base = {} if origin.base is None else {"baseDir": os.path.normpath(origin.base)}
    return {"path": os.path.normpath(origin.path), "source": source, "scope": origin.scope, "origin": kind, **base}
