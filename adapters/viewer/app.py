"""The server of the viewer: for this machine alone, behind a key, and nothing on its pages may run or load.

The files of the page need no key, and hold no records. Records need the key, which stands
in the fragment of the address: a browser sends that to nobody. ``Host`` must name the loopback (DNS rebinding), and an
``Origin`` must be this server's own.
"""

from __future__ import annotations

import errno
import json
import logging
import math
import secrets
import threading
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from rlvr.adapters.serving.guard import bears_key, headers_of, is_loopback, send_json, wrong_host
from rlvr.adapters.serving.web_server import WAITING, WebServer, require_serving, web_server
from rlvr.adapters.viewer.forks import Forks
from rlvr.adapters.viewer.pages import Pages
from rlvr.envs.core.json_text import load_json

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

STATIC = {"view.css": "text/css"} | {
    f"{name}.js": "text/javascript"
    for name in "base charts episodes markdown conversation tokens signs evaluations forks main".split()
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
MAX_BODY = 1 << 20  # bytes
REFRESH_SECONDS = 2.0  # between two looks at the files
log = logging.getLogger("rlvr.view")

Regrade = Callable[[Mapping[str, Any], str], dict[str, Any]]
Scope = Any


def static_text(name: str) -> str:
    """A file of the page."""
    return (files("rlvr.adapters.viewer") / "static" / name).read_text(encoding="utf-8")


def page() -> str:
    """The page as the server sends it: its scripts and its style are files of this server."""
    scripts = "".join(f'<script src="/{name}" defer></script>' for name in STATIC if name.endswith(".js"))
    return static_text("view.html").replace("<!-- scripts -->", f'<link rel="stylesheet" href="/view.css">{scripts}')


class ViewerGuard:
    """An ASGI application behind the rules of this module; every answer bears `HEADERS`.

    Args:
        app: the application.
        key: what requests under ``/api/`` must bear, or "" for none.
    """

    def __init__(self, app: Any, key: str) -> None:
        self._app, self._key = app, key

    async def __call__(self, scope: Scope, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = headers_of(scope)

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                fields = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *fields]}
            await send(message)

        status, wrong = self._wrong(scope, headers)
        if not wrong:
            await self._app(scope, receive, guarded)
            return
        await send_json(guarded, status, {"error": wrong})

    def _wrong(self, scope: Scope, headers: Mapping[str, str]) -> tuple[int, str]:
        address = (scope.get("server") or ("127.0.0.1", None))[0]
        if wrong := wrong_host(headers, address):
            return 403, wrong
        if "origin" in headers and headers["origin"] != f"http://{headers.get('host', '')}":
            return 403, "requests of other web pages are not served"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "requests of other web pages are not served"
        if scope["path"].startswith("/api/") and self._key and not bears_key(headers, self._key):
            return 401, "the address bears no key of this viewer: open the one that `rlvr view` printed"
        return 0, ""


def application(pages: Pages, key: str, regrade: Regrade | None = None, forks: Forks | None = None) -> ViewerGuard:
    """The ASGI application: the page, its files, and what it asks for under ``/api/``."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import Response
    from starlette.routing import Route

    def answered(content: Callable[[Request], Any]) -> Callable[[Request], Response]:
        return lambda request: _answer(lambda: content(request))

    def posted(content: Callable[[Request, Mapping[str, Any]], Any]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                body = await _body(request)
            except ValueError as error:
                return _json_response({"error": str(error)}, 400)
            return await run_in_threadpool(_answer, lambda: content(request, body))

        return endpoint

    def static(name: str, kind: str) -> Callable[[Request], Response]:
        return lambda request: Response(static_text(name), media_type=kind)

    def grade(request: Request, body: Mapping[str, Any]) -> Any:
        if regrade is None:
            raise ValueError("this viewer does not grade: start it without --read-only")
        number = episode_number(request)
        _, row = pages.index.trace(number)
        return regrade(pages.index.raw(number), row["source"])

    def begin(request: Request, body: Mapping[str, Any]) -> Any:
        number = episode_number(request)
        _, row = pages.index.trace(number)
        return _playing(forks).start(pages.index.raw(number), row, body.get("turn"))

    def episode_number(request: Request) -> int:
        return pages.index.number_of(str(request.path_params["number"]))

    able = {"regrade": regrade is not None, "fork": forks is not None}
    routes = [
        Route("/", lambda request: Response(page(), media_type="text/html")),
        *(Route(f"/{name}", static(name, kind)) for name, kind in STATIC.items()),
        Route("/api/state", answered(lambda request: pages.state() | able)),
        Route("/api/curves", answered(lambda request: pages.curves())),
        Route("/api/choices", answered(lambda request: pages.choices())),
        Route("/api/episodes", answered(lambda request: pages.episodes(dict(request.query_params)))),
        Route("/api/signs", answered(lambda request: pages.signs(dict(request.query_params)))),
        Route("/api/evaluations", answered(lambda request: pages.evaluations())),
        Route("/api/evaluation", answered(lambda request: pages.evaluation(request.query_params.get("source", "")))),
        Route("/api/compare", answered(lambda request: pages.compared(request.query_params.getlist("source")))),
        Route("/api/episode/{number}", answered(lambda request: pages.episode(episode_number(request)))),
        Route("/api/record/{number}", answered(lambda request: pages.index.record(episode_number(request)))),
        Route("/api/tokens/{number}", answered(lambda request: pages.tokens(episode_number(request)))),
        Route("/api/group/{number}", answered(lambda request: pages.group(episode_number(request)))),
        Route("/api/regrade/{number}", posted(grade), methods=["POST"]),
        Route("/api/fork/{number}", posted(begin), methods=["POST"]),
        Route("/api/forks/{name}", answered(lambda r: _playing(forks).shown(r.path_params["name"]))),
        Route(
            "/api/forks/{name}",
            posted(lambda request, body: _playing(forks).go_on(request.path_params["name"], body)),
            methods=["POST"],
        ),
    ]
    app: Starlette = Starlette(routes=routes)
    return ViewerGuard(app, key)


def _answer(content: Callable[[], Any]) -> Response:
    try:
        return _json_response(content())
    except KeyError as error:
        return _json_response({"error": str(error.args[0])}, 404)
    except ValueError as error:
        return _json_response({"error": str(error)}, 400)


def _json_response(value: Any, status: int = 200) -> Response:
    from starlette.responses import Response

    return Response(browser_json(value), status, media_type="application/json")


def browser_json(value: Any) -> str:
    """The value as JSON that a browser reads, in ASCII: null for each number that is not finite."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:  # JSON has no word for infinity, and a browser reads nothing of a text with one
        return json.dumps(_finite(value))


def _finite(value: Any) -> Any:
    """A value of plain JSON with None for each number that is not finite."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _playing(forks: Forks | None) -> Forks:
    if forks is None:
        raise ValueError("this viewer does not play: start it without --read-only")
    return forks


async def _body(request: Request) -> Mapping[str, Any]:
    """The JSON object that was posted; an empty one where nothing was.

    Raises:
        ValueError: it is too long, or no JSON object.
    """
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MAX_BODY:
            raise ValueError(f"a request has at most {MAX_BODY:,} bytes")
    body = load_json(bytes(data)) if data else {}
    if not isinstance(body, dict):
        raise ValueError("a request's body must be a JSON object")
    return body


class ViewerServer(WebServer):
    """Serves the pages at an address of the loopback, and takes in what the files gain.

    Args:
        pages: what is served.
        host, port: where; port 0 takes any that is free.
        key: what requests must bear; by default a new secret one, "" for none.
        regrade: grades a record again.
        forks: play on from recorded episodes.

    Attributes:
        url: of the page, with the key in its fragment.

    Raises:
        ValueError: a host that others can reach.
        OSError: the port is taken.
    """

    def __init__(
        self,
        pages: Pages,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        key: str | None = None,
        regrade: Regrade | None = None,
        forks: Forks | None = None,
    ) -> None:
        if not is_loopback(host):
            raise ValueError(
                f"{host} can be reached by others, and transcripts are private: use 127.0.0.1 and a tunnel"
            )
        require_serving()
        self.key = secrets.token_urlsafe(24) if key is None else key
        self.pages = pages
        try:
            self._listen(host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise OSError(f"port {port} of {host} is in use: give another --port, or 0 for any that is free") from None
        self.url = f"{self.origin}/#/" + (f"?key={self.key}" if self.key else "")
        app: Any = application(pages, self.key, regrade, forks)
        self._uvicorn = web_server(app, WAITING, timeout_graceful_shutdown=1, lifespan="off")
        self._stopped = threading.Event()
        self._indexing = threading.Thread(target=self._index, name="rlvr-view-index", daemon=True)

    def _index(self) -> None:
        while not self._stopped.is_set():
            try:
                self.pages.index.update(self._stopped.is_set)
                self.pages.prepare(self._stopped.is_set)
            except Exception:
                log.exception("the files could not be read; the viewer tries again")
            self._stopped.wait(REFRESH_SECONDS)

    def run(self) -> None:
        """Serve until a signal; Ctrl-C raises KeyboardInterrupt when everything is closed."""
        try:
            self._indexing.start()
            super().run()
        finally:
            self._stopped.set()  # the index waits for it where it is closed
