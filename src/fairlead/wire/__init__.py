"""Talking to hosts: lines in, lines out, and a dialect in between.

Private: see `fairlead` for the public modules.
"""
