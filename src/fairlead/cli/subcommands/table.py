"""The table of subcommands. The command line, its help and the completions of shells are generated from it.

A subcommand is a function that takes the words after its name and the program that fairlead was started as, and returns the
exit code. Its module is imported when the subcommand runs. `--help` never reaches the function: the row has the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.cli.flags import Flag
from fairlead.cli.subcommands.fleet import FLEET_SUBCOMMANDS
from fairlead.cli.subcommands.subcommand import Subcommand

if TYPE_CHECKING:
    from fairlead.wire.dialects import Program

#: The length from which a name may be two edits away from what was typed.
_LONG = 8
#: How many letters at the beginning of a subcommand are enough to suggest it.
_SHORTEST = 3

_SCRIPTS = Flag(("--scripts",), "scripts", "switch", "run the install scripts of packages, with all your rights")

SUBCOMMANDS: tuple[Subcommand, ...] = (
    Subcommand(
        name="sessions",
        group="sessions",
        summary="list, show, rename, delete or export sessions",
        run="sessions:sessions",
        usage=(
            "[list] [--all] [--limit N] [--json]",
            "show SESSION [--json]",
            "rename SESSION NAME",
            "delete SESSION... [--yes]",
            "export SESSION... [PAGE.html | -] [--force]",
        ),
        about="Works on the sessions of this directory. SESSION is an id or its beginning, the short id that the list shows, a\n"
        "name, a file, or `last` for the session that changed last. Ids and names of other directories work too.",
        flags=(
            Flag(("-a", "--all"), "all", "switch", "list the sessions of all directories"),
            Flag(("-n", "--limit"), "limit", "value", "list at most this many, by default 20; 0 for all", "N"),
            Flag(("--json",), "json", "switch", "print JSON"),
            Flag(("-y", "--yes"), "yes", "switch", "delete without asking"),
            Flag(("-f", "--force"), "force", "switch", "let a page replace a file that no export made"),
            Flag(("-o", "--output"), "output", "value", "where the page is written; - is standard output", "PAGE|DIR"),
            Flag(("--session-dir",), "session_dir", "value", "the directory of the sessions", "DIR"),
        ),
        words=("list", "show", "rename", "delete", "export"),
        examples=(
            "sessions",
            "sessions --all",
            "sessions show last",
            'sessions rename last "the parser"',
            "sessions delete 4f1c9a2e",
        ),
    ),
    Subcommand(
        name="usage",
        group="sessions",
        summary="show cost and tokens by day, model and project",
        run="usage:usage",
        usage=("[--since DATE] [--by day|model|project] [--json] [--html FILE|- [--force]]",),
        about="Adds up what the sessions of all directories have used. Each model call counts once, also if forks repeat it.\n"
        "DATE is 2026-01-31, a time such as 30d or 4w, or today.",
        flags=(
            Flag(("--since",), "since", "value", "leave out what was before", "DATE"),
            Flag(("--by",), "by", "value", "show one table only", "GROUP", choices=("day", "model", "project")),
            Flag(("--json",), "json", "switch", "print JSON"),
            Flag(("--html",), "html", "value", "write a page with plots; - writes it to standard output", "FILE"),
            Flag(("-f", "--force"), "force", "switch", "let the page replace a file that fairlead did not make"),
            Flag(("--session-dir",), "session_dir", "value", "the directory of the sessions", "DIR"),
        ),
        examples=("usage", "usage --since 30d --by model", "usage --html usage.html"),
    ),
    Subcommand(
        name="export",
        group="sessions",
        summary="write sessions as HTML pages",
        run="sessions:export",
        usage=("SESSION... [PAGE.html | -] [--output PAGE|DIR] [--force]",),
        about="Writes each session as one page that needs no other file. SESSION is a file, an id, a name, or `last`. Without a\n"
        "name, the page is fairlead-session-ID.html in this directory; `-` writes it to standard output. A session file is\n"
        "never overwritten, and other files that no export made only with --force.",
        flags=(
            Flag(("-o", "--output"), "output", "value", "where the page is written; - is standard output", "PAGE|DIR"),
            Flag(("-f", "--force"), "force", "switch", "replace a file that no export made"),
            Flag(("--session-dir",), "session_dir", "value", "the directory of the sessions", "DIR"),
        ),
        words=("<file>",),
        examples=(
            "export last",
            "export session.jsonl page.html",
            "export last - > page.html",
            "export 4f1c9a2e 77b01d3c -o pages/",
        ),
        for_peers=True,
    ),
    Subcommand(
        name="login",
        group="models",
        summary="store the key of a provider, or log in at it",
        run="login:login",
        usage=("[PROVIDER] [--browser] [-e EXTENSION]",),
        about="Stores the key of a provider in auth.json, which only you can read. You type the key, or pipe it in.\n"
        "If the provider supports login, you get a page to open and a code to enter there instead.",
        flags=(
            Flag(("--browser",), "browser", "switch", "grant a key on a page of the provider (openrouter)"),
            Flag(("-e", "--extension"), "extension", "list", "an extension that adds the provider; may be repeated", "PATH"),
        ),
        words=("<provider>",),
        examples=("login anthropic", "login openrouter --browser", "login openai < key.txt"),
        for_peers=True,
    ),
    Subcommand(
        name="logout",
        group="models",
        summary="forget a stored key or login",
        run="login:logout",
        usage=("[PROVIDER | --all]",),
        about="Removes the key or login of a provider from auth.json. Keys in the environment and in models.json stay.",
        flags=(Flag(("--all",), "all", "switch", "forget all of them"),),
        words=("<provider>",),
        examples=("logout anthropic",),
        for_peers=True,
    ),
    Subcommand(
        name="models",
        group="models",
        summary="list models: which have a key, their windows and prices",
        run="models:models",
        usage=("[WORD...] [--all] [--json]",),
        about="Lists the models that can be used, or those whose provider/id contains all words. Windows are in tokens, prices\n"
        "in US dollars per million tokens. Servers that run on this machine are included.",
        flags=(
            Flag(("--all",), "all", "switch", "also list models without a key"),
            Flag(("--json",), "json", "switch", "print JSON"),
            Flag(("--isolated",), "isolated", "switch", "read no configuration: only keys from the environment count"),
        ),
        examples=("models", "models opus", "models --all --json"),
    ),
    Subcommand(
        name="local",
        group="models",
        summary="run a small model on this machine with llama.cpp",
        run="local:local",
        usage=("[--model NAME | --model-file FILE] [--download] [flags] [PROMPT]", "--list"),
        about="Starts fairlead with a model that runs here, in its own process. Without a name it takes the best weights\n"
        "that are on this machine already: those of Hugging Face, LM Studio, Ollama, llama.cpp and fairlead are found. It\n"
        "downloads nothing without asking. `fairlead help local-models` says what small models can do.",
        flags=(
            Flag(("--model",), "model", "value", "the model, by the name that --list shows", "NAME"),
            Flag(("--model-file",), "model_file", "value", "a GGUF file", "FILE"),
            Flag(("--download",), "download", "switch", "download the weights without asking"),
            Flag(("--list",), "list", "switch", "list the weights that are here, and those that can be downloaded"),
        ),
        examples=("local --list", 'local -p "What is in this directory?"', "local --model smollm2 --download"),
    ),
    Subcommand(
        name="demo",
        group="start",
        summary="watch the agent at work, without a key or a model",
        run="replay:demo",
        about="Opens the chat in a temporary directory. A script plays the model and repairs a small program; the tools, the\n"
        "approval and the shell are real. Nothing is downloaded or saved.",
        examples=("demo",),
    ),
    Subcommand(
        name="trust",
        group="projects",
        summary="let a project run its own extensions and servers",
        run="trust:trust",
        usage=("[add] [PATH] [--never]", "show|remove [PATH]", "list"),
        about="Trusts the project in PATH, by default the current directory, and all folders in it. `show` says whether it is\n"
        "trusted and what it has that needs trust, `remove` forgets the decision, `list` prints all decisions.",
        flags=(Flag(("--never",), "never", "switch", "decide that the project is never trusted"),),
        words=("add", "show", "remove", "list", "<folder>"),
        examples=("trust", "trust show ~/project", "trust list"),
        for_peers=True,
    ),
    Subcommand(
        name="mcp",
        group="projects",
        summary="list, add, remove and try MCP servers, and sign in at one",
        run="mcp:mcp",
        usage=(
            "[list]",
            "add NAME [--env NAME=VALUE] [--] COMMAND [ARGUMENT...]",
            "add NAME [--header 'NAME: VALUE'] URL",
            "test NAME [--url URL]",
            "remove NAME",
            "login|logout NAME [--url URL]",
        ),
        about="Lists the MCP servers of this directory, adds one to your own mcp.json or removes it from there, connects to one\n"
        "and lists its tools, or signs in at a server that asks for it (OAuth). A key in --env or --header is stored as it\n"
        "is, unless you write '${VARIABLE}', which is replaced when the server is started. To sign in, you get a page to\n"
        "open in a browser. What the server grants is stored in mcp-sign-ins.json, which only you can read, and renewed in\n"
        "every session. --url is for a server that no mcp.json has, such as one that an extension adds.",
        flags=(
            Flag(("--url",), "url", "value", "the address of a server that no file has", "URL"),
            Flag(("--type",), "type", "value", "stdio, http or sse; by default http for a URL", "TYPE", ("stdio", "http", "sse")),
            Flag(("--env",), "env", "list", "a variable for the program", "NAME=VALUE"),
            Flag(("--header",), "header", "list", "a header of every request", "'NAME: VALUE'"),
        ),
        words=("list", "add", "remove", "test", "login", "logout"),
        examples=(
            "mcp add git -- mcp-server-git --repository .",
            "mcp add sentry https://mcp.sentry.dev/mcp",
            "mcp test git",
            "mcp login sentry",
        ),
    ),
    Subcommand(
        name="rules",
        group="projects",
        summary="show what a stream rule matches",
        run="rules:rules",
        usage=("test FILE [--text TEXT | --file SAMPLE] [--scope text|thinking|tool:NAME] [--path PATH]",),
        about="Tests a stream rule on a sample of what a model might write: text, thinking, the text that edit and write put\n"
        "into the file at PATH, or the arguments of another tool as JSON. The sample comes from standard input unless a\n"
        "flag gives it. The exit code is 0 for a match, 1 for no match and 2 for an invalid rule.",
        flags=(
            Flag(("--text",), "text", "value", "the sample itself", "TEXT"),
            Flag(("--file",), "file", "value", "a file with the sample", "SAMPLE"),
            Flag(("--scope",), "scope", "value", "what the sample is: text, thinking or tool:NAME", "SCOPE"),
            Flag(("--path",), "path", "value", "the file that the model edits or writes", "PATH"),
        ),
        words=("test", "<file>"),
        examples=('rules test no-todo.md --text "TODO: later"',),
        for_peers=True,
    ),
    Subcommand(
        name="install",
        group="projects",
        summary="install a package of pi: extensions, skills, prompts",
        run="packages:install",
        usage=("SOURCE [--local] [--scripts]",),
        about="Installs a package and lists it in the settings. SOURCE is npm:NAME, git:URL or a path.\n"
        "Install scripts of packages from npm run only with --scripts.",
        flags=(Flag(("-l", "--local"), "local", "switch", "install it for this project only"), _SCRIPTS),
        words=("<folder>",),
        examples=("install npm:pi-example", "install ./my-package --local"),
        for_peers=True,
    ),
    Subcommand(
        name="remove",
        group="projects",
        summary="remove a package",
        run="packages:remove",
        usage=("SOURCE [--local]",),
        flags=(Flag(("-l", "--local"), "local", "switch", "remove it from this project only"),),
        examples=("remove npm:pi-example",),
        for_peers=True,
    ),
    Subcommand(
        name="uninstall",
        group="projects",
        summary="the same as remove",
        run="packages:remove",
        usage=("SOURCE [--local]",),
        flags=(Flag(("-l", "--local"), "local", "switch", "remove it from this project only"),),
        examples=("uninstall npm:pi-example",),
        for_peers=True,
        is_hidden=True,
    ),
    Subcommand(
        name="update",
        group="projects",
        summary="update one package, or all",
        run="packages:update",
        usage=("[SOURCE] [--scripts]",),
        flags=(_SCRIPTS,),
        examples=("update",),
        for_peers=True,
    ),
    Subcommand(
        name="list",
        group="projects",
        summary="list the installed packages",
        run="packages:list_packages",
        examples=("list",),
        for_peers=True,
    ),
    Subcommand(
        name="shim",
        group="hosts",
        summary="write launchers for hosts of pi, omp, xcsh and Opal",
        run="shim:shim",
        usage=("NAME[@VERSION] [--package] DIR",),
        about="Writes a launcher with the name of the program, and a cli.js if hosts of it start one. NAME is a dialect: pi,\n"
        "pi-2025, omp, xcsh, opal, acp or claude.",
        flags=(Flag(("--package",), "package", "switch", "write a package like the program's, for node and npm"),),
        words=("<dialect>",),
        examples=("shim pi ~/.local/bin", "shim pi@0.87 --package ."),
        for_peers=True,
    ),
    Subcommand(
        name="acp",
        group="hosts",
        summary="serve an editor that speaks the Agent Client Protocol",
        run=".main:serve_acp",
        usage=("[FLAGS]",),
        about="Serves an editor on standard input and output, like --mode acp. It takes the flags of `fairlead help flags`.\n"
        "With --login it stores a key instead, for editors that start it in a terminal.",
        examples=("acp", "acp --model opus"),
        for_peers=True,
    ),
    Subcommand(
        name="serve",
        group="hosts",
        summary="serve programs and browsers over the network",
        run="serve:serve",
        usage=("[--host ADDRESS] [--port N] [FLAGS]", "--users FILE --add-user NAME"),
        about="Serves sessions over HTTP and WebSocket, on this machine only unless --host says otherwise. Clients need a token\n"
        "or a login. It also takes the flags of `fairlead help flags`, which apply to all sessions.",
        flags=(
            Flag(("--host",), "host", "value", "the address to listen on, by default 127.0.0.1", "ADDRESS"),
            Flag(("--port",), "port", "value", "the port, by default 8787; 0 chooses a free one", "N"),
            Flag(("--tls-cert",), "tls_cert", "value", "the certificate for https, with its chain", "FILE"),
            Flag(("--tls-key",), "tls_key", "value", "the key of the certificate", "FILE"),
            Flag(("--insecure",), "insecure", "switch", "listen on other addresses than loopback without TLS"),
            Flag(("--allow-host",), "allow_host", "list", "another name under which clients reach the server", "NAME"),
            Flag(("--root",), "root", "value", "the directory that all sessions must work in", "DIR"),
            Flag(("--db",), "db", "value", "keep the sessions in the database of a fleet, and serve its jobs", "URL"),
            Flag(("--users",), "users", "value", "the file of users, who do not see each other's sessions", "FILE"),
            Flag(("--add-user",), "add_user", "value", "add a user to the file, or give them a new token", "NAME"),
            Flag(("--max-sessions",), "max_sessions", "value", "how many sessions may be open, by default 1000", "N"),
            Flag(("--idle-seconds",), "idle_seconds", "value", "when an unused session is closed, by default 1800", "N"),
            Flag(("--max-request-bytes",), "max_request_bytes", "value", "the largest request, by default 32 MiB", "N"),
            Flag(("--max-connections",), "max_connections", "value", "how many connections may be open, by default 2000", "N"),
        ),
        examples=("serve --port 9000 --root ~/projects",),
    ),
    Subcommand(
        name="replay",
        group="hosts",
        summary="be the agent of a recording that --record made",
        run="replay:replay",
        usage=("FILE [--speed N | --fast] [--lenient] [--report FILE]", "--provider FILE [--port N] [--fast]"),
        about="Plays a recording that `fairlead --record FILE` made: sends the recorded frames to a host on standard input and\n"
        "output, in the recorded dialect, and needs no model and no key. The exit code is 3 if the host departs from the\n"
        "recording.",
        flags=(
            Flag(("--speed",), "speed", "value", "play N times as fast as recorded", "N"),
            Flag(("--fast",), "fast", "switch", "play without delays"),
            Flag(("--lenient",), "lenient", "switch", "continue after a departure"),
            Flag(("--report",), "report", "value", "append each departure to a file", "FILE"),
            Flag(("--provider",), "provider", "switch", "serve the recorded answers of the provider on loopback instead"),
            Flag(("--port",), "port", "value", "the port of the provider, by default a free one", "N"),
        ),
        words=("<file>",),
        examples=("replay session.record --fast",),
        for_peers=True,
    ),
    Subcommand(
        name="schema",
        group="hosts",
        summary="print a protocol or the format of a file as JSON Schema",
        run="schema:schema",
        usage=("[DIALECT] [--typescript]", "settings|models|result"),
        about="Prints the JSON Schema of a protocol, of settings.json, of models.json, or of the result of\n"
        "-p --output-format json. Protocols are also available as TypeScript types.",
        flags=(
            Flag(("--dialect",), "dialect", "value", "the dialect, by default that of RPC mode", "NAME"),
            Flag(("--typescript",), "typescript", "switch", "print types instead of a JSON Schema"),
        ),
        words=("<dialect>", "settings", "models", "result"),
        examples=("schema pi", "schema opal --typescript", "schema settings > settings.schema.json"),
        for_peers=True,
    ),
    *FLEET_SUBCOMMANDS,
    Subcommand(
        name="doctor",
        group="help",
        summary="check keys, models, programs and settings",
        run="doctor:doctor",
        usage=("[--offline] [--json] [--model PATTERN]",),
        about="Shows what was found on this machine, what is missing and the command that fixes it. Asks the model one short\n"
        "question. Keys are never shown. The exit code is 1 if something does not work.",
        flags=(
            Flag(("--offline",), "offline", "switch", "do not ask the model"),
            Flag(("--json",), "json", "switch", "print JSON"),
            Flag(("--model",), "model", "value", "the model to ask", "PATTERN"),
            Flag(("--provider",), "provider", "value", "its provider", "NAME"),
            Flag(("--base-url",), "base_url", "value", "the address of its server", "URL"),
            Flag(("--timeout",), "timeout", "value", "how long the model may take, by default 30 seconds", "SECONDS"),
            Flag(("--isolated",), "isolated", "switch", "read no configuration: only keys from the environment count"),
        ),
        examples=("doctor", "doctor --offline --json"),
    ),
    Subcommand(
        name="help",
        group="help",
        summary="explain a command, list all flags, or print a page of the documentation",
        run="help:show_help",
        usage=("[COMMAND | flags | pages | PAGE.md]",),
        about="`pages` lists the pages of the documentation. The `.md` may be left out if no command has the name.",
        words=("<command>", "flags", "pages"),
        examples=("help export", "help flags", "help troubleshooting"),
    ),
    Subcommand(
        name="version",
        group="help",
        summary="show the version",
        run="help:show_version",
        examples=("version",),
    ),
    Subcommand(
        name="completions",
        group="help",
        summary="print the completions for bash, zsh or fish",
        run="completions:completions",
        usage=("bash|zsh|fish",),
        about="Prints a script that completes flags, subcommands and their values. Load it in the start file of your shell.",
        words=("bash", "zsh", "fish"),
        examples=(
            "completions bash > ~/.local/share/bash-completion/completions/fairlead",
            "completions zsh > ~/.zfunc/_fairlead",
            "completions fish > ~/.config/fish/completions/fairlead.fish",
        ),
    ),
)


def command_named(name: str) -> Subcommand:
    """Return the row of the table with this name."""
    return next(command for command in SUBCOMMANDS if command.name == name)


def find(name: str, program: Program) -> Subcommand | None:
    """Return the subcommand with this name, or None if the program that fairlead was started as has none."""
    is_peer = program.dialect is not None
    return next((command for command in SUBCOMMANDS if command.name == name and (command.for_peers or not is_peer)), None)


def suggestion(word: str, program: Program, *, is_alone: bool = False) -> str | None:
    """Return the subcommand that a mistyped word probably means, or None. A prompt of one word is rarely that near to one.

    A word that is alone may also be the beginning of a subcommand, such as `doc`.

    The subcommands of a peer are not suggested: under its name, an unknown word is a prompt, as it is for the peer.
    """
    if program.dialect is not None or not word.replace("-", "").isalpha():
        return None
    names = [command.name for command in SUBCOMMANDS if not command.is_hidden]
    near = [(edits, name) for name in names if (edits := _edits(word.lower(), name)) <= (2 if len(name) >= _LONG else 1)]
    if near:
        return min(near)[1]
    begun = [name for name in names if name.startswith(word.lower())] if is_alone and len(word) >= _SHORTEST else []
    return begun[0] if len(begun) == 1 else None


def _edits(word: str, name: str) -> int:
    """Return how many letters have to be added, removed, replaced or swapped with their neighbour to get `name`."""
    before: list[int] = []
    last = list(range(len(name) + 1))
    for row, letter in enumerate(word, 1):
        current = [row]
        for column, other in enumerate(name, 1):
            fewest = min(last[column] + 1, current[-1] + 1, last[column - 1] + (letter != other))
            swapped = row > 1 and column > 1 and letter == name[column - 2] and word[row - 2] == other
            current.append(min(fewest, before[column - 2] + 1) if swapped else fewest)
        before, last = last, current
    return last[-1]
