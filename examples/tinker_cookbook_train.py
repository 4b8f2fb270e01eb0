"""tinker-cookbook's trainer learns an environment of two turns through our adapter, against SkyRL's server, on the CPU.

    rlvr train --config examples/calculator.yaml --steps 0 --out runs/warm    # the tiny policy, warmed up by us
    python examples/tinker_cookbook_train.py --policy runs/warm/policy --out runs/tinker
    python examples/tinker_cookbook_train.py --draw runs/tinker/curve.json picture.png

The trainer asks a server for samples, gradients and optimiser steps, over the API of the Tinker service. SkyRL serves
the same API from this machine, with a LoRA in JAX; the script starts that server and ends it. Nothing of either is
patched. ``--base-url`` takes a server that runs already. docs/adapters/tinker_cookbook.md says what to install.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

ENV = "rlvr/Calculator-v0"
RANK = 32
READY_SECONDS = 120.0
GRACE_SECONDS = 15.0


@contextmanager
def serve(policy: Path, folder: Path, batch: int, adapters: int = 2) -> Iterator[str]:
    """SkyRL's Tinker server with a policy, in a process group of its own; its address."""
    if sys.version_info < (3, 12):
        raise SystemExit("the server of SkyRL 0.3.0 needs Python 3.12: on 3.11 pydantic refuses its TypedDict")
    bin_folder = Path(sys.executable).parent
    paths = f"{bin_folder}{os.pathsep}{os.environ.get('PATH', '')}"
    if shutil.which("uv", path=paths) is None:
        raise SystemExit("SkyRL's server starts its engine with uv: pip install uv")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    sizes = {"max_lora_adapters": adapters, "max_lora_rank": RANK}
    sizes |= {"train_micro_batch_size": min(batch, 64), "sample_max_num_sequences": batch}
    # The server looks at how it was started, and starts its engine in the same way: with uv, in this environment.
    command = ["uv", "run", "--no-project", "-m", "skyrl.tinker.api", "--backend", "jax", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--base-model", str(policy.resolve()), "--backend-config", json.dumps(sizes)]
    command += ["--checkpoints-base", str((folder / "checkpoints").resolve())]
    command += ["--database-url", f"sqlite:///{(folder / 'requests.db').resolve()}", "--session-timeout-sec", "-1"]
    variables = os.environ | {"VIRTUAL_ENV": sys.prefix, "PATH": paths, "UV_OFFLINE": "1", "PYTHONSAFEPATH": "1"}
    folder.mkdir(parents=True)
    with (folder / "log.txt").open("w") as log:
        server = subprocess.Popen(command, env=variables, stdout=log, stderr=log, start_new_session=True)
        try:
            address = f"http://127.0.0.1:{port}"
            wait_for(address, server, folder / "log.txt")
            yield address
        finally:
            stop(server)


def wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Until the server answers."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            urllib.request.urlopen(f"{address}/api/v1/healthz", timeout=5).read()
            return
        except OSError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"SkyRL's server did not begin ({error}); the end of {log}:\n{tail(log)}") from None
            time.sleep(0.2)


def tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


def stop(server: subprocess.Popen[bytes]) -> None:
    """End the server, and its engine with it."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, sign)
        except ProcessLookupError:
            break
        try:
            server.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            continue


def train(policy: Path, out: Path, base_url: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Train, and return what each step earned."""
    os.environ.setdefault("TINKER_API_KEY", "tml-none")  # the client wants one; a local server does not look at it
    from tinker_cookbook.rl.train import Config, main

    from rlvr.adapters.trainers.tinker_cookbook import TaskDatasetBuilder

    tasks = TaskDatasetBuilder(
        env_id=ENV,
        model_name=str(policy),
        batches=settings["steps"],
        batch_size=settings["prompts"],
        group_size=settings["group_size"],
        seed=settings["seed"],
        use_system=False,
    )
    config = Config(
        model_name=str(policy),
        recipe_name="rlvr",
        dataset_builder=tasks,
        learning_rate=settings["learning_rate"],
        lora_rank=RANK,
        max_tokens=24,  # of one turn
        log_path=str(out),
        base_url=base_url,
        eval_every=0,
        save_every=0,
        num_groups_to_log=0,
        rollout_json_export=False,
    )
    start = time.perf_counter()
    asyncio.run(main(config))
    log = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    log = [entry for entry in log if "env/all/reward/total" in entry]
    packages = ("tinker-cookbook", "tinker", "skyrl", "jax", "transformers", "torch")
    return {
        "env": ENV,
        "versions": {name: metadata.version(name) for name in packages},
        "machine": f"{platform.machine()}, Python {platform.python_version()}, CPU",
        "settings": {**settings, "lora_rank": RANK},
        "seconds": round(time.perf_counter() - start, 1),
        "reward": [round(entry["env/all/reward/total"], 4) for entry in log],
        "turns": [round(entry["env/all/turns_per_episode"], 3) for entry in log],
        # Between what was recorded at sampling and what the server's forward pass gives for the same tokens.
        "kl_sample_train": [float(f"{entry['optim/kl_sample_train_v2']:.2g}") for entry in log],
    }


def draw(curve: Path, picture: Path) -> None:
    from matplotlib.figure import Figure

    record = json.loads(curve.read_text(encoding="utf-8"))
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    axes = figure.subplots()
    steps = range(1, len(record["reward"]) + 1)
    axes.plot(steps, record["reward"], color="#3465a4", marker="o", markersize=3)
    title = f"{record['env']} under tinker-cookbook and SkyRL's server"
    axes.set(xlabel="step", ylabel="mean reward of a batch", ylim=(0, 1.03), title=title)
    axes.grid(alpha=0.3)
    figure.savefig(picture, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", type=Path, help="folder of a Qwen3 or Llama model with a chat template")
    parser.add_argument("--out", type=Path, default=Path("runs/tinker"), help="a new folder, for curve.json and logs")
    parser.add_argument("--base-url", help="a server that runs already, instead of one of our own")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--prompts", type=int, default=8, help="tasks of a step")
    parser.add_argument("--group-size", type=int, default=8, help="episodes of a task")
    parser.add_argument("--learning-rate", type=float, default=1.5e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draw", type=Path, nargs=2, metavar=("CURVE", "PICTURE"), help="only draw a curve")
    options = parser.parse_args()
    if options.draw:
        draw(*options.draw)
        return
    if options.policy is None:
        parser.error("--policy is missing: the folder of a model, see --help")
    if options.out.exists() and any(options.out.iterdir()):
        parser.error(f"{options.out} holds a run already, which the trainer would go on with: give another --out")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that the server is ended, too
    settings = {name: getattr(options, name) for name in ("steps", "prompts", "group_size", "learning_rate", "seed")}
    if options.base_url:
        record = train(options.policy, options.out, options.base_url, settings)
    else:
        with serve(options.policy, options.out / "server", options.prompts * options.group_size) as address:
            record = train(options.policy, options.out, address, settings)
    (options.out / "curve.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"reward {record['reward'][0]} -> {record['reward'][-1]} in {record['seconds']} s")


if __name__ == "__main__":
    main()
