"""Sub-agents: sessions that work for a tool call of another session."""
