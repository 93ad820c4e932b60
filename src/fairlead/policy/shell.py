"""Parses shell command lines into the simple commands that approval rules match.

Rules apply to each simple command, not to the line: `git status; rm -rf ~` is two commands. There are two parsers.
`possible_commands` serves "ask" and "deny" rules. It parses the common grammar of bash and sh and overestimates: what it cannot
parse counts as any command. `plain_commands` serves "allow" rules. It deliberately parses only a small grammar without expansion,
so that its result is certain.
"""

from __future__ import annotations

import re

from msgspec import Struct

from fairlead.policy.patterns import ANY
from fairlead.policy.runners import SimpleCommand, Word

#: Words that open, divide or close a compound command. A command may follow them.
_STRUCTURE = frozenset(("!", "do", "done", "elif", "else", "esac", "fi", "if", "then", "until", "while", "{", "}"))
#: Words that switch to a different grammar.
_OTHER_GRAMMAR = frozenset(("[[", "case", "coproc", "function", "select"))
#: The start of an assignment to a variable or to an array element.
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\+?=|\[)")
#: Redirection operators, each before its own prefixes.
_OPERATORS = ("&>>", "&>", "<(", ">(", "<<<", "<<", "<>", "<&", ">&", ">>", ">|", "<", ">")
#: The rest of $'...' if bash and sh agree on where it ends and no part of it can be expanded later.
_ANSI_QUOTED = re.compile(r"(?:[^'\\$`]|\\[nt])*'")
_NUMBER = re.compile(r"[0-9]+")
_DESCRIPTOR = re.compile(r"[0-9]+-?|-")
_ENDS_WORD = " \t\n;&|()<>"
_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
_SPECIAL_PARAMETERS = frozenset("0123456789@*#?$!-")
#: A line continuation. The shell removes it before parsing.
_CONTINUATION = "\\\n"
#: Deeper nesting and longer lines count as any command, because a host waits for the answer.
_DEEPEST, _LONGEST = 8, 32_768


def possible_commands(text: str, *, depth: int = 0) -> list[str]:
    """Return the commands that a line may run, directly or through other commands.

    Args:
        text: the command line.
        depth: how many command lines contain this one.

    Returns:
        The commands, each as words with one blank between them. ANY in the list means that the line may run any command.
    """
    if depth > _DEEPEST or len(text) > _LONGEST or ANY in text or not text.strip():
        return [ANY]
    if depth == 0 and text.startswith(("-", "+")):
        return [ANY]  # the shell may read the line as its own options
    reader = _CommandLineReader(text, depth)
    try:
        reader.list_until("")
    except (_Lost, RecursionError):
        reader.found.append(ANY)
    return list(dict.fromkeys(reader.found))


class _Lost(Exception):
    """The line uses grammar that the parser does not know."""


class _CommandLineReader:
    """Parses one command line. `found` collects the commands that it may run."""

    def __init__(self, text: str, depth: int) -> None:
        self.found: list[str] = []
        self._text = text
        self._depth = depth
        self._at = 0

    # Lists of commands

    def list_until(self, end: str) -> None:
        """Read commands up to `end`: a closing parenthesis, or the end of the text if `end` is empty. Raises _Lost."""
        simple = SimpleCommand()
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
                if not simple.is_empty or self._ahead("(("):
                    raise _Lost  # a function, an array or arithmetic
                self._at += 1
                self.list_until(")")
            elif character in "\n;&|" and not self._ahead("&>"):
                if self._ahead(";;"):
                    raise _Lost
                self._at += 1
                self._finish(simple)
                simple = SimpleCommand()
            elif character in "<>&":
                self._redirection(simple)
            else:
                self._word(simple)
        self._finish(simple)

    def _word(self, simple: SimpleCommand) -> None:
        word = self._read_word()
        if word.bare and _NUMBER.fullmatch(word.text) and self._peek() in ("<", ">"):
            return  # a file descriptor number
        if simple.has_ended_for_sh:
            raise _Lost
        if simple.words or not (assignment := _ASSIGNMENT.match(word.start)):
            if simple.words or not word.bare:
                simple.words.append(word)
            elif word.text in _OTHER_GRAMMAR:
                raise _Lost
            elif word.text not in _STRUCTURE:
                simple.words.append(word)
        elif assignment[1] == "[":
            raise _Lost  # the shell evaluates the subscript
        else:
            simple.assigned.append(word)

    def _redirection(self, simple: SimpleCommand) -> None:
        operator = next(operator for operator in _OPERATORS if self._take(operator))
        if operator in ("<(", ">(", "<<"):
            raise _Lost  # a command or a here-document follows
        self._skip_blanks()
        if self._peek() in ("", *_ENDS_WORD):
            raise _Lost
        target = self._read_word()
        if operator in (">&", "<&") and not _DESCRIPTOR.fullmatch(target.start if target.bare else ""):
            raise _Lost  # bash expands another target twice: `>&'$(rm x)'` runs rm
        if operator.startswith("&"):  # sh reads `a &>b c` as `a &` and `>b c`
            simple.has_ended_for_sh = True

    def _finish(self, simple: SimpleCommand) -> None:
        self.found += simple.possible(lambda text: possible_commands(text, depth=self._depth + 1))

    # Words

    def _read_word(self) -> Word:
        word = Word()
        while (character := self._peek()) and character not in _ENDS_WORD:
            self._at += 1
            if character == "\\":
                word.bare = False
                word.add(self._read_escape() or "\\")
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
        if word.start.startswith("{") and self._peek() in ("<", ">"):
            raise _Lost  # a redirection that stores its descriptor in a variable or array element
        if word.bare and word.text == "[":
            word.wide = "["
        return word

    def _double_quoted(self, word: Word) -> None:
        while (character := self._peek()) != '"':
            self._at += 1
            if not character or character == "`":
                raise _Lost
            if character == "$":
                self._dollar(word, quoted=True)
            elif character == "\\":
                following = self._read_escape()
                word.add(following if following in ("$", "`", '"', "\\") else f"\\{following}")
            else:
                word.add(character)
        self._at += 1

    def _dollar(self, word: Word, *, quoted: bool) -> None:
        if self._ahead("((") or self._ahead("["):
            raise _Lost
        if not quoted and self._ahead('"'):
            return  # a string to translate; the quoted part follows
        if self._take("("):
            self.list_until(")")
        elif not quoted and self._take("'"):
            body = _ANSI_QUOTED.match(self._text, self._at)
            if body is None:
                raise _Lost
            self._at = body.end()
        elif self._take("{"):
            if not self._parameter() or not self._take("}"):
                raise _Lost
        elif self._peek() in _SPECIAL_PARAMETERS:
            self._at += 1
        elif not self._parameter():
            word.add("$")
            return
        word.bare = False
        word.add(ANY)

    def _parameter(self) -> bool:
        """Skip the name of a variable. Returns whether there was one."""
        if self._peek().isdigit():
            return False
        start = self._at
        while self._peek() in _NAME_CHARACTERS:
            self._at += 1
        return self._at > start

    # Characters

    def _peek(self) -> str:
        """Return the next character that the shell sees, or an empty string at the end."""
        while self._text.startswith(_CONTINUATION, self._at):
            self._at += len(_CONTINUATION)
        return self._text[self._at : self._at + 1]

    def _after(self, expected: str) -> int | None:
        """Return the position after these characters, or None if other characters come next."""
        at = self._at
        for character in expected:
            while self._text.startswith(_CONTINUATION, at):
                at += len(_CONTINUATION)
            if not self._text.startswith(character, at):
                return None
            at += 1
        return at

    def _ahead(self, expected: str) -> bool:
        return self._after(expected) is not None

    def _take(self, expected: str) -> bool:
        """Skip these characters if they come next. Returns whether they did."""
        after = self._after(expected)
        if after is not None:
            self._at = after
        return after is not None

    def _read_escape(self) -> str:
        """Return and skip the character after a backslash."""
        self._at += 1
        return self._text[self._at - 1 : self._at]

    def _up_to(self, end: str) -> str:
        found = self._text.find(end, self._at)
        if found < 0:
            raise _Lost
        start, self._at = self._at, found + 1
        return self._text[start:found]

    def _skip_blanks(self) -> None:
        while self._peek() in (" ", "\t"):
            self._at += 1

    def _skip_comment(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end


#: Longer lines are not plain, because matching them would take too long.
_LONGEST_PLAIN = 32_768

_TOKEN = re.compile(
    r"""
    (?P<blanks>[ \t]+)
  | (?P<newline>\n)
  | (?P<separator>;|&&|\|\|?)
  | (?: (?P<redirection>2>&1|1?>&2|[12]?>[ ]?/dev/null|<[ ]?/dev/null)
      | (?P<word>(?:[A-Za-z0-9_./+@%:,=-]|(?<=[A-Za-z0-9])~|'[^']*'|"[^"$`\\!]*")++)
    ) (?=[ \t\n;&|]|\Z)
    """,
    re.VERBOSE,
)
_NAME = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*")
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_BLANK = re.compile(r"[ \t\n]")

#: Words that start a different grammar where a command could stand, in bash, dash or another shell that may be installed as `sh`.
_RESERVED = frozenset(
    """case coproc do done elif else end esac fi for foreach function if in namespace nocorrect noglob repeat select then time
    until while""".split()
)
#: The built-ins of bash, dash, busybox, ksh, mksh and zsh, because each of these may be installed as `sh`. The harmless echo,
#: false, pwd and true are not listed.
_BUILT_INS = frozenset(
    """. alias autoload bg bind bindkey break builtin bye caller chdir cd command compgen compctl complete compopt continue
    declare dirs disable disown echotc echoti emulate enable eval exec exit export fc fg float functions getln getopts global hash
    help hist history integer jobs kill let limit local login logout mapfile nameref newgrp popd print printf pushd pushln r
    read readarray readonly rehash return sched set setopt shift shopt source suspend test times trap ttyctl type
    typeset ulimit umask unalias unfunction unhash unlimit unset unsetopt vared wait whence zcompile zformat zle
    zmodload zparseopts zprof zregexparse zsocket zstyle ztcp""".split()
)


class PlainCommand(Struct, frozen=True):
    """A program or built-in and its arguments, exactly as the shell passes them."""

    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """The words with one blank between them, for a pattern to match.

        A blank inside a word becomes ANY, which only `*` matches. So a rule for `rm a b` does not match `rm 'a b'`.
        """
        return " ".join(_BLANK.sub(ANY, word) for word in self.words)

    @property
    def is_built_in(self) -> bool:
        """Whether this is a built-in that may evaluate its arguments or change the meaning of later commands."""
        return self.words[0] in _BUILT_INS


def plain_commands(text: str) -> list[PlainCommand] | None:
    """Return the simple commands of a plain line, or None if the line is not plain or contains no command."""
    if len(text) > _LONGEST_PLAIN or not all(character.isprintable() or character in "\t\n" for character in text):
        return None
    commands: list[PlainCommand] = []
    words: list[str] = []
    is_open = True  # a command has to follow
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        at = token.end()
        if token["word"]:
            if not words and (not _NAME.fullmatch(token["word"]) or token["word"] in _RESERVED):
                return None
            words.append(_QUOTED.sub(lambda quoted: quoted[1] or quoted[2] or "", token["word"]))
        elif not words and (token["separator"] or token["redirection"]):
            return None
        if (token["separator"] or token["newline"]) and words:
            commands.append(PlainCommand(tuple(words)))
            words = []
            is_open = token["separator"] in ("&&", "|", "||")
    if words:
        commands.append(PlainCommand(tuple(words)))
        is_open = False
    return None if is_open else commands
