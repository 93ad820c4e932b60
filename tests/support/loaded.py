"""Finds out which modules a process has loaded."""

#: Runs the command, and prints at its end which modules it has loaded. The warm-up comes too late to load any.
LOADED = """
import atexit, os, sys
from fairlead.cli.start import main
def note():
    waiting = ("_PostponedModule", "_LoadingModule")
    print(*[name for name, module in sys.modules.items() if type(module).__name__ not in waiting], file=sys.stderr)
def noted(code):
    note()
    leave(code)
leave, os._exit = os._exit, noted
atexit.register(note)
sys.exit(main())
"""
