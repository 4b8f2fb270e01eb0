"""A token-level generate server over our sampler, in the form of vLLM's ``POST /inference/v1/generate``.

Token ids in; token ids, mask and log-probabilities out: what others' rollout clients need to train on our learner,
without a word being encoded twice. ::

    with GenerateServer(model, end_ids=[tokenizer.eos_token_id], max_length=4096) as server:
        …                                    # others sample from server.url
        with server.paused():                # no request is under way
            learner.update(batch)            # the same model: the next request sees the new weights

The log-probabilities are those of softmax(logits / temperature) over the whole vocabulary (vLLM calls them processed),
of the sampled token alone. A setting that the sampler does not have is refused, never passed over.

`ChatServer` answers OpenAI's ``POST /v1/chat/completions`` as well; `rlvr serve-model` starts one.
"""

from __future__ import annotations

import itertools
import json
import logging
import math
import queue
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from rlvr.adapters.serving.guard import without_paths
from rlvr.adapters.serving.loopback import HttpError, HttpRequest, LoopbackServer
from rlvr.agents.conversation import Conversation, Message, TokenSequence
from rlvr.agents.models.tiny import MISSING_EXTRA
from rlvr.agents.rendering import Renderer
from rlvr.envs.tools.calls import Call, write_call

try:
    from rlvr.agents.models.sampling import Sampling, uniforms
    from rlvr.agents.models.transformers import end_tokens, sample
except ImportError as error:
    raise ImportError(MISSING_EXTRA) from error

PATH = "/inference/v1/generate"
CHAT_PATH = "/v1/chat/completions"
DEFAULT_TOKENS = 16  # vLLM's
MOST_CHOICES = 256
ANSWER_SECONDS = 3_600.0
log = logging.getLogger("rlvr.generate_server")
# What the sampler does, and what changes nothing here.
KNOWN = {"max_tokens", "temperature", "top_p", "top_k", "seed", "n", "stop_token_ids", "ignore_eos", "logprobs"}
WITHOUT_EFFECT = {"skip_special_tokens", "spaces_between_special_tokens", "detokenize", "output_kind", "flat_logprobs"}
WITHOUT_EFFECT |= {"include_stop_str_in_output", "extra_args", "truncate_prompt_tokens"}
WITHOUT_EFFECT |= {"routed_experts_prompt_start"}  # of models with experts, whose routing is not told here
# What it does not: named with its neutral value, it is let through.
NEUTRAL: dict[str, Any] = {"min_p": 0.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0}
NEUTRAL |= {"min_tokens": 0}
# Fields of a chat's request that are none of the sampler's.
CHAT = {"model", "messages", "tools", "logprobs", "max_tokens", "max_completion_tokens", "return_token_ids"}
CHAT_WITHOUT_EFFECT = {"user", "metadata", "store", "parallel_tool_calls", "stream_options", "service_tier"}
CHAT_NEUTRAL: dict[str, Any] = {"tool_choice": "auto", "response_format": {"type": "text"}, "stream": False}
CHAT_NEUTRAL |= {"top_logprobs": 0}
REMEMBERED = 1_024  # conversations that are continued with the tokens of their replies


@dataclass(frozen=True, slots=True)
class _Job:
    """A prompt to continue, and where its tokens are put."""

    prompt: list[int]
    limit: int
    key: str
    seed: int
    end_ids: frozenset[int]
    sampling: Sampling
    done: Future[tuple[list[int], list[float], int]]  # tokens, log-probabilities, version of the weights


class GenerateServer:
    """Serves one model; requests that wait are sampled together.

    The same seed in ``sampling_params`` and the same prompt give the same tokens, whatever other requests there are.

    Attributes:
        url: of the server, without ``/v1``.
        api_key: what requests must bear, as ``Authorization: Bearer …``; None for nothing.
        version: how often the weights were changed (`paused`); each answer names its own as ``policy_version``.

    Args:
        model: a transformers causal language model.
        end_ids: tokens that end a reply, unless the request says ``ignore_eos``.
        max_length: the longest sequence, prompt and reply; None for what the model's configuration names.
        name: of the model, as ``/v1/models`` lists it; requests for another are refused.
        rows: how many sequences are sampled at once, at most.
        seed: of requests that name none.
        api_key: asked for in every request but ``GET /health``; by default a new secret one. None asks for none, and
            lets every user of the machine sample.
        port: 0 takes a free one.

    Raises:
        ImportError: on import of this module: the extra ``train`` is missing.
        ValueError: a number out of range, or no bound on the length.
    """

    def __init__(
        self,
        model: Any,
        *,
        end_ids: Iterable[int],
        max_length: int | None = None,
        name: str = "rlvr",
        rows: int = 64,
        seed: int = 0,
        api_key: str | None = "",
        port: int = 0,
    ) -> None:
        config = model.config.get_text_config()
        longest = max_length or getattr(config, "max_position_embeddings", None)
        if longest is None or longest < 2 or rows < 1:
            raise ValueError(f"max_length={longest} must be at least 2, and rows={rows} at least 1")
        self.model, self.name = model, name
        self.end_ids, self.max_length, self.rows, self.seed = frozenset(end_ids), int(longest), rows, seed
        self.vocabulary = int(config.vocab_size)
        self.version = 0
        self._weights = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._numbers = itertools.count()
        self._closed = False
        self._sampler = threading.Thread(target=self._work, name="generate server: sampler", daemon=True)
        self._sampler.start()
        self._server = LoopbackServer(
            self._answer, port=port, name="generate server", key=api_key, open_paths=["/health"]
        )
        self.url, self.api_key = self._server.url, self._server.key

    def __enter__(self) -> GenerateServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Refuse what waits, and end the server with its threads."""
        self._closed = True
        self._jobs.put(None)
        self._sampler.join()
        self._server.close()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is sampled inside: the time to change the weights. Requests wait."""
        with self._weights:
            yield
            self.version += 1

    # requests

    def _answer(self, request: HttpRequest) -> dict[str, Any]:
        match request.method, request.path:
            case "GET", "/health":
                return {}
            case "GET", "/v1/models":
                model = {"id": self.name, "object": "model", "created": 0, "owned_by": "rlvr"}
                return {"object": "list", "data": [{**model, "max_model_len": self.max_length}]}
            case "POST", path if path == PATH:
                return self._generate(request.body)
        raise HttpError(404, f"there is no {request.method} {request.path}: this server has POST {self._posts()}")

    def _posts(self) -> str:
        return PATH

    def _check_model(self, body: Mapping[str, Any]) -> None:
        if body.get("model") not in (None, "", self.name):
            raise HttpError(404, f"the model {body['model']!r:.100} is not served here; {self.name!r} is")

    def _generate(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self._check_model(body)
        for unsupported in ("stream", "features", "content_parts"):
            if body.get(unsupported):
                raise HttpError(400, f"{unsupported} is not supported: answers are whole, and of text tokens")
        prompt = _tokens(body.get("token_ids"), self.vocabulary)
        settings = _settings(body.get("sampling_params") or {}, self.vocabulary)
        number, jobs, version = self._continue(prompt, settings)
        choices = []
        for index, job in enumerate(jobs):
            ids, logprobs, _ = job.done.result()
            choices.append(_choice(index, ids, logprobs, job.end_ids, settings.logprobs))
        usage = _usage(prompt, sum(len(choice["token_ids"]) for choice in choices))
        head = {"request_id": body.get("request_id") or f"rlvr-{number}", "policy_version": version}
        return {**head, "choices": choices, "usage": usage, "prompt_logprobs": None, "kv_transfer_params": None}

    def _continue(self, prompt: list[int], settings: _Settings) -> tuple[int, list[_Job], int]:
        """The number of the request, its jobs, which are done, and the version of the weights that the last one saw.

        Raises:
            HttpError: the prompt is too long, sampling failed, or the server was closed.
        """
        tokens_left = self.max_length - len(prompt)
        if tokens_left < 1:
            text = f"the maximum context length is {self.max_length} tokens, and the prompt has {len(prompt)}"
            raise HttpError(400, text)
        number = next(self._numbers)
        ends = settings.stops | (frozenset() if settings.ignore_eos else self.end_ids)
        limit = min(settings.max_tokens, tokens_left)
        drawn = (self.seed, f"request {number}") if settings.seed is None else (settings.seed, "")
        jobs = [
            _Job(prompt, limit, f"{drawn[1]}/{i}", drawn[0], ends, settings.sampling, Future())
            for i in range(settings.n)
        ]
        for job in jobs:
            self._jobs.put(job)
        if self._closed:
            raise HttpError(503, "this server was closed")
        version = self.version
        for job in jobs:
            _, _, version = job.done.result(ANSWER_SECONDS)
        return number, jobs, version

    # sampling

    def _work(self) -> None:
        """Take what waits, sample what goes together, until asked to stop."""
        ended = False
        while not ended:
            waiting = [self._jobs.get()]
            while len(waiting) < self.rows and not self._jobs.empty():
                waiting.append(self._jobs.get())
            ended = None in waiting
            batches: dict[Any, list[_Job]] = {}
            for job in waiting:
                if job is not None and not ended:
                    batches.setdefault((job.end_ids, job.sampling), []).append(job)
                elif job is not None:
                    job.done.set_exception(HttpError(503, "this server was closed"))
            for (ends, sampling), jobs in batches.items():
                self._sample(jobs, ends, sampling)
        while not self._jobs.empty():
            if (job := self._jobs.get()) is not None:
                job.done.set_exception(HttpError(503, "this server was closed"))

    def _sample(self, jobs: list[_Job], ends: frozenset[int], sampling: Sampling) -> None:
        noise = [uniforms(job.seed, job.key, len(job.prompt), 0 if sampling.greedy else job.limit) for job in jobs]
        try:
            with self._weights:
                version = self.version
                prompts, limits = [job.prompt for job in jobs], [job.limit for job in jobs]
                replies = sample(self.model, prompts, limits, noise, ends, sampling)
        except Exception as error:  # answers each request of the batch; the server goes on
            log.exception("sampling failed")
            reason = without_paths(f"sampling failed: {type(error).__name__}: {error}")
            for job in jobs:
                job.done.set_exception(HttpError(500, reason))
            return
        for job, (ids, logprobs) in zip(jobs, replies, strict=True):
            job.done.set_result((ids, logprobs, version))


class ChatServer(GenerateServer):
    """Serves one model to clients of OpenAI's chat completions, and of token ids as `GenerateServer` does.

    A request is rendered by the tokenizer's chat template. A conversation whose last reply came from here is continued
    with the tokens of that reply, as an agent in this process does: nothing that was sampled is encoded again, and a
    template that rewrites history changes nothing. A reply's text is all that was sampled, without special tokens:
    thinking and calls of tools stand in it as the model wrote them. With ``return_token_ids`` an answer has
    ``prompt_token_ids``, and each choice ``token_ids``, as vLLM's do. Streams are refused.

    Args:
        model: a transformers causal language model.
        tokenizer: its tokenizer, with a chat template.
        template_options: variables for the template, such as ``{"enable_thinking": False}``.
        max_new_tokens: of requests that name no limit; None for what the length leaves.
        options: of `GenerateServer`, beside ``end_ids``.

    Raises:
        ValueError: a number out of range, no bound on the length, or a tokenizer without chat template.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        template_options: Mapping[str, Any] | None = None,
        max_new_tokens: int | None = None,
        **options: Any,
    ) -> None:
        if max_new_tokens is not None and max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
        self.renderer = Renderer(tokenizer, template_options=template_options, end_ids=end_tokens(model))
        self.max_new_tokens = max_new_tokens
        # None: sampled as two sequences of tokens that are one text
        self._replies: OrderedDict[bytes, array[int] | None] = OrderedDict()
        self._remembering = threading.Lock()
        super().__init__(model, end_ids=self.renderer.end_ids, **options)

    def _posts(self) -> str:
        return f"{CHAT_PATH} and {PATH}"

    def _answer(self, request: HttpRequest) -> dict[str, Any]:
        if (request.method, request.path) == ("POST", CHAT_PATH):
            return self._chat(request.body)
        return super()._answer(request)

    def _chat(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self._check_model(body)
        conversation = self._conversation(body)
        try:
            prompt = conversation.tokens.ids + self.renderer.render(conversation)
        except ValueError as error:
            raise HttpError(400, str(error)) from error
        settings = _settings(_sampling_params(body, self._tokens_left(prompt)), self.vocabulary)
        number, jobs, version = self._continue(prompt, settings)
        choices = []
        for index, job in enumerate(jobs):
            ids, logprobs, _ = job.done.result()
            ended = ids[-1] in job.end_ids
            text = self.renderer.reply_text(ids[:-1] if ended else ids, prompt)
            self._remember(conversation, text, prompt + ids)
            choice = {"index": index, "message": {"role": "assistant", "content": text}}
            choice |= {"finish_reason": "stop" if ended else "length", "logprobs": None}
            if settings.logprobs:
                choice["logprobs"] = {"content": self._scored(ids, logprobs)}
            choices.append(choice | ({"token_ids": ids} if body.get("return_token_ids") else {}))
        head = {"id": f"chatcmpl-rlvr-{number}", "object": "chat.completion", "created": int(time.time())}
        head |= {"model": self.name, "policy_version": version}
        usage = _usage(prompt, sum(len(job.done.result()[0]) for job in jobs))
        return {
            **head,
            "choices": choices,
            "usage": usage,
            **({"prompt_token_ids": prompt} if body.get("return_token_ids") else {}),
        }

    def _tokens_left(self, prompt: Sequence[int]) -> int:
        """Tokens of a reply whose request names no limit."""
        left = self.max_length - len(prompt)
        return left if self.max_new_tokens is None else min(left, self.max_new_tokens)

    def _conversation(self, body: Mapping[str, Any]) -> Conversation:
        """What a request asks to continue, with the tokens of all up to the last reply, where that came from here."""
        messages = _messages(body.get("messages"))
        tools = body.get("tools") or []
        if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
            raise HttpError(400, "tools must be a list of objects")
        conversation = Conversation("request", messages, tools=json.dumps(tools) if tools else "")
        done = max((i + 1 for i, message in enumerate(messages) if message["role"] == "assistant"), default=0)
        with self._remembering:
            ids = self._replies.get(_digest(conversation, done)) if done else None
        if ids is not None:
            conversation.tokens = TokenSequence([*ids], [0] * len(ids), [0.0] * len(ids))
            conversation.rendered = done
        return conversation

    def _remember(self, conversation: Conversation, text: str, ids: Sequence[int]) -> None:
        reply: Message = {"role": "assistant", "content": text}
        messages = [*conversation.messages, reply]
        key = _digest(Conversation(conversation.key, messages, tools=conversation.tools), len(messages))
        with self._remembering:
            tokens = array("q", ids)
            self._replies[key] = tokens if self._replies.get(key, tokens) == tokens else None
            self._replies.move_to_end(key)
            while len(self._replies) > REMEMBERED:
                self._replies.popitem(last=False)

    def _scored(self, ids: Sequence[int], logprobs: Sequence[float]) -> list[dict[str, Any]]:
        """Each token as OpenAI writes it; special ones too."""
        tokens = self.renderer.tokenizer.convert_ids_to_tokens(ids)
        return [
            {"token": str(token), "logprob": logprob, "bytes": None, "top_logprobs": []}
            for token, logprob in zip(tokens, logprobs, strict=True)
        ]


def _digest(conversation: Conversation, count: int) -> bytes:
    turns = [[message["role"], message["content"]] for message in conversation.messages[:count]]
    return blake2b(json.dumps([conversation.tools, turns]).encode(), digest_size=16).digest()


def _messages(values: Any) -> list[Message]:
    """The messages of a request: parts of text joined, calls as text, before which the content stands.

    Raises:
        HttpError: they are none, or show images.
    """
    if not isinstance(values, list) or not values or not all(isinstance(message, dict) for message in values):
        raise HttpError(400, "messages must be a list of objects that is not empty")
    messages: list[Message] = []
    for message in values:
        role, content = message.get("role"), message.get("content")
        role = {"developer": "system", "function": "tool"}.get(str(role), role)
        if role not in ("system", "user", "assistant", "tool"):
            raise HttpError(400, f"a role is system, user, assistant or tool, got {role!r:.60}")
        if isinstance(content, list):
            if not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in content):
                raise HttpError(400, "this model reads text alone: a part of a content must be text")
            content = "".join(part["text"] for part in content)
        if not isinstance(content, str | None):
            raise HttpError(400, f"a content must be a text or parts of text, got {type(content).__name__}")
        calls = [_written(call) for call in message.get("tool_calls") or []]
        messages.append({"role": role, "content": "\n".join([*filter(None, [content]), *calls])})
    return messages


def _written(call: Any) -> str:
    """A call as the text of Hermes' form, its arguments letter for letter where they are a text."""
    try:
        name, written = str(call["function"]["name"]), call["function"].get("arguments") or "{}"
        arguments = json.loads(written) if isinstance(written, str) else written
        text = write_call(Call(name, dict(arguments)), "hermes")
        head, _, tail = write_call(Call(name, {}), "hermes").rpartition("{}")
        return f"{head}{written}{tail}" if isinstance(written, str) else text
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise HttpError(400, "a tool call must have a function with a name and arguments that are an object") from None


def _sampling_params(body: Mapping[str, Any], tokens_left: int) -> dict[str, Any]:
    """The settings of a chat's request by the names of ``sampling_params``; what may be passed over is left out."""
    if body.get("stream"):
        raise HttpError(400, "stream is not supported: an answer comes whole; leave stream out")
    if body.get("skip_special_tokens") is False:
        raise HttpError(400, "skip_special_tokens=false is not supported: a text has no special tokens; read token_ids")
    params: dict[str, Any] = {}
    for name, value in body.items():
        neutral = name in CHAT_NEUTRAL and value == CHAT_NEUTRAL[name]
        if not neutral and value is not None and name not in CHAT | CHAT_WITHOUT_EFFECT:
            params[name] = value
    limits = (body.get("max_completion_tokens"), body.get("max_tokens"), max(1, tokens_left))
    params["max_tokens"] = next(limit for limit in limits if limit is not None)
    return params | ({"logprobs": 1} if body.get("logprobs") else {})


def _usage(prompt: Sequence[int], sampled: int) -> dict[str, int]:
    return {"prompt_tokens": len(prompt), "completion_tokens": sampled, "total_tokens": len(prompt) + sampled}


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings of a request, checked."""

    max_tokens: int
    sampling: Sampling
    seed: int | None
    n: int
    stops: frozenset[int]
    ignore_eos: bool
    logprobs: bool


def _settings(params: Any, vocabulary: int) -> _Settings:
    """Read ``sampling_params``.

    Raises:
        HttpError: a setting that is unknown, not supported, or out of range.
    """
    if not isinstance(params, Mapping):
        raise HttpError(400, "sampling_params must be an object")
    for name, value in params.items():
        neutral = value is None or (name in NEUTRAL and value == NEUTRAL[name]) or value in ([], {}, "")
        if name not in KNOWN and name not in WITHOUT_EFFECT and not neutral:
            raise HttpError(400, f"{name}={value!r:.60} is not supported; this sampler has {', '.join(sorted(KNOWN))}")
    temperature, top_k = _number(params, "temperature", 1.0), _whole(params, "top_k", 0)
    greedy = temperature == 0
    try:
        sampling = Sampling(
            temperature=1.0 if greedy else temperature,
            top_p=_number(params, "top_p", 1.0),
            top_k=None if top_k in (0, -1) else top_k,
            greedy=greedy,
        )
    except ValueError as error:
        raise HttpError(400, str(error)) from error
    max_tokens, n = _whole(params, "max_tokens", DEFAULT_TOKENS), _whole(params, "n", 1)
    if max_tokens < 1 or not 1 <= n <= MOST_CHOICES:
        raise HttpError(400, f"max_tokens={max_tokens} must be at least 1, and n={n} from 1 to {MOST_CHOICES}")
    if (logprobs := _whole(params, "logprobs", -1)) > 1:
        raise HttpError(400, f"logprobs={logprobs}: only the sampled token's is kept, ask for 0 or 1")
    stops = frozenset(_tokens(params.get("stop_token_ids") or [], vocabulary, empty=True))
    seed = None if params.get("seed") is None else _whole(params, "seed", 0)
    return _Settings(max_tokens, sampling, seed, n, stops, bool(params.get("ignore_eos")), logprobs >= 0)


def _number(params: Mapping[str, Any], name: str, default: float) -> float:
    value = params.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise HttpError(400, f"{name} must be a number, got {value!r:.60}")
    return float(value)


def _whole(params: Mapping[str, Any], name: str, default: int) -> int:
    number = _number(params, name, default)
    if number != int(number):
        raise HttpError(400, f"{name} must be a whole number, got {number}")
    return int(number)


def _tokens(ids: Any, vocabulary: int, *, empty: bool = False) -> list[int]:
    if not isinstance(ids, list) or (not ids and not empty):
        raise HttpError(400, "token ids must be a list that is not empty")
    for token in ids:
        if type(token) is not int or not 0 <= token < vocabulary:
            raise HttpError(400, f"token ids are whole numbers from 0 to {vocabulary - 1}, got {token!r:.60}")
    return ids


def _choice(index: int, ids: list[int], logprobs: list[float], ends: frozenset[int], is_scored: bool) -> dict[str, Any]:
    content: list[dict[str, Any]] = [
        {"token": f"token_id:{token}", "logprob": logprob, "bytes": None, "top_logprobs": []}
        for token, logprob in zip(ids, logprobs, strict=True)
    ]
    return {
        "index": index,
        "token_ids": ids,
        "mask": [1] * len(ids),  # all of them sampled; what a client puts between replies is its own
        "logprobs": {"content": content} if is_scored else None,
        "finish_reason": "stop" if ids and ids[-1] in ends else "length",
    }
