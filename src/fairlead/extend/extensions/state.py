"""Values that an extension keeps in the session."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

if TYPE_CHECKING:
    from fairlead.session.history.log import Log

_PREFIX = "fairlead.state."


class State(MutableMapping[str, Any]):
    """A dict of JSON values that is saved in the session, in `custom` entries of the type `fairlead.state.<extension>`.

    It follows the session's tree: on another branch it has the values it had there. It is saved whenever the code that changed it
    returns or waits for something. Changes inside its values are saved too.

    Setting a key raises TypeError if the key is not a string or the value cannot be written as JSON.
    """

    def __init__(self, name: str) -> None:
        self.custom_type = _PREFIX + name
        self._values: dict[str, Any] = {}
        self._written = b"{}"
        self._touched = False

    def __getitem__(self, key: str) -> Any:
        self._touched = True  # the caller may change the value it gets
        return self._values[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"The keys of a state must be strings, not {type(key).__name__}.")
        try:
            msgspec.json.encode(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"{key!r} cannot be saved in a state, because it is not a JSON value: {error}") from None
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
        """Load the values that were saved last on the current branch of `log`."""
        from fairlead.session.history.entries import CustomEntry

        found: Any = None
        if log is not None:
            mine = (entry for entry in log.back() if isinstance(entry, CustomEntry) and entry.custom_type == self.custom_type)
            entry = next(mine, None)
            found = None if entry is None else entry.data
        self._values = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        self._written = msgspec.json.encode(self._values, order="sorted")
        # A copy, because the entry keeps its own values.
        self._values = msgspec.json.decode(self._written)
        self._touched = False

    def take_changes(self) -> dict[str, Any] | None:
        """Return the values to save, or None if nothing changed since the last call. Raises if they cannot be written as JSON."""
        if not self._touched:
            return None
        self._touched = False
        encoded = msgspec.json.encode(self._values, order="sorted")
        if encoded == self._written:
            return None
        self._written = encoded
        return msgspec.json.decode(encoded)
