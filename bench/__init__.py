"""Compare fairlead with pi on the same work, in one alternating run: `make bench`, or `python -m bench --help`."""
