"""A session as one self-contained HTML page.

`export_file` makes the page of a session file, `export_lines` that of an open session; both use `render`. The page has every
entry of every branch and needs no network, no server and no other file. The text of a session never becomes markup or script:
it is escaped here, and the page's content security policy blocks what escaping might miss.

markdown-it-py and Pygments render Markdown and code if the `html` extra is installed; without it the page shows plain text.

Private: see `fairlead` for the public modules.
"""

from __future__ import annotations

from fairlead.export.page import export_file, export_lines, render, render_file

__all__ = ["export_file", "export_lines", "render", "render_file"]
