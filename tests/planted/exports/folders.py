"""A planted environment as a package of OpenEnv, or as a task folder of Harbor, as its author would write it.

    python folders.py openenv|harbor planted.pays_anything:InvoiceFields FOLDER

A Harbor task is a folder that an agent works on, or a question that it answers in a file: environments that answer an
agent turn by turn have no such form, and the exit status is 4.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from planted.bases import Workspace
from planted.catalogue import PAIRS, make_env

NO_FORM = 4
LISTS = ("planted", "rlvr==0.1.0", "gymnasium==1.4.0", "openenv==0.10.0")
IMAGE = "python:3.11-bookworm"


def openenv(target: str) -> dict[str, str]:
    """Paths and texts of a package of OpenEnv 0.10."""
    name = target.partition(":")[2].lower()
    env = make_env(target)
    env.reset(seed=0)
    manifest = {
        "spec_version": 1,
        "name": name,
        "version": "1.0.0",
        "type": "space",
        "runtime": "fastapi",
        "app": "server.app:app",
        "port": 8000,
        "validation": {
            "reward": {"range": [0.0, 1.0], "oracle_tolerance": 0.0, "floor_margin": 0.1},
            "resources": {"cpu": 1.0, "memory_mb": 1024, "disk_mb": 1024, "episode_timeout_s": 600.0},
            "capabilities": {"verifier": {"kind": "reward_channel"}},
            "types": {"tags": ["text"]},
            "execution": {
                "kind": "openenv_ws",
                "probe_path": "validation/runtime.json",
                "dockerfile": "server/Dockerfile",
                "context": ".",
                "agent_boundary": "api",
            },
        },
    }
    plan = {
        "plan_schema_version": "1",
        "reset": {"episode_id": "validation", "seed": 0, "options": {}},
        "actions": [{"message": "no answer"}],
    }
    needs = ", ".join(f'"{need}"' for need in LISTS[1:])
    return {
        "openenv.yaml": json.dumps(manifest, indent=1),
        "validation/runtime.json": json.dumps(plan),
        "__init__.py": "",
        "client.py": "from openenv.core import GenericEnvClient\n\n__all__ = ['GenericEnvClient']\n",
        "README.md": f"# {name}\n\n{type(env.unwrapped).__doc__}\n",
        "pyproject.toml": (
            f'[project]\nname = "openenv-{name}"\nversion = "1.0.0"\nrequires-python = ">=3.11"\n'
            f'dependencies = [{needs}]\n\n[project.scripts]\nserver = "{name}.server.app:main"\n'
        ),
        "server/__init__.py": "",
        "server/Dockerfile": f"FROM {IMAGE}\nCOPY . /app\nWORKDIR /app\nRUN pip install .\nCMD python -m server.app\n",
        "server/app.py": SERVER.format(target=target),
    }


SERVER = """import gymnasium as gym
import uvicorn
from planted.catalogue import make_env
from rlvr.adapters.suites.openenv import server_app

gym.register("planted/Env-v0", lambda: make_env("{target}"))
app = server_app("planted/Env-v0")


def main() -> None:
    uvicorn.run(app, host="0.0.0.0", port=8000)


if __name__ == "__main__":
    main()
"""


def harbor(target: str) -> dict[str, str] | None:
    """Paths and texts of a task of Harbor, schema 1.4, for seed 0; None where there is no such form."""
    env = make_env(target)
    prompt, info = env.reset(seed=0)
    is_folder = isinstance(env, Workspace)
    is_question = any(target.endswith(pair.name) and pair.form == "single turn" for pair in PAIRS)
    if not is_folder and not is_question:
        return None
    instruction = "\n".join(filter(None, [info.get("system"), prompt]))
    files = dict(env.files) if is_folder else {}
    try:
        action = env.solve()
    except (AttributeError, NotImplementedError):
        action = ""
    if is_folder:
        instruction = instruction.partition("\nCommands, one a turn")[0]
        steps = []
        while action.startswith("write "):
            path, _, text = action.removeprefix("write ").partition("\n")
            steps.append(f"mkdir -p $(dirname {path})\ncat > {path} <<'END'\n{text}\nEND")
            env.step(action)
            action = env.solve()
        solution = "\n".join(steps)
    else:
        instruction += "\nWrite the reply into /app/reply.txt."
        solution = f"cat > /app/reply.txt <<'END'\n{action}\nEND"
    return {
        "task.toml": CONFIG.format(name=target.partition(":")[2].lower()),
        "instruction.md": instruction,
        "environment/Dockerfile": f"FROM {IMAGE}\nCOPY workspace/ /app/\nWORKDIR /app\n",
        "environment/workspace/.keep": "",
        **{f"environment/workspace/{path}": text for path, text in files.items()},
        "tests/Dockerfile": f"FROM {IMAGE}\nCOPY . /tests/\nRUN pip install {' '.join(LISTS[1:3])}\n",
        "tests/test.sh": "#!/bin/bash\ncd /tests && exec python3 verify.py > /logs/verifier/reward.txt\n",
        "tests/verify.py": (FOLDER_VERIFY if is_folder else QUESTION_VERIFY).format(target=target),
        "solution/solve.sh": f"#!/bin/bash\ncd /app\n{solution}\n",
    }


CONFIG = """schema_version = "1.4"
artifacts = ["/app"]

[task]
name = "planted/{name}"

[verifier]
environment_mode = "separate"
timeout_sec = 300.0

[agent]
timeout_sec = 600.0

[environment]
workdir = "/app"
"""

FOLDER_VERIFY = """from pathlib import Path

from planted.catalogue import make_env

env = make_env("{target}")
env.reset(seed=0)
root = Path("/app")
env.files = {{str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}}
print(env.grade())
"""

QUESTION_VERIFY = """from pathlib import Path

from planted.catalogue import make_env

env = make_env("{target}")
env.reset(seed=0)
print(env.step(Path("/app/reply.txt").read_text())[1])
"""


def main() -> int:
    """Write the folder; 0, or 4 where there is no such form."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("form", choices=["openenv", "harbor"])
    parser.add_argument("target", help="module:Class")
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    texts = (openenv if arguments.form == "openenv" else harbor)(arguments.target)
    if texts is None:
        return NO_FORM
    for path, text in texts.items():
        (arguments.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (arguments.folder / path).write_text(text, encoding="utf-8")
    if arguments.form == "harbor":  # what the verifier imports
        code = Path(sys.modules["planted.catalogue"].__file__ or "").parent
        shutil.copytree(code, arguments.folder / "tests" / "planted", ignore=shutil.ignore_patterns("__pycache__"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
