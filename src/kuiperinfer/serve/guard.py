"""What every request passes before it reaches the application, and what every answer is given on its way out."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Sequence

import orjson
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .refusals import Refusal, shutting_down
from .service import Service

# The page needs its own scripts, styles and answers, and pictures that the browser itself made from a chosen file.
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": _CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
CROWDED_OUT = "crowded_out"  # in the state of requests whose connection is one too many
_OPEN = ("/", "/page/", "/v2/health/")  # what needs no token: the page's own files, which hold nothing, and probes


def refusal_answer(refusal: Refusal) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an error, as the protocol has it: ``{"error": …}``."""
    headers = {"content-type": "application/json"}
    if refusal.retry_after is not None:
        headers["retry-after"] = str(max(1, round(refusal.retry_after)))
    if refusal.status == 401:
        headers["www-authenticate"] = "Bearer"
    return refusal.status, headers, orjson.dumps({"error": str(refusal)})


class Guard:
    """Checks who asks and when, and adds `SECURITY_HEADERS`."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app = app
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        crowded_out = CROWDED_OUT in scope.get("state", ())

        async def guarded_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                if self.service.draining or crowded_out:
                    headers["connection"] = "close"
            await send(message)

        try:
            self._check(scope["path"], Headers(scope=scope), crowded_out)
        except Refusal as refusal:
            status, headers, body = refusal_answer(refusal)
            await Response(body, status, headers)(scope, receive, guarded_send)
            return
        await self.app(scope, receive, guarded_send)

    def _check(self, path: str, headers: Headers, crowded_out: bool) -> None:
        """Raises `Refusal` for those who may not ask."""
        host, origin = headers.get("host", ""), headers.get("origin")
        hosts = self.service.hosts
        if hosts and _name(host) not in hosts:
            raise Refusal(421, f"this server is not called '{host[:80]}'; it answers to {', '.join(hosts)}")
        if origin is not None and origin.partition("://")[2] != host:
            raise Refusal(403, "requests of pages from elsewhere are not answered")
        if not path.startswith("/v2/health/"):  # probes are answered in any case
            if self.service.draining:
                raise shutting_down()
            if crowded_out:
                raise Refusal(503, "there are too many connections", retry_after=1)
        token = self.service.options.token
        if token and not (path == "/" or path.startswith(_OPEN[1:])):
            scheme, _, given = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
                raise Refusal(401, "expected the header 'Authorization: Bearer TOKEN' with this server's token")


def _name(host: str) -> str:
    """The name of a Host header, without its port; case does not count."""
    host = host.lower()
    return host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]


def names_of(host: str) -> tuple[str, ...]:
    """The names by which a server that listens on `host` may be called: on loopback, only names of loopback.

    Otherwise a page from elsewhere whose name its owner points at 127.0.0.1 could use the server through a visitor's browser.
    """
    names: Sequence[str] = ("localhost", "127.0.0.1", "[::1]")
    if host == "localhost":
        return tuple(names)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return ()
    if not address.is_loopback:
        return ()
    return tuple(dict.fromkeys((*names, f"[{host}]" if address.version == 6 else host)))
