"""Prompt templates: where they are found, and what their placeholders stand for."""

from __future__ import annotations

import pytest
from tests.extend.around import Around

from fairlead.extend.skills import split_arguments


def filled(around: Around, template: str, arguments: str) -> str:
    around.write({"user/.fairlead/prompts/t.md": template})
    return around.additions().expand(f"/t {arguments}", around.cwd)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("$1-$2-$3", "one-two words-three"),
        ("$4|$0|$10", "||"),
        ("$@", "one two words three"),
        ("$ARGUMENTS!", "one two words three!"),
        ("${@:2}", "two words three"),
        ("${@:2:1}", "two words"),
        ("${@:0:2}", "one two words"),
        ("${@:9}.", "."),
        ("${2} $x $ $1", "${2} $x $ one"),
    ],
)
def test_placeholders_stand_for_arguments(around: Around, template: str, text: str) -> None:
    assert filled(around, template, 'one "two words" three') == text


def test_placeholders_in_an_argument_are_not_expanded(around: Around) -> None:
    assert filled(around, "$1 and $@", "'$2 $ARGUMENTS' b") == "$2 $ARGUMENTS and $2 $ARGUMENTS b"


def test_arguments_of_a_template_that_asks_for_none_are_not_lost(around: Around) -> None:
    assert filled(around, "Review it.", 'src/app.py "with care"') == 'Review it.\n\nsrc/app.py "with care"'
    assert filled(around, "Review it.", "  ") == "Review it."


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("", []),
        ("  a  b\nc ", ["a", "b", "c"]),
        ("'a b' \"c d\" ''", ["a b", "c d", ""]),
        ('x="a b"c', ["x=a bc"]),
        ("don't touch what isn't broken", ["don't", "touch", "what", "isn't", "broken"]),
        ('"it\'s" \'say "so"\'', ["it's", 'say "so"']),
        ("'90s and 'n'roll", ["'90s", "and", "'n'roll"]),
        ("'open and \"open", ["'open", "and", '"open']),
    ],
)
def test_quotes_hold_words_together_and_apostrophes_stay(written: str, words: list[str]) -> None:
    assert split_arguments(written) == words


@pytest.mark.timeout(20)
def test_long_arguments_are_split_in_one_go() -> None:
    assert len(split_arguments("'a " * 200_000)) == 200_000
    assert len(split_arguments('"a b ' * 200_000)) == 200_000


def test_templates_are_listed_with_what_they_are_for(around: Around) -> None:
    around.write(
        {
            "user/.fairlead/prompts/greet.md": "---\ndescription: Greets\nargument-hint: <who>\n---\nHello $1\n",
            "user/.fairlead/prompts/plain.md": "\nA first line that goes on and on, until nobody would want to read it.\nMore.",
            "user/.fairlead/prompts/notes.txt": "no template",
            "user/.fairlead/prompts/below/other.md": "not looked at",
            "repo/app/.fairlead/prompts/build.md": "Build it.",
        }
    )
    commands = around.additions().commands(around.cwd)
    assert [(command.name, command.description, command.origin.scope) for command in commands] == [
        ("build", "Build it.", "project"),
        ("greet", "Greets", "user"),
        ("plain", "A first line that goes on and on, until nobody would want to...", "user"),
    ]
    assert {command.source for command in commands} == {"prompt"}
    assert commands[1].origin.base == around.home


def test_the_projects_template_goes_before_the_users_and_a_named_one_before_both(around: Around) -> None:
    around.write({"user/.fairlead/prompts/t.md": "user", "repo/app/.fairlead/prompts/t.md": "project", "t.md": "named"})
    assert around.additions().expand("/t", around.cwd) == "project"
    assert around.additions(templates=[around.root / "t.md"]).expand("/t", around.cwd) == "named"
    assert around.additions(find_templates=False).expand("/t", around.cwd) == "/t"
    assert around.additions(isolated=True).expand("/t", around.cwd) == "/t"


def test_templates_of_the_settings_are_found_and_missing_ones_reported(around: Around) -> None:
    around.write({"user/more/t.md": "found"})
    additions = around.additions(settings_templates=["~/more"], templates=[around.root / "none.md"])
    assert additions.expand("/t", around.cwd) == "found"
    assert around.problems == [f"--prompt-template: {around.root}/none.md: there is no such file or folder."]


def test_a_file_that_cannot_be_a_template_is_reported_and_left_out(around: Around) -> None:
    around.write(
        {
            "user/.fairlead/prompts/two words.md": "x",
            "user/.fairlead/prompts/open.md": "---\nx",
            "user/.fairlead/prompts/t.md": "t",
        }
    )
    assert [command.name for command in around.additions().commands(around.cwd)] == ["t"]
    assert [problem.partition(": ")[2] for problem in around.problems] == [
        "line 1: the front matter that begins here has no end. Put a line --- after it. This prompt template is left out.",
        "the name of a prompt template must not contain spaces. Rename the file. This prompt template is left out.",
    ]


@pytest.mark.parametrize("text", ["t", " /t", "/ t", "/", "/T", "/tt x", "/usr/bin/t", "//t", "say /t", ""])
def test_input_without_a_known_command_is_plain_text(around: Around, text: str) -> None:
    around.write({"user/.fairlead/prompts/t.md": "expanded"})
    assert around.additions().expand(text, around.cwd) == text


def test_a_command_may_end_at_a_line_break(around: Around) -> None:
    assert filled(around, "[$@]", "a") == "[a]"
    assert around.additions().expand("/t\na b", around.cwd) == "[a b]"
