"""The ids: how an environment gets one, which there are, and what is inside of an environment that was made."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator

from rlvr.envs.core.hints import nearest

NAMESPACE = "rlvr"
ENTRY_POINT = "rlvr.envs.core.text_env:TextEnv"
VECTOR_ENTRY_POINT = "rlvr.envs.core.registry:make_vector"
TEMPLATES: set[str] = set()  # ids that cannot be made without arguments, such as a mixture's parts: not listed
# What other rooms add, as "module:name", so that this one names none of them; see ``hook``.
_hooks: dict[str, str] = {}


def hook(name: str, address: str) -> None:
    """Let the core use what another room has, by its "module:name"; it is imported when it is first needed.

    ``vector`` is called by ``gym.make_vec``; ``tools`` is called with a task and the arguments of ``TextEnv(tools=…)``
    and returns a task.
    """
    _hooks[name] = address


def hooked(name: str) -> Callable[..., Any]:
    """What was hooked in under a name.

    Raises:
        LookupError: nothing was.
    """
    if name not in _hooks:
        raise LookupError(f"nothing is hooked in as {name!r}: import rlvr.envs, or call registry.hook")
    module, _, attribute = _hooks[name].partition(":")
    hook: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return hook


def make_vector(*args: Any, **settings: Any) -> Any:
    """The vector entry point of every id."""
    return hooked("vector")(*args, **settings)


def register(env_id: str, task: str, **settings: Any) -> None:
    """Register a task, given as "module:Class", under an id such as ``rlvr/MyTask-v0``.

    ``settings`` are defaults that ``gym.make(env_id, …)`` may override: ``split``, ``level``, ``max_turns`` and
    what the task's own constructor takes. ``gym.make_vec(env_id, num_envs, backend=…)`` makes a ``VectorEnv``.
    ``gym.make`` returns the ``TextEnv`` itself, which checks actions and the order of calls; with
    ``disable_env_checker=False`` Gymnasium's checker stands around it.
    """
    gym.register(
        env_id,
        ENTRY_POINT,
        vector_entry_point=VECTOR_ENTRY_POINT,
        order_enforce=False,
        disable_env_checker=True,
        kwargs={"task": task, **settings},
    )


def playable(env_id: str) -> str | EnvSpec:
    """What ``gym.make`` takes to play an id in texts: the id as it is where it names an environment that does so.

    An environment of Gymnasium that knows nothing of this package, whose actions are texts or discrete, is played as
    ``rlvr/Gymnasium-v0`` plays one, for its own rewards. It is named by its id, or by the "module:name" of its class or
    of a function that makes one, whose module is imported.

    Raises:
        ValueError: the "module:name" of something else, or of nothing.
        ImportError: the module cannot be imported.
        gymnasium.error.NamespaceNotFound: nobody has registered an id of that namespace.
    """
    module, _, name = env_id.rpartition(":")
    make = maker_named(env_id)
    if make is not None:
        if isinstance(make, type) and not _knows_nothing(make):
            raise ValueError(f"{env_id!r} is no gymnasium.Env; a Task gets an id: rlvr.register(id, {env_id!r})")
        return in_words(env_id, env_id)
    if module:
        _import(module)
        if name.isidentifier() and name not in gym.registry:
            raise ValueError(f"{module} has no {name}: name a class, a function, or an id that it registers")
    spec = gym.registry.get(name)
    if spec is None and not module:
        _require_namespace(name)
    return in_words(name, env_id) if spec is not None and _is_foreign_spec(spec) else env_id


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise  # what the module needs is missing
        file = Path(f"{module}.py")
        where = f": PYTHONPATH=. before the command lets it find {file} of this folder" if file.is_file() else ""
        raise ModuleNotFoundError(f"Python finds no module {module!r}{where}", name=error.name) from None


def _require_namespace(env_id: str) -> None:
    namespace = env_id.rpartition("/")[0]
    if namespace and all(spec.namespace != namespace for spec in gym.registry.values()):
        raise gym.error.NamespaceNotFound(
            f"nothing of {namespace}/ is registered: install its package, or name the module that registers the id, "
            f"such as my_file:{env_id}"
        )


def maker_named(address: str) -> Callable[..., Any] | None:
    """The class or function that a "module:name" names; None where it names an id, or nothing."""
    module, _, name = address.rpartition(":")
    if not module or not name.isidentifier():
        return None
    try:
        value = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None  # ``gym.make`` says so
    return value if callable(value) else None


def in_words(name: str, env: Any) -> EnvSpec:
    """The spec of a foreign environment, an id, a "module:name" or what makes one, under a name."""
    task = {"task": "rlvr.envs.bridges.gymnasium_text:GymnasiumText", "env": env, "reward": "return"}
    return EnvSpec(name, entry_point=ENTRY_POINT, vector_entry_point=VECTOR_ENTRY_POINT, kwargs=task)


def is_foreign(env: gym.Env[Any, Any]) -> bool:
    """Whether an environment is Gymnasium's or somebody else's, knows nothing of this package, and has plain actions.

    One whose actions are our ``Text`` space speaks our ``info`` itself.
    """
    return _knows_nothing(type(env.unwrapped)) and _has_words(env.unwrapped)


def _has_words(env: Any) -> bool:
    """Whether actions are texts, or words can name them and what is seen is text, or can be rendered so."""
    actions, seen = (getattr(env, f"{what}_space", None) for what in ("action", "observation"))
    if isinstance(actions, gym.spaces.Text):
        return True
    text = isinstance(seen, gym.spaces.Text) or "ansi" in getattr(env, "metadata", {}).get("render_modes", ())
    return isinstance(actions, gym.spaces.Discrete) and text


def _knows_nothing(kind: type) -> bool:
    return issubclass(kind, gym.Env) and not any(base.__module__.startswith("rlvr.") for base in kind.__mro__)


def _is_foreign_spec(spec: EnvSpec) -> bool:
    entry = spec.entry_point
    if entry is None or (isinstance(entry, str) and entry.startswith("rlvr.")):
        return False
    try:
        make = load_env_creator(entry) if isinstance(entry, str) else entry
        if isinstance(make, type) and not _knows_nothing(make):
            return False
        if isinstance(getattr(make, "action_space", None), gym.Space):
            return _has_words(make)
        env = gym.make(spec, disable_env_checker=True)
    except Exception:  # ``gym.make`` says what is wrong with it, if that is not a setting that it needs
        return isinstance(entry, type)
    try:
        return is_foreign(env)
    finally:
        env.close()


def register_template(env_id: str, entry_point: str, **settings: Any) -> None:
    """Register an id that needs arguments: it can be made, and is not one of those that are listed and tested.

    ``settings`` are defaults of the entry point's arguments.
    """
    gym.register(env_id, entry_point, kwargs=settings)
    TEMPLATES.add(env_id)


def list_envs(contains: str = "") -> list[str]:
    """The ids registered here or by a plug-in whose name contains a text, whatever the case; sorted."""
    ids = (spec.id for spec in gym.registry.values() if spec.namespace == NAMESPACE or spec.entry_point == ENTRY_POINT)
    return sorted(env_id for env_id in ids if contains.lower() in env_id.lower() and env_id not in TEMPLATES)


def full_id(name: str) -> str:
    """The id that a name without a namespace stands for: `Countdown` is `rlvr/Countdown-v0`, whatever the case.

    Raises:
        ValueError: no environment has such a name; the nearest is named.
    """
    if name in gym.registry or "/" in name or ":" in name:
        return name  # gym.make says what is wrong with it
    names = [(env_id.rpartition("/")[2].lower(), env_id) for env_id in (*list_envs(), *sorted(TEMPLATES))]
    by_name = {name.partition("-v")[0]: env_id for name, env_id in names} | dict(names)
    if name.lower() in by_name:
        return by_name[name.lower()]
    if name.endswith(".py"):
        raise ValueError(
            f"{name!r} is a file: name its module and the id that it registers, such as {name[:-3]}:mine/Task-v0"
        )
    near = nearest(name.lower(), by_name)
    hint = f"did you mean {by_name[near]}?" if near else "`rlvr envs` lists all"
    raise ValueError(f"there is no environment {name!r}; {hint}")


def without_checkers(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """The environment without the wrappers that ``gym.make`` puts around it, which only check how it is used."""
    while isinstance(env, gym.wrappers.PassiveEnvChecker | gym.wrappers.OrderEnforcing):
        env = env.env
    return env


def size_of(env: gym.Env[Any, Any]) -> int | None:
    """How many tasks an environment's table has; None where tasks are generated without end."""
    size: int | None = getattr(env.unwrapped, "size", None)
    return size


def splits_of(env: gym.Env[Any, Any]) -> tuple[str, ...]:
    """The splits that an environment's ``reset`` takes: a table is read for one; ``("train",)`` where it knows none."""
    inner = env.unwrapped
    task, split = getattr(inner, "task", None), getattr(inner, "split", None)
    if getattr(task, "size", None) is not None and split is not None:
        return (split,)
    return tuple(getattr(task, "splits", None) or ("train",))


# The best score known of each level of an id: its expert's mean return, where luck or strong opponents keep that below
# 1. ``python benchmarks/constants.py`` measures it and writes the file.
BEST_SCORES: Final = Path(__file__).parents[1] / "best_scores.json"
# What does not change which tasks there are, or what they pay.
NEUTRAL: Final = frozenset({"split", "level", "max_turns", "render_mode", "brief", "disable_env_checker"})


@cache
def _stored() -> Mapping[str, Sequence[float]]:
    scores: dict[str, list[float]] = json.loads(BEST_SCORES.read_text(encoding="utf-8")) if BEST_SCORES.exists() else {}
    return scores


def best_scores(env_id: str) -> Sequence[float]:
    """The figure of each level of an id as it is registered; nothing where the expert scores 1 on all."""
    return _stored().get(env_id, ())


def scores_below_1(spec: Any) -> dict[int, float]:
    """The figure of each level of an environment, from 1, that is below 1; none where its settings are not the id's.

    Args:
        spec: of the environment, or None.
    """
    scores = best_scores(spec.id) if spec is not None else ()
    usual = gym.registry[spec.id].kwargs if scores and spec.id in gym.registry else {}
    if not scores or _settings(spec.kwargs) != _settings(usual):
        return {}
    return {level: score for level, score in enumerate(scores, 1) if score < 1}


def _settings(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name not in NEUTRAL}


def store_best_scores(scores: Mapping[str, Sequence[float]]) -> None:
    """Write the file: of each id the mean return of its expert, by level."""
    lines = [f"{json.dumps(env_id)}: {json.dumps(list(scores[env_id]))}" for env_id in sorted(scores)]
    BEST_SCORES.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    _stored.cache_clear()
