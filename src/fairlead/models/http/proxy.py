"""Chooses the proxy for a URL, by the rules of curl.

`http_proxy`, `https_proxy` and `all_proxy` name a proxy per scheme of the target, in lower or upper case; lower
case wins. `no_proxy` lists what to reach directly, separated by commas or spaces:

    *                  everything
    example.com        that host and all below it (a leading dot changes nothing)
    192.0.2.7, ::1     an address, exactly
    10.0.0.0/8         a network
    example.com:8080   any of these with a port applies to that port only

As with curl, loopback is not an exception, so that a debugging proxy can see the traffic to a local model server. If a
proxy is set for everything, put `localhost,127.0.0.1,::1` into NO_PROXY to reach local servers directly.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from fairlead.errors import ProviderError


class Proxy(Struct, frozen=True):
    """An HTTP proxy. `authorization` is the value of Proxy-Authorization, if its URL has a user."""

    host: str
    port: int
    authorization: str | None = None

    def __repr__(self) -> str:
        return f"Proxy({self.host}:{self.port})"


def proxy_for(scheme: str, host: str, port: int, env: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for a target; None to connect directly.

    Args:
        scheme: `http` or `https`.
        host: the target's host.
        port: the target's port.
        env: the environment variables.

    Raises:
        ProviderError: the environment names a proxy that cannot be used.
    """
    name, value = _find_configured(scheme, env)
    if not value or _reached_directly(host, port, env.get("no_proxy") or env.get("NO_PROXY") or ""):
        return None
    return _parse(name, value)


def _find_configured(scheme: str, env: Mapping[str, str]) -> tuple[str, str]:
    names = [f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY"]
    if scheme == "http" and "REQUEST_METHOD" in env:
        # Under CGI, HTTP_PROXY is the client's `Proxy:` header and cannot be trusted.
        names.remove("HTTP_PROXY")
    for name in names:
        if name in env:
            return name, env[name].strip()
    return "", ""


def _parse(name: str, value: str) -> Proxy:
    misspelt = ProviderError(f"{name} is not the URL of a proxy; expected something like http://proxy.example.com:3128.")
    try:
        url = urlsplit(value if "://" in value else f"http://{value}")
        host, port = url.hostname, url.port
    except ValueError:
        raise misspelt from None  # the cause may contain a password
    if url.scheme != "http":
        raise ProviderError(f"{name} names a {url.scheme}:// proxy, which is not supported; use an http:// proxy.")
    if not host:
        raise misspelt
    authorization = None
    if url.username is not None:
        pair = f"{unquote(url.username)}:{unquote(url.password or '')}"
        authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return Proxy(host, port or 1080, authorization)


def _reached_directly(host: str, port: int, no_proxy: str) -> bool:
    host = host.lower().rstrip(".")
    return any(_covers(entry, host, port) for entry in no_proxy.replace(",", " ").lower().split())


def _covers(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    name, only_port = _split_port(entry)
    if only_port is not None and only_port != port:
        return False
    if "/" in name or ":" in host or host.replace(".", "").isdigit():
        return _covers_address(name, host)
    name = name.strip(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _split_port(entry: str) -> tuple[str, int | None]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        port = rest.removeprefix(":")
    elif entry.count(":") == 1:
        name, port = entry.split(":")
    else:
        return entry, None
    return (name, int(port)) if port.isdecimal() and len(port) < 6 else (name, None)


def _covers_address(name: str, host: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(name, strict=False)
    except ValueError:
        return False
