"""The command line: a table of flags and a small parser.

Hosts written for pi, omp and xcsh start fairlead with the flags of those programs. A flag that has no meaning here is accepted
with a line in the log. Any other unknown flag is an error that names the nearest one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from fairlead.cli import advice
from fairlead.core.model import THINKING_LEVELS
from fairlead.errors import ConfigError

#: `optional` may have a value. So may `session`, if the next word looks like a session rather than a prompt.
Kind: TypeAlias = Literal["switch", "value", "list", "optional", "session"]


class Flag(Struct, frozen=True):
    """One flag. `name` is its field in `Arguments`, if it has one. `metavar` names its value in the help."""

    names: tuple[str, ...]
    name: str
    kind: Kind
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()


#: The flags by section, in the order of the help and of docs/cli.md.
FLAG_SECTIONS: dict[str, tuple[Flag, ...]] = {
    "Mode and protocol": (
        Flag(("-p", "--print"), "print", "switch", "answer the prompt on standard output and exit"),
        Flag(
            ("--output-format",),
            "output_format",
            "value",
            "with -p: text, json (one result) or stream-json (events)",
            "FORM",
            ("text", "json", "stream-json"),
        ),
        Flag(
            ("--mode",),
            "mode",
            "value",
            "text or json: answer a prompt; rpc, rpc-ui, acp or opal: serve a host",
            "MODE",
            ("text", "json", "rpc", "rpc-ui", "acp", "opal"),
        ),
        Flag(("--dialect",), "dialect", "value", "the protocol of rpc mode: pi, omp, xcsh, pi-2025, opal, acp or claude", "NAME"),
        Flag(("--updates",), "updates", "value", "the form of message_update: full or delta", "FORM", ("full", "delta")),
        Flag(
            ("--max-frame-bytes",),
            "max_frame_bytes",
            "value",
            "the longest frame to send; longer ones become rpc_chunk frames",
            "N",
        ),
        Flag(
            ("--on-eof",),
            "on_eof",
            "value",
            "when the host closes its end: abort the run or finish it",
            "WHAT",
            ("abort", "finish"),
        ),
        Flag(
            ("--record",),
            "record",
            "value",
            "record the frames of the host and the traffic of the provider",
            "FILE",
        ),
        Flag(("--record-overwrite",), "record_overwrite", "switch", "let --record replace a file that exists"),
    ),
    "Model": (
        Flag(("--model",), "model", "value", "provider/id, an id or part of one, with an optional :level", "PATTERN"),
        Flag(("--provider",), "provider", "value", "the provider of the model", "NAME"),
        Flag(("--base-url",), "base_url", "value", "the address of an OpenAI-compatible server: http://host:8000/v1", "URL"),
        Flag(("--model-file",), "model_file", "value", "a GGUF file to run on this machine with llama.cpp", "FILE"),
        Flag(("--models",), "models", "value", "models to cycle through: patterns separated by commas", "PATTERNS"),
        Flag(("--api-key",), "api_key", "value", "the key of the provider, instead of the one in the environment", "KEY"),
        Flag(("--thinking",), "thinking", "value", f"how much it thinks: {', '.join(THINKING_LEVELS)}", "LEVEL"),
        Flag(("--max-turns",), "max_turns", "value", "end the run with an error after N model calls; 0 for no limit", "N"),
        Flag(("--max-cost",), "max_cost", "value", "stop the run of a prompt that has cost this many US dollars", "USD"),
        Flag(("--max-time",), "max_time", "value", "abort what runs after this time: seconds, or 5s, 10m, 1h", "TIME"),
        Flag(("--provider-session-id",), "provider_session_id", "value", "the id of the session that providers see", "ID"),
        Flag(("--list-models",), "list_models", "optional", "list the models that match, by default all, and exit", "PATTERN"),
    ),
    "Tools and safety": (
        Flag(
            ("-t", "--tools"),
            "tools",
            "value",
            "the tools of the model: names and * patterns, or +name, -name",
            "NAMES",
        ),
        Flag(("-xt", "--exclude-tools"), "exclude_tools", "value", "tools to leave out: names and * patterns", "NAMES"),
        Flag(("-nt", "--no-tools"), "no_tools", "switch", "use no tools"),
        Flag(("-nbt", "--no-builtin-tools"), "no_builtin_tools", "switch", "use no built-in tools"),
        Flag(
            ("--approval",),
            "approval",
            "value",
            "when a tool wants to change something: auto, write, ask or deny",
            "MODE",
            ("auto", "write", "ask", "deny"),
        ),
        Flag(
            ("--approval-mode",),
            "approval_mode",
            "value",
            "the same in the words of omp; the stricter of both applies",
            "MODE",
            ("always-ask", "write", "yolo"),
        ),
        Flag(("--yolo", "--auto-approve"), "yolo", "switch", "the same as --approval-mode yolo"),
        Flag(
            ("--sandbox",),
            "sandbox",
            "value",
            "workspace: commands change only this directory, without network",
            "MODE",
            ("off", "workspace"),
        ),
        Flag(("-a", "--approve"), "approve", "switch", "trust the project for this run, with its extensions and servers"),
        Flag(("-na", "--no-approve"), "no_approve", "switch", "do not trust the project for this run"),
        Flag(("--cwd",), "cwd", "value", "work in this directory instead of the current one", "DIR"),
        Flag(("--add-dir",), "add_dir", "list", "another directory to work in; may be repeated", "DIR"),
    ),
    "Sessions": (
        Flag(("-c", "--continue"), "resume", "switch", "resume the latest session of this directory"),
        Flag(
            ("-r", "--resume"),
            "resume_named",
            "session",
            "resume the session with this file, id or name; alone: pick one, or with -p the latest",
            "SESSION",
        ),
        Flag(("--resume-run",), "resume_run", "switch", "continue the session's last run, if it was interrupted"),
        Flag(("--session",), "session", "optional", "resume a session: its file, its id or part of it, or its name", "SESSION"),
        Flag(("--session-id",), "session_id", "value", "resume the session with exactly this id, or create it", "ID"),
        Flag(("--fork",), "fork", "value", "start with a copy of a session: its file or the start of its id", "FILE|ID"),
        Flag(("-n", "--name"), "name", "value", "the name of the session", "NAME"),
        Flag(("--session-dir",), "session_dir", "value", "the folder for session files", "DIR"),
        Flag(("--no-session",), "no_session", "switch", "do not save the session"),
        Flag(
            ("--durability",),
            "durability",
            "value",
            "fsync: saved entries also survive a power cut",
            "HOW",
            ("flush", "fsync"),
        ),
        Flag(("--export",), "export", "value", "write a session file as an HTML page and exit", "FILE"),
    ),
    "Instructions and additions": (
        Flag(("--system-prompt",), "system_prompt", "value", "replace the system prompt: a text or a file", "TEXT"),
        Flag(
            ("--append-system-prompt",),
            "append_system_prompt",
            "list",
            "append to the system prompt: a text or a file; may be repeated",
            "TEXT",
        ),
        Flag(("-nc", "--no-context-files"), "no_context_files", "switch", "do not read AGENTS.md and CLAUDE.md"),
        Flag(("--skill",), "skill", "list", "a skill or a folder of skills; may be repeated", "PATH"),
        Flag(("-ns", "--no-skills"), "no_skills", "switch", "use only the skills of --skill"),
        Flag(
            ("--prompt-template",),
            "prompt_template",
            "list",
            "a prompt template or a folder of templates; may be repeated",
            "PATH",
        ),
        Flag(("-np", "--no-prompt-templates"), "no_prompt_templates", "switch", "use only the templates of --prompt-template"),
        Flag(
            ("-e", "--extension", "--hook", "--trusted-extension"),
            "extension",
            "list",
            "an extension or a folder of extensions; may be repeated",
            "PATH",
        ),
        Flag(("-ne", "--no-extensions"), "no_extensions", "switch", "use only the extensions of --extension"),
        Flag(
            ("--extension-errors",),
            "extension_errors",
            "value",
            "if an extension that you named fails to load: exit or continue",
            "WHAT",
            ("exit", "continue"),
        ),
        Flag(("--mcp-config",), "mcp_config", "list", "a file of MCP servers; may be repeated", "FILE"),
        Flag(("--no-mcp",), "no_mcp", "switch", "use only the servers of --mcp-config"),
        Flag(("--no-rules",), "no_rules", "switch", "use no stream rules"),
        Flag(("--isolated",), "isolated", "switch", "read no configuration; keys from the environment or --api-key"),
    ),
    "Other": (
        Flag(("--login",), "login", "switch", "log in at a provider and exit; editors use it"),
        Flag(("--offline",), "offline", "switch", "connect only to the model provider"),
        Flag(("--verbose",), "verbose", "switch", "log more to stderr; FAIRLEAD_LOG=debug logs everything"),
        Flag(("--log-file",), "log_file", "value", "append the log to a file instead of stderr", "FILE"),
        Flag(("-h", "--help"), "help", "switch", "show this help and exit"),
        Flag(("-v", "--version"), "version", "switch", "show the version and exit"),
    ),
}
FLAGS: tuple[Flag, ...] = tuple(flag for section in FLAG_SECTIONS.values() for flag in section)
#: The flags that `fairlead --help` shows. `fairlead help flags` shows all.
COMMON_FLAGS = (
    "--print",
    "--output-format",
    "--model",
    "--thinking",
    "--tools",
    "--approval",
    "--sandbox",
    "--cwd",
    "--continue",
    "--resume",
    "--no-session",
    "--isolated",
    "--verbose",
    "--help",
    "--version",
)

#: Flags of pi, omp and xcsh that have no effect here, without a value and with one.
IGNORED_SWITCHES = frozenset(
    """--advisor --allow-home --external-thinking --from-claude --from-codex --hide-thinking --no-hide-thinking --no-lsp
    --no-memory --no-prewalk --no-pty --no-startup-checks --no-themes --no-title --no-ui --plan-yolo --prewalk
    --print-thoughts""".split()
)
IGNORED_VALUES = frozenset(
    """--alias --config --plan --plan-yolo-into --plugin-dir --prewalk-into --profile --prompt-cache-key --service-tier
    --skills --slow --smol --system-prompt-template --theme --tui-mode --use-theme""".split()
)


#: A session as the value of `--resume`: a file, or the beginning or end of an id (a UUID, or sixteen digits in omp).
_SESSION = r"[^-].*\.jsonl|[0-9a-f]{8}[0-9a-f-]*"


class Arguments(Struct):
    """The parsed command line."""

    mode: str | None = None
    print: bool = False
    output_format: str | None = None
    dialect: str | None = None
    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    model_file: str | None = None
    models: str | None = None
    api_key: str | None = None
    thinking: str | None = None
    cwd: str | None = None
    add_dir: list[str] = []
    system_prompt: str | None = None
    append_system_prompt: list[str] = []
    no_context_files: bool = False
    skill: list[str] = []
    no_skills: bool = False
    prompt_template: list[str] = []
    no_prompt_templates: bool = False
    mcp_config: list[str] = []
    no_mcp: bool = False
    tools: str | None = None
    extension: list[str] = []
    no_extensions: bool = False
    extension_errors: str | None = None
    approve: bool = False
    no_approve: bool = False
    no_tools: bool = False
    no_builtin_tools: bool = False
    exclude_tools: str | None = None
    #: None if the flag is absent; "" for the latest session.
    session: str | None = None
    resume: bool = False
    #: None if the flag is absent; "" for the latest session.
    resume_named: str | None = None
    resume_run: bool = False
    #: The word after `--resume` that does not look like a session. It may be the name of one, or a prompt.
    after_resume: str | None = None
    fork: str | None = None
    session_id: str | None = None
    provider_session_id: str | None = None
    session_dir: str | None = None
    name: str | None = None
    no_session: bool = False
    durability: str | None = None
    no_rules: bool = False
    max_turns: str | None = None
    max_cost: str | None = None
    max_time: str | None = None
    approval: str | None = None
    approval_mode: str | None = None
    yolo: bool = False
    sandbox: str | None = None
    isolated: bool = False
    updates: str | None = None
    max_frame_bytes: str | None = None
    on_eof: str | None = None
    record: str | None = None
    record_overwrite: bool = False
    #: None if the flag is absent; "" for all models.
    list_models: str | None = None
    login: bool = False
    export: str | None = None
    offline: bool = False
    verbose: bool = False
    log_file: str | None = None
    help: bool = False
    version: bool = False
    #: The words that are not flags: prompts, and files as @name.
    words: list[str] = []
    #: Flags that have no effect, unless an extension has them, each with its value if any.
    ignored: dict[str, str | None] = {}
    #: Unknown flags, which an extension may have: names without dashes, each with the next word, which may be its value.
    unknown: dict[str, str | None] = {}


class UsageError(ConfigError):
    """The command line is invalid."""


def parse(argv: Sequence[str], more: Sequence[Flag] = ()) -> Arguments:
    """Parse a command line. `more` are flags of extensions, whose values are not kept. Raises UsageError."""
    known = {name: flag for flag in (*more, *FLAGS) for name in flag.names}
    arguments = Arguments()
    words = list(reversed(argv))
    while words:
        word = words.pop()
        if word == "--":
            arguments.words += reversed(words)
            break
        if not word.startswith("-") or word == "-":
            arguments.words.append(word)
            continue
        name, has_value, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in IGNORED_SWITCHES or name in IGNORED_VALUES:
            if name in IGNORED_VALUES and not has_value and words and not words[-1].startswith("-"):
                value = words.pop()
            arguments.ignored[name] = value or None
        elif name in known:
            _set(arguments, known[name], name, value if has_value else None, words)
        elif word.startswith("--"):
            if not has_value and words and not words[-1].startswith(("-", "@")):
                value = words.pop()
            arguments.unknown[name[2:]] = value or None
        else:
            raise UsageError(unknown_flag(name))
    return arguments


def _set(arguments: Arguments, flag: Flag, name: str, value: str | None, words: list[str]) -> None:
    if flag.kind == "switch":
        if value is not None:
            raise UsageError(f"{name} takes no value.")
        if flag.name:
            setattr(arguments, flag.name, True)
        return
    if value is None:
        if flag.kind == "optional":
            value = words.pop() if words and not words[-1].startswith("-") else ""
        elif flag.kind == "session":
            value = words.pop() if words and re.fullmatch(_SESSION, words[-1]) else ""
            if not value and words and not words[-1].startswith(("-", "@")):
                arguments.after_resume = words[-1]
        elif not words:
            raise UsageError(f"{name} needs a value: {flag.metavar}.")
        else:
            value = words.pop()
    if flag.choices and value not in flag.choices:
        raise UsageError(f"{name}: expected {' or '.join(flag.choices)}, got {value!r}.")
    if flag.kind == "list":
        before: list[Any] = getattr(arguments, flag.name)
        setattr(arguments, flag.name, [*before, value])
    elif flag.name:
        setattr(arguments, flag.name, value)


def unknown_flag(name: str, more: Sequence[str] = ()) -> str:
    """Return the error text for an unknown flag, with the nearest known one. `more` are the flags of extensions."""
    known = [each for flag in FLAGS for each in flag.names]
    hint = advice.nearest(name, [*known, *more, *IGNORED_SWITCHES, *IGNORED_VALUES])
    return f"Unknown flag {name}.{hint} `fairlead help flags` lists them all."
