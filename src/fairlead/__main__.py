from fairlead.cli.main import main

raise SystemExit(main())
