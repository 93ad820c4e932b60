"""Stream rules: files that say what a model should not write, and the text it gets when it does.

A rule is a Markdown file: front matter that says when it applies, then the text for the model. This module reads these files;
`watch` compares the rules with what a model writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar, cast, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from fairlead.config import json_files, project_files
from fairlead.config.home import Level
from fairlead.config.settings import RepeatMode, RuleInterruptMode
from fairlead.core.lenient import scrub_text
from fairlead.errors import ConfigError, ToolError
from fairlead.session import front_matter
from fairlead.session.front_matter import Value
from fairlead.session.rules.rule_patterns import PatternError, compile_pattern
from fairlead.tools.search.globs import Glob

#: What a model writes: text for the user, thinking, or the arguments of a tool call.
StreamKind: TypeAlias = Literal["text", "thinking", "tool"]

#: The fields of a rule file. `ttsr_trigger` and `repeat` are other names for `condition` and `repeatMode`, for omp's files.
FIELDS = (
    "description",
    "globs",
    "alwaysApply",
    "condition",
    "ttsr_trigger",
    "scope",
    "interruptMode",
    "repeatMode",
    "repeat",
    "repeatGap",
)
SUFFIXES = (".md", ".mdc")

#: Limits, because a project can bring rules and they are read at start: the number of files, their total size, the number of
#: conditions, scopes or globs of a rule, and the length of a glob.
MOST_RULES = 200
LARGEST_RULES = 1024 * 1024
MOST_TEXTS = 100
LONGEST_GLOB = 1000

T = TypeVar("T")


class RuleSource(Struct, rename="camel", frozen=True):
    """Where a rule comes from, in the form that omp's hosts expect."""

    provider: str
    provider_name: str
    path: str
    level: Level


class Rule(Struct, rename="camel", frozen=True):
    """A rule, in the form in which hosts see it. Fields that its file does not set are left out."""

    name: str
    path: str
    #: The text for the model.
    content: str
    source: RuleSource = msgspec.field(name="_source")
    always_apply: bool = False
    description: str | UnsetType = UNSET
    #: The files it applies to. With globs, only tool calls that name such a file can match.
    globs: list[str] | UnsetType = UNSET
    #: Regular expressions, one of which has to match. A rule without any is not a stream rule and never matches.
    condition: list[str] | UnsetType = UNSET
    scope: list[str] | UnsetType = UNSET
    interrupt_mode: RuleInterruptMode | UnsetType = UNSET
    repeat_mode: RepeatMode | UnsetType = UNSET
    repeat_gap: int | UnsetType = UNSET


class Scope(Struct, frozen=True):
    """A part of an answer that a rule checks. `tool` and `glob` limit it to calls of one tool, and to certain files."""

    kind: StreamKind
    tool: str | None = None
    glob: str | None = None


#: The scopes of a rule that names none.
DEFAULT_SCOPES = (Scope("text"), Scope("tool"))


def load_rules(
    folders: Sequence[tuple[Level, Path]], within: Path | None = None, *, trusted: bool = True
) -> tuple[list[Rule], list[str]]:
    """Return the rules in the folders, sorted by name, and a sentence for every file that cannot be used.

    Of two rules with the same name, the one in the later folder is used. A folder that does not exist has no rules. The rules of
    the project must be in the directory `within`; if the project is not `trusted`, they do not replace those of the user.
    """
    rules: dict[str, Rule] = {}
    problems: list[str] = []
    for level, folder in folders:
        bound = within if level == "project" else None
        budget = project_files.Budget(files=MOST_RULES, size=LARGEST_RULES)
        for path in _rule_files(folder, bound, budget, problems):
            if level == "project" and not trusted and path.stem in rules and rules[path.stem].source.level == "user":
                problems.append(f"{path}: not used: you have a rule with this name, and the project is not trusted.")
                continue
            try:
                rules[path.stem] = read_rule(path, level, bound, budget)[0]
            except ConfigError as error:
                problems.append(str(error))
    return [rules[name] for name in sorted(rules)], problems


def read_rule(
    path: Path, level: Level = "project", within: Path | None = None, budget: project_files.Budget | None = None
) -> tuple[Rule, list[str]]:
    """Return the rule in a file, and the names of its unknown fields.

    Raises ConfigError, which names the file and the field, if the file cannot be used.
    """
    data = (budget or project_files.Budget()).read(path, within=within)
    if data is None:
        raise ConfigError(f"{path}: there is no such file.")
    try:
        fields, content = front_matter.split(data.decode())
        return _rule(path, level, fields, content), [name for name in fields if name not in FIELDS]
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: expected UTF-8 text.") from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def scopes_of(rule: Rule) -> Sequence[Scope]:
    """Return the scopes of a rule."""
    return DEFAULT_SCOPES if rule.scope is UNSET else [parse_scope(text) for text in rule.scope]


def parse_scope(text: str) -> Scope:
    """Parse a scope such as `text`, `tool:bash` or `edit(*.py)`. Raises ValueError with a sentence for the user."""
    if text == "text" or text == "thinking":
        return Scope(text)
    name, parenthesis, glob = text.partition("(")
    prefixed = name.startswith("tool:")
    name = name.removeprefix("tool:").strip()
    if parenthesis and not glob.endswith(")"):
        raise ValueError(f'"{text}" has no closing parenthesis.')
    if name and (prefixed or parenthesis or name == "tool"):
        any_tool = name == "tool" and not prefixed
        return Scope("tool", None if any_tool else name, _glob(glob[:-1].strip()) if parenthesis else None)
    hint = f" For the tool named {name}, write tool:{name}." if name else ""
    raise ValueError(f'expected text, thinking, tool, tool:NAME, NAME(glob) or tool:NAME(glob), found "{text}".{hint}')


def injection(rules: Sequence[Rule]) -> str:
    """Return the text for the model after its answer was cut off because it broke these rules."""
    return _text_for_model(rules, "system-interrupt", "Your answer was stopped, because it began to break the rule below.")


def reminder(rules: Sequence[Rule]) -> str:
    """Return the text for the model about rules that it broke and that let it finish."""
    return _text_for_model(rules, "system-reminder", "What you just wrote breaks the rule below.")


def _text_for_model(rules: Sequence[Rule], tag: str, what_happened: str) -> str:
    return "\n\n".join(
        f'<{tag} reason="rule_violation" rule="{_attribute(rule.name)}" path="{_attribute(rule.path)}">\n'
        f"{what_happened} The user asks for nothing new: continue with the task, and follow the rule.\n\n"
        f"{rule.content}\n"
        f"</{tag}>"
        for rule in rules
    )


def _attribute(text: str) -> str:
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("\n", "&#10;")):
        text = text.replace(character, entity)
    return text


def _rule_files(folder: Path, within: Path | None, budget: project_files.Budget, problems: list[str]) -> list[Path]:
    """Return the rule files of a folder, one for each name."""
    found: dict[str, Path] = {}
    for path in (folder / name for name in project_files.list_folder(folder, problems, within=within, budget=budget)):
        if path.suffix not in SUFFIXES or path.name.startswith("."):
            continue
        if found.setdefault(path.stem, path) is not path:
            problems.append(f"{path}: not used, since {found[path.stem].name} is a rule with the same name.")
    return list(found.values())


def _rule(path: Path, level: Level, fields: Mapping[str, Value], content: str) -> Rule:
    """Build a rule. Raises ValueError, which names the field."""
    where = scrub_text(str(path))
    rule = Rule(
        name=scrub_text(path.stem),
        path=where,
        content=content,
        source=RuleSource("native", "fairlead", where, level),
        always_apply=_first(fields, _flag, "alwaysApply") is True,
        description=_first(fields, front_matter.as_text, "description"),
        globs=_first(fields, _globs, "globs"),
        condition=_first(fields, _conditions, "condition", "ttsr_trigger"),
        scope=_first(fields, _scopes, "scope"),
        interrupt_mode=_first(fields, _interrupt_mode, "interruptMode"),
        repeat_mode=_first(fields, _repeat_mode, "repeatMode", "repeat"),
        repeat_gap=_first(fields, _count, "repeatGap"),
    )
    if rule.condition is not UNSET and not content:
        raise ValueError("it has a condition, but no text for the model after the front matter.")
    return rule


def _first(fields: Mapping[str, Value], read: Callable[[Value], T], *names: str) -> T | UnsetType:
    """Return the first of these fields that has a value."""
    for name in names:
        if value := fields.get(name):
            try:
                return read(value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
    return UNSET


def _texts(value: Value) -> list[str]:
    """Return a list as it is; split a text at its commas, except those in parentheses, braces and brackets."""
    if not isinstance(value, str):
        return front_matter.as_texts(value)
    parts: list[str] = []
    start = depth = 0
    for at, character in enumerate(value):
        depth += (character in "({[") - (character in ")}]")
        if character == "," and depth <= 0:
            parts.append(value[start:at])
            start = at + 1
    return [part.strip() for part in (*parts, value[start:])]


def _flag(value: Value) -> bool:
    if value not in ("true", "false"):
        raise ValueError(f"expected true or false, found {json_files.describe_value(value)}.")
    return value == "true"


def _count(value: Value) -> int:
    if not isinstance(value, str) or not (value.isascii() and value.isdigit()) or len(value) > 9:
        raise ValueError(f"expected a whole number, found {json_files.describe_value(value)}.")
    return int(value)


def _conditions(value: Value) -> list[str]:
    sources = _check_count(front_matter.as_texts(value))
    for source in sources:
        try:
            compile_pattern(source)
        except PatternError as error:
            shown = source.replace("\b", r"\b")
            raise ValueError(f"{shown} is not a regular expression that can be used: {error}.") from None
    return sources


def _scopes(value: Value) -> list[str]:
    texts = _check_count(_texts(value))
    for text in texts:
        parse_scope(text)
    return texts


def _check_count(texts: list[str]) -> list[str]:
    if len(texts) > MOST_TEXTS:
        raise ValueError(f"expected at most {MOST_TEXTS}, found {len(texts)}.")
    return texts


def _globs(value: Value) -> list[str]:
    return [_glob(text) for text in _check_count(_texts(value))]


def _glob(text: str) -> str:
    if not text:
        raise ValueError("an empty glob matches nothing.")
    if len(text) > LONGEST_GLOB:
        raise ValueError(f"a glob is longer than {LONGEST_GLOB} characters.")
    try:
        Glob(text)
    except ToolError as error:
        raise ValueError(str(error)) from None
    return text


def _interrupt_mode(value: Value) -> RuleInterruptMode:
    return cast("RuleInterruptMode", _one_of(get_args(RuleInterruptMode), value))


def _repeat_mode(value: Value) -> RepeatMode:
    return cast("RepeatMode", _one_of(get_args(RepeatMode), value))


def _one_of(choices: Sequence[str], value: Value) -> str:
    if value not in choices:
        raise ValueError(f"expected {', '.join(choices[:-1])} or {choices[-1]}, found {json_files.describe_value(value)}.")
    return cast("str", value)
