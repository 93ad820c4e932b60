"""The tool calls of a turn: their arguments, the order in which they run, and a result for each, whatever happens."""
