"""Old paths of the agents' modules, and of the functions that moved to the learner, work for one version and warn."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import rlvr.agents

MOVED = {
    **dict.fromkeys(
        ("calls", "decoding", "kv_cache", "openai", "sampling", "tiny", "token_agent", "transformers", "vllm"), "models"
    ),
    **dict.fromkeys(("active_episode", "env_calls", "episode_loop"), "driver"),
}
SCORING = {
    "token_budget_batches": "data.batch",
    "score_hidden": "train.head",
    "score_logits": "train.head",
    "SequenceScores": "train.head",
    "has_plain_head": "train.scoring",
    "score_sequences": "train.scoring",
    "sequence_logprobs": "train.scoring",
}


@pytest.mark.parametrize("name", MOVED)
def test_an_old_path_gives_the_module_itself_and_warns(name, monkeypatch):
    new = importlib.import_module(f"rlvr.agents.{MOVED[name]}.{name}")
    monkeypatch.delitem(sys.modules, f"rlvr.agents.{name}", raising=False)
    with pytest.warns(DeprecationWarning, match=rf"agents\.{name} is now called rlvr\.agents\.{MOVED[name]}\.{name}"):
        assert importlib.import_module(f"rlvr.agents.{name}") is new


@pytest.mark.parametrize("name", SCORING)
def test_a_function_that_moved_to_the_learner_is_found_and_warns(name):
    sampling = importlib.import_module("rlvr.agents.models.sampling")
    home = importlib.import_module(f"rlvr.algorithms.{SCORING[name]}")
    with pytest.warns(DeprecationWarning, match=rf"is now called {home.__name__}\.{name}"):
        assert getattr(sampling, name) is getattr(home, name)


def test_what_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError, match="nothing"):
        importlib.import_module("rlvr.agents.nothing")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = importlib.import_module("rlvr.agents.models.sampling").nothing


def test_no_folder_of_the_room_holds_more_than_fifteen_files():
    for folder in {path.parent for path in Path(rlvr.agents.__file__).parent.rglob("*.py")}:
        assert len(list(folder.glob("*.py"))) <= 15, folder
