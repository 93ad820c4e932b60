"""Counters in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter

from fairlead.serve.access import Access
from fairlead.serve.sessions.hub import Hub


class Metrics:
    """What the server has done since its start."""

    def __init__(self, hub: Hub, access: Access) -> None:
        self._hub = hub
        self._access = access
        self._responses: Counter[int] = Counter()
        #: The hosts that are connected over a WebSocket, by dialect.
        self.hosts: Counter[str] = Counter()

    def count_response(self, status: int) -> None:
        self._responses[status] += 1

    def text(self, user: str) -> str:
        """Return the metrics for a user: about the sessions of that user, and about the whole server if it has one user only."""
        hub = self._hub
        sessions = hub.sessions_of(user)
        own = [
            *_metric("sessions_open", "gauge", "Open sessions.", len(sessions)),
            *_metric("sessions_running", "gauge", "Sessions with a run.", sum(each.status != "idle" for each in sessions)),
            *_metric("listeners", "gauge", "Clients that listen to events.", sum(each.feed.listeners for each in sessions)),
            *_metric("questions_open", "gauge", "Questions without an answer.", sum(len(each.questions) for each in sessions)),
        ]
        if len(hub.spaces) > 1:  # the rest is about others too
            return "\n".join([*own, ""])
        others = [
            *_metric("sessions_opened_total", "counter", "Sessions that were opened.", hub.opened),
            *_metric("sessions_evicted_total", "counter", "Idle sessions that were evicted.", hub.evicted),
            *_metric("listeners_dropped_total", "counter", "Clients that read too slowly.", hub.dropped_listeners),
            *_metric("failed_logins_total", "counter", "Attempts with a wrong secret.", self._access.failures.total),
            *_metric("responses_total", "counter", "Responses.", {f'status="{code}"': n for code, n in self._responses.items()}),
            *_metric("hosts", "gauge", "Connected hosts.", {f'dialect="{name}"': n for name, n in self.hosts.items()}),
        ]
        return "\n".join([*own, *others, ""])


def _metric(name: str, kind: str, about: str, value: float | dict[str, int]) -> list[str]:
    full = f"fairlead_{name}"
    values = {f"{{{labels}}}": each for labels, each in sorted(value.items())} if isinstance(value, dict) else {"": value}
    return [f"# HELP {full} {about}", f"# TYPE {full} {kind}", *(f"{full}{labels} {each}" for labels, each in values.items())]
