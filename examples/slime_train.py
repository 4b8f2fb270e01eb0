"""Rows for slime or miles, and the arguments that make our environments the ones that are played.

    python examples/slime_train.py --env rlvr/GuessNumber-v0 --rows 1000 --out runs/slime

writes runs/slime/train.jsonl and test.jsonl, and prints what to add to the arguments of `train.py` in a checkout of
slime (or miles), with rlvr installed beside it; docs/adapters/slime.md says what to mind.
"""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path

from rlvr.adapters import rows, write_rows

ADAPTER = "rlvr.adapters.trainers.slime"


def arguments(train: Path, test: Path) -> list[str]:
    """Groups of 8, as many tokens as a short game needs."""
    settings = {
        "custom-generate-function-path": f"{ADAPTER}.generate",
        "dynamic-sampling-filter-path": f"{ADAPTER}.valid_groups",
        "custom-eval-rollout-log-function-path": f"{ADAPTER}.without_faulty_evaluations",
        "prompt-data": train.resolve(),
        "apply-chat-template-kwargs": json.dumps({"enable_thinking": False}),
        "n-samples-per-prompt": 8,
        "rollout-max-response-len": 512,  # of each reply
        "rollout-max-context-len": 4096,  # of the whole conversation
        "eval-interval": 10,
    }
    words = [str(part) for name, value in settings.items() for part in (f"--{name}", value)]
    return [*words, "--rollout-shuffle", "--eval-prompt-data", "test", str(test.resolve())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="rlvr/GuessNumber-v0")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--test-rows", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("runs/slime"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    train = write_rows(rows(options.env, options.rows, "slime"), options.out / "train.jsonl")
    held_out = rows(options.env, options.test_rows, "slime", kwargs={"split": "test"})
    print(shlex.join(arguments(train, write_rows(held_out, options.out / "test.jsonl"))))


if __name__ == "__main__":
    main()
