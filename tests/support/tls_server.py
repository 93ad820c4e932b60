"""A provider that speaks TLS, for tests of certificates and proxies."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from fairlead.testing import ProviderServer

if TYPE_CHECKING:
    import trustme


def tls_server(authority: trustme.CA, name: str = "127.0.0.1") -> ProviderServer:
    """Return a server that answers "secret", with a certificate for `name` that the authority issued."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)  # pyright: ignore[reportUnknownMemberType] (pyOpenSSL is not installed)
    return ProviderServer([{"text": "secret"}], ssl=context)
