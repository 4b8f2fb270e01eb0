"""What a target names: an id, a class or function in a module or a file, a server, a folder or rows of a table."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import gymnasium as gym

from rlvr.envs.core.code_rule import make_env, require_code, require_registered
from rlvr.envs.core.registry import full_id, playable
from rlvr.envs.core.task import Task
from rlvr.envs.core.text_env import TextEnv
from rlvr.envs.validation.source import options_read
from rlvr.envs.validation.subject import observation_text
from rlvr.envs.validation.suites import ShippedGem, ShippedReasoningGym, ShippedTextArena, is_openenv_folder, serving

# What stands before a colon, with the id that it is made by and the setting that the rest of the text is.
OPENENV: Final = "rlvr/openenv.Remote-v0"
BRIDGES: Final = {
    "openenv": (OPENENV, "url"),
    "ors": ("rlvr/ors.Remote-v0", "url"),
    "nemo_gym": ("rlvr/nemo_gym.Remote-v0", "url"),
    "verifiers": ("rlvr/verifiers.Taskset-v0", "taskset"),
    "harbor": ("rlvr/harbor.Tasks-v0", "folder"),
    "gymnasium": ("rlvr/Gymnasium-v0", "env"),
}
SERVED: Final = {"check_seed": False}  # a server that ignores seeds is a finding, and does not end the validation
# Packages whose environments are validated as they are shipped, not as the bridges of the same names mend them.
SUITES: Final[Mapping[str, Callable[..., gym.Env[Any, Any]]]] = {
    "rg": ShippedReasoningGym,
    "gem": ShippedGem,
    "textarena": ShippedTextArena,
}
SPLIT_PARAMETERS: Final = ("split", "mode", "subset", "partition", "phase")
TABLES: Final = (".jsonl", ".json", ".csv", ".parquet")
_ATTRIBUTE: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


@dataclass(frozen=True, slots=True)
class Target:
    """What was named: how a new environment of it is made, and one of a split where it takes one."""

    name: str
    make: Callable[[], gym.Env[Any, Any]]
    make_split: Callable[[str], gym.Env[Any, Any]] | None = None


def names_code(target: str) -> bool:
    """Whether a target is a module or a file, whose code importing it runs, or a folder whose server is started."""
    head, colon, tail = target.rpartition(":")
    if target.endswith(".py") or is_openenv_folder(Path(target)):
        return True
    prefix = target.partition(":")[0]
    return bool(colon) and prefix not in {**BRIDGES, **SUITES} and not tail.startswith("//") and head != ""


def resolve(target: str, settings: Mapping[str, Any]) -> Target:
    """What a target names.

    Raises:
        CodeRefused: it names code, and nobody allowed it.
        ValueError: it names nothing that can be validated; the sentence says what would be.
    """
    if names_code(target):
        require_code(f"the target {target!r}")
        if is_openenv_folder(Path(target)):
            served = {**SERVED, **settings}
            return Target(target, serving(Path(target), lambda url: make_env(OPENENV, url=url, **served)))
        head, _, name = target.rpartition(":") if not target.endswith(".py") else (target, "", "")
        if "/" in name or re.search(r"-v\d+$", name):
            return _registered(target, settings)
        module = _file(Path(head)) if head.endswith(".py") else _module(head)
        return _object(target, _attribute(target, module, name), settings)
    prefix, colon, rest = target.partition(":")
    path = Path(target)
    if colon and prefix in SUITES:
        return Target(target, lambda: SUITES[prefix](rest, **settings))
    if colon and prefix in BRIDGES:
        env_id, setting = BRIDGES[prefix]
        return _registered(env_id, {setting: rest, **(SERVED if setting == "url" else {}), **settings}, target)
    if path.is_dir():
        return _registered("rlvr/harbor.Tasks-v0", {"folder": target, **settings}, target)
    if path.suffix in TABLES:
        if not path.exists():
            raise ValueError(f"there is no file {target}")
        return _registered("rlvr/Dataset-v0", {"data_files": target, **settings}, target)
    return _registered(full_id(target), settings)


def _registered(env_id: str, settings: Mapping[str, Any], name: str = "") -> Target:
    require_registered(env_id, settings)
    try:
        playable(env_id)  # which says why there is no such id
        made = gym.make(env_id, **settings)  # as it is, and not in words
    except (TypeError, gym.error.UnregisteredEnv) as error:  # a setting that it lacks, or does not have
        raise ValueError(str(error).partition(" was raised from the environment creator")[0]) from error
    bare = made.unwrapped
    if isinstance(bare, TextEnv):
        return Target(name or env_id, bare.spawn)
    made.close()
    return Target(name or env_id, lambda: gym.make(env_id, **settings))


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ValueError(f"the module {name!r} cannot be imported: {error}") from error


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    name = f"rlvr_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no file of Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module


def _attribute(target: str, module: ModuleType, name: str) -> Any:
    if name:
        if not _ATTRIBUTE.fullmatch(name):
            raise ValueError(f"{name!r} in {target!r} is no name of Python: write file.py:Class or module:Class")
        value: Any = module
        for part in name.split("."):
            if not hasattr(value, part):
                raise ValueError(f"{target!r} names nothing: {getattr(value, '__name__', value)} has no {part!r}")
            value = getattr(value, part)
        return value
    own = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__ and _is_kind(value)
    ]
    if len(own) != 1:
        names = ", ".join(value.__name__ for value in own) or "none"
        raise ValueError(f"name the environment behind a colon, as {target}:Class; environments there: {names}")
    return own[0]


def _is_kind(value: type) -> bool:
    return issubclass(value, (gym.Env, Task)) or (hasattr(value, "reset") and hasattr(value, "step"))


def _object(target: str, value: Any, settings: Mapping[str, Any]) -> Target:
    """An environment, a task, a game of PettingZoo, or what makes one."""
    if not callable(value):
        made = _as_env(target, value)
        bare = made.unwrapped
        return Target(target, bare.spawn if isinstance(bare, TextEnv) else type(bare))

    def make(**more: Any) -> gym.Env[Any, Any]:
        return _as_env(target, value(**{**settings, **more}))

    return Target(target, make, _split_maker(make, value))


class _SplitByOptions(gym.Wrapper[Any, Any, Any, Any]):
    """An environment whose reset takes its split among the options."""

    def __init__(self, env: gym.Env[Any, Any], split: str) -> None:
        super().__init__(env)
        self.split = split

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(seed=seed, options={**(options or {}), "split": self.split})


def _split_maker(make: Callable[..., gym.Env[Any, Any]], value: Any) -> Callable[[str], gym.Env[Any, Any]] | None:
    """What makes an environment of a split: by a parameter, or by an option that its code reads; else None."""
    parameters = inspect.signature(value).parameters
    for name in SPLIT_PARAMETERS:
        if name in parameters and (name == "split" or parameters[name].default in ("train", "test")):
            return lambda split: make(**{name: split})
    if inspect.isclass(value) and issubclass(value, gym.Env) and "split" in options_read(value):
        return lambda split: _SplitByOptions(make(), split)
    return None


def _as_env(target: str, value: Any) -> gym.Env[Any, Any]:
    if isinstance(value, Task):
        return TextEnv(value)
    if isinstance(value, gym.Env):
        return value
    if hasattr(value, "agent_iter") and hasattr(value, "observe"):
        return gym.make(
            "rlvr/PettingZoo-v0", env=lambda: value, to_text=lambda observation, info: observation_text(observation)
        )
    if hasattr(value, "reset") and hasattr(value, "step"):
        return _Ducked(value)
    raise ValueError(f"{target!r} is {type(value).__name__}, and neither an environment with reset and step nor a Task")


class _Ducked(gym.Env[Any, Any]):
    """An environment that is none of Gymnasium's, but has its reset and step."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        for name in ("action_space", "observation_space", "metadata"):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))

    @property
    def unwrapped(self) -> Any:
        return self.inner

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        names = inspect.signature(self.inner.reset).parameters
        given = {"seed": seed, "options": options}
        return self.inner.reset(**{name: value for name, value in given.items() if name in names})

    def step(self, action: Any) -> Any:
        return self.inner.step(action)

    def close(self) -> None:
        if hasattr(self.inner, "close"):
            self.inner.close()


def require_allowed(target: str) -> None:
    """Check that a target names no code, or that code may be named, before a process is started for it.

    Raises:
        CodeRefused: it does, and nobody allowed it.
    """
    if names_code(target):
        require_code(f"the target {target!r}")
