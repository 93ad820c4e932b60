"""The command lines that a rule with a pattern can allow: so plain that every shell reads them in the same way.

This reader accepts a line only if the grammar below covers all of it. Other lines may be harmless too, but no
pattern allows them.

    line         = command { separator command } [ ";" ], with blank lines anywhere between commands
    separator    = ";" | "&&" | "||" | "|" | newline
    command      = name { blanks ( word | redirection ) }
    name         = letters, digits and _ . / + - without quotes; it does not begin with + or -, and is not a reserved word
    word         = one or more of: letters, digits, _ . / + @ % : , = - ; '...' ; "..." without $ ` \\ !
    redirection  = 2>&1 | >&2 | 1>&2 | >/dev/null | 1>/dev/null | 2>/dev/null | </dev/null (one space before the path is fine)

Why nothing is expanded: outside quotes stand only characters that have no meaning to a shell, and blanks and separators. In
single quotes a shell looks for nothing but the closing quote; in double quotes for that and $ ` \\ and !, which are not there.
Nothing is assigned, since `=` is not part of a name. No function, alias or loop begins, since that takes a parenthesis, a
reserved word or a built-in. Control characters and unusual blanks are refused everywhere, and characters outside ASCII unless
they are quoted: no encoding takes the closing quote for the second byte of a character, so the locale does not matter.

What a shell does itself can change what later commands mean (`cd`, `PATH`, `set`), or expand a quoted word after all
(`test -v 'a[$(x)]'`, `eval`). `PlainCommand.is_built_in` tells these commands apart.
"""

from __future__ import annotations

import re

from msgspec import Struct

from fairlead.policy.patterns import ANY

#: Lines longer than this are not read, because matching them would take too long.
_LONGEST = 32_768

_TOKEN = re.compile(
    r"""
    (?P<blanks>[ \t]+)
  | (?P<newline>\n)
  | (?P<separator>;|&&|\|\|?)
  | (?: (?P<redirection>2>&1|1?>&2|[12]?>[ ]?/dev/null|<[ ]?/dev/null)
      | (?P<word>(?:[A-Za-z0-9_./+@%:,=-]|'[^']*'|"[^"$`\\!]*")++)
    ) (?=[ \t\n;&|]|\Z)
    """,
    re.VERBOSE,
)
_NAME = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*")
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_BLANK = re.compile(r"[ \t\n]")

#: Words that begin another grammar where a command is expected, in bash, dash or another shell that may be installed as `sh`.
_RESERVED = frozenset(
    """case coproc do done elif else end esac fi for foreach function if in namespace nocorrect noglob repeat select then time
    until while""".split()
)
#: Commands that a shell carries out itself, except the harmless echo, false, pwd and true. The list has those of bash, dash,
#: busybox, ksh, mksh and zsh, since each of these may be installed as `sh`.
_BUILT_INS = frozenset(
    """. alias autoload bg bind bindkey break builtin bye caller chdir cd command compgen compctl complete compopt continue
    declare dirs disable disown echotc echoti emulate enable eval exec exit export fc fg float functions getln getopts global hash
    help hist history integer jobs kill let limit local login logout mapfile nameref newgrp popd print printf pushd pushln r
    read readarray readonly rehash return sched set setopt shift shopt source suspend test times trap ttyctl type
    typeset ulimit umask unalias unfunction unhash unlimit unset unsetopt vared wait whence zcompile zformat zle
    zmodload zparseopts zprof zregexparse zsocket zstyle ztcp""".split()
)


class PlainCommand(Struct, frozen=True):
    """A program or built-in and its words, exactly as a shell passes them on."""

    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """The words with one blank between them, for a pattern to match.

        A blank within a word is ANY, so that only a `*` matches it: a rule for `rm a b` does not cover `rm 'a b'`.
        """
        return " ".join(_BLANK.sub(ANY, word) for word in self.words)

    @property
    def is_built_in(self) -> bool:
        """Whether the shell itself does this, in a way that can evaluate words or change what later commands mean."""
        return self.words[0] in _BUILT_INS


def plain_commands(text: str) -> list[PlainCommand] | None:
    """Return the simple commands of a plain line. None: the line is not plain, or there is no command in it."""
    if len(text) > _LONGEST or not all(character.isprintable() or character in "\t\n" for character in text):
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
