"""Reading and changing files: read, write and edit."""
