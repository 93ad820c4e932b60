"""Measure stream rules: a long answer, in deltas of eight characters, against fifty rules that do not match.

It measures only the matching, in a separate process: `python -m bench.rules CHARACTERS` prints the figures as JSON.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

from bench.driver import BenchError

DELTA = 8

#: Typical rules: calls, markers, imports, names, secrets. The last ones need look-around.
CONDITIONS = [
    *(rf"\b{name}\s*\(" for name in "print eval exec system popen setTimeout require alert fetch unwrap expect panic".split()),
    *(rf"(?i)\b{word}\b:" for word in "todo fixme hack xxx note warning deprecated bug review later temp wip".split()),
    *(rf"(?m)^\s*(?:from|import)\s+{name}_" for name in "numpy pandas lodash moment request axios jquery leftpad".split()),
    *(rf"{name}_[A-Z0-9]{{16,}}" for name in "AKIA ghp sk xoxb glpat npm pypi AIza".split()),
    r"rm\s+-rf\s+/",
    r"git push\s+--force",
    r"(?i)select\s+\*\s+from\s+\w+;",
    r"\bas\s+any\b;",
    r"[\w.]+@[\w.]+\.com",
    r"https?://\S+",
    r"(?s)try:.{0,200}except:\s+pass",
    r"(?m)^#+\s+(?:Summary|Conclusion)$",
    r"(?<!self\.)_private\b",
    r"assert(?!_)\(",
]
assert len(CONDITIONS) == 50


def matching(characters: int) -> dict[str, float]:
    """Return the figures for an answer of a given length."""
    command = [sys.executable, "-m", "bench.rules", str(characters)]
    done = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"the rules were not tested: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def measure(characters: int) -> dict[str, float]:
    from fairlead.session.rules.rule_keeper import RuleWatch
    from fairlead.session.rules.stream_rules import Rule, RuleSource

    source = RuleSource("native", "fairlead", "rules", "user")
    rules = [Rule(f"rule-{number}", "rules", "No.", source, condition=[text]) for number, text in enumerate(CONDITIONS)]
    text = prose(characters)
    deltas = [text[at : at + DELTA] for at in range(0, len(text), DELTA)]
    watch = RuleWatch(rules)
    began, cpu = time.perf_counter(), time.process_time()
    watch.begin()
    matched = [rule.name for delta in deltas for rule in watch.feed("text", 0, delta)]
    matched += [rule.name for rule in watch.end_block(0)]
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    if matched:
        raise SystemExit(f"nothing should match, but {', '.join(matched)} did")
    return {"wall": wall, "cpu": cpu, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def prose(characters: int) -> str:
    """Return lines of ten made-up words, the same in every run."""
    letters = random.Random(7)
    words = ["".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(characters // DELTA)]
    return "".join(word + ("\n" if number % 10 == 9 else " ") for number, word in enumerate(words))


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
