"""Stops renewing the prompt cache of a model once that has cost too much: `--warm-budget DOLLARS`."""

from __future__ import annotations

from fairlead.extension import CacheWarmingDecision, Context, Fairlead, Warming


def setup(fl: Fairlead) -> None:
    budget = float(str(fl.register_flag("warm-budget", "string", "0.10", "Dollars to spend on warm caches")))
    spent = 0.0

    @fl.on("cache_warming_decision")
    def decide(event: CacheWarmingDecision, context: Context) -> Warming | None:
        nonlocal spent
        if event.action == "stop":
            return None
        if spent + event.warm_cost > budget:
            context.ui.notify(f"The prompt cache is not renewed any more. That has cost ${spent:.2f}.")
            return Warming("stop")
        spent += event.warm_cost
        return None
