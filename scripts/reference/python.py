"""Generate docs/python: a page for each public module, from its names, signatures and docstrings."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any, Literal, get_args, get_origin

import msgspec

import fairlead
from fairlead.session.session import Session

from .markdown import wrap

NOTE = "<!-- `make generate` writes this page from the docstrings. Do not edit. -->"
#: The lines of the package's docstring that name a public module.
_MODULE = re.compile(r"^    (fairlead[.\w]*) +(.+)$", re.MULTILINE)
_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$")
_ITEM = re.compile(r"^(\*{0,2}[\w.]+(?:, [\w.]+)*): (.*)$")
#: Members of public classes that only fairlead itself uses.
_INTERNAL = {
    "Agent": {"assemble"},
    "AgentOptions": {
        *("behaviour", "check", "excludes_tool", "list_wanted_tools", "own_tools", "rates", "storage", "tool_names", "tool_set"),
        *("wants_tool", "with_own_tools"),
    },
}
#: Classes that programs reach only through an attribute of a public one, which follow the class with that attribute.
_REACHED: dict[str, dict[str, type[Any]]] = {"Agent": {"Agent.session": Session}}
#: The longest line of a signature.
_LONGEST = 96


def pages() -> dict[str, str]:
    """Return the text of each page, by its path in docs."""
    modules: dict[str, str] = dict(_MODULE.findall(fairlead.__doc__ or ""))
    homes = _homes(modules)
    made = {f"python/{name}.md": _page(name, homes) for name in modules}
    made["python/README.md"] = _index(modules)
    return made


def _homes(modules: dict[str, str]) -> dict[int, str]:
    """Return the module whose page describes an object, by the identity of the object: the first that lists it."""
    homes: dict[int, str] = {}
    for module in modules:
        for _, value in _names(module):
            homes.setdefault(id(value), module)
    return homes


def _names(module: str) -> list[tuple[str, Any]]:
    loaded = importlib.import_module(module)
    return [(name, getattr(loaded, name)) for name in sorted(loaded.__all__, key=str.lower) if not name.startswith("_")]


def _index(modules: dict[str, str]) -> str:
    rows = [f"| [`{name}`]({name}.md) | {about} |" for name, about in modules.items()]
    text = (
        "These modules are public, and their names are stable. Every other module is private and may change in any release. "
        "[The library](../library.md), [the client](../client.md), [extensions](../extensions.md) and "
        "[testing a host](../testing.md) explain how to use them; these pages list everything.\n\n"
        "Most people want this: `Agent` and `tool` in [`fairlead`](fairlead.md) to run an agent in a program, "
        "[`fairlead.client`](fairlead.client.md) to run it as another process, [`fairlead.events`](fairlead.events.md) for what "
        "happens during a run, and [`fairlead.testing`](fairlead.testing.md) to test the program without a model."
    )
    return "\n".join(["# The Python API", "", NOTE, "", wrap(text), "", "| module | |", "|---|---|", *rows, ""])


def _page(module: str, homes: dict[int, str]) -> str:
    parts = [f"# {module}", NOTE]
    summary = inspect.getdoc(importlib.import_module(module)) or ""
    if module != "fairlead":
        parts.append(_text(summary.partition("\n")[0]))
    elsewhere: list[str] = []
    for name, value in _names(module):
        home = homes[id(value)]
        if home != module:
            elsewhere.append(f"[`{name}`]({home}.md#{name.lower()})")
        else:
            parts += [f"## {name}", *_entry(name, value, homes)]
        for path, reached in _REACHED.get(name, {}).items():
            parts += [f"## {path}", *_members(path, reached, homes)]
    if elsewhere:
        parts.append(wrap(f"These names are described elsewhere: {', '.join(elsewhere)}."))
    return "\n\n".join(part for part in parts if part) + "\n"


def _entry(name: str, value: Any, homes: dict[int, str]) -> Iterator[str]:
    if isinstance(value, type):
        yield from _class(name, value, homes)
    elif inspect.isroutine(value):
        yield _code(_signature(name, value))
        yield _text(inspect.getdoc(value) or "")
    elif isinstance(value, UnionType):
        yield wrap("One of " + ", ".join(f"`{_type_name(member)}`" for member in get_args(value)) + ".")
    elif get_origin(value) is Literal:
        yield wrap("One of " + ", ".join(f"`{member!r}`" for member in get_args(value)) + ".")
    elif isinstance(value, ModuleType):
        yield _text((inspect.getdoc(value) or "").partition("\n\n")[0])
    else:
        yield f"A value of the type `{type(value).__name__}`."


def _type_name(member: Any) -> str:
    return member.__name__ if isinstance(member, type) else str(member).rpartition(".")[2]


def _class(name: str, value: type[Any], homes: dict[int, str]) -> Iterator[str]:
    has_no_signature = issubclass(value, msgspec.Struct | Exception) or bool(getattr(value, "_is_protocol", False))
    if value.__init__ is not object.__init__ and not has_no_signature:
        yield _code(_signature(name, value.__init__, without_self=True))
    elif issubclass(value, Exception):
        yield _code(f"class {name}({', '.join(base.__name__ for base in value.__bases__)})")
    yield from _members(name, value, homes)


def _members(path: str, value: type[Any], homes: dict[int, str]) -> Iterator[str]:
    """Yield the description of a class, its fields, and a section for each method. Those of public bases have their own."""
    doc = inspect.cleandoc(_own_doc(value))
    yield _text(doc)
    rows = list(_fields(value, without="" if "Attributes:" not in doc else doc.partition("Attributes:")[2]))
    if rows:
        yield "\n".join(["| field | type | |", "|---|---|---|", *rows])
    bases = [each for each in value.__mro__[1:] if id(each) in homes and any(_methods(each, []))]
    if bases:
        links = ", ".join(f"[`{each.__name__}`]({homes[id(each)]}.md#{each.__name__.lower()})" for each in bases)
        yield wrap(f"It also has the members of {links}.")
    for method, function in _methods(value, bases):
        yield f"### {path}.{method}"
        yield _code(_signature(method, function))
        yield _text(inspect.getdoc(function) or "")


def _own_doc(value: type[Any]) -> str:
    return str(vars(value).get("__doc__") or "")


def _methods(value: type[Any], without: list[type[Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that a class and its private bases define, its own first."""
    found: dict[str, Any] = {}
    for each in value.__mro__:
        if each.__module__.startswith("fairlead") and each not in without:
            found |= {name: member for name, member in vars(each).items() if not name.startswith("_") and name not in found}
    for name, member in found.items():
        function: Any = getattr(member, "__func__", member)  # of a class method or a static method
        is_public = name not in _INTERNAL.get(value.__name__, ())
        if is_public and (isinstance(function, property) or inspect.isfunction(function)):
            yield name, function


def _fields(value: type[Any], *, without: str) -> Iterator[str]:
    """Yield a row for each public field that the text `without` does not explain, with the comment above it."""
    notes: dict[str, tuple[str, str, str]] = {}
    for each in reversed(value.__mro__):
        if each.__module__.startswith("fairlead"):
            notes |= _read_fields(each)
    for name, (kind, default, note) in notes.items():
        if f" {name}: " in without or name in _INTERNAL.get(value.__name__, ()):
            continue
        rest = f"{note} {f'Default: `{default}`.' if default else ''}".strip()
        yield f"| `{name}` | `{kind}` | {rest} |".replace(" | `|` | ", " \\| ")


def _read_fields(value: type[Any]) -> dict[str, tuple[str, str, str]]:
    """Return the fields that the body of a class declares: the type, the default and the comment that begins with `#:`."""
    try:
        lines, _ = inspect.getsourcelines(value)
    except OSError:
        return {}
    source = textwrap.dedent("".join(lines))
    text = source.splitlines()
    (tree,) = ast.parse(source).body
    found: dict[str, tuple[str, str, str]] = {}
    assert isinstance(tree, ast.ClassDef)
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not node.target.id.startswith("_"):
            kind = ast.unparse(node.annotation).strip("'\"")
            if kind.startswith("ClassVar"):
                continue
            found[node.target.id] = (_cell(kind), _cell(_default(node.value)), _cell(_comment(text, node.lineno - 1)))
    return found


def _default(value: ast.expr | None) -> str:
    """Return a default as it reads, or nothing if it says little."""
    if value is None:
        return ""
    text = ast.unparse(value)
    if text in ("None", "UNSET", "msgspec.UNSET"):
        return ""
    return text if re.fullmatch(r"-?[\w.]+|'[^']*'|\(\)|\[\]|\{\}", text) else ""


def _comment(lines: list[str], at: int) -> str:
    """Return the comment above a line."""
    found: list[str] = []
    while at > 0 and lines[at - 1].strip().startswith("#:"):
        at -= 1
        found.insert(0, lines[at].strip().removeprefix("#:").strip())
    return " ".join(found)


def _cell(text: str) -> str:
    """Return text for a cell of a table."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;")


def _signature(name: str, function: Callable[..., Any] | property, *, without_self: bool = False) -> str:
    """Return the head of a function, on several lines if it is long."""
    if isinstance(function, property):
        kind = inspect.signature(function.fget).return_annotation if function.fget else ""
        return f"{name}: {_annotation(kind)}"
    signature = inspect.signature(function)
    given = [each for each in signature.parameters.values() if each.name != "self"]
    parameters = _with_marks([str(_quiet(each)) for each in given], given)
    returned = signature.return_annotation
    kind = "" if without_self or returned is signature.empty else f" -> {_annotation(returned)}"
    word = "class" if without_self else "async def" if inspect.iscoroutinefunction(function) else "def"
    line = f"{word} {name}({', '.join(parameters)}){kind}"
    if len(line) <= _LONGEST:
        return line
    return f"{word} {name}(\n" + "".join(f"    {each},\n" for each in parameters) + f"){kind}"


def _quiet(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter that shows its annotation without quotes, and defaults only where they read well."""
    default = parameter.default
    if default is not parameter.empty and not isinstance(default, str | int | float | bool | tuple | None):
        parameter = parameter.replace(default=_Dots())
    if parameter.annotation is parameter.empty:
        return parameter
    return parameter.replace(annotation=_Verbatim(_annotation(parameter.annotation)))


def _with_marks(texts: list[str], parameters: list[inspect.Parameter]) -> list[str]:
    """Add the `*` before parameters that are passed by name."""
    kinds = [each.kind for each in parameters]
    if inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.KEYWORD_ONLY not in kinds:
        return texts
    at = kinds.index(inspect.Parameter.KEYWORD_ONLY)
    return [*texts[:at], "*", *texts[at:]]


class _Dots:
    def __repr__(self) -> str:
        return "..."


class _Verbatim:
    """An annotation that is shown as it is."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _annotation(given: Any) -> str:
    if isinstance(given, str):
        return given.strip("'\"")
    return given.__name__ if isinstance(given, type) else str(given)


def _code(text: str) -> str:
    return f"```py\n{text}\n```"


def _text(doc: str) -> str:
    """Return a docstring as Markdown: paragraphs wrapped, examples as code, the arguments as a list."""
    return "\n\n".join(_block(block) for block in re.split(r"\n[ ]*\n", doc.strip()) if block.strip())


def _block(block: str) -> str:
    first, _, rest = block.partition("\n")
    if block.startswith("    "):
        return f"```text\n{textwrap.dedent(block)}\n```"
    if _SECTION.match(first):
        return f"{first}\n\n" + "\n".join(_items(textwrap.dedent(rest)))
    if rest.startswith("    "):
        return f"{wrap(_prose(first))}\n\n```text\n{textwrap.dedent(rest)}\n```"
    return wrap(_prose(" ".join(block.split())))


def _items(text: str) -> Iterator[str]:
    joined = re.sub(r"\n[ ]+", " ", text)
    for line in joined.splitlines():
        match = _ITEM.match(line)
        shown = f"- {_names_as_code(match[1])}: {_prose(match[2])}" if match else f"- {_prose(line)}"
        yield textwrap.fill(shown, 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _names_as_code(text: str) -> str:
    return ", ".join(f"`{name}`" for name in text.split(", "))


def _prose(text: str) -> str:
    """Return text in which nothing outside code spans is taken for HTML."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;").replace("*", "\\*") for part in parts)


def folder(docs: Path) -> set[str]:
    """Return the pages that exist, to find those of modules that are gone."""
    return {str(path.relative_to(docs)) for path in (docs / "python").glob("*.md")}
