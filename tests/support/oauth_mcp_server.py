"""A real MCP server with its own authorization server, both made with the package's server side, to be run as a program.

oauth_mcp_server.py LIFETIME [PORT]

It writes its port to its standard output, and what it was asked for to its standard error, a word a line. Everyone who opens its
page of authorization is sent back with a code at once. A token lives LIFETIME seconds. With a PORT, clients cannot register: the
server knows one client, which its browser reaches at that port. A GET of /reject makes it reject all tokens that it has issued,
and /forget also those that renew them.
"""

from __future__ import annotations

import secrets
import socket
import sys
import time
from typing import Any

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl, AnyUrl
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response


def note(word: str) -> None:
    sys.stderr.write(word + "\n")
    sys.stderr.flush()


class Authority(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """An authorization server that keeps everything in memory, and says yes to everyone."""

    def __init__(self, lifetime: int) -> None:
        self.lifetime = lifetime
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.renewals: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        note(f"register:{client_info.client_name}")
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        note("authorize")
        code = secrets.token_hex(16)
        self.codes[code] = AuthorizationCode(
            code=code,
            client_id=client.client_id,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            expires_at=time.time() + 60,
            scopes=params.scopes or [],
            code_challenge=params.code_challenge,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        note("exchange")
        return self._issue(self.codes.pop(authorization_code.code).client_id)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.renewals.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        note("refresh")
        del self.renewals[refresh_token.token]
        return self._issue(client.client_id)

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.tokens.get(token)
        return found if found is not None and (found.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.tokens.pop(token.token, None)

    def _issue(self, client_id: str) -> OAuthToken:
        access, renewal = f"access-{secrets.token_hex(16)}", f"renewal-{secrets.token_hex(16)}"
        self.tokens[access] = AccessToken(
            token=access, client_id=client_id, scopes=[], expires_at=int(time.time()) + self.lifetime
        )
        self.renewals[renewal] = RefreshToken(token=renewal, client_id=client_id, scopes=[])
        return OAuthToken(access_token=access, expires_in=self.lifetime, refresh_token=renewal)


def main() -> None:
    lifetime, known_port = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    authority = Authority(lifetime)
    if known_port is not None:
        authority.clients["known"] = OAuthClientInformationFull(
            client_id="known",
            client_secret="known-secret-of-the-client",
            redirect_uris=[AnyUrl(f"http://127.0.0.1:{known_port}/callback")],
            token_endpoint_auth_method="client_secret_post",
        )
    server: MCPServer[Any] = MCPServer(
        "guarded",
        auth_server_provider=authority,
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(url),
            resource_server_url=AnyHttpUrl(f"{url}/mcp"),
            client_registration_options=ClientRegistrationOptions(enabled=known_port is None),
            validate_token_resource=False,
        ),
    )

    @server.tool()
    def whisper(text: str) -> str:
        """Say it in a low voice."""
        return f"psst: {text}"

    @server.custom_route("/reject", methods=["GET"])
    async def reject(request: Request) -> Response:
        authority.tokens.clear()
        return PlainTextResponse("done")

    @server.custom_route("/forget", methods=["GET"])
    async def forget(request: Request) -> Response:
        authority.tokens.clear()
        authority.renewals.clear()
        return PlainTextResponse("done")

    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    uvicorn.Server(config).run(sockets=[listener])


main()
