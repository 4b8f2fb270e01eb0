"""The collapse of self-play and its cure: runs of the examples, and runs with all that holds them left out.

    python benchmarks/collapse.py --games kuhn --seeds 0      # trains what is not there yet, then writes and draws
    python benchmarks/collapse.py --games kuhn --ways with    # the runs of the example alone
    python benchmarks/collapse.py --draw                      # the figure alone

A run without the cures begins with the weights that the run of the example had after its warm start, with its seed, its
tasks, its batches and its learning rate. It has no opponent beside `self`, no KL term, no average of the weights, the
optimiser's usual momentum, and a learning rate that does not fall (`WITHOUT`). A run without KL lacks that term alone.

Of each evaluation stand the panel, the exploitability where it is exact, and of the steps since the one before the
reward, tokens and entropy of each role. The alarm is what `rlvr train` says of the run, at the first evaluation at
which it says so. Of a run that was stopped stands what it had, and how many steps it made. Each run has the command
that wrote its figures; other runs stay.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from rlvr.algorithms.config import load_config
from rlvr.algorithms.runs.checkpoints import load_checkpoint
from rlvr.algorithms.runs.health import health
from rlvr.algorithms.train.backends import load_model

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import this_command
from whole_runs import changed, has_ended, records_of

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "collapse.json"
PICTURE = ROOT / "docs" / "images" / "collapse.png"
TITLES = {"kuhn": "KuhnPoker", "tictactoe": "TicTacToeDuel"}
CURED = {"kuhn": "selfplay/kuhn-{}", "tictactoe": "tictactoe/seed-{}"}  # runs of selfplay.py and tictactoe.py
NO_KL = {"overrides": {"kl": "none", "kl_in": "loss", "kl_coef": 0.0}, "learner": {"kl_coef_end": None}}
# The learning rate and the batches of the example; the collapse is sooner than its last step.
LOOSE = {"schedule": "constant", "betas": [0.9, 0.95], "kl_coef_end": None, "ema": 0.0}
WITHOUT: dict[str, dict[str, dict[str, Any]]] = {
    "kuhn": {
        "without": {**NO_KL, "learner": LOOSE, "steps": 300, "evaluation": {"every": 10, "episodes": 256}},
        "without KL": {**NO_KL, "steps": 300, "evaluation": {"every": 10, "episodes": 256}},
    },
    "tictactoe": {
        "without": {
            **NO_KL,
            "learner": LOOSE,
            "env": {"settings": {"opponents": ["self"]}},
            "steps": 60,
            "evaluation": {"every": 10, "episodes": 200},
        },
    },
}
COLOURS = {"with": "tab:blue", "without": "tab:red", "without KL": "tab:orange"}
LABELS = {"with": "with the cures", "without": "without the cures"}


def curve(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A point for each evaluation."""
    points, steps = [], []
    for record in records:
        if record["phase"] == "train":
            steps.append(record)
        elif record["phase"] == "evaluation":
            point: dict[str, Any] = {"step": record["step"]}
            if "exploitability" in record:
                point |= {name: round(record[name], 4) for name in ("exploitability", "scored_mass")}
            point["panel"] = {
                way: {bot: {name: round(score[name], 4) for name in ("not_lost", "payoff", "forfeits")}
                      for bot, score in bots.items()}
                for way, bots in record["panel"].items()
            }  # fmt: skip
            points.append(point | {"roles": roles(steps)})
            steps = []
    return points


def roles(steps: Iterable[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The mean of each role over steps."""
    by_role: dict[str, list[dict[str, float]]] = {}
    for step in steps:
        for role, figures in step.get("roles", {}).items():
            by_role.setdefault(role, []).append(figures)
    return {
        role: {name: round(fmean(each[name] for each in rows), 4) for name in ("reward", "tokens", "entropy")}
        for role, rows in sorted(by_role.items())
    }


def alarm(records: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The alarms of self-play at the first evaluation at which one rings, with its step; None where none does."""
    for at, record in enumerate(records, 1):
        if record["phase"] == "evaluation":
            texts = [
                text for text in health(records[:at]) if text.startswith(("self-play is even", "the entropy of seat"))
            ]
            if texts:
                return {"step": record["step"], "texts": texts}
    return None


def measure(game: str, seed: int, work: Path, ways: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The run of the example and those without its cures, as ``ways`` names them, trained where no folder is there."""
    example, cured = ROOT / "examples" / f"{game}_selfplay.yaml", work / CURED[game].format(seed)
    start = work / "collapse" / f"{game}-{seed}-start"
    runs = {}
    for way in ways:
        out = work / "collapse" / f"{game}-{seed}-{way.replace(' ', '-')}"
        if way == "with":
            runs[way] = records_of(example, seed, cured)
        elif way in WITHOUT[game]:
            if not (out.exists() or start.exists()):
                run = cured if cured.exists() else start.with_name(f"{start.name}-alone")
                records_of(example, seed, run, {"steps": 0})  # the warm start of the example, and no more
                write_start(run, start)
            begun = {"model": {"name": str(start)}, "warm_start": {"steps": 0, "random_steps": 0}}
            runs[way] = records_of(example, seed, out, changed(WITHOUT[game][way], begun))
    return {
        way: {
            "command": this_command(),
            "steps": max(record["step"] for record in records),
            "ended": has_ended(records),
            "curve": curve(records),
            "alarm": alarm(records),
            "cpu_seconds": cpu,
        }
        for way, (records, cpu) in runs.items()
    }


def write_start(run: Path, folder: Path) -> None:
    """The policy that a run had after its warm start, as a folder."""
    model, tokenizer = load_model(load_config(run / "config.yaml"))
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, weights in load_checkpoint(run / "checkpoints" / "step-000000").model.items():
            parameters[name].copy_(weights)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def draw(games: dict[str, Any]) -> None:
    """A row a game: exploitability where it is exact, matches not lost, and entropy, with the cures and without."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 3.1 * len(games)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    for row, (game, game_runs) in zip(figure.subplots(len(games), 3, squeeze=False), games.items(), strict=True):
        runs = game_runs["runs"]
        for way, colour in COLOURS.items():
            for number, run in enumerate(each[way] for each in runs.values() if way in each):
                label = LABELS.get(way, way) if number == 0 else None
                for axes, (name, points) in zip(row, lines(run["curve"]).items(), strict=True):
                    axes.plot(*zip(*points, strict=True), lw=1.3, color=colour, label=label)
                    axes.set_xlabel("reinforcement learning step")
                    axes.set_title(f"{TITLES[game]}: {name}", fontsize=10)
                    axes.set_xscale("symlog", linthresh=10)  # the collapse is within the first steps
                    axes.grid(alpha=0.25)
                if run["alarm"]:
                    row[2].axvline(run["alarm"]["step"], color=colour, lw=0.8, ls=":", label="alarm")
        for axes in row:
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
        row[1].set_ylim(top=1)
        row[0].legend(fontsize=8, frameon=False)
    figure.savefig(PICTURE, metadata={"Software": None})


def lines(points: list[dict[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """What is drawn of a curve: the title of each panel, and its points."""

    def share(bot: str) -> list[tuple[int, float]]:
        return [(point["step"], point["panel"]["sampled"][bot]["not_lost"]) for point in points]

    exact = "exploitability" in points[0]
    first = [(point["step"], point["exploitability"]) for point in points] if exact else share("expert")
    entropy = [
        (point["step"], min(role["entropy"] for role in point["roles"].values())) for point in points if point["roles"]
    ]
    return {
        "exploitability (chips)" if exact else "not lost to perfect play": first,
        "not lost to random moves": share("random"),
        "entropy, the lower of the roles": entropy,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--work", type=Path, default=Path("runs"), help="folder of the runs, of selfplay.py and tictactoe.py too"
    )
    parser.add_argument("--games", nargs="+", choices=WITHOUT, default=list(WITHOUT))
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1, 2))
    parser.add_argument("--ways", nargs="+", choices=COLOURS, default=list(COLOURS))
    parser.add_argument("--draw", action="store_true", help="draw the figure from what is measured")
    options = parser.parse_args()
    record = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"games": {}}
    for game in [] if options.draw else options.games:
        game_runs = record["games"].setdefault(game, {"changes": {}, "runs": {}})
        game_runs["changes"] = WITHOUT[game]
        for seed in options.seeds:
            game_runs["runs"].setdefault(str(seed), {}).update(measure(game, seed, options.work, options.ways))
        record["machine"] = f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
        RESULTS.write_text(json.dumps(record, indent=1) + "\n")
    draw(record["games"])


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
