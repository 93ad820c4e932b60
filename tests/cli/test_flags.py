"""How a command line is read."""

from __future__ import annotations

import pytest
from tests.cli.command import Command
from tests.support.json_values import is_array

from fairlead.cli.flags import FLAGS, IGNORED_SWITCHES, IGNORED_VALUES, Arguments, Flag, UsageError, parse
from fairlead.cli.subcommands.help import all_flags, overview
from fairlead.wire.dialects import Program

VALUED = [flag for flag in FLAGS if flag.kind in ("value", "list")]
SWITCHES = [flag for flag in FLAGS if flag.kind == "switch"]


def spelled(flag: Flag) -> str:
    return flag.names[-1]


def a_value(flag: Flag) -> str:
    return flag.choices[-1] if flag.choices else "some value"


@pytest.mark.parametrize("flag", VALUED, ids=spelled)
def test_a_value_follows_its_flag_or_an_equals_sign(flag: Flag) -> None:
    expected = [a_value(flag)] if flag.kind == "list" else a_value(flag)
    for name in flag.names:
        assert getattr(parse([name, a_value(flag)]), flag.name) == expected
    assert getattr(parse([f"{spelled(flag)}={a_value(flag)}"]), flag.name) == expected


@pytest.mark.parametrize("flag", VALUED, ids=spelled)
def test_a_missing_value_is_reported(flag: Flag) -> None:
    with pytest.raises(UsageError, match=f"{spelled(flag)} needs a value: {flag.metavar}"):
        parse([spelled(flag)])


@pytest.mark.parametrize("flag", SWITCHES, ids=spelled)
def test_a_switch_is_set_by_each_of_its_names_and_takes_no_value(flag: Flag) -> None:
    for name in flag.names:
        assert getattr(parse([name]), flag.name) is True
    with pytest.raises(UsageError, match="takes no value"):
        parse([f"{spelled(flag)}=yes"])


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag.choices], ids=spelled)
def test_a_value_outside_the_choices_is_refused_with_the_choices(flag: Flag) -> None:
    with pytest.raises(UsageError) as refused:
        parse([spelled(flag), "nonsense"])
    assert all(choice in str(refused.value) for choice in (*flag.choices, "nonsense", spelled(flag)))


def test_the_last_of_a_repeated_flag_counts_unless_it_is_a_list() -> None:
    read = parse(["--model", "a", "--model", "b", "--append-system-prompt", "x", "--append-system-prompt=y"])
    assert (read.model, read.append_system_prompt) == ("b", ["x", "y"])


def test_an_optional_value_is_not_taken_from_the_next_flag() -> None:
    assert parse(["--list-models"]).list_models == ""
    assert parse(["--list-models", "opus"]).list_models == "opus"
    read = parse(["--list-models", "--verbose"])
    assert (read.list_models, read.verbose) == ("", True)


def test_everything_else_is_a_word() -> None:
    assert parse(["one", "-", "@file", "--", "-p", "--model"]).words == ["one", "-", "@file", "-p", "--model"]


def test_a_value_may_look_like_a_flag_and_hold_an_equals_sign() -> None:
    read = parse(["--system-prompt", "--be brief", "--api-key=a=b"])
    assert (read.system_prompt, read.api_key) == ("--be brief", "a=b")


def test_flags_of_the_family_that_do_nothing_are_noted_with_their_values() -> None:
    for name in sorted(IGNORED_SWITCHES):
        assert parse([name, "word"]) == Arguments(ignored={name: None}, words=["word"])
    for name in sorted(IGNORED_VALUES):
        assert parse([name, "value", "word"]) == Arguments(ignored={name: "value"}, words=["word"])
        if name.startswith("--"):
            assert parse([f"{name}=value", "word"]) == Arguments(ignored={name: "value"}, words=["word"])


def test_no_flag_is_declared_twice() -> None:
    names = [name for flag in FLAGS for name in flag.names]
    assert len(names) == len(set(names))
    assert not set(names) & (IGNORED_SWITCHES | IGNORED_VALUES)
    assert not IGNORED_SWITCHES & IGNORED_VALUES


def test_the_help_of_pi_begins_its_lines_with_long_names(fairlead: Command) -> None:
    lines = [line.strip() for line in fairlead("--as", "pi", "--help").stdout.splitlines()]
    assert {line.split()[0].rstrip(",") for line in lines if line.startswith("--")} >= {"--approve", "--name", "--no-tools"}
    assert not [line for line in lines if line.startswith("-") and not line.startswith("--")]
    assert "-a, --approve" in fairlead("help", "flags").stdout


def test_the_help_shows_every_flag() -> None:
    assert all(name in all_flags() for flag in FLAGS for name in flag.names)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--thinkng", "low"], "Error: Unknown flag --thinkng. Did you mean --thinking?"),
        (["--modle", "opus"], "Error: Unknown flag --modle. Did you mean --model?"),
        (["--days", "3"], "Error: Unknown flag --days. `fairlead help flags` lists them all."),
        (["-z"], "Error: Unknown flag -z."),
        (["--model"], "Error: --model needs a value: PATTERN."),
        (["--approval-mode", "ask"], "Error: --approval-mode: expected always-ask or write or yolo, got 'ask'."),
        (["--max-time", "soon", "hi"], "Error: --max-time: expected a number of seconds, or a time such as 5s, 10m or 1h, got"),
        (["--max-frame-bytes", "²"], "Error: --max-frame-bytes: expected a number of at least 1024, got '²'."),
        (["--max-turns", "-1", "hi"], "Error: --max-turns: expected a whole number of at least 0, got '-1'."),
        (["--max-turns", "many", "hi"], "Error: --max-turns: expected a whole number of at least 0, got 'many'."),
        (["--max-cost", "nan", "hi"], "Error: --max-cost: expected an amount in US dollars above 0, such as 2.50, got 'nan'."),
        (["--max-cost", "-1", "hi"], "Error: --max-cost: expected an amount in US dollars above 0, such as 2.50, got '-1'."),
        (["--max-frame-bytes", "10", "hi"], "Error: --max-frame-bytes: expected a number of at least 1024, got '10'."),
    ],
    ids=lambda value: value[0] if is_array(value) else "",
)
def test_a_command_line_that_is_not_understood_exits_2(fairlead: Command, words: list[str], complaint: str) -> None:
    done = fairlead(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(complaint)
    assert len(done.stderr.splitlines()) == 1


def test_flags_that_do_nothing_get_a_line_each_and_the_rest_works(fairlead: Command) -> None:
    done = fairlead("-p", "--no-lsp", "--theme", "x", "--offline", "hi")
    assert (done.returncode, done.stdout) == (0, "Hello!\n")
    assert done.stderr.splitlines() == [
        "fairlead: --no-lsp has no effect here",
        "fairlead: --theme has no effect here",
    ]


@pytest.mark.parametrize("name", ["-h", "--help"])
def test_help_goes_to_standard_output(fairlead: Command, name: str) -> None:
    done = fairlead(name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == overview(Program()) + "\n"
