"""A conversation: its messages, its model, its queues, and the one run it may have going.

Private: see `fairlead` for the public modules.
"""
