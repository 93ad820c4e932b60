"""What an extension wants to know again when the session is resumed."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

if TYPE_CHECKING:
    from fairlead.session.history.log import Log

_PREFIX = "fairlead.state."


class State(MutableMapping[str, Any]):
    """A dict of JSON values that is kept in the session, as `custom` entries of the type `fairlead.state.<extension>`.

    It belongs to the place where the conversation stands: on another branch it is what it was there. It is written when
    the code that changed it is done, or waits for something; changes inside of its values count, too.
    """

    def __init__(self, name: str) -> None:
        self.custom_type = _PREFIX + name
        self._values: dict[str, Any] = {}
        self._written = b"{}"
        self._touched = False

    def __getitem__(self, key: str) -> Any:
        self._touched = True  # what it returns may be changed
        return self._values[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"The names in a state are strings, not {type(key).__name__}.")
        try:
            msgspec.json.encode(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"{key!r} cannot be kept in a state, which holds what JSON can hold: {error}") from None
        self._touched = True
        self._values[key] = value

    def __delitem__(self, key: str) -> None:
        del self._values[key]
        self._touched = True

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"State({self._values!r})"

    def restore(self, log: Log | None) -> None:
        """Be what was written last on the way to where the conversation stands."""
        from fairlead.session.history.entries import CustomEntry

        found: Any = None
        if log is not None:
            mine = (entry for entry in log.back() if isinstance(entry, CustomEntry) and entry.custom_type == self.custom_type)
            entry = next(mine, None)
            found = None if entry is None else entry.data
        self._values = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        self._written = msgspec.json.encode(self._values, order="sorted")
        # The entry keeps its own.
        self._values = msgspec.json.decode(self._written)
        self._touched = False

    def take_changes(self) -> dict[str, Any] | None:
        """What is to be written; None if nothing has changed since the last time. Raises if it can not be written."""
        if not self._touched:
            return None
        self._touched = False
        encoded = msgspec.json.encode(self._values, order="sorted")
        if encoded == self._written:
            return None
        self._written = encoded
        return msgspec.json.decode(encoded)
