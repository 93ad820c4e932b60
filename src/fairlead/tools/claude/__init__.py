"""Claude Code's tools that work on the machine: Read, Write, Edit, Bash, Glob, Grep.

They use the same code as the built-in tools. In addition, a file has to be read before it is changed, and a change of the working
directory lasts. The details of a result are what hosts draw: its `tool_use_result`.
"""
