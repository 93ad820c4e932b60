"""Where fairlead keeps its files, and what the user's settings say.

Private: see `fairlead` for the public modules.
"""
