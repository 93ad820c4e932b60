"""The entry point of the process, before anything else is loaded."""

from __future__ import annotations

import gc


def main() -> int:
    # Imports create many objects and free hardly any, so garbage collection would cost a tenth of the start.
    # `wire.process` turns it on again after the first answer, `cli.main` in the other modes.
    gc.disable()
    from fairlead.cli.main import main

    code = main()
    from fairlead.cli.ending import leave

    leave(code)
    return code
