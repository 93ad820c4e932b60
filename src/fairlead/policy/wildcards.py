"""Decides which words of a command a wildcard in an "allow" rule covers.

Many programs that only read can also write files or run programs, with an option that few people know. So for a program that
`fairlead.policy.known_programs` lists, a wildcard covers only the words that the list names. It names what is harmless, not what
is dangerous: an option that is missing there, an abbreviation, and an option of a later version need a question.

Every word that begins like an option must be a listed option, wherever it stands: after `--`, or where it may be the value of
the option before it. So it does not matter how a program divides its words into options, values and operands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache

from fairlead.policy import known_programs as known
from fairlead.policy.known_runners import OPTIONS, SUBCOMMANDS
from fairlead.policy.patterns import Words

#: Programs that only read, whatever the words are that a wildcard covers. git is not one: a repository can name programs for it.
_READERS = frozenset(
    """basename cat cmp cut diff dirname du echo expr false file find grep head id ls md5sum nl pwd readlink realpath rg
    sha1sum sha256sum stat tac tail tr true uname wc which whoami""".split()
)
#: Programs that only change the files that they name, and the letters of harmless options.
_CHANGERS = {"cp": "afnprRv", "mkdir": "pv", "mv": "fnv", "rm": "dfrRv", "rmdir": "pv", "sed": "inE", "touch": "acm"}
#: Options with which a program follows links to other folders.
#: Programs that read what is in the files of a folder.
_SEARCHERS = frozenset(("diff", "grep", "rg"))
_FOLLOWING = re.compile(r"-[A-Za-z]*[DHLR][A-Za-z]*|--(?:follow|dereference.*)")
#: Text without a special meaning, in an order for sed that replaces one by another.
_SUBSTITUTION = re.compile(r"s/[\w .,:=+@%-]*/[\w .,:=+@%-]*/g?", re.ASCII)


def read_files(words: Sequence[str], folder: str) -> list[str] | None:
    """Return the words of a command that may name files, if all it does is to read these; None if it may do more.

    Args:
        words: the command, exactly as the shell passes it.
        folder: the directory that it runs in.
    """
    name = words[0]
    if name not in _READERS or not covers_words(words, 1):
        return None
    # An option may have a path in the same word.
    if any(word.startswith("-") and ("/" in word or _FOLLOWING.fullmatch(word)) for word in words[1:]):
        return None
    if name in ("echo", "expr", "false", "pwd", "tr", "true", "which"):
        return []
    operands = words.index("--") if "--" in words else len(words)
    files = [word for at, word in enumerate(words) if at > operands or (at and not word.startswith("-"))]
    found = [os.path.join(folder, each) for each in files]  # noqa: PTH118
    # Some of the files in a folder may not be read.
    if name in _SEARCHERS and (any(map(os.path.isdir, found)) or _reads_folders(words)):
        return None
    if name == "rg" and not any(map(os.path.lexists, found)):
        return None
    return files


def _reads_folders(words: Sequence[str]) -> bool:
    return any(re.fullmatch(r"-[A-Za-z]*[rd].*|--(?:recursive|directories).*", word) for word in words[1:])


def changed_files(words: Sequence[str], folder: str) -> tuple[list[str], list[str]] | None:
    """Return the words of a command that name files which it reads and which it changes; None if it may do more.

    Args:
        words: the command, exactly as the shell passes it.
        folder: the directory that it runs in.
    """
    name, letters = words[0], _CHANGERS.get(words[0])
    if letters is None:
        return None
    options = [word for word in words[1:] if word.startswith("-")]
    files = [word for word in words[1:] if not word.startswith("-")]
    if any(not option[1:] or set(option[1:]) - set(letters) for option in options):
        return None
    if name == "sed":
        is_known = "-i" in options and all(len(option) == 2 for option in options)
        return (files[1:], files[1:]) if is_known and files[1:] and _SUBSTITUTION.fullmatch(files[0]) else None
    if name not in ("cp", "mv"):
        return ([], files) if files else None
    if len(files) < 2:
        return None
    *sources, target = files
    # What has the name of a source in a folder is replaced.
    inner = [os.path.join(target, os.path.basename(source.rstrip("/"))) for source in sources]  # noqa: PTH118, PTH119
    if name == "cp" and any(set(option[1:]) & set("arR") for option in options):
        made = inner if os.path.isdir(os.path.join(folder, target)) else [target]  # noqa: PTH118
        if any(os.path.lexists(os.path.join(folder, each)) for each in made):  # noqa: PTH118
            return None  # what is in that folder may lead elsewhere
    return sources, [target, *inner, *(sources if name == "mv" else ())]


def count_spelled_words(pattern: str) -> int:
    """Return how many words of a command a pattern spells out: those before its first wildcard."""
    words = pattern.split(" ")
    return next((at for at, word in enumerate(words) if set(word) & set("*?")), len(words))


def covers_words(words: Sequence[str], spelled: int) -> bool:
    """Return whether a wildcard may cover the words of a command after the first `spelled` ones.

    Args:
        words: the command, exactly as the shell passes it.
        spelled: how many words the rule itself names. The user has decided about these.
    """
    if spelled == 0 and ".." in words[0].split("/"):
        return False  # `./scripts/*` is not about other folders
    name = known.program_name(words[0])
    rest, spelled = words[1:], max(0, spelled - 1)
    if not rest:
        table = known.PROGRAMS.get(name)
        needs_word = table is not None and not _fits(table.first_word, "")
        return not needs_word and name not in known.INTERPRETERS and name not in known.RUN_ANYTHING
    if spelled >= len(rest):
        return True
    if name in known.PREFIXES:
        return _covers_inner(rest, spelled)
    if name in known.PREFIX_SUBCOMMANDS:
        return spelled > 0 and rest[0] == known.PREFIX_SUBCOMMANDS[name] and _covers_inner(rest[1:], spelled - 1)
    if name in known.TELL_VERSION and tuple(rest) == ("--version",):
        return True
    if name in known.INTERPRETERS:
        return _covers_arguments_of_code(rest, spelled)
    if name in known.RUN_ANYTHING or known.is_loader(name):
        return False
    table = known.PROGRAMS.get(name)
    return _covers_unlisted(name, rest, spelled) if table is None else _covers(table, rest, spelled)


def _covers_inner(words: Sequence[str], spelled: int) -> bool:
    """Decide about `env`, `timeout` and the like: the rule must spell the program that they run, and it is judged in turn."""
    programs = [at for at in range(spelled) if _may_be_program(words, at)]
    return bool(programs) and all(covers_words(words[at:], spelled - at) for at in programs)


def _may_be_program(words: Sequence[str], at: int) -> bool:
    is_value = at > 0 and words[at - 1].startswith("-") and "=" not in words[at - 1]
    return not is_value and re.fullmatch(r"-.*|[0-9.]+[smhd]?|[A-Za-z_][A-Za-z0-9_]*=.*", words[at], re.DOTALL) is None


def _covers_unlisted(name: str, words: Sequence[str], spelled: int) -> bool:
    """Decide about a program without a list of words. Some run another program after a subcommand or an option."""
    for subcommand in SUBCOMMANDS.get(name, ()):
        at = _find_words(words, subcommand.split())
        if at < len(words) and (at >= spelled or not _covers_inner(words[at + 1 :], spelled - at - 1)):
            return False
    options = OPTIONS.get(name, ())
    return not any(word == option or word.startswith(f"{option}=") for word in words[spelled:] for option in options)


def _find_words(words: Sequence[str], wanted: Sequence[str]) -> int:
    """Return the position of the last of the words that follow each other, maybe with others between; else a large number."""
    at = -1
    for each in wanted:
        at = next((index for index in range(at + 1, len(words)) if words[index] == each), len(words))
    return at


def _covers_arguments_of_code(words: Sequence[str], spelled: int) -> bool:
    """Decide about an interpreter: the rule must spell the script or module, and the rest are its arguments."""
    if spelled >= 2 and words[0] == "-m":
        return covers_words(words[1:], spelled - 1)
    return spelled >= 1 and not words[0].startswith(("-", "+"))


def _covers(table: Words, words: Sequence[str], spelled: int) -> bool:
    if not table.subcommands and not table.when_spelled:
        return _covers_options(table, words, spelled)
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if at >= spelled:
            if words[at] not in table.before.split():
                return False
        elif words[at] in table.before_valued.split():
            at += 1
        at += 1
    if at >= len(words):
        return True
    inner = (table.when_spelled.get(words[at]) if at < spelled else None) or table.subcommands.get(words[at])
    return inner is not None and _covers(inner, words[at + 1 :], max(0, spelled - at - 1))


def _covers_options(table: Words, words: Sequence[str], spelled: int) -> bool:
    if not spelled and not _fits(table.first_word, words[0] if words else ""):
        return False
    operands = 0
    for at, word in enumerate(words):
        if word == "--" and table.free_after_dashes:
            break
        if _is_operand(word) or (operands and table.most is not None):
            operands += 1
            if at < spelled:
                continue
            if operands == 1 and (table.is_first_spelled or not _fits(table.first, word)):
                return False
            if not _fits(table.operands, word) or (table.most is not None and operands > table.most):
                return False
        elif at >= spelled and word != "--" and not _is_listed(table, word):
            return False
    return operands >= table.least


def _is_operand(word: str) -> bool:
    return word == "-" or not word.startswith("-")


def _fits(pattern: str | None, word: str) -> bool:
    return pattern is None or re.fullmatch(pattern, word, re.DOTALL) is not None


def _is_listed(table: Words, word: str) -> bool:
    if table.more is not None and _fits(table.more, word):
        return True
    if word.startswith("--"):
        name, _, value = word[2:].partition("=")
        return name in _names(table.long) and _fits(table.value, value)
    rest = word[1:].lstrip(table.flags or "-")
    return not rest or (rest[0] in table.valued and _fits(table.value, rest[1:]))


@lru_cache(256)
def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())
