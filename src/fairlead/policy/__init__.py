"""Decides what an agent may do: approvals, protected files and the sandbox. `session/approvals.py` asks the user.

Private: see `fairlead` for the public modules.
"""
