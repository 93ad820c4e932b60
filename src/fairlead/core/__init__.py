"""What an agent is: messages, events, the loop. No files, sockets, processes or clock.

Private: see `fairlead` for the public modules.
"""
