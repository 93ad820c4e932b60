"""Runs the command line. The exit code is 0 for success, 1 for failure and 2 for an invalid command line."""

from __future__ import annotations

import errno
import gc
import os
import shlex
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from fairlead.cli import build, chat, claude, code_cache, event_loop, print_mode, print_output
from fairlead.cli.console import complain, configure_logging, print_text, remark
from fairlead.cli.flags import Arguments, UsageError, parse, unknown_flag
from fairlead.cli.subcommands import help, login, models, replay, sessions, subcommand, table
from fairlead.config.home import Home, expand_user, working_directory
from fairlead.errors import ConfigError, ExtensionNotLoaded, FairleadError
from fairlead.extend import SCRIPT_SUFFIXES
from fairlead.extend.node import program as node_program
from fairlead.replay import cleaning, recorder
from fairlead.sessions import catalogue
from fairlead.wire import stdio
from fairlead.wire.dialects import DEFAULT_DIALECT, DIALECTS, ServeOptions, chosen_dialect, program_named, program_started_as
from fairlead.wire.pi import profile

if TYPE_CHECKING:
    from fairlead.agent import Agent
    from fairlead.agent.options import AgentOptions
    from fairlead.replay.recorder import Recorder
    from fairlead.wire.dialects import Dialect, Program
    from fairlead.wire.pi.profile import Profile

SMALLEST_FRAME = 1024
#: Modes that serve a host in the dialect with the same name.
_SERVERS = ("acp", "opal")


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    _replace_closed_streams()
    try:
        program, argv = _program(argv)
        code = _dispatch(argv, program)
        sys.stdout.flush()
        return code
    except UsageError as error:
        text = str(error)
        complain(text if text.startswith("usage:") else f"Error: {text}")
        return 2
    except ExtensionNotLoaded as error:
        complain(f"Error: {error} (--extension-errors continue starts without it)")
        return 1
    except FairleadError as error:
        complain(f"Error: {error}")
        return 1
    except BrokenPipeError:
        _drop_output()  # the reader has closed the pipe
        return 1
    except OSError as error:
        if error.errno == errno.ENOSPC:
            _drop_output()
            complain(f"Error: The output cannot be written: {error.strerror}.")
            return 1
        problem = _check_directory()
        if problem is None:
            raise
        complain(f"Error: {problem}")
        return 1
    except KeyboardInterrupt:
        return 130


def _check_directory() -> str | None:
    """Return what is wrong with the working directory, if it cannot be used: then no relative path can be resolved."""
    try:
        working_directory()
    except ConfigError as error:
        return str(error)
    return None


def _drop_output() -> None:
    """Send what is left to nowhere, because Python would fail again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _program(argv: Sequence[str]) -> tuple[Program, Sequence[str]]:
    """The program that fairlead was started as, and the other arguments. A launcher names it in `--as`, its first argument."""
    if argv[:1] == ["--as"] and len(argv) > 1:
        return program_named(argv[1]), argv[2:]
    return program_started_as(sys.argv[0]), argv


def _dispatch(argv: Sequence[str], program: Program) -> int:
    if (words := _own_flags(argv, program)) is not None:
        return claude.run(words, program)
    if argv and not argv[0].startswith("-"):
        command = table.find(argv[0], program)
        if command is not None and any(word in ("-h", "--help") for word in argv[1:]):
            print_text(subcommand.help_of(command))
            return 0
        if command is not None:
            return command.load()(argv[1:], program)
    return _run_flags(argv, program)


def _own_flags(argv: Sequence[str], program: Program) -> Sequence[str] | None:
    """Return the words of a command line that has the flags of the dialect, not those of fairlead; None for any other."""
    if program.dialect is not None and program.dialect.has_own_flags:
        return argv
    if not argv or not argv[0].startswith("-"):
        return None
    rest, name = list(argv), os.environ.get("FAIRLEAD_DIALECT")
    for place, word in enumerate(argv):
        if word.startswith("--dialect="):
            name = word.partition("=")[2]
            del rest[place]
        elif word == "--dialect" and place + 1 < len(argv):
            name = argv[place + 1]
            del rest[place : place + 2]
        else:
            continue
        break
    return rest if name in DIALECTS and DIALECTS[name].has_own_flags else None


def serve_acp(words: Sequence[str], program: Program) -> int:
    """Serve an editor. Takes all flags. Returns the exit code."""
    return _run_flags(["--mode", "acp", *words], program)


def _refuse_misspelt_command(argv: Sequence[str], words: Sequence[str], program: Program) -> None:
    """Raise UsageError if the first word is probably a mistyped subcommand: a prompt would cost money."""
    word = words[0]
    near = table.suggestion(word, program, is_alone=len(words) == 1)
    if near is None:
        return

    if near == word:
        problem = f"{word} is a command, and flags of fairlead cannot come before it. Did you mean `fairlead {word}`?"
    else:
        problem = f"fairlead has no command {word}. Did you mean `fairlead {near}`?"
    raise UsageError(f"{problem} To send it as a prompt: {shlex.join(['fairlead', '-p', *argv])}")


def _run_flags(argv: Sequence[str], program: Program) -> int:
    arguments = parse(argv)
    if arguments.help or arguments.version:
        show = complain if program.prints_help_on_stderr else print_text
        show(_help(program) if arguments.help else program.version_line)
        return 0
    if arguments.words and arguments.mode is None and not arguments.print and "--" not in argv:
        _refuse_misspelt_command(argv, arguments.words, program)
    _change_directory(arguments.cwd)
    _choose_profile(arguments, program)
    _start_scripts(arguments, program)
    _configure_logging(arguments)
    argv, arguments = _resume_by_name(argv, arguments, program)
    if arguments.login:
        return login.login(arguments.words, program)
    for flag in arguments.ignored:
        remark(f"{flag} has no effect here")
    if arguments.export is not None:
        return sessions.export_as_peers([arguments.export, *arguments.words[:1]])
    if arguments.output_format is not None and arguments.mode not in (None, "text"):
        raise UsageError(f"--output-format is for -p, but --mode {arguments.mode} has its own format. Leave out one of them.")
    frame_limit = _frame_limit(arguments.max_frame_bytes)
    served = _choose_served_dialect(arguments, program)
    is_server = served is not None and served.is_server
    if arguments.unknown and (is_server or ((arguments.isolated or arguments.no_extensions) and not arguments.extension)):
        raise UsageError(unknown_flag(f"--{next(iter(arguments.unknown))}"))
    if arguments.list_models is not None:
        return models.list_for_flag(argv, arguments, program)
    if arguments.record is not None and served is None:
        raise UsageError("--record needs a mode that serves a host, such as --mode rpc.")
    if served is not None:
        return _serve(argv, arguments, program, served, frame_limit)
    gc.enable()
    is_for_person = program.dialect is None and arguments.dialect is None and "FAIRLEAD_DIALECT" not in os.environ
    if is_for_person and arguments.mode is None and "--" not in argv and not arguments.unknown:
        arguments.words = print_mode.one_prompt(arguments.words)
    prints = arguments.mode is not None or arguments.print or arguments.output_format is not None
    if not prints and sys.stdin.isatty() and sys.stdout.isatty():
        return chat.run_chat(argv, arguments, _profile(arguments, program), program)
    return print_mode.run_prompts(argv, arguments, _profile(arguments, program), program)


def _help(program: Program) -> str:
    return help.overview(program)


def _configure_logging(arguments: Arguments) -> None:
    for_people = arguments.mode in (None, "text")
    configure_logging(
        os.environ,
        default="warning" if for_people else "error",
        verbose=arguments.verbose,
        log_file=arguments.log_file,
    )


def _change_directory(folder: str | None) -> None:
    """Work in another directory, before anything is read. Raises ConfigError if that is not possible."""
    if folder is not None:
        try:
            os.chdir(os.path.expanduser(folder))  # noqa: PTH111
        except OSError as error:
            raise ConfigError(f"--cwd {folder}: {error.strerror}.") from error


def _choose_profile(arguments: Arguments, program: Program) -> None:
    """Use the home of the profile that `--profile` names, if the program has profiles. Its settings may restrict the agent."""
    name = arguments.ignored.get("--profile")
    if name and program.home is not None and program.home.profile_variables:
        os.environ[program.home.profile_variables[0]] = name
        del arguments.ignored["--profile"]


def _start_scripts(arguments: Arguments, program: Program) -> None:
    """Start the process that runs extensions in JavaScript now, if there are any, so that it is ready when they are loaded."""
    finds_others = not (arguments.isolated or arguments.no_extensions)
    if not arguments.extension and not finds_others:
        return
    home = Home.find(os.environ, isolated=arguments.isolated, peer=program.home)
    names = list(arguments.extension)
    if finds_others:
        with suppress(OSError):
            names += os.listdir(home.root / "extensions")  # noqa: PTH208
    if any(name.endswith(tuple(SCRIPT_SUFFIXES)) for name in names):
        node_program.launch_early(home, os.environ)


def _resume_by_name(argv: Sequence[str], arguments: Arguments, program: Program) -> tuple[Sequence[str], Arguments]:
    """Return the command line with the file of the session that `--resume NAME` names. Peers have no such names."""
    if arguments.after_resume is None or arguments.isolated or program.dialect is not None:
        return argv, arguments
    with print_output.failure_as_result(arguments.output_format, sys.stdout.buffer.write):
        changed = _with_resumed_name(argv, arguments.after_resume, arguments.session_dir, program)
    return (argv, arguments) if changed is None else (changed, parse(changed))


def _with_resumed_name(argv: Sequence[str], word: str, session_dir: str | None, program: Program) -> Sequence[str] | None:
    changed = build.with_resumed_name(argv, word, catalogue.SessionPlaces.find(program.home, os.environ, session_dir))
    if changed is None and len(word.split()) == 1:  # a name that is misspelt, not a prompt
        raise ConfigError(
            f'No session has the id or the name "{word}". `fairlead sessions` lists the sessions of this directory. '
            f"To send it to the latest one as a prompt: fairlead -c -p {word}"
        )
    return changed


def _serve(argv: Sequence[str], arguments: Arguments, program: Program, dialect: Dialect, frame_limit: int | None) -> NoReturn:
    """Serve a host, or play a recording to it if `FAIRLEAD_REPLAY` names one."""
    _refuse_files(arguments)
    if arguments.resume_run:
        raise UsageError("--resume-run is for -p and for the chat. A host sends the command `resume` instead.")
    if recording := os.environ.pop("FAIRLEAD_REPLAY", None):
        replay.replay_to_host(recording, os.environ.pop("FAIRLEAD_REPLAY_SPEED", None), dialect)
    if arguments.mode == "rpc-ui" and not dialect.can_ask:
        raise ConfigError(f"The dialect {dialect.name} has no way to ask its user anything: use --mode rpc.")
    for name in dialect.ignored_flags:
        if getattr(arguments, name) is not None:
            remark(f"--{name.replace('_', '-')} has no effect in {dialect.name} mode")

    recorder = _recorder(arguments, program, dialect)
    stdin, stdout = stdio.take_over()

    # A server that answers before it has an agent needs `build` later.
    async def prepare(agent: Agent) -> None:
        build.log_choices(agent, dialect.name)
        await agent.extensions.load_required()
        if arguments.unknown:
            await build.parse_extension_flags(agent, argv, arguments)
        await agent.extensions.find_model()
        build.limit_time(agent, arguments)

    def recorded_options(profile: Profile | None) -> AgentOptions:
        return build.agent_options(arguments, profile, program, None if recorder is None else recorder.request_sent)

    async def work() -> int:
        options = ServeOptions(
            stdin=stdin,
            stdout=stdout,
            agent_options=recorded_options,
            tap=recorder,
            version=_version(dialect, program),
            prepare=prepare,
            max_frame_bytes=frame_limit,
            updates="delta" if arguments.updates == "delta" else "full",
            on_eof="finish" if arguments.on_eof == "finish" else "abort",
        )
        return await dialect.load().serve(dialect.name, options)

    _run_and_leave(work, recorder)


def _run_and_leave(work: Callable[[], Coroutine[Any, Any, int]], recorder: Recorder | None) -> NoReturn:
    """Serve a host, then exit at once: a blocked writer must not keep the process alive."""
    loop = event_loop.new_event_loop()
    code = 1
    try:
        code = loop.run_until_complete(work())
    finally:
        if recorder is not None:
            recorder.close(code)
    code_cache.save()
    sys.stderr.flush()
    os._exit(code)


def _recorder(arguments: Arguments, program: Program, dialect: Dialect) -> recorder.Recorder | None:
    """Start the recording that `--record` or `FAIRLEAD_RECORD` asks for. Raises ConfigError if it cannot be written."""
    # Not for the commands that the agent starts: they would write to the same file.
    variable = os.environ.pop("FAIRLEAD_RECORD", None)
    name = arguments.record or variable
    if not name:
        return None
    cleaning.learn_known_secrets(
        Home.find(os.environ, isolated=arguments.isolated, peer=program.home), os.environ, arguments.api_key
    )
    return recorder.Recorder.open(
        expand_user(name),
        dialect=dialect.name,
        release=_version(dialect, program),
        overwrite=arguments.record_overwrite,
        warn=lambda text: complain(f"fairlead: {text}"),
    )


def _refuse_files(arguments: Arguments) -> None:
    if any(word.startswith("@") for word in arguments.words):
        raise ConfigError("@file arguments are not supported in RPC mode")
    if arguments.words:
        remark("arguments that are not flags are ignored in RPC mode")


def _frame_limit(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        limit = int(text)
    except ValueError:
        limit = 0
    if limit < SMALLEST_FRAME:
        raise UsageError(f"--max-frame-bytes: expected a number of at least {SMALLEST_FRAME}, got {text!r}.")
    return limit


def _dialect(flag: str | None, program: Program) -> Dialect:
    return chosen_dialect(flag, os.environ, program)


def _choose_served_dialect(arguments: Arguments, program: Program) -> Dialect | None:
    """Return the dialect to serve a host in, or None for the other modes. A dialect that only serves needs no `--mode`."""
    if arguments.mode in _SERVERS:
        return _dialect(arguments.mode, program)
    if arguments.mode in ("rpc", "rpc-ui"):
        return _dialect(arguments.dialect, program)
    if arguments.mode or arguments.print or arguments.words or arguments.output_format:
        return None
    dialect = _dialect(arguments.dialect, program)
    return dialect if dialect.is_server else None


def _profile(arguments: Arguments, program: Program) -> Profile:
    dialect = _dialect(arguments.dialect, program)
    return profile.profile_named(DEFAULT_DIALECT if dialect.is_server else dialect.name, _version(dialect, program))


def _version(dialect: Dialect, program: Program) -> str | None:
    """Return the version of the peer that the program announces. None if it serves another dialect, or is fairlead itself."""
    return program.release.version if program.release and program.dialect is dialect else None


def _replace_closed_streams() -> None:
    """Replace a closed standard stream with /dev/null, before another file gets its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
