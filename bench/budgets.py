"""The budgets of fairlead, relative to the faster of pi 1.5 and pi 0.87, to pi-acp, to opencode or to Claude Code, on the same
machine in the same run."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.works import WORKS, Figures

OWN, OWN_DELTA, OWN_ACP, OWN_SERVER = "fairlead", "fairlead, delta", "fairlead acp", "fairlead serve"
OWN_CLAUDE = "fairlead claude"
PEERS = ("pi 1.5", "pi 0.87", "pi-acp", "opencode serve", "Claude Code")

#: Medians by workload and contestant, without workloads that were not run or that a contestant failed.
Medians = Mapping[str, Mapping[str, Figures]]


def medians_of(samples: Mapping[str, Mapping[str, Sequence[Figures]]]) -> Medians:
    """Return the medians of samples by workload and contestant."""
    return {
        work: {who: {key: statistics.median(row[key] for row in rows) for key in rows[0]} for who, rows in each.items() if rows}
        for work, each in samples.items()
    }


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
    return [
        *_against_peer(medians),
        *_check_idle_extensions(medians),
        *_alone(medians),
        *_gates(medians),
        *_limits(medians),
        *_rates(medians),
        *_growth(medians),
        *_lasting(medians),
    ]


#: workload, figure, measured form, and the allowed share of the peer's figure
RATIOS = [
    ("start", "wall", OWN, 0.3),
    ("start", "memory", OWN, 0.25),
    ("start-script", "wall", OWN, 0.8),
    *((work, "cpu", OWN, 0.25) for work in ("stream", "long")),
    *((work, "cpu", OWN, 0.4) for work in ("paced", "paced-long")),
    *((work, "memory", OWN, 0.3) for work in ("stream", "long", "paced", "paced-long")),
    *((work, "bytes", OWN_DELTA, 1.0) for work in ("stream", "long", "paced", "paced-long")),
    ("stream", "first", OWN, 0.35),
    ("lone", "piece", OWN, 0.4),
    ("turns-200", "wall", OWN, 0.42),
    ("search", "wall", OWN, 1.0),
    ("search", "memory", OWN, 0.4),
    ("open", "wall", OWN, 0.5),
    ("acp-start", "wall", OWN_ACP, 0.5),
    ("acp-start", "memory", OWN_ACP, 0.4),
    ("acp-output", "bytes", OWN_ACP, 1.0),
    ("claude-start", "wall", OWN_CLAUDE, 0.3),
    ("claude-start", "memory", OWN_CLAUDE, 0.2),
    *((work, "cpu", OWN_CLAUDE, 0.25) for work in ("claude-stream", "claude-long")),
    *((work, "memory", OWN_CLAUDE, 0.2) for work in ("claude-stream", "claude-long")),
    ("claude-turns", "wall", OWN_CLAUDE, 0.4),
    ("serve", "piece", OWN_SERVER, 0.5),
    ("serve", "active", OWN_SERVER, 0.5),
    ("serve", "worst", OWN_SERVER, 0.5),
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
    "idle": "KiB for each idle session",
    "active": "KiB more for each active session",
    "piece": "CPU for each piece, us",
    "worst": "longest wait for the first piece, s",
    "share": "cores",
    "late": "delay of 99 % of the pieces, ms",
}


def _against_peer(medians: Medians) -> Iterator[Verdict]:
    for work, figure, form, limit in RATIOS:
        done = medians.get(work, {})
        theirs = [done[name][figure] for name in PEERS if name in done]
        if form in done and theirs:
            own, peer = done[form][figure], min(theirs)
            yield Verdict(f"{WORKS[work].title}: {_NAMES[figure]}", own, peer, own / peer, limit)


def _check_idle_extensions(medians: Medians) -> Iterator[Verdict]:
    """Idle extensions must not slow down the start. The limit allows for noise."""
    if figures := medians.get("start-extended", {}).get(OWN):
        wall, plain = figures["wall"], figures["plain"]
        yield Verdict(f"{WORKS['start-extended'].title}: wall s, times that without", wall, None, wall / plain, 1.05)


def _alone(medians: Medians) -> Iterator[Verdict]:
    """A process that is alone on the machine costs no more than one among many. The limit allows for noise."""
    if figures := medians.get("crowd", {}).get(OWN):
        alone, among = figures["lone"], figures["piece"]
        title = "150 pieces, 20 ms apart, in a process alone: CPU, times that of one among 20"
        yield Verdict(title, alone, None, alone / among, 1.1)


def _gates(medians: Medians) -> Iterator[Verdict]:
    """A gate in TypeScript adds little to a tool call."""
    if figures := medians.get("hooked", {}).get(OWN):
        cost = figures["each"] * 1000
        yield Verdict(f"{WORKS['hooked'].title}: ms for each call", cost, None, cost, 2, "ms")


#: workload, figure, form, the most it may be, and its unit
_LIMITS = [
    ("chat-start", "wall", OWN, 0.25, "s"),
    ("chat-stream", "cpu", OWN, 1.5, "s"),
    ("chat-stream", "memory", OWN, 60, "MiB"),
    ("serve", "idle", OWN_SERVER, 25, "KiB"),
    ("serve", "active", OWN_SERVER, 120, "KiB"),
    ("company", "share", OWN, 1.0, "cores"),
    ("company", "late", OWN, 100, "ms"),
    ("company", "active", OWN, 120, "KiB"),
]


def _limits(medians: Medians) -> Iterator[Verdict]:
    """The chat appears at once and draws cheaply, and sessions in one process take little memory and answer in time."""
    for work, figure, form, limit, unit in _LIMITS:
        if figures := medians.get(work, {}).get(form):
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


def _lasting(medians: Medians) -> Iterator[Verdict]:
    """The last prompts of a long session cost little more than the first ones, and closed sessions give their memory back."""
    if figures := medians.get("prompts", {}).get(OWN):
        first, last = figures["first_prompts"], figures["last_prompts"]
        yield Verdict(f"{WORKS['prompts'].title}: CPU of the last 100, times the first 100", last, None, last / first, 1.4)
    if figures := medians.get("closed", {}).get(OWN):
        kept = figures["kept"]
        yield Verdict(f"{WORKS['closed'].title}: MiB that stay", kept, None, kept, 20, "MiB")
