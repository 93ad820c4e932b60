"""Rules against what a model writes: which match, when, how often, and at what cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from fairlead.config.settings import RuleSettings
from fairlead.session.rules.rule_blocks import LOOKBACK
from fairlead.session.rules.rule_keeper import RuleWatch
from fairlead.session.rules.stream_rules import Rule, RuleSource, StreamKind


def rule(name: str, *condition: str, **fields: Any) -> Rule:
    source = RuleSource("native", "fairlead", f"{name}.md", "project")
    return Rule(name, f"{name}.md", f"No {name}.", source, condition=list(condition), **fields)


def watching(*rules: Rule, **options: Any) -> RuleWatch:
    watch = RuleWatch(rules, **options)
    watch.begin()
    return watch


def names(rules: list[Rule]) -> list[str]:
    return [rule.name for rule in rules]


def pieces(text: str, length: int = 8) -> Iterator[str]:
    return (text[at : at + length] for at in range(0, len(text), length))


def stream(watch: RuleWatch, text: str, kind: StreamKind = "text", tool: str | None = None, index: int = 0) -> list[str]:
    """The names of the rules that match, in the order in which they do; those found at the end of the block after a "|"."""
    growing = [name for piece in pieces(text) for name in names(watch.feed(kind, index, piece, tool=tool))]
    return [*growing, *(f"|{name}" for name in names(watch.end_block(index)))]


def call(watch: RuleWatch, tool: str, **arguments: Any) -> list[str]:
    return stream(watch, json.dumps(arguments), "tool", tool)


def test_a_rule_matches_as_soon_as_its_text_is_there() -> None:
    watch = watching(rule("word", "FORBIDDEN_WORD"))
    assert watch.feed("text", 0, "I will now say FORBIDDEN") == []
    assert names(watch.feed("text", 0, "_WORD and")) == ["word"]


def test_a_rule_is_named_once_in_an_answer() -> None:
    watch = watching(rule("b", "bad"), rule("a", "awful|bad"))
    assert stream(watch, "bad awful bad") == ["b", "a"]
    assert stream(watch, "bad", index=1) == []
    watch.begin()
    assert stream(watch, "awful") == ["a"]


def test_one_of_several_conditions_is_enough() -> None:
    watch = watching(rule("either", "one", "(?<!x)two", "three"))
    assert stream(watch, "xtwo, then two") == ["either"]


def test_blocks_are_apart() -> None:
    watch = watching(rule("ab", "ab"))
    assert watch.feed("text", 0, "a") == watch.feed("text", 1, "b") == []
    assert names(watch.feed("text", 0, "b")) == ["ab"]


def test_an_answer_begins_with_nothing() -> None:
    watch = watching(rule("ab", "ab"))
    watch.feed("text", 0, "a")
    watch.begin()
    assert watch.feed("text", 0, "b") == []


def test_a_word_is_judged_when_it_is_over() -> None:
    watch = watching(rule("any", r"\bany\b"))
    assert watch.feed("text", 0, "as any") == []
    assert watch.feed("text", 0, "thing, as any") == []
    assert names(watch.feed("text", 0, ";")) == ["any"]
    assert stream(watching(rule("any", r"\bany\b")), "as any") == ["|any"]


@pytest.mark.parametrize("condition", ["(?s)BEGIN.*END", "(?s)BEGIN(?!x).*END"])
def test_a_match_longer_than_the_look_back_is_found_at_the_end(condition: str) -> None:
    short = "BEGIN" + "." * (LOOKBACK - 5) + "END"
    assert stream(watching(rule("long", condition)), f"x{short}x") == ["long"]
    long = "BEGIN" + "." * (LOOKBACK + 100) + "END"
    assert stream(watching(rule("long", condition)), f"x{long}x") == ["|long"]


@pytest.mark.parametrize("condition", ["^bar", "(?<!foo)bar", r"\bbar", "(?:^|z)bar(?!x)"])
def test_where_the_look_back_begins_is_not_where_the_text_begins(condition: str) -> None:
    """The text that is looked back at begins everywhere once; nothing may match there that does not in the whole text."""
    text = "foobar" * 3000
    assert stream(watching(rule("bar", condition)), text) == []
    assert stream(watching(rule("bar", condition)), "bar" + text) == ["bar"]


def test_without_a_scope_text_and_tools_are_watched_and_thinking_is_not() -> None:
    watch = watching(rule("bad", "bad"))
    assert stream(watch, "bad", "thinking") == []
    assert call(watch, "bash", command="bad") == ["bad"]
    assert stream(watching(rule("bad", "bad")), "bad") == ["bad"]


@pytest.mark.parametrize(
    ("scope", "matches"),
    [
        ("text", {"text"}),
        ("thinking", {"thinking"}),
        ("tool", {"bash", "write"}),
        ("tool:bash", {"bash"}),
        ("tool:write", {"write"}),
        ("write(*.py)", {"write"}),
        ("tool:write(src/*.py)", {"write"}),
        ("tool(*.py)", {"write"}),
        ("write(*.js)", set[str]()),
        ("bash(*)", set[str]()),
    ],
)
def test_a_scope_says_where_a_rule_looks(scope: str, matches: set[str]) -> None:
    def matched(kind: StreamKind, text: str, tool: str | None = None) -> bool:
        return stream(watching(rule("bad", "bad", scope=[scope])), text, kind, tool) != []

    found = {
        "text": matched("text", "bad"),
        "thinking": matched("thinking", "bad"),
        "bash": matched("tool", '{"command": "bad"}', "bash"),
        "write": matched("tool", '{"path": "src/a.py", "content": "bad"}', "write"),
    }
    assert {name for name, match in found.items() if match} == matches


def test_several_scopes_add_up() -> None:
    watch = watching(rule("bad", "bad", scope=["thinking", "tool:bash"]))
    assert stream(watch, "bad") == []
    assert stream(watch, "bad", "thinking") == ["bad"]


def test_globs_leave_only_calls_about_such_files() -> None:
    def fresh() -> RuleWatch:
        return watching(rule("bad", "bad", globs=["*.py", "lib/*.js"]), cwd="/there")

    assert stream(fresh(), "bad") == []
    assert call(fresh(), "bash", command="bad.py") == []
    assert call(fresh(), "write", path="a.txt", content="bad") == []
    assert call(fresh(), "write", path="a.py", content="bad") == ["bad"]
    assert call(fresh(), "write", path="/there/lib/x.js", content="bad") == ["bad"]
    assert call(fresh(), "grep", path="src/../lib/a.js", pattern="bad") == ["bad"]


def test_a_glob_may_be_tied_to_the_working_directory() -> None:
    def found(path: str) -> bool:
        return call(watching(rule("bad", "bad", globs=["/src/*.py"]), cwd="/there"), "write", path=path, content="bad") != []

    assert found("src/a.py") and found("./src/a.py") and found("/there/src/a.py")
    assert not found("lib/src/a.py") and not found("/elsewhere/src/a.py") and not found("../src/a.py")


def test_write_is_seen_as_the_text_of_the_file() -> None:
    text = 'import os\nprint("ü")\n'
    assert call(watching(rule("print", r'(?m)^print\("ü"\)$')), "write", path="a.py", content=text) == ["print"]
    for not_in_the_file in (r"\\n", "content", "a\\.py", r'\\"'):
        assert call(watching(rule("json", not_in_the_file)), "write", path="a.py", content=text) == []


def test_an_edit_is_seen_as_its_new_texts_each_by_itself() -> None:
    edits = [{"oldText": "before", "newText": "one\ntwo"}, {"oldText": "old", "newText": "three"}]
    assert call(watching(rule("new", r"one\ntwo$")), "edit", path="a", edits=edits) == ["new"]
    assert call(watching(rule("new", "^three$")), "edit", path="a", edits=edits) == ["new"]
    assert call(watching(rule("old", "before|old")), "edit", path="a", edits=edits) == []
    assert call(watching(rule("both", "(?s)two.*three")), "edit", path="a", edits=edits) == []


def test_other_forms_of_an_edit_are_understood_too() -> None:
    edits = [{"oldText": "before", "newText": "a\nb"}]
    assert call(watching(rule("new", r"a\nb")), "edit", path="a", oldText="before", newText="a\nb") == ["new"]
    assert call(watching(rule("new", r"a\nb")), "edit", path="a", edits=json.dumps(edits)) == ["new"]
    assert call(watching(rule("old", "before")), "edit", path="a", edits=json.dumps(edits)) == []


def test_the_tools_under_opals_names_are_seen_by_the_text_they_write() -> None:
    assert call(watching(rule("new", r"(?m)^a$")), "write_file", path="a", content="b\na\n") == ["new"]
    assert call(watching(rule("new", r"(?m)^a$")), "edit_file", path="a", start="1:65", new_string="b\na\n") == ["new"]
    assert call(watching(rule("tag", "1:65")), "edit_file", path="a", start="1:65", new_string="b") == []


def test_a_call_that_has_its_text_elsewhere_is_seen_as_json_at_its_end() -> None:
    assert call(watching(rule("patch", r"\+bad")), "edit", input="*** a\n+bad") == ["|patch"]


@pytest.mark.parametrize("path_first", [True, False])
def test_a_file_may_be_named_after_its_text(path_first: bool) -> None:
    arguments = {"path": "src/a.py", "content": "bad\n" + "fine\n" * 10, "mode": "x"}
    order = ["path", "content", "mode"] if path_first else ["content", "path", "mode"]
    text = json.dumps({key: arguments[key] for key in order})
    watch = watching(rule("py", "bad", scope=["write(*.py)"]), rule("js", "bad", scope=["write(*.js)"]), rule("all", "bad"))
    assert sorted(stream(watch, text, "tool", "write")) == ["all", "py"]


def test_a_call_that_comes_in_one_piece_is_seen() -> None:
    watch = watching(rule("py", "bad", scope=["write(*.py)"]), rule("read", "secret", scope=["tool:read(*.env)"]))
    assert names(watch.feed("tool", 0, '{"content": "bad", "path": "a.py"}', tool="write")) == ["py"]
    assert names(watch.feed("tool", 1, '{"path": "secret.env"}', tool="read")) == ["read"]


def test_of_two_paths_the_last_counts() -> None:
    """As it does for whoever runs the call."""
    watch = watching(rule("py", "bad", scope=["write(/a.py)"]))
    assert stream(watch, '{"path": "b.js", "path": "a.py", "content": "bad"}', "tool", "write") == ["py"]


@pytest.mark.parametrize(
    ("mode", "text", "thinking", "tool"),
    [
        ("always", True, True, True),
        ("prose-only", True, True, False),
        ("tool-only", False, False, True),
        ("never", False, False, False),
    ],
)
def test_matches_interrupt_the_configured_streams(mode: Any, text: bool, thinking: bool, tool: bool) -> None:
    own, other = rule("own", "x", interrupt_mode=mode), rule("other", "x")
    for watch, asked in [(watching(own), own), (watching(other, settings=RuleSettings(interrupt_mode=mode)), other)]:
        assert [watch.interrupts(asked, "text"), watch.interrupts(asked, "thinking")] == [text, thinking]
        assert watch.interrupts(asked, "tool") is tool


def turns_with_a_match(watch: RuleWatch, turns: int) -> list[int]:
    """The turns in which a model that always writes "bad" is told of it."""
    told: list[int] = []
    for _ in range(turns):
        watch.begin()
        if matched := watch.feed("text", 0, "bad"):
            watch.mark_injected(matched)
            told.append(watch.turn)
    return told


def test_a_rule_reminds_once_or_again_after_a_gap() -> None:
    assert turns_with_a_match(RuleWatch([rule("bad", "bad")]), 30) == [1]
    gaps = RuleSettings(repeat_mode="after-gap", repeat_gap=10)
    assert turns_with_a_match(RuleWatch([rule("bad", "bad")], gaps), 30) == [1, 12, 23]
    assert turns_with_a_match(RuleWatch([rule("bad", "bad", repeat_mode="once")], gaps), 30) == [1]
    assert turns_with_a_match(RuleWatch([rule("bad", "bad", repeat_mode="after-gap", repeat_gap=0)]), 3) == [1, 2, 3]


def test_a_rule_matched_without_a_reminder_matches_again() -> None:
    watch = watching(rule("bad", "bad"))
    assert stream(watch, "bad") == ["bad"]
    watch.begin()
    assert stream(watch, "bad") == ["bad"]


def test_reminders_survive_a_reload() -> None:
    settings = RuleSettings(repeat_mode="after-gap", repeat_gap=3)
    rules = [rule("bad", "bad"), rule("once", "bad", repeat_mode="once")]
    first = RuleWatch(rules, settings)
    assert turns_with_a_match(first, 2) == [1]
    kept = msgspec.json.decode(msgspec.json.encode({"injected": first.injected, "turn": first.turn}))
    assert kept == {"injected": {"bad": 1, "once": 1}, "turn": 2}
    second = RuleWatch(rules, settings, **kept)
    assert turns_with_a_match(second, 4) == [5]
    assert second.injected == {"bad": 5, "once": 1}


def test_rules_can_be_turned_off() -> None:
    assert stream(watching(rule("a", "bad"), rule("b", "bad"), settings=RuleSettings(disabled_rules=["a"])), "bad") == ["b"]
    assert stream(watching(rule("a", "bad"), settings=RuleSettings(enabled=False)), "bad") == []


def test_a_rule_that_takes_too_long_is_switched_off_and_the_others_work() -> None:
    said: list[tuple[str, str]] = []

    def on_off(rule: Rule, why: str) -> None:
        said.append((rule.name, why))

    watch = watching(rule("slow", "^(?!q)(x|xx|xxx)+y", "bad"), rule("fast", "bad"), on_off=on_off)
    assert stream(watch, "x" * 100 + "bad") == ["fast"]
    watch.begin()
    assert stream(watch, "x" * 100 + "bad") == ["fast"]
    ((name, why),) = said
    assert name == "slow" and "slow.md" in why and "50 ms" in why


def looked_back_at(length: int) -> float:
    """The characters of the pieces of a text, each with what is before it, and of the whole at the end."""
    return length / 8 * (LOOKBACK + 256 + 8) + length


@pytest.mark.parametrize("length", [15_000, 300_000])
def test_the_cost_grows_with_the_length_and_not_with_its_square(length: int) -> None:
    fast = [rule(f"r{number}", rf"never{number}\b") for number in range(20)]
    watch = watching(*fast, rule("slow", "never(?!more)"))
    assert stream(watch, "all quiet here\n" * (length // 15)) == []
    passes = 2  # one for all patterns of re2, one for the other
    assert watch.searched <= passes * looked_back_at(length)


@pytest.mark.parametrize("lines", [1_000, 20_000])
def test_a_long_call_costs_no_more_than_a_long_text(lines: int) -> None:
    watch = watching(rule("never", "never(?!more)", scope=["edit(*.py)"]))
    text = "all quiet here\n" * lines
    assert call(watch, "edit", path="a.py", edits=[{"oldText": "a", "newText": text}]) == []
    assert 0 < watch.searched <= looked_back_at(len(json.dumps(text)) + 8)


def test_nothing_is_searched_where_no_rule_looks() -> None:
    watch = watching(rule("thinking", "x", scope=["thinking"]), rule("py", "x", scope=["edit(*.py)"]))
    stream(watch, "x" * 1000)
    call(watch, "write", path="a.py", content="x")
    call(watch, "edit", path="a.js", edits=[{"oldText": "", "newText": "x"}])
    assert watch.searched == 0
