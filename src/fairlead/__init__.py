"""fairlead: a coding agent that other programs embed."""

__version__ = "0.1.0"
