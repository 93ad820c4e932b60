"""`fairlead doctor`: the command and its checks. Each check yields what it found; none raises, and none shows a key."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fairlead import __version__
from fairlead.agent import Agent
from fairlead.cli.advice import about_key, is_refusal_of_key
from fairlead.cli.build import agent_options
from fairlead.cli.console import StatusLine, print_exact, print_text
from fairlead.cli.event_loop import run
from fairlead.cli.flags import Arguments, UsageError
from fairlead.cli.subcommands.table import command_named
from fairlead.cli.subcommands.trust import list_trusted_features
from fairlead.config.extras import extras, install_command, missing_packages
from fairlead.config.home import Home, working_directory
from fairlead.config.settings_files import load_settings
from fairlead.config.trust import describe_changes, escape_path, find_decision, format_trust_hint, real_folder
from fairlead.core.events import MessageEnd, RetryStart
from fairlead.core.lenient import one_line
from fairlead.core.message_updates import MessageUpdate
from fairlead.core.messages import AssistantMessage, readable_error
from fairlead.errors import ConfigError, FairleadError
from fairlead.extend.node.program import OLDEST_NODE, find_node
from fairlead.models.local.local_servers import find_servers
from fairlead.platform.programs import current_folder, find_program, own_environment
from fairlead.wire.dialects import Program

#: It works; it is not there, and optional; it deserves a look; it does not work.
Status: TypeAlias = Literal["ok", "off", "warn", "fail"]

_EXTRAS = {
    "chat": "the chat in the terminal",
    "local": "models that run on this machine",
    "html": "formatted pages of exported sessions",
    "mcp": "MCP servers",
    "serve": "the server for programs and browsers",
    "jobs": "jobs that workers run",
    "node": "Node for extensions of pi",
}
_SANDBOXED = ("--ro-bind", "/", "/", "--unshare-user")
_PACKAGE_MANAGERS = {
    "apt-get": "sudo apt-get install {}",
    "dnf": "sudo dnf install {}",
    "pacman": "sudo pacman -S {}",
    "apk": "sudo apk add {}",
    "brew": "brew install {}",
}
#: What a warning about a file says if nothing in it could be read.
_NOT_JSON = "not valid JSON"
_PROMPT = "Reply with the word OK and nothing else."


class Finding(Struct, rename="camel", omit_defaults=True):
    """One thing that was checked."""

    section: str
    #: A short name for what it is about.
    name: str
    status: Status
    text: str
    #: What to do about it: a command where there is one.
    fix: str | None = None


async def check_machine(arguments: Arguments, program: Program, patience: float | None) -> AsyncIterator[Finding]:
    """Check everything, in the order in which it is shown.

    Args:
        arguments: The command line: which model to try, and whether configuration is read.
        program: The program that fairlead was started as.
        patience: How many seconds the model has to answer; None: do not ask it.
    """
    home = Home.find(os.environ, isolated=arguments.isolated, peer=program.home)
    for finding in (*_home(home), *_settings(home)):
        yield finding
    agent: Agent | None = None
    try:
        agent = _agent(arguments, program)
    except FairleadError as error:
        yield Finding("Models", "model", "fail", str(error), "choose another one: fairlead models --all")
    if agent is not None:
        for finding in _keys(agent):
            yield finding
        async for finding in _models(agent, patience):
            yield finding
    for finding in (*_programs(), *_extras(), *_project(home)):
        yield finding


def _home(home: Home) -> Iterator[Finding]:
    root = home.root
    place = root if os.path.exists(root) else next(parent for parent in root.parents if os.path.exists(parent))
    try:
        with tempfile.TemporaryFile(dir=place, buffering=0) as file:
            file.write(b"x")  # a full disk takes empty files
            text = f"{root} can be written" if os.path.exists(root) else f"{root} does not exist yet, and can be made"
            yield Finding("Home", "home", "ok", text)
    except OSError as error:
        fix = f"give yourself the right to write there, or set FAIRLEAD_HOME to another folder (ls -ld {place})"
        yield Finding("Home", "home", "fail", f"{root} cannot be written: {error.strerror}", fix)


def _settings(home: Home) -> Iterator[Finding]:
    cwd = working_directory()
    _, warnings = load_settings(home, cwd)
    read = [path for _, path in home.settings_files(cwd) if os.path.exists(path)]
    usable = [str(path) for path in read if not any(text.startswith(f"{path}: ") and _NOT_JSON in text for text in warnings)]
    if not read or usable:
        names = ", ".join(usable) or "no settings.json, so all settings have their defaults"
        yield Finding("Home", "settings", "ok" if read else "off", names)
    for warning in warnings:
        yield Finding("Home", "settings", "warn", warning, _fix_of_file(warning, "settings"))


def _agent(arguments: Arguments, program: Program) -> Agent:
    """Build an agent that asks its model one short question: no tools, no instructions, nothing saved."""
    quiet = Arguments(
        model=arguments.model,
        provider=arguments.provider,
        base_url=arguments.base_url,
        isolated=arguments.isolated,
        no_session=True,
        no_tools=True,
        no_extensions=True,
        no_mcp=True,
        no_rules=True,
        no_skills=True,
        no_context_files=True,
        no_prompt_templates=True,
        system_prompt="You answer in one word.",
        thinking="off",
        max_turns="1",
    )
    options = agent_options(quiet, None, program)
    options.behaviour = replace(options.behaviour, warn=None, alert=None)
    return Agent(options)


def _keys(agent: Agent) -> Iterator[Finding]:
    registry = agent.registry
    found = [(name, source) for name, _ in registry.providers() if (source := registry.key_source(name)) is not None]
    for name, source in found:
        yield Finding("Keys", name, "ok", f"{name}: from {source}")
    if not found:
        yield Finding("Keys", "keys", "off", "no provider has a key", "fairlead login anthropic (or openai, google, ...)")
    for warning in registry.warnings:
        yield Finding("Keys", "configuration", "warn", warning, _fix_of_file(warning, "models"))


def _fix_of_file(warning: str, schema: str) -> str:
    """Return what to do about a warning about settings.json or models.json."""
    if _NOT_JSON in warning:
        return f"correct {warning.partition(': ')[0]}; until then, nothing in it applies"
    return f"`fairlead schema {schema}` describes every key of {schema}.json"


async def _models(agent: Agent, patience: float | None) -> AsyncIterator[Finding]:
    try:
        servers = await find_servers(os.environ)
        choice = await agent.choose_model()
    except FairleadError as error:
        yield Finding("Models", "servers", "fail", str(error), "unset FAIRLEAD_LOCAL_SERVERS")
        return
    for server in servers:
        yield Finding("Models", server.name, "ok", f"{server.name} serves {_count(len(server.models))} at {server.base_url}")
    if not servers:
        yield Finding("Models", "servers", "off", "no model server runs on this machine")
    usable = len(agent.registry.available())
    if choice.model is None:
        fix = (
            "fairlead login anthropic, or start a model server such as `ollama serve`, or run a small model with `fairlead local`"
        )
        yield Finding("Models", "model", "fail", choice.why, fix)
        return
    yield Finding("Models", "model", "ok", f"{choice.why} `fairlead models` lists {_count(usable)}.")
    if patience is not None:
        yield await _round_trip(agent, patience)


def _count(models: int) -> str:
    return "1 model" if models == 1 else f"{models} models"


async def _round_trip(agent: Agent, patience: float) -> Finding:
    """Ask the model one short question."""
    model = agent.session.model
    assert model is not None
    name = f"{model.provider}/{model.id}"
    began = time.monotonic()
    first: float | None = None
    error: str | None = None
    try:
        async with agent, asyncio.timeout(patience):
            async for event in agent.run(_PROMPT):
                if isinstance(event, MessageUpdate) and first is None:
                    first = time.monotonic() - began
                elif isinstance(event, RetryStart):
                    error = event.error
                    break
                elif isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
                    error = event.message.error_message
    except TimeoutError:
        error = f"no answer within {patience:g} s"
    except FairleadError as problem:
        error = str(problem)
    if error is not None:
        text = f"{name} did not answer: {' '.join(readable_error(error).split())}"
        key = about_key(agent, model.provider)
        if not is_refusal_of_key(error):
            listed = "" if agent.registry.unlisted.takes_no_login(model.provider) else f" {key}"
            key = f"see whether {model.base_url} can be reached.{listed}"
        fix = key
        return Finding("Models", "live", "fail", text, fix)
    seconds = time.monotonic() - began
    begun = "" if first is None else f", its first words after {first:.1f} s"
    return Finding("Models", "live", "ok", f"{name} answered in {seconds:.1f} s{begun}")


def _programs() -> Iterator[Finding]:
    yield _program("git", "git", "needed for packages from git and for what changed in a project")
    beside = Path(sys.executable).with_name("rg")
    found = _find("rg") or (str(beside) if os.access(beside, os.X_OK) else None)
    if found:
        yield Finding("Programs", "ripgrep", "ok", f"ripgrep: {found}")
    else:
        yield Finding("Programs", "ripgrep", "off", "ripgrep is not installed; searches are slower", install_command("rg"))
    try:
        node = find_node(os.environ)
        yield Finding("Programs", "node", "ok", f"node: {node} {_output(node, '--version')}".rstrip())
    except ConfigError:
        text = f"Node {OLDEST_NODE} or newer is not installed; extensions of pi need it"
        yield Finding("Programs", "node", "off", text, install_command("node"))
    yield _bubblewrap()


def _bubblewrap() -> Finding:
    if not sys.platform.startswith("linux"):
        return Finding("Programs", "bubblewrap", "off", "--sandbox needs bubblewrap, which runs only on Linux")
    finding = _program("bwrap", "bubblewrap", "--sandbox needs it")
    if finding.status == "ok" and _output(_find("bwrap") or "bwrap", *_SANDBOXED, _find("true") or "true") is None:
        text = "bubblewrap is installed, but this system does not let it make a sandbox; --sandbox cannot be used"
        return Finding(
            "Programs", "bubblewrap", "warn", text, "allow user namespaces: sudo sysctl kernel.unprivileged_userns_clone=1"
        )
    return finding


def _program(name: str, package: str, why: str) -> Finding:
    found = _find(name)
    if found:
        return Finding("Programs", package, "ok", f"{package}: {found}")
    how = next((how for manager, how in _PACKAGE_MANAGERS.items() if _find(manager)), "install {} with your package manager")
    return Finding("Programs", package, "off", f"{package} is not installed; {why}", how.format(package))


def _find(name: str) -> str | None:
    """Return the program that sessions in the working directory would use."""
    return find_program(name, None, outside=current_folder())


def _output(*command: str) -> str | None:
    """Return what a program prints, or None if it fails."""
    env = own_environment(os.environ, outside=current_folder())
    try:
        done = subprocess.run(
            command, cwd="/", env=env, capture_output=True, text=True, timeout=10, check=True, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _has_node() -> bool:
    try:
        find_node(os.environ)
    except ConfigError:
        return False
    return True


def _extras() -> Iterator[Finding]:
    known = extras()
    for name, purpose in _EXTRAS.items():
        if known and name not in known:
            continue
        missing = missing_packages(name)
        if name == "node" and missing and _has_node():
            yield Finding("Extras", name, "ok", f"{name}: {purpose}; not needed, because this machine has Node")
        elif known and not missing:
            yield Finding("Extras", name, "ok", f"{name}: {purpose}")
        else:
            yield Finding("Extras", name, "off", f"{name} is not installed: {purpose}", install_command(name))


def _project(home: Home) -> Iterator[Finding]:
    folder = real_folder(working_directory())
    try:
        found = find_decision(home, folder)
    except ConfigError as error:
        yield Finding("Project", "trust", "warn", str(error), f"repair or delete {home.root / 'trust.json'}")
        return
    needs = ", ".join(escape_path(name) for name in list_trusted_features(home, folder))
    if not needs:
        yield Finding("Project", "trust", "ok", f"{escape_path(folder)} has nothing that needs trust")
    elif found is None or not found.covers:
        changed = f". {describe_changes(home, folder)}".rstrip(". ") if found is not None else ""
        text = f"{escape_path(folder)} is not trusted, so these do not count: {needs}{changed}"
        yield Finding("Project", "trust", "warn", text, format_trust_hint(folder))
    else:
        how = "trusted" if found.trusted else "never trusted"
        yield Finding("Project", "trust", "ok", f"{escape_path(folder)} is {how}; it has {needs}")


#: Seconds that the model has to answer.
_PATIENCE = 30.0
_LONGEST_PATIENCE = 3600.0
#: What the statuses are called, and the width of the widest.
_MARKS = {"ok": "ok", "off": "-", "warn": "warn", "fail": "FAIL"}


def doctor(words: Sequence[str], program: Program) -> int:
    """Check this machine and print what was found. Returns 1 if something does not work, else 0. Raises UsageError."""
    command = command_named("doctor")
    options = command.parse(words)
    if options.words:
        raise command.usage_error(f"fairlead doctor takes no {options.words[0]!r}.")
    arguments = Arguments(
        model=options.text("model"),
        provider=options.text("provider"),
        base_url=options.text("base_url"),
        isolated=options.has("isolated"),
    )
    patience = None if options.has("offline") else _seconds(options.text("timeout"))
    as_json = options.has("json")
    status = StatusLine(lambda: 80) if sys.stderr.isatty() and not as_json else None

    async def check() -> list[Finding]:
        found: list[Finding] = []
        section = ""
        async for finding in check_machine(arguments, program, patience):
            found.append(finding)
            if as_json:
                continue
            if finding.section != section:
                print_text(f"{'' if not section else chr(10)}{finding.section}")
                section = finding.section
            print_text(_line(finding))
            if status is not None:
                sys.stdout.flush()
                status.show("…")
        return found

    if not as_json:
        print_text(f"fairlead {__version__}, Python {sys.version.split()[0]}, {one_line(sys.executable)}\n")
    found = run(check())
    StatusLine.hide_current()
    code = 1 if any(finding.status == "fail" for finding in found) else 0
    if as_json:
        print_exact(json.dumps({"ok": code == 0, "version": __version__, "findings": msgspec.to_builtins(found)}, indent=2))
    else:
        _summarise(found)
    return code


def _line(finding: Finding) -> str:
    return f"  {_MARKS[finding.status]:5} {one_line(finding.text)}"


def _summarise(found: Sequence[Finding]) -> None:
    """Print what to do about everything that is missing or broken, the most important first."""
    order = ("fail", "warn", "off")
    titles = {"fail": "To fix:", "warn": "To look at:", "off": "To add, if you want it:"}
    todo = sorted((finding for finding in found if finding.fix), key=lambda finding: order.index(finding.status))
    for status, findings in groupby(todo, key=lambda finding: finding.status):
        print_text(f"\n{titles[status]}")
        for line in dict.fromkeys(one_line(f"  {finding.name}: {finding.fix}") for finding in findings):
            print_text(line)
    failures = sum(finding.status == "fail" for finding in found)
    print_text("\nEverything works." if not failures else f"\n{failures} problem{'' if failures == 1 else 's'}.")


def _seconds(text: str | None) -> float:
    if text is None:
        return _PATIENCE
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _LONGEST_PATIENCE:
        raise UsageError(f"--timeout: expected a number of seconds, got {text!r}.")
    return seconds
