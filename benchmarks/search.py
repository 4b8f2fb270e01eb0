"""Search by forks beside the policy alone, and beside whole episodes until one succeeds, for as many turns.

    python benchmarks/search.py    # measures, and writes the table of docs/agents.md

The policy plays the expert's action in a share of its turns and a random well-formed action in the others. Each turn
that it plays counts, those of playouts too.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlvr.agents.conversation import Conversation, Reply
from rlvr.agents.episode import RolloutRequest
from rlvr.agents.rollout import Rollout
from rlvr.agents.scripted import ExpertAgent, RandomAgent
from rlvr.agents.search import SearchAgent
from rlvr.envs.core.seeding import stream

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "search.json"
PAGE = ROOT / "docs" / "agents.md"
MARKS = ("<!-- figures: benchmarks/search.py -->", "<!-- end of figures -->")
SHARE, TASKS, SIMULATIONS = 0.3, 40, 16
LEVELS = {
    "rlvr/GuessNumber-v0": 3, "rlvr/FrozenLake-v0": 2, "rlvr/WaterJugs-v0": 1, "rlvr/WordLadder-v0": 3,
    "rlvr/LightsOutGame-v0": 3, "rlvr/HanoiGame-v0": 1, "rlvr/RushHour-v0": 2, "rlvr/Mastermind-v0": 2,
}  # fmt: skip


class Mixture(ExpertAgent):
    """The expert's action in a share of the turns, else a random well-formed one; counts the turns."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share, self.turns, self.random = share, 0, RandomAgent()

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """One reply to each conversation, in order."""
        self.turns += len(conversations)
        return [Reply(self._one(conversation)) for conversation in conversations]

    def _one(self, conversation: Conversation) -> str:
        rng: random.Random = stream("mixture", conversation.key, len(conversation.messages))
        return self._action(conversation) if rng.random() < self.share else self.random._action(conversation)


def measure(env_id: str, level: int) -> dict[str, Any]:
    """Successes of the policy alone, of search, and of whole episodes until one succeeds for as many turns."""
    tasks = [RolloutRequest(seed=0, index=index, level=level) for index in range(TASKS)]
    alone, searching, several = (Mixture(SHARE) for _ in range(3))
    once = [episode.success for episode in Rollout(env_id, alone, timeout=None)(tasks)]
    agent = SearchAgent(searching, SIMULATIONS, timeout=None)
    found = [episode.success for episode in Rollout(env_id, agent, timeout=None)(tasks)]
    left, tries, rollout = tasks, 0, Rollout(env_id, several, timeout=None)
    while left and several.turns < searching.turns:
        episodes = rollout([replace(task, sample=tries) for task in left])
        left = [task for task, episode in zip(left, episodes, strict=True) if not episode.success]
        tries += 1
    return {
        "level": level, "alone": sum(once), "search": sum(found), "whole": TASKS - len(left), "episodes": tries,
        "turns": [round(each.turns / TASKS, 1) for each in (alone, searching, several)],
    }  # fmt: skip


def row(env_id: str, of_id: dict[str, Any]) -> str:
    shares = [f"{of_id[name] / TASKS:.2f}" for name in ("alone", "search", "whole")]
    turns = [f"{count:g}" for count in of_id["turns"]]
    cells = [
        f"`{env_id}`",
        of_id["level"],
        *(f"{a} ({b})" for a, b in zip(shares, turns, strict=True)),
        of_id["episodes"],
    ]
    return f"| {' | '.join(map(str, cells))} |"


def main() -> int:
    results = {env_id: measure(env_id, level) for env_id, level in LEVELS.items()}
    settings = {"share": SHARE, "tasks": TASKS, "simulations": SIMULATIONS}
    RESULTS.write_text(
        json.dumps({"command": "python benchmarks/search.py", **settings, "ids": results}, indent=1) + "\n"
    )
    lines = [
        "| id | level | policy alone (turns) | search (turns) | whole episodes (turns) | at most |",
        "|---|---|---|---|---|---|",
        *(row(env_id, of_id) for env_id, of_id in results.items()),
    ]
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    PAGE.write_text(
        "\n".join([before + MARKS[0], "", *lines, "", MARKS[1] + rest.partition(MARKS[1])[2]]), encoding="utf-8"
    )
    print(*lines, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
