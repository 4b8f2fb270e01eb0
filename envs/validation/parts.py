"""Parts of solutions: one is not paid as the whole is, and is paid something where the texts promise it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import gymnasium as gym
import numpy as np

from rlvr.envs.rewards.extraction import extract
from rlvr.envs.validation.context import Skip, Validation, check
from rlvr.envs.validation.report import CheckResult
from rlvr.envs.validation.sound import SOUND  # whose checks are run before those here
from rlvr.envs.validation.subject import MAX_TURNS, NotApplicable, ValidationEpisode

_SHARE: Final = (
    r"(?:\b(?:an?|one)[ -](?:half|third|quarter|fourth|fifth|sixth|seventh|eighth|ninth|tenth|equal (?:share|part))\b"
    r"|(?<![\w.])0?\.\d+|\b1/\d+|\b\d+ ?(?:%|percent)|\b\d+ (?:of|out of) \d+|\b(?:half|a|one) (?:a )?points?\b)"
)
AMOUNT: Final = re.compile(
    rf"\b(?:each|every)\b[^.\n]{{0,80}}\b(?:earns?|worth|gives?|adds?|scores?|pays?|gets?|counts?)\b[^.\n]{{0,20}}{_SHARE}"
    rf"|{_SHARE}[^.\n]{{0,30}}\b(?:for|per) (?:each|every)\b"
    r"|\b(?:reward|score|points?|credit|grade|paid)\b[^.\n]{0,40}\b(?:proportional(?:ly)? to|in proportion to"
    r"|the (?:share|fraction|proportion|percentage) of|for each|per correct)\b",
    re.I,
)  # a promise with its amount
PARTIAL: Final = re.compile(
    r"partial credit|partial reward|per test|points? (?:for|per) each"
    r"|(?:fraction|proportion|share) of (?:\w+ ){0,2}(?:tests|cases|points?|credit|reward|score)",
    re.I,
)
ALL_OR_NOTHING: Final = re.compile(
    r"no partial credit|all[- ]or[- ]nothing|binary reward|either 0 or 1|exactly 0 or 1|only if (?:all|every)", re.I
)


class ListedAnswer(NamedTuple):
    """A reply taken apart: its items, and what stood between them."""

    items: tuple[str, ...]
    separator: str

    def with_items(self, items: list[str]) -> str:
        """The reply with other items."""
        return self.separator.join(items)


def items_of(text: str) -> ListedAnswer | None:
    """The items of a reply that lists some; None where it is a single one."""
    for separator in ("\n", ";", ",", " ") if text[:1] not in ("{", "[") else ():
        items = text.split(separator)
        if len(items) > 1 and all(item.strip() for item in items):
            return ListedAnswer(tuple(items), separator)
    return None


def parts_of(actions: list[str]) -> Iterator[list[str]]:
    """Parts of a solution: one of its actions, or an item of its last one, left out or wrong."""
    for index in range(min(len(actions) - 1, 6)):
        yield actions[:index] + actions[index + 1 :]
        yield [*actions[:index], spoiled(actions[index]), *actions[index + 1 :]]
    taken = items_of(actions[-1]) if actions else None
    for index in range(min(len(taken.items), 6) if taken else 0):
        assert taken is not None
        before, after = list(taken.items[:index]), list(taken.items[index + 1 :])
        yield [*actions[:-1], taken.with_items(before + after)]
        yield [*actions[:-1], taken.with_items([*before, spoiled(taken.items[index]), *after])]


def spoiled(item: str) -> str:
    """An item that is wrong: other digits, or other letters where it has none."""
    if re.search(r"\d", item):
        return re.sub(r"\d(?=\D*$)", lambda match: str((int(match[0]) + 5) % 10), item)
    return re.sub(r"\w+(?=\W*$)", lambda match: match[0][::-1] + "q", item)


@check(
    "sound.graded",
    SOUND,
    "A reward is graded where the task says so, and only there.",
    severity="medium",
    remedy="Say in the prompt what is paid for parts of the work, and pay so.",
)
def graded(v: Validation, result: CheckResult) -> None:
    """Compare what the texts say of partial credit with what half-done work is paid."""
    if not v.solved:
        raise Skip("no solution is known to take parts from")
    texts = _documented(v)
    says_binary = ALL_OR_NOTHING.search(texts)
    amount = None if says_binary else AMOUNT.search(texts)
    # What is vague counts where the policy reads it.
    says_partial = None if says_binary else amount or PARTIAL.search(v.solved[0].asked)
    between, tried = [], 0
    for episode in v.solved[:6]:
        for part in parts_of(episode.actions):
            try:
                played = v.plays(episode.ref, part)
            except NotApplicable:
                continue
            tried += 1
            if v.paid(played) and not v.full(played):
                between.append(played)
    if says_partial and not between:  # a reward that comes at the end is paid to no part that ends before it
        strays = [_gone_astray(v, episode) for episode in v.solved[:6] if len(episode.actions) > 1]
        tried += len(strays)
        between += [played for played in strays if v.paid(played) and not v.full(played)]
    result.tries = tried
    result.measured |= {"half-done": tried, "paid in part": len(between)}
    if says_binary and between:
        text = f"the texts say {says_binary[0]!r}, and a part of a solution is paid {between[0].total:g}"
        result.add("binary", text, severity="high", replay=between[0].replay)
    elif says_partial and not between and tried >= 6:
        text = f"the texts say {says_partial[0]!r}, and none of {tried} parts of solutions is paid but 0 or all"
        result.add("partial", text, severity="high" if amount else "medium", replay=v.solved[0].replay)


def _gone_astray(v: Validation, episode: ValidationEpisode) -> ValidationEpisode:
    """The first half of a solution, and random play from there to the end."""
    rng, half = np.random.default_rng(5), episode.actions[: len(episode.actions) // 2]

    def policy(env: gym.Env[Any, Any], played: ValidationEpisode) -> str:
        turn = len(played.actions)
        return half[turn] if turn < len(half) else v.subject.sampled(env, played, rng)

    return v.plays(episode.ref, policy, turns=max(MAX_TURNS, 2 * len(episode.actions)))


def _documented(v: Validation) -> str:
    """What is said of the reward: by the class, its metadata and the prompt."""
    bare: Any = v.subject.env.unwrapped
    rewarded_by = bare.task if v.subject.text_env is not None else bare
    return "\n".join(map(str, (type(rewarded_by).__doc__ or "", getattr(bare, "metadata", {}), v.solved[0].asked)))


@check(
    "sound.parts",
    SOUND,
    "No item of an answer is paid as the whole answer, and none is left unread.",
    remedy="Go through the items that are asked for, not through those of the reply.",
)
def unread(v: Validation, result: CheckResult) -> None:
    """Give each item of a solution alone, and the whole with one item wrong."""
    solved = [(episode, items_of(episode.actions[-1])) for episode in v.solved if len(episode.actions) == 1][:6]
    lists = [(episode, taken) for episode, taken in solved if taken and taken.separator != " "]
    if len(lists) < 2:
        raise Skip("answers are no lists")
    alone = [_paid_items(v, result, episode, taken, alone=True) for episode, taken in lists]
    if all(len(each) >= 2 for each in alone):
        played = alone[0][0][1]
        text = f"an item alone, {played.actions[0][:60]!r}, is paid {played.total:g} as the whole answer is"
        _add(v, result, "an item alone", text, played)
        return
    # Where the last item alone is the answer, those before it explain.
    if any(index == len(taken.items) - 1 for each, (_, taken) in zip(alone, lists, strict=True) for index, _ in each):
        return
    wrong = [_paid_items(v, result, episode, taken, alone=False) for episode, taken in lists]
    unread_ones = set.intersection(*({index for index, _ in each} for each in wrong))
    if unread_ones and all(_are_alike(taken.items) for _, taken in lists):
        index, played = next(each for each in wrong[0] if each[0] in unread_ones)
        text = f"item {index + 1} is wrong in {played.actions[0][:60]!r}, which is paid {played.total:g}"
        _add(v, result, "a wrong item", text, played)


def _paid_items(
    v: Validation, result: CheckResult, episode: ValidationEpisode, taken: ListedAnswer, alone: bool
) -> list[tuple[int, ValidationEpisode]]:
    """The items that are paid in full alone, or in whose place another may stand.

    A line that holds the answer of the last one is no item: it states the whole answer.
    """
    hits, whole = [], extract(taken.items[-1]).answer if taken.separator == "\n" else None
    for index, item in enumerate(taken.items[:8]):
        if whole and whole in item and index < len(taken.items) - 1:
            continue
        items = [item] if alone else [*taken.items[:index], _wrong(item), *taken.items[index + 1 :]]
        played = v.plays(episode.ref, [taken.with_items(items)])
        result.tries += 1
        if v.full(played):
            hits.append((index, played))
    return hits


def _wrong(item: str) -> str:
    """An item that no rule can take for right: every digit is another, or no word is left."""
    if re.search(r"\d", item):
        return re.sub(r"\d", lambda match: str((int(match[0]) + 5) % 10), item)
    return "zzz"


def _are_alike(items: tuple[str, ...]) -> bool:
    """Whether all items are of one shape, as no explanation and its result are."""
    shapes = {re.sub(r"\d+", "0", re.sub(r"[^\W\d]+", "a", item.strip())) for item in items}
    return len(shapes) == 1


def _add(v: Validation, result: CheckResult, name: str, text: str, played: ValidationEpisode) -> None:
    if v.shown(played, v.full):
        result.add(name, text, replay=played.replay)
