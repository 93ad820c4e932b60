"""`fairlead demo` in a real terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.tmux import chat_in_tmux

pytestmark = pytest.mark.system


def test_demo_asks_for_one_approval_and_leaves_the_person_in_the_chat(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [{"text": "not asked"}], rows=60, key=False) as chat:
        chat.start("demo")
        chat.wait_for("Allow bash?")
        chat.press("y")
        chat.wait_for("Then start fairlead in the directory of your project.")
        chat.wait_for(lambda screen: "Esc stops" not in screen)
        chat.send("thanks")
        chat.wait_for("I am a script")
        chat.wait_for(lambda screen: "Esc stops" not in screen)
        chat.leave()
        assert chat.prompts() == []
        assert not (tmp_path / "home" / "sessions").exists()
