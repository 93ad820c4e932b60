"""The `fairlead` command: parses flags, runs the mode they choose, and exits.

Private: see `fairlead` for the public modules.
"""
