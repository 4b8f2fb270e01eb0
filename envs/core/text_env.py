"""TextEnv: the shell that makes a gymnasium environment of any task."""

from __future__ import annotations

import importlib
import inspect
import operator
import random
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding

from rlvr.envs.core.code_rule import require_registered_task
from rlvr.envs.core.hints import check_reset_options, require_known
from rlvr.envs.core.images import Image, observation_space
from rlvr.envs.core.registry import hooked, scores_below_1
from rlvr.envs.core.seeding import IN_SPLIT, KeyedRandom, divide, in_part, shuffled_index, stream
from rlvr.envs.core.spaces import Text
from rlvr.envs.core.task import DRAWS, MultipleChoice, Task, as_turns, checked_examples, expert_episodes
from rlvr.envs.core.terminal import as_html, printable
from rlvr.envs.core.verdict import INVALID, Verdict, fails_again, goes_through, last_word, provoked_verdict

TEXT_METADATA = {"render_modes": ["ansi"], "render_fps": 1}
# How the keys of a stream begin, and whether a content is in its split.
Stream = tuple[str, Callable[[str], bool] | None]
RESET_OPTIONS = ("index", "split", "level")
PROGRESS = ("turn", "role")  # what ``info`` holds at first beside what names the task


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All of an environment that can change. Picklable; ``TextEnv.set_state`` restores it exactly."""

    identity: dict[str, Any]
    state: Any
    turn: int
    limit: int
    over: bool
    next_index: int
    transcript: tuple[str, ...]
    generator: Mapping[str, Any] | None
    generator_seed: int | None
    unread: int = 0


class TextEnv(gym.Env[Any, str]):
    """A task as a ``gymnasium.Env``: text in, text out.

    Where the task has images (``Task.image``), an observation is ``{"text": str, "image": array [H, W, 3] of uint8}``,
    and ``render_mode="rgb_array"`` gives the image; everything else is as without.

    ``reset(seed=…, options={"index": …, "split": …, "level": …})``: the same seed gives the same task on every
    machine. A generated task is drawn from a stream of its own, keyed by (task, split, level, seed, index); a
    task from a table is row ``index``, or without an index the next row of a shuffle keyed by the seed; ``info``
    names the row. A reset without seed goes on to the next task. Options hold for the one reset.

    An action that is not understood (``unparsable``) is answered by the task, and from the second one in a row on also
    with an example of the form, ``Task.form_example``. Where the last action was not understood, the end is
    ``unparsable``, never ``wrong``.

    ``info`` holds the task's identity (``env_id, split, level, seed, index``), ``turn``, ``role`` (whose words the
    observation is), ``system``, ``examples``, ``tools`` and ``best_score`` (first only, if any), ``verdict`` after each
    step, and ``success`` at the end. ``examples`` are worked examples as chat messages, the user's and the assistant's
    in turn, which stand before the observation. ``best_score`` is the best score known of the level, where that is
    below 1; it stands in the last verdict's parts too. The observation after the last action is the verdict's reason.

    Args:
        task: a task, or "module:Class" and, in ``settings``, what to build it with.
        split: train, validation or test; None draws from everything.
        level: difficulty, from 1.
        tools: what the policy may call before it answers: names of kits, or a mapping of the
            arguments of what is hooked in as "tools" (``WithTools``). The tasks are the same as without.
        few_shot: so many worked examples, up to 32: a table's are other rows, else they are episodes of the expert on
            training tasks of the level.

    Raises:
        rlvr.envs.core.code_rule.CodeRefused: the settings come from a config or a row, and name code.
        ValueError: an unknown split or option, a level or index out of range.
        TypeError: an action that is not text, or a setting that the task does not have.
        gymnasium.error.ResetNeeded: a step before ``reset`` or after the end.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 1}  # noqa: RUF012  (gymnasium's own declaration)

    def __init__(
        self,
        task: Task[Any] | str,
        *,
        split: str | None = "train",
        level: int = 1,
        max_turns: int | None = None,
        render_mode: str | None = None,
        tools: Sequence[Any] | Mapping[str, Any] | None = None,
        few_shot: int | None = None,
        **settings: Any,
    ) -> None:
        if max_turns is not None and ((turns := _whole(max_turns)) is None or turns < 1):
            raise ValueError(f"max_turns must be a whole number from 1, got {max_turns!r}")
        self.task = _resolve(task, split, settings, few_shot)
        self._few_shot = 0 if few_shot is None or hasattr(self.task, "few_shot") else checked_examples(few_shot)
        if self._few_shot and self.task.image_shape is not None:
            raise ValueError(f"few_shot={few_shot}: an example is a text, and {self.task.name} shows images")
        self._examples: dict[int, list[list[dict[str, str]]]] = {}  # of the expert, by level
        if tools:
            self.task = with_tools(self.task, tools)
        self.name = self.task.name
        self.split = self._checked_split(split)
        self.level = self._checked_level(level)
        self.max_turns = max_turns
        self.render_mode = render_mode
        self._shows = self.task.image_shape is not None
        if not self._shows:
            self.metadata = TEXT_METADATA
            if render_mode == "rgb_array":
                raise ValueError(f"{self.name} has no images: its render_mode is 'ansi' or None")
        self.observation_space = observation_space(self.task.image_shape)
        self.action_space = Text()
        self._generator: np.random.Generator | None = None
        self._seed: int | None = None
        self._next_index = 0
        self._over = True
        self._state: Any = None
        self._info: dict[str, Any] = {}
        self._transcript: list[str] = []
        self._unread = 0  # the last actions in a row that were not understood
        self._stream_seed: int | None = None
        self._streams: dict[tuple[str | None, int], Stream] = {}  # of this seed, by split and level
        self._divided: dict[int, dict[str, str] | None] = {}
        self._spawned = False  # whether the task is another environment's as well

    # reset and step

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin the task of ``seed`` and ``options["index"]``, else the next of the stream: observation and info."""
        task = self.task
        split, level, index = self.split, self.level, None
        if options:
            asked = options.get("level")
            if len(options) == 1 and type(asked) is int and 0 < asked <= task.levels:  # what most resets name
                level = asked
            else:
                split, level, index = self._checked_options(options)
        if seed is not None:
            if (number := _whole(seed)) is None or number < 0:
                raise gym.error.Error(f"seed must be a whole number from 0, got {seed!r}")
            self._generator, self._np_random_seed = None, number
            self._seed, self._next_index = number, 0
        elif self._seed is None:
            self._seed = secrets.randbits(32)
        size = task.size
        if index is None or size is None:
            index = self._next_index if index is None else index
            self._next_index = index + 1
            if size is not None:
                index = self._shuffled(self._seed, index, size)
        self._state = state = self._draw(split, level, self._seed, index)
        self._limit = self.max_turns or task.turns(level)
        self._turn, self._over, self._unread = 0, False, 0
        info: dict[str, Any] = {
            "env_id": self.spec.id if self.spec else self.name,
            "split": split,
            "level": level,
            "seed": self._seed,
            "index": index,
            "turn": 0,
            "role": "user",
        }
        self._info = info.copy()
        observation = task.observe(state)
        if task.system:
            info["system"] = task.system
        if examples := self._expert_turns(level, observation) or as_turns(task.worked_examples(state)):
            info["examples"] = examples
        if tools := task.tool_schemas(state):
            info["tools"] = tools
        if level in self._scores_below_1:
            info["best_score"] = self._scores_below_1[level]
        if self.render_mode:
            self._transcript = [observation]
        return (self.shown(observation) if self._shows else observation), info

    def step(self, action: str) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Play an action: observation, reward, terminated, truncated, and an info that holds the verdict."""
        if not isinstance(action, str):
            raise TypeError(f"an action is the assistant's text, a str; got {type(action).__name__}")
        if self._over:
            raise gym.error.ResetNeeded("the episode is over, or never began: call reset() before step()")
        state, turn = self._state, self._turn
        try:
            return self._step(action)
        except Exception as error:
            if not provoked(self, state, turn, action):
                raise
            verdict = provoked_verdict(f"the environment {self.name}", error)
            self._state, self._turn, self._over = state, turn + 1, True
        info = {**self._info, "turn": turn + 1, "role": "user", "verdict": verdict, "success": False}
        if self.render_mode:
            self._transcript += [action, verdict.reason]
        return self.shown(verdict.reason), verdict.reward, True, False, info

    def _step(self, action: str) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        task = self.task
        state, verdict, terminated, role = task.apply(self._state, action)
        self._state = state
        self._turn = turn = self._turn + 1
        info = self._info.copy()  # twice as fast as building it
        info["turn"], info["role"] = turn, role
        truncated = False
        if terminated:
            self._over = True
        elif verdict.status in INVALID:  # what came next would be about another episode than the policy's
            self._over = truncated = True
        elif turn >= self._limit:
            self._over = truncated = True
            verdict = last_word(verdict, task.out_of_turns(state, turn))
        if self._over and info["level"] in self._scores_below_1:
            verdict = verdict.replace(parts={**verdict.parts, "best_score": self._scores_below_1[info["level"]]})
        info["verdict"] = verdict
        self._unread = self._unread + 1 if verdict.status == "unparsable" else 0
        if self._over:
            info["success"] = verdict.status == "correct"
            observation = verdict.reason
        else:
            observation = task.observe(state)
            if self._unread > 1:
                observation = with_example(observation, self._unread, task.form_example(state))
        if self.render_mode:
            self._transcript += [action, observation]
        if self._shows:
            return self.shown(observation), verdict.reward, terminated, truncated, info
        return observation, verdict.reward, terminated, truncated, info

    def shown(self, text: str) -> Any:
        """A text as an observation: itself, or beside the image of the present state where the task has one."""
        if not self._shows:
            return text
        image: Image = np.array(self.task.image(self._state), np.uint8)
        if image.shape != self.task.image_shape:
            raise ValueError(f"{self.name} promises images of {self.task.image_shape}, and draws {image.shape}")
        return {"text": text, "image": image}

    def __str__(self) -> str:
        turns = f", turn {self._turn} of {self._limit}" if self._info else ""
        return f"<TextEnv<{self.spec.id if self.spec else self.name}> split {self.split}, level {self.level}{turns}>"

    def _repr_html_(self) -> str:
        observation = "reset() begins an episode" if self._over else self.task.observe(self._state)
        return as_html(f"{self}\n{observation}")

    def render(self) -> Any:
        """The episode so far, with control characters as escapes; with "rgb_array" the image of the present state.

        Raises:
            gymnasium.error.ResetNeeded: no episode has begun.
        """
        if self._state is None:
            raise gym.error.ResetNeeded("no episode has begun: call reset() before render()")
        if self.render_mode == "rgb_array":
            return self.shown("")["image"]
        marks = ("", "> ")
        return printable("\n".join(f"{marks[i % 2]}{text}" for i, text in enumerate(self._transcript)))

    def close(self) -> None:
        """End what runs for this episode, and for those of all environments that were spawned from this one."""
        if self._state is not None:
            self._state = self.task.detached(self._state)
        if not self._spawned:
            self.task.close()
        super().close()

    def __copy__(self) -> TextEnv:
        return self.spawn() if self._state is None else self.fork()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _spawned=False)  # the task was copied with it

    # Gymnasium's generator, which no task of ours reads

    @property
    def _np_random(self) -> np.random.Generator | None:
        """Made when it is first asked for: a reset that made it would take four times as long."""
        if self._generator is None and self._np_random_seed is not None:
            self._generator, _ = seeding.np_random(self._np_random_seed)
        return self._generator

    @_np_random.setter
    def _np_random(self, generator: np.random.Generator | None) -> None:
        self._generator = generator

    # who could act, and how many tasks there are

    def solve(self) -> str:
        """The expert's next action.

        Raises:
            NotImplementedError: the task knows no expert.
            gymnasium.error.ResetNeeded: no episode is under way.
        """
        return self.task.solve(self._current())

    def direct_answer(self) -> str | None:
        """The final answer without the work that leads to it; None where there is no work to skip."""
        return self.task.direct_answer(self._current())

    def sample_action(self, rng: random.Random) -> str:
        """A random action: a well-formed one where the task has such a notion, else random text."""
        action = self.task.sample_action(self._current(), rng)
        if action is None:
            self.action_space.seed(rng.getrandbits(32))
            action = self.action_space.sample()
        return action

    def choices(self) -> MultipleChoice | None:
        """The options of a multiple choice, for likelihood scoring; None for any other task."""
        return self.task.choices(self._current())

    @property
    def size(self) -> int | None:
        """How many tasks there are in a table; None when they are generated without end."""
        return self.task.size

    @property
    def content(self) -> str:
        """What makes the current task this task and no other."""
        return self.task.content(self._current())

    # exact restore

    def get_state(self) -> Snapshot:
        """Everything that can change, the random generator included.

        What runs behind the state, an interpreter of a tool say, stays with this environment.
        """
        state = self.task.detached(self._current(over=True))
        generator = self._generator.bit_generator.state if self._generator is not None else None
        return Snapshot(
            identity=self._identity,
            state=state,
            turn=self._turn,
            limit=self._limit,
            over=self._over,
            next_index=self._next_index,
            transcript=tuple(self._transcript),
            generator=generator,
            generator_seed=self._np_random_seed,
            unread=self._unread,
        )

    def set_state(self, state: Snapshot) -> None:
        """Go on from a snapshot, of this environment or of one made with the same settings.

        Live tools are made again by the next step: their calls are made again, and must give what they gave.
        """
        self._info = {**state.identity, "turn": 0, "role": "user"}
        self._state = self.task.detached(state.state)
        self._turn, self._limit = state.turn, state.limit
        self._over, self._next_index, self._unread = state.over, state.next_index, state.unread
        self._transcript = list(state.transcript)
        self._seed = state.identity["seed"]
        self._generator, self._np_random_seed = None, None
        if state.generator is not None:
            self.np_random.bit_generator.state = state.generator
        self._np_random_seed = state.generator_seed

    def spawn(self) -> TextEnv:
        """A second environment of the same settings, not reset yet; the task itself, and its rows, are shared."""
        twin = TextEnv(
            self.task,
            split=self.split,
            level=self.level,
            max_turns=self.max_turns,
            render_mode=self.render_mode,
        )
        twin.spec = self.spec
        twin._divided, twin._spawned = self._divided, True
        twin._few_shot, twin._examples = self._few_shot, self._examples
        return twin

    def fork(self) -> TextEnv:
        """A second environment that goes on from here on its own."""
        twin = self.spawn()
        twin.set_state(self.get_state())
        return twin

    # drawing a task

    def _expert_turns(self, level: int, observation: str) -> list[dict[str, str]]:
        """The turns of ``few_shot`` examples; none of them asks what the task asks."""
        if not self._few_shot:
            return []
        if level not in self._examples:
            player = self.spawn()
            player._few_shot = 0
            self._examples[level] = expert_episodes(player, level, self._few_shot + 1)
        others = [turns for turns in self._examples[level] if turns[0]["content"] != observation]
        return [turn for turns in others[: self._few_shot] for turn in turns]

    def _draw(self, split: str | None, level: int, seed: int, index: int) -> Any:
        task = self.task
        if task.size is not None:
            return task.row(index, stream(self.name, "row", seed, index))
        if seed != self._stream_seed:
            self._stream_seed, self._streams = seed, {}
        key, accepts = self._streams.get((split, level)) or self._begin_stream(split, level, seed)
        # What stream(name, split, level, seed, index) is, with the part of its key that stays the same kept.
        rng = KeyedRandom(f"{key}{index})".encode())
        if accepts is None:
            return task.start(rng, level)
        start, content = task.start, task.content
        for _ in range(DRAWS):
            if accepts(content(state := start(rng, level))):
                return state
        raise ValueError(f"{self.name} has no task of level {level} in split {split!r}; use split=None")

    def _begin_stream(self, split: str | None, level: int, seed: int) -> Stream:
        accepts: Callable[[str], bool] | None = None
        if split is not None:  # by a content's hash, or in a small space by its rank
            divided = self._small_space(level)
            accepts = IN_SPLIT[split] if divided is None else partial(in_part, divided, split)
        self._streams[split, level] = stream = (repr((self.name, split, level, seed))[:-1] + ", ", accepts)
        return stream

    @cached_property
    def _scores_below_1(self) -> dict[int, float]:
        """The best score known of each level where that is below 1."""
        return scores_below_1(self.spec)

    @property
    def _identity(self) -> dict[str, Any]:
        """What ``info`` names the task by."""
        return {name: value for name, value in self._info.items() if name not in PROGRESS}

    def _shuffled(self, seed: int, index: int, size: int) -> int:
        """Every row once, in an order of the seed's own, then every row again in another order."""
        epoch, position = divmod(index, size)
        return shuffled_index(position, size, self.name, "order", seed, epoch)

    def _small_space(self, level: int) -> dict[str, str] | None:
        if level not in self._divided:
            contents = self.task.enumerate_contents(level)
            self._divided[level] = divide(contents) if contents else None
        return self._divided[level]

    # bad input

    def _current(self, over: bool = False) -> Any:
        if self._state is None or (self._over and not over):
            raise gym.error.ResetNeeded("no episode is under way: call reset() first")
        return self._state

    def _checked_split(self, split: Any) -> str | None:
        if split is not None and split not in self.task.splits:
            raise ValueError(f"{self.name} has no split {split!r}; it has {', '.join(self.task.splits)}")
        return split  # type: ignore[no-any-return]

    def _checked_level(self, level: Any) -> int:
        number = level if type(level) is int else _whole(level)
        if number is None or not 1 <= number <= self.task.levels:
            raise ValueError(f"level {level!r} is out of range: {self.name} has levels 1 to {self.task.levels}")
        return number

    def _checked_options(self, options: dict[str, Any]) -> tuple[str | None, int, int | None]:
        """Split, level and index of a reset with these options."""
        split, level, index = self.split, self.level, None
        for name, value in options.items():
            if name == "level":
                level = value if type(value) is int and 1 <= value <= self.task.levels else self._checked_level(value)
            elif name == "split":
                split = self._checked_split(value)
                if self.task.size is not None and split != self.split:
                    raise ValueError(f"a table is read for one split: make {self.name} with split={split!r}")
            elif name == "index":
                index = value if value is None else self._checked_index(value)
            else:
                check_reset_options(options, RESET_OPTIONS)
        return split, level, index

    def _checked_index(self, index: Any) -> int:
        number = _whole(index)
        if number is None or number < 0:
            raise ValueError(f"index must be a whole number from 0, got {index!r}")
        if self.task.size is not None and number >= self.task.size:
            raise ValueError(f"index {number} is out of range: {self.name} has {self.task.size} tasks")
        return number


def provoked(env: TextEnv, state: Any, turn: int, action: str) -> bool:
    """Whether an exception of a step is the action's doing, and not what would have happened whatever it was.

    So it is if the same action raises again in the same state, and a control that plays the same task from its
    beginning to the same turn raises nothing: the expert, else random actions, else empty texts.
    """
    task, info = env.task, env._info
    if not fails_again(lambda: _observed(task, task.detached(state), action)):
        return False

    def control(act: Callable[[Any], str]) -> None:
        playing = env._draw(info["split"], info["level"], info["seed"], info["index"])
        for _ in range(turn + 1):
            playing, verdict, terminated, _ = _observed(task, playing, act(playing))
            if verdict.status in INVALID:
                raise RuntimeError(verdict.reason)
            if terminated:
                break

    def sampled(playing: Any) -> str:
        return task.sample_action(playing, random.Random(0)) or ""

    return goes_through(partial(control, task.solve)) or goes_through(partial(control, sampled))


def _observed(task: Task[Any], state: Any, action: str) -> tuple[Any, Verdict, bool, str]:
    """A transition whose observation can be made."""
    after, verdict, terminated, role = task.apply(state, action)
    if not terminated and verdict.status not in INVALID:
        task.observe(after)
    return after, verdict, terminated, role


def replay(
    env: gym.Env[str, str], seed: int, actions: Iterable[str], options: dict[str, Any] | None = None
) -> list[tuple[str, float, bool, bool, dict[str, Any]]]:
    """Play the actions from ``reset(seed=seed, options=options)``; the first entry is the reset's observation.

    The same arguments give the same list byte for byte.
    """
    observation, info = env.reset(seed=seed, options=options)
    steps: list[tuple[str, float, bool, bool, dict[str, Any]]] = [(observation, 0.0, False, False, info)]
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        steps.append((observation, float(reward), terminated, truncated, info))
        if terminated or truncated:
            break
    return steps


def with_example(observation: str, unread: int, example: str | None) -> str:
    """An observation after ``unread`` actions in a row that were not understood, with the form of one that would be."""
    if example is None:
        return observation
    hint = f"None of your last {unread} replies was accepted. One of the right form, drawn at random:"
    return f"{observation}\n{hint}\n{example}"


def _whole(value: Any) -> int | None:
    """An int of Python's own from any integer type, numpy's too; None for what is no whole number."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def _resolve(task: Task[Any] | str, split: str | None, settings: dict[str, Any], few_shot: int | None) -> Task[Any]:
    if isinstance(task, str):
        require_registered_task(task)
        module, _, name = task.partition(":")
        build = getattr(importlib.import_module(module), name)
        if few_shot is not None and "few_shot" in inspect.signature(build).parameters:
            settings["few_shot"] = few_shot  # a table's examples are its rows
        _check_settings(build, settings)
        built: Task[Any] = build(**settings, split=split) if build.reads_split else build(**settings)
        return built
    if settings:
        raise TypeError(f"settings {sorted(settings)} belong to the task, which is built already")
    return task


def with_tools(task: Task[Any], tools: Sequence[Any] | Mapping[str, Any]) -> Task[Any]:
    """A task whose episodes may call tools.

    Raises:
        TypeError: the mapping has an unknown key, which is named with the nearest, or no tools.
    """
    wrap = hooked("tools")
    if not isinstance(tools, Mapping):
        return wrap(task, tools)  # type: ignore[no-any-return]
    require_known("the mapping tools=", tools, list(inspect.signature(wrap).parameters)[1:])
    if "tools" not in tools:
        raise TypeError("the mapping tools= needs the key 'tools', a list of names or kits")
    return wrap(task, **tools)  # type: ignore[no-any-return]


def _check_settings(build: type[Task[Any]], settings: dict[str, Any]) -> None:
    parameters = {} if build.__init__ is object.__init__ else inspect.signature(build).parameters
    names = [name for name in parameters if name != "split"] + [
        "split", "level", "max_turns", "render_mode", "tools", "few_shot"
    ]  # fmt: skip
    if all(each.kind is not each.VAR_KEYWORD for each in parameters.values()):
        require_known(build.__name__, settings, names)
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [each.name for each in parameters.values() if each.default is each.empty and each.kind not in variadic]
    if missing := [name for name in needed if name != "split" and name not in settings]:
        raise TypeError(f"{build.__name__} needs the setting {', '.join(missing)}")
