"""Print mode: answers a prompt on standard output and exits."""
