"""Which failed connections to an endpoint last, and which another try may mend."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rlvr.envs.endpoint import Endpoint, EndpointError, call


@contextmanager
def answering(words: bytes) -> Iterator[int]:
    """A port of the loopback where each connection is read once, answered with these bytes and closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65_536)
                    connection.sendall(words)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def failure(address: str) -> EndpointError:
    with pytest.raises(EndpointError) as caught:
        call(Endpoint(address, "m", deadline=20.0, retries=0), "/models")
    return caught.value


@pytest.mark.parametrize(
    ("words", "lasting"), [(b"", False), (b"HTTP/1.1 400 This is no TLS\r\n\r\n", True)], ids=["torn", "no TLS"]
)
def test_a_handshake_that_is_cut_is_passing_and_a_server_without_tls_lasts(words, lasting):
    with answering(words) as port:
        error = failure(f"https://127.0.0.1:{port}/v1")
    assert "could not be reached: SSL" in str(error)
    assert error.lasting == lasting


@pytest.mark.parametrize(("code", "lasting"), [(socket.EAI_AGAIN, False), (socket.EAI_NONAME, True)])
def test_a_name_server_without_an_answer_is_passing_and_a_name_that_is_not_there_lasts(monkeypatch, code, lasting):
    def look_up(*asked, **options):
        raise socket.gaierror(code, "as the resolver has it")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert failure("http://models.example/v1").lasting == lasting
