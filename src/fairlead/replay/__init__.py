"""Recordings: keeps what a process and its host say, and plays it back as an agent.

Private: see `fairlead` for the public modules, and `docs/record-and-replay.md` for the format of the file.
"""
