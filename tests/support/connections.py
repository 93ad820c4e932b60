"""The connections that a client keeps open for later requests."""

from __future__ import annotations

from fairlead.models.http.http_client import Http


def count_idle(http: Http) -> int:
    """Return how many open connections wait for a request."""
    joined = http._joined  # pyright: ignore[reportPrivateUsage]
    kept = {} if joined is None else joined.kept
    return sum(connection.reusable for each in kept.values() for connection in each)
