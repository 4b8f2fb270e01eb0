"""`rlvr explain RUN EPISODE`: the way of one episode from its verdict to the gradient, with the numbers of the run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvr.agents.episode import Episode
from rlvr.agents.evaluation import read_episodes
from rlvr.agents.scripted import printable
from rlvr.algorithms.config import TrainConfig, load_config
from rlvr.algorithms.core.inputs import LossInputs
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.core.sequences import Denominators
from rlvr.algorithms.losses.policy import PolicyTerms, policy_loss, policy_terms
from rlvr.algorithms.recipe.all_algorithms import ALGORITHMS
from rlvr.algorithms.recipe.loss_parts import AGGREGATIONS
from rlvr.algorithms.recipe.presets import Preset
from rlvr.algorithms.runs.run_folder import decoder


class ExplainError(ValueError):
    """There is no such episode, or the run kept too little of it."""


def explain(run: Path, which: str) -> str:
    """Verdict, shaping, group, advantage, mask, ratio, clip, correction and weight of one training episode.

    Args:
        run: the folder of a run.
        which: FILE:NUMBER, such as ``train-000010:3`` (from 0), a number in the last training file, or a key.

    Raises:
        ExplainError: there is no such run, file or episode.
    """
    if not (run / "config.yaml").is_file():
        raise ExplainError(f"{run} holds no run: it has no config.yaml")
    config = load_config(run / "config.yaml")
    episode, others, name = find(run, which)
    lines = [f"{name}: {episode.key}", *_verdict(episode)]
    noted = episode.training
    if not noted:
        return "\n".join([*lines, "training     nothing is noted: it is of an evaluation, or of an older run"])
    if "dropped" in noted:
        return "\n".join([*lines, f"dropped      {noted['dropped']}: it has no part in the update"])
    lines += _shaping(episode)
    algorithm = ALGORITHMS[config.algorithm]
    if isinstance(algorithm, Preset):
        lines += _group(episode, others)
        lines += _policy(run, config, episode)
    else:
        lines += [f"learned from {algorithm.learns_from}", f"loss         {algorithm.formula}"]
        weights = noted.get("weights")
        lines += ["weight       it was not chosen"] if weights is None else [f"weight       {max(weights):.6g} a token"]
        lines += _plain_table(run, episode)
    return "\n".join(lines)


def find(run: Path, which: str) -> tuple[Episode, list[Episode], str]:
    """The episode, all of its file, and its name as FILE:NUMBER.

    Raises:
        ExplainError: says which files or how many episodes there are.
    """
    files = sorted((run / "episodes").glob("train-*.jsonl"))
    if not files:
        raise ExplainError(f"{run} has no training episodes: `episodes_every` says how often they are kept")
    stem, colon, number = which.rpartition(":")
    if colon and number.isdigit() and "/" not in stem:
        chosen = [file for file in files if file.stem == stem]
        if not chosen:
            raise ExplainError(f"{run} has no {stem}; there are {', '.join(file.stem for file in files)}")
    elif which.isdigit():
        chosen, number = files[-1:], which
    else:
        return _by_key(files, which)
    episodes = read_episodes(chosen[0])
    if int(number) >= len(episodes):
        raise ExplainError(f"{chosen[0].stem} has {len(episodes)} episodes, numbered from 0")
    return episodes[int(number)], episodes, f"{chosen[0].stem}:{number}"


def _by_key(files: Sequence[Path], key: str) -> tuple[Episode, list[Episode], str]:
    for file in files:
        episodes = read_episodes(file)
        for number, episode in enumerate(episodes):
            if episode.key == key:
                return episode, episodes, f"{file.stem}:{number}"
    raise ExplainError(f"no training episode has the key {key!r}: give FILE:NUMBER, such as {files[-1].stem}:0")


def _verdict(episode: Episode) -> Iterator[str]:
    verdict = episode.verdict
    if verdict is None:
        yield "verdict      none: it is not over"
        return
    yield f"verdict      {verdict.status}, reward {verdict.reward:g}: {printable(verdict.reason)}"
    if verdict.parts:
        yield "parts        " + ", ".join(f"{printable(name)} {value:g}" for name, value in verdict.parts.items())
    if len(episode.turns) > 1:
        yield "turns        " + " + ".join(f"{turn.reward:g}" for turn in episode.turns) + f" = {episode.reward:g}"


def _shaping(episode: Episode) -> Iterator[str]:
    shaped = episode.training.get("shaped_reward", episode.reward)
    yield f"shaping      {episode.reward:g} + {shaped - episode.reward:g} = {shaped:g}"
    if "masked" in episode.training:
        yield f"masked       {episode.training['masked']}: no token is trained on; its reward counts in the group"


def _group(episode: Episode, others: Sequence[Episode]) -> Iterator[str]:
    rewards = [  # [G], with shaping, as the advantage saw them
        other.training["shaped_reward"]
        for other in others
        if other.group == episode.group and "shaped_reward" in other.training and "dropped" not in other.training
    ]
    if not rewards:
        return
    mean = sum(rewards) / len(rewards)  # [], as in `Groups`
    # s = sqrt(sum_i (R_i - mean)^2 / (G - 1))                       []  as in `Groups`
    std = (sum((reward - mean) ** 2 for reward in rewards) / max(1, len(rewards) - 1)) ** 0.5
    listed = ", ".join(f"{reward:g}" for reward in rewards)
    yield f"group        {episode.group}: rewards {listed}; mean {mean:.4g}, std {std:.4g}"


def _policy(run: Path, config: TrainConfig, episode: Episode) -> Iterator[str]:
    preset, noted, tokens = config.preset(), episode.training, episode.tokens
    advantages = noted.get("advantages")
    if advantages is None:
        yield "advantage    not noted: the run kept no numbers of this step"
        return
    values = advantages if isinstance(advantages, list) else [advantages] * len(tokens)  # [T]
    trained = [value for value, mask in zip(values, tokens.mask, strict=True) if mask]  # [n]
    shown = f"{trained[0]:.6g}" if len(set(trained)) == 1 else f"{min(trained):.6g} to {max(trained):.6g}"
    yield f"advantage    A = {preset.estimator.formula} = {shown}   ({preset.estimator.source})"
    yield f"mask         {tokens.sampled} of {len(tokens)} tokens were sampled; the others have no loss"
    if "logprobs" not in noted:
        yield "weight       0 on every token: its advantage is 0, and nothing else in the loss acts on it"
        yield from _plain_table(run, episode)
        return
    if preset.divergence != "sampled":
        yield f"loss         {preset.formula}   ({preset.arxiv})"
        yield "weight       of no token alone: each place has the gradient of all the tokens that it compares"
        yield from _plain_table(run, episode)
        return
    inputs, new, denominators = rebuilt(preset, episode)
    parts = policy_terms(new, inputs, preset)
    yield f"loss         {preset.formula}   ({preset.arxiv})"
    yield f"divided by   {AGGREGATIONS[preset.aggregation].formula}: {_counts(denominators)}"
    yield from _table(run, episode, parts, preset)


def rebuilt(preset: Preset, episode: Episode) -> tuple[LossInputs, Tensor, Denominators]:
    """The loss's entries [1, T] of one episode, its log-probs [1, T] at the update, and the batch's denominators."""
    noted, tokens = episode.training, episode.tokens
    advantages = torch.tensor(noted["advantages"], dtype=torch.float64)
    mask = torch.tensor([tokens.mask], dtype=torch.bool)
    if "masked" in noted:
        mask = torch.zeros_like(mask)
    columns: dict[str, Any] = {name: _row(noted[name]) for name in ("old_logprobs", "ref_logprobs") if name in noted}
    columns |= {name: torch.tensor([noted[name]]) for name in ("uncertain", "covariant") if name in noted}
    inputs = LossInputs(
        mask=mask,
        advantages=advantages[None],
        behaviour_logprobs=_row(tokens.logprobs),
        entropy=torch.zeros(mask.shape, dtype=torch.float64) if preset.entropy_coef else None,
        group=torch.tensor([episode.group]),
        **columns,
    )
    plain = dict(noted["denominators"])
    group = {int(name): count for name, count in plain.pop("prompt_tokens").items()}
    prompts, live = plain.pop("n_prompts"), plain.pop("n_live_prompts")
    # Only the group's own tokens were kept; the other prompts are there to be counted.
    rest = {-1 - n: int(n < live - len(group)) for n in range(prompts - len(group))}
    return inputs, _row(noted["logprobs"]), Denominators(**plain, prompt_tokens={**group, **rest})


def recomputed_weights(preset: Preset, episode: Episode) -> list[float]:
    """-dL/dlog pi of every token, from what the file holds: it must agree with the weights that were noted."""
    inputs, new, denominators = rebuilt(preset, episode)
    new.requires_grad_()
    loss, _ = policy_loss(new, inputs, preset, denominators)
    (gradient,) = torch.autograd.grad(loss, new)
    weights: list[float] = (0.0 - gradient[0]).tolist()  # 0.0 - x: a plain minus writes -0.0
    return weights


def _row(column: Sequence[float]) -> Tensor:
    return torch.tensor([list(column)], dtype=torch.float64)


def _counts(n: Denominators) -> str:
    text = f"{n.n_tokens} tokens, {n.n_sequences} sequences, {n.n_prompts} prompts"
    return text if n.max_length is None else f"{text}, max_length {n.max_length:g}"


def _table(run: Path, episode: Episode, parts: PolicyTerms, preset: Preset) -> Iterator[str]:
    """A line for each trained token."""
    terms, clipped, weights = parts.terms, parts.clipped, episode.training["weights"]
    ratio = terms.log_ratio.exp()  # [1, T]
    per_token = clipped.low.shape == ratio.shape
    lines = {}
    for t in terms.sequences.mask[0].nonzero()[:, 0].tolist():
        at = (0, t) if per_token else (0,)  # a loss per sequence is held as a whole
        held = [name for name, side in (("low", clipped.low), ("high", clipped.high)) if bool(side[at])]
        if parts.weight is None:
            correction = "-"
        else:
            correction = f"{float(parts.weight[0, t] if parts.weight.dim() == 2 else parts.weight[0]):.4g}"
        shown = "-" if preset.ratio_level == "none" else f"{float(ratio[0, t]):.4f}"
        lines[t] = (
            f"{float(terms.new[0, t]):>8.4f}  {shown:>8}  {held[0] if held else '-':>7}  {correction:>10}"
            f"  {float(terms.advantages[0, t]):>8.4f}  {weights[t]:>13.6g}"
        )
    yield from _with_texts(run, episode, "  log pi     ratio  clipped  correction         A         weight", lines)


def _plain_table(run: Path, episode: Episode) -> Iterator[str]:
    """A line for each sampled token, with the log-probability that it was sampled with."""
    tokens = episode.tokens
    lines = {t: f"{tokens.logprobs[t]:>8.4f}" for t, sampled in enumerate(tokens.mask) if sampled}
    yield from _with_texts(run, episode, "  log pi", lines)


def _with_texts(run: Path, episode: Episode, head: str, lines: Mapping[int, str]) -> Iterator[str]:
    """The lines of these tokens, between the turn (from 0) and the text, or the id where no tokenizer is there."""
    ids = [episode.tokens.ids[t] for t in lines]
    decode = decoder(run)
    texts = [f"id {number}" for number in ids] if decode is None else [json.dumps(text) for text in decode(ids)]
    ends = [turn.end for turn in episode.turns]
    yield f"position  turn  {head}  token"
    for (t, line), text in zip(lines.items(), texts, strict=True):
        turn = next((index for index, end in enumerate(ends) if end > t), len(ends) - 1)
        yield f"{t:>8}  {turn:>4}  {line}  {text}"
