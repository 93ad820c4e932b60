"""Which rules an answer to an approval may write, and what such a rule covers: never more than it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.config.settings import ApprovalMode, ApprovalRule
from fairlead.core.approval import NewRule
from fairlead.policy.approvals import PatternContext, Policy, Subject
from fairlead.policy.offers import as_rule, find_problem, suggest_patterns

AROUND = PatternContext("/work/app", "/home/me")
PROJECT = "/work/app"


def offered(line: str) -> list[str]:
    return suggest_patterns(Subject("command", line), PROJECT, is_any_call=False)


def verdict(rule: NewRule, line: str, *, tool: str = "bash", cwd: str = PROJECT, mode: ApprovalMode = "ask") -> str:
    policy = Policy(mode, [as_rule("bash", rule, PROJECT)])
    return policy.verdict(tool, harmless=False, subject=Subject("command", line), around=PatternContext(cwd, "/home/me")).action


def problem(pattern: str, line: str, *rules: ApprovalRule, everywhere: bool = False) -> str | None:
    rule = as_rule("bash", NewRule(pattern, everywhere), PROJECT)
    return find_problem(Policy("ask", rules), "bash", Subject("command", line), AROUND, rule)


@pytest.mark.parametrize(
    ("line", "patterns"),
    [
        ("git diff", ["git diff", "git diff *"]),
        ("git diff --stat HEAD~1", ["git diff --stat HEAD~1", "git diff *"]),
        ("git status", ["git status", "git status *"]),
        ("ls -la src", ["ls -la src", "ls *"]),
        ("make test", ["make test"]),
        ("./build.sh --fast", ["./build.sh --fast"]),
        ("rm -r build", ["rm -r build"]),
        ("python tool.py", ["python tool.py"]),
        ("git push origin main", ["git push origin main"]),
        ("docker ps", ["docker ps", "docker ps *"]),
        # A pattern with the subcommand covers its options, so those that change something get no wildcard.
        ("git branch", ["git branch"]),
        ("git stash list", ["git stash list"]),
        ("git tag", ["git tag"]),
        ("git add a.py", ["git add a.py"]),
        ("npm test", ["npm test"]),
        # Programs that show any file would show protected ones.
        ("cat notes.txt", ["cat notes.txt"]),
        ("curl https://example.com/x", ["curl https://example.com/x"]),
        # The words of a pattern are compared without quotes: only a wildcard stands for a space inside.
        ("git commit -m 'fix it'", []),
        ("ls 'my folder'", ["ls *"]),
    ],
)
def test_the_offer_is_narrow_first(line: str, patterns: list[str]) -> None:
    assert offered(line) == patterns


@pytest.mark.parametrize(
    "line",
    [
        "git status; git diff",
        "git diff && rm -r build",
        "git diff | tee out",
        "git diff\nrm x",
        "ls $HOME",
        "ls `pwd`",
        "ls $(pwd)",
        "ls *.py",
        "ls ~",
        "git diff > out",
        "git diff & rm x",
        "A=1 git diff",
        "(git diff)",
        "git diff # all",
        "git\u00a0diff",
        "git diff 'a\u200bb'",
        "git diff 'a\ufe00'",
        "ls 'a*'",
        "ls 'a?'",
        "",
        "   ",
        "git diff \\",
        "git diff " + "x" * 600,
    ],
)
def test_lines_that_hide_something_get_no_wildcard(line: str) -> None:
    assert all("*" not in pattern for pattern in offered(line)) or line.startswith("ls 'a") or "x" * 600 in line
    if not line.startswith("ls '") and "x" * 600 not in line:
        assert offered(line) == []


def test_a_harmless_redirection_gets_the_exact_command_alone() -> None:
    assert offered("git diff 2>/dev/null") == ["git diff"]
    assert offered("git diff 2>&1") == ["git diff"]


@pytest.mark.parametrize(
    ("pattern", "line", "action"),
    [
        ("git diff", "git diff", "allow"),
        ("git diff", "git diff --stat", "ask"),
        ("git diff *", "git diff --stat", "allow"),
        ("git diff *", "git diff --output=x", "ask"),
        ("git diff *", "git diff; rm x", "ask"),
        ("git diff *", "git diff $(rm x)", "ask"),
        ("git diff *", "git diffx", "ask"),
        ("git status *", "git stash drop", "ask"),
    ],
)
def test_a_rule_covers_what_it_says(pattern: str, line: str, action: str) -> None:
    assert verdict(NewRule(pattern), line) == action


def test_two_rules_cover_a_line_of_both_commands() -> None:
    policy = Policy("ask", [as_rule("bash", NewRule(pattern), PROJECT) for pattern in ("git diff *", "git status *")])
    line = Subject("command", "git status && git diff --stat")
    assert policy.verdict("bash", harmless=False, subject=line, around=AROUND).action == "allow"


@pytest.mark.parametrize("cwd", ["/work/app", "/work/app/src/deep"])
def test_a_rule_of_a_project_holds_in_its_directories(cwd: str) -> None:
    assert verdict(NewRule("git diff"), "git diff", cwd=cwd) == "allow"


@pytest.mark.parametrize("cwd", ["/work/other", "/work", "/work/application", "/"])
def test_a_rule_of_a_project_does_not_hold_elsewhere(cwd: str) -> None:
    assert verdict(NewRule("git diff"), "git diff", cwd=cwd) == "ask"
    assert verdict(NewRule("git diff", everywhere=True), "git diff", cwd=cwd) == "allow"


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("*", "begin with the name of a program"),
        ("* diff", "begin with the name of a program"),
        ("gi*", "begin with the name of a program"),
        ("?it diff", "begin with the name of a program"),
        ("", "without spaces"),
        (" git diff", "without spaces"),
        ("git diff ", "without spaces"),
        ("git diff\n*", "invisible"),
        ("git diff\u200b", "invisible"),
        ("git status", "does not cover this call"),
        ("rm *", "does not cover this call"),
        ("git diff --outp*", "does not cover this call"),
        ("x" * 501, "at most 500"),
    ],
)
def test_a_rule_that_the_user_edited_has_to_be_readable_and_about_the_call(pattern: str, says: str) -> None:
    assert says in (problem(pattern, "git diff --stat") or "")


def test_a_rule_that_the_user_edited_may_be_wider() -> None:
    assert problem("git *", "git diff --stat") is None
    assert problem("mytool *", "mytool --fast") is None


def test_a_rule_that_would_change_nothing_is_not_written() -> None:
    stricter = ApprovalRule("ask", "bash", "git *", only_stricter=True)
    assert "Another rule is stricter" in (problem("git diff", "git diff", stricter) or "")


def paths(path: str) -> list[str]:
    return suggest_patterns(Subject("path", path, path), PROJECT, is_any_call=False)


def test_a_file_of_the_project_is_named_from_there() -> None:
    assert paths("/work/app/src/a.py") == ["./src/a.py", "./src/**"]
    assert paths("/work/app/a.py") == ["./a.py"]
    assert paths("/etc/hosts") == ["/etc/hosts"]
    assert paths("/work/app/a*.py") == [] and paths("/work/app/a\u200b.py") == []


def test_a_rule_about_a_file_starts_at_the_project_wherever_the_session_works(tmp_path: Path) -> None:
    rule = ApprovalRule("allow", "write", "./a.py", project="/work/app")

    def action(path: str, cwd: str) -> str:
        return (
            Policy("ask", [rule])
            .verdict("write", harmless=False, subject=Subject("path", path, path), around=PatternContext(cwd, "/home/me"))
            .action
        )

    assert action("/work/app/a.py", "/work/app/src") == "allow"
    assert action("/work/app/src/a.py", "/work/app/src") == "ask"


@pytest.mark.parametrize("pattern", ["./a.py", "*", "/**", "**", "~/*"])
def test_a_rule_about_files_in_every_project_names_an_absolute_path(pattern: str) -> None:
    rule = as_rule("write", NewRule(pattern, everywhere=True), PROJECT)
    subject = Subject("path", "/work/app/a.py", "/work/app/a.py")
    assert find_problem(Policy("ask"), "write", subject, AROUND, rule)


def test_a_tool_without_a_subject_gets_its_arguments_or_all_calls() -> None:
    subject = Subject("arguments", '{"id":1}')
    assert suggest_patterns(subject, PROJECT, is_any_call=True) == ['{"id":1}', "*"]
    assert suggest_patterns(subject, PROJECT, is_any_call=False) == ['{"id":1}']
    assert suggest_patterns(Subject("arguments", '{"q":"a*"}'), PROJECT, is_any_call=True) == ["*"]
