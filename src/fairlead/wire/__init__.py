"""Talking to hosts: lines in, lines out, and a dialect in between."""
