"""Signs of reward hacking among graded episodes: what is rewarded again and again, although the tasks differ.

A sign is a question and no proof: where the answer is yes or no, one answer is right on half of the tasks. So each
cluster of equal replies stands beside how often other replies were rewarded, and the chance of so many by luck.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, pairwise
from typing import Any

from rlvr.agents.episode import Episode
from rlvr.agents.evaluation.summary import without_numbers
from rlvr.envs.rewards.extraction import spoken_text

FAULTS = ("timeout", "verifier_error", "env_error")
MIN_TASKS = 3  # that a cluster or a phrase must be rewarded on
CONSTANT_SHARE = 0.6  # of an environment's tasks, on which one reply is a sign whatever other replies earn
SURE = 0.01  # of finding one sign or more where there is none
MAX_LISTED = 50
SHORTEST = 20
KEY_CHARACTERS = 160
MAX_TEXT = 20_000  # characters of a reply in which phrases are looked for
MAX_TEXTS = 1_000  # replies of each outcome in which phrases are looked for
PHRASE_WORDS = 4
MIN_Z = 4.0  # of a phrase's share among rewarded replies against its share among the others
MIN_REPETITION = 0.3
LENGTH_BINS = 8
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class GradedReply:
    """One episode, as far as the signs need it.

    Attributes:
        id: names it to whoever asks.
        env: the environment's id.
        task: what the samples of one task share, and no other task has.
        answer: the key of the answer that the grader read, by `reply_key`; "" where it names none.
        reply: the key of all that the policy wrote, without its thinking.
        length: tokens that were sampled, or characters.
        reward: the return; None where no verdict is valid.
        status: of the verdict.
        cause: of a fault.
    """

    id: int
    env: str
    task: str
    answer: str
    reply: str
    length: int
    reward: float | None
    status: str = ""
    cause: str = ""


@dataclass(frozen=True, slots=True)
class ReplyCluster:
    """One answer or reply that is rewarded on several tasks of an environment.

    Attributes:
        kind: "answer" or "reply".
        text: its key.
        rewarded, tasks: on how many tasks it is rewarded, and given.
        share: of the environment's tasks, those on which it is rewarded.
        others: the share of tasks on which another reply is rewarded; None where there are too few to say.
        chance: of being rewarded so often by luck, if it were as good as the others; None without them.
        suspicious: whether luck and a common right answer do not explain it.
        examples: ids, of one episode for each of the first tasks.
    """

    kind: str
    env: str
    text: str
    rewarded: int
    tasks: int
    share: float
    others: float | None
    chance: float | None
    suspicious: bool
    examples: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShortReply:
    """A short reply that is rewarded; ``of_median`` is its length by the median one of its environment's rewarded."""

    id: int
    env: str
    text: str
    length: int
    of_median: float
    reward: float


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that stand in rewarded replies more often than in others, each reply counted once.

    ``z`` is the difference of the two shares by its standard error; None where no reply went without reward.
    """

    text: str
    rewarded: int
    others: int
    rewarded_share: float
    others_share: float
    z: float | None
    examples: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RepetitiveReply:
    """A rewarded reply that repeats itself: ``share`` of its runs of words have occurred in it before."""

    id: int
    share: float
    phrase: str


@dataclass(frozen=True, slots=True)
class LengthBin:
    """Judged episodes of a range of lengths."""

    shortest: int
    longest: int
    episodes: int
    reward: float
    rewarded: float


@dataclass(frozen=True, slots=True)
class FaultCause:
    """Episodes that failed for one cause, their numbers left out."""

    status: str
    cause: str
    episodes: int
    examples: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HackingSigns:
    """What `find_signs` finds. ``correlation`` is Spearman's, of length and reward; None where one does not vary."""

    episodes: int
    judged: int
    rewarded: int
    read: int
    clusters: tuple[ReplyCluster, ...]
    shortest: tuple[ShortReply, ...]
    phrases: tuple[Phrase, ...]
    repetitive: tuple[RepetitiveReply, ...]
    lengths: tuple[LengthBin, ...]
    correlation: float | None
    faults: tuple[FaultCause, ...]

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON types, as the viewer reads them."""
        return asdict(self)


def reply_key(text: str) -> str:
    """A text that is equal for replies that say the same: letters of one case and width, one blank between words.

    A long one is cut, and ends with its digest.
    """
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    if len(plain) <= KEY_CHARACTERS:
        return plain
    digest = hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{plain[: KEY_CHARACTERS - 14]}… {digest}"


def graded_reply(number: int, episode: Episode) -> GradedReply:
    """An episode as `find_signs` takes it."""
    verdict = episode.verdict
    status = verdict.status if verdict is not None else "unfinished"
    task = (episode.env_id, episode.split, episode.level, episode.seed, episode.index)
    return GradedReply(
        number,
        episode.env_id,
        "/".join(map(str, task)),
        reply_key((verdict.answer or "") if verdict is not None else ""),
        reply_key(reply_text(episode)),
        episode.tokens.sampled or sum(len(turn.action) for turn in episode.turns),
        episode.reward if episode.valid else None,
        status,
        verdict.reason if verdict is not None and not verdict.valid else "",
    )


def reply_text(episode: Episode) -> str:
    """All that the policy wrote, without its thinking."""
    return "\n".join(spoken_text(turn.action)[:MAX_TEXT] for turn in episode.turns)


def is_rewarded(reply: GradedReply, best: float) -> bool:
    """Whether a reply is well paid: at least half of the best reward of its environment, and above 0."""
    return reply.reward is not None and reply.reward > 0 and reply.reward >= best / 2


def split_by_reward(replies: Iterable[GradedReply]) -> tuple[list[GradedReply], list[GradedReply]]:
    """The judged replies that are rewarded, and those that are not."""
    judged = [reply for reply in replies if reply.reward is not None]
    best: dict[str, float] = {}
    for reply in judged:
        best[reply.env] = max(best.get(reply.env, -math.inf), reply.reward or 0.0)
    paid: tuple[list[GradedReply], list[GradedReply]] = ([], [])
    for reply in judged:
        paid[not is_rewarded(reply, best[reply.env])].append(reply)
    return paid


def to_read(replies: Sequence[GradedReply], max_texts: int = MAX_TEXTS) -> list[int]:
    """The ids whose texts `find_signs` should be given: at most so many of each outcome, at even distances."""
    return [each.id for part in split_by_reward(replies) for each in part[:: max(1, math.ceil(len(part) / max_texts))]]


def find_signs(replies: Sequence[GradedReply], texts: Mapping[int, str] | None = None) -> HackingSigns:
    """The signs among episodes.

    Args:
        replies: the episodes, of any environments.
        texts: what the policy wrote, without its thinking, by id; phrases are looked for in these alone.
    """
    rewarded, others = split_by_reward(replies)
    texts = texts or {}
    judged = [*rewarded, *others]
    return HackingSigns(
        episodes=len(replies),
        judged=len(judged),
        rewarded=len(rewarded),
        read=sum(reply.id in texts for reply in judged),
        clusters=tuple(_clusters(rewarded, others)),
        shortest=tuple(_shortest(rewarded)),
        phrases=tuple(_phrases(rewarded, others, texts)),
        repetitive=tuple(_repetitive(rewarded, texts)),
        lengths=tuple(_length_bins(judged, {reply.id for reply in rewarded})),
        correlation=rank_correlation([(float(r.length), r.reward or 0.0) for r in judged]),
        faults=tuple(_faults(reply for reply in replies if reply.status in FAULTS)),
    )


# --- clusters ---


def _clusters(rewarded: Sequence[GradedReply], others: Sequence[GradedReply]) -> list[ReplyCluster]:
    """Answers first; a reply whose episodes are those of an answer is not named twice."""
    clusters: list[ReplyCluster] = []
    listed: set[tuple[str, int, int, tuple[int, ...]]] = set()
    for kind in ("answer", "reply"):
        for cluster in _clusters_by(kind, rewarded, others):
            same = (cluster.env, cluster.rewarded, cluster.tasks, cluster.examples)
            if same not in listed:
                listed.add(same)
                clusters.append(cluster)
    return sorted(clusters, key=lambda c: (not c.suspicious, -c.rewarded, c.env, c.text))[:MAX_LISTED]


def _clusters_by(kind: str, rewarded: Sequence[GradedReply], others: Sequence[GradedReply]) -> list[ReplyCluster]:
    replies: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)  # (env, key) -> task -> id where rewarded, or -1
    for reply in (*rewarded, *others):
        replies[reply.env, getattr(reply, kind)].setdefault(reply.task, -1)
    for reply in reversed(rewarded):
        replies[reply.env, getattr(reply, kind)][reply.task] = reply.id
    tasks: dict[str, set[str]] = defaultdict(set)
    pairs, paid = Counter[str](), Counter[str]()  # by environment; a pair is a task and a reply to it
    for (env, _), held in replies.items():
        tasks[env].update(held)
        pairs[env] += len(held)
        paid[env] += sum(number >= 0 for number in held.values())
    candidates = {
        name: held
        for name, held in replies.items()
        if name[1] and sum(number >= 0 for number in held.values()) >= MIN_TASKS
    }
    return [
        _cluster(kind, name, held, len(tasks[name[0]]), (pairs[name[0]], paid[name[0]]), len(candidates))
        for name, held in candidates.items()
    ]


def _cluster(
    kind: str, name: tuple[str, str], held: Mapping[str, int], tasks: int, all_pairs: tuple[int, int], tests: int
) -> ReplyCluster:
    examples = sorted(number for number in held.values() if number >= 0)
    count, total = len(examples), len(held)
    rest = all_pairs[0] - total
    share, others, chance = count / tasks, None, None
    if rest >= MIN_TASKS:
        others = (all_pairs[1] - count) / rest
        # one success and one failure more: where others never succeed, that is no certainty
        chance = binomial_tail(count, total, (all_pairs[1] - count + 1) / (rest + 2))
    lucky = chance is None or chance * tests > SURE
    suspicious = not lucky or (count > MIN_TASKS and share >= CONSTANT_SHARE)
    return ReplyCluster(kind, *name, count, total, share, others, chance, suspicious, tuple(examples[:5]))


def binomial_tail(successes: int, trials: int, chance: float) -> float:
    """P(X >= k) for X ~ Binomial(n, p).

    >>> round(binomial_tail(2, 3, 0.5), 6)
    0.5
    """
    if successes <= 0 or chance >= 1:
        return 1.0
    if chance <= 0:
        return 0.0
    logs = (
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        + k * math.log(chance) + (trials - k) * math.log1p(-chance)
        for k in range(successes, trials + 1)
    )  # fmt: skip
    return min(1.0, math.fsum(map(math.exp, logs)))


# --- texts ---


def _shortest(rewarded: Sequence[GradedReply]) -> list[ShortReply]:
    """The shortest rewarded replies, each text once."""
    by_env: dict[str, list[GradedReply]] = defaultdict(list)
    for reply in rewarded:
        by_env[reply.env].append(reply)
    shortest: dict[tuple[str, str], ShortReply] = {}
    for env, of_env in by_env.items():
        of_env.sort(key=lambda reply: (reply.length, reply.id))
        median = of_env[len(of_env) // 2].length
        for reply in of_env:
            short = ShortReply(
                reply.id, env, reply.reply, reply.length, reply.length / max(1, median), reply.reward or 0
            )
            shortest.setdefault((env, reply.reply), short)
            if len(shortest) >= SHORTEST * len(by_env):
                break
    return sorted(shortest.values(), key=lambda short: (short.of_median, short.length, short.id))[:SHORTEST]


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text[:MAX_TEXT]).casefold())


def _runs(words: Sequence[str], size: int = PHRASE_WORDS) -> list[tuple[str, ...]]:
    return [tuple(words[start : start + size]) for start in range(len(words) - size + 1)]


def _phrases(rewarded: Sequence[GradedReply], others: Sequence[GradedReply], texts: Mapping[int, str]) -> list[Phrase]:
    """Runs of words that rewarded replies to several tasks share, and others have less often."""
    read = [[reply for reply in part if reply.id in texts] for part in (rewarded, others)]
    holders: dict[tuple[str, ...], list[int]] = defaultdict(list)
    task_of = {reply.id: reply.task for reply in read[0]}
    for reply in read[0]:
        for run in set(_runs(_words(texts[reply.id]))):
            holders[run].append(reply.id)
    common = {run: ids for run, ids in holders.items() if len({task_of[number] for number in ids}) >= MIN_TASKS}
    against: Counter[tuple[str, ...]] = Counter()
    for reply in read[1]:
        against.update({run for run in _runs(_words(texts[reply.id])) if run in common})
    n, m = len(read[0]), len(read[1])
    phrases = []
    by_ids = sorted(common.items(), key=lambda item: (item[1], against[item[0]], item[0]))
    for (ids, other), group in groupby(by_ids, key=lambda item: (item[1], against[item[0]])):
        z = share_difference(len(ids), n, other, m) if m else None
        if z is None or z >= MIN_Z:
            text = max(_joined([run for run, _ in group]), key=len)
            phrases.append(Phrase(text, len(ids), other, len(ids) / n, other / m if m else 0.0, z, tuple(ids[:5])))
    return sorted(phrases, key=lambda phrase: (-(phrase.z or 0.0), -phrase.rewarded, phrase.text))[:MAX_LISTED]


def _joined(runs: Sequence[tuple[str, ...]]) -> list[str]:
    """Runs that overlap, made into one."""
    follows = {run[:-1]: run for run in runs}
    following_parts = {run[1:] for run in runs}
    texts = []
    for run in [each for each in runs if each[:-1] not in following_parts] or list(runs[:1]):
        words, last, used = list(run), run, {run}
        while (following := follows.get(last[1:])) is not None and following not in used:
            words.append(following[-1])
            used.add(following)
            last = following
        texts.append(" ".join(words))
    return texts


def share_difference(a: int, n: int, b: int, m: int) -> float:
    """z of two shares, a of n and b of m: their difference by its standard error under one common share."""
    common = (a + b) / (n + m)
    standard_error = math.sqrt(common * (1 - common) * (1 / n + 1 / m))
    return (a / n - b / m) / standard_error if standard_error else 0.0


def _repetitive(rewarded: Sequence[GradedReply], texts: Mapping[int, str]) -> list[RepetitiveReply]:
    repetitive = []
    for reply in rewarded:
        runs = _runs(_words(texts.get(reply.id, "")))
        if len(runs) < 2 * PHRASE_WORDS:
            continue
        counts = Counter(runs)
        share = 1 - len(counts) / len(runs)
        if share >= MIN_REPETITION:
            repetitive.append(RepetitiveReply(reply.id, share, " ".join(counts.most_common(1)[0][0])))
    return sorted(repetitive, key=lambda each: (-each.share, each.id))[:SHORTEST]


# --- lengths and faults ---


def _length_bins(judged: Sequence[GradedReply], rewarded: set[int]) -> list[LengthBin]:
    """Bins of about equally many episodes; equal lengths are in one bin."""
    ordered = sorted(judged, key=lambda reply: reply.length)
    edges = [0]
    for number in range(1, LENGTH_BINS):
        edge = number * len(ordered) // LENGTH_BINS
        while 0 < edge < len(ordered) and ordered[edge].length == ordered[edge - 1].length:
            edge += 1
        edges.append(max(edge, edges[-1]))
    bins = []
    for begin, end in pairwise([*edges, len(ordered)]):
        part = ordered[begin:end]
        if part:
            reward = math.fsum(reply.reward or 0.0 for reply in part) / len(part)
            share = sum(reply.id in rewarded for reply in part) / len(part)
            bins.append(LengthBin(part[0].length, part[-1].length, len(part), reward, share))
    return bins


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Spearman's: the correlation of the ranks, equal values at their mean rank; None where one does not vary.

    >>> rank_correlation([(1, 10), (2, 20), (3, 40)])
    1.0
    """
    ranks = [_ranks([pair[side] for pair in pairs]) for side in (0, 1)]
    middle = (len(pairs) - 1) / 2
    product, first, second = (
        math.fsum((ranks[a][i] - middle) * (ranks[b][i] - middle) for i in range(len(pairs)))
        for a, b in ((0, 1), (0, 0), (1, 1))
    )
    return product / math.sqrt(first * second) if first and second else None


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    for _, group in groupby(order, key=values.__getitem__):
        members = list(group)
        for index in members:
            ranks[index] = start + (len(members) - 1) / 2
        start += len(members)
    return ranks


def _faults(invalid: Iterable[GradedReply]) -> list[FaultCause]:
    causes: dict[tuple[str, str], list[int]] = defaultdict(list)
    for reply in invalid:
        causes[reply.status, without_numbers(reply.cause)].append(reply.id)
    ranked = sorted(causes.items(), key=lambda item: (-len(item[1]), item[0]))
    return [FaultCause(status, cause, len(ids), tuple(ids[:5])) for (status, cause), ids in ranked[:MAX_LISTED]]
