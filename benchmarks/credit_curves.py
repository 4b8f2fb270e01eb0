"""Learning curves of the rules of credit at equal tokens: the advantage alone differs.

    nice -n 19 python benchmarks/credit_curves.py --work runs/credit  # what is not measured yet, then the page
    python benchmarks/credit_curves.py --minutes 20                   # begins nothing after so many minutes
    python benchmarks/credit_curves.py --only Secretary               # these cells alone, beside another process
    python benchmarks/credit_curves.py --draw                         # the section of docs/credit.md and the figure

A run begins with a policy of `credit_models.py`, whose credit the laboratory has measured, and ends when so many tokens
went through the model: each episode's twice, as it is sampled and as it is learned from, and what continuations read
and write. Success is that of held-out tasks, sampled, at each fifth of the tokens. Three seeds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import transformers

from rlvr.agents.continuation import BranchStart, branch_points, play_on
from rlvr.agents.conversation import Agent
from rlvr.agents.evaluation.statistics import wilson
from rlvr.algorithms.advantages import monte_carlo
from rlvr.algorithms.advantages.gather import ragged, token_turns
from rlvr.algorithms.advantages.token_rewards import mask_of, why
from rlvr.algorithms.advantages.turn_returns import Turns
from rlvr.algorithms.core.inputs import AdvantageInputs
from rlvr.algorithms.recipe.advantage import Advantage, Played, Sources
from rlvr.algorithms.recipe.loss_parts import Choices
from rlvr.algorithms.train.run import Trainer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

import credit
import credit_models
import credit_page
from dead_levels import play_levels
from whole_runs import Silent

RESULTS = credit_page.RESULTS.with_name("credit_curves.jsonl")
STARTS = {  # ids, levels and stages of a policy, and the tokens of a run
    ("Calculator", 1, "mixed"): 100_000,
    ("Secretary", 1, "few"): 200_000,
}
MIXED = {"steps": 200, "mixed_steps": 20, "direct_answer_share": 0.65}  # as in curves.py: can do it, and rarely does


def expert_differences(played: Played, sources: Sources) -> dict[str, Any]:
    """turn [B, T], turn_rewards [B, K]: by how much each turn changes what the expert would earn from there."""
    differences = []
    for episode in played.episodes:
        points = branch_points(sources.env, episode, credit_models.begins(episode))
        scores = credit.expert_scores([point.env for point in points])
        differences.append(credit.differences(scores, [turn.reward for turn in episode.turns]))
    return {"turn": token_turns(played.episodes), "turn_rewards": ragged(differences)}


def expert_score(x: AdvantageInputs, p: Choices) -> Any:
    """The difference of states' scores, at each token of the turn. [B, T]."""
    differences, turn = (x.need(name, why(p)) for name in ("turn_rewards", "turn"))
    return Turns(turn, mask_of(x, p)).broadcast(differences)


EXPERT_SCORE = Advantage(
    "expert_score",
    "S(s_k+1) - S(s_k)",
    expert_score,
    "credit.py",
    needs=("mask", "turn", "turn_rewards"),
    gather=(expert_differences,),
    per_token=True,
)
RULES: dict[str, dict[str, Any]] = {  # by their names in the laboratory: changes of dr_grpo
    "outcome (rloo)": {"advantage": "rloo"},
    "outcome (grpo)": {"advantage": "group_z"},
    "turn_rloo": {"advantage": "turn_rloo"},
    "rebn": {"advantage": "rebn", "gamma": credit.REBN_GAMMA},
    "gae, lambda 1": {"advantage": "turn_gae"},
    "gigpo": {"advantage": "gigpo", "gamma": credit.GAMMA},
    "vine, 4 continuations": {"advantage": "vine", "continuations": credit.VINE},
    "expert score": {"advantage": EXPERT_SCORE},
    "expert score, whitened": {"advantage": EXPERT_SCORE, "whiten": True},
}
SEEDS, POINTS, HELD_OUT = (0, 1, 2), 5, 96
LR, PROMPTS = 3e-4, 8
LABORATORY = 16, credit.GROUP  # tasks, and episodes of each that are measured, where the laboratory lacks a cell
SETTINGS = {"lr": LR, "prompts": PROMPTS, "points": POINTS, "held_out": HELD_OUT}
Runs = dict[tuple[str, str, int], dict[str, Any]]  # by cell, rule and seed


class Counter:
    """Plays continuations in place of `continue_from`, and counts the tokens that they read and write."""

    def __init__(self) -> None:
        self.tokens = 0

    def __call__(self, agent: Agent, starts: Sequence[BranchStart], batch_size: int = 256) -> list[float | None]:
        before = sum(len(start.conversation.tokens) for start in starts)
        episodes = play_on(agent, starts, batch_size, timeout=None)
        self.tokens += sum(len(episode.tokens) for episode in episodes) - before
        return [episode.reward if episode.valid else None for episode in episodes]


def policy_of(start: tuple[str, int, str], work: Path) -> Path:
    """The folder of the policy that a run begins with, which is trained if it is not there."""
    name, level, stage = start
    policy = work / f"{name} {stage}"
    if stage == "mixed" and not (policy / "config.json").exists():
        recipe = {"algorithm": "dr_grpo", "warm_start": MIXED}
        credit_models.train(credit_models.config_of(name, level, work / "run", **recipe), 0, policy)
    return credit_models.policy_of(name, stage, work)


def measure(start: tuple[str, int, str], rule: str, seed: int, work: Path, out: Path) -> dict[str, Any]:
    """One run: tokens, steps and solved tasks at each point."""
    name, level, _ = start
    model = {"name": str(policy_of(start, work))}
    recipe = {"algorithm": "dr_grpo", "overrides": RULES[rule], "learner": {"lr": LR, "share_prompts": True}}
    changes = {**recipe, "model": model, "prompts": PROMPTS, "steps": 10_000, "seed": seed}
    counter = monte_carlo.continue_from = Counter()
    cpu, curve, tokens = time.process_time(), list[dict[str, int]](), 0
    shutil.rmtree(out, ignore_errors=True)  # what an interrupted call left
    run = Trainer(credit_models.config_of(name, level, out, **changes), Silent())
    try:
        run.prepare()
        while len(curve) <= POINTS:
            if tokens >= STARTS[start] * len(curve) / POINTS:
                solved = sum(e.success for e in play_levels(run, [level], HELD_OUT, "test")[level])
                curve.append({"tokens": tokens, "steps": run.step, "solved": solved})
                continue
            sample = run.collect()
            with warnings.catch_warnings(action="ignore"):  # groups of equal rewards are wanted here
                run.learn(sample)
            tokens += 2 * sum(len(episode.tokens) for episode in sample.collected.played) + counter.tokens
            counter.tokens = 0
    finally:
        run.close()
        shutil.rmtree(out, ignore_errors=True)
    return {"curve": curve, "cpu_seconds": round(time.process_time() - cpu, 1)}


def cell_of(start: tuple[str, int, str]) -> str:
    """Its name in the results of the laboratory."""
    return "{} level {} {}".format(*start)


def lines() -> list[dict[str, Any]]:
    """Those of the record."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def add(line: dict[str, Any]) -> None:
    """One line more of the record; of two processes each adds its own."""
    with RESULTS.open("a") as file:
        file.write(json.dumps(line) + "\n")


def load() -> Runs:
    """What is measured with these settings."""
    budgets = {cell_of(start): tokens for start, tokens in STARTS.items()}
    runs = [line for line in lines() if "curve" in line and line["settings"] == SETTINGS]
    kept = [line for line in runs if line["budget"] == budgets.get(line["cell"])]
    return {(line["cell"], line["rule"], line["seed"]): line for line in kept}


def laboratory() -> dict[str, dict[str, Any]]:
    """By cell and rule: what the laboratory says, in its record or, of a cell that it does not have, in this one."""
    own = {line["cell"]: line["laboratory"] for line in lines() if "laboratory" in line}
    both = own | credit_page.load()["models"]
    return {
        cell: {rule: entry["rules"][rule.removesuffix(", whitened")] for rule in RULES} for cell, entry in both.items()
    }


def curves(runs: Runs, cell: str, rule: str) -> list[list[float]]:
    """The success at each point, of each seed."""
    seeds = [runs[cell, rule, seed] for seed in SEEDS if (cell, rule, seed) in runs]
    return [[point["solved"] / HELD_OUT for point in run["curve"]] for run in seeds]


def speed(seeds: Sequence[Sequence[float]]) -> float:
    """The mean success over the run, behind its start, in the mean of the seeds."""
    return statistics.fmean(statistics.fmean(seed[1:]) for seed in seeds)


def rows(runs: Runs) -> list[str]:
    """A row for each rule of each cell, the fastest first; what the laboratory says of the rule stands beside."""
    shown, measured = [], laboratory()
    for cell in map(cell_of, STARTS):
        of_rules = {rule: of for rule in RULES if (of := curves(runs, cell, rule))}
        for rule in sorted(of_rules, key=lambda each: -speed(of_rules[each])):
            seeds, said = of_rules[rule], measured[cell][rule]
            ends = [seed[-1] for seed in seeds]
            low, high = wilson(sum(ends) * HELD_OUT, HELD_OUT * len(seeds))
            steps = statistics.fmean(run["curve"][-1]["steps"] for key, run in runs.items() if key[:2] == (cell, rule))
            figures = [f"{said[key]:.2f}" if said.get(key) is not None else "-" for key in ("spearman", "variance")]
            row = [
                *(cell, rule, *figures, f"{steps:.0f}"),
                " ".join(f"{statistics.fmean(point):.2f}" for point in zip(*seeds, strict=True)),
                f"{low:.2f} to {high:.2f}",
                " ".join(f"{end:.2f}" for end in ends),
                f"{speed(seeds):.3f}",
            ]
            shown.append(f"| {' | '.join(row)} |")
    return shown


def agreement(runs: Runs) -> str:
    """Whether the rules that rank turns better learn faster: Spearman over the rules of a cell."""
    measured, pairs = laboratory(), []
    for cell in map(cell_of, STARTS):
        of_rules = {rule: of for rule in RULES if (of := curves(runs, cell, rule))}
        both = [(measured[cell][rule]["spearman"], speed(of)) for rule, of in of_rules.items()]
        known = [pair for pair in both if pair[0] is not None]  # None where a rule gives all turns the same
        together = credit.spearman(*zip(*known, strict=True))
        pairs.append(f"{'-' if together is None else f'{together:.2f}'} on {cell}")
    return ", ".join(pairs)


def section(runs: Runs) -> list[str]:
    """What stands between the marks of the page."""
    return [
        f"Rank correlation over the rules of their Spearman with their mean success: {agreement(runs)}.",
        "",
        "| cell | rule | Spearman | variance | steps | success at each point | at the end, 95 % | its seeds | mean |",
        "|---|---|---|---|---|---|---|---|---|",
        *rows(runs),
    ]


def draw(runs: Runs) -> None:
    """The section of the page, and its figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    text = credit_page.with_block(credit_page.PAGE.read_text(encoding="utf-8"), "curves", section(runs))
    credit_page.PAGE.write_text(text, encoding="utf-8")
    figure = Figure(figsize=(11, 3.8), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(STARTS), squeeze=False)[0]
    for panel, (start, budget) in zip(panels, STARTS.items(), strict=True):
        cell = cell_of(start)
        for rule in RULES:
            if seeds := curves(runs, cell, rule):
                points = [statistics.fmean(point) for point in zip(*seeds, strict=True)]
                panel.plot([budget / 1e3 * k / POINTS for k in range(POINTS + 1)], points, marker=".", label=rule)
        panel.set_title(cell, fontsize=9)
        panel.set_xlabel("thousand tokens", fontsize=8)
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("success on held-out tasks, mean of seeds", fontsize=8)
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8, frameon=False
    )
    credit_page.save_figure(figure, "credit_curves.png")


def main() -> int:
    """Measure what is missing, each result written at once; then the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--draw", action="store_true", help="write the page from what is measured")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after so many minutes")
    parser.add_argument("--only", default="", metavar="ID", help="measure cells whose name begins so")
    parser.add_argument("--work", type=Path, help="folder that keeps the policies of the start, for another call")
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    runs, until = load(), time.monotonic() + (0 if options.draw else options.minutes * 60)
    wanted = [(start, rule, seed) for seed in SEEDS for start in STARTS for rule in RULES]
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        for start in STARTS:
            cell = cell_of(start)
            if cell not in laboratory() and cell.startswith(options.only) and time.monotonic() < until:
                policy_of(start, work)
                credit.TASKS, credit_models.MEASURED = LABORATORY  # more than there, as few of its episodes go on
                add({"cell": cell, "laboratory": credit_models.measure(*start, work)})
        for start, rule, seed in wanted:
            key = cell_of(start), rule, seed
            if key in runs or not key[0].startswith(options.only) or time.monotonic() >= until:
                continue
            run = measure(start, rule, seed, work, Path(temporary) / "run")
            runs[key] = {
                "cell": key[0],
                "rule": rule,
                "seed": seed,
                "budget": STARTS[start],
                "settings": SETTINGS,
                **run,
            }
            add(runs[key])
            print(key, [point["solved"] for point in run["curve"]], run["cpu_seconds"], flush=True)
    draw(load())
    return 0


if __name__ == "__main__":
    sys.exit(main())
