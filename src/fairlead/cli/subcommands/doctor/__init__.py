"""`fairlead doctor`: the command and its checks."""
