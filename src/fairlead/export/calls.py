"""Tool calls: what each is about, and its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fairlead.export.markup import Markup
from fairlead.export.values import mapping, objects, pretty_json, snippet, text

#: The argument that says best what a call is about, in the order of preference.
_SUBJECTS = ("command", "path", "file_path", "filePath", "pattern", "query", "url", "name")
_BEFORE = ("oldText", "old_string", "old_text")
_AFTER = ("newText", "new_string", "new_text")
_SHORT = 100
_LANGUAGES = {"bash": "bash", "shell": "bash", "python": "python"}


def subject(call: Mapping[str, Any]) -> str:
    """What a call is about, on one line: its command, its file, its pattern."""
    arguments = mapping(call.get("arguments"))
    return next((snippet(text(arguments[name])) for name in _SUBJECTS if text(arguments.get(name)).strip()), "")


def file_of(call: Mapping[str, Any]) -> str:
    arguments = mapping(call.get("arguments"))
    return text(arguments.get("path")) or text(arguments.get("file_path")) or text(arguments.get("filePath"))


def arguments(call: Mapping[str, Any], markup: Markup) -> str:
    """The arguments that the call's one line does not already show in full."""
    given = call.get("arguments")
    if not isinstance(given, Mapping):
        return markup.code(pretty_json(given), "json") if given is not None else ""
    values = mapping(given)
    parts: list[str] = []
    replaced = _replacements(values)
    if replaced:
        parts.append(diff("\n".join(replaced)))
    shown = _shown_in_subject(call, values)
    for name, value in values.items():
        if name == shown or (replaced and name in (*_BEFORE, *_AFTER, "edits")):
            continue
        parts.append(_argument(name, value, call, markup))
    return "".join(parts)


def diff(changes: str) -> str:
    """A unified diff, or lines that begin with their sign and number, coloured."""
    return f'<pre class="diff"><code>{"".join(_diff_lines(changes))}</code></pre>\n'


def _diff_lines(changes: str) -> Iterator[str]:
    for line in changes.rstrip("\n").split("\n"):
        kind = "meta" if line.startswith(("--- ", "+++ ", "diff ", "index ")) else "hunk" if line.startswith("@@") else line[:1]
        name = {"+": "add", "-": "del", "meta": "meta", "hunk": "hunk"}.get(kind)
        yield f'<span class="{name}">{escape(line)}\n</span>' if name else f"{escape(line)}\n"


def _shown_in_subject(call: Mapping[str, Any], values: Mapping[str, Any]) -> str | None:
    line = subject(call)
    return next((name for name in _SUBJECTS if line and values.get(name) == line), None)


def _replacements(values: Mapping[str, Any]) -> list[str]:
    """Edits given as a text before and a text after, as lines of a diff."""
    found: list[str] = []
    for edit in [values, *objects(values.get("edits"))]:
        before = next((text(edit[name]) for name in _BEFORE if isinstance(edit.get(name), str)), None)
        after = next((text(edit[name]) for name in _AFTER if isinstance(edit.get(name), str)), None)
        if before is None or after is None:
            continue
        if found:
            found.append("@@")
        found += [f"-{line}" for line in before.split("\n")] + [f"+{line}" for line in after.split("\n")]
    return found


def _argument(name: str, value: Any, call: Mapping[str, Any], markup: Markup) -> str:
    if isinstance(value, str) and (len(value) > _SHORT or "\n" in value):
        language = _LANGUAGES.get(text(call.get("name")), "") if name in ("command", "code") else ""
        file = file_of(call) if name in ("content", "text") else ""
        shown = markup.code(value, language, file=file)
    elif isinstance(value, Mapping | list):
        shown = markup.code(pretty_json(value), "json")
    else:
        shown = f"<code>{escape(value if isinstance(value, str) else pretty_json(value))}</code>"
    return f'<div class="argument"><span class="name">{escape(name)}</span> {shown}</div>\n'
