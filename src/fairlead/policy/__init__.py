"""What an agent may do: approvals, protected files, the sandbox. Decisions only; `session/approvals.py` asks people.

Private: see `fairlead` for the public modules.
"""
