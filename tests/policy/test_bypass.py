"""Command lines that do what a rule forbids, in other words."""

from __future__ import annotations

import pytest
from tests.policy.verdicts import AROUND, verdict

from fairlead.config.settings import ApprovalAction, ApprovalRule
from fairlead.policy.approvals import Policy, Subject

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
    "bash -c 'ok | rm x'",
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
    ["git -C . push", "git --no-pager push", "git -c a=b -C . push origin", "env git -C . push", "bash -c 'git -C . push'"],
)
def test_options_before_what_is_forbidden_do_not_hide_it(line: str) -> None:
    rules: list[tuple[ApprovalAction, str, str | None]] = [("allow", "bash", "git *"), ("ask", "bash", "git push *")]
    assert verdict(line, *rules) == "ask"
    assert verdict(line.replace("push", "log"), *rules) == "allow"


@pytest.mark.parametrize("line", ["echo $(" * 5000, "env " * 1000 + "x", "git " + "-x " * 100, "x " * 50_000])
def test_commands_too_costly_to_analyse_count_as_denied(line: str) -> None:
    assert verdict(line, ("deny", "bash", "rm *"), ("deny", "bash", "git push *")) == "deny"
    assert verdict(line, ("allow", "bash", "git status"), mode="ask") == "ask"


def test_a_refusal_says_when_the_line_could_not_be_read() -> None:
    policy = Policy("auto", [ApprovalRule("deny", "bash", "rm *")])

    def because(line: str) -> str:
        return policy.verdict("bash", harmless=False, subject=Subject("command", line), around=AROUND).because

    assert because("rm x") == 'approvals.rules: deny bash "rm *"'
    assert because("cat <<END\nx\nEND").endswith("which may apply: the command cannot be parsed with certainty")
