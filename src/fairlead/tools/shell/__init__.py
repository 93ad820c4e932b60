"""Running shell commands: bash."""
