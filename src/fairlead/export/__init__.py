"""A session as one self-contained HTML page.

`export_file` turns a session file into a page, `export_lines` a session that is open; `render` is what both use. The page
holds every entry of every branch and needs nothing else: no network, no server, no other file. What a session says is data
in it, never markup or script: everything is escaped here, and the page's own policy forbids what escaping might have missed.

Markdown and code are rendered by markdown-it-py and Pygments where the `html` extra is installed; without it the page
shows the same texts plainly.

Private: see `fairlead` for the public modules.
"""

from __future__ import annotations

from fairlead.export.files import export_file, export_lines
from fairlead.export.page import render

__all__ = ["export_file", "export_lines", "render"]
