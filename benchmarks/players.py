"""Games of several seats: moves and resets per CPU-second, and what an arena of eight bots costs.

    python benchmarks/players.py [--rounds 3] [--seconds 0.5] [--out FOLDER]

A move is a text that a referee reads, checks and plays, with the observation of the seat that moves next; both seats
write random legal moves. An episode is one of the single-agent environment, its opponent random. The arena is a round
robin in TicTacToeDuel, 200 matches a pair, every seat as often.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

import gymnasium as gym

import rlvr  # noqa: F401
from rlvr.agents.players.arena import Arena, bot_entrant
from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.game import Referee

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

GAMES = ("TicTacToeDuel", "ConnectFourDuel", "KuhnPoker", "LeducPoker", "NimDuel", "Othello", "Hex", "LiarsDiceTable")
BOTS = ("random", "first", "expert", "mixed:0.25", "mixed:0.5", "mixed:0.75", "minimax:1", "minimax:2")


def moves(name: str, seconds: float, seed: int) -> float:
    """Moves per CPU-second."""
    referee, rng, count, matches = Referee(make_game(name)), random.Random(seed), 0, 0
    began = time.process_time()
    while time.process_time() - began < seconds:
        match = referee.begin(f"{seed} {matches}")
        matches += 1
        while movers := referee.to_move(match):
            referee.observe(match, movers[0])
            match = referee.act(match, movers[0], rng.choice(referee.legal(match, movers[0])))
            count += 1
    return count / (time.process_time() - began)


def episodes(name: str, seconds: float, seed: int) -> float:
    """Whole episodes of the single-agent environment per CPU-second."""
    env = gym.make(f"rlvr/{name}-v0", level=1).unwrapped
    rng, count = random.Random(seed), 0
    env.reset(seed=seed)
    began = time.process_time()
    while time.process_time() - began < seconds:
        env.reset()
        done = False
        while not done:
            _, _, terminated, truncated, _ = env.step(env.sample_action(rng))  # type: ignore[attr-defined]
            done = terminated or truncated
        count += 1
    return count / (time.process_time() - began)


def arena(seed: int) -> float:
    """CPU-seconds of a round robin of eight bots, 200 matches a pair."""
    began = time.process_time()
    matches = list(
        Arena(Referee(make_game("TicTacToeDuel")), {n: bot_entrant(n) for n in BOTS}, matches=200, seed=seed).play()
    )
    assert len(matches) == 28 * 200
    assert all(each.score is not None for each in matches)
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="CPU-seconds for each figure of a round")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    moves_table = Table("Moves", "moves per CPU-second, reading and observing included", "TicTacToeDuel")
    played = Table("Episodes", "episodes of one seat per CPU-second, reset included", "TicTacToeDuel")
    cost = Table("Arena", "CPU-seconds of 28 pairs of bots x 200 matches of TicTacToeDuel", "eight bots")
    for seed in range(options.rounds):
        for name in GAMES:
            moves_table.add(name, moves(name, options.seconds, seed))
            played.add(name, episodes(name, options.seconds, seed))
        cost.add("eight bots", arena(seed))
    write_results("players", [moves_table, played, cost], {}, options.out)


if __name__ == "__main__":
    main()
