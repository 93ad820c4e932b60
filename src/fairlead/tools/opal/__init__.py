"""Opal's tools that work on the machine: read_file, write_file, edit_file, grep, shell. `machine` lists them.

They use the same code as the built-in tools. In addition, lines have anchors (`anchors`), files outside the working directory are
out of reach (`access`), and commands can outlive their call (`shell`). `results` says what results hold besides text.
"""
