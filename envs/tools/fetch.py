"""Fetch: pages of the web as text, from the hosts on a list and no others.

A name is resolved once, each of its addresses is checked, and the connection goes to the address that was checked, so
that a name cannot point elsewhere a moment later. Redirects are followed by hand and go through the same checks.
"""

from __future__ import annotations

import html
import http.client
import ipaddress
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from rlvr.envs.tools.addresses import is_public as _public
from rlvr.envs.tools.kits import Kit, within
from rlvr.envs.tools.tool import Tool, ToolError, tool

MAX_URL: Final = 2_000
MAX_REDIRECTS: Final = 5
PORTS: Final = {"http": 80, "https": 443}
_TEXT: Final = ("text/", "application/json", "application/xml", "application/xhtml+xml", "application/javascript")
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_TAG = re.compile(r"<[^<>]*>")  # cannot run past the next tag, so the time is linear
_BREAKS = re.compile(r"<(?:br|p|div|li|tr|h[1-6]|/p|/div|/tr|/h[1-6])\b[^<>]*>", re.IGNORECASE)


class Allowed(NamedTuple):
    """An entry of the list: a host, or with a dot before it all hosts under it; any port only if it is named."""

    host: str
    port: int | None


def fetch(given: None, url: str) -> str:
    """Get a page of the web as text.

    Args:
        url: the whole address, with http:// or https://.
    """
    raise NotImplementedError("carried out by Fetch.run")


class Fetch(Kit):
    """Fetching pages by HTTP from a list of hosts: ``tools=[Fetch(["docs.python.org", ".example.org"])]``.

    Only GET, only text, no cookies, no proxies. A host that resolves to an address which is not public (in a block of
    IANA's special-purpose registries, deprecated, multicast, or one that carries an IPv4 address inside) is refused,
    unless that address itself is on the list. What a web server does wrong is told to the policy; if nothing comes in
    time, the episode ends as invalid.

    Args:
        allow: hosts, as ``host``, ``host:port``, ``.domain`` (all hosts under it), or an address such as
            ``127.0.0.1:8000`` or ``[::1]:8000``. Without a port: 80 for http and 443 for https.
        max_bytes: of a page; what is longer is cut.

    Raises:
        ValueError: an entry that is none of these, or an empty list.
    """

    def __init__(self, allow: Sequence[str], *, max_bytes: int = 500_000) -> None:
        if isinstance(allow, str) or not allow:
            raise ValueError(f'allow must be a list of hosts such as ["docs.python.org"], got {allow!r}')
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be positive, got {max_bytes}")
        self.allow = tuple(_entry(each) for each in allow)
        self.max_bytes = max_bytes
        self.tools = [tool(fetch, given=1)]

    def run(self, session: Any, used: Tool, arguments: Mapping[str, Any], seconds: float) -> str:
        """Follows at most five redirects, each checked anew, within ``seconds`` for all of them together."""
        return within(seconds, used.name, lambda: self._follow(arguments["url"], time.monotonic() + seconds))

    def _follow(self, url: str, until: float) -> str:
        for _ in range(MAX_REDIRECTS + 1):
            parts = self._checked(url)
            address = self._address(parts)
            try:
                moved, text = self._get(parts, address, until)
            except TimeoutError:
                raise ToolError(f"{parts.hostname} did not answer in time") from None
            except (OSError, http.client.HTTPException, ValueError) as error:
                if time.monotonic() >= until:  # shut in the middle of a line or of the headers
                    raise ToolError(f"{parts.hostname} did not answer in time") from None
                raise ToolError(f"{parts.hostname}: {type(error).__name__}: {error}"[:300]) from None
            if not moved:
                return text
            url = urljoin(url, moved)
        raise ToolError(f"more than {MAX_REDIRECTS} redirects")

    def _checked(self, url: str) -> SplitResult:
        """The parts of an address that is on the list."""
        if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or set(url) & set(' \\"<>^`{|}'):
            raise ToolError("a url is ASCII without blanks, quotes, backslashes or brackets; write others as %XX")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ToolError("that is no url") from None
        if parts.scheme not in PORTS or not parts.hostname or "@" in parts.netloc:
            raise ToolError("a url begins with http:// or https://, a host, and no user")
        port = PORTS[parts.scheme] if port is None else port
        if not any(_matches(each, parts.hostname, port, PORTS[parts.scheme]) for each in self.allow):
            names = ", ".join(f"{each.host}{f':{each.port}' * bool(each.port)}" for each in self.allow[:20])
            raise ToolError(f"{parts.hostname[:100]}:{port} is not on the list of hosts; it has {names}")
        return parts

    def _address(self, parts: SplitResult) -> tuple[Any, ...]:
        """What to connect to: the first address of the host, if all of them may be gone to."""
        host, port = str(parts.hostname), parts.port or PORTS[parts.scheme]
        try:
            addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ToolError(f"{host}: {error}") from None
        for _, _, _, _, address in addresses:
            number = str(address[0]).partition("%")[0]
            listed = any(each.host == number and each.port in (None, port) for each in self.allow)
            if not listed and not _public(number):
                raise ToolError(f"{host} is at {number}, which is not public")
        return addresses[0]

    def _get(self, parts: SplitResult, resolved: tuple[Any, ...], until: float) -> tuple[str, str]:
        """Where it has moved to, or else what the page says."""
        family, kind, protocol, _, address = resolved
        host = str(parts.hostname)
        with ExitStack() as stack:
            link = stack.enter_context(socket.socket(family, kind, protocol))
            link.settimeout(_left(until))
            link.connect(address)
            if parts.scheme == "https":
                link = stack.enter_context(ssl.create_default_context().wrap_socket(link, server_hostname=host))
            late = threading.Event()
            shutter = threading.Timer(_left(until), shut, (link, late))  # a server that drips bytes never times out
            shutter.daemon = True
            shutter.start()
            stack.callback(shutter.cancel)
            connection = http.client.HTTPConnection(host, parts.port or PORTS[parts.scheme])
            connection.sock = link
            path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._") + (f"?{parts.query}" if parts.query else "")
            connection.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
            headers = {"Host": parts.netloc, "Accept": "text/*, application/json", "Accept-Encoding": "identity"}
            for name, value in {**headers, "User-Agent": "rlvr", "Connection": "close"}.items():
                connection.putheader(name, value)
            connection.endheaders()
            with connection.getresponse() as response:
                moved = response.getheader("Location")
                if response.status in (301, 302, 303, 307, 308) and moved:
                    return moved, ""
                body = self._body(response, link, until)
            if late.is_set():  # the page seems to end where the link was shut
                raise TimeoutError
            if response.status >= 400:
                raise ToolError(f"{response.status} {response.reason}: {body[:300]}")
            return "", body

    def _body(self, response: http.client.HTTPResponse, link: socket.socket, until: float) -> str:
        kind = response.headers.get_content_type()
        if not kind.startswith(_TEXT) or response.getheader("Content-Encoding", "identity") != "identity":
            raise ToolError(f"the page is {kind}, which is not shown: only text is")
        data = bytearray()
        while len(data) <= self.max_bytes:
            link.settimeout(_left(until))
            block = response.read1(65_536)
            if not block:
                break
            data += block
        text = bytes(data[: self.max_bytes]).decode(_charset(response), "replace")
        text = plain_text(text) if "html" in kind else text
        return text + "\n[the rest is left out]" * (len(data) > self.max_bytes)


def plain_text(page: str) -> str:
    """The words of an HTML page, in linear time: no scripts, styles, comments or tags."""
    for opening, closing in (("<!--", "-->"), ("<script", "</script"), ("<style", "</style")):
        page = _without(page, opening, closing)
    page = html.unescape(_TAG.sub(" ", _BREAKS.sub("\n", page)))
    lines = (" ".join(line.split()) for line in page.splitlines())
    return "\n".join(line for line in lines if line)


def _without(page: str, opening: str, closing: str) -> str:
    """A page without what stands between two marks; without its end, where the second is missing."""
    folded = page.lower() if page.isascii() else "".join(sign.lower() if sign.isascii() else sign for sign in page)
    kept, position = [], 0
    while (start := folded.find(opening, position)) >= 0:
        kept.append(page[position:start])
        end = folded.find(closing, start + len(opening))
        if end < 0:
            return "".join(kept)
        position = end + len(closing) * (closing == "-->")  # a closing tag goes with the other tags
    return "".join([*kept, page[position:]])


def shut(link: socket.socket, late: threading.Event) -> None:
    """End a connection that is late, and say that it was."""
    late.set()
    with suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _charset(response: http.client.HTTPResponse) -> str:
    name = response.headers.get_content_charset() or "utf-8"
    return name if name in ("utf-8", "us-ascii", "iso-8859-1", "windows-1252", "utf-16") else "utf-8"


def _entry(text: str) -> Allowed:
    """An entry of the list, read."""
    try:
        parts = urlsplit(f"//{text.strip()}")
        host, port = (parts.hostname or "").removeprefix("."), parts.port
    except ValueError:
        host, port = "", None
    literal = ":" in host and _is_address(host)
    if not (literal or _NAME.fullmatch(host)) or "@" in text or "/" in text:
        raise ValueError(f"{text!r} is no host, host:port, .domain or address")
    if literal:
        host = str(ipaddress.ip_address(host))
    return Allowed(f".{host}" if text.strip().startswith(".") else host, port)


def _matches(entry: Allowed, host: str, port: int, usual: int) -> bool:
    if port != (usual if entry.port is None else entry.port):
        return False
    host = host.lower().rstrip(".")
    return host.endswith(entry.host) if entry.host.startswith(".") else host == entry.host


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
