"""Finding files and what is in them: find, grep and ls."""
