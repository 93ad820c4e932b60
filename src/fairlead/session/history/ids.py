"""Names of sessions."""

from __future__ import annotations

import os
import time


def new_session_id() -> str:
    """A UUID of version 7: it begins with the time, so that ids sort by age."""
    random = int.from_bytes(os.urandom(10))
    value = (time.time_ns() // 1_000_000) << 80 | 7 << 76 | (random >> 68) << 64 | 2 << 62 | random & (1 << 62) - 1
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
