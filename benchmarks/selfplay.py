"""Exploitability of self-play over its steps: examples/kuhn_selfplay.yaml and leduc_selfplay.yaml, one run a seed.

    python benchmarks/selfplay.py --work runs/selfplay            # trains what is not there yet, then writes and draws
    python benchmarks/selfplay.py --games leduc --seeds 0 1 2     # a part; the rest of the results stays as it is
    python benchmarks/selfplay.py --draw                          # the figure alone

A point is the exact exploitability of the policy's own probabilities of its moves, renormalised over legal moves, at an
evaluation of the run. The policy that a run saves is the last of its steps; no step is chosen afterwards.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

import torch

from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.exploitability import exploitability, uniform

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from whole_runs import evaluations

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "selfplay.json"
PICTURE = ROOT / "docs" / "images" / "selfplay.png"
# The game of the catalogue, what its last step is to reach, and the seeds that are published.
GAMES = {"kuhn": ("KuhnPoker", 0.05, range(5)), "leduc": ("LeducPoker", 0.9, range(3))}


def measure(game: str, seed: int, work: Path) -> dict[str, Any] | None:
    """The curve of one seed, trained if its folder is not there; None where its run has not ended."""
    out = work / f"{game}-{seed}"
    run = evaluations(ROOT / "examples" / f"{game}_selfplay.yaml", seed, out)
    if run is None:
        return None
    records, cpu = run
    kept = ("step", "exploitability", "scored_mass", "least_scored_mass")
    return {"curve": [{name: round(record[name], 4) for name in kept} for record in records], "cpu_seconds": cpu}


def draw(games: dict[str, Any]) -> None:
    """One panel a game, one line a seed, beside the uniform policy and the aim."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5 * len(games), 3.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (game, record) in zip(figure.subplots(1, len(games), squeeze=False)[0], games.items(), strict=True):
        for seed, run in record["runs"].items():
            points = [(point["step"], point["exploitability"]) for point in run["curve"]]
            axes.plot(*zip(*points, strict=True), lw=1.3, label=f"seed {seed}")
        axes.axhline(record["uniform"], color="grey", lw=0.8, ls=":", label="uniform policy")
        axes.axhline(GAMES[game][1], color="black", lw=0.8, ls="--", label="aim")
        axes.set(title=GAMES[game][0], xlabel="reinforcement learning step", ylabel="exploitability (chips)")
        axes.set_ylim(0, 1.3 * record["uniform"])
        axes.grid(alpha=0.25)
        axes.legend(fontsize=8, frameon=False)
    figure.savefig(PICTURE, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--work", type=Path, default=Path("runs/selfplay"), help="folder of the runs")
    parser.add_argument("--games", nargs="+", choices=GAMES, default=list(GAMES))
    parser.add_argument("--seeds", type=int, nargs="+", help="default: those of each game")
    parser.add_argument("--draw", action="store_true", help="draw the figure from what is measured")
    options = parser.parse_args()
    record = json.loads(RESULTS.read_text())
    for game in [] if options.draw else options.games:
        name, _, seeds = GAMES[game]
        runs = {str(seed): run for seed in options.seeds or seeds if (run := measure(game, seed, options.work))}
        record["games"][game] = {
            "machine": f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}",
            "uniform": round(exploitability(make_game(name), uniform).value, 4),
            "last": {seed: run["curve"][-1]["exploitability"] for seed, run in runs.items()},
            "runs": runs,
        }
        RESULTS.write_text(json.dumps(record, indent=1) + "\n")
    draw(record["games"])


if __name__ == "__main__":
    main()
