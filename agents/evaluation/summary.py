"""What episodes amount to, and which of them are invalid, of what cause, and whether in few tasks or in one tool.

An invalid episode enters no mean. So an agent that fares ill on hard tasks looks better for each of them that turns out
invalid; whoever reads a success must see how many were left out, and which.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from rlvr.agents.episode import Episode
from rlvr.agents.evaluation.statistics import pass_all_k, pass_at_k, share_interval, wilson
from rlvr.agents.evaluation.votes import grader_of, majority
from rlvr.envs.core.terminal import as_html
from rlvr.envs.core.verdict import PROVOKED
from rlvr.envs.tools.tool import FAULTY_TOOL

NO_REPLY = ("error", "pause")  # stop reasons of turns that hold no reply
CUT = ("length", "context")  # and of replies that were cut
MAX_CUT = 0.2  # share of replies that may be cut without a warning
MORE_TOKENS = "--max-new-tokens gives them more, in a run's config sampling.max_new_tokens and max_length"
MAX_CAUSES = 5  # that a summary lists
USAGE = (
    "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "model_seconds", "env_seconds", "cost",
)  # fmt: skip
_SECONDS = {"model_seconds": "model", "env_seconds": "environment"}

MAX_SHARE: Final = 0.01  # of invalid episodes, from which on there is a warning
MIN_GATHERED: Final = 3  # invalid episodes, below which nothing is said of where they are
MOST: Final = 0.8  # of the invalid episodes
FEW: Final = 0.2  # of the tasks
MAX_CAUSE: Final = 160  # characters
NO_FAULT: Final = "failed through no fault of the policy"
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InvalidCause:
    """Episodes of one status and one reason, the numbers in the reason left out: invalid ones, or provoked faults."""

    status: str
    cause: str
    episodes: int

    def __str__(self) -> str:
        return f"{self.episodes} {self.status}: {self.cause}"


def without_numbers(reason: str) -> str:
    """A reason on one line with # for each number, so that episodes of one cause have the same."""
    return _NUMBER.sub("#", " ".join(reason.split()))[:MAX_CAUSE]


def invalid_causes(episodes: Iterable[Episode]) -> tuple[InvalidCause, ...]:
    """The causes of the invalid episodes, the commonest first; an episode without a verdict is unfinished."""
    verdicts = (episode.verdict for episode in episodes if not episode.valid)
    counts = Counter((v.status, without_numbers(v.reason)) if v else ("unfinished", "") for v in verdicts)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(InvalidCause(status, cause, count) for (status, cause), count in ranked)


def provoked_causes(episodes: Iterable[Episode]) -> tuple[InvalidCause, ...]:
    """The causes of episodes that got 0 because the environment failed on what the policy wrote; they are valid."""
    verdicts = (episode.verdict for episode in episodes if episode.valid and episode.verdict is not None)
    counts = Counter((v.status, without_numbers(v.reason)) for v in verdicts if PROVOKED in v.reason)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(InvalidCause(status, cause, count) for (status, cause), count in ranked)


def gathered_in(episodes: Sequence[Episode], tasks: Sequence[Hashable]) -> tuple[str, ...]:
    """A sentence for each way in which the invalid episodes gather: in few tasks, or in one tool.

    Few tasks: at most a fifth of them hold four fifths of the invalid episodes, two each at least. One tool: the
    verdicts of half of the invalid episodes name it.

    Args:
        tasks: the task of each episode.
    """
    invalid = [(episode, task) for episode, task in zip(episodes, tasks, strict=True) if not episode.valid]
    if len(invalid) < MIN_GATHERED:
        return ()
    sentences = []
    by_task = [count for _, count in Counter(task for _, task in invalid).most_common()]
    in_all, share = len(set(tasks)), 0
    for few, count in enumerate(by_task, 1):
        share += count
        if share >= MOST * len(invalid):
            if few <= FEW * in_all and share >= 2 * few:
                sentences.append(f"{share} of the {len(invalid)} invalid episodes are of {few} of the {in_all} tasks")
            break
    names = (FAULTY_TOOL.match(episode.verdict.reason) for episode, _ in invalid if episode.verdict)
    for name, count in Counter(match[1] for match in names if match).most_common(1):
        if 2 * count >= len(invalid):
            sentences.append(f"{count} of the {len(invalid)} invalid episodes are faults of the tool {name}")
    return tuple(sentences)


def invalid_warning(invalid: int, episodes: int, valid_success: float, causes: Sequence[InvalidCause]) -> str:
    """One sentence where more than 1 % of the episodes are invalid; "" otherwise.

    Args:
        valid_success: success over the valid ones.
    """
    if not episodes or invalid <= MAX_SHARE * episodes:
        return ""
    over_all = valid_success * (episodes - invalid) / episodes
    text = f"{invalid} of {episodes} episodes ({invalid / episodes:.1%}) {NO_FAULT}: success is {valid_success:.3f} "
    text += f"over the valid ones, {over_all:.3f} over all"
    return text + (f"; most often {causes[0].status}: {causes[0].cause}" if causes else "")


def read_causes(records: Iterable[Any]) -> tuple[InvalidCause, ...]:
    """The causes that JSON holds; a part that is none is left out."""
    return tuple(
        InvalidCause(str(record["status"]), str(record.get("cause", "")), int(record["episodes"]))
        for record in records
        if isinstance(record, dict) and isinstance(record.get("episodes"), int) and "status" in record
    )


@dataclass(frozen=True, slots=True)
class TaskKey:
    """Which task an episode was played on."""

    env_id: str
    split: str | None
    level: int | None
    seed: int
    index: int | None


def task_of(episode: Episode) -> TaskKey:
    """The task of an episode; its samples have the same."""
    return TaskKey(episode.env_id, episode.split, episode.level, episode.seed, episode.index)


@dataclass(slots=True)
class Evaluation:
    """Means and counts over episodes. Episodes with invalid verdicts are counted apart and enter ``success_all`` alone.

    Attributes:
        episodes: how many were played; ``valid`` of them count.
        success: share of valid episodes that succeeded; ``low`` and ``high`` bound it (95 %; the samples of one task
            are one cluster, see `rlvr.agents.evaluation.statistics.share_interval`).
        success_all: share of all episodes that succeeded; an invalid one has not.
        invalid_share: share of all episodes that are invalid; ``invalid_causes`` counts them by status and reason, and
            ``gathered`` says where they gather, see `rlvr.agents.evaluation.summary.gathered_in`.
        provoked: the causes of valid episodes that got 0 as the environment failed on what the policy wrote.
        reward: mean return of the valid episodes.
        best_score: mean of the best scores known of their levels, 1 where nothing else is known; None where no
            level has one below 1.
        turns: mean number of actions.
        statuses: how often each verdict status was given, invalid ones too.
        unread: how many actions, of all episodes and turns, were not understood.
        replies: how many the agent gave, of all episodes and turns; ``cut`` of them ended at a token limit or found the
            context full, and ``flaws`` counts those in whose place something else came, by the names of
            `rlvr.agents.conversation.FLAWS`.
        tokens: mean number of sampled tokens an episode, 0 for agents without tokens.
        hack_rate: share of the valid episodes that were paid at least one half more than they were worth, and
            ``clean_success`` share of those that were worth 1, see `rlvr.agents.Episode.true_reward`; both over the
            episodes whose verdict says what they were worth, None where none does.
        usage: what all episodes took together, by the names of `rlvr.agents.Episode.usage`, invalid ones too; a name
            that is missing is not known of any.
        tasks: how many different tasks have a valid episode.
        pass_at: by k, the mean chance that one of k samples of a task succeeds; over tasks with k valid samples.
        pass_all: by k, the mean chance that all k samples of a task succeed (pass^k); over the same tasks.
        majority: the mean chance that the commonest answer of a task's samples is right; None with one sample a task,
            without answers, or where episodes have several turns.
        identical: tasks whose samples, two at least, all have the same actions.
        interval: ``low`` and ``high``.
    """

    episodes: int = 0
    valid: int = 0
    successes: int = 0
    reward: float = 0.0
    turns: float = 0.0
    tokens: float = 0.0
    statuses: dict[str, int] = field(default_factory=dict)
    tasks: int = 0
    pass_at: dict[int, float] = field(default_factory=dict)
    pass_all: dict[int, float] = field(default_factory=dict)
    majority: float | None = None
    identical: int = 0
    interval: tuple[float, float] | None = None
    invalid_causes: tuple[InvalidCause, ...] = ()
    gathered: tuple[str, ...] = ()
    provoked: tuple[InvalidCause, ...] = ()
    unread: int = 0
    replies: int = 0
    cut: int = 0
    flaws: dict[str, int] = field(default_factory=dict)
    best_score: float | None = None
    hack_rate: float | None = None
    clean_success: float | None = None
    usage: dict[str, float] = field(default_factory=dict, compare=False)  # seconds differ each time

    @property
    def cut_share(self) -> float:
        """Share of all replies that were cut; 0.0 without one."""
        return self.cut / self.replies if self.replies else 0.0

    @property
    def success(self) -> float:
        """Share of the valid episodes that succeeded; 0.0 without one."""
        return self.successes / self.valid if self.valid else 0.0

    @property
    def success_all(self) -> float:
        """Share of all episodes that succeeded, the invalid ones as failures; 0.0 without one."""
        return self.successes / self.episodes if self.episodes else 0.0

    @property
    def invalid_share(self) -> float:
        """Share of all episodes that are invalid; 0.0 without one."""
        return 1 - self.valid / self.episodes if self.episodes else 0.0

    @property
    def warnings(self) -> list[str]:
        """What keeps ``success`` from being taken at its word: more than 1 % invalid episodes, or where they gather."""
        alarm = invalid_warning(self.episodes - self.valid, self.episodes, self.success, self.invalid_causes)
        cut = f"{self.cut_share:.1%} of the replies were cut, and what would have come is not seen: {MORE_TOKENS}"
        bugs = [f"{cause}: a bug that a policy can reach" for cause in self.provoked]
        return [text for text in (alarm, *self.gathered, *bugs, cut * (self.cut_share > MAX_CUT)) if text]

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval of ``success``."""
        return (self.interval or wilson(self.successes, self.valid))[0]

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval of ``success``."""
        return (self.interval or wilson(self.successes, self.valid))[1]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, the properties that are numbers among them."""
        record = {name: getattr(self, name) for name in self.__slots__ if name != "interval"}
        for name in ("pass_at", "pass_all"):
            record[name] = {str(k): value for k, value in record[name].items()}
        record["invalid_causes"] = [asdict(cause) for cause in self.invalid_causes]
        record["provoked"] = [asdict(cause) for cause in self.provoked]
        record["gathered"] = list(self.gathered)
        return record | {name: getattr(self, name) for name in _PROPERTIES}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Evaluation:
        """The evaluation of a record that `to_dict` made, in this version or the one before.

        Raises:
            TypeError, ValueError: the record is none of an evaluation.
        """
        fields = {name: value for name, value in record.items() if name not in _PROPERTIES}
        fields["invalid_causes"] = read_causes(record.get("invalid_causes", ()))
        fields["provoked"] = read_causes(record.get("provoked", ()))
        fields["gathered"] = tuple(map(str, record.get("gathered", ())))
        for name in ("pass_at", "pass_all"):
            fields[name] = {int(k): value for k, value in fields.get(name, {}).items()}
        if "low" in record and "high" in record:
            fields["interval"] = record["low"], record["high"]
        return cls(**fields)

    def __str__(self) -> str:
        statuses = ", ".join(f"{name} {count}" for name, count in sorted(self.statuses.items()))
        causes = [f"invalid: {cause}" for cause in self.invalid_causes[:MAX_CAUSES]]
        if rest := sum(cause.episodes for cause in self.invalid_causes[MAX_CAUSES:]):
            causes.append(f"invalid: {rest} of other causes")
        causes += [f"provoked: {cause}" for cause in self.provoked[:MAX_CAUSES]]
        over_all = f"{self.successes}/{self.episodes} = {self.success_all:.3f} over all"
        if not self.valid:
            unknown = f"no episode counts, so nothing is known of the success; {over_all}"
            return "\n".join([unknown, f"verdicts: {statuses}", *self._flawed(), *causes])
        best = "" if self.best_score is None else f" (best known {self.best_score:.3f})"
        lines = [
            f"success {self.successes}/{self.valid} = {self.success:.3f} (95 % {self.low:.3f} to {self.high:.3f})"
            f" over valid episodes, {over_all}",
            f"mean reward {self.reward:.3f}{best}   turns {self.turns:.2f}"
            + (f"   sampled tokens {self.tokens:.1f}" if self.tokens else ""),  # who deals in text alone has none
        ]
        if self.hack_rate is not None:
            lines.append(
                f"hack rate {self.hack_rate:.3f} (paid and not right)   clean success {self.clean_success:.3f}"
            )
        if len(self.pass_at) > 1:
            shares = [f"pass@{k} {share:.3f}" for k, share in self.pass_at.items()]
            shares += [f"pass^{k} {share:.3f}" for k, share in self.pass_all.items() if k > 1]
            shares += [] if self.majority is None else [f"maj@{max(self.pass_at)} {self.majority:.3f}"]
            lines.append("   ".join(shares) + f"   over {self.tasks} tasks")
        unread = f"   actions not understood: {self.unread}" if self.unread else ""
        used = [f"used: {text}"] if (text := usage_text(self.usage)) and "prompt_tokens" in self.usage else []
        return "\n".join([*lines, f"verdicts: {statuses}{unread}", *self._flawed(), *causes, *used])

    def _repr_html_(self) -> str:
        return as_html(str(self))

    def _flawed(self) -> list[str]:
        """A line on replies that were cut, or in whose place something else came; none where there was none."""
        counts = {"cut": self.cut, **self.flaws}
        listed = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items() if count)
        return [f"of {self.replies} replies: {listed}"] if listed else []


_PROPERTIES = ("success", "success_all", "invalid_share", "cut_share", "low", "high")


def summarise(episodes: Sequence[Episode]) -> Evaluation:
    """The `Evaluation` of these episodes."""
    valid = [episode for episode in episodes if episode.valid]
    count = max(1, len(valid))
    by_task = samples_by_task(valid)
    successes = [sum(episode.success for episode in samples) for samples in by_task.values()]
    trials = [len(samples) for samples in by_task.values()]
    max_samples = max(trials, default=0)
    ks = sorted(
        {*(2**power for power in range(max_samples.bit_length()) if 2**power <= max_samples), max_samples} - {0}
    )
    replies = [turn for episode in episodes for turn in episode.turns if turn.stop not in NO_REPLY]
    looked_at = [episode for episode in valid if episode.true_reward is not None]
    return Evaluation(
        episodes=len(episodes),
        replies=len(replies),
        cut=sum(turn.stop in CUT for turn in replies),
        flaws=dict(Counter(turn.flaw for turn in replies if turn.flaw)),
        valid=len(valid),
        successes=sum(successes),
        reward=math.fsum(episode.reward for episode in valid) / count,
        turns=sum(len(episode.turns) for episode in valid) / count,
        tokens=sum(episode.sampled_tokens for episode in valid) / count,
        usage=total_usage(episodes),
        statuses=dict(Counter(episode.verdict.status for episode in episodes if episode.verdict is not None)),
        tasks=len(by_task),
        pass_at={k: _mean(pass_at_k(c, n, k) for c, n in zip(successes, trials, strict=True) if n >= k) for k in ks},
        pass_all={k: _mean(pass_all_k(c, n, k) for c, n in zip(successes, trials, strict=True) if n >= k) for k in ks},
        majority=_majority(by_task) if max_samples > 1 else None,
        identical=sum(_alike(samples) for samples in by_task.values()),
        interval=share_interval(successes, trials),
        invalid_causes=invalid_causes(episodes),
        provoked=provoked_causes(episodes),
        gathered=gathered_in(episodes, list(map(task_of, episodes))),
        unread=sum(map(unread_actions, episodes)),
        best_score=_best_score(valid),
        hack_rate=_mean(episode.hacked for episode in looked_at) if looked_at else None,
        clean_success=_mean((episode.true_reward or 0.0) >= 1 for episode in looked_at) if looked_at else None,
    )


def total_usage(episodes: Iterable[Episode]) -> dict[str, float]:
    """What the episodes took together, by the names of `rlvr.agents.Episode.usage`."""
    amounts: dict[str, list[float]] = {}
    for episode in episodes:
        for name, value in episode.usage.items():
            amounts.setdefault(name, []).append(value)
    return {name: math.fsum(amounts[name]) for name in USAGE if name in amounts}


def usage_text(usage: Mapping[str, float]) -> str:
    """The same as a line: tokens, the seconds and the cost, as far as they are known; "" where nothing is."""
    counts = {name: f"{usage[name]:,.0f}" for name in USAGE if name in usage and name.endswith("_tokens")}
    parts = []
    for name, detail in (("prompt_tokens", "cached_tokens"), ("completion_tokens", "reasoning_tokens")):
        if name in counts:
            of_them = f" ({counts[detail]} {detail.partition('_')[0]})" if detail in counts else ""
            parts.append(f"{counts[name]} {name.partition('_')[0]} tokens{of_them}")
    parts += [f"{usage[name]:.1f} s in the {where}" for name, where in _SECONDS.items() if name in usage]
    return ", ".join(parts) + (f"; costs {usage['cost']:.4f}" if "cost" in usage else "")


def _best_score(valid: Sequence[Episode]) -> float | None:
    """The mean over the episodes of what each verdict names as the best score known."""
    scores = [1.0 if e.verdict is None else e.verdict.parts.get("best_score", 1.0) for e in valid]
    return _mean(scores) if any(score < 1 for score in scores) else None


def unread_actions(episode: Episode) -> int:
    """How many actions of an episode were not understood."""
    return sum(turn.verdict is not None and turn.verdict.status == "unparsable" for turn in episode.turns)


def samples_by_task(episodes: Iterable[Episode]) -> dict[TaskKey, list[Episode]]:
    """The episodes of each task, tasks in the order of their first episode."""
    by_task: dict[TaskKey, list[Episode]] = defaultdict(list)
    for episode in episodes:
        by_task[task_of(episode)].append(episode)
    return dict(by_task)


def _majority(by_task: Mapping[TaskKey, Sequence[Episode]]) -> float | None:
    answers = [[None if e.verdict is None else e.verdict.answer for e in samples] for samples in by_task.values()]
    if all(answer is None for group in answers for answer in group):
        return None
    if any(len(episode.turns) > 1 for samples in by_task.values() for episode in samples):
        return None
    kinds = {env_id: grader_of(env_id) for env_id in {task.env_id for task in by_task}}
    return _mean(
        majority(votes, [e.success for e in samples], kinds[task.env_id])
        for votes, (task, samples) in zip(answers, by_task.items(), strict=True)
    )


def _alike(samples: Sequence[Episode]) -> bool:
    return len(samples) > 1 and len({tuple(turn.action for turn in episode.turns) for episode in samples}) == 1


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return math.fsum(numbers) / max(1, len(numbers))
