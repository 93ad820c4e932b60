"""MCP servers: programs of other people that bring tools, resources and prompts. Nothing here is loaded before one is needed."""
