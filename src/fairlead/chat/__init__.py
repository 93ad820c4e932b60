"""The chat in a terminal: a program on the public library, like any other host.

Private: see `fairlead` for the public modules.
"""
