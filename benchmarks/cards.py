"""The cards of all environments, with what the expert and luck score, and how many of 1,000 seeds repeat a task.

    python benchmarks/cards.py [--seeds 100] [--draws 1000] [--only TEXT …] [--missing] [--out benchmarks/results]

Every level of every id is played by its expert, at random, and with the expert's most frequent answer said to every
task. Environments that read a data set which is not here are listed without scores. ``--only`` measures the ids that
contain one of the texts, ``--missing`` those that have no scores yet; the others keep what they have.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import rlvr
from rlvr.envs.bridges.suite_games import PREFIXES
from rlvr.envs.cards import ANSWER_MOST, LUCK, RANDOM_MOST, card, measure

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from abilities import section


def row(env_id: str, seeds: int, draws: int) -> dict[str, Any]:
    described = card(env_id)
    scores = []
    if described.ready:
        scores = [measure(env_id, level, seeds, draws).to_dict() for level in range(1, described.levels + 1)]
    return {**described.to_dict(), "scores": scores}


def span(values: list[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    if not numbers:
        return "–"
    low, high = min(numbers), max(numbers)
    return f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"


def limits(turns: list[int]) -> str:
    low, high = min(turns), max(turns)
    return str(low) if low == high else f"{low} to {high}"


def repeated(distinct: int, drawn: int) -> str:
    """How many draws repeat one, and among how many equally likely tasks as many would be expected to."""
    low, high = distinct, 10**9
    while low < high:
        middle = (low + high) // 2
        if middle * (1 - (1 - 1 / middle) ** drawn) < distinct:
            low = middle + 1
        else:
            high = middle
    return f"{drawn - distinct} of {drawn:,}, as among {float(f'{low:.2g}'):,.0f} tasks"


def page(rows: dict[str, dict[str, Any]], seeds: int, draws: int) -> str:
    """The table for people, and the lists of what they should know."""
    head = "| id | family | levels | turns | expert | random | one answer | different tasks | stated space |\n"
    lines = [head, "|---|---|---|---|---|---|---|---|---|\n"]
    easy, repeats, unmeasured, weak, leaks = [], [], [], [], []
    for env_id, card_row in rows.items():
        scores, turns = card_row["scores"], card_row["turns"]
        if not scores:
            unmeasured.append(env_id)
            continue
        figures = {key: [score[key] for score in scores] for key in ("expert", "random", "constant", "distinct")}
        fewest = min(figures["distinct"])
        spaces = [str(size) if size else "–" for size in card_row["space"]]
        space = spaces[0] if len(set(spaces)) == 1 else ", ".join(spaces)
        cells = [env_id, card_row["family"], card_row["levels"], limits(turns)]
        cells += [span(figures["expert"]), span(figures["random"]), span(figures["constant"]), f"{fewest:,}", space]
        lines.append("| " + " | ".join(map(str, cells)) + " |\n")
        for score, stated in zip(scores, card_row["space"], strict=True):
            where = f"{env_id} level {score['level']}"
            if score["random"] > RANDOM_MOST or (score["constant"] or 0.0) > ANSWER_MOST:
                why = f" ({LUCK[env_id]})" if env_id in LUCK else ""
                easy.append(f"{where}: random {score['random']:.2f}, one answer {score['constant'] or 0:.2f}{why}")
            if score["distinct"] < score["drawn"] and not stated:
                repeats.append(f"{where}: {repeated(score['distinct'], score['drawn'])}")
            if score["expert"] is not None and score["expert"] < 1:
                weak.append(f"{where}: {score['expert']:.2f}")
            if score["shared"]:
                leaks.append(f"{where}: {score['shared']}")
    text = (
        f"# Cards\n\n`python benchmarks/cards.py`: {seeds} seeds a level for the scores, {draws:,} for the tasks.\n\n"
    )
    text += (
        f"{len(rows)} ids, {len(rows) - len(unmeasured)} of them measured. *random*: the random agent; *one answer*: "
    )
    text += (
        "the expert's most frequent answer, said to every task; both and *expert*: lowest to highest of the levels. "
    )
    text += f"*different tasks*: of {draws:,} seeds, at the level with the fewest; *stated space*: how many tasks a "
    text += "level has, where they are few enough to be listed.\n\n" + "".join(lines)
    for title, items in (
        (f"Random play earns more than {RANDOM_MOST}, or one answer more than {ANSWER_MOST}", easy),
        ("The expert scores below 1: luck has a say, and this is the rate", weak),
        ("Seeds that repeat a task, where no space is stated", repeats),
        ("Tasks shared by the train and test splits", leaks),
        ("Not measured: the data set is not here", unmeasured),
    ):
        text += f"\n## {title}\n\n" + ("".join(f"- {item}\n" for item in items) or "None.\n")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--only", nargs="+", default=[""], help="ids that contain one of these texts")
    parser.add_argument("--missing", action="store_true", help="ids without scores")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    os.environ.pop("RLVR_DATA", None)  # scores on made-up rows would say nothing
    path = options.out / "cards.json"
    before = json.loads(path.read_text())["cards"] if path.exists() else {}
    ids = [env_id for env_id in rlvr.list_envs() if not env_id.startswith(PREFIXES)]  # docs/bridges.md has those
    rows = {env_id: before[env_id] for env_id in ids if env_id in before}
    for env_id in ids:
        if not any(text.lower() in env_id.lower() for text in options.only) or (options.missing and env_id in rows):
            continue
        rows[env_id] = row(env_id, options.seeds, options.draws)
        print(env_id, span([score["random"] for score in rows[env_id]["scores"]]), flush=True)
        rows = dict(sorted(rows.items()))
        record = {"seeds": options.seeds, "draws": options.draws, "cards": rows}
        path.write_text(json.dumps(record, indent=1) + "\n")
    (options.out / "cards.md").write_text(page(rows, options.seeds, options.draws) + section(options.out))


if __name__ == "__main__":
    main()
