"""What users add to the agent: instructions for the model, skills, prompt templates, extensions and MCP servers.

Private: see `fairlead` for the public modules.
"""
