"""The TLS context: built once, which takes 45 ms and is better done before it is needed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fairlead.errors import ProviderError

if TYPE_CHECKING:
    from ssl import SSLContext


class TlsContext:
    """Trusts the system's certificate store, or what SSL_CERT_FILE and SSL_CERT_DIR name instead."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._lock = threading.Lock()
        #: The context, once it is built.
        self.ready: SSLContext | None = None

    def get(self) -> SSLContext:
        """The context; builds it, or waits for another thread that is building it. Raises ProviderError."""
        with self._lock:
            if self.ready is None:
                self.ready = self._build()
            return self.ready

    def _build(self) -> SSLContext:
        import ssl

        file = self._env.get("SSL_CERT_FILE") or None
        folder = self._env.get("SSL_CERT_DIR") or None
        try:
            context = ssl.create_default_context(cafile=file, capath=folder)
        except (OSError, ssl.SSLError) as error:
            raise ProviderError(
                f"The certificates named by SSL_CERT_FILE ({file}) and SSL_CERT_DIR ({folder}) cannot be read: {error}."
            ) from error
        context.set_alpn_protocols(["http/1.1"])
        return context
