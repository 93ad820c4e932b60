"""A session's history: its entries, the file that stores them, and finding, switching and deleting sessions."""
