"""The command: flags to a mode, a mode to an exit code.

Private: see `fairlead` for the public modules.
"""
