"""Compaction: replacing the older part of a conversation by a summary."""
