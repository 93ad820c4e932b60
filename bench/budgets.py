"""The budgets of fairlead, relative to the faster of pi 1.5 and pi 0.87, or to pi-acp, on the same machine in the same run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench.works import WORKS, Figures

OWN, OWN_DELTA, OWN_ACP = "fairlead", "fairlead, delta", "fairlead acp"
PEERS = ("pi 1.5", "pi 0.87", "pi-acp")

#: Medians by workload and contestant, without workloads that were not run or that a contestant failed.
Medians = Mapping[str, Mapping[str, Figures]]


@dataclass(frozen=True)
class Verdict:
    """A budget and the measured value. `value` and `limit` are ratios, unless `unit` says otherwise.

    `peer` is the best figure of any peer.
    """

    promise: str
    own: float
    peer: float | None
    value: float
    limit: float
    unit: str = ""

    @property
    def met(self) -> bool:
        return self.value <= self.limit

    @property
    def outcome(self) -> str:
        return "met" if self.met else f"missed by {self.value / self.limit - 1:.0%}"


def verdicts(medians: Medians) -> list[Verdict]:
    """Return a verdict for every budget that the measured workloads cover."""
    return [*_against_peer(medians), *_unchanged(medians), *_gates(medians), *_chat(medians), *_rates(medians), *_growth(medians)]


#: workload, figure, measured form, and the allowed share of the peer's figure
_RATIOS = [
    ("start", "wall", OWN, 0.33),
    ("start", "memory", OWN, 0.4),
    ("start-script", "wall", OWN, 0.8),
    *((work, figure, OWN, 0.5) for work in ("stream", "long", "paced", "paced-long") for figure in ("cpu", "memory")),
    *((work, "bytes", OWN_DELTA, 1.0) for work in ("stream", "long", "paced", "paced-long")),
    ("stream", "first", OWN, 0.5),
    ("turns-200", "wall", OWN, 0.5),
    ("open", "wall", OWN, 0.5),
    ("acp-start", "wall", OWN_ACP, 0.5),
    ("acp-start", "memory", OWN_ACP, 0.4),
    ("acp-output", "bytes", OWN_ACP, 1.0),
]

#: pairs of workloads; the second is ten times the first
_GROWTH = [
    ("stream", "long"),
    ("paced", "paced-long"),
    ("turns-20", "turns-200"),
    ("open-idle", "open-idle-long"),
    ("rules", "rules-long"),
]

_NAMES = {
    "wall": "wall s",
    "cpu": "CPU s",
    "memory": "memory MiB",
    "bytes": "bytes",
    "first": "prompt to first delta, s",
}


def _against_peer(medians: Medians) -> Iterator[Verdict]:
    for work, figure, form, limit in _RATIOS:
        done = medians.get(work, {})
        theirs = [done[name][figure] for name in PEERS if name in done]
        if form in done and theirs:
            own, peer = done[form][figure], min(theirs)
            yield Verdict(f"{WORKS[work].title}: {_NAMES[figure]}", own, peer, own / peer, limit)


def _unchanged(medians: Medians) -> Iterator[Verdict]:
    """Idle extensions must not slow down the start. The limit allows for noise."""
    if figures := medians.get("start-extended", {}).get(OWN):
        wall, plain = figures["wall"], figures["plain"]
        yield Verdict(f"{WORKS['start-extended'].title}: wall s, times that without", wall, None, wall / plain, 1.05)


def _gates(medians: Medians) -> Iterator[Verdict]:
    """A gate in TypeScript adds little to a tool call."""
    if figures := medians.get("hooked", {}).get(OWN):
        cost = figures["each"] * 1000
        yield Verdict(f"{WORKS['hooked'].title}: ms for each call", cost, None, cost, 2, "ms")


#: workload of the chat, figure, and the most it may be
_CHAT = [("chat-start", "wall", 0.25, "s"), ("chat-stream", "cpu", 1.5, "s"), ("chat-stream", "memory", 60, "MiB")]


def _chat(medians: Medians) -> Iterator[Verdict]:
    """The chat appears at once, and drawing a long answer costs little."""
    for work, figure, limit, unit in _CHAT:
        if figures := medians.get(work, {}).get(OWN):
            yield Verdict(f"{WORKS[work].title}: {_NAMES[figure]}", figures[figure], None, figures[figure], limit, unit)


def _rates(medians: Medians) -> Iterator[Verdict]:
    """Full updates stay within 512 KiB per second. A burst that ends sooner shows nothing about that."""
    for work in ("paced", "paced-long"):
        if figures := medians.get(work, {}).get(OWN):
            rate = figures["updates"] / 1024 / figures["wall"]
            yield Verdict(f"{WORKS[work].title}: full updates, KiB/s", rate, None, rate, 512, "KiB/s")


def _growth(medians: Medians) -> Iterator[Verdict]:
    """Ten times the work must cost at most eleven times the CPU."""
    for small, large in _GROWTH:
        if OWN in medians.get(small, {}) and OWN in medians.get(large, {}):
            once, tenfold = (medians[work][OWN]["cpu"] for work in (small, large))
            yield Verdict(f"{WORKS[large].title}: CPU, times that of a tenth", tenfold, None, tenfold / once, 11)
