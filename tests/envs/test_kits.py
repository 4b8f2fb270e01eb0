"""Kits: a database that is only read, pages from listed hosts alone, documents from files, search by embeddings."""

from __future__ import annotations

import ipaddress
import json
import socket
import sqlite3
import threading
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.core.tables import DataError
from rlvr.envs.endpoint import Endpoint, EndpointError
from rlvr.envs.tools import Call, Fetch, Search, SQLite, ToolError, ToolFault, write_call
from rlvr.envs.tools.fetch import _public, plain_text
from rlvr.envs.tools.search import Document, load_documents

SUMS = "rlvr/OrderOfOperations-v0"


def call(name: str, **arguments: Any) -> str:
    return write_call(Call(name, arguments), "hermes")


class Site(BaseHTTPRequestHandler):
    """A web server that does what its paths say, and an endpoint that embeds a text as its counts of a, b and c."""

    def do_GET(self) -> None:
        if self.path == "/page":
            self._say(b"<html><script>if (1 < 2) {}</script><p>One &amp; <b>two</b><!-- three --></p></html>")
        elif self.path.startswith("/to?"):
            self.send_response(302)
            self.send_header("Location", self.path[4:])
            self.end_headers()
        elif self.path == "/loop":
            self.send_response(302)
            self.send_header("Location", "/loop")
            self.end_headers()
        elif self.path == "/long":
            self._say(b"x" * 300_000, "text/plain")
        elif self.path == "/picture":
            self._say(b"\x89PNG", "image/png")
        elif self.path == "/drip":
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            self.server.hang.wait(20)
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        rows = [[text.lower().count(letter) for letter in "abc"] for text in asked["input"]]
        if any("flood" in text for text in asked["input"]):
            self.send_error(400, "beyond the context")
            return
        if self.path == "/wrong/embeddings":
            rows = rows[1:]
        data = [{"index": place, "embedding": row} for place, row in enumerate(rows)]
        self._say(json.dumps({"data": data[::-1]}).encode(), "application/json")

    def _say(self, text: bytes, kind: str = "text/html; charset=utf-8") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def served():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.hang = threading.Event()
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.hang.set()
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def port():
    with served() as port:
        yield port


# a database


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "a #?.db"
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("CREATE TABLE towns (name TEXT, people INTEGER)")
        made.executemany("INSERT INTO towns VALUES (?, ?)", [("Bern", 134), ("Cork", 224)])
    return path


def test_a_database_is_read_and_nothing_else(database: Path):
    before = database.read_bytes()
    env = gym.make(SUMS, tools={"tools": [SQLite(database)], "max_calls": 20}).unwrapped
    env.reset(seed=0)
    assert env.step(call("schema"))[0] == "CREATE TABLE towns (name TEXT, people INTEGER)"
    assert env.step(call("query", sql="SELECT name FROM towns WHERE people > 200"))[0] == "name\nCork"
    for sql in (
        "DELETE FROM towns",
        "DROP TABLE towns",
        "ATTACH 'x.db' AS x",
        "PRAGMA writable_schema = 1",
        "SELECT load_extension('x')",
        "SELECT 1; SELECT 2",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
        "nonsense",
    ):
        observation, reward, terminated, _, info = env.step(call("query", sql=sql))
        assert observation.startswith("error: "), sql
        assert (reward, terminated, info["verdict"].valid) == (0.0, False, True)
    assert env.step(env.solve())[1] == 1.0
    assert database.read_bytes() == before
    assert [path.name for path in database.parent.iterdir()] == [database.name]


def test_what_is_no_database_is_refused(tmp_path: Path):
    (tmp_path / "poem.db").write_text("roses are red\n" * 100)
    with pytest.raises(ValueError, match="cannot be read as a database"):
        SQLite(tmp_path / "poem.db")
    with pytest.raises(FileNotFoundError, match="there is no database"):
        SQLite(tmp_path / "nothing.db")


# pages


def fetched(kit: Fetch, url: str, seconds: float = 10.0) -> str:
    (used,) = kit.tools
    return kit.run(None, used, used.check({"url": url}), seconds)


def test_a_page_is_text_and_redirects_are_followed_within_the_list(port: int):
    kit = Fetch([f"127.0.0.1:{port}"], max_bytes=1_000)
    home = f"http://127.0.0.1:{port}"
    assert fetched(kit, f"{home}/page#part") == "One & two"
    assert fetched(kit, f"{home}/to?/page") == "One & two"
    long = fetched(kit, f"{home}/long")
    assert (len(long) < 1_100, long.endswith("[the rest is left out]")) == (True, True)
    for url, says in (
        ("/picture", "image/png, which is not shown"),
        ("/missing", "404"),
        ("/loop", "more than 5 redirects"),
        ("/to?http://example.org/", "not on the list of hosts"),
        (f"/to?http://localhost:{port}/page", "not on the list of hosts"),
        ("/to?file:///etc/passwd", "begins with http"),
    ):
        with pytest.raises(ToolError, match=says):
            fetched(kit, home + url)


def test_the_policy_reads_that_a_page_does_not_come_in_time(port: int):
    env = gym.make(SUMS, tools={"tools": [Fetch([f"127.0.0.1:{port}"])], "seconds": 0.3}).unwrapped
    env.reset(seed=0)
    observation, reward, terminated, _, info = env.step(call("fetch", url=f"http://127.0.0.1:{port}/drip"))
    assert "in time" in observation or "did not end within 0.3 s" in observation
    assert (reward, terminated, info["verdict"].valid) == (0.0, False, True)
    assert "One & two" in env.step(call("fetch", url=f"http://127.0.0.1:{port}/page"))[0]


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.example/",
        "http://example.org.evil.example/",
        "http://evil.example#.example.org",
        "http://evil.example\\@example.org/",
        "http://example.org@evil.example/",
        "http://user@example.org/",
        "http://example.org:22/",
        "http://example.org:port/",
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "file:///etc/passwd",
        "gopher://example.org/",
        "//example.org/",
        "example.org",
        "http://example.org/a b",
        "http://example.org/\r\nX: y",
        "http://exämple.org/",
        "http://[",
        "",
        "http://example.org/" + "a" * 3_000,
    ],
)
def test_what_is_not_on_the_list_is_not_asked_for(url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: pytest.fail("a name was looked up"))
    with pytest.raises(ToolError):
        fetched(Fetch([".example.org", "example.org"]), url)


@pytest.mark.parametrize(
    "number",
    [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:8.8.8.8",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "::7f00:1",
    ],
)
def test_a_listed_name_that_leads_to_a_private_address_is_refused(number: str, monkeypatch: pytest.MonkeyPatch):
    assert not _public(number)
    found = [(2, 1, 6, "", ("8.8.8.8", 80)), (2, 1, 6, "", (number, 80))]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("it was connected to"))
    with pytest.raises(ToolError, match="which is not public"):
        fetched(Fetch(["example.org"]), "http://example.org/")


# One address at each end of every block of IANA's special-purpose registries, and of the deprecated ones.
SPECIAL = """
0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.0.0/29 192.0.0.8/32
192.0.0.9/32 192.0.0.10/32 192.0.0.170/32 192.0.0.171/32 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24
192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 255.255.255.255/32
::1/128 ::/128 ::/96 ::ffff:0:0/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23
2001::/32 2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:2::/48 2001:3::/32 2001:4:112::/48 2001:10::/28 2001:20::/28
2001:30::/28 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20 3ffe::/16 5f00::/16 fc00::/7 fe80::/10 fec0::/10
ff00::/8
""".split()


@pytest.mark.parametrize("block", SPECIAL)
def test_no_special_purpose_address_is_public(block: str):
    network = ipaddress.ip_network(block)
    for address in (network[0], network[network.num_addresses // 2], network[-1]):
        assert not _public(str(address))


@pytest.mark.parametrize("inner", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "8.8.8.8"])
def test_an_address_that_carries_another_is_not_public(inner: str):
    """6to4, Teredo (its IPv4 is inverted), NAT64, ISATAP, and the mapped, compatible and translated forms."""
    number = int(ipaddress.IPv4Address(inner))
    forms = [0x2002 << 112 | number << 80, 0x20010000 << 96 | number ^ 0xFFFFFFFF, 0x64FF9B << 96 | number]
    forms += [0x2606470000000000 << 64 | upper << 32 | number for upper in (0x5EFE, 0x02005EFE)]
    forms += [0xFFFF << 32 | number, number, 0xFFFF << 48 | number]
    for form in forms:
        assert not _public(str(ipaddress.IPv6Address(form)))


@pytest.mark.parametrize("number", ["8.8.8.8", "1.1.1.1", "192.88.98.255", "192.88.100.0", "172.32.0.0", "100.128.0.0"])
def test_public_addresses_are_public(number: str):
    assert _public(number)
    for public in ("2606:4700::1111", "2001:4860:4860::8888", "2a00:1450::1", "2620:fe::fe"):
        assert _public(public)


def test_a_redirect_to_a_special_address_is_refused(port: int, monkeypatch: pytest.MonkeyPatch):
    """The name is on the list, and leads to a relay that is deprecated; the control leads to the listed loopback."""
    inside = socket.getaddrinfo
    target = {"away.example": "192.88.99.1"}

    def looked_up(host: str, *rest: Any, **more: Any) -> Any:
        return inside(target.get(host, host), *rest, **more)

    monkeypatch.setattr("socket.getaddrinfo", looked_up)
    kit = Fetch([f"127.0.0.1:{port}", f"away.example:{port}"])
    url = f"http://127.0.0.1:{port}/to?http://away.example:{port}/page"
    with pytest.raises(ToolError, match=r"away\.example is at 192\.88\.99\.1, which is not public"):
        fetched(kit, url)
    target["away.example"] = "127.0.0.1"
    assert "One & two" in fetched(kit, url)


def test_a_name_that_changes_its_mind_is_asked_once(monkeypatch: pytest.MonkeyPatch):
    """DNS rebinding: public when it is checked, private when it is connected to."""
    answers = [[(2, 1, 6, "", ("8.8.8.8", 80))], [(2, 1, 6, "", ("127.0.0.1", 80))]]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: answers.pop(0))
    reached = []
    monkeypatch.setattr("socket.socket.connect", lambda _, address: reached.append(address) or _refuse())
    with pytest.raises(ToolError, match="refused"):
        fetched(Fetch(["example.org"]), "http://example.org/")
    assert reached == [("8.8.8.8", 80)]
    assert len(answers) == 1


def _refuse() -> None:
    raise ConnectionRefusedError("refused")


@pytest.mark.parametrize("allow", [[], "example.org", ["http://example.org"], ["a b"], [""], ["example.org:x"], ["*"]])
def test_a_list_that_is_none_is_refused(allow: Any):
    with pytest.raises(ValueError, match=r"no host|must be a list"):
        Fetch(allow)


@given(
    st.lists(st.sampled_from(["<", ">", "<!--", "-->", "<script", "</script>", "a", "&amp;", "İ", "\n"])).map("".join)
)
def test_any_page_becomes_text(page: str):
    assert "<script" not in plain_text(page)


@pytest.mark.parametrize("piece", ["<", "<!--", "<script>", "&", "<a ", "</p", "\n"])
def test_a_hostile_page_becomes_text_in_linear_time(piece: str):
    plain_text(piece * (500_000 // len(piece)))


# documents


def test_documents_of_a_folder_and_of_a_file(tmp_path: Path):
    (tmp_path / "law").mkdir()
    (tmp_path / "law" / "rules.md").write_text("powers come first", encoding="utf-8")
    (tmp_path / "poem.txt").write_text("roses are röd", encoding="utf-8")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    assert load_documents(tmp_path) == [
        Document("law/rules.md", "powers come first"),
        Document("poem.txt", "roses are röd"),
    ]
    lines = tmp_path / "all.jsonl"
    lines.write_text('{"title": "A", "text": "x\\u2028y"}\n\n{"title": "B", "text": "", "id": 3}\n', encoding="utf-8")
    assert load_documents(str(lines)) == [Document("A", "x\u2028y"), Document("B", "")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "holds no document"),
        (b"{", "line 1: no JSON"),
        (b'\n{"title": "A"}', 'line 2: a document is an object with a "title"'),
        (b"[1]", "line 1: a document is an object"),
        (b'{"title": " ", "text": "x"}', "line 1: a document is an object"),
        (b"[" * 100_000, "line 1: no JSON"),
        (b"\xff\xfe", "no UTF-8 text"),
    ],
)
def test_documents_that_cannot_be_read_are_named(tmp_path: Path, text: bytes, says: str):
    (tmp_path / "x.jsonl").write_bytes(text)
    with pytest.raises(DataError, match=says):
        load_documents(tmp_path / "x.jsonl")
    with pytest.raises(DataError, match="no file that ends in"):
        load_documents(tmp_path)
    with pytest.raises(FileNotFoundError):
        load_documents(tmp_path / "nowhere")


# embeddings


def test_search_by_embeddings(port: int):
    endpoint = Endpoint(f"http://127.0.0.1:{port}/v1", "letters")
    documents = [Document(letter * 9, letter) for letter in "abc"] * 1 + [Document("aab", "b")]
    documents += [Document(f"ccc{'b' * n}", "") for n in range(40)]
    kit = Search(documents, embeddings=endpoint)
    env = gym.make(SUMS, tools=[kit]).unwrapped
    env.reset(seed=0)
    assert env.step(call("search", query="aaaa", limit=2))[0].splitlines() == ["1. aaaaaaaaa: a", "2. aab: b"]
    assert env.step(call("search", query=" "))[0] == "nothing was found"
    assert env.step(call("read_document", title="aab"))[0] == "b"


def test_a_query_that_the_endpoint_does_not_embed_is_told_to_the_policy(port: int):
    kit = Search(
        [Document("a", "a"), Document("b", "b")],
        embeddings=Endpoint(f"http://127.0.0.1:{port}/v1", "letters", retries=0),
    )
    env = gym.make(SUMS, tools=[kit]).unwrapped
    env.reset(seed=0)
    observation, _, terminated, _, info = env.step(call("search", query="flood"))
    assert "answered with status 400" in observation
    assert (terminated, info["verdict"].valid) == (False, True)
    assert env.step(call("search", query="aaa"))[0].startswith("1. ")


def test_an_endpoint_that_does_not_embed_is_a_fault(port: int):
    documents = [Document("a", "a"), Document("b", "b")]
    with pytest.raises(EndpointError, match="no embedding for each of 2 texts"):
        Search(documents, embeddings=Endpoint(f"http://127.0.0.1:{port}/wrong", "letters"))
    kit = Search(documents, embeddings=Endpoint(f"http://127.0.0.1:{port}/v1", "letters"))
    kit.index.endpoint = Endpoint("http://127.0.0.1:9", "letters", deadline=1, retries=0)
    with pytest.raises(ToolFault, match="search: EndpointError"):
        kit.run(kit.open(), kit.tools[0], {"query": "a", "limit": 3}, 5.0)
