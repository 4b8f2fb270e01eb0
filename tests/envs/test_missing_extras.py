"""Without an extra, what needs it is refused before the first episode, and says which extra brings it.

Each test hides the packages from an interpreter of its own, as if they had never been installed.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

EXTRAS = {
    "tools": ("bm25s", "pyte", "mcp", "jsonschema"),
    "visual": ("PIL",),
    "games": ("chess",),
    "serve": ("websockets", "starlette", "uvicorn"),
    "hub": ("datasets", "pyarrow", "huggingface_hub"),
    "train": ("torch", "transformers", "pydantic_settings", "yaml", "rich", "matplotlib"),
}
NEEDS = {
    "rlvr/WorldSearch-v0": "tools",
    "rlvr/Research-v0": "tools",
    "rlvr/Terminal-v0": "tools",
    "rlvr/Chess-v0": "games",
    "rlvr/VisualMazes-v0": "visual",
}
HIDE = "import sys\nsys.modules.update(dict.fromkeys({packages!r}))\n"
COMMAND = "from rlvr.cli import main\nsys.exit(main(sys.argv[1:]))\n"
EVERY_ID = """
import gymnasium as gym, json
from rlvr.envs import list_envs
from rlvr.envs.core.tables import DataError
from rlvr.envs.sandbox import SandboxUnavailable

refused, late = {}, {}
for env_id in list_envs():
    try:
        env = gym.make(env_id)
    except (DataError, SandboxUnavailable):
        continue
    except ImportError as error:
        refused[env_id] = str(error)
        continue
    try:
        _, info = env.reset(seed=1)
        ended = False
        while not ended:
            try:
                action = env.unwrapped.solve()
            except NotImplementedError:
                break
            _, _, terminated, truncated, info = env.step(action)
            ended = terminated or truncated
        verdict = info.get("verdict")
        if verdict is not None and not verdict.valid:
            late[env_id] = verdict.reason
    except ImportError as error:
        late[env_id] = str(error)
    env.close()
print(json.dumps([refused, late]))
"""


def run(packages, code, *words):
    source = HIDE.format(packages=tuple(packages)) + code
    return subprocess.run(
        [sys.executable, "-P", "-c", source, *words], capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.parametrize("env_id", NEEDS)
def test_an_evaluation_is_refused_and_the_card_names_the_extra(env_id):
    extra = NEEDS[env_id]
    played = run(EXTRAS[extra], COMMAND, "eval", "--env", env_id, "--agent", "expert", "--episodes", "1")
    assert (played.returncode, played.stdout) == (2, "")
    assert f"rlvr[{extra}]" in played.stderr
    described = run(EXTRAS[extra], COMMAND, "card", env_id)
    assert described.returncode == 0
    (ready,) = [line for line in described.stdout.splitlines() if line.split()[:1] == ["ready"]]
    assert f"rlvr[{extra}]" in ready
    assert "data set" not in ready


def test_a_server_that_is_spoken_to_with_a_missing_package_is_refused():
    played = run(
        EXTRAS["serve"],
        COMMAND,
        *("eval", "--env", "rlvr/openenv.Remote-v0", "--set", "url=http://127.0.0.1:9", "--agent", "empty"),
        *("--episodes", "1", "--allow-code"),
    )
    assert (played.returncode, played.stdout) == (2, "")
    assert "rlvr[serve]" in played.stderr


@pytest.mark.slow
def test_every_id_is_refused_when_it_is_made_or_can_be_played():
    every = [package for packages in EXTRAS.values() for package in packages]
    done = run(every, EVERY_ID)
    assert done.returncode == 0, done.stderr[-2000:]
    refused, late = json.loads(done.stdout)
    assert late == {}
    assert {env_id: extra for env_id, extra in NEEDS.items() if env_id not in refused} == {}
    assert [env_id for env_id, reason in refused.items() if "rlvr[" not in reason] == []
