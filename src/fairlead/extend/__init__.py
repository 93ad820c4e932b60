"""What users add to the agent: instructions for the model, skills, prompt templates, extensions and MCP servers.

Private: see `fairlead` for the public modules.
"""

#: The endings of files that pi, omp and xcsh load as extensions.
SCRIPT_SUFFIXES = frozenset((".js", ".ts", ".mjs", ".mts", ".cjs", ".cts", ".jsx", ".tsx"))
