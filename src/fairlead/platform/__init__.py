"""What concerns the operating system: threads, children, memory, open and private files, and the programs that fairlead starts.

Private: see `fairlead` for the public modules.
"""
