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

from fairlead.policy.known_runners import (
    BEFORE_DASHES,
    COMMON_OPTIONS,
    COMMON_SUBCOMMANDS,
    LOADER,
    OPTIONS,
    RUNNERS,
    SUBCOMMANDS,
    TAKE_TEXTS,
)
from fairlead.policy.patterns import ANY, WildcardPattern

#: Programs that take settings as words, some of which are commands: `git -c core.pager=rm`.
_CONFIGURABLE = frozenset(("git", "hg"))
_SETTING = re.compile(r"(?:-c|--config=)?[A-Za-z][\w-]*\.[\w.*-]*=")
#: A program with an ending, a version, or the `g` that GNU programs have elsewhere: `gxargs`, `bash-5.2`.
_SPELLED_OTHERWISE = re.compile(r"(g?)([a-z].*?)(?:-?[0-9][0-9.]*)?(?:\.exe|\.distrib)?")
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
#: Programs that read commands from standard input unless they get a script.
_SHELLS = frozenset(
    """ash bash bash-static cmd csh dash elvish es fish hush ion ksh lksh loksh mksh murex nu oil oksh osh posh powershell pwsh
    rbash rc sash sh static-sh tcsh xonsh yash ysh zsh""".split()
)
#: Programs that start a shell if they get no command, and how many arguments come before the command.
_START_SHELLS = {
    **dict.fromkeys(("doas", "fakeroot", "nsenter", "proot", "run0", "sudo", "unshare"), 0),
    **dict.fromkeys(("chroot", "newgrp", "script", "sg", "su"), 1),
}
#: Runners whose arguments are command lines, not a program and its arguments.
_TAKE_LINES = _SHELLS | {"concurrently", "eval", "expect", "mispipe", "pee", "trap"}
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
#: Variables whose values the shell expands or runs by itself, or that tell other programs what to run.
_SPECIAL = re.compile(
    r"(BASH_ENV|PROMPT_COMMAND|PS4|GIT_CONFIG_(?:PARAMETERS|VALUE_[0-9]+)|LD_(?:AUDIT|PRELOAD)|TAR_OPTIONS)(\+?=|$)"
)
#: Variables whose values are commands that programs run.
_NAMES_COMMAND = re.compile(
    r"(?:.*_)?(?:ASKPASS|BROWSER|EDITOR|PAGER|VISUAL)|GIT_(?:EXTERNAL_DIFF|PROXY_COMMAND|SSH|SSH_COMMAND)|LESS(?:OPEN|CLOSE)"
    r"|MANPAGER|(?:CVS|RSYNC)_RSH|RUSTC(?:_WORKSPACE)?_WRAPPER"
)
#: What stands before a command in an argument of gdb, git, less, socat, vim and others.
_BEFORE_COMMAND = re.compile(r"\A\s*(?:\+?[!|]+|(?:exec|shell|system):)", re.IGNORECASE)
#: Normalized paths that refer to the standard input of a command.
_INPUT = re.compile(r"/+(dev|proc)/.*|(.*/)?(dev/(stdin|fd/.*)|proc/(self|thread-self|\d+)/.*)")
#: Paths that refer to it from /dev or /dev/fd.
_INPUT_NAMES = re.compile(r"(.*/)?(stdin|\d+)")
#: The programs above.
_KNOWN = RUNNERS | SUBCOMMANDS.keys() | OPTIONS.keys() | _SHELLS | _START_SHELLS.keys()
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
        built_in = self._find_built_in()
        if self._may_evaluate(0) or (built_in and self._may_evaluate(built_in)):
            return [ANY]
        named = [command for word in self.assigned for command in _run_by_variable(word.text, read_inner)]
        if not self.words or ANY in named:
            return named
        return [*named, *self._possible_of_words(read_inner)]

    def _possible_of_words(self, read_inner: Callable[[str], list[str]]) -> list[str]:
        words = [word.wide for word in self.words]
        name, built_in = _name(words[0]), self._find_built_in()
        if ANY in words[0] or {name, _name(words[built_in])} & _UNCERTAIN or _reads_commands(words):
            return [ANY]
        found = _spellings(words)
        if len(words) > _MOST_WORDS and (name in SUBCOMMANDS or name in OPTIONS):
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
        for attached in (each for at in range(1, len(words)) for each in _find_attached(_name(texts[at]), self.words[at:])):
            if _reads_commands([word.wide for word in attached]) or _is_line(attached[0].text):
                return [ANY]
            found += _spellings([word.wide for word in attached if word.wide])
        # After a shell every word may be a command line, even behind another runner: `env bash -c '\\rm'` runs rm.
        after = next((at for at, word in enumerate(words) if _takes_lines(_name(word))), len(words))
        lines = [_BEFORE_COMMAND.sub("", text, 1) for at, text in enumerate(texts[1:], 1) if at > after or _is_line(text)]
        lines += [" ".join(texts[at + 1 :]) for at in (0, after) if at < len(words) and _name(words[at]) in _JOIN_WORDS]
        return [*found, *(each for line in dict.fromkeys(lines) for each in read_inner(line))]

    def _find_built_in(self) -> int:
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
    starts = [_after(texts, subcommand.split()) for subcommand in SUBCOMMANDS.get(name, ())]
    starts += [_after(texts, [option]) for option in _options(name)]
    if name not in _KNOWN and name not in TAKE_TEXTS:
        starts += _guess_starts(texts)
    if _PYTHON.fullmatch(name) and (module := _after(texts, ["-m"])) < len(words) and _name(texts[module]) in _KNOWN:
        starts.append(module)  # `python -m pipenv run` runs what `pipenv run` does
    if found := [start for start in starts if start < len(words)]:
        yield _run(words[min(found) :])
    yield from map(_run, _find_attached(name, words))


def _guess_starts(texts: list[str]) -> list[int]:
    """Return where the words of a program that is not known may begin a command: it may be one that runs others.

    A large number means nowhere.
    """
    first = next((at for at, text in enumerate(texts) if at and not text.startswith("-")), 0)
    starts = [at + 1 for at in (first, first + 1) if at and at < len(texts) and texts[at] in COMMON_SUBCOMMANDS]
    if BEFORE_DASHES & set(texts[1:]):
        starts.append(_after(texts, ["--"]))
    return starts


def _options(name: str) -> tuple[str, ...]:
    """Return the options with which a program names a command."""
    return OPTIONS.get(name, () if name in SUBCOMMANDS or name in TAKE_TEXTS else COMMON_OPTIONS)


def _run_by_variable(assigned: str, read_inner: Callable[[str], list[str]]) -> list[str]:
    """Return the commands that programs may run because of a variable, such as PAGER."""
    name, _, value = assigned.partition("=")
    return read_inner(_BEFORE_COMMAND.sub("", value, 1)) if value and _NAMES_COMMAND.fullmatch(name.removesuffix("+")) else []


def _after(texts: list[str], wanted: list[str]) -> int:
    """Return the position after words that follow each other, maybe with others between them. Without them, a large number."""
    at = 0
    for each in wanted:
        at = next((index for index in range(at + 1, len(texts)) if texts[index] == each), len(texts))
    return at + 1


def _find_attached(name: str, words: list[Word]) -> Iterator[list[Word]]:
    """Yield the commands whose first word is part of an option, as in `--exec=rm x`."""
    texts = [word.text for word in words]
    if name in _CONFIGURABLE:
        yield from ([_cut(word, word.text.index("=") + 1)] for word in words[1:] if _SETTING.match(word.text))
    if any(_after(texts, subcommand.split()) <= len(words) for subcommand in SUBCOMMANDS.get(name, ())):
        for at, text in enumerate(texts):
            if text.startswith("--") and "=" in text:
                yield [_cut(words[at], text.index("=") + 1), *words[at + 1 :]]
    for option in _options(name):
        for at, text in enumerate(texts):
            if text.startswith(f"{option}="):
                yield [_cut(words[at], len(option) + 1), *words[at + 1 :]]
            elif len(option) == 2 and re.match("-[A-Za-z0-9]", text) and option[1] in text[1:]:
                yield [_cut(words[at], text.index(option[1], 1) + 1), *words[at + 1 :]]


def _cut(word: Word, start: int) -> Word:
    """Return the rest of a word that begins with `start` ordinary characters. `exec=rm` is another way to write `rm`."""
    text, wide = (_BEFORE_COMMAND.sub("", each[start:].removeprefix("exec="), 1) for each in (word.text, word.wide))
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
    name = program.rpartition("/")[2].lower()
    if name in _KNOWN or (found := _SPELLED_OTHERWISE.fullmatch(name)) is None:
        return name
    return next((each for each in (found[1] + found[2], found[2]) if each in _KNOWN), name)


def _spellings(words: list[str]) -> list[str]:
    """Return the forms of a command that rules match: as written, with the bare program name, and without leading options.

    Without them, a rule for `git push` would not match `git -C folder push`. Any option may take the next word as its value.
    """
    name, after = _name(words[0]), 1
    found = [_join(words), _join([words[0].rpartition("/")[2], *words[1:]]), _join([name, *words[1:]])]
    while after < len(words) and (words[after].startswith("-") or (after > 1 and words[after - 1].startswith("-"))):
        if after > _MOST_OPTIONS:
            return [ANY]
        after += 1
        found.append(_join([name, *words[after:]]))
    return list(dict.fromkeys(found))


def _join(words: list[str]) -> str:
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
    if name in ("bfs", "find"):
        starts = [at + 1 for at, word in enumerate(words[:-1]) if any(WildcardPattern(each).may_fit(word) for each in _FIND_RUNS)]
    return [words[at:] for at in starts]
