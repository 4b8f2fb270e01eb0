"""Training runs inside a benchmark: without a word, and read again where they stand already."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvr.algorithms.config import load_config, read_yaml
from rlvr.algorithms.runs.run_folder import read_jsonl
from rlvr.algorithms.train.run import Trainer
from rlvr.envs import TextEnv


class Silent:
    """A callback that says nothing."""

    def phase(self, name: str, steps: int) -> None: ...

    def step(self, record: dict[str, Any]) -> None: ...

    def say(self, text: str) -> None: ...


def records_of(
    example: Path, seed: int, out: Path, changes: Mapping[str, Any] | None = None
) -> tuple[list[dict[str, Any]], int]:
    """An example's records and CPU-seconds, trained where ``out`` is missing; those so far of a run that was stopped.

    Args:
        changes: of the example, section by section.
    """
    if not out.exists():
        values = changed(read_yaml(example), {**(changes or {}), "seed": seed, "out": str(out)})
        Trainer(load_config(values), Silent()).run()
    return read_jsonl(out / "metrics.jsonl"), round(
        sum(line["cpu_seconds"] for line in read_jsonl(out / "timing.jsonl"))
    )


def has_ended(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a run made all of its steps."""
    return any(record["phase"] == "evaluation" and record["name"] == "after" for record in records)


def evaluations(example: Path, seed: int, out: Path) -> tuple[list[dict[str, Any]], int] | None:
    """The evaluations alone of `records_of`; None if the run has not ended."""
    records, cpu = records_of(example, seed, out)
    if not has_ended(records):
        print(f"the run of seed {seed} in {out} has not ended: left out")
        return None
    return [record for record in records if record["phase"] == "evaluation"], cpu


def changed(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a config with changes: a section keeps the fields that its change does not name."""
    return {
        **values,
        **{
            name: changed(values[name], new)
            if isinstance(new, Mapping) and isinstance(values.get(name), Mapping)
            else new
            for name, new in changes.items()
        },
    }


def sentences_of(
    env: TextEnv, levels: int, tasks: int = 8, met: int = 3, *, with_lines: bool = False
) -> tuple[str, ...]:
    """What a tiny policy may read and write as one token each, for `model.words`: actions, sentences and words.

    Those that stand in ``met`` or more of the expert's episodes on ``tasks`` training tasks of each level.

    Args:
        levels: from 1 up to this one.
        with_lines: whole lines as well, such as a row of a board, and what is said of an action out of place.
    """

    def pieces_of(text: str) -> set[str]:
        return {*_pieces(text), *(line for line in text.split("\n") if with_lines and line.strip())}

    episodes, spoken = Counter[str](), list[str]()
    for level in range(1, levels + 1):
        for index in range(tasks):
            where = {"index": index, "level": level} | ({"split": "train"} if env.size is None else {})
            text, _ = env.reset(seed=0, options=where)
            pieces, over = pieces_of(text), False
            while not over:
                if with_lines and spoken:  # another task's last action is mostly illegal here
                    text, _, terminated, truncated, _ = env.fork().step(spoken[-1])
                    pieces |= pieces_of(text)
                action = env.solve()
                text, _, terminated, truncated, _ = env.step(action)
                pieces |= {action} | pieces_of(text)
                over = terminated or truncated
            spoken.append(action)
            episodes.update(pieces)
    return tuple(sorted(piece for piece, count in episodes.items() if count >= met and piece.isascii()))


def _pieces(text: str) -> list[str]:
    """Sentences of two words or more, and words: a row of a board is no sentence, and is read cell by cell."""
    sentences = [sentence for sentence in re.split(r"\n|(?<=[.:;!?]) ", text) if re.search(r"[a-z]{2}.* ", sentence)]
    return [*sentences, *re.findall(r"[A-Za-z]{2,}", text)]
