"""Environments of other packages as they are shipped: their own questions, games and scores, with nothing laid over.

The bridges of ``rlvr.envs.bridges`` mend what they wrap; here it is the package itself that is validated. A package is
imported when one of its environments is made.
"""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import gymnasium as gym

SERVERS: Final[list[subprocess.Popen[bytes]]] = []  # that `serving` has started
PATIENCE: Final = 60.0  # seconds until a started server must answer
ANY_TEXT: Final = gym.spaces.Text(1_000_000)


def require(module: str, package: str) -> Any:
    """Import a package of another suite.

    Raises:
        ValueError: it is not installed, with what to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f"{package} cannot be imported ({error}): pip install {package}") from error


class ShippedReasoningGym(gym.Env[str, str]):
    """One item of a data set of reasoning-gym: its question, and its own scorer's word on the reply.

    Args:
        name: of the data set.
        settings: of its configuration.

    Raises:
        ValueError: the package is not installed, or there is no such data set.
    """

    reward_range = 0.0, 1.0
    action_space = ANY_TEXT
    observation_space = ANY_TEXT

    def __init__(self, name: str, **settings: Any) -> None:
        self.package = require("reasoning_gym", "reasoning-gym")
        names = importlib.import_module("reasoning_gym.factory").DATASETS
        if name not in names:
            raise ValueError(f"reasoning-gym has no data set {name!r}; there are {', '.join(sorted(names))}")
        try:
            config = names[name][1](**settings)
            if hasattr(config, "validate"):  # tsumego's has not
                config.validate()
        except (AssertionError, TypeError, ValueError) as error:
            raise ValueError(f"reasoning-gym refuses the settings {settings} of {name!r}: {error}") from error
        self.name, self.settings = name, settings
        self.dataset: Any = None
        self.item: dict[str, Any] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        number = seed if seed is not None else int(self.np_random.integers(1 << 31))
        self.dataset = self.package.create_dataset(self.name, **{"seed": number, "size": 1, **self.settings})
        self.item = self.dataset[0]
        return self.item["question"], {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "", self.dataset.score_answer(answer=action, entry=self.item), True, False, {}

    def solve(self) -> str:
        """The item's own answer.

        Raises:
            NotImplementedError: it has none as text; its scorer looks at what the reply does.
        """
        answer = self.item["answer"]
        if not isinstance(answer, str):
            raise NotImplementedError(f"items of {self.name} have no answer as text")
        return answer


class ShippedTextArena(gym.Env[str, str]):
    """A game of TextArena for one player, by its own id: its observations, and its own reward when it ends.

    Raises:
        ValueError: the package is not installed, or has no such game.
    """

    reward_range = -1.0, 1.0  # -1 is for a move that is not allowed
    action_space = ANY_TEXT
    observation_space = ANY_TEXT

    def __init__(self, name: str, **settings: Any) -> None:
        self.package = require("textarena", "textarena")
        self.name, self.settings = name, settings
        self.game: Any = None
        try:
            self.package.make(name, **settings)
        except (KeyError, ValueError, LookupError) as error:
            raise ValueError(f"TextArena makes no game {name!r}: {error}") from error

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.game = self.package.make(self.name, **self.settings)
        self.game.reset(num_players=1, seed=seed)
        return self._observation(), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        done, _ = self.game.step(action=action)
        if not done:
            return self._observation(), 0.0, False, False, {}
        rewards, facts = self.game.close()
        return str((facts or {}).get(0, {}).get("reason", "")), (rewards or {}).get(0, 0.0), True, False, {}

    def _observation(self) -> str:
        _, observation = self.game.get_observation()
        return observation if isinstance(observation, str) else "\n".join(str(each[1]) for each in observation)


class ShippedGem(gym.Env[str, str]):
    """An environment of GEM by its own id: ``gem.make`` gives it, with its own observations and rewards.

    What its infos hold to stand before and after an observation, as a board, is put there, as its wrappers do.

    Raises:
        ValueError: the package is not installed, or has no such id.
    """

    action_space = ANY_TEXT
    observation_space = ANY_TEXT

    def __init__(self, name: str, **settings: Any) -> None:
        package = require("gem", "gem-llm")
        if not hasattr(package, "make"):
            raise ValueError("the package gem that is installed is another one: pip install gem-llm")
        try:
            self.inner = package.make(name, **settings)
        except (KeyError, LookupError, ValueError) as error:
            raise ValueError(f"GEM makes no environment {name!r}: {error}") from error

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        observation, info = self.inner.reset(seed=seed)
        return self._text(observation, info), dict(info)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.inner.step(action)
        return self._text(observation, info), reward, terminated, truncated, dict(info)

    @staticmethod
    def _text(observation: Any, info: Mapping[str, Any]) -> str:
        parts = info.get("prefix", ""), str(observation), info.get("suffix", "")
        return "\n".join(part for part in parts if part)


# A folder of OpenEnv's, served


def is_openenv_folder(folder: Path) -> bool:
    """Whether a folder is a package of OpenEnv's."""
    return (folder / "openenv.yaml").is_file()


def serving(folder: Path, make: Callable[[str], gym.Env[Any, Any]]) -> Callable[[], gym.Env[Any, Any]]:
    """What makes environments of the server of a folder, which is started on a free port until `end_servers`.

    Args:
        folder: with an ``openenv.yaml`` whose ``app`` is ``module:attribute``.
        make: of a URL.

    Raises:
        ValueError: the manifest names no app, or its server does not come up.
    """
    import yaml

    manifest = yaml.safe_load((folder / "openenv.yaml").read_text(encoding="utf-8"))
    app = manifest.get("app") if isinstance(manifest, dict) else None
    if not isinstance(app, str) or ":" not in app:
        raise ValueError(f"{folder / 'openenv.yaml'} names no app as module:attribute, got {app!r}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    paths = os.pathsep.join([str(folder.resolve()), str(folder.resolve().parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-P", "-m", "uvicorn", app, "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--log-level", "warning"], cwd=folder, env={**os.environ, "PYTHONPATH": paths}
    )
    SERVERS.append(process)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ValueError(f"the server of {folder} ended with status {process.returncode}: its last lines say why")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return lambda: make(f"http://127.0.0.1:{port}")
        time.sleep(0.1)
    process.kill()
    raise ValueError(f"the server of {folder} does not answer within {PATIENCE:.0f} s")


def end_servers() -> None:
    """End the servers that `serving` has started."""
    while SERVERS:
        process = SERVERS.pop()
        process.kill()
        process.wait()
