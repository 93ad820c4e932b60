"""The wire declarations, data only: what hosts may send and what they get.

Private: see `fairlead` for the public modules.
"""
