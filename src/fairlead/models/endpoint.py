"""The secrets of one provider."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class Endpoint(Struct, frozen=True):
    """How to be let in at a provider. It never goes on the wire to a host, and its `repr` shows no secret."""

    api_key: str | None = None
    #: Extra headers; they win over an adapter's own, whatever their case.
    headers: dict[str, str] = {}
    #: When the key is no longer good, in milliseconds since the epoch; None: that is not known.
    expires: int | None = None

    def merged(self, ours: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """An adapter's headers, with those of the endpoint in their place."""
        theirs = {name.lower() for name in self.headers}
        return [(name, value) for name, value in ours if name.lower() not in theirs] + list(self.headers.items())

    def __repr__(self) -> str:
        key = "None" if self.api_key is None else "'…'"
        return f"Endpoint(api_key={key}, headers={sorted(self.headers)})"
