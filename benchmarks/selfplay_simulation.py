"""Recipes of self-play tried in seconds: the real policy and optimiser, and a game that is played in arrays.

    python benchmarks/selfplay_simulation.py --seeds 0 1 2 3                       # examples/kuhn_selfplay.yaml
    python benchmarks/selfplay_simulation.py --config my.yaml --out my.json        # another recipe

A training run spends most of its time in text: environments, conversations, sampling. Here the model is asked once a
step for its next-token probabilities at every information state of the game, a batch of matches is drawn from these,
and the loss of the config (rloo with a k2 KL) is taken at the tokens that were drawn. The warm start is the trainer's
own. The chance of the matches is another one than in a run, so that a seed's curve is not that of its run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rlvr.agents.models.tiny import load_policy
from rlvr.agents.players.text_policy import conversations
from rlvr.agents.rendering import Renderer
from rlvr.algorithms.config import TrainConfig, load_config, read_yaml
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.learner.optimiser import Optimiser, schedule
from rlvr.algorithms.train.run import Trainer
from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.exploitability import exploitability
from rlvr.envs.players.game import CHANCE, Referee

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from whole_runs import Silent

ROOT = Path(__file__).resolve().parent.parent
OVER, DRAW, MOVE = 0, 1, 2  # kinds of nodes
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Matches(NamedTuple):
    """A batch of matches: reward [B] of the trained seat, and of each of its moves the match, state and move, [M]."""

    rewards: Floats
    match: Ints
    state: Ints
    move: Ints  # -1: no legal move


class Tree:
    """A game as arrays: nodes [N], information states [I] with at most A legal moves, a row of tokens for each move."""

    def __init__(self, name: str, renderer: Renderer) -> None:
        self.game = make_game(name)
        asked = conversations(Referee(self.game, 1), system=False, brief=True)
        self.index = {(where.seat, where.view): at for at, where in enumerate(asked)}
        rows: list[list[int]] = []
        self.first: list[int] = []  # [I], the row of a state's first move
        self.tokens = np.full((len(asked), max(len(where.legal) for where in asked)), -1)  # [I, A]
        self.rows = self.tokens.copy()  # [I, A]
        for at, (where, messages) in enumerate(asked.items()):
            self.first.append(len(rows))
            for move, text in enumerate(where.legal):
                reply = {"role": "assistant", "content": f"\\boxed{{{text}}}"}
                ids, mask = renderer.render_demonstration([*messages, reply])  # type: ignore[list-item]
                begin = len(mask) - mask[::-1].index(0)
                if len(ids) - begin != 2:
                    raise ValueError(f"{text!r} and its end are {len(ids) - begin} tokens: make each move one word")
                self.tokens[at, move], self.end = ids[begin], ids[begin + 1]
                self.rows[at, move] = len(rows)
                rows.append(ids[: begin + 1])
        self.last = torch.tensor([len(row) - 1 for row in rows])  # [R], where the move stands
        self.ids = torch.zeros(len(rows), int(self.last.max()) + 1, dtype=torch.long)  # [R, L]
        for at, row in enumerate(rows):
            self.ids[at, : len(row)] = torch.tensor(row)
        self.nodes: list[tuple[int, int, int, list[int], list[float], tuple[float, ...]]] = []
        self._add(self.game.start())
        kinds, seats, states, children, odds, returns = zip(*self.nodes, strict=True)
        widest = max(map(len, children))
        self.kind, self.seat, self.state = np.array(kinds), np.array(seats), np.array(states)
        self.child = np.array([[*row, *[-1] * (widest - len(row))] for row in children])  # [N, W]
        self.odds = np.array([[*row, *[0.0] * (widest - len(row))] for row in odds])  # [N, W], of chance
        self.returns = np.array(returns)  # [N, seats]

    def _add(self, state: Any) -> int:
        game, at = self.game, len(self.nodes)
        actors = game.actors(state)
        if not actors:
            self.nodes.append((OVER, -1, -1, [], [], game.returns(state)))
            return at
        nothing = (0.0,) * game.seats
        children: list[int] = []
        if actors == (CHANCE,):
            draws = game.chance(state)
            self.nodes.append((DRAW, -1, -1, children, [share for _, share in draws], nothing))
            children += [self._add(game.apply(state, CHANCE, move)) for move, _ in draws]
        else:
            (seat,) = actors
            self.nodes.append((MOVE, seat, self.index[seat, game.view(state, seat)], children, [], nothing))
            children += [self._add(game.apply(state, seat, move)) for move in game.legal(state, seat)]
        return at

    def logprobs(self, model: Any, rows: torch.Tensor | None = None) -> torch.Tensor:
        """[R, 2, V] of the token after the prompt, and of the token after the move."""
        ids, last = (self.ids, self.last) if rows is None else (self.ids[rows], self.last[rows])
        hidden = model.model(input_ids=ids[:, : int(last.max()) + 1], use_cache=False).last_hidden_state
        at = torch.arange(len(ids))
        both = torch.stack([hidden[at, last - 1], hidden[at, last]], 1)
        return torch.log_softmax(model.lm_head(both).float(), -1)

    def shares(self, logprobs: torch.Tensor) -> Floats:
        """[I, A] probabilities of the legal moves; what is missing to 1 is other texts."""
        first = logprobs[self.first, 0].exp().double().numpy()
        return np.where(self.tokens >= 0, np.take_along_axis(first, np.maximum(self.tokens, 0), 1), 0.0)

    def exploitability(self, shares: Floats) -> float:
        """Of the shares, made to add up to 1."""

        def policy(view: Any, seat: int, legal: Any) -> dict[str, float]:
            probabilities = shares[self.index[seat, view]][: len(legal)]
            return dict(zip(legal, probabilities / probabilities.sum(), strict=True))

        return exploitability(self.game, policy).value


def play(tree: Tree, shares: Floats, rng: np.random.Generator, groups: int, size: int) -> Matches:
    """Matches of the policy against itself; the members of a group have the same chance and the same trained seat."""
    count = groups * size
    seat = np.repeat(rng.integers(0, tree.game.seats, groups), size)
    chance = np.repeat(rng.random((groups, tree.game.decisions)), size, 0)
    drawn, node = np.zeros(count, int), np.zeros(count, int)
    rewards, live = np.zeros(count), np.ones(count, bool)
    low, high = tree.game.lowest, tree.game.highest
    cumulated, odds = shares.cumsum(1), tree.odds.cumsum(1)
    moves: list[tuple[Ints, Ints, Ints]] = []
    while live.any():
        now = np.flatnonzero(live)
        kind = tree.kind[node[now]]
        ended, drawing, moving = now[kind == OVER], now[kind == DRAW], now[kind == MOVE]
        rewards[ended] = (tree.returns[node[ended], seat[ended]] - low) / (high - low)
        live[ended] = False
        ways = (tree.child[node[drawing]] >= 0).sum(1)
        draw = (chance[drawing, drawn[drawing]][:, None] > odds[node[drawing]]).sum(1)
        drawn[drawing] += 1
        state = tree.state[node[moving]]
        move = (rng.random(len(moving))[:, None] >= cumulated[state]).sum(1)
        bad, is_own = move == shares.shape[1], tree.seat[node[moving]] == seat[moving]
        moves.append((moving[is_own], state[is_own], np.where(bad, -1, move)[is_own]))
        rewards[moving[bad]] = np.where(is_own[bad], 0.0, 1.0)  # an illegal move forfeits the match
        live[moving[bad]] = False
        node[drawing] = tree.child[node[drawing], np.minimum(draw, ways - 1)]
        node[moving[~bad]] = tree.child[node[moving[~bad]], move[~bad]]
    match, state, move = (np.concatenate(parts) for parts in zip(*moves, strict=True))
    return Matches(rewards, match, state, move)


def advantages(played: Matches, groups: int, size: int) -> Floats:
    """[B] R - mean of the others of the group that moved (RLOO, 2402.14740); 0 for those that did not."""
    moved = np.zeros(groups * size, bool)
    moved[played.match] = True
    moved_in, rewards = moved.reshape(groups, size), played.rewards.reshape(groups, size)
    others = moved_in.sum(1, keepdims=True) - 1
    baseline = ((rewards * moved_in).sum(1, keepdims=True) - rewards) / np.maximum(others, 1)
    values: Floats = np.where(moved_in & (others > 0), rewards - baseline, 0.0).reshape(-1)
    return values


def drawn_tokens(tree: Tree, played: Matches, logprobs: torch.Tensor, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """[M] the first token of each move, and the second where the first is legal, drawn as the policy would."""
    probabilities = logprobs.exp().double().numpy()
    first = np.where(played.move >= 0, tree.tokens[played.state, np.maximum(played.move, 0)], -1)
    for at in np.flatnonzero(played.move < 0):
        state = played.state[at]
        left = probabilities[tree.first[state], 0].copy()
        left[tree.tokens[state][tree.tokens[state] >= 0]] = 0
        first[at] = rng.choice(len(left), p=left / left.sum())
    second = np.full(len(first), tree.end)
    rows = tree.rows[played.state, np.maximum(played.move, 0)]
    other = (played.move >= 0) & (rng.random(len(first)) >= probabilities[rows, 1, tree.end])
    for at in np.flatnonzero(other):
        left = probabilities[rows[at], 1].copy()
        left[tree.end] = 0
        second[at] = rng.choice(len(left), p=left / left.sum())
    return first, second


def loss_of(
    tree: Tree,
    model: Any,
    played: Matches,
    tokens: tuple[Ints, Ints],
    reference: torch.Tensor,
    weights: Floats,
    kl_coef: float,
) -> torch.Tensor:
    """The policy gradient's loss and the k2 KL, summed over tokens, the mean over matches that moved."""
    legal = played.move >= 0
    row_of = [np.array(tree.first)[played.state], tree.rows[played.state, np.maximum(played.move, 0)][legal]]
    tokens_of, weights_of = [tokens[0], tokens[1][legal]], [weights, weights[legal]]
    used = np.unique(np.concatenate(row_of))
    scores = tree.logprobs(model, torch.tensor(used))  # [U, 2, V]
    count = len(np.unique(played.match))
    loss = torch.zeros(())
    for at in (0, 1):
        new = scores[np.searchsorted(used, row_of[at]), at, tokens_of[at]]  # [M]
        gap = new - reference[row_of[at], at, tokens_of[at]]
        # L = -1/N sum A log pi + c (log pi - log ref)^2 / 2
        loss = loss + (-torch.tensor(weights_of[at]).float() * new + kl_coef * gap.square() / 2).sum() / count
    return loss


def simulate(config: TrainConfig, work: Path, every: int) -> dict[str, Any]:
    """The curve of one seed: exploitability of the policy as it is evaluated, and the share of the scored texts."""
    start = time.process_time()
    model, tokenizer = load_policy(warm_start(config, work))
    tree = Tree(config.env.id.removeprefix("rlvr/").partition("-")[0], Renderer(tokenizer))
    settings, rng = config.learner, np.random.default_rng(config.seed + 1000)
    learner = Learner(model, config.preset(), pad_id=0, max_length=config.sampling.max_length, ema=settings.ema)
    rate = schedule(settings.lr, settings.warmup_steps, config.steps, settings.schedule == "linear")
    optimiser = Optimiser(model.parameters(), rate, betas=settings.betas, max_grad_norm=settings.max_grad_norm)
    learner.begin_average()
    reference, curve = torch.zeros(()), []
    for step in range(config.steps + 1):
        with torch.no_grad():
            logprobs = tree.logprobs(model)
            if step == 0 or (settings.reference_every and step % settings.reference_every == 0):
                reference = logprobs
            if step % every == 0 or step == config.steps:
                with learner.averaged():
                    shares = tree.shares(tree.logprobs(model))
                mass = float(shares.sum(1).mean())
                curve.append(
                    {"step": step, "exploitability": round(tree.exploitability(shares), 4), "mass": round(mass, 4)}
                )
        if step == config.steps:
            break
        learner.anneal_kl(step / max(1, config.steps - 1), config.preset().kl_coef, settings.kl_coef_end)
        played = play(tree, tree.shares(logprobs), rng, config.prompts, config.group_size)
        weights = advantages(played, config.prompts, config.group_size)[played.match]
        tokens = drawn_tokens(tree, played, logprobs, rng)
        optimiser.backward(loss_of(tree, model, played, tokens, reference, weights, learner.preset.kl_coef))
        optimiser.step()
        learner.update_average()
    return {"curve": curve, "cpu_seconds": round(time.process_time() - start, 1)}


def warm_start(config: TrainConfig, work: Path) -> Path:
    """The policy after the trainer's own warm start with the config's seed, made if its folder is not there."""
    out = work / f"{config.env.id.removeprefix('rlvr/').partition('-')[0]}-warm-{config.seed}"
    if not (out / "policy").exists():
        values = config.model_dump() | {"steps": 0, "out": out, "evaluation": {"episodes": 1}}
        values["learner"] |= {"kl_coef_end": None, "ema": 0.0}
        Trainer(load_config(values), Silent()).run()
    return out / "policy"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--config", type=Path, default=ROOT / "examples" / "kuhn_selfplay.yaml")
    parser.add_argument("--seeds", type=int, nargs="+", default=range(10))
    parser.add_argument("--work", type=Path, default=Path("runs/selfplay"), help="folder of the warm starts")
    parser.add_argument("--out", type=Path, help="file of the results")
    parser.add_argument("--every", type=int, default=50, help="steps between points of a curve")
    options = parser.parse_args()
    values, runs = read_yaml(options.config), {}
    for seed in options.seeds:
        runs[str(seed)] = simulate(load_config({**values, "seed": seed}), options.work, options.every)
        print(seed, runs[str(seed)]["curve"][-1], f"{runs[str(seed)]['cpu_seconds']} CPU-s", flush=True)
        if options.out:
            last = {name: run["curve"][-1]["exploitability"] for name, run in runs.items()}
            options.out.write_text(json.dumps({"last": last, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
