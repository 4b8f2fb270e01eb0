"""A task as plain JSON, and one episode of it: what crosses into another process, and what a foreign loop drives.

Trainers move rows between processes, never environments. A `TaskSpec` is what a row carries; an `EpisodeSession` is
what an adapter plays when the row arrives.
"""

from __future__ import annotations

import importlib
import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import gymnasium as gym

from rlvr.agents import Conversation, Episode, Message, Reply
from rlvr.agents.chat_template import CLOSING, OPENING
from rlvr.agents.conversation import TEXT_ALONE, observation_to_message, opening_messages, require_text
from rlvr.agents.driver.env_calls import EnvCall
from rlvr.agents.driver.episode_loop import ActiveEpisode
from rlvr.envs import Verdict
from rlvr.envs.core.code_rule import CodeRefused, code_allowed, make_env, require_code, settings_are_data
from rlvr.envs.core.hints import did_you_mean
from rlvr.envs.core.json_text import load_json, require_shallow

FIELDS = ("env_id", "module", "kwargs", "seed", "options", "thought")
PROTOTYPES = 32  # environments kept to take copies of, so that a table is read once


class InvalidEpisode(RuntimeError):
    """An episode whose fault was not the policy's: trainers leave it out.

    Attributes:
        verdict: what happened.

    Args:
        verdict: of the episode.
        reason: of the error; None takes the verdict's status and reason.
    """

    def __init__(self, verdict: Verdict | None, reason: str | None = None) -> None:
        super().__init__(reason or (f"{verdict.status}: {verdict.reason}" if verdict else "no verdict"))
        self.verdict = verdict


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """Names one task so that any process can rebuild it.

    Attributes:
        env_id: the environment, as Gymnasium's registry names it.
        module: what is imported first, so that the id is registered.
        kwargs: given to ``gym.make``; JSON types alone.
        seed: of ``reset``.
        options: of ``reset``, such as ``{"index": 7}``.
        thought: the tags of the thought that the policy's prompt opens, for a surface that is handed texts without the
            prompt's end; None where it opens none.
        trusted: whether it may name code (a module, a command, a function): True for what Python makes, False for what
            `parse` reads, since rows come from anybody. ``RLVR_ALLOW_CODE=1`` allows it for all.

    Raises:
        TypeError: kwargs or options that JSON cannot hold, or a seed that is no whole number.
    """

    env_id: str
    seed: int
    module: str = "rlvr"
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    thought: tuple[str, str] | None = None
    trusted: bool = field(default=True, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.thought is not None:
            pair = tuple(self.thought)
            if len(pair) != 2 or not all(isinstance(tag, str) and tag for tag in pair):
                raise TypeError(
                    f"thought of a task's spec must be an opening and a closing tag, got {self.thought!r:.80}"
                )
            object.__setattr__(self, "thought", pair)
        for name in ("kwargs", "options"):
            try:
                same = json.loads(json.dumps(getattr(self, name), allow_nan=False))
                require_shallow(same)
            except (TypeError, ValueError, RecursionError) as error:
                raise TypeError(f"{name} of a task's spec must be plain JSON: {error}") from error
            object.__setattr__(self, name, same)
        object.__setattr__(self, "seed", operator.index(self.seed))

    def to_json(self) -> str:
        """One line of JSON: a text survives every table format, while a struct without fields breaks parquet."""
        record = {name: getattr(self, name) for name in FIELDS}
        return json.dumps({name: value for name, value in record.items() if value is not None}, sort_keys=True)

    def action(self, text: str) -> str:
        """The action that a policy's text is, with the thought that its prompt opened."""
        if self.thought is None or text.lstrip().startswith(OPENING):
            return text
        return f"{OPENING}\n{text.replace(self.thought[1], CLOSING)}"

    @classmethod
    def parse(cls, value: str | Mapping[str, Any] | TaskSpec) -> TaskSpec:
        """Read what `to_json` wrote, or the same as a mapping; what is read may not name code, see ``trusted``.

        Raises:
            ValueError: not such a JSON object, or a field is missing or unknown.
        """
        if isinstance(value, TaskSpec):
            return value
        try:
            record = load_json(value) if isinstance(value, str) else dict(value)
        except ValueError as error:
            raise ValueError(f"a task's spec is a JSON object, not {value!r:.80}") from error
        if isinstance(record, dict) and (unknown := [name for name in record if name not in FIELDS]):
            hint = did_you_mean(unknown[0], FIELDS, "it has")
            raise ValueError(f"a task's spec has no field {unknown[0]!r:.80}{hint}")
        if not isinstance(record, dict) or not {"env_id", "seed"} <= record.keys():
            raise ValueError(
                f"a task's spec has env_id, seed and perhaps module, kwargs, options, thought; got {value!r:.200}"
            )
        return cls(**record, trusted=False)

    def make(self, images: bool = False) -> gym.Env[str, str]:
        """The environment, not reset yet; each call makes another one, and they share what is costly to read.

        Args:
            images: whether the caller takes images beside texts.

        Raises:
            ValueError: it does not, and the environment shows images.
            CodeRefused: the spec was read from a row, and names code.
        """
        with settings_are_data(not self.trusted):
            env = _maker(self.module, self.env_id, json.dumps(self.kwargs, sort_keys=True), code_allowed())()
        if not images and isinstance(getattr(env, "observation_space", None), gym.spaces.Dict):
            raise ValueError(TEXT_ALONE.format("this adapter"))
        return env

    def start(self, env: gym.Env[str, str] | None = None) -> tuple[gym.Env[str, str], str, dict[str, Any]]:
        """The environment (a new one, or the one given) at the task's beginning: env, observation, info."""
        env = env or self.make()
        observation, info = env.reset(seed=self.seed, options=dict(self.options) or None)
        return env, observation, info


@lru_cache(maxsize=PROTOTYPES)
def _maker(module: str, env_id: str, kwargs: str, code: bool) -> Callable[[], gym.Env[str, str]]:
    """A function that makes the environment; ``code`` says whether the spec may name code."""
    if code or module == "rlvr" or module.startswith("rlvr."):
        importlib.import_module(module)
    elif env_id not in gym.registry:  # a plug-in's is, or that of a module which the trainer has imported
        require_code(f"the module {module!r} of {env_id}")
    settings = json.loads(kwargs)
    env = make_env(env_id, **settings)
    inner = env
    while isinstance(inner, gym.wrappers.PassiveEnvChecker | gym.wrappers.OrderEnforcing):
        inner = inner.env
    spawn: Callable[[], gym.Env[str, str]] | None = getattr(inner, "spawn", None)
    if spawn is not None:
        return spawn

    def make() -> gym.Env[str, str]:
        return make_env(env_id, **settings)

    return make


def clear_environment_cache() -> None:
    """Let the next environment of each spec read its tables anew: their files may have changed."""
    _maker.cache_clear()


def initial_messages(observation: Any, info: Mapping[str, Any], *, use_system: bool = True) -> list[Message]:
    """The conversation that an episode begins with: the system prompt, worked examples and the first observation."""
    opening = opening_messages(info.get("system") if use_system else None, info.get("examples", ()))
    return [*opening, observation_to_message(observation, info)]


def require_tools_in_prompt(env_id: str, info: Mapping[str, Any]) -> None:
    """Refuse an environment that leaves its tools to a chat template, for surfaces that hand on texts alone.

    Raises:
        ValueError: ``info["tools"]`` holds schemas.
    """
    if info.get("tools"):
        raise ValueError(
            f"{env_id} leaves its tools to the chat template, and this surface hands on texts alone: make the "
            "environment with tools_in='system'"
        )


class EpisodeSession:
    """One episode, driven by somebody else's loop: texts in, messages out, and a reward at the end.

    It is the driver of `Rollout`, one step at a time. An environment that raises ends the episode with an ``env_error``
    verdict, and so does the first verdict of the environment that is not valid. The reward is then 0.0, and a trainer
    must leave the episode out.

    Attributes:
        messages: what begins the conversation; the adapter sends them to the policy.
        turns: how many actions were played.

    Args:
        spec: the task, in any form that `TaskSpec.parse` reads.
        use_system: whether the conversation begins with the environment's system prompt.
        env: an environment of that spec to use instead of a new one.
        images: whether the caller passes on ``message["images"]``, data URLs of PNGs.
        tools: whether the caller passes ``info["tools"]`` on to the chat template.

    Raises:
        ValueError: the environment shows images, and ``images`` is False, or it leaves its tools to the chat template,
            and ``tools`` is False.
    """

    def __init__(
        self,
        spec: TaskSpec | str | Mapping[str, Any],
        *,
        use_system: bool = True,
        env: gym.Env[str, str] | None = None,
        images: bool = False,
        tools: bool = False,
    ) -> None:
        self.spec = TaskSpec.parse(spec)
        self.turns = 0
        self.env = env or self.spec.make(images)
        episode = Episode(self.spec.env_id, "", self.spec.seed)
        self._active = ActiveEpisode(self.env, episode, Conversation("", []), use_system)
        outcome = EnvCall(0, self.env, lambda env: self.spec.start(env)[1:]).run()
        if isinstance(outcome, CodeRefused):
            raise outcome
        self._active.begin(outcome)
        self.messages: list[Message] = [*self.conversation.messages]
        if not images:
            require_text(self.messages, "this adapter")
        if not tools:
            require_tools_in_prompt(self.spec.env_id, self.info)

    @property
    def conversation(self) -> Conversation:
        """The messages so far, and the tokens where `step_reply` is given them."""
        return self._active.conversation

    @property
    def info(self) -> dict[str, Any]:
        """The last ``info`` of the environment."""
        return self._active.info

    @property
    def verdict(self) -> Verdict | None:
        """The last verdict; None before the first step."""
        episode = self._active.episode
        if episode.verdict:
            return episode.verdict
        return next((turn.verdict for turn in reversed(episode.turns) if turn.verdict), None)

    @property
    def reward(self) -> float:
        """The return so far, the sum of the rewards of all turns; 0.0 where the fault was not the policy's."""
        return float(self._active.episode.reward) if self.valid else 0.0

    @property
    def turn_rewards(self) -> list[float]:
        """The reward of each turn that was played."""
        return [float(turn.reward) for turn in self._active.episode.turns[: self.turns]]

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return self._active.episode.done

    @property
    def truncated(self) -> bool:
        """Whether it ended before the task did."""
        episode = self._active.episode
        return episode.truncated or (episode.done and not (episode.terminated and episode.valid))

    @property
    def valid(self) -> bool:
        """Whether the episode may enter the training signal."""
        return self.verdict is None or self.verdict.valid

    def step(self, text: str) -> Message | None:
        """Play the policy's text, which holds no special tokens: the next message, or None when the episode has ended.

        Where the spec names a thought that the prompt opens, the text goes on with that thought.

        Raises:
            ValueError: it had ended before.
        """
        return self.step_reply(Reply(self.spec.action(text)))

    def step_reply(self, reply: Reply) -> Message | None:
        """`step` for a reply that may have tokens; they are appended to ``conversation.tokens``."""
        if self.done:
            raise ValueError(f"the episode of {self.spec.env_id} is over: begin another session")
        self.turns += 1
        if self._active.step(self._active.answer(reply).run()):
            return None
        return self.conversation.messages[-1].copy()

    def close(self) -> None:
        """Let go of what the environment holds."""
        self.env.close()


def turns_of(env: gym.Env[str, str], info: Mapping[str, Any]) -> int | None:
    """How many turns an episode of this environment may have, at most; None where it does not say."""
    inner = env.unwrapped
    if (limit := getattr(inner, "max_turns", None)) is not None:
        return int(limit)
    task = getattr(inner, "task", None)
    return None if task is None else int(task.turns(info.get("level", 1)))


def grade(spec: TaskSpec | str | Mapping[str, Any], text: str) -> Verdict:
    """What one reply to the task is worth, for trainers that know single turns alone.

    Raises:
        ValueError: the environment plays several turns. Make it with ``max_turns=1`` to ask for the first one alone.
    """
    spec = TaskSpec.parse(spec)
    env, _, info = spec.start()
    require_single_turn(spec, env, info)
    session = EpisodeSession(spec, env=env)
    if not session.done:
        session.step(text)
    if not session.done:
        raise ValueError(f"{spec.env_id} went on after one reply: {SINGLE_TURN}")
    return session.verdict or Verdict(session.reward, "correct" if session.reward > 0 else "wrong")


SINGLE_TURN = 'this surface plays one turn alone; give kwargs={"max_turns": 1} to ask for the first turn on purpose'


def require_single_turn(spec: TaskSpec, env: gym.Env[str, str], info: Mapping[str, Any]) -> None:
    """Raise ValueError for an environment of more than one turn."""
    turns = turns_of(env, info)
    if turns is not None and turns > 1:
        raise ValueError(f"{spec.env_id} has up to {turns} turns: {SINGLE_TURN}")
