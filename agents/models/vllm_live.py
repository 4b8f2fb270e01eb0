"""A vLLM of this process that batches continuously and takes new weights between two of its steps.

One thread drives the engine. Requests come from any thread at any time, and none waits for another's end. When new
weights come, what is under way is taken out with its tokens so far, the weights are loaded, and it goes on from there:
its cache is computed again with the new weights (AReaL, 2505.24298), so each recorded log-probability is that of one
version of the weights, which the token carries. vLLM's own pause that keeps requests is not used: with seeds it ends
the engine on CPUs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

from rlvr.agents.models.token_agent import Continuation
from rlvr.agents.models.vllm import LocalEngine, load_in_process, mix_seed


@dataclass(slots=True, eq=False)
class _Request:
    """A prompt under way, with what was sampled for it so far."""

    prompt: list[int]
    options: dict[str, Any]
    future: Future[Continuation | str] = field(default_factory=Future)
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)


class LiveEngine(LocalEngine):
    """A ``vllm.LLM`` in this process, driven by a thread of its own.

    Attributes:
        version: of the weights that it samples with now.
        asleep: whether its memory is given back.

    Args:
        model: a folder.
        concurrency: the most requests under way at once.
        options: of ``vllm.LLM``.

    Raises:
        ImportError: vLLM is missing.
    """

    def __init__(self, model: Any, *, concurrency: int = 256, **options: Any) -> None:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # weights are handed over in memory
        super().__init__(model, **{"max_num_seqs": concurrency, **options})
        self.concurrency = concurrency
        self.version = 0
        self.asleep = False
        self._commands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._running: dict[str, _Request] = {}
        self._request_ids = count()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._drive, daemon=True, name="rlvr-vllm")
        self._thread.start()

    def generate(
        self, prompts: Sequence[Sequence[int]], options: Sequence[Mapping[str, Any]]
    ) -> list[Continuation | str]:
        """A continuation of each prompt, with the version of each token, see `Engine`; from any thread."""
        requests = [_Request(list(prompt), dict(sampling)) for prompt, sampling in zip(prompts, options, strict=True)]
        self._commands.put(lambda: self._add(requests))
        return [self._wait(request.future) for request in requests]

    def generate_each(
        self, prompts: Sequence[Sequence[int]], options: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[int, Continuation | str]]:
        """`generate`, whose requests are the engine's own thread's."""
        return enumerate(self.generate(prompts, options))

    def prompt_logprobs(self, prompt: Sequence[int]) -> list[float]:
        """The log-probability of each token of a text but the first, at temperature 1."""
        scores: list[float] = self._call(lambda: self._score(list(prompt)))
        return scores

    def update_weights(self, weights: Iterable[tuple[str, Any]], version: int | None = None) -> None:
        """Take these tensors, under transformers' names, between two steps of the engine.

        What is under way goes on with them; the tokens it has keep their version.
        """
        self._call(lambda: self._load(weights, self.version + 1 if version is None else version))

    def sleep(self) -> None:
        """Give the memory of a GPU back until `wake`; the engine was made with ``enable_sleep_mode``."""
        self._call(lambda: self._sleep(True))

    def wake(self) -> None:
        """Take the memory again; the weights must be loaded anew."""
        self._call(lambda: self._sleep(False))

    def close(self) -> None:
        """Stop the thread and the engine, and free its memory; requests under way fail."""
        self._commands.put(None)
        self._thread.join()
        super().close()

    # in the engine's thread

    def _drive(self) -> None:
        try:
            while True:
                for command in self._next():
                    if command is None:
                        return self._fail(RuntimeError("the engine was closed"))
                    command()
                if self._running:
                    for output in self.llm.llm_engine.step():
                        self._take(output)
        except BaseException as error:  # those who wait in other threads hear of it
            self._failure = error
            self._fail(error)
        return None

    def _next(self) -> list[Callable[[], None] | None]:
        """What was asked for; waits only when nothing is being sampled."""
        commands = [] if self._running else [self._commands.get()]
        while True:
            try:
                commands.append(self._commands.get_nowait())
            except Empty:
                return commands

    def _fail(self, error: BaseException) -> None:
        for request in self._running.values():
            request.future.set_exception(error)
        self._running.clear()

    def _add(self, requests: Iterable[_Request]) -> None:
        for request in requests:
            name, done = f"rlvr-{next(self._request_ids)}", len(request.ids)
            options = {**request.options, "max_tokens": request.options["max_tokens"] - done}
            if done:
                options["seed"] = mix_seed(options.get("seed", 0), done)
            try:
                params = self._params(**options, output_kind=self._new_tokens)
                self.llm.llm_engine.add_request(name, {"prompt_token_ids": request.prompt + request.ids}, params)
            except ValueError as error:  # a prompt that is too long, an option that vLLM does not take
                request.future.set_result(f"vLLM refused the request: {error}")
            else:
                self._running[name] = request

    def _take(self, output: Any) -> None:
        request = self._running.get(output.request_id)
        if request is None:
            return
        completion = output.outputs[0]
        ids = list(completion.token_ids)
        request.ids += ids
        request.logprobs += [float(s[t].logprob) for t, s in zip(ids, completion.logprobs or [], strict=True)]
        request.versions += [self.version] * len(ids)
        if output.finished:
            del self._running[output.request_id]
            result: Continuation | str = (request.ids, request.logprobs, request.versions)
            request.future.set_result(result if request.ids else f"vLLM sampled nothing ({completion.finish_reason})")

    def _interrupt(self) -> list[_Request]:
        interrupted, names = list(self._running.values()), list(self._running)
        self._running.clear()  # whatever is still on its way for them is sampled again
        self._drain(names)
        return interrupted

    def _drain(self, names: list[str]) -> None:
        engine = self.llm.llm_engine
        if names:
            engine.abort_request(names)
        while engine.has_unfinished_requests():
            engine.step()

    def _load(self, weights: Iterable[tuple[str, Any]], version: int) -> None:
        interrupted = self._interrupt()
        try:
            load_in_process(self.llm, weights)
            if not self.llm.reset_prefix_cache():
                raise RuntimeError("vLLM kept its prefix cache, which was computed with the old weights")
            self.version = version
        except BaseException as error:
            for request in interrupted:
                request.future.set_exception(error)
            raise
        self._add(interrupted)

    def _score(self, prompt: list[int]) -> list[float]:
        interrupted = self._interrupt()
        params = self._params(temperature=1.0, max_tokens=1, prompt_logprobs=0, detokenize=False)
        [output] = self.llm.generate([{"prompt_token_ids": prompt}], [params], use_tqdm=False)
        self._add(interrupted)
        entries = zip(prompt[1:], output.prompt_logprobs[1:], strict=True)
        return [float(entry[token].logprob) for token, entry in entries]

    def _sleep(self, asleep: bool) -> None:
        if asleep:
            self.llm.sleep(level=2)
        else:
            self.llm.wake_up()
        self.asleep = asleep

    # in other threads

    def _call(self, function: Callable[[], Any]) -> Any:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except BaseException as error:  # it belongs to whoever asked
                future.set_exception(error)

        self._commands.put(run)
        return self._wait(future)

    def _wait(self, future: Future[Any]) -> Any:
        """The result; the thread's own failure where there will be none."""
        while True:
            try:
                return future.result(timeout=1.0)
            except TimeoutError:
                if not self._thread.is_alive() and not future.done():
                    raise RuntimeError(f"the vLLM engine has ended: {self._failure or 'it was closed'}") from None
