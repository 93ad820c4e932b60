"""The subcommands: a table of them, and a module for each."""
