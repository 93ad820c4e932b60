"""What an agent is: messages, events, the loop. No files, no sockets, no processes, no clock of its own.

Private: see `fairlead` for the public modules.
"""
