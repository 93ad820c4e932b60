"""The pi family of dialects: one server, and a profile (a table of data) for each dialect."""
