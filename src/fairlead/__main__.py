import sys

if not sys.flags.safe_path:
    # Remove the working directory, which `python -m` adds: a project's files must not be imported as modules.
    del sys.path[0]

from fairlead.cli.start import main

raise SystemExit(main())
