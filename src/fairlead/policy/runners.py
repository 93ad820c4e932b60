"""Lists the commands that a simple command may run: `env rm x` runs `rm x`, and so does `bash -c 'rm x'`.

"ask" and "deny" rules match against all of them. This is best effort. A command that cannot be analysed counts as any command,
`ANY`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from itertools import islice

from msgspec import Struct

from fairlead.policy.patterns import ANY, WildcardPattern

#: Programs that run a command given in their arguments.
RUNNERS = frozenset(
    """, . aa-exec annotate-output arch ash autossh bash bear builtin bunx busybox bwrap caffeinate capsh catatonit
    catchsegv ccache cgexec choom chpst chronic chroot chrt clush comma command concurrently corepack cpulimit
    cross-env csh daemonize dash dbus-launch dbus-run-session direnv distcc doas dotenv dotenvx dumb-init eatmydata
    entr env env-cmd envdir eval exec expect fakechroot fakeroot faketime find firejail fish flock gdb gosu heaptrack
    hyperfine ifne ionice jobs ksh latrace libeatmydata linux32 linux64 lldb logsave ltrace lxc-attach memusage
    mispipe mksh mosh mpiexec mpirun nice nix-shell nodemon nohup npx nsenter numactl orterun parallel pasta pdsh pee
    perf pipenv pkexec pkgx pnpx poetry prlimit proot proxychains proxychains4 pssh rbash reflex retry rlwrap rr rtk
    run0 runcon runuser s6-setuidgid sandbox-exec scan-build sccache screen script sem setarch setpriv setsid
    setuidgid sg sh socat softlimit source srun ssh ssh-agent sshpass start-stop-daemon stdbuf steam-run strace su
    su-exec sudo systemd-cat systemd-inhibit systemd-run taskset tcsh time timeout tini tini-static tmux torify
    torsocks toybox trap tsocks uclampset uftrace unbuffer unshare uv uvx valgrind watch watchexec with-contenv wsl
    xargs xcrun xvfb-run zrun zsh""".split()
)
#: Programs that run a command after one of these words. More than one word means that they follow each other, in this order.
_SUBCOMMANDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys("asdf aws-vault bundle bundler chamber fnm jenv lerna nodenv nx pyenv rbenv tox".split(), ("exec",)),
    **dict.fromkeys("conda doppler flatpak hatch infisical mamba micromamba op pdm pipx".split(), ("run",)),
    **dict.fromkeys("buildah heroku rye snap toolbox volta".split(), ("run",)),
    **dict.fromkeys("docker docker-compose kubectl nerdctl oc podman podman-compose".split(), ("debug", "exec", "run")),
    **dict.fromkeys("apptainer cabal composer dune opam singularity stack".split(), ("exec",)),
    "adb": ("shell",),
    "bun": ("exec", "run", "x"),
    "cargo": ("watch",),
    "devbox": ("run",),
    "distrobox": ("enter",),
    "git": ("bisect run", "submodule foreach"),
    "guix": ("environment", "shell"),
    "lxc": ("exec",),
    "machinectl": ("shell",),
    "mise": ("exec", "watch", "x"),
    "multipass": ("exec",),
    "nix": ("develop", "run", "shell"),
    "npm": ("exec", "explore", "x"),
    "nvm": ("exec", "run"),
    "pixi": ("exec", "run"),
    "pnpm": ("dlx", "exec"),
    "rtx": ("exec", "x"),
    "sops": ("exec-env", "exec-file"),
    "vagrant": ("ssh",),
    "yarn": ("dlx", "exec", "node"),
}
_FD_RUNS = ("-x", "-X", "--exec", "--exec-batch")
#: Programs that run a command after one of these options, which may be part of the same word.
_OPTIONS: dict[str, tuple[str, ...]] = {
    "fd": _FD_RUNS,
    "fdfind": _FD_RUNS,
    "git": ("-x", "--exec", "--extcmd"),
    "rg": ("--pre", "--hostname-bin"),
    "rsync": ("-e", "--rsh"),
    "sort": ("--compress-program",),
    "tar": ("-I", "-F", "--to-command", "--use-compress-program", "--checkpoint-action", "--info-script", "--rsh-command"),
}
#: The file names of the dynamic loader, which can run other programs.
LOADER = re.compile(r"(?:ld[-.].*so|libc\.musl).*")
#: Programs that read commands from standard input unless they get a script.
_SHELLS = frozenset(("ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "rbash", "sh", "tcsh", "zsh"))
#: Programs that start a shell if they get no command, and how many arguments come before the command.
_START_SHELLS = {
    **dict.fromkeys(("doas", "fakeroot", "nsenter", "proot", "run0", "sudo", "unshare"), 0),
    **dict.fromkeys(("chroot", "newgrp", "script", "sg", "su"), 1),
}
#: Runners whose arguments are command lines, not a program and its arguments.
_TAKE_LINES = _SHELLS | {"concurrently", "eval", "mispipe", "pee", "trap"}
#: Runners that take a command line after an option, which may be part of the same word.
_TAKE_LINE_OPTION = frozenset(("runuser", "script", "su"))
#: Runners that join all their arguments into one command line.
_JOIN_WORDS = frozenset(("eval", "ssh", "tmux", "watch"))
#: Runners that add arguments to the command.
_ADD_WORDS = frozenset(("parallel", "sem", "xargs"))
#: Commands that change what a name refers to, or that run commands in other ways than the runners.
_UNCERTAIN = frozenset("alias at batch bind compgen complete crontab enable fc hash history let".split())
#: What may stand before a built-in, followed by options.
_RUN_BUILT_INS = frozenset(("builtin", "command", "time"))
#: Built-ins that evaluate array subscripts in their arguments, even quoted ones.
_EVALUATING = frozenset("[ declare export getopts local mapfile printf read readarray readonly test typeset unset wait".split())
_DECLARING = frozenset(("declare", "export", "local", "readonly", "typeset"))
#: Variables whose values the shell expands or runs by itself.
_SPECIAL = re.compile(r"(BASH_ENV|PROMPT_COMMAND|PS4)(\+?=|$)")
#: Normalized paths that refer to the standard input of a command.
_INPUT = re.compile(r"/+(dev|proc)/.*|(.*/)?(dev/(stdin|fd/.*)|proc/(self|thread-self|\d+)/.*)")
#: Paths that refer to it from /dev or /dev/fd.
_INPUT_NAMES = re.compile(r"(.*/)?(stdin|\d+)")
#: The options of `find` that a command follows.
_FIND_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
#: Commands with more words, or more leading options, count as any command.
_MOST_WORDS, _MOST_OPTIONS = 200, 16


class Word(Struct):
    """A word of a command. `text` has ANY in place of expansions such as variables; `wide` also in place of globs and braces."""

    text: str = ""
    wide: str = ""
    #: The part before the first quote, escape or expansion.
    start: str = ""
    #: Whether `start` is the whole word.
    bare: bool = True

    def add(self, text: str, wide: str | None = None) -> None:
        self.text += text
        self.wide += text if wide is None else wide
        if self.bare:
            self.start += text


class SimpleCommand:
    """A simple command: its assignments and its words."""

    def __init__(self) -> None:
        self.assigned: list[Word] = []
        self.words: list[Word] = []
        self.has_ended_for_sh = False

    @property
    def is_empty(self) -> bool:
        return not self.words and not self.assigned

    def possible(self, read_inner: Callable[[str], list[str]]) -> list[str]:
        """Return the command and everything that it may run, each as words with one blank between them.

        Args:
            read_inner: returns the possible commands of a command line that this command runs.

        Returns:
            The commands. ANY alone if the command cannot be analysed.
        """
        built_in = self._built_in()
        if self._may_evaluate(0) or (built_in and self._may_evaluate(built_in)):
            return [ANY]
        if not self.words:
            return []
        words = [word.wide for word in self.words]
        name = _name(words[0])
        if ANY in words[0] or {name, _name(words[built_in])} & _UNCERTAIN or _reads_commands(words):
            return [ANY]
        found = _spellings(words)
        if len(words) > _MOST_WORDS and (name in _SUBCOMMANDS or name in _OPTIONS):
            return [ANY]
        inside = list(islice(_after_subcommands(name, self.words), _MOST_OPTIONS + 1))
        if len(inside) > _MOST_OPTIONS:
            return [ANY]
        for inner in inside:
            found += inner.possible(read_inner)
        if name not in RUNNERS and not LOADER.fullmatch(name):
            return list(dict.fromkeys(found))
        if len(words) > _MOST_WORDS or _has_hidden_command(words):
            return [ANY]
        for rest in _rests(name, words):
            if ANY in rest[0] or _reads_commands(rest) or (name in _ADD_WORDS and _name(rest[0]) in RUNNERS):
                return [ANY]
            found += _spellings([*rest, ANY] if name in _ADD_WORDS else rest)
        texts = [word.text for word in self.words]
        for attached in (each for at in range(1, len(words)) for each in _attached(_name(texts[at]), self.words[at:])):
            if _reads_commands([word.wide for word in attached]) or _is_line(attached[0].text):
                return [ANY]
            found += _spellings([word.wide for word in attached if word.wide])
        # After a shell every word may be a command line, even behind another runner: `env bash -c '\\rm'` runs rm.
        after = next((at for at, word in enumerate(words) if _takes_lines(_name(word))), len(words))
        lines = [text for at, text in enumerate(texts[1:], 1) if at > after or _is_line(text)]
        lines += [" ".join(texts[at + 1 :]) for at in (0, after) if at < len(words) and _name(words[at]) in _JOIN_WORDS]
        return [*found, *(each for line in dict.fromkeys(lines) for each in read_inner(line))]

    def _built_in(self) -> int:
        """Return the position of the word that names a built-in in `command -p alias x=y`; 0 if nothing precedes it."""
        at = 0
        while at < len(self.words) and _name(self.words[at].text) in _RUN_BUILT_INS:
            at += 1
            while at < len(self.words) and self.words[at].text.startswith("-"):
                at += 1
        return at if at < len(self.words) else 0

    def _may_evaluate(self, at: int) -> bool:
        """Return whether the shell may expand a quoted text: as a subscript, or later as the value of a variable.

        Args:
            at: the position of the command's name among the words.
        """
        name = _name(self.words[at].text) if self.words else ""
        words = [word.text for word in self.words[at + 1 :]]
        assigned = [word.text for word in self.assigned]
        evaluated = [*assigned, *(words if name in _EVALUATING else ())]
        if any("$(" in word or "`" in word for word in evaluated):
            return True
        if any(map(_SPECIAL.match, [*evaluated, *(words if name in RUNNERS else ())])):
            return True
        if name == "set":  # history expansion turns words into commands
            return any(re.match(r"[-+][A-Za-z]*H|hist", word) for word in words)
        return name in _EVALUATING and _evaluates(name, words)


def _after_subcommands(name: str, words: list[Word]) -> Iterator[SimpleCommand]:
    """Yield the commands that a program may run because of a subcommand or an option."""
    texts = [word.text for word in words]
    starts = [_after(texts, subcommand.split()) for subcommand in _SUBCOMMANDS.get(name, ())]
    starts += [_after(texts, [option]) for option in _OPTIONS.get(name, ())]
    if found := [start for start in starts if start < len(words)]:
        yield _run(words[min(found) :])
    yield from map(_run, _attached(name, words))


def _after(texts: list[str], wanted: list[str]) -> int:
    """Return the position after words that follow each other, maybe with others between them. Without them, a large number."""
    at = 0
    for each in wanted:
        at = next((index for index in range(at + 1, len(texts)) if texts[index] == each), len(texts))
    return at + 1


def _attached(name: str, words: list[Word]) -> Iterator[list[Word]]:
    """Yield the commands whose first word is part of an option, as in `--exec=rm x`."""
    texts = [word.text for word in words]
    if any(_after(texts, subcommand.split()) <= len(words) for subcommand in _SUBCOMMANDS.get(name, ())):
        for at, text in enumerate(texts):
            if text.startswith("--") and "=" in text:
                yield [_cut(words[at], text.index("=") + 1), *words[at + 1 :]]
    for option in _OPTIONS.get(name, ()):
        for at, text in enumerate(texts):
            if text.startswith(f"{option}="):
                yield [_cut(words[at], len(option) + 1), *words[at + 1 :]]
            elif len(option) == 2 and re.match("-[A-Za-z0-9]", text) and option[1] in text[1:]:
                yield [_cut(words[at], text.index(option[1], 1) + 1), *words[at + 1 :]]


def _cut(word: Word, start: int) -> Word:
    """Return the rest of a word that begins with `start` ordinary characters. `exec=rm` is another way to write `rm`."""
    text, wide = (each[start:].removeprefix("exec=") for each in (word.text, word.wide))
    return Word(text, wide, "", bare=False)


def _run(words: list[Word]) -> SimpleCommand:
    """Return a command that runs the command in these words, after options that it may have."""
    command = SimpleCommand()
    command.words = [Word("nohup", "nohup", "nohup"), *(word for word in words if word.text)]
    return command


def _evaluates(name: str, words: list[str]) -> bool:
    """Return whether a built-in may evaluate a subscript in one of its arguments."""
    options = [word for word in words if word.startswith("-")]
    if name in ("[", "test"):
        return any(option in ("-v", "-R") for option in options) and _has_subscript(words)
    if name == "printf":
        return bool(words) and words[0].startswith("-v") and _has_subscript(words[:2])
    if name in _DECLARING:
        # With -i the value is arithmetic, with -n it names another variable, with -a and -A it may contain subscripts.
        if any(re.search("[in]", option) for option in options) or any("=(" in word for word in words):
            return True
        with_values = any(re.search("[aA]", option) for option in options)
        return _has_subscript(words if with_values else [word.partition("=")[0] for word in words])
    if name in ("mapfile", "readarray") and any(re.match("-[A-Za-z]*C", option) for option in options):
        return True  # the word after -C is a command
    if name == "wait" and not any(re.match("-[A-Za-z]*p", option) for option in options):
        return False
    return _has_subscript(words)


def _has_subscript(words: list[str]) -> bool:
    return any("[" in word or ANY in word for word in words)


def _name(program: str) -> str:
    """Return the name of a program for lookups, in lower case, because some file systems ignore case."""
    return program.rpartition("/")[2].lower()


def _spellings(words: list[str]) -> list[str]:
    """Return the forms of a command that rules match: as written, with the bare program name, and without leading options.

    Without them, a rule for `git push` would not match `git -C folder push`. Any option may take the next word as its value.
    """
    name, after = _name(words[0]), 1
    found = [_joined(words), _joined([words[0].rpartition("/")[2], *words[1:]]), _joined([name, *words[1:]])]
    while after < len(words) and (words[after].startswith("-") or (after > 1 and words[after - 1].startswith("-"))):
        if after > _MOST_OPTIONS:
            return [ANY]
        after += 1
        found.append(_joined([name, *words[after:]]))
    return list(dict.fromkeys(found))


def _joined(words: list[str]) -> str:
    """Return the words with blanks between them. An unknown word may be empty, so it gets no blank."""
    return words[0] + "".join(word if not word.strip(ANY) else f" {word}" for word in words[1:])


def _reads_commands(words: list[str]) -> bool:
    """Return whether this is a shell that reads commands from its standard input."""
    name, rest = _name(words[0]), words[1:]
    if name in (".", "source"):
        script = next(iter(rest), "")
    elif name in _SHELLS:
        script = _script(rest)
        if not script or any(re.fullmatch("-[A-Za-z]*s[A-Za-z]*", word) for word in rest):
            return True
    else:
        return name in _START_SHELLS and _starts_shell(name, rest)
    paths = map(posixpath.normpath, rest)
    return any(map(_INPUT.fullmatch, paths)) or _INPUT_NAMES.fullmatch(posixpath.normpath(script)) is not None


def _starts_shell(name: str, rest: list[str]) -> bool:
    if name in ("sudo", "doas") and any(re.fullmatch("-[A-Za-z]*[is][A-Za-z]*|--login|--shell", word) for word in rest):
        return True
    return "-c" not in rest and sum(not word.startswith("-") for word in rest) <= _START_SHELLS[name]


def _script(rest: list[str]) -> str:
    """Return the first argument of a shell that is not an option or its value: a script, or the line after -c."""
    values = 0
    for word in rest:
        if values:
            values -= 1
        elif not word.startswith(("-", "+")):
            return word
        elif re.fullmatch("--?(init-file|rcfile)", word):
            values = 1
        elif not word.startswith("--"):
            values = word.count("o") + word.count("O")
    return ""


def _takes_lines(name: str) -> bool:
    return name in _TAKE_LINES or name in _JOIN_WORDS or name in _TAKE_LINE_OPTION


def _is_line(text: str) -> bool:
    """Return whether a word may be a whole command line."""
    return any(character in text for character in " \t\n;&|()<>$`")


def _has_hidden_command(words: list[str]) -> bool:
    """Return whether an argument may contain a command in itself, as in `-c'rm x'`, or turns other arguments into one."""
    before: set[str] = {_name(words[0])}  # runners may run each other
    for word in words[1:]:
        if word.startswith(":::"):
            if before & _ADD_WORDS:
                return True
        elif word.startswith("-"):
            if _is_line(word) or ("env" in before and re.match("-[A-Za-z0]*S|--s", word)):
                return True
            if before & _TAKE_LINE_OPTION and re.match("-[A-Za-z]*c.|--c[a-z]*=", word):
                return True
        before.add(_name(word))
    return False


def _rests(name: str, words: list[str]) -> list[list[str]]:
    """Return the tails of a runner's words that may be the command it runs."""
    starts = range(1, len(words))
    if name == "find":
        starts = [at + 1 for at, word in enumerate(words[:-1]) if any(WildcardPattern(each).may_fit(word) for each in _FIND_RUNS)]
    return [words[at:] for at in starts]
