"""`--resume NAME` on a command line."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.sessions.places import LAST, SessionPlaces
from fairlead.stores.finding import matching_sessions, sessions_named


def with_resumed_name(argv: Sequence[str], word: str, places: SessionPlaces) -> Sequence[str] | None:
    """Return a command line in which `--resume NAME` is `--resume=FILE`; None if no session has the name `word` or an
    id with it. `last` is the session that changed last. Raises SessionError if `word` is part of several ids.

    `--resume` needs no value, so the word after it may also be a prompt. It is a name if a session has it.
    """
    found = [places.choose(word)] if word == LAST else sessions_named(word, places.folder, places.root)
    if not found and len(word.split()) == 1 and matching_sessions(word, places.folder, places.root):
        found = [places.choose(word)]  # part of an id that is too short to be taken for one by itself
    if not found:
        return None
    at = next(index for index, flag in enumerate(argv) if flag in ("-r", "--resume") and argv[index + 1 : index + 2] == [word])
    return [*argv[:at], f"--resume={found[0]}", *argv[at + 2 :]]
