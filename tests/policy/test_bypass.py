"""Ways to get done what is not allowed."""

from __future__ import annotations

import pytest

from fairlead.config.settings import ApprovalAction, ApprovalMode, ApprovalRule
from fairlead.policy.approvals import Kind, PatternContext, Policy, Subject

AROUND = PatternContext("/there", "/home/u")

#: Every one of these would delete a file, or may.
DELETES = [
    "rm x",
    "  rm x",
    "\trm x",
    "git status; rm x",
    "git status;rm x",
    "git status && rm x",
    "git status || rm x",
    "git status | rm x",
    "git status |& rm x",
    "git status & rm x",
    "git status\nrm x",
    "git status\n\n\trm x",
    "git status # harmless\nrm x",
    "(rm x)",
    "( (rm x) )",
    "{ rm x; }",
    "! rm x",
    "if true; then rm x; fi",
    "while rm x; do :; done",
    "for f in x; do rm $f; done",
    "case a in a) rm x;; esac",
    "f() { rm x; }; f",
    "function f { rm x; }; f",
    "echo $(rm x)",
    'echo "$(rm x)"',
    "echo $(echo $(rm x))",
    "echo `rm x`",
    'echo "`rm x`"',
    "echo ${a:-$(rm x)}",
    "echo $(( $(rm x) ))",
    "echo $[$(rm x)]",
    "cat <(rm x)",
    "cat <<END\n$(rm x)\nEND",
    "cat <<< $(rm x)",
    "a=$(rm x)",
    "X=1 rm x",
    "X=1 Y=2 rm x",
    "X='1' rm x",
    'X="1" Y=\\2 rm x',
    "X='$(rm x)'; PS4=$X; set -x; :",
    "PS4='$(rm x)'; set -x; :",
    "command rm x",
    "command -p rm x",
    "builtin command rm x",
    "exec rm x",
    "env rm x",
    "env -i A=b rm x",
    "/usr/bin/env rm x",
    "nohup rm x",
    "nice -n 5 rm x",
    "timeout 5 rm x",
    "time rm x",
    "time -p rm x",
    "setsid rm x",
    "sudo rm x",
    "echo x | xargs rm",
    "echo rm x | xargs env",
    "find . -name x -exec rm {} ;",
    "find . -exec /bin/rm {} +",
    "busybox rm x",
    "prlimit rm x",
    "/lib64/ld-linux-x86-64.so.2 /bin/rm x",
    "env -S'rm x'",
    "env '-S rm x'",
    "env -Srm x",
    "env -iSrm x",
    "env --split-string='rm x'",
    "flock x -c'rm x'",
    "parallel rm ::: x",
    "mapfile -c1 -C 'rm x;' a <<< y",
    "compgen -C 'rm x'",
    "compgen -W '$(rm x)'",
    "at now <<< 'rm x'",
    "eval rm x",
    "eval 'true;rm' x",
    "eval 'rm x'",
    "eval 'r''m' x",
    "trap 'rm x' EXIT",
    "bash -c 'rm x'",
    "sh -c rm\\ x",
    "bash -c 'bash -c \"rm x\"'",
    'bash -c "$cmd"',
    "echo rm x | sh",
    "echo rm x | bash -s",
    "echo rm x | env bash",
    "bash < script",
    "bash /dev/stdin <<< 'rm x'",
    "bash -o pipefail <<< 'rm x'",
    "bash --init-file x <<< 'rm x'",
    "echo rm x | . /dev/stdin",
    "source /dev/fd/0 <<< 'rm x'",
    "rbash -c 'rm x'",
    "\\rm x",
    "'rm' x",
    '"rm" x',
    "r'm' x",
    'r"m" x',
    "r\\m x",
    "r\\\nm x",
    "rm\\\n x",
    "$'rm' x",
    "$'\\x72m' x",
    "/bin/rm x",
    "/bin/../bin/rm x",
    "./rm x",
    "/bin/r? x",
    "/bin/[r]m x",
    "{rm,x}",
    "$(echo rm) x",
    "$cmd x",
    "${cmd} x",
    "$empty rm x",
    "${empty}rm x",
    "alias a=rm; a x",
    "hash -p /bin/rm a; a x",
    "2>/dev/null rm x",
    ">log rm x",
    "2>&1 rm x",
    "</dev/null rm x",
    "printf -v 'a[$(rm x)]' y",
    "test -v 'a[$(rm x)]'",
    "coproc rm x",
    # A backslash before the end of a line disappears before the shell looks at anything else.
    'echo "$\\\n(rm x)"',
    "echo $\\\n\\\n(rm x)",
    "echo $\\\n{a:-$(rm x)}",
    "FO\\\nO=1 rm x",
    "FOO+\\\n=1 rm x",
    "git status &\\\n& rm x",
    "git status;\\\nrm x",
    "git status 2>&1\\\n; rm x",
    "cat <\\\n(rm x)",
    "cat <\\\n<E\n$(rm x)\nE",
    "(\\\n( a[$(rm x)] ))",
    "b\\\nash -c 'rm x'",
    "bash -c 'r\\\nm x'",
    "e\\\nval 'rm x'",
    "if :; th\\\nen rm x; fi",
    "\\\nrm x",
    # But not in a comment, and not after another backslash.
    "git status # \\\nrm x",
    "bash -c 'git status # \\\nrm x'",
    "git status \\\\\nrm x",
    # Subscripts are evaluated, at once or later.
    "echo {a['$(rm x)']}>/dev/null",
    "echo {a[\\\n'$(rm x)']}>/dev/null",
    "a['$(rm x)']=1",
    "a[ $(rm x) ]=1",
    "a[b]=1 rm x",
    "[ -v 'a[$(rm x)]' ]",
    "[[ -v a['$(rm x)'] ]]",
    "[[ 'a[$(rm x)]' -eq 1 ]]",
    "((a['$(rm x)']))",
    "echo ${a['$(rm x)']}",
    "let 'a[$(rm x)]'",
    "declare 'a[$(rm x)]=1'",
    "declare -n a='b[$(rm x)]'; echo $a",
    "unset 'a[$(rm x)]'",
    "read 'a[$(rm x)]'",
    "wait -n -p 'a[$(rm x)]'",
    "x=$'a[\\x24(rm x)]'; test -v \"$x\"",
    'd=\'$\'; x="a[$d(rm x)]"; test -v "$x"',
    "d='$'; x=\"a[$d(rm x)]\"; declare -i y; y=$x",
    "d='$'; x=\"a[$d(rm x)]\"; unset $x",
    'd=\'$\'; x="a[$d(rm x)]"; declare -a "b=([$x]=1)"',
    'd=\'$\'; x="([a[$d(rm x)]]=1)"; declare -a "b=$x"',
    "d='$'; PS4=\"$d(rm x)\"; set -x; :",
    "printf -v PS4 '\\x24(rm x)'; set -x; :",
    "printf -v 'BASH_CMDS[ls]' /bin/rm; ls x",
    "BASH_CMDS[ls]=/bin/rm; ls x",
    "BASH_ALIASES[ls]=rm",
    # Targets of >& and <& are expanded twice.
    "echo >&'$(rm x)'",
    "echo <& '`rm x`'",
    # Commands that come from the input.
    "bash /dev/./stdin <<< 'rm x'",
    "bash //dev//stdin <<< 'rm x'",
    "bash /dev/../dev/stdin <<< 'rm x'",
    "bash /proc/self/fd/0 <<< 'rm x'",
    "bash /proc/self/root/dev/stdin <<< 'rm x'",
    "bash ../../../dev/stdin <<< 'rm x'",
    "cd /; bash dev/fd/0 <<< 'rm x'",
    "cd /dev; bash stdin <<< 'rm x'",
    "cd /dev/fd && bash ./0 <<< 'rm x'",
    "cd /dev && . ./stdin <<< 'rm x'",
    "bash +x <<< 'rm x'",
    "bash -oe pipefail <<< 'rm x'",
    "bash -oo errexit pipefail <<< 'rm x'",
    "bash -rcfile x <<< 'rm x'",
    "sudo -s <<< 'rm x'",
    "sudo -u root -i <<< 'rm x'",
    "unshare -r <<< 'rm x'",
    "su root <<< 'rm x'",
    "chroot / <<< 'rm x'",
    "jobs -x rm x",
    "BASH_ENV=/dev/stdin bash -c : <<< 'rm x'",
    "env BASH_ENV=/dev/stdin bash -c : <<< 'rm x'",
    "-s",
    "+x",
    "-x 'rm x'",
    "bash -c -x 'rm x'",
    "bash -c '+x' 'rm x'",
    "bash -x -c -e 'rm x'",
    "sh -c -- 'rm x'",
    # What bash and sh read differently.
    "git status &>y rm x",
    "git status &>y $(git log) rm x",
    "echo $'a\\'; rm x; echo '",
    # The history, other runners, and file systems without upper and lower case.
    "set -H -o history\n!git",
    "history -s rm x",
    "find . $x rm {} ;",
    "uv run rm x",
    "npx rm x",
    "RM x",
    "/bin/RM x",
    "BASH -c 'rm x'",
    "git status;; rm x",
    "'unfinished; rm x",
]


def verdict(
    text: str,
    *rules: tuple[ApprovalAction, str, str | None],
    mode: ApprovalMode = "auto",
    tool: str = "bash",
    kind: Kind = "command",
    named: str = "",
    harmless: bool = False,
    around: PatternContext = AROUND,
) -> str:
    policy = Policy(mode, [ApprovalRule(action, tool, pattern) for action, tool, pattern in rules])
    return policy.verdict(tool, harmless=harmless, subject=Subject(kind, text, named), around=around).action


@pytest.mark.parametrize("line", DELETES)
def test_a_forbidden_program_is_not_run_in_other_words(line: str) -> None:
    assert verdict(line, ("deny", "bash", "rm *")) == "deny"
    assert verdict(line, ("ask", "bash", "rm *")) == "ask"


@pytest.mark.parametrize("line", DELETES)
def test_an_allowed_program_does_not_bring_another_along(line: str) -> None:
    assert verdict(line, ("allow", "bash", "git *"), ("allow", "bash", "echo *"), mode="ask") == "ask"
    assert verdict(line, ("allow", "bash", "git *"), ("allow", "bash", "true"), mode="deny") == "deny"


@pytest.mark.parametrize(
    "line",
    [
        "git log > ~/.bashrc",
        "git log 2> x",
        "PATH=/tmp/evil git status",
        "GIT_SSH_COMMAND=evil git fetch",
        "./git status",
        "/tmp/git status",
        "g\u0456t status",
        "git\u00a0status",
        "git\u2003status",
        "\u200bgit status",
        "Git status",
        "git-shell status",
        "> x",
    ],
)
def test_an_allowed_program_is_that_program_and_nothing_more(line: str) -> None:
    assert verdict(line, ("allow", "bash", "git *"), mode="deny") == "deny"


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
def test_what_is_allowed_needs_no_question(line: str) -> None:
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


@pytest.mark.parametrize(
    "line",
    ["git -C . push", "git --no-pager push", "git -c a=b -C . push origin", "env git -C . push", "bash -c 'git -C . push'"],
)
def test_options_before_what_is_forbidden_do_not_hide_it(line: str) -> None:
    rules: list[tuple[ApprovalAction, str, str | None]] = [("allow", "bash", "git *"), ("ask", "bash", "git push *")]
    assert verdict(line, *rules) == "ask"
    assert verdict(line.replace("push", "log"), *rules) == "allow"


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


@pytest.mark.parametrize("line", ["echo $(" * 5000, "env " * 1000 + "x", "git " + "-x " * 100, "x " * 50_000])
def test_what_takes_long_to_follow_is_taken_for_what_is_forbidden(line: str) -> None:
    assert verdict(line, ("deny", "bash", "rm *"), ("deny", "bash", "git push *")) == "deny"
    assert verdict(line, ("allow", "bash", "git status"), mode="ask") == "ask"


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


def test_a_file_is_meant_wherever_links_lead() -> None:
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


def test_a_refusal_says_when_the_line_could_not_be_read() -> None:
    policy = Policy("auto", [ApprovalRule("deny", "bash", "rm *")])

    def because(line: str) -> str:
        return policy.verdict("bash", harmless=False, subject=Subject("command", line), around=AROUND).because

    assert because("rm x") == 'approvals.rules: deny bash "rm *"'
    assert because("cat <<END\nx\nEND").endswith("which may apply: the command cannot be parsed with certainty")
