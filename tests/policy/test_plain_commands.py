"""The lines that a pattern can allow. Real shells are the judges: what they run has to be what was read, word for word."""

from __future__ import annotations

import itertools
import os
import string
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.policy.shell import plain_commands

SHELLS = [shell for shell in ("/bin/bash", "/bin/dash", "/bin/sh") if os.access(shell, os.X_OK)]
Argv = tuple[str, ...]


def read(line: str) -> list[Argv] | None:
    commands = plain_commands(line)
    return None if commands is None else [command.words for command in commands]


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("git status", [("git", "status")]),
        ("  git \t status\n", [("git", "status")]),
        ("a; b && c || d | e\nf;", [("a",), ("b",), ("c",), ("d",), ("e",), ("f",)]),
        ("a;b&&c||d|e", [("a",), ("b",), ("c",), ("d",), ("e",)]),
        ("a |\n\n b &&\n c", [("a",), ("b",), ("c",)]),
        ("a;\n\nb", [("a",), ("b",)]),
        ("git commit -m 'a; $(b)' \"c 'd'\" e'f'\"g\"", [("git", "commit", "-m", "a; $(b)", "c 'd'", "efg")]),
        ("git commit -m 'one\n\ntwo'", [("git", "commit", "-m", "one\n\ntwo")]),
        ("git commit -m 'Größe' ''", [("git", "commit", "-m", "Größe", "")]),
        ("make 2>&1 >/dev/null </dev/null", [("make",)]),
        ("make x 2> /dev/null|./tee.sh y >&2;b", [("make", "x"), ("./tee.sh", "y"), ("b",)]),
        ("git log --pretty=%h,%s a@b:c/d.e_f+g", [("git", "log", "--pretty=%h,%s", "a@b:c/d.e_f+g")]),
        ("git diff HEAD~1 main~2:a x=b~", [("git", "diff", "HEAD~1", "main~2:a", "x=b~")]),
        ("echo if then PATH=x", [("echo", "if", "then", "PATH=x")]),
    ],
)
def test_plain_lines_are_read_as_their_commands(line: str, commands: list[Argv]) -> None:
    assert read(line) == commands


@pytest.mark.parametrize(
    "line",
    [
        *("", " ", "\n", ";", "a &&", "a |", "&& a", "a ;; b", "a\n; b", "a || && b", "a &&& b", "| a"),
        *("a &", "a & b", "a |& b", "(a)", "a (b)", "{ a; }", "{a,b}", "a {b,c}", "! a", "a() { b; }", "a #b", "#a", "a#b"),
        *("a $b", "a ${b}", "a $(b)", "a `b`", 'a "$b"', 'a "`b`"', 'a "\\b"', 'a "b!"', "a \\b", "a\\\nb", "a $'b'", 'a $"b"'),
        *('a "$\\\n(b)"', "a $\\\n(b)", "a {b['$(c)']}>/dev/null", "a {b}>/dev/null", "a 'b", 'a "b', "a >&'$(b)'"),
        *("a *", "a b?", "a [b]", "a ~", "a ~b", "a b=~", "a ''~", "a b~~", "a ^b", "a b:~/c", "[ a ]", "[[ a ]]", "((a))"),
        *("A=b", "A=b c", "A+=b c", "A[1]=b c", "'a' b", '"a" b', "a'b' c", "-a", "+a", "%a", "=a", "a=b"),
        *("a > b", "a >b", "a >> b", "a < b", "a <<E\nE", "a <<<b", "a <(b)", "a &>/dev/null", "a >&b", "a >| b", "a <> b"),
        *("a >/dev/nullx", "a >/dev/null/../x", "a 2>&1x", "a2>/dev/null", "a'2'>/dev/null", ">/dev/null a", "a 3>&1", "a >&-"),
        *(
            "if a; then b; fi",
            "for a in b",
            "while a",
            "case a in",
            "time a",
            "coproc a",
            "function a",
            "select a",
            "do a",
            "a\nfi",
        ),
        *("a\r", "a\r\nb", "a\x00b", "a\x01", "a 'b\x7f'", "a\x0bb", "a\x0cb", "a 'b\x1b[2K'", "a '\u202e'", "a '\udc80'"),
        *("a\u00a0b", "a \u2003b", "a 'b\u00a0c'", "a '\u2028'", "a\u0085b", "a é", "é b", "g\u0456t a", "a \uff1b b", "\ufeffa"),
        "a " * 20_000,
    ],
)
def test_every_other_line_is_not_plain(line: str) -> None:
    assert read(line) is None


def test_shell_builtins_are_distinguished_from_programs() -> None:
    """bash lists its own built-ins and reserved words; dash has a few more."""
    script = "compgen -b; compgen -k"
    listed = subprocess.run(["/bin/bash", "-c", script], capture_output=True, text=True, check=True, timeout=60).stdout.split()
    harmless = {"echo", "false", "pwd", "true"}
    assert harmless < set(listed)
    for name in (*listed, "chdir"):
        commands = plain_commands(f"{name} x")
        assert commands is None or commands[0].is_built_in is (name not in harmless), name


# What shells make of these lines


class Recorder:
    """A folder of programs that only write down how they were called, and an empty folder to run them in."""

    names = ("one", "two", "echo-x", "g++", "x.sh")

    def __init__(self, folder: Path) -> None:
        self.programs, self.cwd, self._log = folder / "programs", folder / "cwd", folder / "log"
        self.programs.mkdir()
        self.cwd.mkdir()
        for name in self.names:
            program = self.programs / name
            program.write_text(f'#!/bin/sh\nprintf "%s\\0" "$#" "${{0##*/}}" "$@" >>{self._log}\n')
            program.chmod(0o755)

    def run(self, shell: str, line: str, locale: str = "C.UTF-8") -> list[Argv]:
        """How programs were called when a shell ran this line."""
        self._log.write_text("")
        words = [shell, "-c", line]
        env = {"PATH": str(self.programs), "LC_ALL": locale}
        subprocess.run(words, env=env, cwd=self.cwd, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
        assert list(self.cwd.iterdir()) == [], f"{shell} made a file: {line!r}"
        return list(records(self._log.read_bytes()))


def records(data: bytes) -> Iterator[Argv]:
    words = iter(data.decode().split("\0")[:-1])
    for count in words:
        yield tuple(itertools.islice(words, int(count) + 1))


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return Recorder(tmp_path_factory.mktemp("recorder"))


#: What means something to a shell, and what once got past a reader.
HOSTILE = [
    *(
        "$",
        "`",
        "\\",
        "\\\n",
        "'",
        '"',
        "!",
        "#",
        "~",
        "*",
        "?",
        "[",
        "]",
        "{",
        "}",
        "(",
        ")",
        "<",
        ">",
        "&",
        "^",
        "=",
        "%",
        ";",
        "|",
    ),
    *(
        "\n",
        "\t",
        "\r",
        "\x01",
        "\x7f",
        "\x0b",
        "\u00a0",
        "\u2028",
        "é",
        "Á",
        "Ä",
        "È",
        "あ",
        "\\'",
        '\\"',
        "''",
        '""',
        "$'",
        '$"',
    ),
    *(
        "{a,b}",
        "$(touch PWN)",
        "`touch PWN`",
        "${x:=y}",
        "$\\\n(touch PWN)",
        "{a['$(touch PWN)']}>/dev/null",
        "a['$(touch PWN)']=1 ",
    ),
    *(
        ">PWN",
        "2>PWN",
        "&>PWN",
        ">&'$(touch PWN)'",
        "<<E",
        "<<<x",
        "<(touch PWN)",
        ";;",
        "&&",
        "||",
        "|&",
        "& ",
        " #",
        "# ",
        "A=1 ",
    ),
    *(
        " 2>&1",
        " >/dev/null",
        "2>/dev/null",
        " >&2",
        "</dev/null ",
        "if ",
        "then ",
        "fi",
        "do ",
        "time ",
        "! ",
        "{ ",
        "; }",
        "[[ ",
    ),
]
QUOTES = st.sampled_from(["'{}'", '"{}"'])
INSIDE = st.text(st.sampled_from("ab \t\n;|&(){}[]<>*?~#=-éÁÂÃÄÅÆÇÈあ"), max_size=5)
WORDS = st.one_of(
    st.text(st.sampled_from("abz019_./+@%:,=-"), min_size=1, max_size=5),
    st.builds(str.format, QUOTES, INSIDE),
    st.builds("a{}={}".format, st.builds(str.format, QUOTES, INSIDE), st.sampled_from(["b", "'$(touch PWN)'", "'`touch PWN`'"])),
    st.sampled_from(["2>&1", ">/dev/null", "2> /dev/null", "</dev/null", ">&2", "'$x'", "'\\'", '"it\'s"', "'!'"]),
)


def command(name: str, words: list[str], blank: str) -> str:
    return blank.join([name, *words])


COMMANDS = st.builds(
    command,
    st.sampled_from(Recorder.names),
    st.lists(WORDS, max_size=4),
    st.sampled_from([" ", "  ", "\t"]),
)
SEPARATORS = st.sampled_from([";", " ; ", "&&", "||", "|", " | ", "\n", "\n\n", ";\n", "&&\n", "|\n"])


@st.composite
def lines(draw: st.DrawFn) -> str:
    """A line that is plain, or would be without one or two hostile parts somewhere in it."""
    line = draw(COMMANDS)
    for _ in range(draw(st.integers(0, 2))):
        line += draw(SEPARATORS) + draw(COMMANDS)
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(line)))
        line = line[:at] + draw(st.sampled_from(HOSTILE)) + line[at:]
    return line


def test_shells_run_exactly_what_was_read_and_nothing_else(recorder: Recorder) -> None:
    outcomes = Counter[str]()

    @settings(max_examples=250, deadline=None, derandomize=True, database=None)
    @given(lines(), st.sampled_from(["C", "C.UTF-8"]))
    def check(line: str, locale: str) -> None:
        commands = read(line)
        if commands is None:
            outcomes["not plain"] += 1
            return
        outcomes["plain"] += 1
        for shell in SHELLS[:2]:
            ran = Counter(recorder.run(shell, line, locale))
            # Every program ends well, so that only `||` leaves a command out; a program with another name is not found.
            if "||" in line or any(words[0] not in recorder.names for words in commands):
                assert not ran - Counter(commands), (shell, line)
            else:
                assert ran == Counter(commands), (shell, line)

    check()
    assert min(outcomes["plain"], outcomes["not plain"]) > 50, outcomes


TEMPLATES = ["one {}", "one a{}b", "one 'a{}b'", 'one "a{}b"', "one a {} b", "one a;{}", "{}one a", "one a\n{}", "one '{}"]


def test_shells_agree_with_the_reader_about_every_pair_of_characters(tmp_path: Path) -> None:
    """All lines that are plain, in one script for each shell. `one` is a function, so that this takes no time."""
    characters = string.printable + "\0\x01\x7fÁ\u00a0"
    pairs = ["".join(pair) for pair in itertools.product(characters, repeat=2)]
    found = [(line, read(line)) for template in TEMPLATES for line in map(template.format, pairs)]
    plain = [(line, commands) for line, commands in found if commands and all(words[0] == "one" for words in commands)]
    assert 5_000 < len(plain) < len(found) / 2
    expected = [words for _, commands in plain for words in commands]
    for shell in SHELLS:
        assert scripted(shell, [line for line, _ in plain], tmp_path) == expected


def scripted(shell: str, script: Sequence[str], folder: Path) -> list[Argv]:
    log = folder / "log"
    cwd = folder / "cwd"
    cwd.mkdir(exist_ok=True)
    start = f'one() {{ printf "%s\\0" "$#" one "$@" >&9; }}\nexec 9>{log}\n'
    file = folder / "script"
    # After `;` or a newline alone the next line begins a command too: lines stay apart.
    file.write_bytes((start + "\n".join(script) + "\n").encode())
    env = {"PATH": str(cwd), "LC_ALL": "C.UTF-8"}
    ran = subprocess.run([shell, file], env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert list(cwd.iterdir()) == []
    return list(records(log.read_bytes()))
