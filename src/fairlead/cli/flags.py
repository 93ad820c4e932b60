"""The command line, declared as a table and read by a small parser of our own.

Hosts written for pi, omp and xcsh start fairlead with those programs' flags. What belongs to a feature
that is not there yet, or means nothing here, is accepted with a line on stderr; anything else unknown is
an error that names the nearest flag.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from fairlead.errors import ConfigError

#: `optional` may have a value, `session` too, if the next word looks like a session and not like a prompt.
Kind: TypeAlias = Literal["switch", "value", "list", "optional", "session"]


class Flag(Struct, frozen=True):
    """One flag. `name` is its field in `Arguments`, if it has one; `metavar` its value's name in the help."""

    names: tuple[str, ...]
    name: str
    kind: Kind
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()


FLAGS: tuple[Flag, ...] = (
    Flag(
        ("--mode",),
        "mode",
        "value",
        "how to talk: text (the answer alone), json (events), rpc (a host), rpc-ui (one whose user the model may ask), opal",
        "MODE",
        ("text", "json", "rpc", "rpc-ui", "opal"),
    ),
    Flag(("-p", "--print"), "print", "switch", "answer the prompt on standard output and exit"),
    Flag(("--dialect",), "dialect", "value", "the protocol of rpc mode: pi, omp, xcsh, pi-2025 or opal", "NAME"),
    Flag(("--provider",), "provider", "value", "the provider of the model", "NAME"),
    Flag(("--model",), "model", "value", "the model: provider/id, an id or a pattern, with :level if you like", "PATTERN"),
    Flag(("--models",), "models", "value", "models to cycle through, as patterns separated by commas", "PATTERNS"),
    Flag(("--api-key",), "api_key", "value", "the provider's key, instead of the one in the environment", "KEY"),
    Flag(
        ("--thinking",),
        "thinking",
        "value",
        "how much the model thinks",
        "LEVEL",
        ("off", "minimal", "low", "medium", "high", "xhigh"),
    ),
    Flag(("--system-prompt",), "system_prompt", "value", "a system prompt instead of ours: a text or a file", "TEXT"),
    Flag(
        ("--append-system-prompt",),
        "append_system_prompt",
        "list",
        "more system prompt: a text or a file; may be repeated",
        "TEXT",
    ),
    Flag(("-nc", "--no-context-files"), "no_context_files", "switch", "do not read AGENTS.md and CLAUDE.md"),
    Flag(("--skill",), "skill", "list", "a skill, or a folder of skills; may be repeated", "PATH"),
    Flag(("--no-rules",), "no_rules", "switch", "no stream rules"),
    Flag(("--max-turns",), "max_turns", "value", "end the run with an error after this many model calls; 0: no limit", "N"),
    Flag(
        ("--approval",),
        "approval",
        "value",
        "calls of tools that change something: let them run, ask first, or refuse them",
        "MODE",
        ("auto", "ask", "deny"),
    ),
    Flag(
        ("--sandbox",),
        "sandbox",
        "value",
        "workspace: commands can change the working directory alone, and have no network",
        "MODE",
        ("off", "workspace"),
    ),
    Flag(("-ns", "--no-skills"), "no_skills", "switch", "no skills but those of --skill"),
    Flag(
        ("--prompt-template",), "prompt_template", "list", "a prompt template, or a folder of templates; may be repeated", "PATH"
    ),
    Flag(("-np", "--no-prompt-templates"), "no_prompt_templates", "switch", "no templates but those of --prompt-template"),
    Flag(("--mcp-config",), "mcp_config", "list", "a file of MCP servers; may be repeated", "FILE"),
    Flag(("--no-mcp",), "no_mcp", "switch", "no MCP servers but those of --mcp-config"),
    Flag(("-e", "--extension"), "extension", "list", "an extension, or a folder of extensions; may be repeated", "PATH"),
    Flag(("-ne", "--no-extensions"), "no_extensions", "switch", "no extensions but those of --extension"),
    Flag(("-a", "--approve"), "approve", "switch", "trust the project this time: its extensions, servers and settings count"),
    Flag(("-na", "--no-approve"), "no_approve", "switch", "do not trust the project this time"),
    Flag(("-t", "--tools"), "tools", "value", "the tools that the model may use, separated by commas", "NAMES"),
    Flag(("-nt", "--no-tools"), "no_tools", "switch", "no tools at all"),
    Flag(("-nbt", "--no-builtin-tools"), "no_builtin_tools", "switch", "no built-in tools"),
    Flag(("-xt", "--exclude-tools"), "exclude_tools", "value", "tools to leave out, separated by commas", "NAMES"),
    Flag(("--session",), "session", "value", "go on with a session: its file, or the beginning of its id", "FILE|ID"),
    Flag(("-c", "--continue"), "resume", "switch", "go on with the session of this directory that changed last"),
    Flag(("-r", "--resume"), "resume_named", "session", "the same, or with the session of that file or id", "FILE|ID"),
    Flag(("--fork",), "fork", "value", "begin with a copy of a session: its file, or the beginning of its id", "FILE|ID"),
    Flag(("--session-id",), "session_id", "value", "go on with the session of exactly this id, or begin it", "ID"),
    Flag(("--session-dir",), "session_dir", "value", "the folder in which sessions are kept", "DIR"),
    Flag(("-n", "--name"), "name", "value", "what the session is called", "NAME"),
    Flag(("--no-session",), "no_session", "switch", "keep the conversation in memory only"),
    Flag(
        ("--durability",),
        "durability",
        "value",
        "fsync: what was written survives a power cut, not only the end of the process",
        "HOW",
        ("flush", "fsync"),
    ),
    Flag(("--isolated",), "isolated", "switch", "read no user configuration; keys from the environment or --api-key only"),
    Flag(("--updates",), "updates", "value", "the form of message_update: full or delta", "FORM", ("full", "delta")),
    Flag(
        ("--max-frame-bytes",),
        "max_frame_bytes",
        "value",
        "the longest frame to send; longer ones are cut into rpc_chunk frames",
        "N",
    ),
    Flag(
        ("--on-eof",),
        "on_eof",
        "value",
        "when the host's input ends: abort the run, or finish it first",
        "WHAT",
        ("abort", "finish"),
    ),
    Flag(("--list-models",), "list_models", "optional", "list the models, or those that match, and exit", "PATTERN"),
    Flag(("--offline",), "offline", "switch", "reach nothing but the model's provider"),
    Flag(("--verbose",), "verbose", "switch", "log more to stderr; FAIRLEAD_LOG=debug logs everything"),
    Flag(("--log-file",), "log_file", "value", "append the log to a file instead of stderr", "FILE"),
    Flag(("-h", "--help"), "help", "switch", "show this and exit"),
    Flag(("-v", "--version"), "version", "switch", "show the version and exit"),
)

#: Flags of pi, omp and xcsh without a value, and with one, that do nothing here (yet).
IGNORED_SWITCHES = frozenset(
    """--no-title --no-themes --no-lsp --no-pty --no-memory
    --allow-home --auto-approve --yolo --hide-thinking --no-hide-thinking --no-startup-checks""".split()
)
IGNORED_VALUES = frozenset(
    """--provider-session-id --hook --skills --theme --use-theme --tui-mode
    --export --plan --smol --slow --config --plugin-dir""".split()
)


#: A session as the value of `--resume`: a file, or an id of this family (a UUID, omp's sixteen digits, or their beginning).
_SESSION = re.compile(r"[^-].*\.jsonl|[0-9a-f]{8}[0-9a-f-]*")


class Arguments(Struct):
    """The command line, read."""

    mode: str | None = None
    print: bool = False
    dialect: str | None = None
    provider: str | None = None
    model: str | None = None
    models: str | None = None
    api_key: str | None = None
    thinking: str | None = None
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
    approve: bool = False
    no_approve: bool = False
    no_tools: bool = False
    no_builtin_tools: bool = False
    exclude_tools: str | None = None
    session: str | None = None
    resume: bool = False
    #: None: not asked for; "": the latest.
    resume_named: str | None = None
    fork: str | None = None
    session_id: str | None = None
    session_dir: str | None = None
    name: str | None = None
    no_session: bool = False
    durability: str | None = None
    no_rules: bool = False
    max_turns: str | None = None
    approval: str | None = None
    sandbox: str | None = None
    isolated: bool = False
    updates: str | None = None
    max_frame_bytes: str | None = None
    on_eof: str | None = None
    #: None: not asked for; "": all.
    list_models: str | None = None
    offline: bool = False
    verbose: bool = False
    log_file: str | None = None
    help: bool = False
    version: bool = False
    #: What is not a flag: prompts, and files as @name.
    words: list[str] = []
    #: Flags that do nothing here, unless an extension has them; each with its value, if it has one.
    ignored: dict[str, str | None] = {}
    #: Flags that may be an extension's, without their dashes, each with the word behind it that may be its value.
    unknown: dict[str, str | None] = {}


class UsageError(ConfigError):
    """The command line cannot be understood."""


def parse(argv: Sequence[str], more: Sequence[Flag] = ()) -> Arguments:
    """Read a command line; `more` are flags of extensions', whose values are theirs. Raises UsageError."""
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
            value = words.pop() if words and _SESSION.fullmatch(words[-1]) else ""
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
    """What to say of a flag that nobody has. `more` are those of extensions."""
    from difflib import get_close_matches

    known = [each for flag in FLAGS for each in flag.names]
    near = get_close_matches(name, [*known, *more, *IGNORED_SWITCHES, *IGNORED_VALUES], 1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"Unknown flag {name}.{hint} `fairlead --help` lists them all."


def help_text() -> str:
    lines = [
        "fairlead: a coding agent that other programs embed.",
        "",
        "  fairlead --mode rpc [flags]            serve a host on standard input and output",
        "  fairlead -p [flags] PROMPT [@FILE...]  answer one prompt; piped input comes before it",
        "  fairlead --mode json [flags] PROMPT    the same, as a line of JSON per event",
        "  fairlead --mode opal [flags]           serve a client of Opal's",
        "  fairlead shim pi|omp|xcsh|opal DIR     write launchers that hosts of these programs can start",
        "  fairlead export FILE [PAGE]            a session file as a page to read",
        "  fairlead trust [PATH]                  let a project run extensions and servers of its own",
        "  fairlead rules test FILE [flags]       what a stream rule would match",
        "  fairlead schema [--dialect NAME]       the protocol as JSON Schema, or with --typescript as types",
        "",
        "Flags:",
    ]
    for flag in FLAGS:
        value = f"[{flag.metavar}]" if flag.kind in ("optional", "session") else flag.metavar
        left = f"{', '.join(flag.names)} {value}".rstrip()
        lines.append(f"  {left:34} {flag.help}")
    lines += ["", "Keys come from the environment (ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY ...), from"]
    lines += ["~/.fairlead/auth.json or from ~/.fairlead/models.json; see docs/models.md."]
    return "\n".join(lines)
