"""Models on this machine: servers that already run, and llama.cpp as a child process.

Private: see `fairlead` for the public modules.
"""
