"""A run goes on with the rows that it began with, and with no others."""

from __future__ import annotations

import json
import shutil

import pytest

from rlvr.agents.evaluation import read_episodes
from rlvr.algorithms.config import ConfigError
from rlvr.algorithms.sampling.env_source import require_same_tasks
from rlvr.cli import main

CONFIG = """
env: {{id: rlvr/Dataset-v0, system: false, settings: {{data_files: {rows}, grader: number}}}}
model: {{name: rlvr/tiny, hidden: 32, layers: 1}}
sampling: {{max_new_tokens: 6, max_length: 96}}
selection: {{filters: []}}
evaluation: {{episodes: 2}}
checkpoint_every: 1
episodes_every: 1
steps: 1
prompts: 2
group_size: 2
"""


def write(folder, offset=0, splits=("train", "test")):
    for split in splits:
        rows = [{"question": f"What is {i} plus {offset}? ({split})", "answer": i + offset} for i in range(6)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.mark.slow
def test_a_run_is_not_resumed_on_other_rows_of_either_split(tmp_path, capsys):
    write(tmp_path)
    (tmp_path / "c.yaml").write_text(CONFIG.format(rows=tmp_path), encoding="utf-8")
    began = tmp_path / "run"
    assert main(["train", "--config", str(tmp_path / "c.yaml"), "--out", str(began)]) == 0
    started = json.loads((began / "provenance.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert {*started["env_digests"]} == {"train", "evaluation"}
    for name, digest in (("train-000001", "train"), ("evaluation-after-greedy", "evaluation")):
        episodes = read_episodes(began / "episodes" / f"{name}.jsonl")
        assert {episode.env_digest for episode in episodes} == {started["env_digests"][digest]}
    for split, name in (("train", "train"), ("test", "evaluation")):
        write(tmp_path, 50, (split,))
        run = shutil.copytree(began, tmp_path / split)
        assert main(["train", "--resume", "--out", str(run), "--steps", "2"]) == 2
        assert f"environment of {name} has changed: it was played on other rows" in capsys.readouterr().err
        assert (run / "metrics.jsonl").read_bytes() == (began / "metrics.jsonl").read_bytes()
        write(tmp_path)
    assert main(["train", "--resume", "--out", str(began), "--steps", "2"]) == 0


def test_other_code_is_said_and_a_checkpoint_without_digests_too():
    lines = []
    digests = {"train": "rows=1 settings=2 code=3", "evaluation": "rows=4 settings=2 code=3"}
    require_same_tasks(digests, digests, lines.append)
    assert lines == []
    require_same_tasks(None, digests, lines.append)
    require_same_tasks(
        digests, {name: text.replace("code=3", "code=9") for name, text in digests.items()}, lines.append
    )
    assert ["digest unknown" in lines[0], "code of the environment has changed" in lines[1], len(lines)] == [
        True
    ] * 2 + [2]
    for part in ("rows=1", "settings=2"):
        with pytest.raises(ConfigError, match="has changed"):
            require_same_tasks(digests, {**digests, "train": digests["train"].replace(part, f"{part}0")}, lines.append)
