"""MCP servers: other programs that offer tools, resources and prompts. Nothing in this package is loaded before it is needed."""
