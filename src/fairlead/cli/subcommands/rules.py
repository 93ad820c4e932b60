"""`fairlead rules test`: show what a stream rule matches.

The exit code is 0 for a match, 1 for no match, 2 for an invalid rule or command line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct

from fairlead.cli.console import complain, print_text
from fairlead.cli.flags import UsageError
from fairlead.cli.subcommands.table import command_named
from fairlead.config import project_files
from fairlead.config.home import working_directory
from fairlead.core.lenient import scrub_text
from fairlead.errors import ConfigError
from fairlead.session.rules.rule_keeper import RuleWatch
from fairlead.session.rules.rule_patterns import PatternTimeout, compile_pattern
from fairlead.session.rules.stream_rules import DEFAULT_SCOPES, FIELDS, Rule, Scope, parse_scope, read_rule, scopes_of
from fairlead.wire.dialects import Program

_MATCH, _NO_MATCH, _UNUSABLE = 0, 1, 2
_MOST_MATCHES = 20
_LONGEST_MATCH = 80
#: Bytes of a sample.
_MOST_INPUT = 64 * 1024 * 1024


class _Options(Struct):
    """The parsed command line. `file` is a sample."""

    rule: Path
    text: str | None = None
    file: str | None = None
    scope: str | None = None
    path: str | None = None


def rules(arguments: Sequence[str], program: Program) -> int:
    if arguments[:1] != ["test"]:
        raise command_named("rules").usage_error()
    options = _options(arguments[1:])
    try:
        rule, unknown = read_rule(options.rule)
    except ConfigError as error:
        complain(f"Error: {error}")
        return _UNUSABLE
    for name in unknown:
        complain(f"fairlead: {options.rule}: {name} is not a field of rules and has no effect{_nearest(name)}")
    if rule.condition is UNSET:
        complain(f"Error: {options.rule}: it has no condition, so it never applies to what a model writes.")
        return _UNUSABLE
    return _test(rule, _scope(rule, options), options)


def _options(words: Sequence[str]) -> _Options:
    options: dict[str, str] = {}
    names: list[str] = []
    left = list(reversed(words))
    while left:
        word = left.pop()
        flag, has_value, value = word.partition("=")
        if flag not in ("--text", "--file", "--scope", "--path"):
            names.append(word)
        elif not has_value and not left:
            raise command_named("rules").usage_error(f"{flag} needs a value.")
        else:
            options[flag[2:]] = value if has_value else left.pop()
    if len(names) != 1 or names[0].startswith("-") or {"text", "file"} <= options.keys():
        raise command_named("rules").usage_error()
    return _Options(Path(names[0]), **options)


def _nearest(name: str) -> str:
    near = get_close_matches(name, FIELDS, 1)
    return f". Did you mean {near[0]}?" if near else "."


def _scope(rule: Rule, options: _Options) -> Scope:
    """Return the scope of the sample: the one from the command line, or the first one of the rule."""
    if options.scope is not None:
        try:
            scope = parse_scope(options.scope)
        except ValueError as error:
            raise UsageError(f"--scope: {error}") from None
    elif options.path is not None or rule.globs is not UNSET:
        scope = next((scope for scope in scopes_of(rule) if scope.kind == "tool"), DEFAULT_SCOPES[-1])
    else:
        scope = scopes_of(rule)[0]
    return Scope("tool", scope.tool or "write") if scope.kind == "tool" else scope


def _test(rule: Rule, scope: Scope, options: _Options) -> int:
    sample = _sample(options)
    off: list[str] = []
    watch = RuleWatch([rule], cwd=str(working_directory()), on_off=lambda _, why: off.append(why))
    watch.begin()
    written = _arguments(scope, sample, options.path) if scope.kind == "tool" else sample
    matched = watch.feed(scope.kind, 0, written, tool=scope.tool) or watch.end_block(0)
    if off:
        complain(f"Error: {off[0]}")
        return _UNUSABLE
    what = f"a call of {scope.tool}" if scope.kind == "tool" else scope.kind
    if options.path is not None:
        what += f" for {options.path}"
    if matched:
        print_text(f"{rule.name} matches in {what}:")
        _show_matches(rule, sample)
        return _MATCH
    print_text(f"{rule.name} does not match in {what}.")
    _show_scope(rule)
    return _NO_MATCH


def _sample(options: _Options) -> str:
    if options.text is not None:
        return scrub_text(options.text)
    if options.file is None:
        piped = sys.stdin.buffer.read(_MOST_INPUT + 1)
        if len(piped) > _MOST_INPUT:
            raise UsageError(f"Standard input has more than {_MOST_INPUT >> 20} MiB. Give part of it.")
        return piped.decode("utf-8", "replace")
    try:
        data = project_files.read_bytes(Path(options.file))
    except ConfigError as error:
        raise UsageError(f"--file: {error}") from None
    if data is None:
        raise UsageError(f"--file: there is no file {options.file}.")
    return data.decode("utf-8", "replace")


def _arguments(scope: Scope, sample: str, path: str | None) -> str:
    """Return the arguments of a call as a model would write them."""
    named = {} if path is None else {"path": path}
    if scope.tool == "write":
        return msgspec.json.encode({**named, "content": sample}).decode()
    if scope.tool == "edit":
        return msgspec.json.encode({**named, "edits": [{"oldText": "", "newText": sample}]}).decode()
    if path is not None:
        raise UsageError("--path is for edit and write; the arguments of other tools name the path themselves.")
    return sample


def _show_matches(rule: Rule, sample: str) -> None:
    for source in rule.condition or ():
        pattern = compile_pattern(source)
        try:
            spans = list(islice(pattern.spans(sample), _MOST_MATCHES + 1))
        except PatternTimeout:
            spans = []
        print_text(f"  {source} ({pattern.engine})")
        for start, end in spans[:_MOST_MATCHES]:
            line = sample.count("\n", 0, start) + 1
            column = start - (sample.rfind("\n", 0, start) + 1) + 1
            print_text(f"    {line}:{column}  {_shorten(sample[start:end])}")
        if len(spans) > _MOST_MATCHES:
            print_text("    and more")


def _shorten(text: str) -> str:
    cut = text if len(text) <= _LONGEST_MATCH else text[:_LONGEST_MATCH] + "..."
    return cut.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")


def _show_scope(rule: Rule) -> None:
    scopes = "text and the arguments of all tools" if rule.scope is UNSET else ", ".join(rule.scope)
    print_text(
        f"  it looks at {scopes}" + ("" if rule.globs is UNSET else f", only for files that match {', '.join(rule.globs)}")
    )
    for source in rule.condition or ():
        print_text(f"  for {source}")
