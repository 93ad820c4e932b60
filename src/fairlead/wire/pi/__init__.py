"""The pi family: one server, and a profile (a table of data) for each of its members."""
