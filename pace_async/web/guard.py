"""What a request must have before any page is made, and what every answer carries.

Invariants: nothing but GET and HEAD is answered, and a POST of a page of this server by the bearer of the token for
writing, if there is one. Without a token, every address is answered by one sentence. A page may load only what this
server sends, and only its own script runs.
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
WRITING_COOKIE = "pace_writing"
MAY_WRITE = "pace.may_write"
"""Key of the scope: whether the request's bearer may write."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
NO_TOKEN = "Open the whole address that `pace web` printed: it ends with a token."
NOT_WRITTEN = "Open the inbox by the address for writing that `pace web --write` printed, and send the form there."
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
    browser may call this server by: a page of another site cannot read it through a host name of that site. The bearer
    of `writing` may look and write. Without it nobody may write."""

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: frozenset[str], writing: str | None = None) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts
        self._writing = writing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await (self._app if refusal is None else refusal)(scope, receive, sent)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if host_of(headers.get("host", "")) not in self._hosts:
            return _reply(421, "This address is not one of this server's names: open the one that `pace web` printed.")
        port = scope["server"][1] if scope.get("server") else 0
        secrets = {f"{COOKIE}_{port}": self._token, f"{WRITING_COOKIE}_{port}": self._writing}
        cookies = cookie_parser(headers.get("cookie", ""))
        borne = {name for name, secret in secrets.items() if secret and _same(cookies.get(name, ""), secret)}
        scope[MAY_WRITE] = may_write = f"{WRITING_COOKIE}_{port}" in borne
        if scope["method"] == "POST" and self._writing is not None:
            return None if may_write and _is_ours(headers) else _reply(403, NOT_WRITTEN)
        if scope["method"] not in ("GET", "HEAD"):
            return _reply(405, "This server only answers questions (GET).")
        return _asked_with_token(scope, secrets) or (None if borne or self._token is None else _reply(403, NO_TOKEN))


def _asked_with_token(scope: Scope, secrets: Mapping[str, str | None]) -> Response | None:
    """Keeps a token of the address in its cookie, and leads to the same address without it. None without a token."""
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    token = dict(query).get("token")
    for name, secret in secrets.items():
        if token is not None and secret is not None and _same(token, secret):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            answer = RedirectResponse(scope["path"] + (f"?{rest}" if rest else ""), 303)
            answer.set_cookie(name, secret, httponly=True, samesite="strict")
            return answer
    return None


def _is_ours(headers: Headers) -> bool:
    """Whether a page of this server sent a form, as the browser says."""
    host = headers.get("host", "")
    from_here = headers.get("origin") in (f"http://{host}", f"https://{host}")
    return from_here and headers.get("sec-fetch-site", "same-origin") == "same-origin"


def host_of(host: str) -> str:
    """The name in a Host header, without the port."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0].lower()


def _same(value: str, token: str) -> bool:
    return hmac.compare_digest(value.encode(), token.encode())


def _reply(status: int, sentence: str) -> Response:
    more: dict[str, Any] = {"headers": {"Allow": "GET, HEAD"}} if status == 405 else {}
    return PlainTextResponse(sentence + "\n", status, **more)
