"""Serve hosts: read lines, write lines, and translate them from and to a dialect.

Private: see `fairlead` for the public modules.
"""
