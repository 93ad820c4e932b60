import sys

if not sys.flags.safe_path:
    # The working directory, which `python -m` puts there: a project's files must not pass for modules.
    del sys.path[0]

from fairlead.cli.start import main

raise SystemExit(main())
