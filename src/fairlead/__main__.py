from fairlead.cli.start import main

raise SystemExit(main())
