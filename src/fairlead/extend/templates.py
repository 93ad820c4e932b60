"""Prompt templates: Markdown files that a prompt can use by name.

`/review src/app.py carefully` stands for the text of `review.md`, in which `$1` is `src/app.py`, `$@` and `$ARGUMENTS` are all
arguments, `${@:2}` those from the second one on, and `${@:2:3}` three of those.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from fairlead.config.files import Budget, Check, list_folder
from fairlead.core.lenient import scrub_text
from fairlead.errors import ConfigError
from fairlead.extend.search_paths import SearchPath, budget_for, is_folder, read_markdown
from fairlead.session.slash_commands import Origin

SUFFIX = ".md"
#: How many characters of the first line are shown in place of a missing description.
MAX_SHOWN = 60

_PLACEHOLDER = re.compile(r"\$(?:(?P<number>[0-9]+)|(?P<all>@|ARGUMENTS)|\{@:(?P<start>[0-9]+)(?::(?P<count>[0-9]+))?\})")
#: A word. A quote begins a quoted part only if there is a closing quote, and a single quote only at the beginning of a word, so
#: that apostrophes are left alone.
_WORD = re.compile(r"""'(?P<single>[^']*)'(?!\S)|(?:"[^"]*"|\S)+""")
_QUOTED = re.compile(r'"([^"]*)"')


class Template(Struct, frozen=True, kw_only=True):
    """A prompt template."""

    name: str
    description: str
    text: str
    origin: Origin

    def filled(self, written: str) -> str:
        """Return the text with these arguments filled in. If the template has no placeholders, the arguments follow the text."""
        arguments = split_arguments(written)

        def value(found: re.Match[str]) -> str:
            if found["number"]:
                return _at(arguments, int(found["number"]))
            if found["all"]:
                return " ".join(arguments)
            start = max(int(found["start"]) - 1, 0)
            end = start + int(found["count"]) if found["count"] else None
            return " ".join(arguments[start:end])

        # In one pass, so that an argument that looks like a placeholder is not replaced.
        text, count = _PLACEHOLDER.subn(value, self.text)
        return text if count or not written else f"{text}\n\n{written}"


def split_arguments(written: str) -> list[str]:
    """Split a command line into words. Quotes keep words together."""
    return [found["single"] if found["single"] is not None else _QUOTED.sub(r"\1", found[0]) for found in _WORD.finditer(written)]


def load_templates(search_paths: Iterable[SearchPath], problems: list[str], check: Check | None = None) -> dict[str, Template]:
    """Return the templates in these search paths by name. If two have the same name, the first is used."""
    templates: dict[str, Template] = {}
    shared = Budget()
    for source in search_paths:
        budget = budget_for(source.within, shared)
        for path in _files(source, budget, problems):
            try:
                template = read_template(path, source, check, budget)
            except ConfigError as error:
                problems.append(f"{error} This prompt template is left out.")
            else:
                templates.setdefault(template.name, template)
    return {name: templates[name] for name in sorted(templates)}


def read_template(path: Path, source: SearchPath, check: Check | None, budget: Budget) -> Template:
    """Read the template in a file. Raises ConfigError, which says why it cannot be used."""
    fields, text = read_markdown(path, ("description",), check, within=source.within, budget=budget)
    name = scrub_text(path.stem)
    if name.split() != [name]:
        raise ConfigError(f"{path}: the name of a prompt template must not contain spaces. Rename the file.")
    return Template(
        name=name,
        description=fields.get("description") or _first_line(text),
        text=text,
        origin=replace(source.origin, path=path),
    )


def _files(source: SearchPath, budget: Budget, problems: list[str]) -> Iterator[Path]:
    path = source.path
    if is_folder(path):
        files = (path / name for name in list_folder(path, problems, within=source.within, budget=budget))
        yield from (file for file in files if file.suffix == SUFFIX and not is_folder(file))
    elif os.path.lexists(path):
        yield path
    elif source.named is not None:
        problems.append(f"{source.named}: {path}: there is no such file or folder.")


def _first_line(text: str) -> str:
    line = text.partition("\n")[0].strip()
    return line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}..."


def _at(arguments: Sequence[str], number: int) -> str:
    return arguments[number - 1] if 0 < number <= len(arguments) else ""
