"""The HTTP surface of a vLLM server, over a small model in this process: what the default suite has in place of one.

The same cases run against the real server in test_vllm_sampler.py. Faults can be planted: what servers, networks and
other people do to a run.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from rlvr.agents.models.sampling import Sampling, uniforms
from rlvr.agents.models.tiny import load_policy
from rlvr.agents.models.transformers import sample
from rlvr.agents.models.vllm_worker import adapted_weights, load_adapters


class StandIn:
    """One server; `faults` are read at each request.

    faults: stale (weights are taken and not used), half (every second tensor is), without_logprobs, without_extension,
    raw (log-probabilities), silent (an answer never comes), forget (once: the next request finds a server that began
    anew), dies_in_sync (it ends without an answer when weights come; `deaths` counts how often it still does).
    """

    def __init__(self, folder: Path, *, vocabulary: int | None = None, limit: int = 1_024) -> None:
        self.folder, self.limit = folder, limit
        self.faults: set[str] = set()
        self.deaths = 1
        self.asked: list[str] = []  # paths
        self.loaded: list[int] = []  # counts of tensors that were sent
        self._lock = threading.Lock()
        self._begin()
        self.vocabulary = vocabulary or self.model.config.vocab_size
        self.released = threading.Event()  # what a silent server waits for
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._answer({})

            def do_POST(self) -> None:
                self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}"))

            def _answer(self, body: dict[str, Any]) -> None:
                if stand_in.dies(body):
                    self.close_connection = True
                    return
                status, answer = stand_in.answer(self.path.partition("?")[0], body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def _begin(self) -> None:
        self.model: Any = load_policy(self.folder)[0]
        self.label = "default"

    def dies(self, body: dict[str, Any]) -> bool:
        """Whether it ends without an answer; it comes back with the weights of its folder."""
        if "dies_in_sync" not in self.faults or "load" not in body.get("method", "") or not self.deaths:
            return False
        self.deaths -= 1
        with self._lock:
            self._begin()
        return True

    def close(self) -> None:
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.asked.append(path)
        if "silent" in self.faults and "generate" in path:
            self.released.wait()
        with self._lock:
            if "forget" in self.faults and "generate" in path:
                self.faults.discard("forget")
                self._begin()
            return self._answer(path, body)

    def _answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path == "/v1/models":
            return 200, {"data": [{"id": "served", "max_model_len": self.limit}]}
        if path == "/collective_rpc":
            if "without_extension" in self.faults:
                return 404, {"detail": "Not Found"}
            return 200, {"results": [getattr(self, body["method"])(**body["kwargs"])]}
        if path == "/update_weight_version":
            self.label = body["new_version"]
        if path == "/weight_info":
            return 200, {"weight_version": self.label}
        if path.endswith("/generate"):
            return 200, self.generate(body["token_ids"], body["sampling_params"])
        return 200, {"status": "ok"}

    def rlvr_describe(self) -> dict[str, Any]:
        mode = "raw_logprobs" if "raw" in self.faults else "processed_logprobs"
        return {"vocabulary": self.vocabulary, "dtype": "float32", "logprobs_mode": mode, "chunked_on_cpu": False}

    def rlvr_load_weights(self, path: str, count: str) -> dict[str, Any]:
        tensors = load_file(path)
        if len(tensors) != int(count):
            return {"error": "another number of tensors"}
        return self._load(tensors, len(tensors))

    def rlvr_load_adapters(self, base: str, path: str, count: str) -> dict[str, Any]:
        return self._load(dict(adapted_weights(base, load_adapters(path, int(count)))), int(count))

    def _load(self, tensors: dict[str, torch.Tensor], sent: int) -> dict[str, Any]:
        self.loaded.append(sent)
        if "half" in self.faults:
            tensors = dict(list(tensors.items())[::2])
        if "stale" not in self.faults:
            self.model.load_state_dict(tensors, strict=False)
        return {"loaded": sent}

    def generate(self, prompt: list[int], options: dict[str, Any]) -> dict[str, Any]:
        sampling = Sampling(options["temperature"] or 1.0, greedy=not options["temperature"])
        noise = uniforms(options.get("seed", 0), "", len(prompt), options["max_tokens"])
        ends = frozenset(options.get("stop_token_ids", []))
        ids, logprobs = sample(self.model, [prompt], [options["max_tokens"]], [noise], ends, sampling)[0]
        content = [{"logprob": value} for value in logprobs]
        choice = {
            "token_ids": ids,
            "logprobs": None if "without_logprobs" in self.faults else {"content": content},
            "finish_reason": "stop",
            "weight_versions": [{"version": self.label, "start": 0, "end": len(ids)}],
        }
        answer: dict[str, Any] = {"choices": [choice]}
        if "prompt_logprobs" in options:
            with torch.no_grad():
                scored = self.model(torch.tensor([prompt])).logits[0, :-1].log_softmax(-1)
            values = scored[range(len(prompt) - 1), prompt[1:]].tolist()
            answer["prompt_logprobs"] = [
                None,
                *({str(token): {"logprob": value}} for token, value in zip(prompt[1:], values, strict=True)),
            ]
        return answer
