"""What a rule covers: which command lines, tools and files it allows, asks about or denies, and which rule decides."""

from __future__ import annotations

import pytest
from tests.policy.verdicts import verdict

from fairlead.config.settings import ApprovalAction, ApprovalMode
from fairlead.policy.approvals import PatternContext


@pytest.mark.parametrize(
    "line",
    [
        "git status",
        "git status -s 2>&1",
        "git diff | git apply --check",
        "git fetch && git log --oneline 2>/dev/null; git tag",
        "git fetch\n\ngit log",
        "git",
        "git add '*.py'",
        "git commit -m 'Do not $(expand) `this`; it is quoted' && git log",
    ],
)
def test_allowed_calls_need_no_question(line: str) -> None:
    assert verdict(line, ("allow", "bash", "git *"), mode="ask") == "allow"


@pytest.mark.parametrize(
    "line",
    [
        'echo "$\\\n(touch PWN)"',
        "echo hi {a['$(touch PWN)']}>/dev/null",
        "echo hi {a}>/dev/null",
        "echo >&'$(touch PWN)'",
        "ec\\\nho hi",
        "echo $HOME",
        "echo *.py",
        "echo hi &",
        "(echo hi)",
        "! echo hi",
        "echo hi # there",
        "echo hi &>/dev/null",
        "FOO=1 echo hi",
        "-s",
    ],
)
def test_a_line_that_is_not_plain_is_covered_by_no_pattern(line: str) -> None:
    for pattern in ("echo *", "* *", "?*", line):
        assert verdict(line, ("allow", "bash", pattern), mode="ask") == "ask"
        assert verdict(line, ("allow", "bash", pattern), mode="deny") == "deny"


@pytest.mark.parametrize(
    "line",
    [
        "test -v 'a[$(touch PWN)]'",
        "printf -v PATH evil",
        "printf %n PATH",
        "cd /tmp/evil",
        "set -k",
        "shopt -s expand_aliases",
        "alias ls=rm",
        "hash -p /bin/rm ls",
        "export PATH=evil",
        "read PATH",
        "unset PATH",
        "eval 'touch PWN'",
        "exec touch PWN",
        "command touch PWN",
        "builtin eval x",
        ". ./x",
        "source x",
        "trap 'touch PWN' EXIT",
        "enable -f x y",
        "mapfile -C 'touch PWN' a",
        "let 'a[$(touch PWN)]'",
        "declare 'a[$(touch PWN)]=1'",
        "wait -p 'a[$(touch PWN)]'",
    ],
)
def test_a_wildcard_covers_no_built_in_that_evaluates_words_or_changes_what_later_commands_mean(line: str) -> None:
    name = line.partition(" ")[0]
    for pattern in (f"{name} *", f"{name}*", "* *", line[:-1] + "?", f"{line}*"):
        assert verdict(line, ("allow", "bash", pattern), mode="ask") == "ask"
        assert verdict(f"{line}; git status", ("allow", "bash", pattern), ("allow", "bash", "git *"), mode="ask") == "ask"


def test_a_built_in_is_covered_by_a_rule_that_spells_it() -> None:
    rules: list[tuple[ApprovalAction, str, str | None]] = [("allow", "bash", "cd src"), ("allow", "bash", "make *")]
    assert verdict("cd src && make test", *rules, mode="ask") == "allow"
    assert verdict("cd /tmp/evil && make test", *rules, mode="ask") == "ask"
    assert verdict("cd src x && make", *rules, mode="ask") == "ask"


def test_a_blank_in_quotes_does_not_divide_words() -> None:
    assert verdict("rm a b", ("allow", "bash", "rm a b"), mode="ask") == "allow"
    assert verdict("rm 'a b'", ("allow", "bash", "rm a b"), mode="ask") == "ask"
    assert verdict("rm 'a b'", ("allow", "bash", "rm a?b"), mode="ask") == "ask"
    assert verdict("rm 'a b'", ("allow", "bash", "rm a*b"), mode="ask") == "allow"
    assert verdict("'rm a' b", ("allow", "bash", "rm a b"), mode="ask") == "ask"
    assert verdict("rm a '' b", ("allow", "bash", "rm a b"), mode="ask") == "ask"


def test_every_command_of_a_line_needs_a_rule_and_each_may_have_its_own() -> None:
    rules: list[tuple[ApprovalAction, str, str | None]] = [("allow", "bash", "git *"), ("allow", "bash", "wc -l")]
    assert verdict("git ls-files | wc -l", *rules, mode="ask") == "allow"
    assert verdict("git ls-files | wc -c", *rules, mode="ask") == "ask"


def test_a_rule_that_asks_softens_a_refusal_only_for_what_is_certain() -> None:
    assert verdict("git push", ("ask", "bash", "git push *"), mode="deny") == "ask"
    assert verdict("git push; ls", ("ask", "bash", "git push *"), mode="deny") == "deny"
    assert verdict("$x push", ("ask", "bash", "git push *"), mode="deny") == "deny"
    assert verdict("git push $x", ("ask", "bash", "git push *"), mode="deny") == "deny"
    assert verdict("git push $x", ("ask", "bash", "git push *"), mode="auto") == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "echo $HOME",
        "ls *.py",
        "make test",
        'git commit -m "rm x"',
        "timeout 60 make",
        "find . -name '*.py'",
        "python x.py",
        "A='b' make",
        "bash -o pipefail x.sh",
        "env -i A=b make",
        "[ -f x ] && make",
        '[ "$a" -eq 1 ] || test -n "$b"',
        "make &>/dev/null; ls",
        "make 2>&1 >&2 <&-",
        "bash x.sh 5",
        "bash dev/setup.sh",
        "sleep 1 & wait $!",
        "IFS=$'\\n'",
        "printf '[%s]' x",
        "export PATH=$PATH:x",
        "declare -A a",
        "sudo ls",
        "su -c 'git status'",
        "set -euo pipefail",
        "grep PS4 x",
        'while read -r line; do echo "$line"; done',
        "ec\\\nho a",
        "# rm x",
        "A=b",
    ],
)
def test_a_rule_that_forbids_leaves_other_commands_alone(line: str) -> None:
    assert verdict(line, ("deny", "bash", "rm *")) == "allow"


def test_the_strictest_rule_holds_wherever_it_stands() -> None:
    rules: list[tuple[ApprovalAction, str, str | None]] = [
        ("allow", "bash", None),
        ("ask", "bash", "git *"),
        ("deny", "bash", "git push *"),
    ]
    for order in (rules, rules[::-1]):
        assert verdict("ls", *order) == "allow"
        assert verdict("git log", *order) == "ask"
        assert verdict("git log; git push", *order) == "deny"
        assert verdict("git $what", *order) == "deny"


def test_a_rule_without_a_pattern_is_about_every_call() -> None:
    assert verdict("cat <<E\n$(x)\nE", ("allow", "bash", None), mode="deny") == "allow"
    assert verdict("cat <<E\n$(x)\nE", ("allow", "bash", "*"), mode="deny") == "allow"
    assert verdict("", ("deny", "*", None)) == "deny"


def test_an_empty_line_and_input_for_a_running_command_are_covered_by_no_pattern() -> None:
    assert verdict("", ("allow", "bash", "git *"), mode="ask") == "ask"
    assert verdict("", ("deny", "bash", "rm *")) == "deny"


def test_the_grammar_of_another_shell_is_not_guessed() -> None:
    fish = PatternContext("/there", "/home/u", knows_shell=False)
    assert verdict("git status", ("allow", "bash", "git *"), mode="ask", around=fish) == "ask"
    assert verdict("git status", ("deny", "bash", "rm *"), around=fish) == "deny"


def test_a_tool_by_the_same_name_in_other_letters_is_forbidden_too_but_not_allowed() -> None:
    rules: list[tuple[ApprovalAction, str, str | None]] = [("deny", "bash", None)]
    assert verdict("x", *rules, tool="Bash", kind="arguments") == "deny"
    assert verdict("x", ("allow", "bash", None), tool="Bash", kind="arguments", mode="ask") == "ask"


def test_only_harmless_tools_need_no_question() -> None:
    modes: list[ApprovalMode] = ["ask", "deny"]
    for mode in modes:
        assert verdict("/there/x", tool="read", kind="path", mode=mode, harmless=True) == "allow"
        assert verdict("/there/x", tool="read", kind="path", mode=mode) == mode
    assert verdict("/there/x", ("deny", "read", None), tool="read", kind="path", harmless=True) == "deny"


def test_file_rules_follow_links() -> None:
    # Named in the working directory, but a link to somewhere else.
    where = {"tool": "write", "kind": "path", "mode": "ask"}
    assert verdict("/etc/passwd", ("allow", "write", "src/**"), named="/there/src/x", **where) == "ask"  # type: ignore[arg-type]
    assert verdict("/there/src/x", ("allow", "write", "src/**"), named="/there/link", **where) == "allow"  # type: ignore[arg-type]
    assert verdict("/there/y", ("deny", "write", "src/**"), named="/there/src/x", **where) == "deny"  # type: ignore[arg-type]
    assert verdict("/there/src/x", ("deny", "write", "src/**"), named="/there/link", **where) == "deny"  # type: ignore[arg-type]
    assert verdict("/there/SRC/x", ("deny", "write", "src/**"), **where) == "deny"  # type: ignore[arg-type]


def test_arguments_of_other_tools_are_matched_as_json() -> None:
    assert (
        verdict('{"repo":"mine"}', ("allow", "mcp_*", '{"repo":"mine"}'), tool="mcp_git", kind="arguments", mode="ask") == "allow"
    )
    assert (
        verdict('{"repo":"other"}', ("allow", "mcp_*", '{"repo":"mine"}'), tool="mcp_git", kind="arguments", mode="ask") == "ask"
    )
