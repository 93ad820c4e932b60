"""The checks of `fairlead doctor`. Each yields what it found; none raises, and none shows a key."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from fairlead.cli.flags import Arguments
from fairlead.config.extras import extras, install_command, missing_packages
from fairlead.config.home import Home, working_directory
from fairlead.config.programs import current_folder, find_program
from fairlead.errors import ConfigError, FairleadError

if TYPE_CHECKING:
    from fairlead.agent import Agent
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
    from fairlead.config.settings_files import load_settings

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
    from fairlead.agent import Agent
    from fairlead.cli.build import agent_options

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
    options.warn = options.alert = lambda warning: None
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
    from fairlead.models.local.servers import find_servers

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
    from fairlead.cli.advice import about_key, is_refusal_of_key, message_of
    from fairlead.core.events import MessageEnd, RetryStart
    from fairlead.core.message_updates import MessageUpdate
    from fairlead.core.messages import AssistantMessage

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
        text = f"{name} did not answer: {' '.join(message_of(error).split())}"
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
    from fairlead.extend.node.program import OLDEST_NODE, find_node

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
    try:
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=10, check=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _has_node() -> bool:
    from fairlead.extend.node.program import find_node

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
    from fairlead.cli.subcommands.trust import what_needs_trust
    from fairlead.config.trust import find_decision, how_to_trust, real_folder, shown, what_changed

    folder = real_folder(working_directory())
    try:
        found = find_decision(home, folder)
    except ConfigError as error:
        yield Finding("Project", "trust", "warn", str(error), f"repair or delete {home.root / 'trust.json'}")
        return
    needs = ", ".join(shown(name) for name in what_needs_trust(home, folder))
    if not needs:
        yield Finding("Project", "trust", "ok", f"{shown(folder)} has nothing that needs trust")
    elif found is None or not found.covers:
        changed = f". {what_changed(home, folder)}".rstrip(". ") if found is not None else ""
        text = f"{shown(folder)} is not trusted, so these do not count: {needs}{changed}"
        yield Finding("Project", "trust", "warn", text, how_to_trust(folder))
    else:
        how = "trusted" if found.trusted else "never trusted"
        yield Finding("Project", "trust", "ok", f"{shown(folder)} is {how}; it has {needs}")
