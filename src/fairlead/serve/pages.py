"""The files of the page for browsers. All but the login page need a login."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@cache
def _contents() -> dict[str, bytes]:
    folder = files("fairlead.serve").joinpath("page")
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name.rpartition(".")[2] in _KINDS}


def page_routes() -> list[BaseRoute]:
    """Return the routes of the page."""

    def fixed(path: str, name: str) -> Route:
        async def serve(request: Request) -> Response:
            return Response(_contents()[name], media_type=_KINDS[name.rpartition(".")[2]])

        return Route(path, serve, methods=["GET"])

    special = {"/": "index.html", "/login": "login.html", "/login.js": "login.mjs", "/login.css": "login.css"}
    others = {f"/page/{name}": name for name in _contents() if name not in special.values()}
    return [fixed(path, name) for path, name in (special | others).items()]
