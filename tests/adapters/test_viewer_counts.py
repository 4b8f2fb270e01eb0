"""The viewer counts what `rlvr eval` counts: replies that were cut or flawed, and actions that were not understood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.adapters.viewer.export import exported
from rlvr.adapters.viewer.index import EpisodeIndex
from rlvr.adapters.viewer.pages import Pages
from rlvr.adapters.viewer.queries import listing, reply_counts
from rlvr.adapters.viewer.sources import find_sources
from rlvr.agents import summarise
from rlvr.agents.conversation import FLAWS
from rlvr.agents.episode import Episode, Turn
from rlvr.envs.core.verdict import Verdict

VERDICTS = [Verdict(1.0, "correct"), Verdict(0.0, "wrong"), Verdict(0.0, "unparsable"), Verdict(0.0, "env_error")]
TURNS = st.builds(
    Turn,
    st.just("What?"),
    st.just("user"),
    st.sampled_from(["", "an answer", "<think>hm</think>so"]),
    st.sampled_from(["stop", "length", "context", "error", "pause"]),
    st.just(0.0),
    st.none() | st.sampled_from(VERDICTS),
    flaw=st.sampled_from(["", *FLAWS]),
)


def episode(number: int, turns: list[Turn]) -> Episode:
    made = Episode("rlvr/Countdown-v0", f"key/{number}", seed=number, split="test" if number % 2 else "train")
    made.turns, made.verdict, made.terminated = turns, turns[-1].verdict, True
    return made


def shown(folder: Path, records: list[dict[str, Any]]) -> EpisodeIndex:
    path = folder / "episodes.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    index = EpisodeIndex(find_sources([path]), folder / "index")
    index.update()
    return index


def counted(episodes: list[Episode]) -> dict[str, Any]:
    result = summarise(episodes)
    return {"replies": result.replies, "cut": result.cut, "unread": result.unread, "flaws": result.flaws}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(TURNS, min_size=1, max_size=3), min_size=1, max_size=6))
def test_counts_are_those_of_an_evaluation(tmp_path_factory: pytest.TempPathFactory, played: list[list[Turn]]) -> None:
    episodes = [episode(number, turns) for number, turns in enumerate(played)]
    index = shown(tmp_path_factory.mktemp("viewer"), [each.to_dict() for each in episodes])
    try:
        assert listing(index.reader, {})["replies"] == counted(episodes)
        assert listing(index.reader, {"split": "test"})["replies"] == counted(episodes[1::2])
        assert "replies" not in listing(index.reader, {"offset": "1"})
        rows = exported(Pages(index), 100)["rows"]
        assert sum(row["cut"] for row in rows) == counted(episodes)["cut"]
        assert sorted(" ".join(row["flaws"] for row in rows).split()) == sorted(
            name for name, count in counted(episodes)["flaws"].items() for _ in range(count)
        )
    finally:
        index.close()


def test_a_flaw_that_nobody_knows_is_no_flaw(tmp_path: Path) -> None:
    record = episode(0, [Turn("What?", "user", "so", "stop", flaw="empty")]).to_dict()
    strange = [{**record, "turns": [{**record["turns"][0], "flaw": flaw}]} for flaw in ("<b>", 7, ["empty"], None)]
    index = shown(tmp_path, strange)
    try:
        assert reply_counts(index.reader, {}) == {"replies": 4, "cut": 0, "unread": 0, "flaws": {}}
    finally:
        index.close()
