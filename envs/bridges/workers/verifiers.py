"""What the workers of the verifiers bridge do: begin an episode of a taskset, and say one more thing in it.

Loaded in workers only. verifiers' own loop runs an episode (``Env.run_episode``: its ``setup``, ``run``, ``finalize``,
and the task's own hooks and rewards), and stops wherever its agent would ask a model: the agent is a seat that the
policy sits in. So there is no model server, no harness program, no sandbox, and nothing to upload. An episode belongs
to one episode instance (see ``kept``); a worker that does not have it plays it again. Python's and numpy's global
generators are seeded anew before every call into one.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import itertools
import json
import math
import random
from collections.abc import AsyncIterator, Callable, Iterable
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

from rlvr.envs.bridges.worker_episodes import KeptEpisodes, KeptKey, recorded
from rlvr.envs.core.seeding import digest

Names = tuple[str, str, int]  # the taskset, its configuration as JSON, how many of its tasks there are
_loaded: dict[Names, tuple[Any, list[Any]]] = {}
_episodes: KeptEpisodes[VerifiersEpisode] = KeptEpisodes(lambda episode: episode.drop())
_loops: list[asyncio.AbstractEventLoop] = []


def warm() -> None:
    """Import the package, with downloads of word lists taken out."""
    importlib.import_module("verifiers.v1")
    if find_spec("nltk") is not None:
        nltk: Any = importlib.import_module("nltk")
        nltk.download = lambda *_, **__: False


def describe(taskset: str, config: str, max_tasks: int) -> dict[str, Any]:
    """How many tasks there are.

    Raises:
        ValueError: the bridge cannot play this taskset; the message says why.
    """
    env, tasks = _load((taskset, config, max_tasks))
    if why := _refused(env, tasks):
        raise ValueError(f"the bridge cannot play the taskset {taskset!r}: {why}")
    return {"tasks": len(tasks)}


def begin(taskset: str, config: str, max_tasks: int, index: int, number: int) -> dict[str, Any]:
    """A new episode: what the policy reads first, and what makes the task this task."""
    names = (taskset, config, max_tasks)
    episode = _begin(names, index)
    _episodes.keep(number, episode)
    data = episode.task.data.model_dump(mode="json", exclude_none=True, exclude={"idx", "name"})
    content = f"{digest(taskset, json.dumps(data, sort_keys=True)):032x}"
    return {"text": episode.text, "content": content, "record": recorded("", episode.text)}


def play(
    taskset: str, config: str, max_tasks: int, index: int, actions: list[str], asked_for: list[Any]
) -> dict[str, Any]:
    """What the last of the actions leads to: what comes next, or the end and its scores."""
    names, past, action, asked = (taskset, config, max_tasks), tuple(actions[:-1]), actions[-1], KeptKey(*asked_for)
    episode = _episodes.take(asked.before, lambda: _again(names, index, past), asked.record)
    episode = _step(episode, names, index, past, action)
    if episode.result is None:
        _episodes.keep(asked.after, episode)
        return {"text": episode.text, "done": False, "record": recorded(asked.record, episode.text)}
    return {"text": "", "done": True, "record": "", **_scores(episode.result)}


class VerifiersEpisode:
    """One run of their loop, advanced from outside. ``text`` is what the policy reads next, ``result`` how it ended."""

    def __init__(self, env: Any, task: Any) -> None:
        self.task, self.text, self.result = task, "", None
        self._events: asyncio.Queue[Any] = asyncio.Queue()
        self._answers: asyncio.Queue[str] = asyncio.Queue()
        (self.seat,) = env._agent_specs
        self._env = env
        self._running = _loop().create_task(self._run())

    async def _run(self) -> None:
        def agents(context: Any, completed: list[Any], *_: Any) -> Any:
            return SimpleNamespace(**{self.seat: EpisodeSlot(self, completed, self._env._agent_specs[self.seat])})

        self._env._episode_agents = agents  # read at once, before anything waits
        try:
            self._events.put_nowait(await self._env.run_episode(self.task, None))
        except Exception as error:
            self._events.put_nowait(error)

    async def ask(self, text: str) -> str:
        """Hand a text out to the policy; the action that comes back."""
        self._events.put_nowait(text)
        return await self._answers.get()

    def go_on(self, action: str | None = None) -> None:
        """Until the policy is asked again, or it is over."""
        if action is not None:
            self._answers.put_nowait(action)
        event = _loop().run_until_complete(self._events.get())
        if isinstance(event, Exception):
            raise event
        self.text, self.result = (event, None) if isinstance(event, str) else ("", event)

    def drop(self) -> None:
        """Cancel what still runs; nobody asks for its score."""
        self._running.cancel()
        _loop().run_until_complete(asyncio.wait([self._running]))


class EpisodeSlot:
    """Their agent, as far as an environment's ``run`` sees it: no program, no runtime, the policy's words."""

    trainable = True

    def __init__(self, episode: VerifiersEpisode, completed: list[Any], config: Any) -> None:
        self.episode, self.completed, self.config = episode, completed, config

    async def run(self, task: Any) -> Any:
        """A task of one turn: its trace."""
        async with self.interaction(task) as talk:
            await talk.turn()
        return talk.trace

    @contextlib.asynccontextmanager
    async def interaction(self, task: Any) -> AsyncIterator[Talk]:
        """The exchange about a task: set up before, finished and scored after it, unless it was dropped."""
        talk = Talk(self, task)
        try:
            await _invoke(task.setup, {"trace": talk.trace, "runtime": None})
            yield talk
        except Exception as error:
            talk.trace.record_error(error)
            await talk.close()
            raise
        await talk.close()  # not when it was dropped: then nobody asks for a score


class Talk:
    """Their ``Interaction``: what the environment says goes to the policy, what it answers into the trace."""

    def __init__(self, seat: EpisodeSlot, task: Any) -> None:
        vf: Any = importlib.import_module("verifiers.v1")
        state: Any = importlib.import_module("verifiers.v1.state")
        trace: Any = importlib.import_module("verifiers.v1.trace")
        self.vf, self.seat, self.task = vf, seat, task
        named = trace.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        agent = trace.AgentInfo(config=seat.config, name=seat.episode.seat)
        self.trace = vf.Trace(task=named, agent=agent, state=state.state_cls(type(task))())
        self._messages: list[Any] = []
        self._over = self._closed = False

    async def turn(self, message: Any = None) -> Any:
        """Show a message to the policy and give its reply, or end where the taskset stops."""
        if self._over:
            raise RuntimeError("the exchange is over")
        news = self._news(message)
        self._messages += news
        if await self._stopped():
            self._over = True
            return self.vf.Segment(messages=[], terminated=True)
        reply = self.vf.AssistantMessage(content=await self.seat.episode.ask(_text(news)))
        graph: Any = importlib.import_module("verifiers.v1.graph")
        types: Any = importlib.import_module("verifiers.v1.types")
        response = types.Response(id="", created=0, model="policy", message=reply, finish_reason="stop")
        graph.prepare_turn(self.trace, self._messages).commit(response)
        self._messages.append(reply)
        return self.vf.Segment(messages=[reply])

    def _news(self, message: Any) -> list[Any]:
        data, parse = self.task.data, importlib.import_module("verifiers.v1.dialects").parse_message
        messages: list[Any] = []
        if not self._messages and data.system_prompt is not None:
            messages.append(self.vf.SystemMessage(content=data.system_prompt))
        if not self._messages and (message is None) != (data.prompt is not None):
            raise ValueError("a task with a prompt is begun by turn(), one without by turn(message)")
        new = data.prompt if message is None else message
        if isinstance(new, str):
            return [*messages, self.vf.UserMessage(content=new)]
        return messages + [parse(each) if isinstance(each, dict) else each for each in new or ()]

    async def _stopped(self) -> bool:
        limit = self.seat.config.max_turns
        if limit is not None and self.trace.num_turns >= limit:
            self.trace.stop("max_turns")
            return True
        for stop in self.task.hooks("stop"):
            if await _invoke(stop, {self.vf.Trace: self.trace}):
                self.trace.stop(stop.__name__)
                return True
        return False

    async def close(self) -> None:
        """End the exchange: the taskset finishes and scores its trace, once."""
        if self._closed:
            return
        self._over = self._closed = True
        self.trace.stop("agent_completed")
        self.seat.completed.append(self.trace)
        try:
            if not self.trace.errors:
                await _invoke(self.task.finalize, {"trace": self.trace, "runtime": None})
                await self.task.score(self.trace, None)
        except Exception as error:
            self.trace.record_error(error)
        self.trace.ok = not self.trace.errors


async def _invoke(hook: Callable[..., Any], available: dict[Any, Any]) -> Any:
    """A hook of theirs, given what it asks for by name, or by type."""
    result = importlib.import_module("verifiers.v1.utils.decorators").invoke(hook, available)
    return await result if inspect.isawaitable(result) else result


def _load(names: Names) -> tuple[Any, list[Any]]:
    if names not in _loaded:
        vf: Any = importlib.import_module("verifiers.v1")
        taskset, config, max_tasks = names
        _seeded(taskset, config)
        env = vf.load_environment(vf.resolve_env_config({"taskset": {**json.loads(config), "id": taskset}}))
        _loaded[names] = env, list(itertools.islice(env.taskset, max_tasks))
    return _loaded[names]


def _refused(env: Any, tasks: list[Any]) -> str:
    """Why it cannot be played here; empty when it can."""
    if not tasks:
        return "it has no tasks"
    if len(env._agent_specs) != 1:
        return f"it seats {', '.join(env._agent_specs)}, and the policy is one"
    task, taskset = tasks[0], env.taskset
    if taskset.toolsets(taskset.config) or task.toolsets(task.config):
        return "it brings tool servers of its own"
    if task.NEEDS_CONTAINER or task.data.image:
        return "its tasks run in a container"
    if task.config.judges:
        return "a model judges"
    decorators: Any = importlib.import_module("verifiers.v1.utils.decorators")
    if decorators.discover_decorated(task, "intercept"):
        return "it rewrites what a model is asked or answers"
    base: Any = importlib.import_module("verifiers.v1").Task
    hooks = [hook for hook in (task.setup, task.finalize) if hook.__func__ not in (base.setup, base.finalize)]
    for hook in [*hooks, *task.hooks("reward"), *task.hooks("metric"), *task.hooks("stop")]:
        parameters = inspect.signature(hook).parameters
        if "runtime" in parameters and parameters["runtime"].default is inspect.Parameter.empty:
            return f"{hook.__name__} needs a sandbox"
        if any("Request" in str(p.annotation) or "Response" in str(p.annotation) for p in parameters.values()):
            return f"{hook.__name__} looks at requests to a model"
    if any(not isinstance(part, str) for part in _parts([task.data])):
        return "its prompts are not text"
    return ""


def _parts(data: Iterable[Any]) -> Iterable[Any]:
    """The contents of prompts: text, or what is none."""
    for each in data:
        prompts = each.prompt if isinstance(each.prompt, list) else []
        for message in prompts:
            for part in message.content if isinstance(message.content, list) else [message.content or ""]:
                yield part if isinstance(part, str) else getattr(part, "text", None)


def _text(messages: list[Any]) -> str:
    """What is new, as one text."""
    contents = []
    for message in messages:
        content = message.content or ""
        contents.append(content if isinstance(content, str) else "\n".join(part.text for part in content))
    return "\n\n".join(contents)


def _begin(names: Names, index: int) -> VerifiersEpisode:
    env, tasks = _load(names)
    _seeded(*names, index, 0)
    episode = VerifiersEpisode(env, tasks[index])
    episode.go_on()
    if episode.result is not None:
        raise ValueError(f"the episode ended before it began: {_scores(episode.result)['error']}")
    return episode


def _again(names: Names, index: int, actions: tuple[str, ...]) -> tuple[VerifiersEpisode, str]:
    episode = _begin(names, index)
    record = recorded("", episode.text)
    for number, action in enumerate(actions):
        episode = _step(episode, names, index, actions[:number], action)
        record = recorded(record, episode.text)
    return episode, record


def _step(episode: VerifiersEpisode, names: Names, index: int, past: tuple[str, ...], action: str) -> VerifiersEpisode:
    """The episode after an action. One that makes it fail counts as an empty one; it is a fault if that fails, too."""
    _seeded(*names, index, 1 + len(past))
    episode.go_on(action)
    if action and episode.result is not None and _scores(episode.result)["error"]:
        episode = _step(_again(names, index, past)[0], names, index, past, "")
    return episode


def _scores(result: Any) -> dict[str, Any]:
    """The weighted sum of the rewards, each of them, and the error where there is one, or no number."""
    errors = [*result.errors, *(error for trace in result.traces for error in trace.errors)]
    rewards = {name: reward for trace in result.traces for name, reward in trace.rewards.items()}
    values = {name: reward.value for name, reward in rewards.items() if reward is not None}
    total = sum(values.values())
    error = errors[0].message if errors else "" if result.ok else "the episode failed"
    if not error and (not values or len(values) < len(rewards)):
        error = "a reward was not given"
    if not error and not math.isfinite(total):
        error = f"its reward was {total!r}"
    stopped = next((trace.stop_condition for trace in result.traces if trace.stop_condition), "")
    return {"error": error, "score": 0.0 if error else total, "scores": {} if error else values, "stopped": stopped}


def _seeded(*key: object) -> None:
    import numpy as np

    number = digest("verifiers", *key) & 0xFFFFFFFF
    random.seed(number)
    np.random.seed(number)


def _loop() -> asyncio.AbstractEventLoop:
    """The worker's event loop, on its main thread: some graders set alarms, which only work there."""
    if not _loops:
        _loops.append(asyncio.new_event_loop())
    return _loops[0]
