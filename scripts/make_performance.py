#!/usr/bin/env python3
"""Write the tables and pictures of docs/performance.md from the stored samples of the benchmark, bench/results.json.

make_performance.py           write them
make_performance.py --check   fail if any of them is stale
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench import page  # noqa: E402


def main() -> int:
    if "--check" not in sys.argv[1:]:
        page.write()
        return 0
    stale = [path for path, text in page.texts().items() if not path.exists() or path.read_text("utf-8") != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)} is stale: run `make generate`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
