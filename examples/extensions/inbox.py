"""Sends messages to the model that do not come from the user. Each command shows a different time of delivery."""

from __future__ import annotations

from fairlead.extension import Fairlead


def setup(fl: Fairlead) -> None:
    @fl.register_command("interrupt", description="Tell the model as soon as it listens")
    def interrupt(text: str) -> None:
        fl.send_message("inbox", text, deliver="steer")

    @fl.register_command("later", description="Tell the model when it would stop")
    def later(text: str) -> None:
        fl.send_message("inbox", text, deliver="follow_up")

    @fl.register_command("remind", description="Tell the model with the next prompt")
    def remind(text: str) -> None:
        fl.send_message("inbox", text, deliver="next_turn", display=False)

    @fl.register_command("deliver", description="Tell the model now, and have it answer")
    def deliver(text: str) -> None:
        fl.send_message("inbox", text, details={"from": "inbox"}, trigger_turn=True)
