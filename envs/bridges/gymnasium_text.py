"""Any other Gymnasium environment with text or discrete actions, played in words.

    gym.make("rlvr/Gymnasium-v0", env="Taxi-v4", actions=["south", "north", "east", "west", "pick up", "drop off"],
             success=1.0, settings={"max_episode_steps": 40})

Its observations become text, the policy's words its actions, and its end a verdict; seeds, splits, forks, snapshots
and limits are ours.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, Final

import gymnasium as gym
import numpy as np
from gymnasium.spaces.text import alphanumeric

from rlvr.envs.bridges.bridged_task import (
    BridgedEpisode,
    BridgedStep,
    BridgedTask,
    NoAction,
    choice,
    clean_action,
    function_of,
    package_of,
    plain_text,
)
from rlvr.envs.core.code_rule import code_allowed, require_registered, settings_are_data
from rlvr.envs.core.registry import maker_named
from rlvr.envs.core.verdict import Verdict
from rlvr.envs.rewards.extraction import visible_text

COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
MAX_TURNS: Final = 100  # where the environment sets no limit of its own
SYSTEM: Final = "Think step by step. Put your action, and nothing else, in \\boxed{}."
OWN_FORMS: Final = ("\\boxed", "<answer>")  # an environment that asks for one of these reads it itself
SUCCESS: Final = ("success", "is_success")  # entries of the last info that say how the episode ended
RESET: Final = ("observation", "info")
STEP: Final = ("observation", "reward", "terminated", "truncated", "info")
LONG: Final = 1_000  # characters; a longer limit of actions is not worth a word


class GymnasiumText(BridgedTask[gym.Env[Any, Any]]):
    """An environment of Gymnasium, in words.

    An id, a "module:Class" or a "module:function" that names an environment with texts of Gymnasium's is played so
    wherever an id is taken (`rlvr.envs.core.registry.playable`), for its own rewards (``reward="return"``).

    Args:
        env: an id of Gymnasium's registry, perhaps with the module that registers it before a colon; a class, or a
            function that makes an environment, or the "module:name" of one.
        settings: given to it; or a list of such mappings, one for each level.
        to_text: from an observation and an info to text: a function, or "module:function". By default a text as it is,
            and else what the environment renders as ``ansi``.
        to_action: from the policy's words (what it boxed) to an action; raises ValueError for words that name none,
            which then cost a turn and are explained. By default the words themselves where actions are texts, and a
            name or a number where they are discrete.
        actions: names of discrete actions, in their order.
        success: what counts as done, see `BridgedTask`; by default what the last info says (``success`` or
            ``is_success``), else an own return of at least the id's reward threshold, which is 1 where rewards are
            the environment's own and the id has none.
        reward: "success" (1 or 0, at the end) or "return" (the environment's own rewards).
        system: what the policy is told first: by default to box its action, and which texts are actions. An
            environment whose first observation asks for a box or for answer tags reads them itself: it gets the text
            as it stands, without thoughts, and so does every environment where this is None.
        global_random: see `BridgedTask`.
        others: more settings of the environment.

    Raises:
        ValueError: an environment whose observations, actions or success need to be told and were not, or that breaks
            the API of Gymnasium.
        TypeError: an argument of a class or function lacks, or it has none of that name.
        gymnasium.error.Error: there is no such environment.
    """

    def __init__(
        self,
        *,
        env: str | Callable[..., gym.Env[Any, Any]],
        settings: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
        to_text: str | Callable[[Any, Mapping[str, Any]], str] | None = None,
        to_action: str | Callable[[str], Any] | None = None,
        actions: Sequence[str] | None = None,
        success: float | str | Callable[[float, bool, Mapping[str, Any]], bool] | None = None,
        reward: str = "success",
        system: str | None = SYSTEM,
        global_random: bool = True,
        **others: Any,
    ) -> None:
        self.env, self._data = env, not code_allowed()
        each_level = [settings] if isinstance(settings, Mapping) else settings or [{}]
        self.settings = [{**others, **level} for level in each_level]
        self.levels = len(self.settings)
        self.to_text, self.to_action = to_text, to_action
        self.names = list(actions) if actions is not None else None
        for function in (to_text, to_action):
            if function is not None:
                function_of(function)
        self._renders, self._box, self._judges_itself = False, True, success is None
        probe = self._made(1)
        try:
            spec, self.played_class = probe.spec, type(probe.unwrapped)
            self.packages = (package_of(spec.entry_point if spec is not None else self.env),)
            self._check(probe)
            if success is None:
                success = spec.reward_threshold if spec else None
                if success is None and reward == "success":
                    raise ValueError(f"say what counts as done in {self.name_of}: success=…, a return or a function")
            limit = (spec.max_episode_steps if spec else None) or MAX_TURNS  # unless ``gym.make`` is told another
            super().__init__(1.0 if success is None else success, reward, limit, system, global_random)
            if not isinstance(self.success, (int, float)):
                function_of(self.success)
            if system is None or (system == SYSTEM and self._reads_own_form(probe)):
                self.system, self._box = None, False
            elif system == SYSTEM and self.to_action is None and (allowed := _allowed(probe.action_space)):
                self.system = f"{SYSTEM} An action has {allowed}."
        finally:
            with suppress(Exception):
                probe.close()
        self._describe()

    def _describe(self) -> None:
        """What a card says of it."""
        self.asks = _first_paragraph(self.played_class) or f"{self.name_of} of Gymnasium, in words"
        self.source = (
            f"{self.name_of}, where a seed is a task; how many tasks there are, and whether two splits share one, "
            "it does not say"
        )
        self.licence = f"that of {self.packages[0] or self.name_of}"
        done = "a success is what the last info says, else " if self._judges_itself else "a success is "
        done += f"a return of at least {self.success:g}" if isinstance(self.success, (int, float)) else "as told"
        self.pays = f"{'its own' if self.reward == 'return' else '1 for a success, 0 for all else'}; {done}"
        self.read_as = "the words outside of thoughts" + ", or what the last box of them holds" * self._box

    @property
    def name_of(self) -> str:
        """The environment's id, or the name of the function that makes it."""
        return self.env if isinstance(self.env, str) else getattr(self.env, "__name__", "an environment")

    @property
    def name(self) -> str:
        """``Gymnasium`` and the id or the function's name, so that two bridged environments differ in seeds."""
        return f"Gymnasium {self.name_of}"

    def _made(self, level: int) -> gym.Env[Any, Any]:
        settings = self.settings[level - 1]
        make = maker_named(self.env) if isinstance(self.env, str) and code_allowed() else None
        if make is not None or not isinstance(self.env, str):
            maker: Any = make or self.env
            if fault := _misfit(maker, settings):
                raise TypeError(f"{self.name_of} cannot be made: {fault}")
            made = maker(**settings)
            if not isinstance(made, gym.Env):
                raise ValueError(f"{self.name_of} makes {type(made).__name__}, and not a gymnasium.Env")
            return made
        render = {"render_mode": "ansi"} if self._renders else {}
        require_registered(self.env, settings)
        return gym.make(self.env, **{"disable_env_checker": True, **render, **settings})

    def _check(self, probe: gym.Env[Any, Any]) -> None:
        """That text can be made of its observations, and actions of text."""
        observations, actions = (getattr(probe, f"{what}_space", None) for what in ("observation", "action"))
        if self.to_text is None and not _texts(observations):
            if "ansi" not in probe.metadata.get("render_modes", ()):
                raise ValueError(f"say how observations of {self.name_of}, {observations}, become text: to_text=…")
            self._renders = True
        discrete = isinstance(actions, gym.spaces.Discrete)
        if self.to_action is None and not discrete and not _texts(actions):
            raise ValueError(f"say how words become actions of {self.name_of}, {actions}: to_action=…")
        if self.names is not None and not (isinstance(actions, gym.spaces.Discrete) and len(self.names) == actions.n):
            raise ValueError(f"{len(self.names)} names of actions were given, and {self.name_of} has {actions}")
        parameters = inspect.signature(probe.unwrapped.reset).parameters
        if "seed" not in parameters and all(each.kind is not each.VAR_KEYWORD for each in parameters.values()):
            raise ValueError(f"reset of {self.name_of} takes no seed: write reset(self, *, seed=None, options=None)")

    def _reads_own_form(self, probe: gym.Env[Any, Any]) -> bool:
        """Whether actions are texts, and its first observation asks for a form that a text can have around them.

        Raises:
            ValueError: what ``reset`` returns is not what Gymnasium's API asks for.
        """
        if self.to_action is not None or not _texts(probe.action_space) or not _texts(probe.observation_space):
            return False
        with self._own_random(0, 0):
            try:
                returned = probe.reset(seed=0)
            except Exception:  # its episodes say so
                return False
            text = self._text(probe, *_values(returned, RESET))
        return any(form in text for form in OWN_FORMS)

    # the bridge

    def begin(self, level: int) -> gym.Env[Any, Any]:
        """Makes the level's environment under the trust in settings that held when the task was made."""
        with settings_are_data(self._data):  # later, and perhaps in another thread, than the settings were given
            return self._made(level)

    def first(self, live: gym.Env[Any, Any], seed: int) -> str:
        """Resets by ``seed``; discrete actions are listed below the first observation."""
        observation, info = _values(live.reset(seed=seed), RESET)
        text = self._text(live, observation, info)
        if self.to_action is None and isinstance(live.action_space, gym.spaces.Discrete):
            space = live.action_space
            named = self.names or [str(number) for number in range(space.start, space.start + space.n)]
            text = f"{text}\n\nActions: {', '.join(named)}"
        return text

    def play(self, live: gym.Env[Any, Any], action_text: str) -> BridgedStep:
        """Steps by the action that the words name; raises ``NoAction`` before anything has changed."""
        action = self._action(live.action_space, action_text)
        observation, reward, terminated, truncated, info = _values(live.step(action), STEP)
        text = self._text(live, observation, info)
        return BridgedStep(text, _number(reward), bool(terminated), bool(truncated), info)

    def end(self, live: gym.Env[Any, Any]) -> None:
        """Closes the environment."""
        live.close()

    def action_text(self, action: str) -> str:
        """What is in the box; the words outside of thoughts as they stand where the environment reads them itself."""
        return clean_action(action) if self._box else plain_text(visible_text(action))

    def _verdict(self, state: BridgedEpisode, terminated: bool, info: Mapping[str, Any]) -> Verdict:
        verdict = super()._verdict(state, terminated, info)
        own = next((info[name] for name in SUCCESS if isinstance(info.get(name), bool | np.bool_)), None)
        if not self._judges_itself or own is None:
            return verdict
        reward = verdict.reward if self.reward == "return" else float(own)
        reason = f"the environment says {'success' if own else 'no success'}"
        return verdict.replace(reward=reward, status="correct" if own else "wrong", reason=reason)

    def _text(self, live: gym.Env[Any, Any], observation: Any, info: Mapping[str, Any]) -> str:
        if self.to_text is not None:
            return str(function_of(self.to_text)(observation, info))
        if self._renders:
            return COLOURS.sub("", str(live.render())).strip("\n")
        if not isinstance(observation, str):
            raise TypeError(f"an observation must be a text, and was {type(observation).__name__} {observation!r:.60}")
        return str(observation)

    def _action(self, space: gym.Space[Any], action_text: str) -> Any:
        if self.to_action is not None:
            try:
                action = function_of(self.to_action)(action_text)
            except ValueError as error:
                raise NoAction(str(error) or f"{action_text[:60]!r} is no action") from error
        elif isinstance(space, gym.spaces.Discrete):
            action = choice(action_text, self.names, int(space.n), int(space.start))
        else:
            action = action_text
            if isinstance(space, gym.spaces.Text):
                _require_allowed(space, action_text)
                return action
        if not space.contains(action):
            raise NoAction(f"{action_text[:60]!r} is no action of {space}")
        return action


def _texts(space: gym.Space[Any] | None) -> bool:
    """Whether a space is of texts: Gymnasium's, ours, or another one."""
    return space is not None and space.dtype is not None and space.dtype.kind == "U"


def _values(returned: Any, names: Sequence[str]) -> tuple[Any, ...]:
    """What ``reset`` or ``step`` returned, if it is as many values as Gymnasium's API has, the last a mapping.

    Raises:
        TypeError: it is not.
    """
    call = "reset" if len(names) == 2 else "step"
    if not isinstance(returned, tuple) or len(returned) != len(names):
        what = f"{len(returned)} values" if isinstance(returned, tuple) else type(returned).__name__
        raise TypeError(f"{call} must return ({', '.join(names)}), and returned {what}")
    if not isinstance(returned[-1], Mapping):
        raise TypeError(f"the info of {call} must be a mapping, and was {type(returned[-1]).__name__}")
    return returned


def _number(reward: Any) -> float:
    """A reward as a float: a number of Python or numpy, and no text that spells one.

    Raises:
        TypeError: it is none.
    """
    if isinstance(reward, str | bytes) or reward is None:
        raise TypeError(f"the reward must be a number, and was {reward!r:.60}")
    return float(reward)


def _binding(space: gym.Space[Any]) -> bool:
    """Whether a space says which characters texts have. Gymnasium's default, which refuses blanks, says nothing."""
    return isinstance(space, gym.spaces.Text) and space.character_set != alphanumeric


def _allowed(space: gym.Space[Any]) -> str:
    """Which texts are actions, in words; "" where nearly all are."""
    if not isinstance(space, gym.spaces.Text) or (space.max_length > LONG and not _binding(space)):
        return ""
    count = f"{space.min_length} to {space.max_length}" if space.min_length != space.max_length else space.max_length
    return f"{count} characters" + (f", of {_ranges(space.characters)} alone" if _binding(space) else "")


def _ranges(characters: str) -> str:
    """Characters by their ranges: "0-9, a-z"."""
    codes = sorted(map(ord, set(characters)))
    runs = [[chr(code) for _, code in run] for _, run in groupby(enumerate(codes), lambda each: each[1] - each[0])]
    shown = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs]
    return ", ".join(repr(each)[1:-1].replace(" ", "blank") if each.strip() != each else each for each in shown[:40])


def _require_allowed(space: gym.spaces.Text, text: str) -> None:
    """Check that a space has a text.

    Raises:
        NoAction: it does not; which characters, or how many, stand against it.
    """
    refused = sorted({each for each in text if each not in space.character_set}) if _binding(space) else []
    if refused:
        named = ", ".join(map(repr, refused[:8]))
        raise NoAction(f"{text[:60]!r} is no action, for {named}: an action has {_allowed(space)}")
    if not space.min_length <= len(text) <= space.max_length:
        least = f"{space.min_length} to {space.max_length}"
        raise NoAction(f"{text[:60]!r} is no action: it has {len(text)} characters, and an action has {least}")


def _misfit(maker: Callable[..., Any], settings: Mapping[str, Any]) -> str:
    """Why a function cannot be called with settings; "" where it can, or where its parameters are not known."""
    try:
        inspect.signature(maker).bind(**settings)
    except TypeError as error:
        return str(error)
    except ValueError:
        pass
    return ""


def _first_paragraph(kind: type) -> str:
    """What the docstring of a class says first; "" where it has none of its own."""
    text = inspect.cleandoc(kind.__doc__ or "") if kind.__doc__ != gym.Env.__doc__ else ""
    return " ".join(text.split("\n\n")[0].split())
