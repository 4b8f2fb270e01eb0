"""What the viewer shows of a token is what `rlvr explain` prints of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlvr.algorithms.config import load_config
from rlvr.algorithms.runs.explain import explain
from rlvr.algorithms.runs.run_folder import decoder
from rlvr.algorithms.runs.token_columns import env_settings, token_columns
from rlvr.algorithms.train.run import Trainer

from .runs import Callback, small


@pytest.fixture(scope="module")
def runs(answerer: tuple[dict, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("columns")
    env, policy = answerer
    for name in ("grpo", "gspo", "tis", "reinforce"):
        changes = {"model": {"name": str(policy)}, "env": env, "warm_start": {"steps": 0, "mixed_steps": 0}}
        changes |= {"selection": {"filters": []}, "learner": {"lr": 3e-3, "minibatches": 2}, "prompts": 6}
        Trainer(small(folder / name, algorithm=name, steps=1, **changes), Callback()).run()
    return {path.name: path for path in folder.iterdir()}


def records(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "episodes" / "train-000001.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grpo", "gspo", "tis", "reinforce"])
def test_ratio_clip_and_correction_are_those_that_explain_prints(runs: dict[str, Path], name: str):
    run = runs[name]
    noted = [(n, r) for n, r in enumerate(records(run)) if any(r["training"].get("weights", ()))]
    assert noted
    for number, record in noted:
        columns = token_columns(run, record)
        table = [line.split() for line in explain(run, f"train-000001:{number}").splitlines()]
        rows = [[row[0], *row[2:8]] for row in table if len(row) > 8 and row[0].isdigit()]
        assert [int(row[0]) for row in rows] == [t for t, on in enumerate(record["tokens"]["mask"]) if on]
        for position, _, ratio, clipped, correction, *_ in rows:
            t = int(position)
            assert ("ratio" in columns) == (ratio != "-")
            assert ratio == "-" or f"{columns['ratio'][t]:.4f}" == ratio
            assert {"-": 0, "low": -1, "high": 1}[clipped] == columns["clip"][t]
            assert ("correction" in columns) == (correction != "-")
            assert correction == "-" or f"{columns['correction'][t]:.4g}" == correction
        assert all(len(column) == len(record["tokens"]["ids"]) for column in columns.values())


@pytest.mark.slow
@pytest.mark.parametrize("overrides", [{"entropy_share": 0.3}, {"entropy_coef": 0.01}], ids=str)
def test_the_entropy_is_noted_where_a_step_computes_it(answerer: tuple[dict, Path], tmp_path: Path, overrides: dict):
    env, policy = answerer
    changes = {"model": {"name": str(policy)}, "env": env, "warm_start": {"steps": 0, "mixed_steps": 0}}
    Trainer(small(tmp_path / "run", steps=1, overrides=overrides, prompts=6, **changes), Callback()).run()
    noted = [record["training"] for record in records(tmp_path / "run") if "entropy" in record["training"]]
    assert noted
    entropies = [entropy for training in noted for entropy in training["entropy"]]
    assert 0 < max(entropies) < 10
    weighed = [(w, e) for training in noted for w, e in zip(training["weights"], training["entropy"], strict=True)]
    assert all(entropy > 0 for weight, entropy in weighed if weight)
    if "entropy_share" in overrides:  # the tokens that were chosen are those of the highest entropy
        chosen = [on for training in noted for on in training["uncertain"]]
        assert min(e for e, on in zip(entropies, chosen, strict=True) if on) >= max(
            e for e, on in zip(entropies, chosen, strict=True) if not on
        )


def test_the_texts_of_tokens_are_those_of_the_runs_tokenizer(runs: dict[str, Path]):
    run = runs["grpo"]
    decode = decoder(run)
    assert decode is not None
    record = records(run)[0]
    texts = decode(record["tokens"]["ids"])
    assert len(texts) == len(record["tokens"]["ids"])
    assert record["turns"][0]["observation"] in "".join(texts)
    assert decode([10**9, -1]) == ["", ""]
    (run / "policy" / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match="is no tokenizer"):
        decoder(run)


def test_nothing_is_shown_of_an_episode_that_was_not_trained_on(runs: dict[str, Path]):
    record = records(runs["grpo"])[0]
    assert token_columns(runs["grpo"], record | {"training": {}}) == {}
    assert env_settings(runs["grpo"]) == load_config(runs["grpo"] / "config.yaml").env.settings
