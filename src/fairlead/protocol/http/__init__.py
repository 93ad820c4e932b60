"""The HTTP interface of `fairlead serve`: bodies, results, events and the table of operations."""
