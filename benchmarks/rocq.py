"""What automation alone proves of `rlvr/Rocq-v0`: one sentence, and one induction with one sentence behind it.

    python benchmarks/rocq.py [--tasks 16] [--out benchmarks/results]

Each sentence is a whole proof after `intros`; it is tried on the first tasks of each level, of the train and the test
split by turns. A proof that the prover does not find within its time counts as none. Writes rocq.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gymnasium as gym

import rlvr  # noqa: F401  (registers the environments)
from rlvr.envs.logic.rocq import prover

AUTOMATION = "tauto intuition firstorder auto eauto congruence lia nia ring".split()
SENTENCES = {
    **{f"`{name}`": f"intros; {name}." for name in AUTOMATION},
    **{f"`induction`, `{name}`": f"intros x; induction x; cbn in *; {name}." for name in ("auto", "lia", "nia")},
    "`induction`, `cbn [f g Nat.pow]`, `nia`": "intros x; induction x; cbn [f g Nat.pow]; nia.",
}


def solved(env: gym.Env, level: int, tasks: int) -> dict[str, int]:
    """Of so many tasks of a level, how many each sentence proves, how many any of them, and the expert."""
    found = dict.fromkeys([*SENTENCES, "any of these", "the expert"], 0)
    for number in range(tasks):
        env.reset(seed=number, options={"level": level, "split": ("train", "test")[number % 2]})
        problem = env.unwrapped.get_state().state.problem
        proofs = {name: [sentence] for name, sentence in SENTENCES.items()} | {"the expert": [*problem.proof]}
        right = [name for name, proof in proofs.items() if _proves(problem.statement, proof)]
        found["any of these"] += any(name in SENTENCES for name in right)
        for name in right:
            found[name] += 1
    return found


def _proves(statement: prover.RocqStatement, script: list[str]) -> bool:
    proof = prover.attempt(statement, script).proof
    return proof is not None and not prover.certified(statement, proof, frozenset())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    env = gym.make("rlvr/Rocq-v0")
    columns = [solved(env, level, options.tasks) for level in range(1, env.unwrapped.task.levels + 1)]
    text = (
        f"# Rocq\n\n`python benchmarks/rocq.py --tasks {options.tasks}`: of {options.tasks} tasks of each level, half "
    )
    text += "of the train and half of the test split, how many one sentence proves after `intros`.\n\n"
    text += "| proof | level 1 | level 2 | level 3 | level 4 | level 5 |\n|---|---|---|---|---|---|\n"
    for name in columns[0]:
        text += f"| {name} | {' | '.join(str(column[name]) for column in columns)} |\n"
    (options.out / "rocq.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
