"""The sessions of the server: opened on demand, shared by their clients, followed where others run them."""
