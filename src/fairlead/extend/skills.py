"""Skills and prompt templates: Markdown files that a prompt can use by name.

A skill is a folder with a SKILL.md, which says how to do a certain kind of work:

    ---
    name: release
    description: How to make a release of this project. Use it when asked to publish a version.
    ---
    1. Run `scripts/check` ...

The system prompt lists the names and descriptions. The model reads the file when a skill fits. `/skill:release` puts it into the
prompt.

A template has placeholders. `/review src/app.py carefully` stands for the text of `review.md`, in which `$1` is `src/app.py`,
`$@` and `$ARGUMENTS` are all arguments, `${@:2}` those from the second one on, and `${@:2:3}` three of those."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from fairlead.config.project_files import Budget, Check, list_folder
from fairlead.core.lenient import scrub_text
from fairlead.errors import ConfigError
from fairlead.extend.search_paths import SearchPath, budget_for, is_folder, read_markdown
from fairlead.session.slash_commands import Origin

FILE = "SKILL.md"
MAX_NAME, MAX_DESCRIPTION = 64, 1024
#: How many levels below a search path are searched.
MAX_DEPTH = 10

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_KEYS = ("name", "description", "disable-model-invocation", "argument-hint", "user-invocable")
_EXPECTED = f"expected at most {MAX_NAME} lower-case letters, digits and single hyphens between them"
INTRODUCTION = (
    "Skills tell you how certain work is done. When a task fits the description of one, read the file at its location "
    "before you begin. Relative paths in it start at the folder of that file."
)


class Skill(Struct, frozen=True, kw_only=True):
    """A skill, without the text of its file."""

    name: str
    description: str
    path: Path
    origin: Origin
    #: Not listed in the system prompt; only the user can invoke it.
    hidden: bool = False
    #: Both are checked whenever the file is read, because it may have been replaced. It must be in the directory `within`.
    check: Check | None = None
    within: Path | None = None
    #: A skill of Claude Code: its placeholders stand for the arguments, and `hint` says what they are.
    of_claude: bool = False
    hint: str = ""
    #: Whether it can be used as a command.
    is_command: bool = True

    def make_prompt(self, arguments: str) -> str:
        """Return the prompt for this skill, with the user's arguments. Raises ConfigError if its file can no longer be read."""
        body = read_markdown(self.path, _KEYS, self.check, within=self.within)[1]
        location, folder = scrub_text(str(self.path)), scrub_text(str(self.path.parent))
        if self.of_claude:
            body, arguments = fill(body, arguments), ""
        block = f'<skill name="{self.name}" location="{location}">\nReferences are relative to {folder}.\n\n{body}\n</skill>'
        return f"{block}\n\n{arguments}" if arguments else block


def load_skills(search_paths: Iterable[SearchPath], problems: list[str], check: Check | None = None) -> dict[str, Skill]:
    """Return the skills in these search paths by name. If two have the same name, the first is used."""
    skills: dict[str, Skill] = {}
    seen: set[str] = set()
    shared = Budget()
    for source in search_paths:
        budget = budget_for(source.within, shared)
        for path in _files(source, seen, budget, problems):
            try:
                skill = read_skill(path, source, problems, check, budget)
            except ConfigError as error:
                problems.append(f"{error} This skill is left out.")
            else:
                skills.setdefault(skill.name, skill)
    return {name: skills[name] for name in sorted(skills)}


def require_skill(name: str, skills: Mapping[str, Skill]) -> Skill:
    """Return the skill with a name. Raises ConfigError if there is none."""
    if name not in skills:
        known = f"The skills are: {', '.join(skills)}." if skills else "There are no skills here."
        raise ConfigError(f"There is no skill of the name {name!r}. {known}")  # prose: verbatim
    return skills[name]


def read_skill(path: Path, source: SearchPath, problems: list[str], check: Check | None, budget: Budget) -> Skill:
    """Read the skill in a file. Raises ConfigError, which says why it cannot be used."""
    fields, body = read_markdown(path, _KEYS, check, within=source.within, budget=budget)
    description = fields.get("description", "") or (_first_line(body.lstrip("# ")) if source.of_claude else "")
    if not description:
        raise ConfigError(f"{path}: description: expected a text that says what the skill is good for.")
    if len(description) > MAX_DESCRIPTION:
        problems.append(f"{path}: description: longer than {MAX_DESCRIPTION} characters; the rest is left out.")
    return Skill(
        name=_name(fields.get("name", ""), path, problems),
        description=description[:MAX_DESCRIPTION],
        path=path,
        origin=replace(source.origin, path=path),
        hidden=fields.get("disable-model-invocation", "").lower() == "true",
        check=check,
        within=source.within,
        of_claude=source.of_claude,
        hint=fields.get("argument-hint", ""),
        is_command=fields.get("user-invocable", "").lower() != "false",
    )


def skills_prompt(skills: Iterable[Skill], introduction: str = INTRODUCTION) -> str:
    """Return the part of the system prompt that lists these skills."""
    listed = [
        f"  <skill>\n    <name>{skill.name}</name>\n    <description>{_escape(skill.description)}</description>\n"
        f"    <location>{_escape(scrub_text(str(skill.path)))}</location>\n  </skill>"
        for skill in skills
        if not skill.hidden
    ]
    return "\n".join([introduction, "", "<available_skills>", *listed, "</available_skills>"]) if listed else ""


def _files(source: SearchPath, seen: set[str], budget: Budget, problems: list[str]) -> Iterator[Path]:
    """Yield the files of the skills in a search path."""
    path = source.path
    if is_folder(path):
        yield from _below(path, source, MAX_DEPTH, seen, budget, problems)
    elif os.path.lexists(path):
        yield path
    elif source.named is not None:
        problems.append(f"{source.named}: {path}: there is no such file or folder.")


def _below(folder: Path, source: SearchPath, deeper: int, seen: set[str], budget: Budget, problems: list[str]) -> Iterator[Path]:
    """Yield the files of the skills in a directory and below it. A skill's own directory is not searched for other skills.

    A directory is not searched twice, even if links lead to it again. Directories outside the project or on another file system
    are not searched.
    """
    real = os.path.realpath(folder)
    if real in seen:
        return
    seen.add(real)
    names = list_folder(folder, problems, within=source.within, budget=budget)
    if FILE in names:
        yield folder / FILE
        return
    inside = [folder / name for name in names if not name.startswith(".") and name != "node_modules"]
    folders = [path for path in inside if is_folder(path)]
    if folders and not deeper:
        problems.append(f"{folder}: directories more than {MAX_DEPTH} levels deep are not searched for skills.")
        return
    for path in folders:
        if source.within is not None and not _is_same_device(path, folder):
            problems.append(f"{path}: not searched, because it is on another file system than the project.")
        else:
            yield from _below(path, source, deeper - 1, seen, budget, problems)


def _is_same_device(path: Path, other: Path) -> bool:
    try:
        return path.stat().st_dev == other.stat().st_dev
    except OSError:
        return False


def _name(given: str, path: Path, problems: list[str]) -> str:
    other = path.parent.name if path.name == FILE else path.stem
    for name in (given, other):
        if _NAME.fullmatch(name) and len(name) <= MAX_NAME:
            if given and name != given:
                problems.append(f"{path}: name: {_EXPECTED}, found {given!r}. The skill is called {name}.")
            return name
    raise ConfigError(f"{path}: name: {_EXPECTED}, found {given or other!r}.")


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


#: A path behind an `@` at the beginning of a word, which imports a file. Code is not searched.
_IMPORT = re.compile(r"(?:^|(?<=\s))@((?:[^\s\\`]|\\ )+)")
_CODE = re.compile(r"^[ \t]*(```|~~~)[^\n]*\n.*?(?:^[ \t]*\1[^\n]*$|\Z)|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def find_imports(text: str, folder: Path, user: Path) -> list[Path]:
    """Return the files that instructions in `folder` import with `@path`. A word that names no file is plain text."""
    found: list[Path] = []
    for match in _IMPORT.finditer(_CODE.sub(" ", text)):
        name = match[1].replace("\\ ", " ")
        for each in (name, name.rstrip(".,;:!?)")):
            path = user / each[2:] if each.startswith("~/") else folder / each
            if each and os.path.isfile(path):
                found.append(Path(os.path.normpath(path)))
                break
    return list(dict.fromkeys(found))


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
    #: What its arguments are.
    hint: str = ""

    def fill(self, written: str) -> str:
        return fill(self.text, written)


def fill(text: str, written: str) -> str:
    """Return a text with these arguments filled in. If it has no placeholders, the arguments follow it."""
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
    filled, count = _PLACEHOLDER.subn(value, text)
    return filled if count or not written else f"{filled}\n\n{written}"


def split_arguments(written: str) -> list[str]:
    """Split a command line into words. Quotes keep words together."""
    return [found["single"] if found["single"] is not None else _QUOTED.sub(r"\1", found[0]) for found in _WORD.finditer(written)]


def load_templates(search_paths: Iterable[SearchPath], problems: list[str], check: Check | None = None) -> dict[str, Template]:
    """Return the templates in these search paths by name. If two have the same name, the first is used."""
    templates: dict[str, Template] = {}
    shared = Budget()
    for source in search_paths:
        budget = budget_for(source.within, shared)
        for path in _template_files(source, budget, problems):
            try:
                template = read_template(path, source, check, budget)
            except ConfigError as error:
                problems.append(f"{error} This prompt template is left out.")
            else:
                templates.setdefault(template.name, template)
    return {name: templates[name] for name in sorted(templates)}


def read_template(path: Path, source: SearchPath, check: Check | None, budget: Budget) -> Template:
    """Read the template in a file. Raises ConfigError, which says why it cannot be used."""
    fields, text = read_markdown(path, ("description", "argument-hint"), check, within=source.within, budget=budget)
    folders = path.relative_to(source.path).parts[:-1] if source.of_claude else ()
    name = scrub_text(":".join([*folders, path.stem]))
    if name.split() != [name]:
        raise ConfigError(f"{path}: the name of a prompt template must not contain spaces. Rename the file.")
    return Template(
        name=name,
        description=fields.get("description") or _first_line(text),
        text=text,
        origin=replace(source.origin, path=path),
        hint=fields.get("argument-hint", ""),
    )


def _template_files(source: SearchPath, budget: Budget, problems: list[str]) -> Iterator[Path]:
    path = source.path
    if is_folder(path):
        yield from _templates_in(path, source, budget, problems, MAX_DEPTH if source.of_claude else 0)
    elif os.path.lexists(path):
        yield path
    elif source.named is not None:
        problems.append(f"{source.named}: {path}: there is no such file or folder.")


def _templates_in(folder: Path, source: SearchPath, budget: Budget, problems: list[str], deeper: int) -> Iterator[Path]:
    paths = [folder / name for name in list_folder(folder, problems, within=source.within, budget=budget)]
    yield from (path for path in paths if path.suffix == SUFFIX and not is_folder(path))
    for path in paths if deeper else ():
        if is_folder(path) and not path.is_symlink():  # a link could lead back
            yield from _templates_in(path, source, budget, problems, deeper - 1)


def _first_line(text: str) -> str:
    line = text.partition("\n")[0].strip()
    return line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}..."


def _at(arguments: Sequence[str], number: int) -> str:
    return arguments[number - 1] if 0 < number <= len(arguments) else ""
