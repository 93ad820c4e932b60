"""A registry on loopback from which the real npm installs packages."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote


class NpmRegistry:
    """Serves what was published. With `token`, only to requests that have it. `asked` are the paths that npm has asked for."""

    def __init__(self, token: str | None = None) -> None:
        self.asked: list[str] = []
        self._packages: dict[str, dict[str, dict[str, Any]]] = {}
        self._archives: dict[str, bytes] = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = unquote(self.path)
                registry.asked.append(path)
                body = registry.answer(path)
                if token is not None and self.headers["Authorization"] != f"Bearer {token}":
                    self._send(401, b"{}")
                else:
                    self._send(404 if body is None else 200, body or b"{}")

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}/"

    def publish(self, name: str, version: str, files: Mapping[str, str] | None = None, **manifest: Any) -> None:
        """Publish a version of a package. The last one is the latest."""
        described = {"name": name, "version": version, **manifest}
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as tar:
            for path, text in {"package.json": json.dumps(described), **(files or {})}.items():
                entry = tarfile.TarInfo(f"package/{path}")
                entry.size = len(text.encode())
                tar.addfile(entry, io.BytesIO(text.encode()))
        data, path = archive.getvalue(), f"/{name}/-/{version}.tgz"
        self._archives[path] = data
        digest = base64.b64encode(hashlib.sha512(data).digest()).decode()
        scripts = manifest.get("scripts", {})
        dist = {"tarball": f"{self.url.rstrip('/')}{path}", "integrity": f"sha512-{digest}"}
        has_script = any(each in scripts for each in ("preinstall", "install", "postinstall"))
        self._packages.setdefault(name, {})[version] = {**described, "dist": dist, "hasInstallScript": has_script}

    def answer(self, path: str) -> bytes | None:
        """What there is at a path."""
        if path in self._archives:
            return self._archives[path]
        versions = self._packages.get(path.strip("/"))
        if versions is None:
            return None
        packument = {"name": path.strip("/"), "dist-tags": {"latest": list(versions)[-1]}, "versions": versions}
        return json.dumps(packument).encode()

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *given: object) -> None:
        self._server.shutdown()
        self._server.server_close()
