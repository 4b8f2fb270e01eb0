"""The recorder passes bytes through as they are, and a recording is judged as a gateway is."""

from __future__ import annotations

import gzip
import http.client
import json
import math
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.adapters.conformance.evidence import Evidence, NoDecoder
from rlvr.adapters.conformance.laws import judge
from rlvr.adapters.conformance.probes import GatewayExchange, middle_of
from rlvr.adapters.conformance.recorder import RecordedExchange, Recorder
from rlvr.adapters.conformance.recordings import RECORDED_LAWS, evidence_of, read_recording
from rlvr.adapters.conformance.replies import GatewayReply, read_reply, read_stream
from rlvr.adapters.testing import nothing_left
from rlvr.cli import main

ROOT = Path(__file__).parents[2]
MODULES = [path.stem for path in (ROOT / "adapters" / "conformance").glob("*.py") if path.stem != "__init__"]
RELEASED = threading.Event()


def test_the_kit_is_imported_without_torch() -> None:
    names = [*(f"rlvr.adapters.conformance.{name}" for name in MODULES), "rlvr.adapters.testing"]
    code = f"import sys, {', '.join(names)}; print(*{{'torch', 'transformers', 'tokenizers'}} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


class Upstream(BaseHTTPRequestHandler):
    """A gateway that shows what it was sent, and answers in each way that HTTP has."""

    protocol_version = "HTTP/1.1"

    def _respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        data = json.dumps({"path": self.path, "body": body.decode("latin-1"), "headers": dict(self.headers)}).encode()
        if "stream" in self.path:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in (b"data: \xf0\x9f", b"\x99\x82\n\n", b"data: [DONE]\n\n"):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
                RELEASED.wait(20)
            self.wfile.write(b"0\r\n\r\n")
        elif "cut" in self.path:
            self.close_connection = True
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"half")
        else:
            packed = gzip.compress(data, mtime=0) if "gzip" in self.path else data
            self.send_response(418 if "error" in self.path else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("X-Odd-Header", "kept")
            if "gzip" in self.path:
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(packed)))
            self.end_headers()
            self.wfile.write(packed)

    do_GET = do_POST = _respond

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


def ask(url: str, path: str, body: bytes = b"{}", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(url.removeprefix("http://").removesuffix("/v1"), timeout=20)
    connection.request("POST" if body else "GET", path, body or None, headers)
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response, data


@pytest.mark.parametrize("path", ["/v1/plain?a=b%20c", "/v1/error", "/v1/gzip"])
@pytest.mark.parametrize("body", [b'{"a":  1, "b": "\xc3\xbc"}', b"\xff\xfe no text", b""])
def test_bodies_pass_byte_for_byte(path: str, body: bytes, upstream: str, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    with Recorder(upstream, out) as recorder:
        response, data = ask(recorder.url, path, body, Authorization="Bearer sk-secret")
        direct, expected = ask(upstream, path, body, Authorization="Bearer sk-secret")
    assert (response.status, response.headers["X-Odd-Header"]) == (direct.status, "kept")
    seen, there = (json.loads(gzip.decompress(d) if "gzip" in path else d) for d in (data, expected))
    assert (seen["path"], seen["body"].encode("latin-1")) == (path, body)
    assert seen["headers"]["Authorization"] == "Bearer sk-secret"
    assert seen["headers"].keys() - {"Connection"} == there["headers"].keys() - {"Connection"}
    (record,) = read_recording(out)
    assert (record.request, record.response, record.status, record.complete) == (body, data, direct.status, True)
    assert (
        "sk-secret" not in out.read_text().replace(json.dumps(data.decode("latin-1"))[1:-1], "") or "gzip" not in path
    )


def test_a_stream_passes_piece_by_piece_before_it_ends(upstream: str) -> None:
    RELEASED.clear()
    with Recorder(upstream) as recorder:
        connection = http.client.HTTPConnection(recorder.url.removeprefix("http://").removesuffix("/v1"), timeout=20)
        connection.request("POST", "/v1/stream", b"{}")
        response = connection.getresponse()
        assert response.read1(100) == b"data: \xf0\x9f"  # the gateway has sent no more yet
        RELEASED.set()
        assert response.read() == b"\x99\x82\n\ndata: [DONE]\n\n"
        connection.close()
    (record,) = recorder.exchanges
    assert record.response == "data: 🙂\n\ndata: [DONE]\n\n".encode()


def test_an_answer_that_breaks_off_is_kept_as_one(upstream: str) -> None:
    with Recorder(upstream) as recorder, pytest.raises(http.client.IncompleteRead):
        ask(recorder.url, "/v1/cut")
    (record,) = recorder.exchanges
    assert (record.response, record.complete) == (b"half", False)


def test_a_gateway_that_is_gone_is_a_502_that_says_so() -> None:
    with nothing_left(), Recorder("http://127.0.0.1:9/v1") as recorder:
        response, data = ask(recorder.url, "/v1/chat/completions")
    assert response.status == 502
    assert json.loads(data)["error"]["message"] == "recorder: the gateway does not answer: ConnectionRefusedError"


def test_pages_of_a_browser_do_not_reach_the_gateway(upstream: str) -> None:
    with Recorder(upstream) as recorder:
        assert ask(recorder.url, "/v1/plain", Origin="http://evil.example")[0].status == 403
        assert ask(recorder.url, "/v1/plain", Host="evil.example")[0].status == 403
    assert recorder.exchanges == []


def test_closing_cuts_what_is_under_way(upstream: str) -> None:
    RELEASED.clear()
    with nothing_left():
        recorder = Recorder(upstream)
        connection = http.client.HTTPConnection(recorder.url.removeprefix("http://").removesuffix("/v1"), timeout=20)
        connection.request("POST", "/v1/stream", b"{}")
        connection.getresponse().read1(10)
        recorder.close()
        RELEASED.set()
        connection.close()


@given(request=st.binary(max_size=40), response=st.binary(max_size=40), status=st.integers(100, 599))
def test_a_record_comes_back_equal_from_its_line(request: bytes, response: bytes, status: int) -> None:
    record = RecordedExchange("POST", "/v1/messages", request, status, "text/plain", "", response, 1.5, 0.25, True)
    assert RecordedExchange.from_json(record.to_json()) == record


# what is read


CHOICE = {"index": 0, "message": {"role": "assistant", "content": "ab"}, "finish_reason": "stop"}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def scored(*pairs: tuple[str, float]) -> dict[str, Any]:
    return {
        "content": [{"token": token, "logprob": value, "bytes": None, "top_logprobs": []} for token, value in pairs]
    }


def test_ids_are_read_in_each_form() -> None:
    named = {**CHOICE, "logprobs": scored(("token_id:5", -1.0), ("token_id:6", -2.0))}
    own = {**CHOICE, "token_ids": [5, 6], "logprobs": scored(("a", -1.0), ("b", -2.0))}
    for choice, prompt in ((named, None), (own, [1, 2, 3])):
        reply = read_reply({"choices": [choice], "prompt_token_ids": prompt, "usage": USAGE})
        assert reply.choices[0].ids == (5, 6)
        assert reply.prompt_count == 3
    assert read_reply({"choices": [CHOICE]}).choices[0].ids is None


def test_a_stream_is_put_together() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"a":'}}
    deltas = [
        {"content": "a"},
        {"content": "b", "reasoning_content": "t"},
        {"tool_calls": [call]},
        {"tool_calls": [{"index": 0, "function": {"arguments": " 1}"}}]},
    ]
    chunks = [{"choices": [{"index": 0, "delta": delta, "token_ids": [n]}]} for n, delta in enumerate(deltas)]
    chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}, {"choices": [], "usage": USAGE}]
    lines = [f"data: {json.dumps(chunk)}\n".encode() for chunk in chunks]
    reply = read_stream([*lines, b": ping\n", b"data: [DONE]\n"])
    choice = reply.choices[0]
    assert (choice.text, choice.thought, choice.calls) == ("ab", "t", (("f", '{"a": 1}'),))
    assert (choice.ids, choice.finish, reply.usage, reply.ended) == ((0, 1, 2, 3), "tool_calls", (3, 2, 5), True)
    assert not read_stream(lines).ended


@pytest.mark.parametrize("body", [{}, [], None, {"choices": [{}]}, {"choices": [{"message": 3}]}, "text"])
def test_what_is_no_answer_is_a_valueerror(body: Any) -> None:
    with pytest.raises(ValueError, match="no chat completion"):
        read_reply(body)


@given(st.lists(st.binary(max_size=30).map(lambda data: b"data: " + data + b"\n"), max_size=5))
def test_a_stream_of_anything_is_an_answer_or_a_valueerror(lines: list[bytes]) -> None:
    with suppress(ValueError):
        assert isinstance(read_stream(lines), GatewayReply)


def anthropic(*content: dict[str, Any], stop: str = "end_turn") -> dict[str, Any]:
    usage = {"input_tokens": 7, "output_tokens": 3}
    return {"type": "message", "role": "assistant", "content": [*content], "stop_reason": stop, "usage": usage}


def test_anthropics_messages_are_read_whole_and_streamed() -> None:
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}
    whole = read_reply(anthropic({"type": "text", "text": "hi"}, use, stop="tool_use"))
    start = {"type": "message_start", "message": anthropic()}
    events: list[dict[str, Any]] = [
        start,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
        {"type": "content_block_start", "index": 1, "content_block": {**use, "input": {}}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a": 1}'}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]
    streamed = read_stream(
        line for event in events for line in (b"event: x\n", f"data: {json.dumps(event)}\n".encode())
    )
    for reply in (whole, streamed):
        choice = reply.choices[0]
        assert (choice.text, choice.calls, choice.finish) == ("hi", (("f", '{"a": 1}'),), "tool_calls")
        assert (reply.usage, reply.ended) == ((7, 3, None), True)
        assert choice.message["content"][1] == use


# laws that need no gateway


def outcome(law: str, *replies: GatewayReply, probe: str = "chat", max_tokens: int = 9) -> tuple[str, str]:
    exchanges = [GatewayExchange(probe, n, (), {"max_tokens": max_tokens}, reply) for n, reply in enumerate(replies)]
    (report,) = [each for each in judge(Evidence(exchanges, NoDecoder(), [exchanges])) if each.law == law]
    return report.outcome, "; ".join(finding.detail for finding in report.breaks)


def reply_of(*pairs: tuple[str, float], top: list[tuple[str, float]] | None = None, **fields: Any) -> GatewayReply:
    scores = scored(*pairs)
    for each in scores["content"]:
        each["top_logprobs"] = [{"token": token, "logprob": value} for token, value in top or ()]
    return read_reply({"choices": [{**CHOICE, "logprobs": scores, **fields}], "usage": USAGE})


@pytest.mark.parametrize(
    ("top", "expected"),
    [
        ([("a", -0.5), ("b", -1.0)], ""),
        ([("b", -0.2), ("c", -2.0)], ""),  # a rarer token was sampled
        ([("a", -0.7), ("b", -1.0)], "'a' has another number among the candidates"),
        ([("b", -0.5), ("c", -2.0)], "the sampled token is no candidate, and has the number of the most likely one"),
        ([("b", -0.9), ("c", -2.0)], "it is above that of every candidate"),
        ([("a", -0.5), ("a", -3.7)], ""),  # parts of characters have one name
        ([("a", -0.5), ("b", -0.1)], "the candidates' probabilities add up to more than 1"),
    ],
)
def test_a_number_is_compared_with_those_of_the_candidates(top: list[tuple[str, float]], expected: str) -> None:
    found = outcome("scored", reply_of(("a", -0.5), top=top))
    assert found == (("broken", expected) if expected else ("unknown", ""))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.1, -9999.0])
def test_what_is_no_logprob_breaks(value: float) -> None:
    assert outcome("logprobs", reply_of(("a", -1.0), ("b", value)))[0] == "broken"


def test_usage_and_ends_without_ids_are_judged_by_the_scores() -> None:
    right = reply_of(("a", -1.0), ("b", -1.0))
    assert outcome("usage", right)[0] == outcome("logprobs", right)[0] == "holds"
    assert outcome("usage", reply_of(("a", -1.0))) == ("broken", "completion_tokens is 2, and 1 are there")
    assert outcome("finish", right, max_tokens=1) == ("broken", "2 tokens, where max_tokens is 1")
    early = reply_of(("a", -1.0), ("b", -1.0), finish_reason="length")
    assert outcome("finish", early) == ("broken", "finish_reason is length after 2 of 9 tokens")


def test_what_a_gateway_does_not_show_is_unknown_and_no_pass() -> None:
    plain = read_reply({"choices": [CHOICE]})
    for law in ("prefix", "mask", "decoding", "logprobs", "scored", "usage"):
        assert outcome(law, plain, plain)[0] == "unknown", law


@given(st.text(max_size=60))
def test_a_stop_string_first_stands_where_it_is_looked_for(text: str) -> None:
    stop = middle_of(text)
    if stop:
        assert len(stop) == 3
        assert text.find(stop) >= len(text) // 3


# recordings


def line(messages: list[dict[str, Any]], answer: dict[str, Any], started: float, path: str = "chat/completions") -> str:
    request = json.dumps({"model": "m", "messages": messages, "max_tokens": 9}).encode()
    data = json.dumps(answer).encode()
    kind = "application/json"
    return RecordedExchange("POST", f"/v1/{path}", request, 200, kind, "", data, started, 0.1, True).to_json()


USER, MORE = {"role": "user", "content": "q"}, {"role": "user", "content": "more"}


def completion(text: str, ids: list[int], prompt: list[int], **message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": text, **message}
    usage = {"prompt_tokens": len(prompt), "completion_tokens": len(ids), "total_tokens": len(prompt) + len(ids)}
    choice = {"index": 0, "message": said, "finish_reason": "stop", "token_ids": ids}
    return {"choices": [choice], "prompt_token_ids": prompt, "usage": usage}


def judged(*lines: str) -> dict[str, tuple[str, list[str]]]:
    evidence = evidence_of([RecordedExchange.from_json(each) for each in lines], NoDecoder())
    return {r.law: (r.outcome, [f.detail for f in r.breaks]) for r in judge(evidence, RECORDED_LAWS)}


def test_a_recorded_conversation_is_followed_by_its_messages() -> None:
    first = line([USER], completion(" a", [5, 2], [1, 3]), 0.0)
    other = line([MORE], completion("z", [9, 2], [1, 8]), 0.5)
    said = {"role": "assistant", "content": " a"}
    right = line([USER, said, MORE], completion("b", [6, 2], [1, 3, 5, 2, 4]), 1.0)
    assert judged(right, other, first)["prefix"] == ("holds", [])
    assert judged(first, right)["sent back"] == ("holds", [])
    wrong = line([USER, said, MORE], completion("b", [6, 2], [1, 3, 7, 2, 4]), 1.0)
    assert judged(first, wrong)["prefix"][0] == "broken"
    trimmed = line([USER, {**said, "content": "a"}, MORE], completion("b", [6, 2], [1, 3, 5, 2, 4]), 1.0)
    assert judged(first, trimmed)["sent back"] == ("broken", ["whitespace of the reply was changed"])


def test_a_harness_that_strips_thoughts_of_anthropics_messages_is_named() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": ""}
    text = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    first = line([USER], anthropic(thought, {"type": "text", "text": "hi"}), 0.0, "messages")
    for content, broken in (([thought, text], []), ([text], ["the thinking of the reply was stripped"])):
        asked = [{**USER, "content": [{"type": "text", "text": "q"}]}, {"role": "assistant", "content": content}, MORE]
        after = line(asked, anthropic(text), 1.0, "messages")
        assert judged(first, after)["sent back"] == ("broken" if broken else "holds", broken)


def test_the_command_judges_a_recording(tmp_path: Path, capsys: Any) -> None:
    said = {"role": "assistant", "content": "a"}
    lines = [
        line([USER], completion("a", [5, 2], [1, 3]), 0.0),
        line([USER, said, MORE], completion("b", [6, 2], [1, 3, 7, 2, 4]), 1.0),
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(lines) + "\n")
    assert main(["conform", str(tmp_path / "r.jsonl")]) == 1
    assert "recorded, turn 2, token 2: the ids of the sampled reply are others" in capsys.readouterr().out
    assert main(["conform", str(tmp_path / "r.jsonl"), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    (prefix,) = [law for law in report["laws"] if law["law"] == "prefix"]
    assert (prefix["outcome"], prefix["findings"][0]["token"]) == ("broken", 2)
    (tmp_path / "r.jsonl").write_text(lines[0] + "\n")
    assert main(["conform", str(tmp_path / "r.jsonl")]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.jsonl"], "nowhere.jsonl is neither an address (http://HOST/v1) nor the file of a recording"),
        (["http://127.0.0.1:9/v1"], "--model is missing"),
        (["http://127.0.0.1:9/v1", "--model", "m"], "http://127.0.0.1:9 does not answer"),
        (["http://127.0.0.1:9/v1", "--model", "m", "--tokenizer", "nowhere"], "--tokenizer nowhere is no folder"),
        (["ftp://x", "--model", "m"], "ftp://x is neither"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(words: list[str], said: str, capsys: Any) -> None:
    assert main(["conform", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_recording_with_a_line_that_is_none_names_it(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "r.jsonl").write_text('{"a": 1}\n')
    assert main(["conform", str(tmp_path / "r.jsonl")]) == 2
    assert "r.jsonl, line 1: a line is no recorded exchange" in capsys.readouterr().err
