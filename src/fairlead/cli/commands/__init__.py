"""The subcommands of `fairlead`, one module each."""
