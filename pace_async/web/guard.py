"""What a request must have before any page is made, and what every answer carries.

Invariants: nothing but GET and HEAD is answered. Without the token, every address is answered by one sentence. A page
may load only what this server sends, and only its own script runs.
"""

import hmac
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "pace_token"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """ASGI middleware. `token` is None if everybody who can reach the port may look. `hosts` are the names that a
    browser may call this server by: a page of another site cannot read it through a host name of that site."""

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: frozenset[str]) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await (self._app if refusal is None else refusal)(scope, receive, sent)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if host_of(headers.get("host", "")) not in self._hosts:
            return _said(421, "This address is not one of this server's names: open the one that `pace web` printed.")
        if scope["method"] not in ("GET", "HEAD"):
            return _said(405, "This server only answers questions (GET); it changes nothing.")
        return None if self._token is None else self._without_token(scope, headers, self._token)

    def _without_token(self, scope: Scope, headers: Headers, token: str) -> Response | None:
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token")
        port = scope["server"][1] if scope.get("server") else 0
        name = f"{COOKIE}_{port}"
        if given is not None and _same(given, token):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            answer = RedirectResponse(scope["path"] + (f"?{rest}" if rest else ""), 303)
            answer.set_cookie(name, token, httponly=True, samesite="strict")
            return answer
        if _same(cookie_parser(headers.get("cookie", "")).get(name, ""), token):
            return None
        return _said(403, "Open the whole address that `pace web` printed: it ends with a token.")


def host_of(host: str) -> str:
    """The name in a Host header, without the port."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0].lower()


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def _said(status: int, sentence: str) -> Response:
    more: dict[str, Any] = {"headers": {"Allow": "GET, HEAD"}} if status == 405 else {}
    return PlainTextResponse(sentence + "\n", status, **more)
