#!/usr/bin/env python3
"""Write the parts of fairlead.client that follow from the declarations: a method per command, and the events.

make_client.py           write them
make_client.py --check   fail if any of them is stale
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct

from fairlead.protocol.http import fleet, http_objects
from fairlead.protocol.http.fleet import FLEET_OPERATIONS
from fairlead.protocol.http.http_events import EVENTS as SERVER_EVENTS
from fairlead.protocol.http.operations import OPERATIONS, Operation
from fairlead.protocol.opal.opal_events import EVENTS as OPAL_EVENTS
from fairlead.protocol.opal.opal_methods import METHODS
from fairlead.protocol.pi import commands, frames, host_requests, omp_commands, session_commands, update_frames
from fairlead.protocol.pi.commands import BASIC_COMMANDS, Command
from fairlead.wire.pi.pi_schema import FRAMES

CLIENT = Path(__file__).resolve().parent.parent / "src" / "fairlead" / "client"
WIDTH = 118
NOTE = "`make generate` writes this module from the declarations. Do not edit it."
PI_METHODS = """Each method sends a command and returns the data of the response.

    It raises CommandRefused if the agent refuses the command, NoAnswer if `timeout` seconds pass, and AgentGone if the agent
    ends. `timeout` is by default that of the client; None means no limit.
    """
OPAL_METHODS = """Each method sends a request and returns its result.

    It raises CommandRefused if the server answers with an error, NoAnswer if `timeout` seconds pass, and AgentGone if the server
    ends. `timeout` is by default that of the client; None means no limit.
    """

HTTP_METHODS = """Each method sends a request and returns its result.

    It raises CommandRefused if the server refuses the request, NoAnswer if `timeout` seconds pass, and AgentGone if the server
    cannot be reached. `timeout` is by default that of the client; None means no limit.
    """
#: Operations of the HTTP interface without a method: for browsers and monitors, and `follow` and `follow_job` listen.
NOT_FOR_CLIENTS = {"listen", "job_events", "log_in", "log_out", "metrics", "openapi"}

#: Commands with hand-written methods, because they start a run.
HAND_WRITTEN = {"prompt", "abort_and_prompt"}
#: Fields of events that are a raw JSON value in the declarations, because fairlead echoes them. This client sends strings.
IDS = {"PromptResult", "BashExecutionUpdate"}
#: Frames that the client handles itself.
UNSEEN = {"Response", "RpcChunk"}
#: Frames that only pi-2025 has.
FRAMES_2025 = (session_commands.Compaction, session_commands.Error)

GROUPS: dict[str, Sequence[type[Command]]] = {
    "BasicMethods": list(BASIC_COMMANDS.values()),
    "SessionMethods": session_commands.SESSION_COMMANDS,
    "OmpMethods": (*host_requests.HOST_COMMANDS, *omp_commands.OMP_COMMANDS, *omp_commands.SUBAGENT_COMMANDS),
}
#: Where the names in signatures come from, in the order of preference.
HOMES = {
    "msgspec": ["UNSET", "UnsetType"],
    "collections.abc": ["Sequence"],
    "fairlead.core.messages": ["ImageContent"],
    "fairlead.core.model": ["Model", "ThinkingLevel"],
    "fairlead.core.queues": ["InterruptMode", "QueueMode"],
    "fairlead.core.events": ["CompactionResult"],
    "fairlead.protocol.http.http_objects": ["Approval", "BeforeCursor", "RequestId", "SessionName"],
}


def texts() -> dict[str, str]:
    """Return the text of each generated module, formatted."""
    made = {"events.py": events_module(), "opal/events.py": opal_events_module()}
    made |= {"server_events.py": server_events_module(), "generated/http.py": http_module()}
    made |= {"opal/methods.py": opal_module(), "generated/pi.py": pi_module("async "), "generated/sync_pi.py": pi_module("")}
    return {name: format_code(text, name) for name, text in made.items()}


# Commands


def pi_module(kind: str) -> str:
    base = "Caller" if kind else "SyncCaller"
    classes = [methods_class(mixin if kind else f"Sync{mixin}", base, declared, kind) for mixin, declared in GROUPS.items()]
    body = "\n\n".join(classes)
    what = "a coroutine method" if kind else "a method"
    return "\n".join(
        [
            f'"""Commands of the pi family, {what} for each.\n\n{NOTE}\n"""',
            "from __future__ import annotations",
            "from typing import TYPE_CHECKING, Any, Literal",
            "from msgspec import UNSET, UnsetType",
            f"from fairlead.client.generated import {base}",
            "if TYPE_CHECKING:",
            *imports(body),
            body,
        ]
    )


def methods_class(name: str, base: str, declared: Iterable[type[Command]], kind: str) -> str:
    methods = [method(_tag(each), each, each.result, kind) for each in declared if _tag(each) not in HAND_WRITTEN]
    return "\n\n".join([f'class {name}({base}):\n    """{PI_METHODS}"""', *methods])


def opal_module() -> str:
    body = "\n\n".join([opal_class("OpalMethods", "Caller", "async "), opal_class("SyncOpalMethods", "SyncCaller", "")])
    return "\n".join(
        [
            f'"""Methods of Opal, a coroutine method and a method that blocks for each.\n\n{NOTE}\n"""',
            "from __future__ import annotations",
            "from typing import TYPE_CHECKING, Any",
            "from msgspec import UNSET, UnsetType",
            "from fairlead.client.generated import Caller, SyncCaller",
            "if TYPE_CHECKING:",
            *imports(body, opal=True),
            body,
        ]
    )


def opal_class(name: str, base: str, kind: str) -> str:
    methods = [
        method(name.replace("/", "_"), declared, declared.result, kind, wire_name=name) for name, declared in METHODS.items()
    ]
    return "\n\n".join([f'class {name}({base}):\n    """{OPAL_METHODS}"""', *methods])


def http_module() -> str:
    operations = (*OPERATIONS, *FLEET_OPERATIONS)
    body = "\n\n".join(http_method(each) for each in operations if each.name not in NOT_FOR_CLIENTS)
    return "\n".join(
        [
            f'"""Operations of the HTTP interface, a coroutine method for each.\n\n{NOTE}\n"""',
            "from __future__ import annotations",
            "from typing import TYPE_CHECKING, Any, Literal",
            "from msgspec import UNSET, UnsetType",
            "from fairlead.client.generated import Caller",
            "if TYPE_CHECKING:",
            *imports(body, modules=(http_objects, fleet)),
            "class HttpMethods(Caller):",
            f'    """{HTTP_METHODS}"""',
            body,
        ]
    )


def http_method(operation: Operation) -> str:
    """Return the source of the method that sends a request. The parts of the path come first."""
    parts = [name for _, name in operation.ids]
    parameters = ["self", *(f"{part}: str" for part in parts)]
    passed = [f"{part}={part}" for part in parts]
    has_fields = isinstance(operation.body, type)
    fields = msgspec.structs.fields(operation.body) if has_fields else ()
    annotations = _annotations(operation.body) if has_fields else {}
    if operation.body is not None and not has_fields:
        whole = operation.path.rpartition("/")[2]
        parameters.append(f"{whole}: {_type_name(operation.body)}".replace("list[", "Sequence["))
        passed.append(f"{whole}={whole}")
    parameters += [f"{field.name}: {annotations[field.name]}" for field in fields if field.required]
    parameters.append("*")
    for field in fields:
        if not field.required:
            kind = annotations[field.name]
            default = repr(field.default) if field.default is not NODEFAULT else "()"
            kind = kind.replace("list[", "Sequence[") if default == "()" else kind
            parameters.append(f"{field.name}: {kind} = {default}")
    for each in operation.parameters:
        parameters.append(f"{each.name}: {'int' if each.type == 'integer' else 'str'} | None = None")
    passed += [f"{name}={name}" for name in (*(field.name for field in fields), *(each.name for each in operation.parameters))]
    parameters.append("timeout: float | UnsetType | None = UNSET")
    returned = "None" if operation.result is None else _type_name(operation.result)
    if operation.result is None and operation.content != "application/json":
        returned = "str"
    call = f"await self._call({', '.join([repr(operation.name), 'timeout', *passed])})"
    text = f"{operation.summary} {operation.description}".strip()
    body = call if returned == "None" else f"return {call}"
    return f"    async def {operation.name}({', '.join(parameters)}) -> {returned}:\n{format_docstring(text, 8)}\n        {body}"


def method(name: str, declared: type[Struct], result: Any, kind: str, *, wire_name: str | None = None) -> str:
    """Return the source of the method that sends a command."""
    fields = [field for field in msgspec.structs.fields(declared) if field.name != "id"]
    annotations = _annotations(declared)
    required = [field for field in fields if field.required]
    optional = [field for field in fields if not field.required]
    parameters = ["self", *(f"{field.name}: {annotations[field.name]}" for field in required), "*"]
    for field in optional:
        default = "UNSET" if field.default is msgspec.UNSET else repr(field.default) if field.default is not NODEFAULT else "None"
        parameters.append(f"{field.name}: {annotations[field.name]} = {default}")
    parameters.append("timeout: float | UnsetType | None = UNSET")
    passed = "".join(f", {field.name}={field.name}" for field in (*required, *optional))
    returned = "None" if result is None else _type_name(result)
    call = f"{'await ' if kind else ''}self._call({(wire_name or name)!r}, timeout{passed})"
    body = call if returned == "None" else f"return {call}"
    return f"    {kind}def {name}({', '.join(parameters)}) -> {returned}:\n{docstring(declared, 8)}\n        {body}"


def imports(body: str, *, opal: bool = False, modules: Sequence[Any] = ()) -> list[str]:
    """Return the imports of the types that the signatures in `body` mention."""
    mentioned = set(re.findall(r"\b[A-Z]\w+", re.sub(r'^class .*|"""(?:.|\n)*?"""', "", body, flags=re.MULTILINE)))
    lines: list[str] = []
    for home, names in HOMES.items():
        if found := sorted(mentioned & set(names)):
            mentioned -= set(found)
            if home != "msgspec":
                lines.append(f"    from {home} import {', '.join(found)}")
    from fairlead.protocol.opal import opal_methods, opal_objects

    for module in modules or (
        (opal_methods, opal_objects) if opal else (commands, frames, session_commands, omp_commands, host_requests)
    ):
        found = sorted(name for name in mentioned if getattr(getattr(module, name, None), "__module__", "") == module.__name__)
        if found:
            mentioned -= set(found)
            lines.append(f"    from {module.__name__} import {', '.join(found)}")
    unknown = mentioned - {"Any", "False", "Literal", "None"}
    if unknown:
        raise LookupError(f"no import is known for {', '.join(sorted(unknown))}")
    return lines


# Events


def events_module() -> str:
    shown = [frame for frame in (*FRAMES, *FRAMES_2025) if frame.__name__ not in UNSEEN]
    inner = sorted(each.__name__ for each in update_frames.InnerEvent.__args__)
    own = ["Event", "Restarted", "UnknownEvent", "UnparsedLine"]
    names = sorted([*(frame.__name__ for frame in shown), *inner, "InnerEvent", *own])
    return "\n".join(
        [
            f'"""The events of the pi family, as a client gets them.\n\n{NOTE}\n"""',
            "from __future__ import annotations",
            f"from fairlead.client.decoding import {', '.join(own)}",
            "from fairlead.protocol.pi import frames, host_requests, session_commands, update_frames",
            f"from fairlead.protocol.pi.update_frames import InnerEvent, {', '.join(inner)}",
            f"__all__ = {names!r}",
            *(event_class(frame) for frame in shown),
            "#: All events by type.",
            f"EVENTS: dict[str, type[Event]] = {{{', '.join(f'{_tag(frame)!r}: {frame.__name__}' for frame in shown)}}}",
        ]
    )


def opal_events_module() -> str:
    shown = list(OPAL_EVENTS.values())
    own = ["Event", "UnknownEvent", "UnparsedLine"]
    names = sorted([*(each.__name__ for each in shown), *own])
    return "\n".join(
        [
            f'"""The events of Opal, as a client gets them.\n\n{NOTE}\n"""',
            "from __future__ import annotations",
            f"from fairlead.client.decoding import {', '.join(own)}",
            "from fairlead.protocol.opal import opal_events",
            f"__all__ = {names!r}",
            *(event_class(each) for each in shown),
            "#: All events by type.",
            f"EVENTS: dict[str, type[Event]] = {{{', '.join(f'{_tag(each)!r}: {each.__name__}' for each in shown)}}}",
        ]
    )


def server_events_module() -> str:
    shown = list(SERVER_EVENTS)
    return "\n".join(
        [
            f'"""The events of sessions in a server: those that only a server sends, and those of the pi family.\n\n{NOTE}\n"""',
            "from __future__ import annotations",
            "from fairlead.client.decoding import Event",
            "from fairlead.client.events import EVENTS as FAMILY_EVENTS",
            "from fairlead.protocol.http import http_events",
            f"__all__ = {sorted(each.__name__ for each in shown)!r}",
            *(event_class(each) for each in shown),
            "#: All events by type.",
            "EVENTS: dict[str, type[Event]] = {**FAMILY_EVENTS, "
            f"{', '.join(f'{_tag(each)!r}: {each.__name__}' for each in shown)}}}",
        ]
    )


def event_class(declared: type[Struct]) -> str:
    module = declared.__module__.rpartition(".")[2]
    header = f"class {declared.__name__}({module}.{declared.__name__}, Event, tag={_tag(declared)!r}):"
    lines = [header, docstring(declared, 4, first_sentence=True)]
    if declared.__name__ in IDS and declared not in SERVER_EVENTS:
        lines.append("    id: str | None = None  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues]")
    return "\n".join(lines)


# Text


def docstring(declared: type[Struct], indent: int, *, first_sentence: bool = False) -> str:
    text = " ".join((declared.__doc__ or "").split())
    if not text or text.startswith(declared.__name__ + "("):
        raise LookupError(f"{declared.__name__} has no docstring")
    if first_sentence:
        text = re.split(r"(?<=\.) ", text)[0]
    return format_docstring(text, indent)


def format_docstring(text: str, indent: int) -> str:
    """Return a text as a docstring."""
    lines: list[str] = []
    line = '"""'
    for word in text.split():
        if len(line) + 1 + len(word) > WIDTH - indent:
            lines.append(line.rstrip())
            line = ""
        line += word + " "
    lines.append(line.rstrip() + '"""')
    return "\n".join(" " * indent + each for each in lines)


def _annotations(declared: type[Struct]) -> dict[str, str]:
    """Return the types of the fields as the source spells them: the names that a reader knows, such as `ThinkingLevel`."""
    found: dict[str, str] = {}
    for base in reversed(declared.__mro__):
        if base.__module__.partition(".")[0] == "fairlead":
            (node,) = ast.parse(inspect.getsource(base)).body
            assert isinstance(node, ast.ClassDef)
            fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            found |= {ast.unparse(each.target): ast.unparse(each.annotation) for each in fields}
    return found


def _type_name(kind: Any) -> str:
    if get_origin(kind) is list:
        return f"list[{_type_name(get_args(kind)[0])}]"
    if isinstance(kind, type):
        return kind.__name__
    return " | ".join("None" if each is type(None) else _type_name(each) for each in kind.__args__)


def _tag(declared: type[Struct]) -> str:
    return str(declared.__struct_config__.tag)


def format_code(text: str, name: str) -> str:
    """Return the text as ruff formats it, with sorted imports."""
    ruff = [str(Path(sys.executable).with_name("ruff"))]
    place = str(CLIENT / name)
    for command in (["check", "--fix", "--quiet", "--select", "I,F401,RUF022"], ["format", "--quiet"]):
        text = subprocess.run(
            [*ruff, *command, "--stdin-filename", place, "-"], input=text, capture_output=True, text=True, check=True, cwd=CLIENT
        ).stdout
    return text


def main() -> int:
    made = texts()
    if "--check" not in sys.argv[1:]:
        for name, text in made.items():
            (CLIENT / name).write_text(text)
        return 0
    stale = [name for name, text in made.items() if not (CLIENT / name).exists() or (CLIENT / name).read_text() != text]
    for name in stale:
        print(f"src/fairlead/client/{name} is stale: run `make generate`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
