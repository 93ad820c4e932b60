"""What a shell command line runs, as far as that can be said without running it.

A rule for commands is about every simple command of a line, not about the line: `git status; rm -rf ~` is two. This reads the
grammar that bash and sh share. It does not guess: what it cannot follow makes the line `opaque`, which no rule that allows
covers and every rule that forbids does.
"""

from __future__ import annotations

import re

from msgspec import Struct

from fairlead.policy.patterns import ANY

#: Programs whose words are, or hold, a command that they run.
_RUNNERS = frozenset(
    """. ash bash builtin busybox bwrap caffeinate choom chronic chroot chrt command csh daemonize dash dbus-run-session doas
    entr env eval exec faketime fakeroot find firejail fish flock gdb gosu ionice ksh linux32 linux64 ltrace mksh nice nohup
    nsenter numactl parallel perf pkexec prlimit proot rbash rlwrap run0 runcon runuser screen script sem setarch setpriv setsid
    sg sh source ssh ssh-agent sshpass start-stop-daemon stdbuf strace su su-exec sudo systemd-run taskset tcsh time timeout
    tmux toybox trap unbuffer unshare valgrind watch xargs xvfb-run zsh""".split()
)
#: The program that loads others, as its file may be called.
_LOADER = re.compile(r"ld[-.].*so.*")
#: Those that run what they are told on standard input if they are not told what else.
_SHELLS = frozenset(("ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "rbash", "sh", "tcsh", "zsh"))
#: Options of these that have a value.
_SHELL_VALUES = re.compile(r"[-+][A-Za-z]*[oO]|--(init-file|rcfile)")
#: Files that are what a command is told on standard input, or by whoever started it.
_INPUT = re.compile(r"/dev/(stdin|fd/)|/proc/")
#: Those whose words are command lines, not programs and arguments.
_TAKE_LINES = _SHELLS | {"eval", "trap"}
#: Those that make one command line of all their words.
_JOIN_WORDS = frozenset(("eval", "ssh", "tmux", "watch"))
#: Those that add words of their own to the command.
_ADD_WORDS = frozenset(("parallel", "sem", "xargs"))
#: What changes which program a name stands for, and what runs commands that it is told in other ways than those above.
_UNCERTAIN = frozenset(("alias", "at", "batch", "bind", "compgen", "complete", "crontab", "enable", "fc", "hash"))
#: Parts of the shell that evaluate a subscript in one of their words, also a quoted one.
_EVALUATING = frozenset("[ declare export let local mapfile printf read readarray readonly test typeset unset wait".split())
#: The words of `find` after which a command comes.
_FIND_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
#: Words that open, divide or close a compound command: what follows is a command again.
_STRUCTURE = frozenset(("!", "do", "done", "elif", "else", "esac", "fi", "if", "then", "until", "while", "{", "}"))
#: Words after which the grammar is another one.
_OTHER_GRAMMAR = frozenset(("[[", "case", "coproc", "function", "select"))

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^\]\s]*\])?\+?=")
_PLAIN_NAME = re.compile(r"[\w./+@%:,-]+", re.ASCII)
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]|\{[A-Za-z_][A-Za-z0-9_]*\}")
_OPERATOR = re.compile(r"&>>|&>|[<>]\(|<<<|<<-?|<>|<&|>&|>>|>\||<|>")
_ENDS_WORD = " \t\n;&|()<>"
#: What is not followed any further, since somebody waits: lines in lines, longer lines, commands in commands of more words, and
#: words before the first that is no option.
_DEEPEST, _LONGEST, _MOST_WORDS, _MOST_OPTIONS = 8, 32_768, 200, 16


class Command(Struct, frozen=True):
    """A simple command: a program and its words, with one blank between them and quotes taken off."""

    #: As a rule that allows sees it, with ANY for the values of variables, and without those of them that may vanish: it has to
    #: cover both. None: it is not certain what the command does.
    certain: tuple[str, ...] | None
    #: As rules that forbid see it: all that it may be, or may run in turn.
    possible: tuple[str, ...]


class CommandLine(Struct):
    commands: list[Command] = []
    #: Something in it could not be followed.
    opaque: bool = False


def read_line(text: str, *, depth: int = 0) -> CommandLine:
    """What a command line runs."""
    line = CommandLine([])
    if depth > _DEEPEST or len(text) > _LONGEST or ANY in text:
        line.opaque = True
        return line
    try:
        _Reader(text, line, depth).list_until("")
    except (_Lost, RecursionError):
        line.opaque = True
    return line


class _Lost(Exception):
    """The grammar could not be followed any further."""


class _Word(Struct):
    """A word of a command. `text` has ANY for the values of variables; `wide` also for what patterns and braces become."""

    text: str = ""
    wide: str = ""
    #: Written without quotes and escapes.
    bare: bool = True
    #: A substitution of a command is in it.
    substituted: bool = False

    def add(self, text: str, wide: str | None = None) -> None:
        self.text += text
        self.wide += text if wide is None else wide


class _Reader:
    def __init__(self, text: str, line: CommandLine, depth: int) -> None:
        self._text = text
        self._line = line
        self._depth = depth
        self._at = 0

    # Lists of commands

    def list_until(self, end: str) -> None:
        """Read commands up to `end`: the end of the text if that is empty, or a bracket."""
        simple = _Simple()
        while True:
            self._skip_blanks()
            character = self._peek()
            if not character:
                if end:
                    raise _Lost
                break
            if character == "#":
                self._skip_comment()
            elif character == ")":
                if end != ")":
                    raise _Lost
                self._at += 1
                break
            elif character == "(":
                if not simple.is_empty or self._text.startswith("((", self._at):
                    raise _Lost  # a function, an array or arithmetic
                self._at += 1
                self.list_until(")")
            elif character in "\n;&|" and not self._text.startswith("&>", self._at):
                if self._text.startswith(";;", self._at):
                    raise _Lost
                self._at += 1
                self._finish(simple)
                simple = _Simple()
            elif (operator := _OPERATOR.match(self._text, self._at)) is not None:
                self._redirection(simple, operator[0])
            else:
                self._word(simple)
        self._finish(simple)

    def _word(self, simple: _Simple) -> None:
        start = self._at
        word = self._read_word()
        if word.bare and word.text.isdigit() and self._peek() in ("<", ">"):
            return  # the number of a file descriptor
        if not simple.words and _ASSIGNMENT.match(self._text, start):
            simple.assigned.append(word)
        elif simple.words or not word.bare:
            simple.words.append(word)
        elif word.text in _OTHER_GRAMMAR:
            raise _Lost
        elif word.text not in _STRUCTURE:
            simple.words.append(word)

    def _redirection(self, simple: _Simple, operator: str) -> None:
        if (operator.startswith("<<") and operator != "<<<") or operator.endswith("("):
            raise _Lost  # a document follows, or a command
        self._at += len(operator)
        self._skip_blanks()
        if self._peek() in ("", *_ENDS_WORD):
            raise _Lost
        target = self._read_word()
        duplicates = operator in (">&", "<&") and (target.text.isdigit() or target.text == "-")
        if not duplicates and target.text != "/dev/null":
            simple.redirected = True

    def _finish(self, simple: _Simple) -> None:
        if not simple.is_empty:
            self._line.commands.append(simple.command(self._line, self._depth))

    # Words

    def _read_word(self) -> _Word:
        word = _Word()
        while (character := self._peek()) and character not in _ENDS_WORD:
            self._at += 1
            if character == "\\":
                self._escape(word)
            elif character == "'":
                word.bare = False
                word.add(self._up_to("'"))
            elif character == '"':
                word.bare = False
                self._double_quoted(word)
            elif character == "`":
                raise _Lost
            elif character == "$":
                self._dollar(word, quoted=False)
            elif character in "*?[{" or (character == "~" and not word.text):
                word.add(character, ANY)
            else:
                word.add(character)
        return word

    def _escape(self, word: _Word) -> None:
        following = self._peek()
        self._at += 1
        if following == "\n":  # the line goes on
            return
        word.bare = False
        word.add(following or "\\")

    def _double_quoted(self, word: _Word) -> None:
        while True:
            character = self._peek()
            self._at += 1
            if not character or character == "`":
                raise _Lost
            if character == '"':
                return
            if character == "$":
                self._dollar(word, quoted=True)
            elif character == "\\":
                following = self._peek()
                self._at += 1
                if following != "\n":
                    word.add(following if following in ("$", "`", '"', "\\") else f"\\{following}")
            else:
                word.add(character)

    def _dollar(self, word: _Word, *, quoted: bool) -> None:
        following = self._peek()
        if self._text.startswith("((", self._at):
            raise _Lost
        if following == "(":
            self._at += 1
            self.list_until(")")
            word.substituted = True
            word.add(ANY)
        elif following == "'" and not quoted:
            self._at += 1
            word.bare = False
            while (character := self._peek()) != "'":
                if not character:
                    raise _Lost
                self._at += 2 if character == "\\" else 1
            self._at += 1
            word.add(ANY)
        elif following == '"' and not quoted:
            return  # a text to be translated: the quotes come next
        elif (parameter := _PARAMETER.match(self._text, self._at)) is not None:
            self._at = parameter.end()
            word.add(ANY)
        elif following in ("{", "["):
            raise _Lost
        else:
            word.add("$")

    # Characters

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _up_to(self, end: str) -> str:
        found = self._text.find(end, self._at)
        if found < 0:
            raise _Lost
        start, self._at = self._at, found + 1
        return self._text[start:found]

    def _skip_blanks(self) -> None:
        while self._peek() in (" ", "\t") or self._text.startswith("\\\n", self._at):
            self._at += 2 if self._peek() == "\\" else 1

    def _skip_comment(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end


class _Simple:
    """A simple command while it is read."""

    def __init__(self) -> None:
        self.words: list[_Word] = []
        self.assigned: list[_Word] = []
        self.redirected = False

    @property
    def is_empty(self) -> bool:
        return not self.words and not self.assigned and not self.redirected

    def command(self, line: CommandLine, depth: int) -> Command:
        return Command(self._certain(), tuple(dict.fromkeys(self._possible(line, depth))))

    def _certain(self) -> tuple[str, ...] | None:
        everything = [*self.assigned, *self.words]
        if self.redirected or self._evaluates() or any(word.substituted for word in everything):
            return None
        if self.words and (self.words[0].wide != self.words[0].text or not _PLAIN_NAME.fullmatch(self.words[0].text)):
            return None  # the program has no plain name
        texts = [word.text for word in everything]
        return tuple(dict.fromkeys((" ".join(texts), " ".join(text for text in texts if text.strip(ANY)))))

    def _possible(self, line: CommandLine, depth: int) -> list[str]:
        if self._evaluates():
            return [ANY]
        if not self.words:
            return []
        words = [word.wide for word in self.words]
        name = _name(words[0])
        if ANY in words[0] or name in _UNCERTAIN or _reads_commands(words):
            return [ANY]
        found = _spellings(words)
        if name not in _RUNNERS and not _LOADER.fullmatch(name):
            return found
        if len(words) > _MOST_WORDS or any(_has_command(name, word) for word in words[1:]):
            return [ANY]
        for rest in _rests(name, words):
            if ANY in rest[0] or _reads_commands(rest) or (name in _ADD_WORDS and _name(rest[0]) in _RUNNERS):
                return [ANY]
            found += _spellings([*rest, ANY] if name in _ADD_WORDS else rest)
        return [*found, *self._inner(name, line, depth)]

    def _inner(self, name: str, line: CommandLine, depth: int) -> list[str]:
        """What the words run that are command lines of their own, as after `-c`."""
        found: list[str] = []
        texts = [word.text for word in self.words[1:]]
        lines = [text for text in texts if name in _TAKE_LINES or _is_line(text)]
        for text in [*lines, " ".join(texts)] if name in _JOIN_WORDS else lines:
            inner = read_line(text, depth=depth + 1)
            line.opaque = line.opaque or inner.opaque
            found += [each for command in inner.commands for each in command.possible]
        return found

    def _evaluates(self) -> bool:
        """Whether a word may hold a substitution that takes place although it is quoted: at once, or when a variable is used."""
        name = _name(self.words[0].text) if self.words else ""
        evaluated = [*self.assigned, *(self.words if name in _EVALUATING else ())]
        if any("$(" in word.text or "`" in word.text for word in evaluated):
            return True
        # The word after -C is run for lines that are read.
        return name in ("mapfile", "readarray") and any(re.match("-[A-Za-z]*C", word.text) for word in self.words)


def _name(program: str) -> str:
    return program.rpartition("/")[2]


def _spellings(words: list[str]) -> list[str]:
    """A command as it is written, by the program's name alone, and without the options that stand before anything else: what
    `git push` is said of holds for `git -C folder push` too. Any option may have a value."""
    name, after = _name(words[0]), 1
    found = [_joined(words), _joined([name, *words[1:]])]
    while after < len(words) and (words[after].startswith("-") or (after > 1 and words[after - 1].startswith("-"))):
        if after > _MOST_OPTIONS:
            return [ANY]
        after += 1
        found.append(_joined([name, *words[after:]]))
    return found


def _joined(words: list[str]) -> str:
    """The words with blanks between them. One that is unknown may turn out to be nothing, and its blank with it."""
    return words[0] + "".join(word if not word.strip(ANY) else f" {word}" for word in words[1:])


def _reads_commands(words: list[str]) -> bool:
    """Whether that is a shell which reads what to run."""
    name, rest = _name(words[0]), words[1:]
    if name in (".", "source"):
        return any(map(_INPUT.match, rest))
    if name not in _SHELLS:
        return False
    values = [at + 1 for at, word in enumerate(rest) if _SHELL_VALUES.fullmatch(word)]
    return (
        all(word.startswith("-") for at, word in enumerate(rest) if at not in values)
        or any(re.fullmatch("-[a-z]*s[a-z]*", word) for word in rest)
        or any(map(_INPUT.match, rest))
    )


def _is_line(text: str) -> bool:
    """Whether a word may be a command line rather than a single word of one."""
    return any(character in text for character in f"{_ENDS_WORD}$`")


def _has_command(name: str, word: str) -> bool:
    """Whether an option may hold a command that cannot be told from its name, as in `-c'rm x'`; or one that takes other words
    for the rest of a command."""
    if word.startswith(":::"):
        return name in _ADD_WORDS
    return word.startswith("-") and (_is_line(word) or (name == "env" and re.match("-[A-Za-z0]*S|--s", word) is not None))


def _rests(name: str, words: list[str]) -> list[list[str]]:
    """The ends of a runner's words that may be the command that it runs."""
    starts = range(1, len(words))
    if name == "find":
        starts = [at + 1 for at, word in enumerate(words) if word in _FIND_RUNS and at + 1 < len(words)]
    return [words[at:] for at in starts]
