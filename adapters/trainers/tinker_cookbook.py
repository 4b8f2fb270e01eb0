"""tinker-cookbook: our environments under its trainer, by tokens or by messages; see docs/adapters/tinker_cookbook.md.

    tasks = TaskDatasetBuilder(env_id="rlvr/GuessNumber-v0", model_name=model, batches=100, batch_size=16, group_size=8)
    await rl.train.main(rl.train.Config(model_name=model, dataset_builder=tasks, …))

Without ``renderer_name`` an episode is kept in tokens and shown as the tokenizer's chat template shows it: what was
sampled is never encoded again, so an episode is one datum whatever the template does to earlier turns. With it, the
cookbook's renderer does the showing and the reading. Nothing but the environment gives a reward; an episode with an
invalid verdict has its tokens masked and the mean of its group's others for a return, so that it moves nothing.
"""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from rlvr.adapters.rows import tasks
from rlvr.adapters.spec import EpisodeSession, TaskSpec
from rlvr.adapters.token_session import TokenSession
from rlvr.adapters.versions import require
from rlvr.agents.rendering import Renderer
from rlvr.envs.core.registry import size_of

TESTED = ("tinker-cookbook", "0.5.0", "0.7")
require(*TESTED)

import chz  # noqa: E402
import tinker  # noqa: E402
from tinker_cookbook import renderers, tokenizer_utils  # noqa: E402
from tinker_cookbook.rl import types  # noqa: E402
from tinker_cookbook.rl.message_env import EnvFromMessageEnv, MessageEnv, MessageStepResult  # noqa: E402
from tinker_cookbook.rl.rollout_limits import RolloutLimits  # noqa: E402

__all__ = ["GroupBuilder", "TaskDataset", "TaskDatasetBuilder", "TextMessageEnv", "TokenEnv", "shared_tokenizer"]

ENDLESS = 1 << 40  # tokens; the runner's limit, when there is one, is the cookbook's to keep


class _Locked:
    """A tokenizer that many threads may use: a fast one raises "Already borrowed" when two of them encode at once."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer, self._lock = tokenizer, threading.RLock()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._tokenizer, name)
        if not callable(value):
            return value

        def locked(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                return value(*arguments, **options)

        setattr(self, name, locked)
        return locked


@lru_cache(maxsize=8)
def shared_tokenizer(model_name: str) -> Any:
    """This process's tokenizer for a model's environments: a copy, since the trainer uses its own without a lock."""
    return _Locked(copy.deepcopy(tokenizer_utils.get_tokenizer(model_name)))


@lru_cache(maxsize=8)
def _template(model_name: str) -> Renderer:
    return Renderer(copy.deepcopy(tokenizer_utils.get_tokenizer(model_name)))  # it has a lock of its own


def _facts(session: EpisodeSession) -> dict[str, float]:
    """What the trainer's log has of a turn; more where it was the last."""
    if not session.done:
        return {}
    success = session.verdict is not None and session.verdict.success
    return {"success": float(success), "truncated": float(session.truncated), "valid": float(session.valid)}


class TextMessageEnv(MessageEnv):  # type: ignore[misc]  # the cookbook is not here when types are checked
    """One episode message by message, for the cookbook's renderers and completers; arguments as for `EpisodeSession`.

    Attributes:
        session: the episode; None before `initial_observation`.
    """

    def __init__(self, spec: TaskSpec | str | Mapping[str, Any], *, use_system: bool = True) -> None:
        self.spec, self.use_system = TaskSpec.parse(spec), use_system
        self.session: EpisodeSession | None = None
        self._messages: list[Any] = []

    async def initial_observation(self) -> list[Any]:
        """The messages that the episode begins with."""
        session = self.session = await asyncio.to_thread(EpisodeSession, self.spec, use_system=self.use_system)
        self._messages = [dict(message) for message in session.messages] or [{"role": "user", "content": ""}]
        return list(self._messages)

    async def step(self, message: Any) -> Any:
        """Play the assistant's message: the messages after it, its reward, whether the episode has ended."""
        session = self.session
        if session is None:
            raise ValueError("an episode begins with initial_observation")
        before, answer = session.reward, None
        if not session.done:  # it is when the environment failed in reset
            answer = await asyncio.to_thread(session.step, text_of(message))
        self._messages += [message, *([dict(answer)] if answer else [])]
        return MessageStepResult(session.reward - before, session.done, list(self._messages), _facts(session))


def text_of(message: Mapping[str, Any]) -> str:
    """What the policy wrote, without its thinking; calls of tools, which a renderer takes out, stand at the end."""
    calls = (call.function for call in message.get("tool_calls", ()))
    raw = [f'<tool_call>\n{{"name": "{call.name}", "arguments": {call.arguments}}}\n</tool_call>' for call in calls]
    raw += [call.raw_text for call in message.get("unparsed_tool_calls", ())]
    return "\n".join(filter(None, [renderers.get_text_content(message), *raw]))


class TokenEnv(types.Env):  # type: ignore[misc]
    """One episode token by token, shown as a chat template shows it, each token encoded once.

    A reply that was cut off at ``max_tokens`` is played like any other.

    Attributes:
        session: the episode; None before `initial_observation`.

    Args:
        spec, use_system: as for `EpisodeSession`.
        renderer: of a tokenizer that threads may share.
        limits: what the cookbook's runner keeps to.
    """

    def __init__(
        self,
        spec: TaskSpec | str | Mapping[str, Any],
        renderer: Renderer,
        *,
        limits: RolloutLimits | None = None,
        use_system: bool = True,
    ) -> None:
        self.spec, self.use_system, self._renderer = TaskSpec.parse(spec), use_system, renderer
        self.rollout_limits = limits  # where the runner looks for them
        self._episode: TokenSession | None = None
        self._stop = sorted(renderer.end_ids)

    @property
    def session(self) -> EpisodeSession | None:
        """The episode behind the tokens."""
        return None if self._episode is None else self._episode.session

    async def initial_observation(self) -> Any:
        """The first prompt's tokens, and what ends a reply."""
        self._episode = await asyncio.to_thread(
            TokenSession, self.spec, self._renderer, ENDLESS, use_system=self.use_system
        )
        return tinker.ModelInput.from_ints(self._episode.tokens.ids[:]), self._stop

    async def step(self, action: Sequence[int], *, extra: Any = None) -> Any:
        """Play sampled tokens, their end token included."""
        if self._episode is None:
            raise ValueError("an episode begins with initial_observation")
        episode, session = self._episode, self._episode.session
        before = session.reward
        if not session.done:
            await asyncio.to_thread(episode.step_tokens, action)
        prompt = tinker.ModelInput.from_ints([] if episode.done else episode.tokens.ids[:])
        return types.StepResult(session.reward - before, episode.done, prompt, self._stop, _facts(session))


@dataclass
class GroupBuilder(types.EnvGroupBuilder):  # type: ignore[misc]
    """A group: ``group_size`` episodes of one task, ``spec`` as JSON. It pickles, for rollouts in other processes.

    Attributes:
        model_name: whose tokenizer.
        renderer_name: a renderer of the cookbook; None for the tokenizer's chat template and `TokenEnv`.
        max_trajectory_tokens: the longest conversation, its prompt included; None for no limit.
        use_system: whether the conversation begins with the environment's system prompt.
    """

    spec: str
    model_name: str
    group_size: int
    renderer_name: str | None = None
    max_trajectory_tokens: int | None = None
    use_system: bool = True
    _made: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)

    async def make_envs(self) -> list[Any]:
        """The environments of a group, all of one task."""
        envs = [self._make() for _ in range(self.group_size)]
        self._made += envs
        return envs

    def _make(self) -> Any:
        limits = RolloutLimits(max_trajectory_tokens=self.max_trajectory_tokens)
        if self.renderer_name is None:
            return TokenEnv(self.spec, _template(self.model_name), limits=limits, use_system=self.use_system)
        return EnvFromMessageEnv(
            renderers.get_renderer(self.renderer_name, shared_tokenizer(self.model_name), model_name=self.model_name),
            TextMessageEnv(self.spec, use_system=self.use_system),
            failed_parse_reward=0.0,  # the cookbook's own: -1.0 and -0.1
            context_overflow_reward=0.0,
            rollout_limits=limits,
        )

    async def compute_group_rewards(self, trajectory_group: list[Any], env_group: Sequence[Any]) -> list[Any]:
        """Nothing for valid episodes. Invalid ones are masked, and brought to the mean of the others."""
        totals = [sum(turn.reward for turn in trajectory.transitions) for trajectory in trajectory_group]
        valid = [session is None or session.valid for session in map(_session_of, env_group)]
        good = [total for total, is_valid in zip(totals, valid, strict=True) if is_valid]
        mean = sum(good) / len(good) if good else 0.0
        for trajectory, is_valid in zip(trajectory_group, valid, strict=True):
            for turn in trajectory.transitions if not is_valid else ():
                turn.metrics[types.PARSE_ERROR_MASKED_METRIC_KEY] = 1.0
        return [(0.0 if ok else mean - total, {}) for total, ok in zip(totals, valid, strict=True)]

    async def cleanup(self) -> None:
        """Close the environments that `make_envs` made."""
        envs, self._made = self._made, []
        for env in envs:
            if (session := _session_of(env)) is not None:
                session.close()

    def logging_tags(self) -> list[str]:
        """The environment's id, under which the log has its metrics."""
        return [TaskSpec.parse(self.spec).env_id]


def _session_of(env: Any) -> EpisodeSession | None:
    inner = env.message_env if isinstance(env, EnvFromMessageEnv) else env
    session: EpisodeSession | None = inner.session
    return session


class TaskDataset(types.RLDataset):  # type: ignore[misc]
    """Batches of groups; when there are fewer tasks than the batches ask for, they come again in the same order."""

    def __init__(self, specs: Sequence[TaskSpec], batches: int, batch_size: int, group: GroupBuilder) -> None:
        self.specs, self.batches, self.batch_size, self.group = specs, batches, batch_size, group

    def get_batch(self, index: int) -> list[GroupBuilder]:
        """The groups of the batch at this index; tasks repeat when there are no more."""
        indices = range(index * self.batch_size, (index + 1) * self.batch_size)
        return [replace(self.group, spec=self.specs[i % len(self.specs)].to_json()) for i in indices]

    def __len__(self) -> int:
        return self.batches


@chz.chz
class TaskDatasetBuilder(types.RLDatasetBuilder):  # type: ignore[misc]
    """For ``Config.dataset_builder``: the tasks of an environment, and perhaps some of its test split.

    Attributes:
        env_id: an id, perhaps with the module that registers it before a colon.
        model_name: whose tokenizer; the trainer's ``model_name``.
        batches, batch_size: how many batches, and how many tasks in each.
        group_size: how many episodes of a task.
        n: how many tasks; None for as many as the batches ask for, or all of a smaller table.
        seed: another seed, other tasks.
        kwargs: for ``gym.make``: level, max_turns, …
        test_tasks: how many tasks of the test split are played once for the trainer's evaluations.
        renderer_name, max_trajectory_tokens, use_system: as for `GroupBuilder`.
    """

    env_id: str
    model_name: str
    batches: int
    batch_size: int
    group_size: int
    n: int | None = None
    seed: int = 0
    kwargs: dict[str, Any] = chz.field(default_factory=dict)
    test_tasks: int = 0
    renderer_name: str | None = None
    max_trajectory_tokens: int | None = None
    use_system: bool = True

    async def __call__(self) -> tuple[TaskDataset, TaskDataset | None]:
        """Both data sets.

        Raises:
            ValueError: a number below 1, more tasks than a table has, or an environment that shows images.
        """
        for name in ("batches", "batch_size", "group_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        template, limit = self.renderer_name, self.max_trajectory_tokens
        group = GroupBuilder("", self.model_name, self.group_size, template, limit, self.use_system)
        specs = self._specs(self.kwargs, self.n, self.batches * self.batch_size)
        train = TaskDataset(specs, self.batches, self.batch_size, group)
        if not self.test_tasks:
            return train, None
        held_out = self._specs({**self.kwargs, "split": "test"}, None, self.test_tasks)
        return train, TaskDataset(held_out, 1, len(held_out), replace(group, group_size=1))

    def _specs(self, kwargs: dict[str, Any], n: int | None, count: int) -> list[TaskSpec]:
        module, _, name = self.env_id.rpartition(":")
        first = TaskSpec(name, self.seed, module or "rlvr", kwargs)
        if n is None:
            size = size_of(first.make())
            n = count if size is None else min(size, count)
        return [spec for spec, _ in tasks(first, n, self.use_system)]
