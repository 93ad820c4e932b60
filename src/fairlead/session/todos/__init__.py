"""The todo list of a session."""
