"""The network server: sessions that outlive their clients, over HTTP and WebSocket.

Private: see `fairlead` for the public modules.
"""
