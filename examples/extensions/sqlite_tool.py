"""A tool that queries an SQLite database. The function's name, docstring and type hints describe it to the model."""

from __future__ import annotations

import sqlite3
from typing import Annotated, Any

from fairlead.extension import Context, Fairlead, Meta, ToolError


def setup(fl: Fairlead) -> None:
    @fl.register_tool
    def sqlite_query(
        database: Annotated[str, Meta(description="The database file, from the working directory")],
        query: Annotated[str, Meta(description="One SELECT statement")],
        context: Context,
        limit: Annotated[int, Meta(description="How many rows", ge=1, le=1000)] = 100,
    ) -> list[dict[str, Any]]:
        """Run a read-only query on an SQLite database."""
        path = context.cwd / database
        if not path.is_file():
            raise ToolError(f"There is no database {database}.")
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)  # a plain function may block: it runs on a thread
        try:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query).fetchmany(limit)]
        finally:
            connection.close()

    @fl.register_command("no-sql", description="Remove the database tool")
    def remove() -> None:
        fl.unregister_tool("sqlite_query")
