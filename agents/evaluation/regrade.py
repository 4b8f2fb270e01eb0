"""Grades recorded episodes anew: their actions, played again in the environments as they are now."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rlvr.agents.conversation import Conversation, Reply
from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.agents.rollout import Rollout
from rlvr.envs.rewards.extraction import visible_text

LENIENT_CHARS = 20_000  # of the end of a reply
_NUMBER = re.compile(r"-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,40})(?:\.[0-9]{1,40})?(?:/[0-9]{1,40})?")
_LETTER = re.compile(r"(?<![A-Za-z0-9'])[A-Z](?![A-Za-z0-9'])")


@dataclass(frozen=True, slots=True)
class Regraded:
    """One episode as it was recorded, and with the observations, rewards and verdicts that its actions get now."""

    before: Episode
    after: Episode

    @property
    def same_task(self) -> bool:
        """Whether the policy would see now what it saw then; if not, its actions answered something else."""
        return _seen(self.before) == _seen(self.after)

    @property
    def changed(self) -> bool:
        """Whether the verdict's status or the return is another one."""
        return _outcome(self.before) != _outcome(self.after)


class RecordedAgent:
    """Says what was said in recorded episodes.

    Args:
        episodes: by the key of the conversation that repeats each.
    """

    def __init__(self, episodes: dict[str, Episode]) -> None:
        self._episodes = episodes

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """The recorded action of each conversation's turn; an error where the record has no further one."""
        return [self._reply(conversation) for conversation in conversations]

    def _reply(self, conversation: Conversation) -> Reply:
        turns = self._episodes[conversation.key].turns
        played = conversation.messages[conversation.opening :]
        number = sum(message["role"] == "assistant" for message in played)
        if number >= len(turns):
            return Reply("", stop="error", error="the recorded episode has no further action")
        turn = turns[number]
        verdict = self._episodes[conversation.key].verdict
        error = verdict.reason.removeprefix("agent: ") if turn.stop == "error" and verdict is not None else ""
        logprobs = turn.option_logprobs
        return Reply(turn.action, turn.stop, error=error, limit=turn.limit, flaw=turn.flaw, option_logprobs=logprobs)


def regrade(rollout: Rollout, episodes: Sequence[Episode]) -> Iterator[Regraded]:
    """Play the actions of episodes of one environment again, and yield each episode as it ends.

    Args:
        rollout: plays the environment that the episodes are of, made with the settings that they were played with. Its
            agent is replaced.
        episodes: as `rlvr.agents.evaluation.read_episodes` returns them.

    Raises:
        ValueError: an episode is of another environment.
    """
    for episode in episodes:
        if episode.env_id != rollout.env_id:
            raise ValueError(f"{episode.key} is an episode of {episode.env_id}, not of {rollout.env_id}")
    requests = [
        RolloutRequest(e.seed, e.index, e.split, e.level, e.group, e.sample, salt=f"regrade {number}")
        for number, e in enumerate(episodes)
    ]
    keys = [request.key(rollout.env_id) for request in requests]
    rollout.agent = RecordedAgent(dict(zip(keys, episodes, strict=True)))
    for index, after in rollout.stream(requests):
        before = episodes[index]
        # The replies, who made them, what they took and what others noted are the record's.
        held = ("key", "tokens", "agent", "usage", "foreign")
        after = replace(after, **{name: getattr(before, name) for name in held})
        for turn, recorded in zip(after.turns, before.turns, strict=False):  # an episode may go on, or end earlier
            turn.foreign = recorded.foreign
        yield Regraded(before, after)


def lenient_successes(rollout: Rollout, episodes: Sequence[Episode]) -> int:
    """How many valid episodes of one turn succeed where any form will do: an upper bound on what the form costs.

    A success stays one. Of another reply the last number and the last single capital letter of its visible text are
    graded, each in a box; one that is right is enough. It is a figure to read beside the strict one, and no reward: it
    pays what a reply never called its answer.

    Args:
        rollout: as `regrade` takes it.
        episodes: as they were recorded; those of several turns, and invalid ones, are left out.
    """
    single = [episode for episode in episodes if episode.valid and len(episode.turns) == 1]
    succeeded = {number for number, episode in enumerate(single) if episode.success}
    for last_of in (_NUMBER, _LETTER):
        numbers, boxed = [], []
        for number, episode in enumerate(single):
            candidates = last_of.findall(visible_text(episode.turns[0].action)[-LENIENT_CHARS:])
            if number not in succeeded and candidates:
                numbers.append(number)
                boxed.append(replace(episode, turns=[replace(episode.turns[0], action=f"\\boxed{{{candidates[-1]}}}")]))
        after = {each.before.key: each.after.success for each in regrade(rollout, boxed)}
        succeeded |= {number for number, episode in zip(numbers, boxed, strict=True) if after[episode.key]}
    return len(succeeded)


def _seen(episode: Episode) -> list[tuple[str, str]]:
    return [(turn.observation, turn.role) for turn in episode.turns]


def _outcome(episode: Episode) -> tuple[str | None, float]:
    return None if episode.verdict is None else episode.verdict.status, episode.reward
