"""Asks a gateway for chat completions, whole or streamed, with the standard library alone."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from rlvr.adapters.conformance.replies import GatewayReply, read_reply, read_stream
from rlvr.envs.endpoint import Endpoint

MAX_BYTES = 64 * 2**20  # of an answer
CHAT_PATH = "/chat/completions"
# Fields that ask for what a trainer needs; each is sent where the gateway takes it and answers with it.
EXTRAS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("token ids (return_token_ids)", {"return_token_ids": True}),
    ("log-probabilities (logprobs)", {"logprobs": True}),
    ("candidates (top_logprobs)", {"logprobs": True, "top_logprobs": 2}),
    ("ids as names (return_tokens_as_token_ids)", {"logprobs": True, "return_tokens_as_token_ids": True}),
    ("seeds (seed)", {"seed": 1}),
)


class GatewayClient:
    """A client of one model behind one gateway.

    Attributes:
        offers: what of `EXTRAS` the gateway offers: "" for yes, else why not; filled by `discover`.
        extras: the fields of these that are sent with every request.
        limit: what the gateway calls the limit of a reply's tokens.

    Args:
        url: up to ``/v1``.
        model: its name there.
        api_key: sent as a bearer token and as ``X-API-Key``; "" sends none.
        timeout: seconds that the gateway may be silent.

    Raises:
        ValueError: the address is none of HTTP, or the key cannot stand in a header.
    """

    def __init__(self, url: str, model: str, api_key: str = "", timeout: float = 120.0) -> None:
        Endpoint(url, model, api_key)  # looks at the address and the key
        self.url, self.model, self.timeout, self._key = url.rstrip("/"), model, timeout, api_key
        self.offers: dict[str, str] = {}
        self.extras: dict[str, Any] = {}
        self.limit = "max_tokens"

    def discover(self) -> None:
        """Learn what the gateway offers, by asking for each thing once.

        Raises:
            ValueError: the gateway does not answer a plain question.
        """
        plain = [{"role": "user", "content": "Say hello."}]
        reply = self.chat(plain, max_tokens=2)
        if reply.error and "max_completion_tokens" in reply.error:
            self.limit = "max_completion_tokens"
            reply = self.chat(plain, max_tokens=2)
        if reply.error or not reply.choices:
            raise ValueError(f"{self.url} does not answer a plain question: {reply.error or 'no choice in the answer'}")
        for name, fields in EXTRAS:
            if "return_tokens_as_token_ids" in fields and "return_token_ids" in self.extras:
                continue
            reply = self.chat(plain, max_tokens=2, **fields)
            self.offers[name] = reply.error or self._missing(reply, fields)
            if not self.offers[name]:
                self.extras |= fields

    @staticmethod
    def _missing(reply: GatewayReply, fields: Mapping[str, Any]) -> str:
        """What the gateway was asked for and left out without a word."""
        if not reply.choices:
            return "no choice in the answer"
        choice, scores = reply.choices[0], reply.choices[0].scores or ()
        is_there = {
            "return_token_ids": choice.ids is not None,
            "logprobs": choice.scores is not None,
            "top_logprobs": any(score.top for score in scores),
            "return_tokens_as_token_ids": any(score.id is not None for score in scores),
        }
        return next(
            (f"{name} was taken, and is not in the answer" for name in fields if not is_there.get(name, True)), ""
        )

    def chat(
        self, messages: Sequence[Mapping[str, Any]], *, max_tokens: int, stream: bool = False, **fields: Any
    ) -> GatewayReply:
        """One answer; a refusal is an answer whose ``error`` says it.

        Args:
            messages: the conversation.
            max_tokens: the limit of the reply.
            stream: whether it comes in pieces.
            fields: more fields of the request; None leaves one out.

        Raises:
            OSError: nobody answers there, or the connection was lost.
        """
        body = {"model": self.model, "messages": messages, self.limit: max_tokens, **self.extras, **fields}
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        body = {name: value for name, value in body.items() if value is not None}
        connection, response = self._send(urlsplit(self.url).path + CHAT_PATH, body)
        try:
            if response.status != 200:
                return GatewayReply(error=f"status {response.status}: {_reason(response.read(MAX_BYTES))}")
            kind = response.headers.get("Content-Type", "")
            if stream and "text/event-stream" not in kind:
                return GatewayReply(error=f"a stream was asked for, and the answer is {kind or 'of no type'}")
            return read_stream(_lines(response)) if stream else read_reply(json.loads(response.read(MAX_BYTES)))
        except ValueError as error:
            return GatewayReply(error=str(error))
        except http.client.HTTPException as error:
            raise ConnectionError(f"{self.url} broke off its answer: {type(error).__name__}") from None
        finally:
            connection.close()

    def detokenize(self, ids: Sequence[int]) -> str | None:
        """The text of ids, special tokens included, by vLLM's ``/detokenize``; None where there is none."""
        connection, response = self._send("/detokenize", {"model": self.model, "tokens": list(ids)})
        try:
            data = response.read(MAX_BYTES)
            text = json.loads(data).get("prompt") if response.status == 200 else None
            return text if isinstance(text, str) else None
        except (ValueError, AttributeError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def _send(self, path: str, body: Mapping[str, Any]) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        parts = urlsplit(self.url)
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers |= {"Authorization": f"Bearer {self._key}", "X-API-Key": self._key}
        connection = open_connection(self.url, self.timeout)
        try:
            connection.request("POST", path, json.dumps(body).encode(), headers)
            return connection, connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
            reason = f"no answer within {self.timeout:g} seconds" if isinstance(error, TimeoutError) else str(error)
            raise ConnectionError(f"{where} does not answer: {reason or type(error).__name__}") from None


def open_connection(url: str, timeout: float) -> http.client.HTTPConnection:
    """A connection to the host of an address, not opened yet."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, parts.port, timeout=timeout)


def _lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    read = 0
    while line := response.readline(MAX_BYTES):
        read += len(line)
        if read > MAX_BYTES:
            raise ValueError(f"the stream has more than {MAX_BYTES} bytes")
        yield line


def _reason(data: bytes) -> str:
    """What an error's body says, in one line."""
    try:
        error = json.loads(data)
        error = error.get("error", error.get("detail", error.get("message", error)))
        text = error.get("message", error) if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        text = data.decode("utf-8", "replace")
    return " ".join(str(text).split())[:300]
