"""Rule files: what is read from them, and what is said of those that cannot be used."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead.config.home import Home
from fairlead.config.settings import RuleSettings
from fairlead.config.settings_files import load_settings
from fairlead.session.rules.stream_rules import Rule, Scope, injection, load_rules, parse_scope, read_rule, reminder

#: The rule in a `ttsr_triggered` of omp 14, whose file is `RECORDED_FILE`.
RECORDED: dict[str, Any] = {
    "name": "no-forbidden",
    "path": "/project/.omp/rules/no-forbidden.md",
    "content": "Do not say that word. Use ALLOWED.",
    "alwaysApply": False,
    "description": "no forbidden",
    "condition": ["FORBIDDEN_WORD"],
    "scope": ["text"],
    "_source": {
        "provider": "native",
        "providerName": "OMP",
        "path": "/project/.omp/rules/no-forbidden.md",
        "level": "project",
    },
}
RECORDED_FILE = """\
---
description: no forbidden
condition: "FORBIDDEN_WORD"
scope: text
---
Do not say that word. Use ALLOWED.
"""


def write(path: Path, *front_matter: str, body: str = "Do not.") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["---", *front_matter, "---", body, ""]))
    return path


def as_json(rule: Rule) -> dict[str, Any]:
    return msgspec.json.decode(msgspec.json.encode(rule))


def test_a_rule_reads_as_hosts_of_omp_know_it(tmp_path: Path) -> None:
    path = tmp_path / "no-forbidden.md"
    path.write_text(RECORDED_FILE)
    source = {**RECORDED["_source"], "providerName": "fairlead", "path": str(path)}
    assert as_json(read_rule(path)[0]) == {**RECORDED, "path": str(path), "_source": source}


def test_every_field_is_read(tmp_path: Path) -> None:
    path = write(
        tmp_path / "all.mdc",
        "description: About everything",
        "globs: src/**/*.{ts,tsx}, *.js",
        "alwaysApply: true",
        "condition:",
        r"  - '\bany\b'",
        "  - as unknown",
        "scope: [text, thinking, 'tool:edit(*.{a,b})', write(src/*.py), tool:bash, tool]",
        "interruptMode: prose-only",
        "repeatMode: after-gap",
        "repeatGap: 3",
        body="# Title\n\nBody.",
    )
    rule, unknown = read_rule(path, "user")
    assert unknown == []
    assert as_json(rule) == {
        "name": "all",
        "path": str(path),
        "content": "# Title\n\nBody.",
        "alwaysApply": True,
        "description": "About everything",
        "globs": ["src/**/*.{ts,tsx}", "*.js"],
        "condition": [r"\bany\b", "as unknown"],
        "scope": ["text", "thinking", "tool:edit(*.{a,b})", "write(src/*.py)", "tool:bash", "tool"],
        "interruptMode": "prose-only",
        "repeatMode": "after-gap",
        "repeatGap": 3,
        "_source": {"provider": "native", "providerName": "fairlead", "path": str(path), "level": "user"},
    }


def test_older_and_shorter_names_of_fields_count(tmp_path: Path) -> None:
    rule, _ = read_rule(write(tmp_path / "old.md", "ttsr_trigger: x", "repeat: after-gap"))
    assert (rule.condition, rule.repeat_mode) == (["x"], "after-gap")


def test_absent_rule_fields_get_defaults(tmp_path: Path) -> None:
    path = write(tmp_path / "plain.mdc", "description:", "globs:", "alwaysApply: false", "condition: []", "tags: [a]")
    rule, unknown = read_rule(path)
    assert as_json(rule).keys() == {"name", "path", "content", "alwaysApply", "_source"}
    assert unknown == ["tags"]
    bare = tmp_path / "bare.md"
    bare.write_text("\ufeffNo front matter.\n")
    assert read_rule(bare)[0].content == "No front matter."


def test_the_rule_of_the_project_takes_the_place_of_the_user_s(tmp_path: Path) -> None:
    home, cwd = Home(tmp_path / "home"), tmp_path / "work"
    write(home.root / "rules" / "b.md", "condition: b", body="The user's b.")
    write(home.root / "rules" / "a.md", "condition: a", body="The user's a.")
    write(cwd / ".fairlead" / "rules" / "b.mdc", "condition: b", body="The project's b.")
    write(cwd / ".fairlead" / "rules" / "notes.txt", "condition: [")
    write(cwd / ".fairlead" / "rules" / ".hidden.md", "condition: [")
    rules, problems = load_rules(home.rules_folders(cwd))
    assert problems == []
    assert [(rule.content, rule.source.level) for rule in rules] == [("The user's a.", "user"), ("The project's b.", "project")]


def test_without_folders_there_are_no_rules(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert load_rules(home.rules_folders(tmp_path)) == ([], [])
    write(home.root / "rules" / "a.md", "condition: a")
    assert load_rules(Home(home.root, isolated=True).rules_folders(tmp_path)) == ([], [])
    assert [level for level, _ in Home(tmp_path / ".fairlead").rules_folders(tmp_path)] == ["user"]


def test_one_bad_file_costs_no_other_rule(tmp_path: Path) -> None:
    write(tmp_path / "good.md", "condition: a")
    write(tmp_path / "good.mdc", "condition: b")
    write(tmp_path / "bad.md", "condition: (")
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "latin.md").write_bytes(b"---\ncondition: \xe4\n---\nx")
    os.mkfifo(tmp_path / "pipe.md")
    rules, problems = load_rules([("project", tmp_path)])
    assert [rule.name for rule in rules] == ["good"] and rules[0].condition == ["a"]
    assert [problem.split(": ")[0] for problem in problems] == [
        str(tmp_path / name) for name in ("good.mdc", "bad.md", "folder.md", "latin.md", "pipe.md")
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("condition: (", "condition: ( is not a regular expression that can be used: missing ) at position 1."),
        (r'condition: "\bany\b"', "Use single quotes."),
        ("condition: [a, '']", "condition:  is not a regular expression that can be used: an empty pattern"),
        ("condition: " + "a" * 6000, "longer than 5,000 characters"),
        ("condition: '" + "(" * 2000 + "a" + ")" * 2000 + "(?!b)'", "it is nested too deeply"),
        ("scope: txt", 'scope: expected text, thinking, tool, tool:NAME, NAME(glob) or tool:NAME(glob), found "txt".'),
        ("scope: edit", "For the tool named edit, write tool:edit."),
        ("scope: edit(*.py", 'scope: "edit(*.py" has no closing parenthesis.'),
        ("scope: edit()", "scope: an empty glob matches nothing."),
        ("scope: text,", 'found "".'),
        ("globs: '*.py,'", "globs: an empty glob matches nothing."),
        ("globs: 'a[z-a]'", "globs: a[z-a] is not a usable glob pattern"),
        ("interruptMode: sometimes", 'interruptMode: expected always, prose-only, tool-only or never, found "sometimes".'),
        ("repeatMode: twice", 'repeatMode: expected once or after-gap, found "twice".'),
        ("repeatGap: many", 'repeatGap: expected a whole number, found "many".'),
        ("alwaysApply: maybe", 'alwaysApply: expected true or false, found "maybe".'),
        ("description: [a]", "description: expected a text, found a list."),
        ("condition: {a: b}", "condition: expected a text or a list of texts, found an object."),
        ("condition: [[a]]", "condition: expected a text or a list of texts, found a list in a list."),
        ("repeatGap: {a: b}", "repeatGap: expected a whole number, found an object."),
        ("condition: 'a", "line 2: while scanning a quoted scalar: found unexpected end of stream."),
    ],
)
def test_invalid_rule_fields_are_explained(tmp_path: Path, line: str, said: str) -> None:
    path = write(tmp_path / "bad.md", line)
    rules, (problem,) = load_rules([("user", tmp_path)])
    assert rules == []
    assert problem.startswith(f"{path}: ") and said in problem, problem


def test_a_condition_needs_something_to_tell(tmp_path: Path) -> None:
    write(tmp_path / "empty.md", "condition: a", body="  ")
    assert "no text for the model after the front matter" in load_rules([("user", tmp_path)])[1][0]


def test_scopes() -> None:
    assert parse_scope("text") == Scope("text")
    assert parse_scope("thinking") == Scope("thinking")
    assert parse_scope("tool") == Scope("tool")
    assert parse_scope("tool(*.py)") == Scope("tool", None, "*.py")
    assert parse_scope("tool:bash") == Scope("tool", "bash")
    assert parse_scope("edit(src/**)") == parse_scope("tool:edit(src/**)") == Scope("tool", "edit", "src/**")
    assert parse_scope("tool:tool") == Scope("tool", "tool")


def test_the_reminder_names_the_rule_and_its_file(tmp_path: Path) -> None:
    first = read_rule(write(tmp_path / 'a "b" <c>.md', body="Use <b> & co."))[0]
    second = read_rule(write(tmp_path / "other.md", body="And this."))[0]
    told = injection([first, second])
    name = "a &quot;b&quot; &lt;c&gt;"
    assert told.startswith(f'<system-interrupt reason="rule_violation" rule="{name}" path="{tmp_path}/{name}.md">\n')
    assert told.count("</system-interrupt>") == 2 and told.endswith("\n\nAnd this.\n</system-interrupt>")
    assert "\n\nUse <b> & co.\n</system-interrupt>\n\n<system-interrupt " in told
    assert reminder([second]).startswith('<system-reminder reason="rule_violation" rule="other" ')
    assert reminder([second]).endswith("\n\nAnd this.\n</system-reminder>")


def test_the_settings_of_rules(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert load_settings(home, tmp_path)[0].stream_rules == RuleSettings(True, "discard", "always", "once", 10, [])
    home.settings_path.write_text(json.dumps({"ttsr": {"contextMode": "keep", "interruptMode": "often", "disabledRules": ["a"]}}))
    settings, (warning,) = load_settings(home, tmp_path / "elsewhere")
    assert settings.stream_rules == RuleSettings(context_mode="keep", disabled_rules=["a"])
    assert 'ttsr.interruptMode: expected one of "always", "never", "prose-only", "tool-only", found "often"' in warning
