"""The log of a session and its file, with messages of the user and of the model."""

from __future__ import annotations

import json
from pathlib import Path

from fairlead.core.messages import AssistantMessage, TextContent, Usage, UserMessage
from fairlead.session.history.log import Log
from fairlead.session.history.store import SessionFile
from fairlead.stores.headers import new_header


def user(text: str) -> UserMessage:
    return UserMessage([TextContent(text)], 1)


def answer(text: str) -> AssistantMessage:
    return AssistantMessage([TextContent(text)], "api", "p", "m", Usage(), "stop", 2)


def new_log() -> Log:
    return Log(new_header("0198-session", "/work", 0))


def texts(log: Log) -> list[str]:
    return [message["content"][0]["text"] for message in json.loads(log.messages_json())]


def written(path: Path, *said: str) -> Log:
    """A closed session file in which the user said these things."""
    log = new_log()
    file = SessionFile.create(path, log)
    for text in said:
        log.message(user(text))
    file.close()
    return log


def begun(path: Path, *said: str) -> tuple[SessionFile, Log, list[str]]:
    """An open session in which the user said these things, and what it tells of its file."""
    log = new_log()
    file = SessionFile.create(path, log)
    told: list[str] = []
    file.on_change = told.append
    for text in said:
        log.message(user(text))
    return file, log, told
