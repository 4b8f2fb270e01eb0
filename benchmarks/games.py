"""Games beside GEM's of the same name: turns per CPU-second, resets included.

    python benchmarks/games.py --gem PYTHON [--rounds 3] [--seconds 0.3] [--out FOLDER]

PYTHON is an interpreter that has GEM (``pip install gem-llm`` into an environment of its own). Each side first plays
random legal-looking actions and records them; then the recorded episodes, resets with their seeds included, are played
again until the time is over, and only that is measured. Rounds alternate. A game is as long as random play makes it:
Minesweeper's end at the first mine, after three turns, so that most of its figure is what a board costs; ours can be
opened without a guess, GEM's are drawn and not looked at.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym

import rlvr  # noqa: F401
from rlvr.envs import TextEnv
from rlvr.envs.games.lexicon import words

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

# Our id and level, GEM's name, and GEM's settings that make it as large.
GAMES = {
    "Wordle": ("rlvr/Wordle-v0", 3, "game:Wordle-v0-hard", {}),
    "Hangman": ("rlvr/Hangman-v0", 3, "game:Hangman-v0-hard", {}),
    "Mastermind": ("rlvr/Mastermind-v0", 3, "game:Mastermind-v0-hard", {}),
    "15-puzzle": ("rlvr/SlidingPuzzle-v0", 5, "game:FifteenPuzzle-v0-hard", {}),
    "2048": ("rlvr/Game2048-v0", 5, "game:Game2048-v0-hard", {}),
    "Hanoi": ("rlvr/HanoiGame-v0", 2, "game:TowerofHanoi-v0-easy", {}),
    "Minesweeper, small": ("rlvr/Minesweeper-v0", 1, "game:Minesweeper-v0-easy", {}),
    "Minesweeper, large": ("rlvr/Minesweeper-v0", 5, "game:Minesweeper-v0-hard", {"rows": 9, "cols": 9}),
}
EPISODES = 12
WORDS = [word for length in range(4, 9) for word in words(length)]  # NLTK's list, which GEM loads from the network
GEM = """
import contextlib, io, json, sys, time
out, sys.stdout = sys.stdout, io.StringIO()
import nltk.corpus
nltk.download = lambda *_, **__: True
nltk.corpus.words = type("Words", (), {"words": staticmethod(lambda *_: sys.argv[1].split())})
import gem, random
HANOI = [f"\\\\boxed{{{a} {b}}}" for a, b in ("AC", "AB", "CB", "AC", "BA", "BC", "AC", "CA") * 8]  # it draws none

def record(name, settings, episodes):
    env, played = gem.make(name, **settings), []
    for seed in range(episodes):
        random.seed(seed)
        env.reset(seed=seed)
        actions, over = [], False
        while not over and len(actions) < 60:
            actions.append(HANOI[len(actions)] if "Hanoi" in name else env.sample_random_action())
            _, _, terminated, truncated, _ = env.step(actions[-1])
            over = terminated or truncated
        played.append((seed, actions))
    return env, played

games = {}
for line in sys.stdin:
    name, settings, episodes, seconds = json.loads(line)
    if name not in games:
        games[name] = record(name, settings, episodes)
    env, played = games[name]
    count, began = 0, time.process_time()
    while time.process_time() - began < seconds:
        for seed, actions in played:
            env.reset(seed=seed)
            for action in actions:
                env.step(action)
            count += len(actions)
    print(count / (time.process_time() - began), file=out, flush=True)
"""


def ours(env_id: str, level: int, seconds: float) -> float:
    env = gym.make(env_id, level=level, disable_env_checker=True).unwrapped
    assert isinstance(env, TextEnv)
    played: list[tuple[int, list[str]]] = []
    for seed in range(EPISODES):
        rng = random.Random(seed)
        env.reset(seed=seed)
        actions, over = [], False
        while not over and len(actions) < 60:
            actions.append(env.sample_action(rng))
            _, _, terminated, truncated, _ = env.step(actions[-1])
            over = terminated or truncated
        played.append((seed, actions))
    count, began = 0, time.process_time()
    while time.process_time() - began < seconds:
        for seed, actions in played:
            env.reset(seed=seed)
            for action in actions:
                env.step(action)
            count += len(actions)
    return count / (time.process_time() - began)


def theirs(gem: subprocess.Popen[str], name: str, settings: dict[str, int], seconds: float) -> float:
    assert gem.stdin is not None
    assert gem.stdout is not None
    print(json.dumps([name, settings, EPISODES, seconds]), file=gem.stdin, flush=True)
    return float(gem.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gem", metavar="PYTHON", required=True, help="an interpreter that has GEM")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3, help="CPU-seconds for each figure of a round")
    parser.add_argument("--only", default="", help="only games that contain this text")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    unit = "turns per CPU-second, resets included"
    games = {title: game for title, game in GAMES.items() if options.only in title}
    tables = {title: Table(f"{title}: {name}, level {level}, and {peer}", unit, name)
              for title, (name, level, peer, _) in games.items()}  # fmt: skip
    command = [options.gem, "-c", GEM, " ".join(WORDS)]
    gem = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for _ in range(options.rounds):
        for title, (name, level, peer, settings) in games.items():
            tables[title].add(name, ours(name, level, options.seconds))
            tables[title].add(f"{peer} (GEM)", theirs(gem, peer, settings, options.seconds))
    gem.terminate()
    gem.wait()
    write_results("games", list(tables.values()), {}, options.out)


if __name__ == "__main__":
    main()
