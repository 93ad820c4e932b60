"""What a terminal shows after the screen has drawn on it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.chat.terminal import Terminal

from fairlead.chat.view.screen import Screen, wraps_again


def a_screen(columns: int = 20, rows: int = 6) -> tuple[Screen, Terminal]:
    terminal = Terminal(columns, rows)
    return Screen(terminal.write, terminal.size, reflows=False), terminal


def test_committed_lines_are_above_the_live_region() -> None:
    screen, terminal = a_screen()
    screen.show(["> ", "footer"], (0, 2))
    screen.flush()
    screen.commit(["one", "two"])
    screen.flush()
    assert terminal.visible == ["one", "two", ">", "footer"]
    assert terminal.cursor == (2, 2)


def test_committed_lines_scroll_into_the_scrollback_once() -> None:
    screen, terminal = a_screen()
    for number in range(30):
        screen.commit([f"line {number}"])
        screen.show([f"live {number}", "footer"], (0, 3))
        screen.flush()
    assert terminal.everything == [*(f"line {number}" for number in range(30)), "live 29", "footer"]
    assert terminal.cursor == (4, 3)


def test_more_lines_than_the_terminal_has_can_be_committed_at_once() -> None:
    screen, terminal = a_screen()
    screen.show(["live"], None)
    screen.flush()
    screen.commit([f"line {number}" for number in range(50)])
    screen.flush()
    assert terminal.everything == [*(f"line {number}" for number in range(50)), "live"]


def test_only_lines_that_changed_are_written() -> None:
    screen, terminal = a_screen()
    screen.show(["first", "second", "third"], (0, 0))
    screen.flush()
    terminal.written.clear()
    screen.show(["first", "changed", "third"], (0, 0))
    screen.flush()
    assert len(terminal.written) == 1
    assert "changed" in terminal.written[0]
    assert "first" not in terminal.written[0]
    assert "third" not in terminal.written[0]
    assert terminal.visible == ["first", "changed", "third"]


def test_a_line_that_becomes_final_where_it_stands_is_not_written_again() -> None:
    screen, terminal = a_screen()
    screen.show(["a paragraph", "footer"], None)
    screen.flush()
    terminal.written.clear()
    screen.commit(["a paragraph"])
    screen.show(["more", "footer"], None)
    screen.flush()
    assert "a paragraph" not in terminal.written[0]
    assert terminal.visible == ["a paragraph", "more", "footer"]


def test_an_unchanged_frame_writes_nothing() -> None:
    screen, terminal = a_screen()
    screen.show(["same"], (0, 1))
    screen.flush()
    screen.show(["same"], (0, 1))
    screen.flush()
    assert len(terminal.written) == 1


def test_a_frame_is_one_write_between_synchronised_update_marks() -> None:
    screen, terminal = a_screen()
    screen.commit(["done"])
    screen.show(["live"], (0, 0))
    screen.flush()
    (frame,) = terminal.written
    assert frame.startswith("\x1b[?2026h")
    assert frame.endswith("\x1b[?2026l")


def test_a_region_that_shrinks_leaves_nothing_behind() -> None:
    screen, terminal = a_screen()
    screen.show(["1", "2", "3", "4"], (3, 1))
    screen.flush()
    screen.show(["a"], (0, 1))
    screen.flush()
    assert terminal.visible == ["a"]
    assert terminal.cursor == (0, 1)


def test_a_region_higher_than_the_terminal_shows_its_end_or_the_cursor() -> None:
    screen, terminal = a_screen(rows=3)
    lines = [str(number) for number in range(10)]
    screen.show(lines, None)
    screen.flush()
    assert terminal.everything == ["7", "8", "9"]
    screen.show(lines, (4, 0))
    screen.flush()
    assert terminal.everything == ["4", "5", "6"]
    assert terminal.cursor == (0, 0)


def test_lines_are_cut_before_the_last_column() -> None:
    screen, terminal = a_screen(columns=10)
    screen.commit(["x" * 30])
    screen.show(["你好你好你好你好", "next"], None)
    screen.flush()
    assert terminal.visible[-2:] == ["你好你好…", "next"]


def test_final_lines_are_never_cut() -> None:
    screen, terminal = a_screen(columns=10)
    screen.commit(["one two three four"])
    screen.show(["live"], None)
    screen.flush()
    assert terminal.visible == ["one two", "three", "four", "live"]


def test_without_a_cursor_it_is_hidden() -> None:
    screen, terminal = a_screen()
    screen.show(["live"], None)
    screen.flush()
    assert terminal.cursor_hidden
    screen.show(["live"], (0, 0))
    screen.flush()
    assert not terminal.cursor_hidden


def test_closing_leaves_the_cursor_below_everything() -> None:
    screen, terminal = a_screen()
    screen.commit(["done"])
    screen.show(["editor", "footer"], (0, 3))
    screen.close()
    assert terminal.visible == ["done", "editor", "footer"]
    assert terminal.cursor == (3, 0)
    assert not terminal.cursor_hidden


def test_closing_an_empty_region_leaves_no_blank_line() -> None:
    screen, terminal = a_screen()
    screen.show(["editor", "footer"], (0, 3))
    screen.flush()
    screen.commit(["done"])
    screen.show([], None)
    screen.close()
    assert terminal.visible == ["done"]
    assert terminal.cursor == (1, 0)


def test_after_another_program_has_used_the_terminal_the_screen_starts_below_it() -> None:
    screen, terminal = a_screen()
    screen.show([], None)
    screen.close()
    terminal.write("an editor was here\r\n")
    screen.forget()
    screen.show(["> "], (0, 2))
    screen.flush()
    assert terminal.visible == ["an editor was here", ">"]


def test_a_resize_repaints_the_region_in_place() -> None:
    screen, terminal = a_screen(columns=30, rows=8)
    screen.commit(["history"])
    screen.show(["a" * 25, "b" * 25, "footer"], (1, 20))
    screen.flush()
    terminal.resize(12, 8)
    screen.on_resize()
    screen.show(["a" * 11, "b", "footer"], (1, 1))
    screen.flush()
    assert terminal.visible == ["history", "a" * 11, "b", "footer"]
    assert terminal.cursor == (2, 1)


def test_a_hidden_cursor_waits_where_a_lower_terminal_does_not_move_the_region_into_the_scrollback() -> None:
    screen, terminal = a_screen(columns=30, rows=8)
    screen.commit(["history"])
    screen.show(["answer", "question", "yes", "no"], None, parked=1)
    screen.flush()
    assert terminal.cursor == (2, 0)
    screen.show(["question", "yes", "no"], None, parked=0)
    screen.flush()
    assert terminal.cursor == (1, 0)
    assert terminal.visible == ["history", "question", "yes", "no"]


def test_a_changed_size_is_noticed_without_a_signal() -> None:
    screen, terminal = a_screen(columns=30, rows=8)
    screen.show(["a" * 25, "footer"], None)
    screen.flush()
    terminal.resize(12, 8)
    screen.flush()
    assert terminal.visible == ["a" * 10 + "…", "footer"]


def test_terminals_that_do_not_wrap_lines_again_are_known() -> None:
    assert wraps_again({"TERM": "xterm-256color"})
    assert not wraps_again({"TERM": "xterm-256color", "XTERM_VERSION": "XTerm(390)"})
    assert wraps_again({"TERM": "tmux-256color", "XTERM_VERSION": "XTerm(390)", "TMUX": "/tmp/tmux"})
    assert not wraps_again({"TERM": "linux"})


def test_a_resize_in_a_terminal_that_wraps_lines_again_repaints_all_their_rows() -> None:
    terminal = Terminal(40, 8)
    screen = Screen(terminal.write, terminal.size, reflows=True)
    screen.commit(["history"])
    screen.show(["a" * 30, "> 你好" + "b" * 20, "footer"], (1, 12))
    screen.flush()
    terminal.columns = 16
    # What the terminal makes of it: each line takes as many rows as it needs, and the cursor stays at its letter.
    terminal.write("\x1b[H\x1b[2J" + "\r\n".join(["history", "a" * 16, "a" * 14, "> 你好" + "b" * 10, "b" * 10, "footer"]))
    terminal.write("\x1b[4;13H")
    screen.show(["short", "> ", "footer"], (1, 2))
    screen.flush()
    assert terminal.visible == ["history", "short", ">", "footer"]
    assert terminal.cursor == (2, 2)


LINES = st.lists(st.text(st.sampled_from("ab 你é"), max_size=12), max_size=9)


@settings(deadline=None)
@given(st.lists(st.tuples(LINES, LINES), max_size=12))
def test_any_sequence_of_frames_shows_all_committed_lines_once_and_the_last_region(
    frames: list[tuple[list[str], list[str]]],
) -> None:
    screen, terminal = a_screen(columns=30, rows=9)
    committed: list[str] = []
    live: list[str] = []
    for number, (more, live) in enumerate(frames):
        finished = [f"{number}{line}" for line in more]
        committed += finished
        screen.commit(finished)
        screen.show(live, (len(live) // 2, 1) if live else None)
        screen.flush()
    shown = [row.replace(" ", "") for row in terminal.everything]
    wanted = [row.replace(" ", "") for row in [*committed, *live]]
    while wanted and not wanted[-1]:
        wanted.pop()
    assert shown == wanted
